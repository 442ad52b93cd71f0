/* The trial of a split against its rival, with a driver of our own that times as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <limits.h>

#include <cmocka.h>

#include "config/statistics.h"
#include "shim/convolution/trial.h"
#include "test/unit/cases.h"
#include "test/shim/event_driver.h"

enum { CALLS = 40 };

static float split_ms, rival_ms;
static int untold; /* times that are asked for and not told, from now on */

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
    (void)end;
    if (untold > 0) {
        untold--;
        return CUDA_ERROR_UNKNOWN;
    }
    /* Event numbers are given out in order: ten begins, then ten ends; even ones time the split. */
    *ms = ((uintptr_t)begin - 1) % 2 == 0 ? split_ms : rival_ms;
    return CUDA_SUCCESS;
}

typedef struct served {
    int split, rival, timed;
} served_t;

static served_t serve(mdnn_trial_t *trial, int calls)
{
    served_t served = {0, 0, 0};
    for (int i = 0; i < calls; i++) {
        int point;
        const mdnn_contender_t contender = mdnn_trial_begin(trial, NULL, &point);
        served.split += contender == MDNN_CONTENDER_SPLIT;
        served.rival += contender == MDNN_CONTENDER_RIVAL;
        if (point >= 0) {
            served.timed++;
            mdnn_trial_end(trial, NULL, point);
        }
    }
    return served;
}

static mdnn_trial_t *open_trial(float split, float rival)
{
    mdnn_trial_t *trial = NULL;
    split_ms = split;
    rival_ms = rival;
    capture = CU_STREAM_CAPTURE_STATUS_NONE;
    query_result = CUDA_SUCCESS;
    assert_int_equal(mdnn_trial_create(&trial), MDNN_STATUS_OK);
    return trial;
}

CASE(a_split_that_wins_clearly_stays_after_one_pair)
{
    mdnn_trial_t *const trial = open_trial(1.0F, 2.0F);
    const served_t during = serve(trial, CALLS);
    assert_int_equal(during.timed, 2);
    assert_int_equal(during.rival, 1);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    assert_int_equal(live_events, 0);
    mdnn_trial_destroy(trial);
}

CASE(a_split_that_wins_narrowly_stays_after_all_pairs)
{
    mdnn_trial_t *const trial = open_trial(0.95F, 1.0F);
    const served_t during = serve(trial, CALLS);
    assert_int_equal(during.timed, 10);
    assert_int_equal(during.rival, 5);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    assert_int_equal(live_events, 0);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(a_split_that_loses_is_dropped)
{
    mdnn_trial_t *const trial = open_trial(1.1F, 1.0F);
    serve(trial, CALLS);
    assert_int_equal(serve(trial, CALLS).rival, CALLS);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(a_difference_within_the_noise_drops_nothing)
{
    mdnn_trial_t *const trial = open_trial(1.01F, 1.0F);
    serve(trial, CALLS);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    mdnn_trial_destroy(trial);
}

CASE(an_unfinished_trial_waits_without_blocking)
{
    mdnn_trial_t *const trial = open_trial(1.1F, 1.0F);
    query_result = CUDA_ERROR_NOT_READY;
    assert_int_equal(serve(trial, CALLS).timed, 2);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    query_result = CUDA_SUCCESS;
    serve(trial, CALLS);
    assert_int_equal(serve(trial, CALLS).rival, CALLS);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(a_stream_that_is_captured_is_left_alone)
{
    mdnn_trial_t *const trial = open_trial(1.1F, 1.0F);
    capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    const served_t served = serve(trial, CALLS);
    assert_int_equal(served.split, CALLS);
    assert_int_equal(served.timed, 0);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(without_events_there_is_no_trial)
{
    for (int at = 1; at <= 20; at++) {
        mdnn_trial_t *trial = NULL;
        fail_event_at = at;
        assert_int_equal(mdnn_trial_create(&trial), MDNN_STATUS_DEVICE);
        assert_null(trial);
        assert_int_equal(live_events, 0);
    }
    fail_event_at = 0;
}

CASE(times_that_are_not_told_decide_nothing)
{
    mdnn_trial_t *trial = open_trial(1.0F, 2.0F);
    untold = 2; /* of two pairs */
    assert_int_equal(serve(trial, CALLS).timed, 6);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    mdnn_trial_destroy(trial);
    trial = open_trial(2.0F, 1.0F);
    untold = 1;
    serve(trial, CALLS);
    assert_int_equal(serve(trial, CALLS).rival, CALLS);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(a_trial_that_stays_undecided_ends_without_the_split)
{
    mdnn_trial_t *trial = open_trial(1.0F, 2.0F);
    untold = INT_MAX;
    assert_int_equal(serve(trial, CALLS).timed, 6);
    assert_int_equal(serve(trial, CALLS).rival, CALLS);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
    untold = 0;
}

CASE(an_end_that_was_not_recorded_decides_nothing)
{
    mdnn_trial_t *const trial = open_trial(1.0F, 2.0F);
    serve(trial, 2);    /* the warm-ups */
    fail_record_at = 2; /* the end of the first call; its event may tell of another one */
    assert_int_equal(serve(trial, CALLS).timed, 4);
    assert_int_equal(serve(trial, CALLS).split, CALLS);
    mdnn_trial_destroy(trial);
    assert_int_equal(live_events, 0);
}

CASE(calls_at_the_same_time_run_the_split)
{
    mdnn_trial_t *const trial = open_trial(1.0F, 2.0F);
    int outer, inner;
    serve(trial, 2); /* the warm-ups */
    (void)mdnn_trial_begin(trial, NULL, &outer);
    assert_true(outer >= 0);
    assert_int_equal(mdnn_trial_begin(trial, NULL, &inner), MDNN_CONTENDER_SPLIT);
    assert_true(inner < 0);
    mdnn_trial_end(trial, NULL, outer);
    mdnn_trial_destroy(trial);
}

int main(void)
{
    return run_cases("trial");
}
