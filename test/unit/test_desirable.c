/* Desirable sets against every configuration there is, by the paper's definition, and what
 * Workspace Division makes of them against what it makes of all configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/desirable.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/random_wd.h"

enum { BATCH_MOST = 5, ALGOS = 2, EVERY_MOST = 2048, KERNELS = 3 };

/* Random costs of one convolution; multiples of 1/8, so that sums are exact and ties are real. */
typedef struct costs {
    int64_t batch;
    bool roles_differ;
    mdnn_cost_t cost[MDNN_PART_ROLE_COUNT][BATCH_MOST + 1][ALGOS];
    int asked; /* times that the source was called */
} costs_t;

static void fill_costs(costs_t *costs, uint64_t *random)
{
    memset(costs, 0, sizeof *costs);
    costs->batch = 1 + (int64_t)random_wd_below(random, BATCH_MOST);
    costs->roles_differ = random_wd_below(random, 2) == 0;
    for (int role = 0; role < MDNN_PART_ROLE_COUNT; role++)
        for (int64_t images = 1; images <= costs->batch; images++)
            for (int32_t algo = 0; algo < ALGOS; algo++)
                costs->cost[role][images][algo] = (mdnn_cost_t){
                    .algo = algo,
                    .workspace_bytes = random_wd_below(random, 12),
                    .time_ms = (double)(1 + random_wd_below(random, 6 * (uint64_t)images)) / 8};
}

static mdnn_status_t find(void *context, int64_t images, mdnn_part_role_t role, mdnn_cost_t *found,
                          size_t capacity, size_t *count)
{
    costs_t *const costs = context;
    (void)capacity;
    costs->asked++;
    memcpy(found, costs->cost[role][images], sizeof costs->cost[role][images]);
    *count = ALGOS;
    return MDNN_STATUS_OK;
}

static mdnn_wr_request_t request_for(const costs_t *costs)
{
    return (mdnn_wr_request_t){.batch = costs->batch,
                               .sizes = MDNN_SIZES_ALL,
                               .granularity = 1,
                               .roles_differ = costs->roles_differ,
                               .workspace_limit_bytes = UINT64_MAX};
}

/* Every list of micro-configurations that covers the batch. */
typedef struct every {
    const costs_t *costs;
    mdnn_knapsack_item_t items[EVERY_MOST];
    size_t count;
} every_t;

static void enumerate(every_t *every, int64_t left, mdnn_part_role_t role,
                      mdnn_knapsack_item_t so_far)
{
    if (left == 0) {
        assert_true(every->count < EVERY_MOST);
        every->items[every->count++] = so_far;
        return;
    }
    for (int64_t images = 1; images <= left; images++)
        for (int32_t algo = 0; algo < ALGOS; algo++) {
            const mdnn_cost_t *const cost = &every->costs->cost[role][images][algo];
            const uint64_t bytes = cost->workspace_bytes;
            enumerate(every, left - images,
                      every->costs->roles_differ ? MDNN_PART_REST : MDNN_PART_FIRST,
                      (mdnn_knapsack_item_t){
                          so_far.time_ms + cost->time_ms,
                          bytes > so_far.workspace_bytes ? bytes : so_far.workspace_bytes});
        }
}

static const every_t *enumerate_all(const costs_t *costs, every_t *every)
{
    every->costs = costs;
    every->count = 0;
    enumerate(every, costs->batch, MDNN_PART_FIRST, (mdnn_knapsack_item_t){0, 0});
    return every;
}

static bool same(const mdnn_knapsack_item_t *a, const mdnn_knapsack_item_t *b)
{
    return a->time_ms == b->time_ms && a->workspace_bytes == b->workspace_bytes;
}

/* c is desirable if T(c) < T(c') or M(c) < M(c') for every c' but its equals. */
static bool is_desirable(const every_t *every, const mdnn_knapsack_item_t *item)
{
    for (size_t i = 0; i < every->count; i++) {
        const mdnn_knapsack_item_t *const other = &every->items[i];
        if (!same(other, item) && other->time_ms <= item->time_ms &&
            other->workspace_bytes <= item->workspace_bytes)
            return false;
    }
    return true;
}

static bool contains(const mdnn_knapsack_item_t *items, size_t count,
                     const mdnn_knapsack_item_t *item)
{
    for (size_t i = 0; i < count; i++)
        if (same(&items[i], item))
            return true;
    return false;
}

static const mdnn_desirable_set_t *get(mdnn_desirable_sets_t *sets, int32_t number, costs_t *costs)
{
    const mdnn_wr_request_t request = request_for(costs);
    const mdnn_cost_source_t source = {costs, find};
    const mdnn_desirable_set_t *set = NULL;
    mdnn_problem_t problem;
    memset(&problem, 0, sizeof problem);
    problem.groups = number;
    assert_int_equal(mdnn_desirable_sets_get(sets, &problem, &request, &source, &set),
                     MDNN_STATUS_OK);
    return set;
}

