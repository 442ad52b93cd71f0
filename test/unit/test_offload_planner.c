/* Policies on small random periods, against the best schedule there is, and on a network worked out
 * by hand. MDNN_TEST_SEED=n repeats the instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/exhaustive.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/few.h"
#include "test/unit/random_period.h"
#include "test/unit/replay_checker.h"
#include "test/unit/vgg16_period.h"

static random_period_t instance;

static uint64_t peak_without_budget(void)
{
    uint64_t live[RANDOM_PERIOD_OPERATIONS], peak = 0;
    const mdnn_schedule_t nothing = {0};
    mdnn_schedule_resident_bytes(&instance.period, &nothing, live);
    for (uint32_t i = 0; i < instance.period.operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    return peak;
}

static mdnn_move_plan_request_t random_request(void)
{
    uint64_t floor_bytes;
    CHECK(mdnn_period_floor(&instance.period, &floor_bytes) == MDNN_STATUS_OK);
    const uint64_t peak = peak_without_budget();
    const uint64_t above = peak > floor_bytes ? peak - floor_bytes : 0;
    return (mdnn_move_plan_request_t){.period = &instance.period,
                                      .policy = MDNN_POLICY_AUTO,
                                      .variants = MDNN_VARIANTS_FASTEST,
                                      .link = random_period_link(&instance),
                                      .budget_bytes =
                                          floor_bytes + random_period_below(&instance, above + 2),
                                      .host_limit_bytes = UINT64_MAX};
}

static mdnn_move_plan_t plan_of(mdnn_move_plan_request_t request, mdnn_policy_t policy)
{
    mdnn_move_plan_t plan;
    request.policy = policy;
    CHECK(mdnn_move_plan(&request, &plan) == MDNN_STATUS_OK);
    return plan;
}

/* What a plan that fits promises, looked at from outside. */
static void check_plan(const mdnn_move_plan_request_t *request, const mdnn_move_plan_t *plan)
{
    mdnn_replay_request_t replay = {.period = request->period,
                                    .schedule = &plan->schedule,
                                    .link = request->link,
                                    .budget_bytes = request->budget_bytes};
    mdnn_replay_result_t result = {0};
    mdnn_status_t status;
    CHECK(mdnn_schedule_check(request->period, &plan->schedule) == MDNN_STATUS_OK);
    const char *const fault = replay_watched(&replay, &result, &status);
    if (fault)
        seed_failed(fault);
    CHECK(status == MDNN_STATUS_OK);
    CHECK(result.time_us == plan->predicted.time_us);
    CHECK(result.peak_bytes <= request->budget_bytes);
    CHECK(plan->needed_bytes <= request->budget_bytes);
    CHECK(result.host_peak_bytes <= request->host_limit_bytes);
    CHECK(plan->link_bound_us <= plan->predicted.time_us * (1 + 1e-9));
}

static void check_policies(uint64_t seed)
{
    if (seed % 3)
        random_period_training(&instance, seed, 1 + (uint32_t)(seed % 8));
    else
        random_period_fill(&instance, seed, 2 + (uint32_t)(seed % 14), 1 + (uint32_t)(seed % 11));
    mdnn_move_plan_request_t request = random_request();
    request.variants = (mdnn_variants_t)random_period_below(&instance, MDNN_VARIANTS_COUNT);
    request.effort = 40;
    const mdnn_move_plan_t best = plan_of(request, MDNN_POLICY_AUTO);
    CHECK(best.verdict == MDNN_VERDICT_FITS); /* from the floor on */
    for (mdnn_policy_t policy = 0; policy < MDNN_POLICY_COUNT; policy++) {
        mdnn_move_plan_t plan = plan_of(request, policy);
        CHECK(plan.verdict == MDNN_VERDICT_FITS || plan.verdict == MDNN_VERDICT_NEEDS_MORE);
        CHECK((plan.verdict == MDNN_VERDICT_NEEDS_MORE) ==
              (plan.needed_bytes > request.budget_bytes));
        if (plan.verdict == MDNN_VERDICT_FITS) {
            check_plan(&request, &plan);
            if (request.variants == MDNN_VARIANTS_FITTING || policy >= MDNN_POLICY_DYNAMIC)
                CHECK(best.predicted.time_us <= plan.predicted.time_us * (1 + 1e-8));
        }
        mdnn_move_plan_fini(&plan);
    }
    request.budget_bytes = best.floor_bytes - 1;
    if (best.floor_bytes > 0)
        for (mdnn_policy_t policy = 0; policy < MDNN_POLICY_COUNT; policy++) {
            const mdnn_move_plan_t plan = plan_of(request, policy);
            CHECK(plan.verdict == MDNN_VERDICT_BELOW_FLOOR && !plan.schedule.moves);
            CHECK(plan.floor_bytes == best.floor_bytes);
        }
    mdnn_move_plan_t freed = best;
    mdnn_move_plan_fini(&freed);
}

