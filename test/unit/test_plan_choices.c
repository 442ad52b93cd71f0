/* What auto chooses with: bytes by operation and gaps by their scores, against loops over all of them; and that its work
 * grows as the period does. MDNN_TEST_SEED=n repeats the instance that a failure named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/gap_choice.h"
#include "offload/plan/planner.h"
#include "optimizer/resident_tree.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/few.h"
#include "test/unit/long_training.h"

enum { MOST = 40 };

static uint64_t draws;

static uint64_t below(uint64_t end)
{
    return random_next(&draws) % end;
}

/* ---- bytes by operation ---- */

static void compare_tree(mdnn_resident_tree_t *tree, const int64_t *bytes, int32_t count)
{
    const int32_t from = (int32_t)below((uint64_t)count);
    const int32_t to = from + (int32_t)below((uint64_t)count + 1);
    const int64_t limit = (int64_t)below(60) - 30;
    int64_t most = INT64_MIN;
    int32_t first = -1, last = -1, peak = 0;
    for (int32_t i = from; i < to; i++)
        most = bytes[i % count] > most ? bytes[i % count] : most;
    for (int32_t i = count; i-- > 0;) {
        first = i >= from && bytes[i] > limit ? i : first;
        last = last < 0 && i < from && bytes[i] > limit ? i : last;
        peak = bytes[i] >= bytes[peak] ? i : peak;
    }
    CHECK(mdnn_resident_tree_most(tree, from, to) == most);
    CHECK(mdnn_resident_tree_first_above(tree, from, limit) == first);
    CHECK(mdnn_resident_tree_last_above(tree, from, limit) == last);
    CHECK(mdnn_resident_tree_at(tree, from) == bytes[from]);
    CHECK(mdnn_resident_tree_peak(tree) == peak);
}

static void check_tree(uint64_t seed)
{
    uint64_t start[MOST];
    int64_t bytes[MOST];
    mdnn_resident_tree_t tree;
    draws = seed;
    const int32_t count = 1 + (int32_t)below(MOST);
    CHECK(mdnn_resident_tree_init(&tree, (uint32_t)count) == MDNN_STATUS_OK);
    for (int32_t i = 0; i < count; i++)
        bytes[i] = (int64_t)(start[i] = below(20));
    mdnn_resident_tree_set(&tree, start);
    for (int step = 0; step < 20; step++) {
        const int32_t from = (int32_t)below((uint64_t)count);
        const int32_t to = from + (int32_t)below((uint64_t)count + 1);
        const int64_t more = (int64_t)below(21) - 10;
        mdnn_resident_tree_add(&tree, from, to, more);
        for (int32_t i = from; i < to; i++)
            bytes[i % count] += more;
        compare_tree(&tree, bytes, count);
    }
    mdnn_resident_tree_fini(&tree);
}

CASE(a_tree_of_bytes_finds_what_a_loop_finds)
{
    each_seed(check_tree, few(200, 20000));
}

/* ---- gaps by score ---- */

static double score_of(mdnn_gap_rule_t rule, double base, uint64_t bytes, uint64_t missing)
{
    const double useful = (double)(bytes < missing ? bytes : missing);
    return rule == MDNN_GAP_LARGE ? useful * base
           : rule == MDNN_GAP_FEW ? useful / (double)bytes * base
                                  : base;
}

static void check_choice(uint64_t seed)
{
    mdnn_period_range_t ranges[MOST];
    mdnn_gap_t gaps[MOST];
    double bases[MOST];
    mdnn_gap_choice_t choice;
    draws = seed;
    const uint32_t count = (uint32_t)below(MOST + 1);
    const mdnn_period_t period = {.ranges = ranges, .range_count = count};
    for (uint32_t g = 0; g < count; g++) {
        ranges[g] = (mdnn_period_range_t){.bytes = 1 + below(12)};
        gaps[g] = (mdnn_gap_t){.range = g};
        bases[g] = -1;
    }
    CHECK(mdnn_gap_choice_init(&choice, &period, gaps, count) == MDNN_STATUS_OK);
    const mdnn_gap_rule_t rule = (mdnn_gap_rule_t)below(MDNN_GAP_RULE_COUNT);
    mdnn_gap_choice_start(&choice, rule);
    for (int step = 0; step < 60; step++) {
        const uint64_t missing = 1 + below(14);
        double most = -1;
        for (uint32_t g = 0; g < count; g++)
            if (bases[g] >= 0)
                most = fmax(most, score_of(rule, bases[g], ranges[g].bytes, missing));
        const uint32_t best = mdnn_gap_choice_best(&choice, missing);
        CHECK((best == UINT32_MAX) == (most < 0));
        if (best != UINT32_MAX)
            CHECK(bases[best] >= 0 &&
                  fabs(score_of(rule, bases[best], ranges[best].bytes, missing) - most) <=
                      1e-9 * most);
        const uint32_t g = count > 0 ? (uint32_t)below(count) : 0;
        if (count > 0 && below(3) == 0) {
            mdnn_gap_choice_leave(&choice, g);
            bases[g] = -1;
        } else if (count > 0) {
            bases[g] = (double)(1 + below(9));
            mdnn_gap_choice_enter(&choice, g, bases[g]);
        }
    }
    mdnn_gap_choice_fini(&choice);
}

CASE(the_best_gap_is_what_a_loop_finds)
{
    each_seed(check_choice, few(200, 20000));
}

/* ---- how work grows ---- */

static double steps_of(uint32_t operations, bool variants)
{
    const mdnn_schedule_t nothing = {0};
    long_training_t made;
    mdnn_move_plan_t plan;
    uint64_t peak_bytes;
    assert_true(long_training_make(&made, operations, variants, 1));
    assert_int_equal(mdnn_period_check(&made.period), MDNN_STATUS_OK);
    assert_int_equal(mdnn_schedule_peak(&made.period, &nothing, &peak_bytes), MDNN_STATUS_OK);
    const mdnn_move_plan_request_t request = {.period = &made.period,
                                              .policy = MDNN_POLICY_AUTO,
                                              .variants = MDNN_VARIANTS_FITTING,
                                              .link = {55300, 55400, 50800, 50800, 10},
                                              .budget_bytes = peak_bytes / 2,
                                              .host_limit_bytes = UINT64_MAX,
                                              .effort = 20};
    assert_int_equal(mdnn_move_plan(&request, &plan), MDNN_STATUS_OK);
    assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
    assert_true(plan.predicted.time_us > plan.link_bound_us); /* it went on to the end */
    mdnn_move_plan_fini(&plan);
    mdnn_period_fini(&made.period);
    return (double)plan.steps;
}

/* Four times the operations may take six times the steps, not sixteen: n log n, and modnn as long as it is let. */
CASE(planning_takes_little_more_than_linear_work)
{
    for (int variants = 0; variants < 2; variants++) {
        double before = steps_of(600, variants);
        for (uint32_t operations = 2400; operations <= few(2400, 38400); operations *= 4) {
            const double now = steps_of(operations, variants);
            print_message("%u operations: %.0f steps, %.2f times as many\n", operations, now,
                          now / before);
            assert_true(now <= 6 * before);
            before = now;
        }
    }
}

int main(void)
{
    return run_cases("plan_choices");
}
