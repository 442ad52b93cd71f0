/* The mechanism and the plan follower together: training under a budget on a device with a clock. Streams
 * and copies take the time that they would, the host pays for what it enqueues. Contents are
 * test_memory's business; here it is about when things move. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/unit/clocked_program.h"
#include "test/unit/few.h"
#include "test/unit/vgg16_period.h"

typedef struct rounds {
    double iteration_us; /* of the device */
    mdnn_memory_report_t counts;
    mdnn_follower_report_t plan;
} rounds_t;

/* What a few rounds of a program that is followed do. */
static rounds_t watch(bool waits)
{
    enum { ROUNDS = 4 };
    const mdnn_memory_report_t before = mdnn_memory_report(memory);
    const double begin_us = end_of(&device, 0);
    for (int i = 0; i < ROUNDS; i++)
        run_round(waits);
    rounds_t rounds = {.iteration_us = (end_of(&device, 0) - begin_us) / ROUNDS,
                       .counts = mdnn_memory_report(memory),
                       .plan = mdnn_memory_follower_report(memory)};
    rounds.counts.demand_returns -= before.demand_returns;
    rounds.counts.planned_returns -= before.planned_returns;
    rounds.counts.demand_leaves -= before.demand_leaves;
    rounds.counts.planned_leaves -= before.planned_leaves;
    rounds.counts.out_bytes -= before.out_bytes;
    rounds.counts.host_waits -= before.host_waits;
    rounds.counts.out_bytes /= ROUNDS;
    rounds.counts.host_waits /= ROUNDS;
    return rounds;
}

/* Until the period is found, timed and planned, and the plan is followed. */
static void settle(bool waits)
{
    run_to_plan(waits);
    assert_int_equal(mdnn_memory_follower_report(memory).period_operations,
                     network.period.operation_count);
    assert_int_equal(mdnn_memory_follower_report(memory).verdict, MDNN_VERDICT_FITS);
}

/* VGG-16 on the H200's link moves what is planned when it is planned, in no more time. */
static void training_needs_no_demand(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++)
        for (double gib = 14; gib > 9.9; gib -= 1) {
            vgg16_fill(&network, 256, 55000, 122000);
            const uint64_t budget = (uint64_t)(gib * (1 << 30));
            start(budget, budget - ((uint64_t)256 << 20), 1024,
                  MDNN_POLICY_AUTO); /* slabs are not the plan follower's */
            settle(waits);
            const rounds_t rounds = watch(waits);
            print_message("%4.1f GiB: %.1f ms a round, predicted %.1f, bound %.1f; %.2f GiB out, "
                          "%lu host waits\n",
                          gib, rounds.iteration_us / 1e3, rounds.plan.predicted_us / 1e3,
                          rounds.plan.link_bound_us / 1e3,
                          (double)rounds.counts.out_bytes / (1 << 30),
                          (unsigned long)rounds.counts.host_waits);
            assert_int_equal(rounds.counts.demand_returns, 0);
            assert_int_equal(rounds.counts.demand_leaves, 0);
            assert_true(rounds.counts.planned_leaves > 0 && rounds.counts.planned_returns > 0);
            assert_true(rounds.iteration_us <= rounds.plan.predicted_us * 1.02);
            mdnn_memory_destroy(memory);
        }
}

/* A host that waits for each operation, as the replay has it. vDNN's joins wait for what leaves,
 * and not for what begins to return behind them. */
static void vdnn_takes_the_time_that_was_predicted(void **state)
{
    enum { ROUNDS = 4 };
    const uint64_t budget = (uint64_t)16 << 30;
    (void)state;
    vgg16_fill(&network, 256, 55000, 122000);
    start(budget, budget, 1024, MDNN_POLICY_CONV);
    settle(true);
    const double begin_us = end_of(&device, 0);
    for (uint32_t i = 0; i < ROUNDS * network.period.operation_count; i++) {
        run_operation(i % network.period.operation_count);
        synchronize();
    }
    const double iteration_us = (end_of(&device, 0) - begin_us) / ROUNDS;
    const double predicted_us = mdnn_memory_follower_report(memory).predicted_us;
    print_message("conv: %.1f ms a round, predicted %.1f\n", iteration_us / 1e3,
                  predicted_us / 1e3);
    assert_true(iteration_us <= predicted_us * 1.02 && iteration_us >= predicted_us * 0.95);
    mdnn_memory_destroy(memory);
}

