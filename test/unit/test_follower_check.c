/* What must hold of the plan follower: each rule is broken by hand, and the check names it. */
#include "test/unit/broken_rule.h"

#include "offload/follow/follower_check.c"

#define MIB ((uint64_t)1 << 20)
enum { RANGES = 4, UNUSED = 2, OPERATIONS = 8, ITERATIONS = 40 };
static int owner;
static follower_plan_t other_plan;

/* A program of ranges of which one has to be away at a time, and some that nothing uses, is followed; another
 * has just begun to be timed, and nothing is known of its operations' times. */
static void record(mdnn_follower_t *follower, uint64_t key, uint32_t range, bool *time)
{
    const mdnn_use_t use = {range, MDNN_USE_UNKNOWN};
    const mdnn_history_operation_t operation = {
        .key = key, .time_us = *time && key < 100 ? 1000 : -1, .uses = &use, .use_count = 1};
    mdnn_advice_t advice;
    mdnn_follower_record(follower, &operation, &advice);
    *time = advice.time;
}

static mdnn_follower_t *new_follower(void)
{
    const mdnn_follower_config_t config = {
        .policy = MDNN_POLICY_AUTO,
        .budget_bytes = 8 * (RANGES - 1) * MIB,
        .host_limit_bytes = UINT64_MAX,
        .link = {1e5, 1e5, 1e5, 1e5, 1},
        .effort = 50,
    };
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    uint32_t ranges[RANGES];
    bool time = false;
    assert_non_null(follower);
    for (uint64_t i = 0; i < UNUSED; i++)
        mdnn_follower_begin_range(follower, (i + 1) * MIB, false, &owner);
    for (int i = 0; i < RANGES; i++)
        ranges[i] = mdnn_follower_begin_range(follower, 8 * MIB, false, &owner);
    for (int i = 0; i < ITERATIONS * OPERATIONS; i++)
        record(follower, 1 + (uint64_t)(i % OPERATIONS), ranges[i % OPERATIONS / 2], &time);
    for (int i = 0; follower->periods < 2; i++)
        record(follower, 100 + (uint64_t)(i % 3), ranges[i % 3], &time);
    for (int i = 0; i < 3 * OPERATIONS; i++)
        record(follower, 1 + (uint64_t)(i % OPERATIONS), ranges[i % OPERATIONS / 2], &time);
    assert_true(follower->active && follower->active->plan.schedule.move_count > 0);
    assert_true(follower->active->unused_count > 1);
    return follower;
}

static const char *first_broken(const void *follower)
{
    const char *broken = NULL;
    uint64_t looks = 0;
    return mdnn_follower_is_valid(follower, &broken, &looks) ? NULL : broken;
}

static follower_entry_t *entry_in(mdnn_follower_t *follower, follower_stage_t stage)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].number != 0 && follower->entries[i].stage == stage)
            return &follower->entries[i];
    fail_msg("no entry in stage %d", stage);
    return NULL;
}

static follower_entry_t *planned(mdnn_follower_t *follower)
{
    return entry_in(follower, FOLLOWER_STAGE_PLANNED);
}

static follower_entry_t *in_timing(mdnn_follower_t *follower)
{
    return entry_in(follower, FOLLOWER_STAGE_TIMING);
}

/* BREAKS(name, what is done to `follower`) */
#define BREAKS(name, ...)                                                                          \
    static void name(void *structure)                                                              \
    {                                                                                              \
        mdnn_follower_t *const follower = structure;                                               \
        __VA_ARGS__;                                                                               \
    }

BREAKS(dead_with_slot, follower->ranges[follower->range_capacity - 1].slot = 0)
BREAKS(touched_later, follower->ranges[0].touched_at = follower->sequence + 1)
BREAKS(slot_of_no_range, follower->ranges[UNUSED].slot = 1000)
BREAKS(slot_of_two, follower->ranges[UNUSED].slot = follower->ranges[UNUSED + 1].slot)
BREAKS(handle_of_nobody, follower->ranges[UNUSED].slot = MDNN_NO_POSITION)
BREAKS(begun_unknown, follower->begun[0] = follower->range_capacity)
BREAKS(free_with_times, follower_entry_t *const entry = &follower->entries[FOLLOWER_PERIODS - 1];
       assert_true(entry->number == 0); entry->count = 1)
