/* Discovery of networks: periods against a search that tries every one, and what the watch makes of
 * the sequences that programs run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/network.h"
#include "test/unit/cases.h"
#include "test/unit/random_wd.h"

static const char problems[64];

/* Layer `i` of a program: its own tensors, a problem that it may share. */
static mdnn_network_call_t layer_call(size_t i, size_t problem_count)
{
    return (mdnn_network_call_t){
        .problem = &problems[i % problem_count], .x = 1000 + i, .w = 2000 + i, .y = 3000 + i};
}

/* ---- the period ---- */

static bool repeats(const mdnn_network_call_t *calls, size_t count, size_t period, size_t reach,
                    mdnn_likeness_t likeness)
{
    for (size_t i = count - reach + period; i < count; i++)
        if (!mdnn_network_calls_alike(&calls[i], &calls[i - period], likeness))
            return false;
    return true;
}

static size_t try_every_period(const mdnn_network_call_t *calls, size_t count,
                               mdnn_likeness_t likeness)
{
    const size_t times =
        likeness == MDNN_LIKE_TENSORS ? MDNN_REPEATS_TENSORS : MDNN_REPEATS_WEIGHTS;
    for (size_t period = 1; period <= count; period++) {
        const size_t reach =
            times * period > MDNN_REPEATING_CALLS ? times * period : MDNN_REPEATING_CALLS;
        if (reach <= count && repeats(calls, count, period, reach, likeness))
            return period;
    }
    return 0;
}

/* Something, then iterations of random calls from a small set, and now and then a slip. */
static size_t random_sequence(uint64_t *state, mdnn_network_call_t *calls, size_t most)
{
    const size_t layers = 1 + random_wd_below(state, 6), period = 1 + random_wd_below(state, 40);
    const size_t prefix = random_wd_below(state, 60), slip = random_wd_below(state, 3 * most);
    const size_t count = 1 + random_wd_below(state, most);
    for (size_t i = 0; i < count; i++) {
        calls[i] = layer_call(random_wd_below(state, layers), 1 + random_wd_below(state, 2));
        calls[i].x += random_wd_below(state, 2);
        calls[i].writes_weights = (uint32_t)random_wd_below(state, 2);
        if (i >= prefix + period && i != slip)
            calls[i] = calls[i - period];
        if (random_wd_below(state, 4) == 0)
            calls[i].y ^= 1 << 12; /* what only the tensors tell apart */
    }
    return count;
}

CASE(the_period_is_what_trying_every_one_finds)
{
    enum { MOST = 400 };
    static mdnn_network_call_t calls[MOST];
    static size_t lengths[MOST];
    size_t found[2] = {0, 0}, none[2] = {0, 0};
    uint64_t random = 7;
    for (int round = 0; round < 4000; round++) {
        const size_t count = random_sequence(&random, calls, MOST);
        for (int likeness = 0; likeness < 2; likeness++) {
            const size_t period =
                mdnn_period_find(calls, count, (mdnn_likeness_t)likeness, lengths);
            assert_int_equal(period, try_every_period(calls, count, (mdnn_likeness_t)likeness));
            *(period ? &found[likeness] : &none[likeness]) += 1;
        }
    }
    assert_true(found[MDNN_LIKE_WEIGHTS] > 200 && none[MDNN_LIKE_WEIGHTS] > 200);
}

CASE(exact_periods_are_found_too)
{
    enum { MOST = 400 };
    static mdnn_network_call_t calls[MOST];
    static size_t lengths[MOST];
    for (size_t period = 1; period <= 100; period++) {
        for (size_t i = 0; i < MOST; i++)
            calls[i] = layer_call(i % period, 3);
        for (size_t count = 1; count <= MOST; count += 13) {
            const size_t got = mdnn_period_find(calls, count, MDNN_LIKE_TENSORS, lengths);
            assert_int_equal(got, try_every_period(calls, count, MDNN_LIKE_TENSORS));
            assert_true(count < 3 * period || count < MDNN_REPEATING_CALLS || got == period);
        }
    }
}

/* ---- the watch ---- */

typedef struct script {
    mdnn_watch_t *watch;
    int changes;
    mdnn_network_place_t place; /* of the last call */
} script_t;

static script_t open_script(void)
{
    script_t script = {0};
    assert_int_equal(mdnn_watch_create(&script.watch), MDNN_STATUS_OK);
    return script;
}

static void call(script_t *script, mdnn_network_call_t made)
{
    script->changes += mdnn_watch_call(script->watch, &made, &script->place);
}

/* Iterations of layers [first, first + count), of so many problems. */
static void iterate(script_t *script, size_t times, size_t first, size_t count,
                    size_t problem_count)
{
    for (size_t i = 0; i < times * count; i++)
        call(script, layer_call(first + i % count, problem_count));
}

CASE(repeats_of_one_problem_at_other_tensors_are_other_layers)
{
    script_t script = open_script();
    iterate(&script, 10, 0, 12, 1);
    assert_int_equal(script.changes, 1);
    assert_int_equal(mdnn_watch_network(script.watch)->count, 12);
    const size_t last = script.place.layer;
    for (size_t i = 1; i < 30; i++) {
        call(&script, layer_call((i - 1) % 12, 1));
        assert_int_equal(script.place.layer, (last + i) % 12);
    }
    assert_int_equal(script.changes, 1);
    mdnn_watch_destroy(script.watch);
}

