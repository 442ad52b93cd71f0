/* The timing replay: cases worked out by hand, and random schedules under watch. MDNN_TEST_SEED=n
 * repeats the instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/random_period.h"
#include "test/unit/replay_checker.h"

static random_period_t instance;

/* ---- by hand ---- */

/* Five operations of 10 us. Range 0, 40 bytes, is written by the first and read by the last; range
 * 1, 30 bytes, lives from the third to the fourth. Link: 4 bytes a microsecond. */
static void fill_by_hand(void)
{
    random_period_start(&instance, 1);
    random_period_range(&instance, 40, 0, 4);
    random_period_range(&instance, 30, 2, 3);
    for (uint32_t i = 0; i < 5; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 10, 0);
        if (i == 0 || i == 4)
            random_period_use(&instance, 0, i == 0 ? MDNN_USE_WRITE : MDNN_USE_READ);
        if (i == 2 || i == 3)
            random_period_use(&instance, 1, MDNN_USE_WRITE);
    }
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
}

static const mdnn_link_t four = {4, 4, 4, 4, 0};

static mdnn_replay_result_t replay_by_hand(mdnn_move_t *move, uint32_t *join, mdnn_link_t link,
                                           uint64_t budget_bytes)
{
    const mdnn_schedule_t schedule = {
        .moves = move, .move_count = move != NULL, .joins = join, .join_count = join != NULL};
    mdnn_replay_request_t request = {.period = &instance.period,
                                     .schedule = &schedule,
                                     .link = link,
                                     .budget_bytes = budget_bytes};
    mdnn_replay_result_t result = {0};
    mdnn_status_t status;
    assert_int_equal(mdnn_schedule_check(&instance.period, &schedule), MDNN_STATUS_OK);
    assert_null(replay_watched(&request, &result, &status));
    assert_int_equal(status, MDNN_STATUS_OK);
    return result;
}

CASE(times_are_those_worked_out_by_hand)
{
    mdnn_move_t move = {0, 0, 3, 4};
    uint32_t join = 1;
    mdnn_replay_result_t result;
    fill_by_hand();
    result = replay_by_hand(NULL, NULL, four, UINT64_MAX);
    assert_true(result.time_us == 50 && result.peak_bytes == 70 && result.out_bytes == 0);
    /* Out from 10 to 20, in from 40 to 50 while nothing runs. */
    result = replay_by_hand(&move, NULL, four, 40);
    assert_true(result.time_us == 60 && result.wait_return_us == 10 && result.peak_bytes == 40);
    assert_true(result.out_bytes == 40 && result.in_bytes == 40 && result.host_peak_bytes == 40);
    /* Returning beside the last operation but one hides all; that needs memory for both. */
    move.return_after = 2;
    result = replay_by_hand(&move, NULL, four, 70);
    assert_true(result.time_us == 50 && result.peak_bytes == 70);
    /* At half the rate the copy out lasts until 30, when range 1 is wanted at 20. */
    move.return_after = 3;
    result = replay_by_hand(&move, NULL, (mdnn_link_t){2, 4, 2, 4, 0}, 40);
    assert_true(result.time_us == 70 && result.wait_memory_us == 10);
    /* vDNN: the second operation waits for the copy, or the third. */
    result = replay_by_hand(&move, &join, four, 40);
    assert_true(result.time_us == 70 && result.wait_join_us == 10);
    join = 2;
    result = replay_by_hand(&move, &join, (mdnn_link_t){2, 4, 2, 4, 0}, 70);
    assert_true(result.time_us == 70 && result.wait_join_us == 10);
    /* Latency counts for each copy, and range 1 waits for the first. */
    result = replay_by_hand(&move, NULL, (mdnn_link_t){4, 4, 4, 4, 3}, 40);
    assert_true(result.time_us == 66 && result.wait_memory_us == 3);
}

