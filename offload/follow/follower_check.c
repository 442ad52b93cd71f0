#include "offload/follow/follower_check.h"

#ifdef MDNN_DEBUG

#include "config/rule.h"
#include "offload/follow/follower_internal.h"

/* ---- ranges ---- */

static bool range_holds(const mdnn_follower_t *follower, uint32_t range, const char **broken)
{
    const follower_range_t *const known = &follower->ranges[range];
    if (known->touched_at == follower_never) {
        MDNN_RULE(known->slot == MDNN_NO_POSITION);
        return true;
    }
    MDNN_RULE(known->touched_at <= follower->sequence);
    if (!follower->active || known->slot == MDNN_NO_POSITION)
        return true;
    MDNN_RULE(known->slot < follower->active->period.range_count);
    MDNN_RULE(follower->active->handles[known->slot] == range);
    return true;
}

static bool handles_hold(const mdnn_follower_t *follower, const char **broken)
{
    for (uint32_t slot = 0; slot < follower->active->period.range_count; slot++) {
        const uint32_t range = follower->active->handles[slot];
        MDNN_RULE(range == MDNN_NO_POSITION ||
                  (range < follower->range_capacity && follower->ranges[range].slot == slot));
    }
    return true;
}

static bool ranges_hold(const mdnn_follower_t *follower, uint64_t *looks, const char **broken)
{
    for (uint32_t range = 0; range < follower->range_capacity; range++)
        if (!range_holds(follower, range, broken))
            return false;
    for (uint32_t i = 0; i < follower->begun_count && i < FOLLOWER_BEGUN; i++)
        MDNN_RULE(follower->begun[i] < follower->range_capacity);
    *looks += follower->range_capacity;
    if (!follower->active)
        return true;
    *looks += follower->active->period.range_count;
    return handles_hold(follower, broken);
}

/* ---- plans ---- */

static bool lists_hold(const follower_plan_t *plan, const follower_lists_t *lists,
                       const char **broken)
{
    const uint32_t count = plan->period.operation_count;
    MDNN_RULE(lists->first[0] == 0);
    for (uint32_t position = 0; position < count; position++)
        MDNN_RULE(lists->first[position] <= lists->first[position + 1]);
    MDNN_RULE(lists->first[count] <= plan->plan.schedule.move_count);
    for (uint32_t i = 0; i < lists->first[count]; i++)
        MDNN_RULE(lists->items[i] < plan->plan.schedule.move_count);
    return true;
}

static bool plan_holds(const mdnn_follower_t *follower, const follower_entry_t *entry,
                       const follower_plan_t *plan, uint64_t *looks, const char **broken)
{
    MDNN_RULE(plan->number > 0 && plan->number <= follower->plans);
    MDNN_RULE(plan->period.operation_count == entry->count);
    MDNN_RULE(plan->short_bytes <= entry->short_bytes);
    for (size_t i = 1; i < plan->unused_count; i++)
        MDNN_RULE(plan->unused[i - 1].bytes <= plan->unused[i].bytes);
    *looks += 2 * ((uint64_t)entry->count + plan->plan.schedule.move_count) + plan->unused_count;
    return lists_hold(plan, &plan->leaves, broken) && lists_hold(plan, &plan->backs, broken);
}

/* ---- periods ---- */

static uint32_t untimed_of(const follower_entry_t *entry)
{
    uint32_t untimed = 0;
    for (uint32_t i = 0; i < entry->count; i++)
        untimed += entry->times_us[i] < 0;
    return untimed;
}

static bool stage_holds(const mdnn_follower_t *follower, const follower_entry_t *entry,
                        uint64_t *looks, const char **broken)
{
    MDNN_RULE(entry->stage != FOLLOWER_STAGE_PLANNING ||
              (follower->job && follower->job_period == entry->number));
    MDNN_RULE(!entry->plan || entry->is_early || entry->stage == FOLLOWER_STAGE_PLANNED);
    MDNN_RULE(!entry->is_early ||
              (entry->plan && !entry->before && entry->stage != FOLLOWER_STAGE_PLANNED));
    if (entry->stage == FOLLOWER_STAGE_PLANNED)
        return true;
    *looks += entry->count;
    MDNN_RULE(entry->times_us);
    MDNN_RULE(entry->untimed == untimed_of(entry));
    return true;
}

static bool entry_holds(const mdnn_follower_t *follower, const follower_entry_t *entry,
                        uint64_t *looks, const char **broken)
{
    if (entry->number == 0) {
        MDNN_RULE(!entry->plan && !entry->before && !entry->times_us && entry->count == 0);
        return true;
    }
    MDNN_RULE(entry->number <= follower->periods && entry->count > 0);
    for (const follower_entry_t *other = follower->entries; other < entry; other++)
        MDNN_RULE(other->number != entry->number);
    MDNN_RULE(entry->tries <= FOLLOWER_TRIES && entry->replans <= FOLLOWER_REPLANS);
    MDNN_RULE(entry->short_bytes <= follower->config.budget_bytes);
    MDNN_RULE(!entry->before || entry->plan);
    MDNN_RULE(!entry->before ||
              (entry->before != follower->active && entry->before != entry->plan));
    return stage_holds(follower, entry, looks, broken) &&
           (!entry->plan || plan_holds(follower, entry, entry->plan, looks, broken)) &&
           (!entry->before || plan_holds(follower, entry, entry->before, looks, broken));
}

bool mdnn_follower_is_valid(const mdnn_follower_t *follower, const char **broken, uint64_t *looks)
{
    bool is_of_entry = false;
    for (int i = 0; i < FOLLOWER_PERIODS; i++) {
        if (!entry_holds(follower, &follower->entries[i], looks, broken))
            return false;
        is_of_entry =
            is_of_entry || (follower->active && follower->entries[i].plan == follower->active);
    }
    MDNN_RULE(!follower->active || is_of_entry);
    return ranges_hold(follower, looks, broken);
}

void mdnn_follower_check(const mdnn_follower_t *follower)
{
    static mdnn_rule_pace_t pace;
    const char *broken = NULL;
    uint64_t looks = 0;
    if (!mdnn_rule_is_due(&pace))
        return;
    if (!mdnn_follower_is_valid(follower, &broken, &looks))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
    mdnn_rule_took(&pace, looks);
}

#else

/* ISO C wants something in each file. */
typedef int mdnn_no_follower_check_t;

#endif