CASE(what_runs_before_does_not_hide_a_network)
{
    script_t script = open_script();
    for (size_t i = 0; i < 20; i++)
        iterate(&script, 2, 100 + 3 * i, 3, 5); /* a search: each plan twice */
    iterate(&script, 6, 0, 50, 7);
    assert_int_equal(script.changes, 1);
    assert_int_equal(mdnn_watch_network(script.watch)->count, 50);
    mdnn_watch_destroy(script.watch);
}

CASE(an_odd_last_batch_changes_nothing)
{
    script_t script = open_script();
    iterate(&script, 6, 0, 20, 5);
    for (size_t epoch = 0; epoch < 30; epoch++) {
        iterate(&script, 1, 100, 20, 5);
        assert_null(script.place.network);
        iterate(&script, 4, 0, 20, 5);
        assert_ptr_equal(script.place.network, mdnn_watch_network(script.watch));
    }
    assert_int_equal(script.changes, 1);
    assert_int_equal(mdnn_watch_discoveries(script.watch), 1);
    mdnn_watch_destroy(script.watch);
}

/* Forward only, on the same tensors: places are known at once, one change there and one back. */
CASE(an_evaluation_is_one_change_each_way)
{
    script_t script = open_script();
    iterate(&script, 6, 0, 30, 5);
    for (int epoch = 1; epoch <= 20; epoch++) {
        iterate(&script, 1, 0, 10, 5);
        assert_non_null(script.place.network);
        iterate(&script, 9, 0, 10, 5);
        assert_int_equal(script.changes, 2 * epoch);
        assert_int_equal(mdnn_watch_network(script.watch)->count, 10);
        iterate(&script, 9, 0, 30, 5);
        assert_int_equal(script.changes, 2 * epoch + 1);
        assert_int_equal(mdnn_watch_network(script.watch)->count, 30);
    }
    assert_int_equal(mdnn_watch_discoveries(script.watch), 2);
    mdnn_watch_destroy(script.watch);
}

CASE(another_model_is_one_change)
{
    script_t script = open_script();
    for (size_t model = 0; model < 3 * MDNN_WATCH_NETWORKS; model++) {
        iterate(&script, 8, 100 * model, 17, 4);
        assert_int_equal(script.changes, model + 1);
        assert_int_equal(mdnn_watch_network(script.watch)->count, 17);
    }
    iterate(&script, 8, 100 * (3 * MDNN_WATCH_NETWORKS - 2), 17, 4);
    assert_int_equal(mdnn_watch_discoveries(script.watch), 3 * MDNN_WATCH_NETWORKS);
    mdnn_watch_destroy(script.watch);
}

/* Activations and gradients of weights get new addresses in every iteration. */
CASE(wandering_activations_take_longer)
{
    script_t script = open_script();
    size_t until = 0;
    for (size_t i = 0; i < 20 * 12; i++) {
        mdnn_network_call_t made = layer_call(i % 12, 3);
        made.x += 100000 * i;
        made.y += 200000 * i;
        made.writes_weights = i % 3 == 0;
        made.w += made.writes_weights * 300000 * i;
        call(&script, made);
        if (!until && script.changes)
            until = i + 1;
    }
    assert_int_equal(script.changes, 1);
    assert_int_equal(mdnn_watch_network(script.watch)->count, 12);
    assert_true(until >= 6 * 12 && until <= 8 * 12);
    mdnn_watch_destroy(script.watch);
}

CASE(a_weight_that_is_used_twice_is_two_layers)
{
    script_t script = open_script();
    for (size_t i = 0; i < 100; i++) {
        mdnn_network_call_t made = layer_call(0, 1);
        made.x += 100 * (i % 2);
        made.y += 100 * (i % 2);
        call(&script, made);
    }
    assert_int_equal(mdnn_watch_network(script.watch)->count, 2);
    mdnn_watch_destroy(script.watch);
}

/* Recomputed forward passes repeat within an iteration. */
CASE(recomputation_is_part_of_the_iteration)
{
    script_t script = open_script();
    for (int i = 0; i < 6; i++) {
        iterate(&script, 2, 0, 20, 5);
        iterate(&script, 1, 50, 20, 5);
    }
    assert_int_equal(script.changes, 1);
    assert_int_equal(mdnn_watch_network(script.watch)->count, 60);
    assert_int_equal(mdnn_watch_network(script.watch)->layer_count, 40);
    mdnn_watch_destroy(script.watch);
}

static bool is_layer(const mdnn_network_place_t *place, const mdnn_network_call_t *made)
{
    const mdnn_network_t *const network = place->network;
    bool any = false;
    for (size_t i = 0; i < network->count; i++)
        if (network->layer_of[i] == place->layer) {
            if (!mdnn_network_calls_alike(&network->calls[i], made, network->likeness))
                return false;
            any = true;
        }
    return any && place->layer < network->layer_count;
}

/* Whatever comes: a place names a layer that is like the call, and memory does not grow. */
CASE(places_hold_for_random_calls)
{
    script_t script = open_script();
    uint64_t random = 3;
    size_t placed = 0;
    for (int round = 0; round < 400; round++) {
        const size_t first = 10 * random_wd_below(&random, 6),
                     count = 1 + random_wd_below(&random, 30);
        const size_t times = random_wd_below(&random, 8);
        for (size_t i = 0; i < times * count; i++) {
            const mdnn_network_call_t made = layer_call(first + i % count, 3);
            call(&script, made);
            if (!script.place.network)
                continue;
            placed++;
            assert_true(is_layer(&script.place, &made));
        }
    }
    assert_true(placed > 1000);
    assert_true(script.changes > 10);
    mdnn_watch_destroy(script.watch);
}

int main(void)
{
    return run_cases("network");
}
