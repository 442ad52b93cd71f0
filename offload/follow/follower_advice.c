/* A plan is taken up where the program is found, and followed: what leaves and comes back behind an operation. */
#include "config/fault.h"
#include "offload/follow/follower_internal.h"

#include <stdlib.h>
#include <string.h>

static void *owner_of(const mdnn_follower_t *follower, uint32_t slot)
{
    const uint32_t range = follower->active->handles[slot];
    return range == MDNN_NO_POSITION ? NULL : follower->ranges[range].owner;
}

/* The entry for the owner among the first `count`, or the one behind them. */
static mdnn_advised_t *advised(mdnn_advised_t *entries, size_t count, const void *owner)
{
    size_t at = 0;
    while (at < count && entries[at].owner != owner)
        at++;
    return &entries[at];
}

/* All but its first `keep` bytes. */
static void add_leave(mdnn_follower_t *follower, uint32_t slot, uint64_t keep,
                      mdnn_advice_t *advice)
{
    mdnn_advised_t *const leave = follower->active->leave;
    void *const owner = owner_of(follower, slot);
    mdnn_advised_t *const entry = advised(leave, advice->leave_count, owner);
    if (!owner || (entry < leave + advice->leave_count && entry->bytes <= keep))
        return;
    advice->leave_count += entry == leave + advice->leave_count;
    *entry = (mdnn_advised_t){owner, keep};
}

/* Its first `upto` bytes. */
static void add_back(mdnn_follower_t *follower, uint32_t slot, uint64_t upto, mdnn_advice_t *advice)
{
    mdnn_advised_t *const back = follower->active->back;
    void *const owner = owner_of(follower, slot);
    mdnn_advised_t *const entry = advised(back, advice->back_count, owner);
    if (!owner || (entry < back + advice->back_count && entry->bytes >= upto))
        return;
    advice->back_count += entry == back + advice->back_count;
    *entry = (mdnn_advised_t){owner, upto};
}

/* The last parts of a range leave, and the first of those come back first. */
static void add_move(mdnn_follower_t *follower, uint32_t move, bool back, mdnn_advice_t *advice)
{
    const mdnn_parts_t *const parts = &follower->active->parts;
    const uint32_t part = follower->active->plan.schedule.moves[move].range;
    if (back)
        add_back(follower, parts->whole[part],
                 parts->begin[part] + parts->period.ranges[part].bytes, advice);
    else
        add_leave(follower, parts->whole[part], parts->begin[part], advice);
}

/* A range that nothing uses is as good as any other of its size for being away for good. */
static void send_unused(mdnn_follower_t *follower, uint32_t range, mdnn_advice_t *advice)
{
    follower_plan_t *const plan = follower->active;
    const uint64_t bytes = follower->ranges[range].bytes;
    size_t low = 0, high = plan->unused_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (plan->unused[middle].bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == plan->unused_count)
        return;
    const uint32_t first = (uint32_t)low;
    for (low += plan->unused[first].taken;
         low < plan->unused_count && plan->unused[low].bytes == bytes; low++) {
        plan->unused[first].taken++;
        if (plan->handles[plan->unused[low].range] != MDNN_NO_POSITION)
            continue;
        follower_assign(follower, range, plan->unused[low].range);
        add_leave(follower, plan->unused[low].range, 0, advice);
        return;
    }
}

/* After a whole iteration was followed, what has no place in it is what nothing uses. */
static void send_all_unused(mdnn_follower_t *follower, mdnn_advice_t *advice)
{
    follower_plan_t *const plan = follower->active;
    const uint32_t count = plan->period.operation_count;
    bool missing = false;
    for (size_t i = 0; i < plan->unused_count; i++) {
        plan->unused[i].taken = 0;
        missing |= plan->handles[plan->unused[i].range] == MDNN_NO_POSITION;
    }
    for (uint32_t i = 0; missing && i < follower->range_capacity; i++) {
        const follower_range_t *const known = &follower->ranges[i];
        if (follower_lives(follower, i) && known->slot == MDNN_NO_POSITION && !known->stays &&
            follower->sequence - known->touched_at >= count)
            send_unused(follower, i, advice);
    }
}

