/* The exact knapsack against an oracle that tries every choice. A failure names its seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "optimizer/knapsack.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/random.h"

static uint64_t random_below(uint64_t *state, uint64_t end)
{
    return random_next(state) % end;
}

enum { MOST_CLASSES = 1000, MOST_ITEMS = 24 };

typedef struct instance {
    uint64_t capacity_bytes;
    size_t class_count;
    mdnn_knapsack_class_t classes[MOST_CLASSES];
    mdnn_knapsack_item_t items[MOST_CLASSES][MOST_ITEMS];
} instance_t;

static instance_t instance;

/* Times are multiples of 1/8, so that sums are exact and ties are real. Small ranges make ties,
 * large ones make sizes that no double holds. */
static void fill_small(uint64_t seed)
{
    static const uint64_t ranges[] = {4, 20, 1000, (uint64_t)1 << 33, (uint64_t)1 << 57};
    uint64_t state = seed, most = 0;
    const uint64_t bytes = ranges[random_below(&state, 5)], times = ranges[random_below(&state, 3)];
    const bool related = random_below(&state, 3) == 0; /* more workspace, less time */

    instance.class_count = random_below(&state, 7);
    for (size_t k = 0; k < instance.class_count; k++) {
        const size_t count = 1 + random_below(&state, 6);
        uint64_t largest = 0;
        for (size_t i = 0; i < count; i++) {
            mdnn_knapsack_item_t *const item = &instance.items[k][i];
            item->workspace_bytes = random_below(&state, bytes);
            item->time_ms = (double)random_below(&state, times) / 8;
            if (related)
                item->time_ms = (double)(8 * (bytes - item->workspace_bytes) / bytes) / 8 + 1;
            largest = item->workspace_bytes > largest ? item->workspace_bytes : largest;
        }
        instance.classes[k] = (mdnn_knapsack_class_t){instance.items[k], count};
        most += largest;
    }
    instance.capacity_bytes =
        random_below(&state, 9) == 0 ? UINT64_MAX : random_below(&state, most + 2);
}

static double oracle(size_t k, uint64_t left)
{
    double best = 1e300;
    if (k == instance.class_count)
        return 0;
    for (size_t i = 0; i < instance.classes[k].count; i++) {
        const mdnn_knapsack_item_t *const item = &instance.items[k][i];
        if (item->workspace_bytes > left)
            continue;
        const double time_ms = item->time_ms + oracle(k + 1, left - item->workspace_bytes);
        best = time_ms < best ? time_ms : best;
    }
    return best;
}

static void check_result(const size_t *choices, const mdnn_knapsack_result_t *result)
{
    double time_ms = 0;
    uint64_t bytes = 0;
    for (size_t k = 0; k < instance.class_count; k++) {
        CHECK(choices[k] < instance.classes[k].count);
        time_ms += instance.items[k][choices[k]].time_ms;
        bytes += instance.items[k][choices[k]].workspace_bytes;
    }
    CHECK(time_ms == result->time_ms && bytes == result->workspace_bytes);
    CHECK(bytes <= instance.capacity_bytes);
    CHECK(result->bound_ms <= result->time_ms && (!result->optimal || result->bound_ms == time_ms));
}

static mdnn_status_t solve(const mdnn_knapsack_limits_t *limits, mdnn_knapsack_result_t *result)
{
    static size_t choices[MOST_CLASSES];
    const mdnn_status_t status = mdnn_knapsack_solve(
        instance.classes, instance.class_count, instance.capacity_bytes, limits, choices, result);
    if (status == MDNN_STATUS_OK)
        check_result(choices, result);
    return status;
}

static void check_seed(uint64_t seed)
{
    mdnn_knapsack_result_t result;
    fill_small(seed);
    const double best_ms = oracle(0, instance.capacity_bytes);
    const mdnn_status_t status = solve(NULL, &result);
    CHECK(status == (best_ms < 1e300 ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND));
    if (status == MDNN_STATUS_OK)
        CHECK(result.optimal && result.time_ms == best_ms);

    const mdnn_knapsack_limits_t tight = {.states = 1};
    if (status == MDNN_STATUS_OK) {
        CHECK(solve(&tight, &result) == MDNN_STATUS_OK);
        CHECK(result.time_ms >= best_ms && result.bound_ms <= best_ms);
        CHECK(!result.optimal || result.time_ms == best_ms);
    }
}

CASE(solution_equals_brute_force_on_random_instances)
{
    each_seed(check_seed, 50000);
    assert_int_equal(live_allocations, 0);
}

/* A plain program over integer capacities: an oracle for more classes than can be enumerated. */
static double table_oracle(void)
{
    enum { CAPACITY = 2000 };
    static double best[CAPACITY + 1], next[CAPACITY + 1];
    memset(best, 0, sizeof best);
    for (size_t k = 0; k < instance.class_count; k++) {
        for (uint64_t left = 0; left <= instance.capacity_bytes; left++) {
            next[left] = 1e300;
            for (size_t i = 0; i < instance.classes[k].count; i++) {
                const mdnn_knapsack_item_t *const item = &instance.items[k][i];
                if (item->workspace_bytes > left)
                    continue;
                const double time_ms = item->time_ms + best[left - item->workspace_bytes];
                next[left] = time_ms < next[left] ? time_ms : next[left];
            }
        }
        memcpy(best, next, sizeof best);
    }
    return best[instance.capacity_bytes];
}

