/* Workspace Division against an oracle that tries every choice, and against WR where the two must
 * agree. A failure names its seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/wd.h"
#include "optimizer/wr.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/random_wd.h"

static random_wd_t instance;

static void check_seed(uint64_t seed)
{
    size_t choices[RANDOM_WD_KERNELS];
    uint64_t arenas[RANDOM_WD_KERNELS];
    mdnn_wd_result_t result;
    double time_ms;
    uint64_t bytes;

    random_wd_fill(&instance, seed);
    for (int model = 0; model < MDNN_WD_MODEL_COUNT; model++) {
        instance.problem.model = (mdnn_wd_model_t)model;
        const double best_ms = random_wd_oracle(&instance);
        const mdnn_status_t status = mdnn_wd_solve(&instance.problem, NULL, choices, &result);
        CHECK(status == (best_ms < RANDOM_WD_NONE ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND));
        if (status != MDNN_STATUS_OK)
            continue;
        CHECK(result.optimal && result.time_ms == best_ms && result.bound_ms == best_ms);
        CHECK(mdnn_wd_evaluate(&instance.problem, choices, &time_ms, &bytes, arenas) ==
              MDNN_STATUS_OK);
        CHECK(time_ms == best_ms && bytes == result.workspace_bytes);
        for (size_t k = 0; k < instance.problem.kernel_count; k++) {
            const mdnn_wd_kernel_t *const kernel = &instance.kernels[k];
            const size_t arena = model == MDNN_WD_SUM ? k : kernel->group;
            CHECK(kernel->items[choices[k]].workspace_bytes <= arenas[arena]);
        }
    }
}

CASE(solution_equals_brute_force_in_both_models)
{
    each_seed(check_seed, 20000);
}

/* ---- WR ---- */

enum { WR_KERNELS = 6, WR_ALGOS = 4, WR_BATCH = 24 };

typedef struct layer {
    double image_ms[WR_ALGOS], fixed_ms[WR_ALGOS];
    uint64_t image_bytes[WR_ALGOS];
} layer_t;

static mdnn_status_t find_in_layer(void *context, int64_t images, mdnn_part_role_t role,
                                   mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    const layer_t *const layer = context;
    (void)role, (void)capacity;
    for (int32_t i = 0; i < WR_ALGOS; i++)
        costs[i] =
            (mdnn_cost_t){.algo = i,
                          .workspace_bytes = layer->image_bytes[i] * (uint64_t)images,
                          .time_ms = layer->fixed_ms[i] + layer->image_ms[i] * (double)images};
    *count = WR_ALGOS;
    return MDNN_STATUS_OK;
}

static mdnn_front_t *random_front(uint64_t *random)
{
    const mdnn_wr_request_t request = {.batch = WR_BATCH,
                                       .sizes = MDNN_SIZES_ALL,
                                       .granularity = 1,
                                       .workspace_limit_bytes = UINT64_MAX};
    mdnn_front_t *front = NULL;
    layer_t layer = {.image_ms[0] = 4};
    for (size_t i = 1; i < WR_ALGOS; i++) {
        layer.image_ms[i] = (double)(1 + random_wd_below(random, 24)) / 8;
        layer.fixed_ms[i] = (double)random_wd_below(random, 64) / 8;
        layer.image_bytes[i] = random_wd_below(random, 50);
    }
    const mdnn_cost_source_t source = {&layer, find_in_layer};
    assert_int_equal(mdnn_wr_optimize(&request, &source, &front), MDNN_STATUS_OK);
    return front;
}

static size_t copy_front(const mdnn_front_t *front, mdnn_knapsack_item_t *items)
{
    const size_t count = mdnn_front_count(front);
    for (size_t i = 0; i < count; i++)
        items[i] = (mdnn_knapsack_item_t){mdnn_front_at(front, i)->time_ms,
                                          mdnn_front_at(front, i)->workspace_bytes};
    return count;
}

