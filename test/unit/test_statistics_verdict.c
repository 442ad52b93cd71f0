/* The verdict: what the numbers of a run become in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "config/statistics_verdict.h"

static const uint64_t gib = UINT64_C(1) << 30;

static mdnn_memory_statistics_t under_budget(void)
{
    return (mdnn_memory_statistics_t){
        .budget_bytes = 6 * gib,
        .peak_live_bytes = 11 * gib,
        .need_bytes = 10 * gib - gib / 5,
        .out_bytes = 300 * gib,
        .in_bytes = 299 * gib,
        .period_operations = 100,
        .period_out_bytes = 4 * gib,
        .period_in_bytes = 4 * gib,
        .compute_ms = 73.4,
        .predicted_ms = 113,
        .round_ms = 123,
        .round_copies_ms = 60,
        .round_mapping_ms = 20,
        .round_library_ms = 10,
        .round_background_ms = 10,
        .forecast = {{9 * gib, 74, gib / 2}, {8 * gib, 84, 4 * gib}, {5 * gib, 160, 10 * gib}}};
}

static mdnn_verdict_lines_t verdict_of(const mdnn_memory_statistics_t *numbers)
{
    mdnn_verdict_lines_t verdict = {.count = 0};
    mdnn_verdict_add_device(&verdict, 0, numbers);
    mdnn_verdict_end(&verdict);
    return verdict;
}

static void a_budget_has_its_price_and_that_of_others(void **state)
{
    (void)state;
    const mdnn_memory_statistics_t numbers = under_budget();
    const mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_int_equal(verdict.count, 2);
    assert_string_equal(verdict.lines[0],
                        "budget 6 GiB of the 9.8 GiB that it asked for: 123 ms per "
                        "iteration, 73 without moves (+68 %)");
    /* 10 ms beyond the prediction with 8 GiB moved: of a quarter as much, and of a half in proportion. */
    assert_string_equal(verdict.lines[1], "9 GiB would cost about +5 %, 8 GiB +21 %, 5 GiB +130 %; "
                                          "from 9.8 GiB on nothing has to move");
}

/* With 8 GiB the host needs longer than the plan: 60 of its 123 ms are for moves, and half of that for half the bytes. */
static void a_slow_host_is_slow_with_any_budget(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.round_copies_ms = 0;
    numbers.round_library_ms = 70;
    assert_float_equal(mdnn_memory_forecast_ms(&numbers, 1), 123 - 30, 1e-9);
    assert_float_equal(mdnn_memory_forecast_ms(&numbers, 0), 74 + 2.5 + 5 / 16.0, 1e-9);
    assert_float_equal(mdnn_memory_forecast_ms(&numbers, 2), 160 + 2.5 + 6.25, 1e-9);
    assert_float_equal(mdnn_memory_without_moves_ms(&numbers), 73.4, 1e-9);
    numbers.round_library_ms = 10; /* so it is the program that is slow */
    assert_float_equal(mdnn_memory_without_moves_ms(&numbers), 123 - 20 - 10 - 5, 1e-9);
}

/* A search for convolutions, say, may want more than the iterations that follow. */
static void what_only_the_start_asked_for_counts(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.need_bytes = 5 * gib;
    numbers.peak_live_bytes = 14 * gib;
    numbers.period_out_bytes = numbers.period_in_bytes = 0;
    const mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[0],
                        "budget 6 GiB of the 14 GiB that it asked for: 123 ms per "
                        "iteration, in which nothing moves");
}

/* Nothing is faster than the computation, however that was timed. */
static void moves_save_no_time(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.compute_ms = 130;
    const mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_non_null(strstr(verdict.lines[0], ": 123 ms per iteration, 123 without moves (+0 %)"));
}

/* A plan that was made in a hurry does not make more memory look slower, nor less of it faster. */
static void more_memory_costs_no_more(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.forecast[1].predicted_ms = 200;
    numbers.forecast[2].predicted_ms = 80;
    numbers.forecast[0].predicted_ms = 1;
    assert_true(mdnn_memory_forecast_ms(&numbers, 0) == 73.4);
    assert_true(mdnn_memory_forecast_ms(&numbers, 1) == 123);
    assert_true(mdnn_memory_forecast_ms(&numbers, 2) == 123);
    assert_true(mdnn_memory_forecast_ms(&numbers, 3) == 0);
}

static void what_is_not_known_is_not_said(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = {
        .budget_bytes = 6 * gib, .peak_live_bytes = 9 * gib, .out_bytes = gib, .in_bytes = gib / 2};
    mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_int_equal(verdict.count, 1);
    assert_string_equal(verdict.lines[0],
                        "budget 6 GiB of the 9 GiB that it asked for: 1 GiB went to "
                        "the host and 512 MiB came back; no iteration was found "
                        "that repeats");
    numbers.period_operations = 9;
    verdict = verdict_of(&numbers);
    assert_non_null(strstr(verdict.lines[0], "; too few iterations ran to time one"));
    numbers.out_bytes = numbers.in_bytes = 0;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[0],
                        "budget 6 GiB was enough for the 9 GiB that it asked for: nothing moved");
    verdict = (mdnn_verdict_lines_t){.count = 0};
    mdnn_verdict_end(&verdict);
    assert_int_equal(verdict.count, 1);
    assert_non_null(strstr(verdict.lines[0], "nothing was to be done"));
}