/* Slabs that are not full take memory of which the plan follower knows nothing. */
static void what_the_follower_does_not_know_of_is_left_alone(void **state)
{
    (void)state;
    for (double gib = 15; gib > 9.9; gib -= is_thorough() ? 0.25 : 1) {
        vgg16_fill(&network, 256, 55000, 122000);
        const uint64_t budget = (uint64_t)(gib * (1 << 30));
        start(budget, budget, 1024, MDNN_POLICY_AUTO);
        settle(true);
        for (int i = 0; i < 60; i++)
            run_round(true);
        const rounds_t rounds = watch(true);
        print_message("%5.2f GiB: %.1f ms a round, predicted %.1f; %.0f MiB left alone\n", gib,
                      rounds.iteration_us / 1e3, rounds.plan.predicted_us / 1e3,
                      (double)rounds.plan.short_bytes / (1 << 20));
        assert_int_equal(rounds.counts.demand_returns, 0);
        assert_int_equal(rounds.counts.demand_leaves, 0);
        assert_true(rounds.iteration_us <= rounds.plan.predicted_us * 1.02);
        mdnn_memory_destroy(memory);
    }
}

/* A feature map of VGG-16 is a quarter of the budget: a part of it leaves, and what has room comes
 * back before the rest. */
static void parts_of_ranges_take_less_time(void **state)
{
    (void)state;
    for (double gib = 12; gib > 10.9; gib -= 1) {
        vgg16_fill(&network, 256, 55000, 122000);
        const uint64_t budget = (uint64_t)(gib * (1 << 30));
        const mdnn_move_plan_request_t request = {.period = &network.period,
                                                  .policy = MDNN_POLICY_AUTO,
                                                  .link = {55300, 55400, 50800, 50800, 0},
                                                  .budget_bytes = budget,
                                                  .host_limit_bytes = UINT64_MAX};
        mdnn_move_plan_t whole;
        assert_int_equal(mdnn_move_plan(&request, &whole), MDNN_STATUS_OK);
        start(budget, budget, 1024, MDNN_POLICY_AUTO);
        settle(true);
        for (int i = 0; i < 60; i++)
            run_round(true);
        const rounds_t rounds = watch(true);
        print_message("%4.1f GiB: %.1f ms a round, %.1f predicted for whole ranges\n", gib,
                      rounds.iteration_us / 1e3, whole.predicted.time_us / 1e3);
        assert_true(rounds.iteration_us < 0.85 * whole.predicted.time_us);
        mdnn_move_plan_fini(&whole);
        mdnn_memory_destroy(memory);
    }
}

/* The same without advice: everything comes back only when it is named. */
static void demand_alone_takes_longer(void **state)
{
    (void)state;
    const uint64_t budget = (uint64_t)13 << 30;
    double iteration_us[2];
    for (int policy = 0; policy < 2; policy++) {
        vgg16_fill(&network, 256, 55000, 122000);
        start(budget, budget - ((uint64_t)256 << 20), 1024,
              policy ? MDNN_POLICY_AUTO : MDNN_POLICY_NONE);
        for (int i = 0; i < 12; i++)
            run_round(true);
        const rounds_t rounds = watch(true);
        assert_true((rounds.counts.demand_returns == 0) == (policy == 1));
        iteration_us[policy] = rounds.iteration_us;
        mdnn_memory_destroy(memory);
    }
    print_message("13 GiB: %.1f ms a round on demand, %.1f as planned\n", iteration_us[0] / 1e3,
                  iteration_us[1] / 1e3);
    assert_true(iteration_us[0] > 1.05 * iteration_us[1]);
}

/* A line of logging now and then: for eight operations the program is lost. What the plan missed
 * is made up for by demand, and afterwards all is as planned. */
