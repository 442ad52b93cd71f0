/* No question waits for what takes seconds unless its answer does: another thread that plans, and one that enqueues a
 * convolution in the arena. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/candidates/measure.h"
#include "shim/candidates/own_stream.h"
#include "shim/convolution/arena_internal.h"
#include "shim/convolution/plan.h"
#include "shim/convolution/plan_build.h"
#include "shim/convolution/plan_engines.h"
#include "shim/convolution/plan_table.h"
#include "shim/convolution/planning.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/capture_mode.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

enum { NEEDED = 1 << 20, TOTAL = 16 << 20 };

/* ---- what stands in for the rest of the library ---- */

static mdnn_options_t options;
static mdnn_driver_t driver;
static mdnn_conv_plan_t plan;
static _Atomic bool is_in_table;
static mdnn_front_set_t set = {.limit_bytes = 1000};
static int builds;

const mdnn_options_t *mdnn_process_options(void)
{
    return &options;
}

const mdnn_driver_t *mdnn_real_driver(void)
{
    return &driver;
}

bool mdnn_own_stream_waits_for_program(void)
{
    return false;
}

bool mdnn_stream_is_capturing(const mdnn_driver_t *its_driver, CUstream stream)
{
    (void)its_driver;
    (void)stream;
    return false;
}

void mdnn_capture_relax(void)
{
}

void mdnn_capture_restore(void)
{
}

CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes)
{
    (void)bytes;
    *address = 4096;
    return CUDA_SUCCESS;
}

int64_t mdnn_problem_batch(const mdnn_problem_t *problem)
{
    (void)problem;
    return 1;
}

int64_t mdnn_problem_granularity(const mdnn_problem_t *problem)
{
    (void)problem;
    return 1;
}

void mdnn_conv_plan_keep_costs(mdnn_conv_plan_t *kept, const mdnn_front_set_t *fronts,
                               mdnn_database_conflict_t conflict)
{
    (void)kept;
    (void)fronts;
    (void)conflict;
}

mdnn_status_t mdnn_measurement_begin(const mdnn_call_t *asked, const mdnn_problem_t *problem,
                                     mdnn_slices_t *slices, mdnn_candidate_table_t *table,
                                     const mdnn_measure_request_t *request,
                                     mdnn_measurement_t **measurement)
{
    (void)asked;
    (void)problem;
    (void)slices;
    (void)table;
    (void)request;
    (void)measurement;
    return MDNN_STATUS_UNSUPPORTED;
}

mdnn_status_t mdnn_measurement_time_engine(mdnn_measurement_t *measurement,
                                           const mdnn_engine_offer_t *offer,
                                           const mdnn_engine_plan_t *engine_plan,
                                           const mdnn_graph_uids_t *uids)
{
    (void)measurement;
    (void)offer;
    (void)engine_plan;
    (void)uids;
    return MDNN_STATUS_UNSUPPORTED;
}

void mdnn_measurement_end(mdnn_measurement_t *measurement)
{
    (void)measurement;
}

void mdnn_engines_sweep(mdnn_engines_t *engines)
{
    (void)engines;
}

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines)
{
    (void)engines;
    return NULL;
}

bool mdnn_wd_is_on(void)
{
    return true;
}

mdnn_status_t mdnn_plan_key_make(const mdnn_call_t *call, mdnn_plan_key_t *key)
{
    (void)call;
    memset(key, 0, sizeof *key);
    return MDNN_STATUS_OK;
}

uint32_t mdnn_plan_key_hash(const mdnn_plan_key_t *key)
{
    (void)key;
    return 0;
}

mdnn_conv_plan_t *mdnn_plan_table_find(const mdnn_plan_key_t *key, uint32_t hash)
{
    (void)key;
    (void)hash;
    return atomic_load(&is_in_table) ? &plan : NULL;
}

mdnn_conv_plan_t *mdnn_plan_table_insert(const mdnn_call_t *call, const mdnn_plan_key_t *key,
                                         uint32_t hash)
{
    (void)call;
    (void)key;
    (void)hash;
    return &plan;
}

mdnn_status_t mdnn_conv_plan_build(mdnn_conv_plan_t *built, const mdnn_call_t *call,
                                   uint64_t limit_bytes)
{
    (void)built;
    (void)call;
    (void)limit_bytes;
    builds++;
    return MDNN_STATUS_OK;
}

static cudnnStatus_t get_stream(cudnnHandle_t handle, cudaStream_t *stream)
{
    (void)handle;
    *stream = NULL;
    return CUDNN_STATUS_SUCCESS;
}

static CUresult get_context(CUcontext *context)
{
    *context = (CUcontext)(uintptr_t)&driver;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
    (void)stream;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static mdnn_cudnn_t cudnn = {.cudnnGetStream = get_stream};
static const mdnn_call_t call = {.cudnn = &cudnn};

static int make_world(void **state)
{
    (void)state;
    driver.cuCtxGetCurrent = get_context;
    driver.cuStreamIsCapturing = is_capturing;
    options.convolution_policy = MDNN_CONVOLUTION_WD;
    options.convolution_total_workspace = TOTAL;
    memset(&plan, 0, sizeof plan);
    atomic_store(&is_in_table, false);
    builds = 0;
    return 0;
}

/* ---- a question of another thread ---- */

typedef struct question {
    bool (*ask)(void);
    bool answer;
} question_t;

static void *ask(void *argument)
{
    question_t *const question = argument;
    question->answer = question->ask();
    return NULL;
}

/* Whether it is answered while this thread holds what it holds, and then joined. However busy the machine is, no answer
 * takes as long as the guard: only one that waits for what is held. */
static bool is_answered(pthread_t thread)
{
    enum { GUARD_S = 300 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GUARD_S;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}

static pthread_t start(question_t *question)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask, question), 0);
    return thread;
}