CASE(every_policy_keeps_to_the_budget)
{
    each_seed(check_policies, few(150, 1500));
}

/* ---- against the best there is ---- */

enum { MOST_SCHEDULES = 20000 };
static double worst_ratio, sum_of_ratios;
static unsigned compared, equal;

static void compare(mdnn_move_plan_request_t request)
{
    mdnn_move_plan_t best;
    const mdnn_status_t status = mdnn_move_plan_exhaustive(&request, MOST_SCHEDULES, &best);
    if (status == MDNN_STATUS_UNSUPPORTED)
        return;
    CHECK(status == MDNN_STATUS_OK);
    CHECK(best.verdict == MDNN_VERDICT_FITS);
    check_plan(&request, &best);
    mdnn_move_plan_t plan = plan_of(request, MDNN_POLICY_AUTO);
    check_plan(&request, &plan);
    if (best.predicted.time_us > 0 && best.schedule.move_count > 0) {
        const double ratio = plan.predicted.time_us / best.predicted.time_us;
        worst_ratio = ratio > worst_ratio ? ratio : worst_ratio;
        sum_of_ratios += ratio;
        compared++;
        equal += ratio <= 1 + 1e-9;
    }
    mdnn_move_plan_fini(&plan);
    mdnn_move_plan_fini(&best);
}

static void compare_random(uint64_t seed)
{
    random_period_fill(&instance, seed, 3 + (uint32_t)(seed % 5), 2 + (uint32_t)(seed % 4));
    compare(random_request());
}

static void compare_training(uint64_t seed)
{
    random_period_training(&instance, seed, 1);
    for (uint32_t r = 0; r < instance.period.range_count; r++) /* few gaps, or it takes for ever */
        instance.ranges[r].stays |= mdnn_range_is_permanent(&instance.ranges[r]);
    compare(random_request());
}

static void report(const char *what, double worst_allowed, double mean_allowed)
{
    const double mean = compared ? sum_of_ratios / compared : 0;
    print_message(
        "%s: %u instances where something moves, %u at the optimum, mean %.4f, worst %.3f\n", what,
        compared, equal, mean, worst_ratio);
    if (!getenv("MDNN_TEST_SEED"))
        assert_true(compared >= few(20, 50));
    assert_true(worst_ratio <= worst_allowed && mean <= mean_allowed);
    worst_ratio = sum_of_ratios = compared = equal = 0;
}

CASE(auto_comes_close_to_the_best_schedule)
{
    each_seed(compare_random, few(300, 1200));
    report("programs without sense", 1.2, 1.01);
    each_seed(compare_training, few(60, 300));
    report("training", 1.2, 1.01);
}

/* ---- a network ---- */

static const double gib = 1 << 30;

static mdnn_move_plan_t plan_vgg16(mdnn_policy_t policy, double budget_gib)
{
    const mdnn_move_plan_request_t request = {.period = &instance.period,
                                              .policy = policy,
                                              .variants = MDNN_VARIANTS_FASTEST,
                                              .link = {55300, 55400, 50800, 50800, 10},
                                              .budget_bytes = (uint64_t)(budget_gib * gib),
                                              .host_limit_bytes = UINT64_MAX};
    mdnn_move_plan_t plan;
    assert_int_equal(mdnn_move_plan(&request, &plan), MDNN_STATUS_OK);
    if (plan.verdict == MDNN_VERDICT_FITS)
        check_plan(&request, &plan);
    return plan;
}