static void logging_costs_little(void **state)
{
    (void)state;
    const uint64_t budget = (uint64_t)11 << 30;
    vgg16_fill(&network, 256, 55000, 122000);
    const uint32_t count = network.period.operation_count;
    start(budget, budget - ((uint64_t)256 << 20), 1024, MDNN_POLICY_AUTO);
    settle(true);
    const double planned_us = watch(true).iteration_us;
    const mdnn_memory_report_t before = mdnn_memory_report(memory);
    const double begin_us = end_of(&device, 0);
    for (uint32_t logged_at = 0; logged_at < count; logged_at++) {
        for (uint32_t i = 0; i < count; i++) {
            run_operation(i);
            if (i == logged_at)
                log_something(count + i);
        }
        synchronize();
    }
    const mdnn_memory_report_t after = mdnn_memory_report(memory);
    const double iteration_us = (end_of(&device, 0) - begin_us) / count;
    print_message("11 GiB: %.1f ms a round with logging, %.1f without; %.2f demands a round\n",
                  iteration_us / 1e3, planned_us / 1e3,
                  (double)(after.demand_returns - before.demand_returns) / count);
    assert_true(after.demand_returns > before.demand_returns);
    assert_true(iteration_us <= 1.3 * planned_us);
    run_round(true);
    assert_int_equal(watch(true).counts.demand_returns, 0);
    mdnn_memory_destroy(memory);
}

/* PyTorch allocates what a convolution writes and its workspace, then launches kernels that name
 * only one of them; and it frees what a step read only when it has allocated what the next writes.
 */
static void what_is_allocated_early_and_freed_late_takes_no_memory(void **state)
{
    (void)state;
    for (int kind = 1; kind < 4; kind++)
        for (double gib = 14; gib > 11.9; gib -= 1) {
            const uint64_t budget = (uint64_t)(gib * (1 << 30));
            vgg16_fill(&network, 256, 55000, 122000);
            allocated_ahead = kind & 1;
            frees_late = kind & 2;
            start(budget, budget - ((uint64_t)256 << 20), 1024, MDNN_POLICY_AUTO);
            settle(true);
            for (int i = 0; i < 60; i++)
                run_round(true);
            const rounds_t rounds = watch(true);
            print_message("%s%s, %4.1f GiB: %.1f ms a round, predicted %.1f; %lu leave on demand\n",
                          allocated_ahead ? "early" : "", frees_late ? "late" : "", gib,
                          rounds.iteration_us / 1e3, rounds.plan.predicted_us / 1e3,
                          (unsigned long)rounds.counts.demand_leaves);
            assert_int_equal(rounds.counts.demand_leaves, 0);
            assert_int_equal(rounds.counts.demand_returns, 0);
            assert_int_equal(rounds.plan.short_bytes, 0);
            assert_true(rounds.iteration_us <= rounds.plan.predicted_us * 1.05);
            mdnn_memory_destroy(memory);
            allocated_ahead = 0, frees_late = false;
        }
}

/* What other budgets would cost is known while the program runs with one of them: each takes about as long as was
 * said when the program is then run with it. */
static void other_budgets_cost_what_was_said(void **state)
{
    const uint64_t own = (uint64_t)11 << 30, slabs = (uint64_t)256 << 20;
    unsigned cheaper = 0;
    (void)state;
    vgg16_fill(&network, 256, 55000, 122000);
    forecasts = true;
    start(own, own - slabs, 1024, MDNN_POLICY_AUTO);
    settle(true);
    for (int i = 0; i < 20; i++)
        run_round(true);
    const rounds_t said = watch(true);
    forecasts = false;
    mdnn_memory_destroy(memory);
    assert_true(said.plan.forecast_count >= 3);
    for (uint32_t i = 0; i < said.plan.forecast_count; i++) {
        const mdnn_forecast_t *const forecast = &said.plan.forecast[i];
        assert_true(i == 0 || forecast->budget_bytes < forecast[-1].budget_bytes);
        assert_true(forecast->budget_bytes < said.plan.need_bytes);
        start(forecast->budget_bytes + slabs, forecast->budget_bytes, 1024, MDNN_POLICY_AUTO);
        settle(true);
        const rounds_t rounds = watch(true);
        print_message("%5.2f GiB: %.1f ms a round, %.1f said\n",
                      (double)forecast->budget_bytes / (1 << 30), rounds.iteration_us / 1e3,
                      forecast->predicted_us / 1e3);
        assert_true(rounds.iteration_us <= 1.05 * forecast->predicted_us &&
                    rounds.iteration_us >= 0.85 * forecast->predicted_us);
        cheaper += forecast->predicted_us < said.plan.predicted_us;
        mdnn_memory_destroy(memory);
    }
    assert_true(cheaper > 0 && cheaper < said.plan.forecast_count);
}