static bool ask_for_plan(void)
{
    return mdnn_conv_plan_for(&call, 1000, MDNN_CONV_PLAN_MAY_WAIT) == &plan;
}

/* Its problem is planned in a moment, and then the planner begins with the next one at once. */
static void who_waits_behind_the_planner_goes_on_when_its_problem_is_planned(void **state)
{
    question_t question = {.ask = ask_for_plan};
    double begin_us;
    (void)state;
    assert_true(mdnn_planning_begin(&begin_us));
    const pthread_t thread = start(&question);
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL); /* by now it waits, as a rule */
    atomic_store(&plan.set, &set);
    atomic_store(&is_in_table, true);
    const bool answered = is_answered(thread);
    mdnn_planning_end(begin_us);
    if (!answered)
        (void)pthread_join(thread, NULL);
    assert_true(answered && question.answer);
    assert_int_equal(builds, 0);
}

static void who_waits_behind_the_planner_learns_that_its_problem_was_given_up(void **state)
{
    question_t question = {.ask = ask_for_plan};
    double begin_us;
    (void)state;
    assert_true(mdnn_planning_begin(&begin_us));
    const pthread_t thread = start(&question);
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
    mdnn_conv_plan_give_up(&plan);
    atomic_store(&is_in_table, true);
    const bool answered = is_answered(thread);
    mdnn_planning_end(begin_us);
    if (!answered)
        (void)pthread_join(thread, NULL);
    assert_true(answered && !question.answer);
    assert_int_equal(builds, 0);
}

static bool ask_what_is_known(void)
{
    const mdnn_demand_t any = {.workspace_bytes = 1000};
    const mdnn_stopwatch_times_t times = {0};
    const mdnn_engine_offer_t offer = {0};
    return !mdnn_conv_plan_best(&plan, &any) && !mdnn_conv_plan_is_deferred(&plan) &&
           mdnn_conv_plan_engine_ms(&plan, &offer) == 0 &&
           !mdnn_conv_plan_engine_is_dominated(&plan, &offer) &&
           !mdnn_conv_plan_engine_ref(&plan, &offer) &&
           !mdnn_conv_plan_take_run(&plan, &offer, 0, &times, true) &&
           mdnn_conv_plan_for(&call, 2000, MDNN_CONV_PLAN_IF_KNOWN) == NULL &&
           mdnn_conv_plan_for(&call, 2000, MDNN_CONV_PLAN_MAY_MEASURE) == NULL &&
           mdnn_conv_plan_time_engine(&plan, &call, 0) == 0;
}

static void other_questions_wait_for_no_planner(void **state)
{
    question_t question = {.ask = ask_what_is_known};
    double begin_us;
    (void)state;
    assert_true(mdnn_planning_begin(&begin_us));
    const pthread_t thread = start(&question);
    const bool answered = is_answered(thread);
    mdnn_planning_end(begin_us);
    if (!answered)
        (void)pthread_join(thread, NULL);
    assert_true(answered && question.answer);
}

/* ---- the arena ---- */

static mdnn_configuration_t configuration;
static mdnn_ready_t ready = {.configuration = &configuration};

static bool ask_for_little(void)
{
    const mdnn_demand_t nothing = {.workspace_bytes = 0};
    configuration.workspace_bytes = NEEDED;
    return mdnn_arena_serves(&call, &plan, &nothing);
}

static bool ask_for_too_much(void)
{
    const mdnn_demand_t nothing = {.workspace_bytes = 0};
    configuration.workspace_bytes = 2 * TOTAL;
    return !mdnn_arena_serves(&call, &plan, &nothing);
}

static void nobody_waits_for_a_convolution_to_hear_of_the_arena(void **state)
{
    bool (*const questions[])(void) = {ask_for_little, ask_for_too_much};
    (void)state;
    for (unsigned flags = 0; flags < MDNN_DEMAND_FLAGS; flags++) {
        set.ready[flags] = &ready;
        set.counts[flags] = 1;
    }
    atomic_store(&plan.set, &set);
    assert_true(ask_for_little()); /* allocates */
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        question_t question = {.ask = questions[i]};
        mdnn_arena_t *const arena = mdnn_arena_current();
        mdnn_lock_to_read(&arena->lock); /* as while a convolution is enqueued */
        const pthread_t thread = start(&question);
        const bool answered = is_answered(thread);
        mdnn_unlock_shared(&arena->lock);
        if (!answered)
            (void)pthread_join(thread, NULL);
        assert_true(answered && question.answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_waits_behind_the_planner_goes_on_when_its_problem_is_planned,
                               make_world),
        cmocka_unit_test_setup(who_waits_behind_the_planner_learns_that_its_problem_was_given_up,
                               make_world),
        cmocka_unit_test_setup(other_questions_wait_for_no_planner, make_world),
        cmocka_unit_test_setup(nobody_waits_for_a_convolution_to_hear_of_the_arena, make_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
