/* What the plan follower knows of what comes, and of its plans. */
#include "config/fault.h"
#include "offload/follow/follower_internal.h"

uint64_t mdnn_follower_sequence(const mdnn_follower_t *follower)
{
    return follower->sequence;
}

uint64_t mdnn_follower_followed_plan(const mdnn_follower_t *follower)
{
    return follower->active && follower->flown >= follower->active->period.operation_count
               ? follower->active->number
               : 0;
}

bool mdnn_follower_knows(const mdnn_follower_t *follower, uint32_t range)
{
    return follower->active && follower_lives(follower, range) &&
           follower->ranges[range].slot != MDNN_NO_POSITION;
}

/* That is followed where the program is. */
static const follower_plan_t *plan_of_place(const mdnn_follower_t *follower)
{
    const uint64_t period = follower->place.period;
    for (int i = 0; period != 0 && i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number == period && follower->entries[i].plan == follower->active)
            return follower->active;
    return NULL;
}

uint64_t mdnn_follower_workspace(const mdnn_follower_t *follower, uint64_t key)
{
    const uint64_t number = follower->place.period;
    const follower_entry_t *entry = follower->entries;
    while (entry < follower->entries + FOLLOWER_PERIODS && entry->number != number)
        entry++;
    if (number == 0 || entry == follower->entries + FOLLOWER_PERIODS || !entry->plan ||
        !entry->workspaces)
        return UINT64_MAX;
    const uint32_t next = (follower->place.position + 1) % entry->count;
    return entry->plan->period.operations[next].key == key ? entry->workspaces[next] : UINT64_MAX;
}

uint64_t mdnn_follower_planned_bytes(const mdnn_follower_t *follower)
{
    const follower_plan_t *const plan = plan_of_place(follower);
    return plan && follower->flown > 0 ? plan->resident_bytes[follower->place.position] : 0;
}

bool mdnn_follower_begins_period(const mdnn_follower_t *follower)
{
    const follower_entry_t *longest = NULL;
    for (int i = 0; i < FOLLOWER_PERIODS; i++) {
        const follower_entry_t *const entry = &follower->entries[i];
        if (entry->plan && (!longest || entry->followed > longest->followed))
            longest = entry;
    }
    return longest && longest->number == follower->place.period && follower->place.position == 0;
}

/* Ranges of that size that begin with the operation. */
static uint32_t births_at(const mdnn_period_t *period, uint32_t position, uint64_t bytes)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    uint32_t births = 0;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_period_range_t *const range =
            &period->ranges[period->uses[operation->first_use + u].range];
        births += range->birth == position && range->bytes == bytes;
    }
    return births;
}

/* Whether a new range of that size may have memory before the operation that names it, because the plan leaves so much
 * alone until then. It comes behind those that have begun and are not used yet. */
static bool has_room_until_used(const mdnn_follower_t *follower, const follower_plan_t *plan,
                                uint32_t next, uint64_t bytes)
{
    enum { FAR = 64 };
    const mdnn_period_t *const period = &plan->period;
    const uint64_t early_bytes = follower_unused_bytes(follower) + bytes;
    uint32_t unused = follower_unused_of(follower, bytes);
    for (uint32_t ahead = 0; ahead < FAR && ahead < period->operation_count; ahead++) {
        const uint32_t position = (next + ahead) % period->operation_count;
        const uint32_t births = births_at(period, position, bytes);
        if (births > unused)
            return true;
        unused -= births;
        if (plan->resident_bytes[position] + early_bytes > plan->budget_bytes &&
            !MDNN_FAULT(EARLY_MEMORY_NEEDS_NO_ROOM))
            return false;
    }
    return false;
}

mdnn_first_use_t mdnn_follower_first_use(const mdnn_follower_t *follower, uint64_t bytes)
{
    const follower_plan_t *const plan = plan_of_place(follower);
    if (!plan || follower->flown == 0 || plan->plan.schedule.move_count == 0)
        return MDNN_FIRST_USE_UNKNOWN;
    const uint32_t ahead = MDNN_FAULT(NEXT_IS_WHERE_THE_PROGRAM_IS) ? 0 : 1;
    const uint32_t next = (follower->place.position + ahead) % plan->period.operation_count;
    const uint32_t births = births_at(&plan->period, next, bytes);
    const bool is_next = births > 0 && (births > follower_unused_of(follower, bytes) ||
                                        MDNN_FAULT(ALL_OF_A_SIZE_ARE_NEXT));
    return is_next || has_room_until_used(follower, plan, next, bytes) ? MDNN_FIRST_USE_NEXT
                                                                       : MDNN_FIRST_USE_LATER;
}

/* Ranges of one size that begin before long. */
typedef struct births {
    uint64_t bytes;
    uint32_t there; /* so many of them have begun already */
} births_t;