/* A row of docs/design/planning.md. */
static void print_table(double budget_gib)
{
    static const mdnn_policy_t policies[] = {MDNN_POLICY_CONV, MDNN_POLICY_ALL, MDNN_POLICY_MODNN,
                                             MDNN_POLICY_AUTO};
    print_message("%g GiB, ms:", budget_gib);
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        mdnn_move_plan_t plan = plan_vgg16(policies[i], budget_gib);
        if (plan.verdict == MDNN_VERDICT_FITS)
            print_message(" %s %.1f,", mdnn_policy_name(policies[i]), plan.predicted.time_us / 1e3);
        if (policies[i] == MDNN_POLICY_AUTO)
            print_message(" link bound %.1f\n", plan.link_bound_us / 1e3);
        mdnn_move_plan_fini(&plan);
    }
}

/* 256 images, with the H200's link and times in TF32. What the paper's policies move whatever the
 * budget, and what the budget really asks for. */
CASE(vgg16_moves_what_the_budget_asks_for)
{
    double before_us = 0;
    vgg16_fill(&instance, 256, 55000, 122000);
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    mdnn_move_plan_t conv = plan_vgg16(MDNN_POLICY_CONV, 16), all = plan_vgg16(MDNN_POLICY_ALL, 16);
    assert_true(conv.verdict == MDNN_VERDICT_FITS && all.verdict == MDNN_VERDICT_FITS);
    /* Every input of a convolution but the last block's leaves, each once each way. */
    assert_int_equal(conv.schedule.move_count, VGG16_CONVOLUTIONS - 1);
    size_t forward_joins = 0;
    for (size_t i = 0; i < conv.schedule.join_count; i++)
        forward_joins += conv.schedule.joins[i] <= 2 * VGG16_CONVOLUTIONS + 5;
    assert_int_equal(forward_joins, VGG16_CONVOLUTIONS - 1); /* behind each layer that offloads */
    assert_int_equal(conv.schedule.join_count - forward_joins, VGG16_CONVOLUTIONS - 1);
    assert_true(conv.predicted.out_bytes == conv.predicted.in_bytes);
    assert_true(conv.predicted.wait_join_us > 0 && conv.predicted.time_us < all.predicted.time_us);
    assert_true(all.predicted.average_bytes < conv.predicted.average_bytes);
    for (double budget = 16; budget >= 9.25; budget -= 0.75) {
        mdnn_move_plan_t plan = plan_vgg16(MDNN_POLICY_AUTO, budget);
        assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
        print_message("%5.2f GiB: %5.1f ms, link bound %5.1f, %4.2f GiB out\n", budget,
                      plan.predicted.time_us / 1e3, plan.link_bound_us / 1e3,
                      (double)plan.predicted.out_bytes / gib);
        assert_true(plan.predicted.time_us < conv.predicted.time_us);
        assert_true(plan.predicted.time_us >= before_us * (1 - 0.02)); /* more memory, less time */
        assert_true(plan.predicted.time_us <= 1.5 * plan.link_bound_us);
        if (budget >= 14)
            assert_true(plan.predicted.time_us <= plan.link_bound_us * (1 + 1e-9));
        before_us = plan.predicted.time_us;
        mdnn_move_plan_fini(&plan);
    }
    mdnn_move_plan_fini(&conv);
    mdnn_move_plan_fini(&all);
    for (double budget = 14; budget >= 10; budget -= 2)
        print_table(budget);
}

CASE(vgg16_near_its_floor)
{
    vgg16_fill(&instance, 256, 55000, 122000);
    /* moDNN keeps to the budget, but lets more go than it must. */
    mdnn_move_plan_t plan = plan_vgg16(MDNN_POLICY_MODNN, 12);
    assert_true(plan.verdict == MDNN_VERDICT_FITS && plan.predicted.out_bytes > 4 * gib);
    mdnn_move_plan_fini(&plan);
    plan = plan_vgg16(MDNN_POLICY_DYNAMIC, 14);
    assert_true(plan.verdict == MDNN_VERDICT_FITS && plan.policy == MDNN_POLICY_CONV);
    mdnn_move_plan_fini(&plan);
    plan = plan_vgg16(MDNN_POLICY_AUTO, 9);
    assert_int_equal(plan.verdict, MDNN_VERDICT_BELOW_FLOOR);
    assert_true((double)plan.floor_bytes > 9 * gib && (double)plan.floor_bytes < 9.25 * gib);
}

int main(void)
{
    return run_cases("offload_planner");
}
