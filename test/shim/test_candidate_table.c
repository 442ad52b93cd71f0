/* Which engines are planned for which sizes: what larger sizes tell, also after a visit to a
 * database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/candidates/candidate_foresight.h"

enum { WHOLE = 64, LIMIT = 1000 };

static mdnn_candidate_table_t *table;

static int new_table(void **state)
{
    (void)state;
    return mdnn_candidate_table_create(&table) == MDNN_STATUS_OK ? 0 : -1;
}

static int end_table(void **state)
{
    (void)state;
    mdnn_candidate_table_destroy(table);
    return 0;
}

static mdnn_engine_offer_t offer_of(int id)
{
    mdnn_engine_offer_t offer = {.deterministic = true};
    offer.engine.id = (int16_t)id;
    return offer;
}

/* Engine `id` as `state` says at a size, with `bytes` of workspace; its index. */
static int put(int id, int64_t images, mdnn_candidate_state_t state, uint64_t bytes)
{
    const mdnn_engine_offer_t offer = offer_of(id);
    const int index = mdnn_candidate_table_engine(table, &offer);
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, images, MDNN_PART_FIRST);
    assert_true(index >= 0 && row != NULL);
    mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
    assert_non_null(candidate);
    candidate->state = state;
    candidate->cost = (mdnn_cost_t){.algo = MDNN_ALGO_ENGINE + id,
                                    .engine = offer.engine,
                                    .time_ms = state == MDNN_CANDIDATE_TIMED ? 1 : 0,
                                    .deterministic = true,
                                    .workspace_bytes = bytes};
    row->offered[index - MDNN_CANDIDATE_LEGACY] = true;
    return index;
}

static mdnn_cost_row_t *half(void)
{
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, WHOLE / 2, MDNN_PART_FIRST);
    assert_non_null(row);
    return row;
}

static void the_whole_batch_always_lists_engines(void **state)
{
    (void)state;
    const mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    assert_true(mdnn_candidate_table_engines_may_pay(table, row, LIMIT));
}