/* Whether one more of that size begins that is not there yet. `sizes`: as many as there are. */
static bool is_missing(const mdnn_follower_t *follower, births_t *sizes, size_t *count,
                       uint64_t bytes)
{
    size_t i = 0;
    while (i < *count && sizes[i].bytes != bytes)
        i++;
    if (i == *count)
        sizes[(*count)++] = (births_t){bytes, follower_unused_of(follower, bytes)};
    if (sizes[i].there == 0 || MDNN_FAULT(BIRTHS_THAT_HAVE_BEEN))
        return true;
    sizes[i].there--;
    return false;
}

size_t mdnn_follower_births(const mdnn_follower_t *follower, uint64_t bytes[MDNN_BIRTHS_AHEAD])
{
    enum { NEAR = 12, MOST_SIZES = 16, MOST_USES = 512 }; /* operations, and what they name */
    const follower_plan_t *const plan = plan_of_place(follower);
    births_t sizes[MOST_SIZES];
    size_t count = 0, size_count = 0, looks = 0;
    if (!plan || follower->flown == 0 || plan->plan.schedule.move_count == 0)
        return 0;
    const mdnn_period_t *const period = &plan->period;
    for (uint32_t ahead = 1; ahead <= NEAR && ahead < period->operation_count; ahead++) {
        const uint32_t position = (follower->place.position + ahead) % period->operation_count;
        const mdnn_operation_t *const operation = &period->operations[position];
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const mdnn_period_range_t *const range =
                &period->ranges[period->uses[operation->first_use + u].range];
            if (++looks > MOST_USES || size_count == MOST_SIZES || count == MDNN_BIRTHS_AHEAD)
                return count;
            if (range->birth == position && is_missing(follower, sizes, &size_count, range->bytes))
                bytes[count++] = range->bytes;
        }
    }
    return count;
}

uint32_t mdnn_follower_distance(const mdnn_follower_t *follower, uint32_t range)
{
    const mdnn_next_use_t next = mdnn_history_next_use(follower->history, range);
    if (next.expectation == MDNN_EXPECT_USE)
        return next.operations;
    if (next.expectation == MDNN_EXPECT_DEATH)
        return UINT32_MAX;
    return follower->place.period != 0 && follower_is_unused(follower, range) ? UINT32_MAX : 0;
}

static void report_plan(mdnn_follower_report_t *report, const follower_plan_t *made)
{
    report->period_operations = made->period.operation_count;
    report->verdict = made->plan.verdict;
    report->policy = made->plan.policy;
    report->floor_bytes = made->plan.floor_bytes;
    report->compute_us = made->compute_us;
    report->predicted_us = made->plan.predicted.time_us;
    report->link_bound_us = made->link_bound_us;
    report->planning_ms = made->planning_ms;
    report->out_bytes = made->plan.predicted.out_bytes;
    report->in_bytes = made->plan.predicted.in_bytes;
}

static mdnn_plan_state_t state_of(const mdnn_follower_t *follower)
{
    for (int i = 0; follower->place.period != 0 && i < FOLLOWER_PERIODS; i++) {
        const follower_entry_t *const entry = &follower->entries[i];
        if (entry->number != follower->place.period)
            continue;
        if (entry->plan)
            return entry->plan->plan.verdict == MDNN_VERDICT_FITS ? MDNN_PLAN_FOLLOWED
                                                                  : MDNN_PLAN_IMPOSSIBLE;
        return entry->stage == FOLLOWER_STAGE_TIMING     ? MDNN_PLAN_TIMING
               : entry->stage == FOLLOWER_STAGE_PLANNING ? MDNN_PLAN_PLANNING
                                                         : MDNN_PLAN_IMPOSSIBLE;
    }
    return follower->periods > 0 ? MDNN_PLAN_LOST : MDNN_PLAN_SEARCHING;
}

mdnn_follower_report_t mdnn_follower_report(const mdnn_follower_t *follower)
{
    mdnn_follower_report_t report = {.state = state_of(follower),
                                     .operations = follower->sequence,
                                     .periods = follower->periods,
                                     .followed = follower->place.period != 0,
                                     .place_period = follower->place.period,
                                     .place_operations = follower->iteration,
                                     .in_step = follower->followed_for,
                                     .policy = follower->config.policy};
    uint64_t most = 0;
    for (int i = 0; i < FOLLOWER_PERIODS; i++) {
        const follower_entry_t *const entry = &follower->entries[i];
        if (!entry->plan || entry->followed < most)
            continue;
        most = entry->followed;
        report.period = entry->number;
        report_plan(&report, entry->plan);
        report.short_bytes = entry->plan->short_bytes;
        follower_forecast_report(follower, entry, &report);
    }
    return report;
}