BREAKS(number_never_found, planned(follower)->number = 1000)
BREAKS(number_twice, follower->entries[1].number = follower->entries[0].number)
BREAKS(tried_for_ever, planned(follower)->tries = FOLLOWER_TRIES + 1)
BREAKS(leaves_more_than_there_is,
       planned(follower)->short_bytes = follower->config.budget_bytes + 1)
BREAKS(before_nothing, in_timing(follower)->before = planned(follower)->plan)
BREAKS(before_is_followed, planned(follower)->before = planned(follower)->plan)
BREAKS(planning_without_job, in_timing(follower)->stage = FOLLOWER_STAGE_PLANNING)
BREAKS(planned_too_early, in_timing(follower)->plan = planned(follower)->plan)
BREAKS(early_plan_lost, planned(follower)->is_early = true; planned(follower)->before = &other_plan)
BREAKS(times_lost, in_timing(follower)->times_us = NULL)
BREAKS(untimed_miscounted, in_timing(follower)->untimed += 1)
BREAKS(followed_is_nobodys, follower->active = (follower_plan_t *)&owner)
BREAKS(plan_without_number, follower->active->number = 0)
BREAKS(plan_of_another_period, follower->active->period.operation_count--)
BREAKS(plan_leaves_more_alone, follower->active->short_bytes++)
BREAKS(unused_not_sorted, follower->active->unused[0].bytes = UINT64_MAX)
BREAKS(list_begins_late, follower->active->leaves.first[0] = 1)
BREAKS(list_goes_back, follower->active->backs.first[1] = 1000)
BREAKS(list_names_no_move, follower_lists_t *const lists = &follower->active->leaves;
       lists->items[0] = (uint32_t)follower->active->plan.schedule.move_count)

static const broken_rule_t rules[] = {
    {"known->slot == MDNN_NO_POSITION", dead_with_slot},
    {"known->touched_at <= follower->sequence", touched_later},
    {"known->slot < follower->active->period.range_count", slot_of_no_range},
    {"follower->active->handles[known->slot] == range", slot_of_two},
    {"follower->ranges[range].slot == slot", handle_of_nobody},
    {"follower->begun[i]", begun_unknown},
    {"entry->count == 0", free_with_times},
    {"entry->number <= follower->periods", number_never_found},
    {"other->number != entry->number", number_twice},
    {"entry->tries <= FOLLOWER_TRIES", tried_for_ever},
    {"entry->short_bytes <= follower->config", leaves_more_than_there_is},
    {"!entry->before || entry->plan", before_nothing},
    {"entry->before != follower->active", before_is_followed},
    {"FOLLOWER_STAGE_PLANNING", planning_without_job},
    {"!entry->plan || entry->is_early", planned_too_early},
    {"!entry->is_early", early_plan_lost},
    {"entry->times_us", times_lost},
    {"entry->untimed ==", untimed_miscounted},
    {"is_of_entry", followed_is_nobodys},
    {"plan->number > 0", plan_without_number},
    {"plan->period.operation_count == entry->count", plan_of_another_period},
    {"plan->short_bytes <=", plan_leaves_more_alone},
    {"plan->unused[i - 1]", unused_not_sorted},
    {"lists->first[0] == 0", list_begins_late},
    {"lists->first[position] <=", list_goes_back},
    {"lists->items[i] <", list_names_no_move},
};

static void each_broken_rule_is_named(void **state)
{
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        mdnn_follower_t *const follower = new_follower();
        missed += !finds(first_broken, follower, &rules[i]);
        mdnn_follower_destroy(follower);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_broken_rule_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
