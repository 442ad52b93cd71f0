/* Ranks that share a link: times worked out by hand, and what plans for them promise. MDNN_TEST_SEED=n repeats the
 * instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/best_plan.h"
#include "offload/plan/ranks_plan.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/few.h"
#include "test/unit/random_period.h"

static random_period_t instance;

/* Copies 100 bytes a microsecond in each direction, 50 where both are busy. */
static const mdnn_link_t one_link = {100, 100, 50, 50, 0};

/* ---- beside programs of another kind ---- */

/* A range of 1,000 bytes makes room for a workspace of as many: it copies out and back while nothing runs. */
static void fill_room_maker(void)
{
    random_period_start(&instance, 1);
    const uint32_t moved = random_period_range(&instance, 1000, MDNN_NO_POSITION, MDNN_NO_POSITION);
    for (int i = 0; i < 3; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, i == 1 ? 1000 : 0);
        if (i != 1)
            random_period_use(&instance, moved, MDNN_USE_READ);
    }
}

static mdnn_move_plan_t plan_of_room_maker(uint32_t others)
{
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    const mdnn_best_plan_request_t request = {.plan = {.period = &instance.period,
                                                       .policy = MDNN_POLICY_AUTO,
                                                       .link = {100, 100, 100, 100, 0},
                                                       .budget_bytes = 1000,
                                                       .host_limit_bytes = UINT64_MAX,
                                                       .ranks = {.others = others}},
                                              .chunk_bytes = 10};
    fill_room_maker();
    assert_int_equal(mdnn_best_plan(&request, &parts, &plan), MDNN_STATUS_OK);
    assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
    mdnn_parts_fini(&parts);
    mdnn_move_plan_fini(&plan);
    return plan;
}

CASE(beside_others_a_plan_is_predicted_with_its_part_of_the_link)
{
    assert_true(fabs(plan_of_room_maker(0).predicted.time_us - 23) < 1e-9);
    for (uint32_t others = 0; others < 4; others++) {
        const mdnn_move_plan_t plan = plan_of_room_maker(others);
        assert_true(fabs(plan.predicted.time_us - (3 + 20 * (others + 1))) < 1e-9);
        assert_true(plan.predicted.time_us >= plan.link_bound_us * (1 - 1e-9));
    }
}

/* ---- the replay of ranks, by hand ---- */

/* A range of 1,000 bytes, used at first and last, which leaves between: 10 us out and 10 us back. */
static void fill_chain(double first_us, double between_us)
{
    random_period_start(&instance, 1);
    const uint32_t moved = random_period_range(&instance, 1000, MDNN_NO_POSITION, MDNN_NO_POSITION);
    for (int i = 0; i < 4; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER,
                                i == 0 || i == 3 ? first_us : between_us, 0);
        if (i == 0 || i == 3)
            random_period_use(&instance, moved, MDNN_USE_READ);
    }
}

static void replay_two(const mdnn_schedule_t *first, const mdnn_schedule_t *second,
                       mdnn_replay_result_t *results)
{
    const mdnn_replay_request_t ranks[2] = {{.period = &instance.period,
                                             .schedule = first,
                                             .link = one_link,
                                             .budget_bytes = UINT64_MAX},
                                            {.period = &instance.period,
                                             .schedule = second,
                                             .link = one_link,
                                             .budget_bytes = UINT64_MAX}};
    assert_true(mdnn_ranks_replay(ranks, 2, results) == MDNN_STATUS_OK);
}

static mdnn_move_t chain_move(void)
{
    return (mdnn_move_t){.range = 0, .leave_after = 0, .return_after = 1, .return_before = 3};
}

CASE(two_that_copy_at_once_take_twice_as_long)
{
    mdnn_replay_result_t results[2];
    mdnn_move_t move = chain_move();
    const mdnn_schedule_t schedule = {.moves = &move, .move_count = 1}, nothing = {0};
    fill_chain(1, 12);
    replay_two(&schedule, &nothing, results);
    assert_true(results[0].time_us == 26); /* each copy beside an operation of 12 us */
    move.return_after = 2;                 /* so that all of the return is waited for */
    fill_chain(1, 25);
    replay_two(&schedule, &nothing, results);
    assert_true(results[0].wait_return_us == 10);
    replay_two(&schedule, &schedule, results);
    assert_true(results[0].wait_return_us == 20 && results[1].wait_return_us == 20);
    assert_true(results[0].time_us == 72 && results[1].time_us == 72);
}

CASE(the_slowest_rank_is_waited_for)
{
    mdnn_replay_result_t results[2];
    mdnn_move_t move = chain_move();
    mdnn_schedule_t schedule = {.moves = &move, .move_count = 1};
    const mdnn_schedule_t nothing = {0};
    move.return_after = 2; /* behind the last operation of 5 us: 10 us are waited for */
    fill_chain(1, 10);
    replay_two(&schedule, &nothing, results);
    assert_true(results[0].time_us == results[1].time_us);
    assert_true(results[0].wait_return_us == 10);
    assert_true(results[1].wait_ranks_us == 10);
    assert_true(results[0].wait_ranks_us == 0);
    assert_true(results[1].compute_us == 22);
}