CASE(too_small_a_budget_is_told)
{
    mdnn_move_t move = {0, 0, 3, 4};
    const mdnn_schedule_t schedule = {.moves = &move, .move_count = 1};
    mdnn_replay_request_t request = {
        .period = &instance.period, .schedule = &schedule, .link = four, .budget_bytes = 39};
    mdnn_replay_result_t result = {.time_us = -7};
    fill_by_hand();
    assert_int_equal(mdnn_replay(&request, &result), MDNN_STATUS_NOT_FOUND);
    request.budget_bytes = 40;
    request.link.in_bytes_per_us = 0;
    assert_int_equal(mdnn_replay(&request, &result), MDNN_STATUS_INVALID_ARGUMENT);
    assert_true(result.time_us == -7);
}

/* Both directions at once: two ranges cross on a link that gives each half. */
CASE(directions_share_a_link_that_cannot_do_both)
{
    mdnn_move_t moves[] = {{0, 0, 1, 3}, {1, 1, 3, 4}};
    const mdnn_schedule_t schedule = {.moves = moves, .move_count = 2};
    mdnn_replay_request_t request = {.period = &instance.period,
                                     .schedule = &schedule,
                                     .link = {4, 4, 2, 2, 0},
                                     .budget_bytes = UINT64_MAX};
    mdnn_replay_result_t result;
    mdnn_status_t status;
    random_period_start(&instance, 1);
    random_period_range(&instance, 40, 0, 3);
    random_period_range(&instance, 40, 1, 4);
    for (uint32_t i = 0; i < 5; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 10, 0);
        if (i == 0 || i == 3)
            random_period_use(&instance, 0, MDNN_USE_WRITE);
        if (i == 1 || i == 4)
            random_period_use(&instance, 1, MDNN_USE_WRITE);
    }
    assert_int_equal(mdnn_schedule_check(&instance.period, &schedule), MDNN_STATUS_OK);
    assert_null(replay_watched(&request, &result, &status));
    /* 0 out 10-20; at 20 both begin, half as fast, until 40; 3 runs 40-50, 1 in 50-60, 4 60-70. */
    assert_true(status == MDNN_STATUS_OK && result.time_us == 70);
    assert_true(result.wait_return_us == 20);
}

/* The mechanism trusts no host copy of what is mapped, and copies nothing that is. */
CASE(what_was_only_read_is_copied_out_behind_its_last_use)
{
    mdnn_move_t move = {0, 0, 2, 3};
    const mdnn_schedule_t schedule = {.moves = &move, .move_count = 1};
    mdnn_replay_request_t request = {.period = &instance.period,
                                     .schedule = &schedule,
                                     .link = four,
                                     .budget_bytes = UINT64_MAX};
    mdnn_replay_result_t result;
    mdnn_status_t status;
    random_period_start(&instance, 1);
    random_period_range(&instance, 40, MDNN_NO_POSITION, MDNN_NO_POSITION);
    for (uint32_t i = 0; i < 4; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 10, 0);
        if (i == 0 || i == 3)
            random_period_use(&instance, 0, MDNN_USE_READ);
    }
    assert_null(replay_watched(&request, &result, &status));
    assert_true(status == MDNN_STATUS_OK && result.out_bytes == 40 && result.in_bytes == 40);
    /* Out 10-20, in 30-40 while nothing runs. */
    assert_true(result.time_us == 50 && result.wait_return_us == 10);
    assert_true(result.host_peak_bytes == 40);
}

/* At 1 byte a microsecond it lasts from 10 to 50; range 0 is to return from 20 on and is written
 * at 40. */
CASE(a_leave_that_is_called_off_delays_nobody)
{
    mdnn_move_t move = {0, 0, 1, 4};
    fill_by_hand();
    instance.uses[instance.period.use_count - 1].role = MDNN_USE_WRITE;
    const mdnn_replay_result_t result =
        replay_by_hand(&move, NULL, (mdnn_link_t){1, 4, 1, 4, 0}, 70);
    assert_true(result.time_us == 50 && result.out_bytes == 40 && result.in_bytes == 0);
    assert_true(result.host_peak_bytes == 40);
}

/* ---- random ---- */

