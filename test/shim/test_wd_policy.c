/* Division of an arena among groups, on random networks with costs of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/convolution/wd_settings.h"
#include "shim/real/process.h"
#include "optimizer/wd_policy.h"
#include "test/unit/cases.h"
#include "test/unit/random_wd.h"

enum { GROUPS = 5, CALLS = 24, PROBLEMS = 6, ITEMS = 8 };

static mdnn_options_t options;

const mdnn_options_t *mdnn_process_options(void)
{
    return &options;
}

/* Desirable sets: the item of a call's problem number and place. */
static struct set {
    mdnn_knapsack_item_t items[ITEMS];
    size_t count;
} sets[PROBLEMS];

static size_t items_of(const mdnn_network_call_t *call, mdnn_knapsack_item_t *items,
                       size_t capacity)
{
    const struct set *const set = call->problem;
    for (size_t i = 0; i < set->count && i < capacity; i++)
        items[i] = set->items[i];
    return set->count;
}

static void fill_sets(uint64_t *state, uint64_t most_bytes, bool start_at_zero)
{
    for (size_t p = 0; p < PROBLEMS; p++) {
        sets[p].count = 1 + random_wd_below(state, ITEMS);
        uint64_t bytes = start_at_zero ? 0 : 1 + random_wd_below(state, most_bytes);
        double ms = 100 + (double)random_wd_below(state, 100);
        for (size_t i = 0; i < sets[p].count; i++) {
            sets[p].items[i] = (mdnn_knapsack_item_t){ms, bytes};
            bytes += 1 + random_wd_below(state, most_bytes / ITEMS);
            ms -= (double)(1 + random_wd_below(state, 12));
        }
    }
}

typedef struct division {
    mdnn_network_call_t calls[GROUPS][CALLS];
    size_t layer_of[GROUPS][CALLS];
    mdnn_network_t networks[GROUPS];
    mdnn_wd_group_t groups[GROUPS];
    size_t count;
    uint64_t bytes;
} division_t;

/* Layers repeat within an iteration now and then. */
static void fill(division_t *division, uint64_t *state)
{
    memset(division, 0, sizeof *division);
    division->count = 1 + random_wd_below(state, GROUPS);
    division->bytes = 512 * random_wd_below(state, 3000) + random_wd_below(state, 512);
    for (size_t g = 0; g < division->count; g++) {
        mdnn_network_t *const network = &division->networks[g];
        *network = (mdnn_network_t){.number = 1 + g,
                                    .count = 1 + random_wd_below(state, CALLS),
                                    .calls = division->calls[g],
                                    .layer_of = division->layer_of[g]};
        for (size_t i = 0; i < network->count; i++) {
            const bool again = i > 0 && random_wd_below(state, 4) == 0;
            const size_t of = again ? random_wd_below(state, i) : i;
            division->calls[g][i] =
                again ? division->calls[g][of]
                      : (mdnn_network_call_t){.problem = &sets[random_wd_below(state, PROBLEMS)],
                                              .x = i};
            division->layer_of[g][i] = again ? division->layer_of[g][of] : network->layer_count++;
        }
        division->groups[g].network = network;
    }
}

static void assert_valid(const division_t *division, mdnn_wd_model_t model)
{
    uint64_t end = 0;
    for (size_t g = 0; g < division->count; g++) {
        const mdnn_wd_group_t *const group = &division->groups[g];
        assert_true(group->region.offset >= end);
        assert_int_equal(group->region.offset % MDNN_WD_ALIGNMENT_BYTES, 0);
        end = group->region.offset + group->region.bytes;
        assert_true(model == MDNN_WD_SUM || !group->segments);
        uint64_t next = group->region.offset;
        for (size_t i = 0; group->segments && i < group->network->layer_count; i++) {
            assert_true(group->segments[i].offset >= next);
            assert_int_equal(group->segments[i].offset % MDNN_WD_ALIGNMENT_BYTES, 0);
            next = group->segments[i].offset + group->segments[i].bytes;
        }
        assert_true(next <= end);
    }
    assert_true(end <= division->bytes);
}

static double best_ms(const mdnn_network_call_t *call, uint64_t bytes)
{
    const struct set *const set = call->problem;
    double best = 1e9; /* nothing fits */
    for (size_t i = 0; i < set->count; i++)
        if (set->items[i].workspace_bytes <= bytes && set->items[i].time_ms < best)
            best = set->items[i].time_ms;
    return best;
}