CASE(one_rank_is_as_without_ranks)
{
    mdnn_replay_result_t alone, results[1];
    mdnn_move_t move = chain_move();
    const mdnn_schedule_t schedule = {.moves = &move, .move_count = 1};
    fill_chain(3, 7);
    const mdnn_replay_request_t request = {.period = &instance.period,
                                           .schedule = &schedule,
                                           .link = one_link,
                                           .budget_bytes = UINT64_MAX};
    assert_true(mdnn_replay(&request, &alone) == MDNN_STATUS_OK);
    assert_true(mdnn_ranks_replay(&request, 1, results) == MDNN_STATUS_OK);
    assert_true(memcmp(&alone, results, sizeof alone) == 0);
    assert_true(mdnn_ranks_replay(&request, 0, results) == MDNN_STATUS_INVALID_ARGUMENT);
    assert_true(mdnn_ranks_replay(&request, MDNN_RANKS + 1, results) ==
                MDNN_STATUS_INVALID_ARGUMENT);
}

/* ---- plans ---- */

static uint64_t peak_of(const mdnn_schedule_t *schedule)
{
    uint64_t resident[RANDOM_PERIOD_OPERATIONS], peak = 0;
    mdnn_schedule_resident_bytes(&instance.period, schedule, resident);
    for (uint32_t i = 0; i < instance.period.operation_count; i++)
        peak = resident[i] > peak ? resident[i] : peak;
    return peak;
}

static mdnn_move_plan_request_t random_request(uint32_t ranks)
{
    const mdnn_schedule_t nothing = {0};
    uint64_t floor_bytes;
    CHECK(mdnn_period_floor(&instance.period, &floor_bytes) == MDNN_STATUS_OK);
    const uint64_t peak = peak_of(&nothing);
    const uint64_t above = peak > floor_bytes ? peak - floor_bytes : 0;
    return (mdnn_move_plan_request_t){.period = &instance.period,
                                      .policy = MDNN_POLICY_AUTO,
                                      .link = random_period_link(&instance),
                                      .budget_bytes =
                                          floor_bytes + random_period_below(&instance, above + 2),
                                      .host_limit_bytes = UINT64_MAX,
                                      .effort = 40,
                                      .ranks = {.count = ranks}};
}

/* Of all ranks, or INFINITY if one does not fit. What fits keeps its promises. */
static double planned_us(mdnn_move_plan_request_t request, mdnn_sharing_t sharing)
{
    mdnn_move_plan_t plans[MDNN_RANKS];
    mdnn_replay_request_t replays[MDNN_RANKS];
    mdnn_replay_result_t results[MDNN_RANKS];
    const uint32_t count = request.ranks.count;
    bool fits = true;
    request.ranks.sharing = sharing;
    CHECK(mdnn_ranks_plan(&request, plans) == MDNN_STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        fits = fits && plans[i].verdict == MDNN_VERDICT_FITS;
        CHECK(plans[i].verdict != MDNN_VERDICT_FITS ||
              (mdnn_schedule_check(request.period, &plans[i].schedule) == MDNN_STATUS_OK &&
               peak_of(&plans[i].schedule) <= request.budget_bytes &&
               plans[i].predicted.peak_bytes <= request.budget_bytes));
        replays[i] = (mdnn_replay_request_t){.period = request.period,
                                             .schedule = &plans[i].schedule,
                                             .link = request.link,
                                             .budget_bytes = request.budget_bytes};
    }
    const double time_us = plans[0].predicted.time_us;
    if (fits) {
        CHECK(mdnn_ranks_replay(replays, count, results) == MDNN_STATUS_OK);
        for (uint32_t i = 0; i < count; i++)
            CHECK(results[i].time_us == plans[i].predicted.time_us);
    }
    for (uint32_t i = 0; i < count; i++)
        mdnn_move_plan_fini(&plans[i]);
    return fits ? time_us : INFINITY;
}

static void check_sharing(uint64_t seed)
{
    random_period_training(&instance, seed, 2 + (uint32_t)(seed % 7));
    const mdnn_move_plan_request_t request = random_request(1 + (uint32_t)(seed % 4));
    const double none = planned_us(request, MDNN_SHARING_NONE);
    const double staggered = planned_us(request, MDNN_SHARING_STAGGERED);
    const double ours = planned_us(request, MDNN_SHARING_AUTO);
    CHECK(isfinite(none) && isfinite(ours)); /* from the floor on */
    CHECK(request.ranks.count == 1 || ours <= staggered * (1 + 1e-9));
}

