/* Small random problems of Workspace Division, and their solution by trying every choice. */
#ifndef RANDOM_WD_H
#define RANDOM_WD_H

#include <string.h>

#include "optimizer/wd.h"
#include "test/unit/random.h"

enum { RANDOM_WD_KERNELS = 6, RANDOM_WD_ITEMS = 6 };
#define RANDOM_WD_NONE 1e300

typedef struct random_wd {
    uint64_t seed;
    mdnn_wd_problem_t problem; /* `model` is for the test to set */
    mdnn_wd_kernel_t kernels[RANDOM_WD_KERNELS];
    mdnn_knapsack_item_t items[RANDOM_WD_KERNELS][RANDOM_WD_ITEMS];
} random_wd_t;

static inline uint64_t random_wd_below(uint64_t *state, uint64_t end)
{
    return random_next(state) % end;
}

/* Times are multiples of 1/8, so that sums are exact and ties are real. */
static inline void random_wd_fill(random_wd_t *instance, uint64_t seed)
{
    static const uint64_t ranges[] = {4, 20, 1000, (uint64_t)1 << 33};
    uint64_t state = seed, most = 0;
    const uint64_t bytes = ranges[random_wd_below(&state, 4)];
    const uint64_t times = ranges[random_wd_below(&state, 3)];
    const uint64_t groups = 1 + random_wd_below(&state, 4);
    const size_t kernels = 1 + random_wd_below(&state, RANDOM_WD_KERNELS);
    const size_t repeats = random_wd_below(&state, 3); /* kernels that are one problem */

    instance->seed = seed;
    for (size_t k = 0; k < kernels; k++) {
        const size_t count = 1 + random_wd_below(&state, RANDOM_WD_ITEMS);
        uint64_t largest = 0;
        for (size_t i = 0; i < count; i++) {
            const uint64_t size = random_wd_below(&state, bytes);
            instance->items[k][i] =
                (mdnn_knapsack_item_t){(double)(1 + random_wd_below(&state, times)) / 8, size};
            largest = size > largest ? size : largest;
        }
        instance->kernels[k] = (mdnn_wd_kernel_t){instance->items[k], count,
                                                  (uint32_t)random_wd_below(&state, groups)};
        if (k > 0 && k <= repeats) {
            instance->kernels[k].items = instance->kernels[0].items;
            instance->kernels[k].item_count = instance->kernels[0].item_count;
        }
        most += largest;
    }
    instance->problem = (mdnn_wd_problem_t){.kernels = instance->kernels,
                                            .kernel_count = kernels,
                                            .group_count = (uint32_t)groups,
                                            .total_bytes = random_wd_below(&state, most + 2)};
}

typedef struct random_wd_search {
    const random_wd_t *instance;
    uint64_t arenas[RANDOM_WD_KERNELS];
    double best_ms;
} random_wd_search_t;

static inline void random_wd_try(random_wd_search_t *search, size_t k, double time_ms)
{
    const mdnn_wd_problem_t *const problem = &search->instance->problem;
    uint64_t sum = 0;
    for (size_t i = 0; i < RANDOM_WD_KERNELS; i++)
        sum += search->arenas[i];
    if (sum > problem->total_bytes)
        return;
    if (k == problem->kernel_count) {
        search->best_ms = time_ms < search->best_ms ? time_ms : search->best_ms;
        return;
    }
    const mdnn_wd_kernel_t *const kernel = &problem->kernels[k];
    uint64_t *const arena = &search->arenas[problem->model == MDNN_WD_SUM ? k : kernel->group];
    const uint64_t before = *arena;
    for (size_t i = 0; i < kernel->item_count; i++) {
        const uint64_t bytes = kernel->items[i].workspace_bytes;
        *arena = bytes > before ? bytes : before;
        random_wd_try(search, k + 1, time_ms + kernel->items[i].time_ms);
    }
    *arena = before;
}

/* Least time, or RANDOM_WD_NONE. */
static inline double random_wd_oracle(const random_wd_t *instance)
{
    random_wd_search_t search = {.instance = instance, .best_ms = RANDOM_WD_NONE};
    random_wd_try(&search, 0, 0);
    return search.best_ms;
}

#endif
