/* The times of a host's own runs, with a driver of our own that times as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "shim/real/stopwatch.h"
#include "test/shim/event_driver.h"

static float run_ms;

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
    assert_true(begin != end);
    *ms = run_ms;
    return CUDA_SUCCESS;
}

static int reset(void **state)
{
    (void)state;
    live_events = fail_event_at = records = 0;
    capture = CU_STREAM_CAPTURE_STATUS_NONE;
    query_result = CUDA_SUCCESS;
    thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return 0;
}

static bool run(mdnn_stopwatch_t *watch, float ms)
{
    if (!mdnn_stopwatch_begin(watch, NULL))
        return false;
    mdnn_stopwatch_end(watch, NULL, false);
    run_ms = ms;
    return true;
}

static void the_least_of_all_runs_counts(void **state)
{
    static const float times[] = {3, 1, 2};
    mdnn_stopwatch_t watch = {0};
    mdnn_stopwatch_times_t least = {-1, -1};
    (void)state;
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 0);
    assert_true(least.most_ms == -1);
    for (int i = 0; i < 3; i++) {
        assert_true(run(&watch, times[i]));
        assert_int_equal(mdnn_stopwatch_read(&watch, &least), i + 1);
    }
    assert_true(least.most_ms == 1);
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 3);
    mdnn_stopwatch_fini(&watch);
    assert_int_equal(live_events, 0);
    assert_int_equal(thread_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

static void what_the_host_took_to_call_is_not_the_devices(void **state)
{
    mdnn_stopwatch_t watch = {0};
    mdnn_stopwatch_times_t least;
    (void)state;
    run_ms = 25;
    assert_true(mdnn_stopwatch_begin(&watch, NULL));
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    mdnn_stopwatch_end(&watch, NULL, false);
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 1);
    assert_true(least.most_ms == 25 && least.device_ms >= 0 && least.device_ms <= 5);
    mdnn_stopwatch_fini(&watch);
}

static void a_call_that_failed_tells_no_time(void **state)
{
    mdnn_stopwatch_t watch = {0};
    mdnn_stopwatch_times_t least;
    (void)state;
    run_ms = 1;
    assert_true(mdnn_stopwatch_begin(&watch, NULL));
    mdnn_stopwatch_end(&watch, NULL, true);
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 0);
    assert_true(run(&watch, 2));
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 1);
    assert_true(least.most_ms == 2);
    mdnn_stopwatch_fini(&watch);
}

static void a_run_that_has_not_ended_is_waited_for_by_nobody(void **state)
{
    mdnn_stopwatch_t watch = {0};
    mdnn_stopwatch_times_t least = {-1, -1};
    (void)state;
    assert_true(run(&watch, 2));
    query_result = CUDA_ERROR_NOT_READY;
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 0);
    assert_false(run(&watch, 1));
    query_result = CUDA_SUCCESS;
    run_ms = 2;
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 1);
    assert_true(least.most_ms == 2);
    mdnn_stopwatch_fini(&watch);
}

static void a_broken_event_is_no_time(void **state)
{
    mdnn_stopwatch_t watch = {0};
    mdnn_stopwatch_times_t least;
    (void)state;
    assert_true(run(&watch, 2));
    query_result = CUDA_ERROR_LAUNCH_FAILED;
    assert_int_equal(mdnn_stopwatch_read(&watch, &least), 0);
    mdnn_stopwatch_fini(&watch);
}

static void nothing_is_done_to_a_stream_that_is_captured(void **state)
{
    mdnn_stopwatch_t watch = {0};
    (void)state;
    capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    assert_false(run(&watch, 1));
    assert_int_equal(records + live_events, 0);
    mdnn_stopwatch_fini(&watch);
}

static void without_events_nothing_is_timed(void **state)
{
    (void)state;
    for (int at = 1; at <= 2; at++) {
        mdnn_stopwatch_t watch = {0};
        fail_event_at = at;
        assert_false(run(&watch, 1));
        assert_true(run(&watch, 1)); /* when there are some again */
        mdnn_stopwatch_fini(&watch);
        assert_int_equal(live_events, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_least_of_all_runs_counts, reset),
        cmocka_unit_test_setup(what_the_host_took_to_call_is_not_the_devices, reset),
        cmocka_unit_test_setup(a_call_that_failed_tells_no_time, reset),
        cmocka_unit_test_setup(a_run_that_has_not_ended_is_waited_for_by_nobody, reset),
        cmocka_unit_test_setup(a_broken_event_is_no_time, reset),
        cmocka_unit_test_setup(nothing_is_done_to_a_stream_that_is_captured, reset),
        cmocka_unit_test_setup(without_events_nothing_is_timed, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