CASE(plans_of_ranks_fit_and_ours_is_never_slower_than_the_papers)
{
    each_seed(check_sharing, few(50, 200));
}

/* The rank's own plan is that of its number. */
CASE(a_rank_takes_its_own_plan)
{
    mdnn_move_plan_t plans[3], own;
    random_period_training(&instance, 5, 6);
    mdnn_move_plan_request_t request = random_request(3);
    request.ranks.sharing = MDNN_SHARING_AUTO;
    assert_true(mdnn_ranks_plan(&request, plans) == MDNN_STATUS_OK);
    for (uint32_t rank = 0; rank < 3; rank++) {
        request.ranks.own = rank;
        assert_true(mdnn_rank_plan(&request, &own) == MDNN_STATUS_OK);
        assert_true(own.schedule.move_count == plans[rank].schedule.move_count);
        assert_true(own.schedule.move_count == 0 ||
                    memcmp(own.schedule.moves, plans[rank].schedule.moves,
                           own.schedule.move_count * sizeof *own.schedule.moves) == 0);
        mdnn_move_plan_fini(&own);
    }
    for (uint32_t rank = 0; rank < 3; rank++)
        mdnn_move_plan_fini(&plans[rank]);
}

/* ---- staggered ---- */

enum { LAYERS = 8, LAYER_BYTES = 1000, LAYER_US = 20 };

/* A chain of convolutions: the input of each is used again in backward, in the opposite order. */
static void fill_layers(void)
{
    uint32_t inputs[LAYERS];
    random_period_start(&instance, 1);
    for (uint32_t i = 0; i < LAYERS; i++)
        inputs[i] = random_period_range(&instance, LAYER_BYTES, i, 2 * LAYERS - 1 - i);
    for (uint32_t i = 0; i < 2 * LAYERS; i++) {
        random_period_operation(
            &instance, i < LAYERS ? MDNN_OPERATION_FORWARD : MDNN_OPERATION_BACKWARD_FILTER,
            LAYER_US, 0);
        random_period_use(&instance, inputs[i < LAYERS ? i : 2 * LAYERS - 1 - i], MDNN_USE_READ);
    }
}

/* Of Kim 2018, III-A: with half of the layers missing, x is 2, and two ranks take turns. */
CASE(ranks_let_different_layers_leave)
{
    mdnn_move_plan_t plans[2];
    fill_layers();
    const mdnn_move_plan_request_t request = {
        .period = &instance.period,
        .policy = MDNN_POLICY_AUTO,
        .link = {100, 100, 100, 100, 0},
        .budget_bytes = 5 * LAYER_BYTES,
        .host_limit_bytes = UINT64_MAX,
        .ranks = {.sharing = MDNN_SHARING_STAGGERED, .count = 2}};
    assert_true(mdnn_ranks_plan(&request, plans) == MDNN_STATUS_OK);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_true(plans[rank].verdict == MDNN_VERDICT_FITS);
        assert_true(plans[rank].schedule.move_count >= 3);
        for (size_t m = 0; m < plans[rank].schedule.move_count; m++)
            assert_true(plans[rank].schedule.moves[m].range % 2 == rank);
        assert_true(plans[rank].predicted.time_us == 2 * LAYERS * LAYER_US); /* nothing waits */
    }
    mdnn_move_plan_fini(&plans[0]);
    mdnn_move_plan_fini(&plans[1]);
}

/* III-C: no trigger could be later without a delay. */
CASE(triggers_are_as_late_as_can_be)
{
    mdnn_move_plan_t plan;
    fill_layers();
    const mdnn_move_plan_request_t request = {
        .period = &instance.period,
        .policy = MDNN_POLICY_AUTO,
        .link = {100, 100, 100, 100, 0},
        .budget_bytes = 6 * LAYER_BYTES,
        .host_limit_bytes = UINT64_MAX,
        .ranks = {.sharing = MDNN_SHARING_STAGGERED, .count = 1}};
    assert_true(mdnn_ranks_plan(&request, &plan) == MDNN_STATUS_OK);
    assert_true(plan.verdict == MDNN_VERDICT_FITS && plan.schedule.move_count > 0);
    for (size_t m = 0; m < plan.schedule.move_count; m++) {
        mdnn_move_t *const move = &plan.schedule.moves[m];
        mdnn_replay_result_t later;
        if (move->return_after + 1 == move->return_before)
            continue;
        move->return_after++;
        const mdnn_replay_request_t replay = {.period = &instance.period,
                                              .schedule = &plan.schedule,
                                              .link = request.link,
                                              .budget_bytes = request.budget_bytes};
        assert_true(mdnn_replay(&replay, &later) == MDNN_STATUS_OK);
        assert_true(later.time_us > plan.predicted.time_us);
        move->return_after--;
    }
    mdnn_move_plan_fini(&plan);
}

int main(void)
{
    return run_cases("ranks_plan");
}