static void check_against_table(uint64_t seed)
{
    uint64_t random = seed;
    mdnn_knapsack_result_t result;
    instance.class_count = 20 + random_below(&random, 60);
    instance.capacity_bytes = 200 + random_below(&random, 1800);
    for (size_t k = 0; k < instance.class_count; k++) {
        const size_t count = 1 + random_below(&random, MOST_ITEMS);
        for (size_t i = 0; i < count; i++) {
            const uint64_t bytes = i ? random_below(&random, 100) : 0;
            const double noise = (double)random_below(&random, 64) / 8;
            instance.items[k][i] =
                (mdnn_knapsack_item_t){200 - (double)bytes + (seed % 2 ? noise : 0), bytes};
        }
        instance.classes[k] = (mdnn_knapsack_class_t){instance.items[k], count};
    }
    CHECK(solve(NULL, &result) == MDNN_STATUS_OK);
    CHECK(result.optimal && result.time_ms == table_oracle());
}

CASE(solution_equals_a_table_over_capacities)
{
    each_seed(check_against_table, 300);
}

/* Time falls as workspace grows, by the same law everywhere: no choice is ever settled. */
static void fill_hostile(size_t classes, size_t items)
{
    uint64_t random = 7;
    instance.class_count = classes;
    instance.capacity_bytes = 0;
    for (size_t k = 0; k < classes; k++) {
        for (size_t i = 0; i < items; i++) {
            const uint64_t bytes = i ? 1 + random_below(&random, (uint64_t)1 << 30) : 0;
            instance.items[k][i] = (mdnn_knapsack_item_t){
                10 - (double)bytes / ((uint64_t)1 << 30) - (i ? 0.5 : 0), bytes};
            instance.capacity_bytes += bytes / items;
        }
        instance.classes[k] = (mdnn_knapsack_class_t){instance.items[k], items};
    }
}

/* How long the process has computed: other programs may keep it from doing so. */
static double cpu_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

CASE(thousand_hostile_classes_end_in_time_with_a_good_solution)
{
    const mdnn_knapsack_limits_t limits = {.time_ms = 300};
    mdnn_knapsack_result_t result;
    fill_hostile(MOST_CLASSES, 8);
    const double begin = cpu_ms();
    CHECK(solve(&limits, &result) == MDNN_STATUS_OK);
    assert_true(cpu_ms() - begin < 5000); /* sanitizers */
    assert_true(result.time_ms <= 1.001 * result.bound_ms);
}

CASE(time_limit_of_next_to_nothing_gives_the_first_solution)
{
    const mdnn_knapsack_limits_t none = {.time_ms = 1e-6};
    mdnn_knapsack_result_t result;
    fill_hostile(200, 8);
    CHECK(solve(&none, &result) == MDNN_STATUS_OK);
    assert_false(result.optimal);
    assert_true(result.bound_ms < result.time_ms && result.time_ms <= 1.01 * result.bound_ms);
}

CASE(what_cannot_be_asked_is_refused)
{
    static const mdnn_knapsack_item_t bad[][2] = {{{-1, 0}}, {{0.0 / 0.0, 0}}, {{1.0 / 0.0, 0}}};
    static const mdnn_knapsack_item_t huge[] = {{1, (uint64_t)1 << 61}};
    static const mdnn_knapsack_item_t fits_never[] = {{1, UINT64_MAX}};
    mdnn_knapsack_result_t result = {.time_ms = 5};
    size_t choices[2] = {9, 9};
    for (size_t i = 0; i < 3; i++) {
        const mdnn_knapsack_class_t class = {bad[i], 1};
        assert_int_equal(mdnn_knapsack_solve(&class, 1, 1, NULL, choices, &result),
                         MDNN_STATUS_INVALID_ARGUMENT);
    }
    const mdnn_knapsack_class_t empty = {huge, 0}, two[] = {{huge, 1}, {huge, 1}};
    const mdnn_knapsack_class_t never = {fits_never, 1};
    assert_int_equal(mdnn_knapsack_solve(&empty, 1, 1, NULL, choices, &result),
                     MDNN_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mdnn_knapsack_solve(two, 2, UINT64_MAX, NULL, choices, &result),
                     MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_knapsack_solve(&never, 1, UINT64_MAX - 1, NULL, choices, &result),
                     MDNN_STATUS_NOT_FOUND);
    assert_int_equal(choices[0], 9);
    assert_true(result.time_ms == 5);
    assert_int_equal(live_allocations, 0);
}

CASE(every_failed_allocation_is_reported_and_nothing_leaks)
{
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    const mdnn_knapsack_limits_t limits = {.states = 3000};
    long failures = 0;
    fill_hostile(12, 4);
    while (status == MDNN_STATUS_OUT_OF_MEMORY) {
        mdnn_knapsack_result_t result;
        fail_allocation_at = ++failures;
        status = solve(&limits, &result);
        fail_allocation_at = 0;
        assert_int_equal(live_allocations, 0);
    }
    assert_int_equal(status, MDNN_STATUS_OK);
    assert_true(failures > 12);
}

int main(void)
{
    return run_cases("knapsack");
}