static void parts_list_no_engines_if_all_ran_within_the_limit_whole(void **state)
{
    (void)state;
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    put(4, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    assert_false(mdnn_candidate_table_engines_may_pay(table, half(), LIMIT));
    const mdnn_cost_row_t *const rest = mdnn_candidate_table_row(table, WHOLE / 2, MDNN_PART_REST);
    assert_false(mdnn_candidate_table_engines_may_pay(table, rest, LIMIT));
}

static void parts_list_engines_if_the_limit_kept_one_out_whole(void **state)
{
    (void)state;
    const int small = put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    const int large = put(4, WHOLE, MDNN_CANDIDATE_EXCLUDED, LIMIT + 1);
    assert_true(mdnn_candidate_table_engines_may_pay(table, half(), LIMIT));
    assert_false(mdnn_candidate_table_engine_may_pay(table, half(), small, LIMIT));
    assert_true(mdnn_candidate_table_engine_may_pay(table, half(), large, LIMIT));
}

static void a_tighter_limit_makes_an_engine_worth_planning_for_parts(void **state)
{
    (void)state;
    const int index = put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    assert_true(mdnn_candidate_table_engines_may_pay(table, half(), LIMIT - 1));
    assert_true(mdnn_candidate_table_engine_may_pay(table, half(), index, LIMIT - 1));
}

/* As another process finds it. */
static void store_and_recall(void)
{
    const mdnn_problem_t problem = {.x = {.dims = {WHOLE}}};
    mdnn_cost_memory_t memory = {0};
    bool any;
    assert_int_equal(mdnn_candidate_table_remember(table, &memory, &any), MDNN_STATUS_OK);
    mdnn_candidate_table_destroy(table);
    assert_int_equal(mdnn_candidate_table_create(&table), MDNN_STATUS_OK);
    assert_int_equal(mdnn_candidate_table_load(table, &problem, &memory), MDNN_STATUS_OK);
    mdnn_cost_memory_fini(&memory);
}

static void a_database_brings_postponed_engines_back_as_postponed(void **state)
{
    (void)state;
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    put(4, WHOLE, MDNN_CANDIDATE_EXCLUDED, LIMIT + 1);
    put(3, WHOLE / 2, MDNN_CANDIDATE_POSTPONED, 0);
    put(4, WHOLE / 2, MDNN_CANDIDATE_EXCLUDED, LIMIT + 1);
    store_and_recall();
    const mdnn_engine_offer_t first = offer_of(3), second = offer_of(4);
    const mdnn_cost_row_t *const row = half();
    assert_int_equal(mdnn_cost_row_look(row, mdnn_candidate_table_engine(table, &first))->state,
                     MDNN_CANDIDATE_POSTPONED);
    assert_int_equal(mdnn_cost_row_look(row, mdnn_candidate_table_engine(table, &second))->state,
                     MDNN_CANDIDATE_EXCLUDED);
    assert_true(row->listed && row->offered[0] && row->offered[1]);
}

static void a_database_tells_what_was_left_to_a_search_from_what_was_postponed(void **state)
{
    (void)state;
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    put(4, WHOLE, MDNN_CANDIDATE_DEFERRED, 0);
    put(3, WHOLE / 2, MDNN_CANDIDATE_POSTPONED, 0);
    put(4, WHOLE / 2, MDNN_CANDIDATE_DEFERRED, 0);
    assert_true(mdnn_candidate_table_has_deferred(table));
    store_and_recall();
    const mdnn_engine_offer_t first = offer_of(3), second = offer_of(4);
    const mdnn_cost_row_t *const whole = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    const int index = mdnn_candidate_table_engine(table, &second);
    assert_int_equal(mdnn_cost_row_look(whole, index)->state, MDNN_CANDIDATE_DEFERRED);
    assert_int_equal(mdnn_cost_row_look(half(), index)->state, MDNN_CANDIDATE_DEFERRED);
    assert_int_equal(mdnn_cost_row_look(half(), mdnn_candidate_table_engine(table, &first))->state,
                     MDNN_CANDIDATE_POSTPONED);
    assert_true(mdnn_candidate_table_has_deferred(table));
}

/* Where few candidates were wanted, legacy algorithms are among those that were left. */
static void a_database_tells_an_algorithm_that_was_left_from_one_that_cannot_run(void **state)
{
    (void)state;
    enum { TRIED = 1, LEFT_OUT = 4, REFUSED = 6 };
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    mdnn_cost_row_t *row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    for (int algo = TRIED; algo <= REFUSED; algo++) {
        mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, algo);
        candidate->state = algo == TRIED      ? MDNN_CANDIDATE_TIMED
                           : algo == LEFT_OUT ? MDNN_CANDIDATE_DEFERRED
                                              : MDNN_CANDIDATE_UNSUPPORTED;
        candidate->cost = (mdnn_cost_t){.algo = algo, .time_ms = algo == TRIED ? 1 : 0};
    }
    assert_true(mdnn_cost_row_has_deferred(row));
    store_and_recall();
    row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    assert_int_equal(mdnn_cost_row_look(row, TRIED)->state, MDNN_CANDIDATE_TIMED);
    assert_int_equal(mdnn_cost_row_look(row, LEFT_OUT)->state, MDNN_CANDIDATE_DEFERRED);
    assert_int_equal(mdnn_cost_row_look(row, REFUSED)->state, MDNN_CANDIDATE_UNSUPPORTED);
    assert_true(row->partly && mdnn_candidate_table_has_deferred(table));
}

/* Files of before do not tell the two apart; the whole batch had nothing else to postpone. */
static void an_old_database_left_what_it_does_not_know_of_the_whole_batch(void **state)
{
    (void)state;
    const mdnn_problem_t problem = {.x = {.dims = {WHOLE}}};
    const mdnn_engine_offer_t offer = offer_of(3);
    const mdnn_cost_t untimed = {
        .algo = MDNN_ALGO_ENGINE + 3, .engine = offer.engine, .untimed = true};
    mdnn_cost_memory_t memory = {0};
    for (int64_t images = WHOLE / 2; images <= WHOLE; images *= 2)
        assert_int_equal(mdnn_cost_memory_put(&memory, images, MDNN_PART_FIRST, &untimed, 1, true),
                         MDNN_STATUS_OK);
    assert_int_equal(mdnn_candidate_table_load(table, &problem, &memory), MDNN_STATUS_OK);
    mdnn_cost_memory_fini(&memory);
    const mdnn_cost_row_t *const whole = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    const int index = mdnn_candidate_table_engine(table, &offer);
    assert_int_equal(mdnn_cost_row_look(whole, index)->state, MDNN_CANDIDATE_DEFERRED);
    assert_int_equal(mdnn_cost_row_look(half(), index)->state, MDNN_CANDIDATE_POSTPONED);
}