CASE(shared_in_one_group_is_wr_with_the_total_as_limit)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        static mdnn_knapsack_item_t items[WR_KERNELS][512];
        mdnn_wd_kernel_t kernels[WR_KERNELS] = {{0}};
        mdnn_front_t *fronts[WR_KERNELS];
        size_t choices[WR_KERNELS];
        mdnn_wd_result_t result;
        uint64_t random = seed;
        for (size_t k = 0; k < WR_KERNELS; k++) {
            fronts[k] = random_front(&random);
            assert_true(mdnn_front_count(fronts[k]) <= 512);
            kernels[k] = (mdnn_wd_kernel_t){items[k], copy_front(fronts[k], items[k]), 0};
        }
        const mdnn_wd_problem_t problem = {MDNN_WD_SHARED, kernels, WR_KERNELS, 1,
                                           random_wd_below(&random, 50 * WR_BATCH)};
        assert_int_equal(mdnn_wd_solve(&problem, NULL, choices, &result), MDNN_STATUS_OK);
        for (size_t k = 0; k < WR_KERNELS; k++) {
            const mdnn_configuration_t *const wr = mdnn_front_best(fronts[k], problem.total_bytes);
            const mdnn_configuration_t *const wd = mdnn_front_at(fronts[k], choices[k]);
            assert_true(wd->time_ms == wr->time_ms); /* of equals WR prefers the undivided one */
            assert_true(wd == wr || wr->part_count == 1);
            mdnn_front_destroy(fronts[k]);
        }
    }
}

/* ---- named cases ---- */

static const mdnn_knapsack_item_t steep[] = {{10, 0}, {4, 60}}, flat[] = {{10, 0}, {9, 60}};

CASE(workspace_goes_where_it_saves_most)
{
    const mdnn_wd_kernel_t kernels[] = {{flat, 2, 0}, {steep, 2, 0}, {flat, 2, 0}};
    mdnn_wd_problem_t problem = {MDNN_WD_SUM, kernels, 3, 1, 119};
    mdnn_wd_result_t result;
    size_t choices[3];
    assert_int_equal(mdnn_wd_solve(&problem, NULL, choices, &result), MDNN_STATUS_OK);
    assert_true(choices[0] == 0 && choices[1] == 1 && choices[2] == 0);
    assert_true(result.time_ms == 24 && result.workspace_bytes == 60 && result.optimal);
    problem.model = MDNN_WD_SHARED;
    assert_int_equal(mdnn_wd_solve(&problem, NULL, choices, &result), MDNN_STATUS_OK);
    assert_true(result.time_ms == 22 && result.workspace_bytes == 60 && result.optimal);
}

CASE(no_kernels_need_nothing)
{
    const mdnn_wd_problem_t problem = {.model = MDNN_WD_SHARED, .group_count = 3};
    mdnn_wd_result_t result;
    assert_int_equal(mdnn_wd_solve(&problem, NULL, NULL, &result), MDNN_STATUS_OK);
    assert_true(result.time_ms == 0 && result.workspace_bytes == 0 && result.optimal);
}

CASE(problems_and_choices_without_sense_are_refused)
{
    static const mdnn_knapsack_item_t bad[] = {{-1, 0}};
    const mdnn_wd_kernel_t group[] = {{steep, 2, 7}}, none[] = {{steep, 0, 0}},
                           time[] = {{bad, 1, 0}};
    const mdnn_wd_problem_t problems[] = {{MDNN_WD_SHARED, group, 1, 7, 9},
                                          {MDNN_WD_SUM, none, 1, 1, 9},
                                          {MDNN_WD_SUM, time, 1, 1, 9},
                                          {MDNN_WD_MODEL_COUNT, time, 1, 1, 9}};
    mdnn_wd_result_t result;
    size_t choice = 2;
    double time_ms;
    uint64_t bytes;
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        assert_int_equal(mdnn_wd_solve(&problems[i], NULL, &choice, &result),
                         MDNN_STATUS_INVALID_ARGUMENT);
    const mdnn_wd_problem_t sum = {MDNN_WD_SUM, group, 1, 0, 59};
    choice = 2;
    assert_int_equal(mdnn_wd_evaluate(&sum, &choice, &time_ms, &bytes, NULL),
                     MDNN_STATUS_INVALID_ARGUMENT);
    choice = 1;
    assert_int_equal(mdnn_wd_evaluate(&sum, &choice, &time_ms, &bytes, NULL),
                     MDNN_STATUS_NOT_FOUND);
}

int main(void)
{
    return run_cases("wd");
}