static void check_set(uint64_t seed)
{
    static every_t every;
    uint64_t random = seed;
    costs_t costs;
    mdnn_desirable_sets_t *sets;
    fill_costs(&costs, &random);
    CHECK(mdnn_desirable_sets_create(&sets) == MDNN_STATUS_OK);
    const mdnn_desirable_set_t *const set = get(sets, 1, &costs);
    enumerate_all(&costs, &every);
    for (size_t i = 0; i < every.count; i++)
        assert_int_equal(contains(set->items, set->count, &every.items[i]),
                         is_desirable(&every, &every.items[i]));
    for (size_t i = 0; i < set->count; i++) {
        CHECK(contains(every.items, every.count, &set->items[i]));
        CHECK(i == 0 || set->items[i - 1].workspace_bytes < set->items[i].workspace_bytes);
    }
    mdnn_desirable_sets_destroy(sets);
}

CASE(set_holds_what_is_desirable_and_nothing_else)
{
    each_seed(check_set, 3000);
}

/* The paper's proof, tried out: no division of all configurations is faster. */
static void check_pruning(uint64_t seed)
{
    static every_t every[KERNELS];
    uint64_t random = seed;
    costs_t costs[KERNELS];
    mdnn_wd_kernel_t all[KERNELS], desirable[KERNELS];
    mdnn_desirable_sets_t *sets;
    CHECK(mdnn_desirable_sets_create(&sets) == MDNN_STATUS_OK);
    for (size_t k = 0; k < KERNELS; k++) {
        const uint32_t group = (uint32_t)random_wd_below(&random, 2);
        fill_costs(&costs[k], &random);
        enumerate_all(&costs[k], &every[k]);
        all[k] = (mdnn_wd_kernel_t){every[k].items, every[k].count, group};
        desirable[k] = mdnn_desirable_kernel(get(sets, (int32_t)k, &costs[k]), group);
    }
    for (int model = 0; model < MDNN_WD_MODEL_COUNT; model++) {
        const uint64_t total = random_wd_below(&random, 30);
        const mdnn_wd_problem_t unpruned = {(mdnn_wd_model_t)model, all, KERNELS, 2, total};
        const mdnn_wd_problem_t pruned = {(mdnn_wd_model_t)model, desirable, KERNELS, 2, total};
        mdnn_wd_result_t a = {.time_ms = -1}, b = {.time_ms = -1};
        size_t choices[KERNELS];
        assert_int_equal(mdnn_wd_solve(&unpruned, NULL, choices, &a),
                         mdnn_wd_solve(&pruned, NULL, choices, &b));
        CHECK(a.time_ms == b.time_ms && a.optimal == b.optimal);
    }
    mdnn_desirable_sets_destroy(sets);
}

CASE(pruning_loses_no_solution)
{
    each_seed(check_pruning, 1500);
}

CASE(identical_problems_share_one_set)
{
    uint64_t random = 3;
    costs_t costs[2];
    mdnn_desirable_sets_t *sets;
    fill_costs(&costs[0], &random);
    fill_costs(&costs[1], &random);
    assert_int_equal(mdnn_desirable_sets_create(&sets), MDNN_STATUS_OK);
    const mdnn_desirable_set_t *const first = get(sets, 1, &costs[0]);
    const int asked = costs[0].asked;
    for (int32_t i = 2; i < 200; i++)
        assert_ptr_not_equal(get(sets, i, &costs[1]), first);
    assert_ptr_equal(get(sets, 1, &costs[0]), first);
    assert_int_equal(costs[0].asked, asked);
    assert_int_equal(mdnn_desirable_sets_count(sets), 199);
    mdnn_desirable_sets_destroy(sets);
    mdnn_desirable_sets_destroy(NULL);
}

CASE(every_failed_allocation_is_reported_and_nothing_leaks)
{
    uint64_t random = 5;
    costs_t costs;
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    fill_costs(&costs, &random);
    const mdnn_wr_request_t request = request_for(&costs);
    const mdnn_cost_source_t source = {&costs, find};
    const long before = live_allocations;
    long failures = 0;
    while (status == MDNN_STATUS_OUT_OF_MEMORY) {
        mdnn_desirable_sets_t *sets = NULL;
        const mdnn_desirable_set_t *set = NULL;
        mdnn_problem_t problem;
        memset(&problem, 0, sizeof problem);
        fail_allocation_at = ++failures;
        status = mdnn_desirable_sets_create(&sets);
        if (status == MDNN_STATUS_OK)
            status = mdnn_desirable_sets_get(sets, &problem, &request, &source, &set);
        fail_allocation_at = 0;
        assert_true((set != NULL) == (status == MDNN_STATUS_OK));
        mdnn_desirable_sets_destroy(sets);
        assert_int_equal(live_allocations, before);
    }
    assert_int_equal(status, MDNN_STATUS_OK);
    assert_true(failures > 8);
}

int main(void)
{
    return run_cases("desirable");
}