static void parts_take_the_engines_to_fall_back_to_of_the_whole_batch(void **state)
{
    (void)state;
    mdnn_cost_row_t *const part = half();
    mdnn_engine_offer_t fallback = offer_of(4);
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    const int index = put(4, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    assert_false(mdnn_candidate_table_offer_fallback(table, WHOLE, part)); /* nobody said so yet */
    fallback.fallback = true;
    assert_int_equal(mdnn_candidate_table_engine(table, &fallback), index);
    assert_true(mdnn_candidate_table_offer_fallback(table, WHOLE, part));
    assert_true(part->offered[index - MDNN_CANDIDATE_LEGACY]);
    assert_false(part->offered[0]);
    mdnn_cost_row_t *const whole = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    assert_false(mdnn_candidate_table_offer_fallback(table, WHOLE, whole));
}

enum { BEST = 3, LEFT = 4, OWN = 5 };

/* Whether a run of engine `id` says enough; the best one that was timed takes 1 ms. */
static bool take_slow_call(int id, double most_ms, double device_ms, bool chosen)
{
    const mdnn_engine_offer_t offer = offer_of(id);
    const mdnn_own_run_t run = {.images = WHOLE,
                                .workspace_bytes = LIMIT,
                                .most_ms = most_ms,
                                .device_ms = device_ms,
                                .chosen = chosen,
                                .margin = 0.02};
    return mdnn_candidate_table_take_run(table, &offer, &run);
}

static bool take_run(int id, double ms, bool chosen)
{
    return take_slow_call(id, ms, ms, chosen);
}

static double time_of(int id)
{
    const mdnn_engine_offer_t offer = offer_of(id);
    return mdnn_candidate_table_engine_ms(table, &offer.engine, WHOLE);
}

static void a_chosen_engine_that_nothing_beats_needs_no_measurement(void **state)
{
    (void)state;
    put(BEST, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    put(LEFT, WHOLE, MDNN_CANDIDATE_DEFERRED, 0);
    assert_false(take_run(LEFT, 1.03, true));
    assert_true(time_of(LEFT) == 0);
    assert_true(take_run(LEFT, 1.01, true) && time_of(LEFT) == 1.01);
    assert_true(take_run(OWN, 0.9, true) && time_of(OWN) == 0.9); /* no heuristics offered it */
    assert_false(take_run(BEST, 0.1, true));                      /* it was measured */
    assert_true(time_of(BEST) == 1);
}

static void an_engine_that_a_search_found_slow_needs_none(void **state)
{
    (void)state;
    put(LEFT, WHOLE, MDNN_CANDIDATE_DEFERRED, 0);
    assert_false(take_run(LEFT, 10, false)); /* than what? */
    put(BEST, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    assert_false(take_run(LEFT, 1.2, false));
    assert_false(take_run(OWN, 10, false)); /* nobody left it to a search */
    assert_true(take_run(LEFT, 2, false) && time_of(LEFT) == 2);
    assert_true(time_of(BEST) == 1);
    assert_false(mdnn_candidate_table_has_deferred(table));
}

/* Those that cuDNN falls back to were not even listed. */
static void a_size_is_not_known_whole_because_a_search_tried_all_that_was_left(void **state)
{
    (void)state;
    put(BEST, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    put(LEFT, WHOLE, MDNN_CANDIDATE_DEFERRED, 0);
    mdnn_cost_row_t *row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    row->partly = row->listed = true;
    assert_true(take_run(LEFT, 2, false));
    store_and_recall();
    row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    assert_true(time_of(LEFT) == 2 && !mdnn_cost_row_has_deferred(row));
    assert_true(row->listed && row->partly && mdnn_candidate_table_has_deferred(table));
    for (int i = 0; i < row->capacity; i++)
        assert_false(mdnn_cost_row_look(row, i)->cost.deferred); /* plans are made of these */
}

static void a_slow_host_makes_no_engine_slow(void **state)
{
    (void)state;
    put(LEFT, WHOLE, MDNN_CANDIDATE_DEFERRED, 0);
    put(BEST, WHOLE, MDNN_CANDIDATE_TIMED, 0);
    assert_false(take_slow_call(LEFT, 10, 1, false));
    assert_true(mdnn_candidate_table_has_deferred(table));
    assert_true(take_slow_call(LEFT, 10, 2, false) && time_of(LEFT) == 10);
}

static void a_size_that_was_kept_without_engines_is_listed_again_when_asked(void **state)
{
    (void)state;
    const mdnn_problem_t problem = {0};
    mdnn_cost_memory_t memory = {0};
    const mdnn_cost_t legacy = {.algo = 0, .math_type = 0, .time_ms = 1};
    assert_int_equal(mdnn_cost_memory_put(&memory, WHOLE / 2, MDNN_PART_FIRST, &legacy, 1, true),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_candidate_table_load(table, &problem, &memory), MDNN_STATUS_OK);
    mdnn_cost_memory_fini(&memory);
    assert_false(half()->listed);
}

static void a_brief_measurement_times_no_parts_if_nothing_was_left_out_whole(void **state)
{
    (void)state;
    put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    assert_true(mdnn_candidate_table_is_settled(table, half(), LIMIT, true));
    assert_false(mdnn_candidate_table_is_settled(table, half(), LIMIT, false));
    assert_false(mdnn_candidate_table_is_settled(table, half(), LIMIT - 1, true));
    put(4, WHOLE, MDNN_CANDIDATE_EXCLUDED, LIMIT + 1);
    assert_false(mdnn_candidate_table_is_settled(table, half(), LIMIT, true));
}

static void what_cannot_be_made_is_struck_off_at_its_size_alone(void **state)
{
    (void)state;
    const int index = put(3, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    put(3, WHOLE / 2, MDNN_CANDIDATE_TIMED, LIMIT);
    put(4, WHOLE, MDNN_CANDIDATE_TIMED, LIMIT);
    const mdnn_cost_row_t *const whole = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    const mdnn_cost_t cost = mdnn_cost_row_look(whole, index)->cost;
    assert_true(mdnn_candidate_table_refuse(table, WHOLE, &cost));
    assert_int_equal(mdnn_cost_row_look(whole, index)->state, MDNN_CANDIDATE_UNSUPPORTED);
    assert_int_equal(mdnn_cost_row_look(whole, index + 1)->state, MDNN_CANDIDATE_TIMED);
    assert_int_equal(mdnn_cost_row_look(half(), index)->state, MDNN_CANDIDATE_TIMED);
    assert_false(mdnn_candidate_table_refuse(table, WHOLE, &cost)); /* it does not come back */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, new_table, end_table)
    const struct CMUnitTest tests[] = {
        TEST(the_whole_batch_always_lists_engines),
        TEST(parts_list_no_engines_if_all_ran_within_the_limit_whole),
        TEST(parts_list_engines_if_the_limit_kept_one_out_whole),
        TEST(a_tighter_limit_makes_an_engine_worth_planning_for_parts),
        TEST(a_database_brings_postponed_engines_back_as_postponed),
        TEST(what_cannot_be_made_is_struck_off_at_its_size_alone),
        TEST(a_brief_measurement_times_no_parts_if_nothing_was_left_out_whole),
        TEST(a_database_tells_what_was_left_to_a_search_from_what_was_postponed),
        TEST(a_database_tells_an_algorithm_that_was_left_from_one_that_cannot_run),
        TEST(an_old_database_left_what_it_does_not_know_of_the_whole_batch),
        TEST(parts_take_the_engines_to_fall_back_to_of_the_whole_batch),
        TEST(a_chosen_engine_that_nothing_beats_needs_no_measurement),
        TEST(an_engine_that_a_search_found_slow_needs_none),
        TEST(a_size_is_not_known_whole_because_a_search_tried_all_that_was_left),
        TEST(a_slow_host_makes_no_engine_slow),
        TEST(a_size_that_was_kept_without_engines_is_listed_again_when_asked),
    };
    return cmocka_run_group_tests_name("cost table", tests, NULL, NULL);
}