static unsigned moved;
static double least, worst, sum;

/* A chain of layers with short operations, in any budget from the floor on. */
static void run_chain(uint64_t seed)
{
    const uint64_t chunk_bytes = 2 << 20;
    uint64_t floor_bytes, live[RANDOM_PERIOD_OPERATIONS], peak = 0;
    random_period_training(&network, seed, 2 + (uint32_t)(seed % 7));
    for (uint32_t r = 0; r < network.period.range_count; r++) {
        network.ranges[r].bytes *= chunk_bytes;
        if (seed % 3 == 0 && network.ranges[r].bytes > chunk_bytes) /* a smaller one would stay */
            network.ranges[r].padding_bytes = chunk_bytes / 4 * 3;
        else
            network.ranges[r].padding_bytes = 0;
    }
    for (uint32_t v = 0; v < network.period.variant_count; v++)
        network.variants[v] = (mdnn_variant_t){.time_us = network.variants[v].time_us * 50};
    assert_int_equal(mdnn_period_floor(&network.period, &floor_bytes), MDNN_STATUS_OK);
    mdnn_period_live_bytes(&network.period, live);
    for (uint32_t i = 0; i < network.period.operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    const uint64_t chunks = (peak - floor_bytes) / chunk_bytes;
    const uint64_t budget = floor_bytes + random_period_below(&network, chunks + 1) * chunk_bytes;
    start(budget, budget, 1024, MDNN_POLICY_AUTO);
    settle(true); /* only what has run has a time */
    const rounds_t rounds = watch(seed % 2);
    const double ratio = rounds.iteration_us / rounds.plan.predicted_us;
    if (rounds.counts.demand_returns + rounds.counts.demand_leaves > 0 || ratio > 1.3)
        fail_msg("seed %lu: %lu demand returns, %lu demand leaves, %.2f times what was predicted",
                 (unsigned long)seed, (unsigned long)rounds.counts.demand_returns,
                 (unsigned long)rounds.counts.demand_leaves, ratio);
    moved += rounds.counts.planned_returns > 0;
    worst = ratio > worst ? ratio : worst;
    least = ratio < least ? ratio : least;
    sum += ratio;
    mdnn_memory_destroy(memory);
}

static void any_budget_from_the_floor_on_needs_no_demand(void **state)
{
    const unsigned chains = (unsigned)few(30, 300);
    (void)state;
    least = INFINITY;
    for (uint64_t seed = 1; seed <= chains; seed++)
        run_chain(seed);
    print_message("%u of %u programs move something; %.3f times what was predicted on average, "
                  "%.3f to %.3f\n",
                  moved, chains, sum / chains, least, worst);
    assert_true(moved > chains / 2 && least > 0.97);
}

static int free_all(void **state)
{
    (void)state;
    free_device();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_needs_no_demand),
        cmocka_unit_test(vdnn_takes_the_time_that_was_predicted),
        cmocka_unit_test(what_the_follower_does_not_know_of_is_left_alone),
        cmocka_unit_test(parts_of_ranges_take_less_time),
        cmocka_unit_test(demand_alone_takes_longer),
        cmocka_unit_test(logging_costs_little),
        cmocka_unit_test(what_is_allocated_early_and_freed_late_takes_no_memory),
        cmocka_unit_test(other_budgets_cost_what_was_said),
        cmocka_unit_test(any_budget_from_the_floor_on_needs_no_demand),
    };
    return cmocka_run_group_tests(tests, NULL, free_all);
}