static bool is_within(const follower_plan_t *plan, uint32_t position, int32_t from, int32_t to)
{
    const int32_t count = (int32_t)plan->period.operation_count;
    const int32_t behind = (((int32_t)position - from) % count + count) % count;
    return behind < to - from;
}

/* passed[range]: whether the plan has it away at `position` or the next. */
static void find_away(follower_plan_t *plan, uint32_t position)
{
    const mdnn_schedule_t *const schedule = &plan->plan.schedule;
    memset(plan->passed, 0, plan->period.range_count * sizeof *plan->passed);
    for (size_t m = 0; m < schedule->move_count; m++) {
        int32_t from, to;
        mdnn_move_away(&plan->parts.period, &schedule->moves[m], &from, &to);
        if (is_within(plan, position, from, to) || is_within(plan, position + 1, from, to))
            plan->passed[plan->parts.whole[schedule->moves[m].range]] = true;
    }
}

/* Operations: what they use is called back when the program is found again. */
enum { TAKE_UP_AHEAD = 64 };

/* The program is where the plan is not followed yet. What should have left meanwhile stays, until
 * its turn comes again; what is used soon and should be there is called back. */
static void take_up(mdnn_follower_t *follower, follower_plan_t *plan, uint32_t position,
                    mdnn_advice_t *advice)
{
    const uint32_t count = plan->period.operation_count;
    follower->active = plan;
    follower->flown = follower->short_bytes = follower->short_before = 0;
    follower_find_ranges(follower);
    find_away(plan, position);
    for (uint32_t ahead = 1; ahead <= TAKE_UP_AHEAD && ahead < count; ahead++) {
        const mdnn_operation_t *const operation =
            &plan->period.operations[(position + ahead) % count];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const uint32_t slot = plan->period.uses[operation->first_use + u].range;
            if (!plan->passed[slot])
                add_back(follower, slot, UINT64_MAX, advice);
            plan->passed[slot] = true;
        }
    }
}

/* The next operation begins an iteration: from now on workspaces are those of the plan. */
static void take_choices(follower_entry_t *entry)
{
    const follower_plan_t *const plan = entry->plan;
    if (!entry->workspaces && plan->chooses)
        entry->workspaces = calloc((size_t)entry->count + 1, sizeof *entry->workspaces);
    if (entry->workspaces)
        memcpy(entry->workspaces, plan->workspaces, entry->count * sizeof *entry->workspaces);
}

void follower_follow(mdnn_follower_t *follower, follower_entry_t *entry,
                     const mdnn_history_operation_t *operation, mdnn_advice_t *advice)
{
    follower_judge_plan(follower, entry); /* first: a plan may end here */
    follower_plan_t *const plan = entry->plan;
    const uint32_t position = follower->place.position, count = plan->period.operation_count;
    const bool known = follower->active == plan && follower->followed_for > 1;
    if (known)
        follower_learn_ranges(follower, operation);
    else
        take_up(follower, plan, position, advice);
    if (known ? follower->followed_for % count == 0 : follower->followed_for >= count)
        send_all_unused(follower, advice);
    for (uint32_t i = plan->leaves.first[position]; i < plan->leaves.first[position + 1]; i++)
        add_move(follower, plan->leaves.items[i], false, advice);
    for (uint32_t i = plan->backs.first[position]; i < plan->backs.first[position + 1]; i++)
        add_move(follower, plan->backs.items[i], true, advice);
    /* Operations are still timed as they are under an early plan. */
    if (position + 1 == count && (!entry->is_early || MDNN_FAULT(EARLY_PLANS_CHOOSE)))
        take_choices(entry);
    advice->leave = plan->leave;
    advice->back = plan->back;
    advice->join = plan->joins[(position + 1) % count];
    if (++follower->flown % count != 0)
        return;
    follower_plan_with_less(follower, entry);
    follower_forecast_go_on(follower, entry);
}