static void random_schedule(mdnn_schedule_t *schedule)
{
    mdnn_gap_t *gaps;
    size_t count;
    assert_int_equal(mdnn_period_gaps(&instance.period, &gaps, &count), MDNN_STATUS_OK);
    for (size_t g = 0; g < count; g++) {
        const mdnn_gap_t *const gap = &gaps[g];
        mdnn_move_t move = mdnn_move_of_gap(gap);
        if (random_period_below(&instance, 2))
            continue;
        if (gap->from != MDNN_GAP_ALWAYS) {
            move.leave_after +=
                (int32_t)random_period_below(&instance, (uint64_t)(gap->to - 1 - gap->from));
            if (!gap->one_way)
                move.return_after =
                    move.leave_after +
                    (int32_t)random_period_below(&instance, (uint64_t)(gap->to - move.leave_after));
        }
        assert_int_equal(mdnn_schedule_add_move(schedule, move), MDNN_STATUS_OK);
    }
    for (uint32_t i = 0; i < instance.period.operation_count; i++)
        if (random_period_below(&instance, 6) == 0)
            assert_int_equal(mdnn_schedule_add_join(schedule, i), MDNN_STATUS_OK);
    free(gaps);
}

static void check_seed(uint64_t seed)
{
    mdnn_schedule_t schedule = {0};
    uint64_t resident[RANDOM_PERIOD_OPERATIONS], peak = 0;
    if (seed % 3)
        random_period_fill(&instance, seed, 2 + (uint32_t)(seed % 14), 1 + (uint32_t)(seed % 11));
    else
        random_period_training(&instance, seed, 1 + (uint32_t)(seed % 8));
    random_schedule(&schedule);
    mdnn_schedule_resident_bytes(&instance.period, &schedule, resident);
    for (uint32_t i = 0; i < instance.period.operation_count; i++)
        peak = resident[i] > peak ? resident[i] : peak;
    mdnn_replay_request_t request = {.period = &instance.period,
                                     .schedule = &schedule,
                                     .link = random_period_link(&instance),
                                     .budget_bytes = peak,
                                     .iterations = 1 + (uint32_t)(seed % 5)};
    mdnn_replay_result_t result = {0};
    mdnn_status_t status;
    const mdnn_status_t check = mdnn_schedule_check(&instance.period, &schedule);
    const char *fault = replay_watched(&request, &result, &status);
    CHECK(check == MDNN_STATUS_OK);
    CHECK(status == MDNN_STATUS_OK);
    if (fault)
        seed_failed(fault);
    request.budget_bytes = peak - 1;
    if (peak > 0)
        assert_int_equal(mdnn_replay(&request, &result), MDNN_STATUS_NOT_FOUND);
    mdnn_schedule_fini(&schedule);
}

CASE(random_schedules_keep_every_rule)
{
    each_seed(check_seed, 20000);
}

CASE(schedules_without_sense_are_refused)
{
    static const mdnn_move_t bad[] = {
        {0, 0, 3, 3},          {0, -1, 3, 4},
        {0, 0, 4, 4},          {0, 3, 3, 4},
        {1, 2, 3, 4},          {7, 0, 3, 4},
        {0, 0, 3, MDNN_NEVER}, {0, 1, 0, 4},
        {0, 4, 8, 9},          {0, MDNN_GAP_ALWAYS, MDNN_NEVER, MDNN_NEVER},
    };
    fill_by_hand();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mdnn_move_t move = bad[i];
        const mdnn_schedule_t schedule = {.moves = &move, .move_count = 1};
        assert_int_equal(mdnn_schedule_check(&instance.period, &schedule),
                         MDNN_STATUS_INVALID_ARGUMENT);
    }
    mdnn_move_t twice[] = {{0, 0, 3, 4}, {0, 0, 3, 4}};
    uint32_t joins[] = {2, 2}, choices[] = {0, 0, 1, 0, 0};
    const mdnn_schedule_t schedules[] = {
        {.moves = twice, .move_count = 2}, {.joins = joins, .join_count = 2}, {.choices = choices}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(mdnn_schedule_check(&instance.period, &schedules[i]),
                         MDNN_STATUS_INVALID_ARGUMENT);
}

int main(void)
{
    return run_cases("offload_replay");
}