/* Time of an iteration of all networks; each call within its segment, its region, or `equal` bytes.
 */
static double time_ms(const division_t *division, uint64_t equal)
{
    double sum = 0;
    for (size_t g = 0; g < division->count; g++) {
        const mdnn_wd_group_t *const group = &division->groups[g];
        for (size_t i = 0; i < group->network->count; i++) {
            const mdnn_wd_segment_t *const segment =
                group->segments ? &group->segments[group->network->layer_of[i]] : &group->region;
            sum += best_ms(&group->network->calls[i], equal ? equal : segment->bytes);
        }
    }
    return sum;
}

static void free_segments(division_t *division)
{
    for (size_t g = 0; g < division->count; g++) {
        free(division->groups[g].segments);
        division->groups[g].segments = NULL;
    }
}

static size_t layers_of(const division_t *division)
{
    size_t layers = 0;
    for (size_t g = 0; g < division->count; g++)
        layers += division->networks[g].layer_count;
    return layers;
}

/* Never overlapping, never beyond the arena, and never slower than equal shares; `solver_ms` may be
 * so short that nothing is proven. */
static void divide_at_random(double solver_ms, uint64_t seed)
{
    static division_t division;
    size_t faster = 0;
    for (int round = 0; round < 1500; round++) {
        fill_sets(&seed, 400000, random_wd_below(&seed, 4) > 0);
        fill(&division, &seed);
        for (int model = 0; model < MDNN_WD_MODEL_COUNT; model++) {
            const mdnn_wd_settings_t settings = {.model = (mdnn_wd_model_t)model,
                                                 .solver_ms = solver_ms};
            const uint64_t shares = model == MDNN_WD_SUM ? layers_of(&division) : division.count;
            mdnn_wd_divide(&settings, items_of, division.bytes, division.groups, division.count);
            assert_valid(&division, (mdnn_wd_model_t)model);
            const double equal = time_ms(&division, division.bytes / shares / 512 * 512 + 1);
            const double divided = time_ms(&division, 0);
            assert_true(divided <= equal + 1e-6 || equal >= 1e9);
            faster += divided < equal;
            free_segments(&division);
        }
    }
    assert_true(faster > 500);
}

CASE(divisions_are_valid_and_no_slower_than_equal_shares)
{
    divide_at_random(1000, 1);
}

CASE(so_are_those_that_were_cut_short)
{
    divide_at_random(1e-6, 2);
}

CASE(one_group_that_shares_has_everything)
{
    static division_t division;
    uint64_t seed = 3;
    const mdnn_wd_settings_t settings = {.model = MDNN_WD_SHARED, .solver_ms = 1000};
    for (int round = 0; round < 100; round++) {
        fill_sets(&seed, 400000, true);
        fill(&division, &seed);
        mdnn_wd_divide(&settings, items_of, division.bytes, division.groups, 1);
        assert_int_equal(division.groups[0].region.offset, 0);
        assert_int_equal(division.groups[0].region.bytes, division.bytes / 512 * 512);
    }
}

CASE(equal_regions_until_all_networks_are_known)
{
    static division_t division;
    uint64_t seed = 4;
    const mdnn_wd_settings_t settings = {.model = MDNN_WD_SUM, .solver_ms = 1000};
    fill_sets(&seed, 400000, true);
    do
        fill(&division, &seed);
    while (division.count < 3 || division.bytes < 4096);
    division.groups[1].network = NULL;
    mdnn_wd_divide(&settings, items_of, division.bytes, division.groups, division.count);
    for (size_t g = 0; g < division.count; g++) {
        assert_null(division.groups[g].segments);
        assert_int_equal(division.groups[g].region.bytes,
                         division.bytes / 512 * 512 / division.count / 512 * 512);
    }
}

CASE(the_limit_is_the_total_or_less)
{
    options.convolution_total_workspace = 1000;
    options.convolution_workspace_limit = UINT64_MAX;
    assert_int_equal(mdnn_wd_limit(), 0);
    assert_false(mdnn_wd_is_on());
    options.convolution_policy = 2;
    assert_true(mdnn_wd_is_on());
    assert_int_equal(mdnn_wd_limit(), 1000);
    options.convolution_workspace_limit = 10;
    assert_int_equal(mdnn_wd_limit(), 10);
}

int main(void)
{
    return run_cases("wd_policy");
}