static void trouble_has_a_line(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.tail_operations = 12;
    numbers.whole_budget_bytes = 7 * gib;
    numbers.refused = numbers.refused_optional = 3;
    mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2], "12 operations needed more than the budget and used host "
                                          "memory, which is slow; 7 GiB would hold each of them");
    numbers.tail_operations = 0;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2],
                        "3 requests, such as for workspace, found no room, and the "
                        "program did without, which may be slower");
    numbers.refused = 5;
    numbers.refused_budget_bytes = 20 * gib;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2],
                        "2 requests were refused; at least a budget of 20 GiB would be needed");
    numbers.refused = 4;
    numbers.smallest_budget_bytes = 24 * gib;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2],
                        "1 request was refused; at least a budget of 24 GiB would be needed");
    numbers.host_needed_bytes = 18 * gib;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2],
                        "1 request was refused; at least 18 GiB of pinned host memory "
                        "would be needed ([memory] host_limit)");
    numbers.refused = numbers.refused_optional = 1;
    verdict = verdict_of(&numbers);
    assert_string_equal(verdict.lines[2],
                        "1 request, such as for workspace, found no room, and the program did "
                        "without, which may be slower; 20 GiB would have room");
}

/* A program that ends in its first iteration has repeated nothing but loops of its searches. */
static void a_short_loop_is_no_iteration(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.need_bytes = numbers.peak_live_bytes / 4 - 1;
    mdnn_verdict_lines_t verdict = verdict_of(&numbers);
    assert_int_equal(verdict.count, 2); /* what came before took more memory than the iterations */
    numbers.period_operations = 2;
    numbers.round_ms = 0.05;
    verdict = verdict_of(&numbers);
    assert_int_equal(verdict.count, 1);
    assert_non_null(strstr(verdict.lines[0], "; no iteration was found that repeats"));
}

/* Real seconds of the host say nothing beside simulated ones of the device. */
static void a_simulated_device_has_its_own_clock(void **state)
{
    (void)state;
    mdnn_memory_statistics_t numbers = under_budget();
    numbers.round_copies_ms = 0;
    assert_true(mdnn_memory_without_moves_ms(&numbers) > 73.4);
    strcpy(numbers.device_name, "h200 (simulated)");
    assert_float_equal(mdnn_memory_without_moves_ms(&numbers), 73.4, 1e-9);
    assert_float_equal(mdnn_memory_forecast_ms(&numbers, 1), 84 + 5, 1e-9);
}

static void convolutions_are_summed_up(void **state)
{
    (void)state;
    mdnn_verdict_lines_t verdict = {.count = 0};
    const mdnn_statistics_row_t rows[] = {{.configuration_ms = 1, .undivided_ms = 4},
                                          {.configuration_ms = 2, .undivided_ms = 2},
                                          {.configuration_ms = 3, .undivided_ms = -1},
                                          {.configuration_ms = -1, .undivided_ms = -1}};
    for (int i = 0; i < 4; i++)
        mdnn_verdict_add_convolution(&verdict, &rows[i]);
    mdnn_verdict_end(&verdict);
    assert_int_equal(verdict.count, 1);
    assert_string_equal(verdict.lines[0],
                        "convolutions: 2 of 4 gain from micro-batches; all of them once take 3 ms, "
                        "undivided 6; no configuration fits 1 of them");
}

static void lines_beyond_the_fourth_are_dropped(void **state)
{
    (void)state;
    mdnn_verdict_lines_t verdict = {.count = 0};
    mdnn_memory_statistics_t numbers = under_budget();
    memset(numbers.first_unnamed, 'x', sizeof numbers.first_unnamed);
    numbers.unnamed_accesses = 1;
    for (int device = 0; device < 8; device++)
        mdnn_verdict_add_device(&verdict, device, &numbers);
    mdnn_verdict_end(&verdict);
    assert_int_equal(verdict.count, MDNN_VERDICT_LINES);
    assert_int_equal(strncmp(verdict.lines[3], "device 1: budget", 16), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_has_its_price_and_that_of_others),
        cmocka_unit_test(a_slow_host_is_slow_with_any_budget),
        cmocka_unit_test(what_only_the_start_asked_for_counts),
        cmocka_unit_test(moves_save_no_time),
        cmocka_unit_test(more_memory_costs_no_more),
        cmocka_unit_test(what_is_not_known_is_not_said),
        cmocka_unit_test(trouble_has_a_line),
        cmocka_unit_test(a_short_loop_is_no_iteration),
        cmocka_unit_test(a_simulated_device_has_its_own_clock),
        cmocka_unit_test(convolutions_are_summed_up),
        cmocka_unit_test(lines_beyond_the_fourth_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
