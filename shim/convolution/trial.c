#include "shim/convolution/trial.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/log.h"
#include "config/statistics.h"
#include "optimizer/trial_times.h"
#include "shim/real/capture_mode.h"

/* The first calls warm caches and load kernels; then pairs, of which the medians count. */
enum { WARM_UPS = 2, TIMED = 2 * MDNN_TRIAL_PAIRS };

/* A pair whose times the device does not report is run again; after this many the split has not
 * proved itself. */
enum { UNREAD_MAX = 3 };

struct mdnn_trial {
    _Atomic int verdict;
    atomic_flag busy; /* one call at a time takes part; others meanwhile run the split */
    int calls;        /* guarded by `busy`, as what follows */
    bool unmarked;    /* the end of a call of the last pair could not be recorded */
    int unread;       /* pairs whose times nobody knows */
    CUevent begins[TIMED], ends[TIMED];
};

static bool create_events(CUevent *events, int *made)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    while (*made < TIMED && driver->cuEventCreate(&events[*made], CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        ++*made;
    return *made == TIMED;
}

static void destroy_events(CUevent *events, int made)
{
    while (made-- > 0)
        (void)mdnn_real_driver()->cuEventDestroy(events[made]);
}

mdnn_status_t mdnn_trial_create(mdnn_trial_t **trial)
{
    mdnn_trial_t *const made = calloc(1, sizeof *made);
    int begins = 0, ends = 0;
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (!create_events(made->begins, &begins) || !create_events(made->ends, &ends)) {
        destroy_events(made->begins, begins);
        destroy_events(made->ends, ends);
        free(made);
        return MDNN_STATUS_DEVICE;
    }
    atomic_flag_clear(&made->busy);
    *trial = made;
    return MDNN_STATUS_OK;
}

bool mdnn_trial_is_decided(const mdnn_trial_t *trial)
{
    return atomic_load_explicit(&trial->verdict, memory_order_relaxed) != MDNN_TRIAL_PENDING;
}

void mdnn_trial_destroy(mdnn_trial_t *trial)
{
    if (trial && atomic_load(&trial->verdict) == MDNN_TRIAL_PENDING) {
        destroy_events(trial->begins, TIMED);
        destroy_events(trial->ends, TIMED);
    }
    free(trial);
}

/* Times of a contender in the first `pairs`; false if the device does not tell. */
static bool read_times(const mdnn_trial_t *trial, mdnn_contender_t contender, int pairs, float *ms)
{
    for (int i = 0; i < pairs; i++) {
        const int at = 2 * i + (int)contender;
        if (mdnn_real_driver()->cuEventElapsedTime(&ms[i], trial->begins[at], trial->ends[at]) !=
                CUDA_SUCCESS ||
            !(ms[i] >= 0))
            return false;
    }
    return true;
}

static void end(mdnn_trial_t *trial, mdnn_trial_verdict_t verdict, mdnn_counter_t counter)
{
    mdnn_count(counter, 1);
    destroy_events(trial->begins, TIMED);
    destroy_events(trial->ends, TIMED);
    atomic_store_explicit(&trial->verdict, (int)verdict, memory_order_release);
}

/* The last pair has told nothing: it is run again, or the trial ends with what needs no proof. */
static void repeat_or_drop(mdnn_trial_t *trial)
{
    trial->calls -= 2;
    if (++trial->unread < UNREAD_MAX)
        return;
    MDNN_LOG(MDNN_LOG_INFO, "trial", "the device does not report how long a split takes: dropped");
    end(trial, MDNN_TRIAL_RIVAL_WINS, MDNN_COUNTER_trials_undecided);
}

/* After `pairs` have come to an end; nothing if it takes more of them. */
static void decide(mdnn_trial_t *trial, int pairs)
{
    mdnn_trial_times_t times = {.count = pairs};
    mdnn_trial_medians_t medians;
    const bool known = !trial->unmarked &&
                       read_times(trial, MDNN_CONTENDER_SPLIT, pairs, times.split_ms) &&
                       read_times(trial, MDNN_CONTENDER_RIVAL, pairs, times.rival_ms);
    trial->unmarked = false;
    if (!known) {
        repeat_or_drop(trial);
        return;
    }
    const mdnn_trial_verdict_t verdict = mdnn_trial_judge(&times, &medians);
    if (verdict == MDNN_TRIAL_PENDING)
        return;
    const bool lost = verdict == MDNN_TRIAL_RIVAL_WINS;
    if (lost)
        MDNN_LOG(MDNN_LOG_INFO, "trial",
                 "a split took %.4f ms in the program, undivided %.4f: dropped",
                 (double)medians.split_ms, (double)medians.rival_ms);
    end(trial, verdict, lost ? MDNN_COUNTER_trials_lost : MDNN_COUNTER_trials_won);
}

/* Looks at what has been timed when a pair is complete. False while that has not come to its end. */
static bool close_pair(mdnn_trial_t *trial)
{
    const int number = trial->calls - WARM_UPS;
    if (number <= 0 || number % 2 != 0)
        return true;
    if (mdnn_real_driver()->cuEventQuery(trial->ends[number - 1]) == CUDA_ERROR_NOT_READY)
        return false;
    decide(trial, number / 2);
    return atomic_load(&trial->verdict) == MDNN_TRIAL_PENDING;
}

/* The call's number among the timed ones, -1 if it is not timed. A new pair begins when the last one
 * has come to its end and has not decided. Callers hold `busy`. */
static int next_point(mdnn_trial_t *trial)
{
    return close_pair(trial) ? trial->calls++ - WARM_UPS : -1;
}

mdnn_contender_t mdnn_trial_begin(mdnn_trial_t *trial, CUstream stream, int *point)
{
    const int verdict = atomic_load_explicit(&trial->verdict, memory_order_acquire);
    *point = -1;
    if (verdict != MDNN_TRIAL_PENDING)
        return verdict == MDNN_TRIAL_RIVAL_WINS ? MDNN_CONTENDER_RIVAL : MDNN_CONTENDER_SPLIT;
    if (mdnn_stream_is_capturing(mdnn_real_driver(), stream) ||
        atomic_flag_test_and_set(&trial->busy))
        return MDNN_CONTENDER_SPLIT;
    if (atomic_load(&trial->verdict) == MDNN_TRIAL_PENDING)
        *point = next_point(trial);
    if (*point < 0 ||
        mdnn_real_driver()->cuEventRecord(trial->begins[*point], stream) != CUDA_SUCCESS) {
        *point = -1;
        atomic_flag_clear(&trial->busy);
        return MDNN_CONTENDER_SPLIT;
    }
    return *point % 2 == 0 ? MDNN_CONTENDER_SPLIT : MDNN_CONTENDER_RIVAL;
}

void mdnn_trial_end(mdnn_trial_t *trial, CUstream stream, int point)
{
    if (mdnn_real_driver()->cuEventRecord(trial->ends[point], stream) != CUDA_SUCCESS)
        trial->unmarked = true;
    atomic_flag_clear(&trial->busy);
}
