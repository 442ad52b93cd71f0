/* A program of cuDNN's backend API while calls fail that whatever is between it and cuDNN makes:
 * each call of its own succeeds with the right result, or fails because cuDNN failed in that very
 * call, or because its plan was told of less workspace than it takes and what was to run instead
 * failed.
 *
 *   graph_faults any_failing_backend_call_is_survived DIRECTION
 *   graph_faults any_failing_allocation_is_survived DIRECTION
 *   graph_faults any_failing_allocation_of_a_graph_is_survived DIRECTION
 *   graph_faults a_failing_driver_call_is_survived FUNCTION:NTH:DIRECTION */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "test/clients/allocator.h"
#include "test/clients/fail.h"
#include "test/clients/graph_job.h"
#include "test/clients/graph_witness.h"
#include "test/sim/sim.h"

static cudnnHandle_t handle;
static witness_t *seen;

/* Directions 0 to 2 plain, 3 a forward convolution with what follows it, 4 a 16-bit gradient. */
static void open_fresh(job_t *job, int direction)
{
    static int fresh;
    graph_case_t test =
        small_case((graph_direction_t)(direction % 3), direction == 4 ? CASE_BF16 : CASE_TF32, 8);
    test.side[1] = test.side[2] = 4;
    test.alpha = 1 - ++fresh / 8192.0; /* a problem that nobody has seen */
    if (direction == 2)
        test.beta = 1;
    if (direction == 3) {
        test.steps = CASE_ADD | CASE_BIAS;
        test.activation = CUDNN_POINTWISE_RELU_FWD;
    }
    if (direction == 4)
        test.direction = GRAPH_BACKWARD_FILTER;
    job_open(job, &test, handle, NULL);
}

/* ---- a host that looks at every status ---- */

typedef enum outcome { RIGHT_RESULT, HONEST_FAILURE, WRONG } outcome_t;

/* Whether cuDNN failed in this very call. */
static bool is_honest(cudnnStatus_t status, const void *descriptor)
{
    if (status == WITNESS_FAILURE && atomic_load(&seen->failed) == descriptor)
        return true;
    printf("# status %d without cause\n", (int)status);
    return false;
}

#define HOST(call, descriptor)                                                                     \
    do {                                                                                           \
        const cudnnStatus_t status_ = (call);                                                      \
        if (status_ != CUDNN_STATUS_SUCCESS)                                                       \
            return is_honest(status_, (descriptor)) ? HONEST_FAILURE : WRONG;                      \
    } while (0)

static outcome_t make_plan(const job_t *job, int config, cudnnBackendDescriptor_t *plan)
{
    HOST(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan), plan);
    HOST(cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                  &handle),
         *plan);
    HOST(cudnnBackendSetAttribute(*plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                  &job->configs[config].descriptor),
         *plan);
    HOST(cudnnBackendFinalize(*plan), *plan);
    return RIGHT_RESULT;
}

static outcome_t make_pack(const job_t *job, void *workspace, cudnnBackendDescriptor_t *pack)
{
    graph_pack_t bound = {.count = 0};
    problem_bind(&job->problem, &bound);
    HOST(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack), pack);
    HOST(cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                  bound.count, bound.pointers),
         *pack);
    HOST(cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                  bound.count, bound.uids),
         *pack);
    HOST(cudnnBackendSetAttribute(*pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                  &workspace),
         *pack);
    HOST(cudnnBackendFinalize(*pack), *pack);
    return RIGHT_RESULT;
}

static outcome_t ask(cudnnBackendDescriptor_t plan, size_t *bytes)
{
    int64_t count = 0, value = -1;
    HOST(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  1, &count, &value),
         plan);
    *bytes = (size_t)value;
    return RIGHT_RESULT;
}

static bool arm(int function, int64_t nth)
{
    atomic_store(&seen->failed, NULL);
    atomic_store(&seen->fail_countdown, nth);
    atomic_store(&seen->fail_function, function);
    return true;
}

/* The result, and whether a shrunk plan's failure is what failed. */
static outcome_t judge(job_t *job, cudnnStatus_t status, cudnnBackendDescriptor_t plan,
                       size_t bytes)
{
    CUDA(cudaDeviceSynchronize());
    if (status == CUDNN_STATUS_SUCCESS) {
        const char *const wrong = job_judge(job);
        if (wrong)
            printf("# %s\n", wrong);
        return wrong ? WRONG : RIGHT_RESULT;
    }
    if (bytes < own_bytes(plan)) /* cannot run itself, and must not */
        return HONEST_FAILURE;
    return is_honest(status, plan) ? HONEST_FAILURE : WRONG;
}

static outcome_t execute(job_t *job, cudnnBackendDescriptor_t plan, size_t bytes)
{
    const int function = atomic_load(&seen->fail_function);
    atomic_store(&seen->fail_function, WITNESS_FUNCTIONS); /* nothing of ours here */
    char *const block = workspace_open(bytes);
    job_upload(job);
    cudnnBackendDescriptor_t pack = NULL;
    atomic_store(&seen->fail_function, function);
    outcome_t outcome = make_pack(job, workspace_at(block, bytes), &pack);
    if (outcome == RIGHT_RESULT) {
        const cudnnStatus_t status = cudnnBackendExecute(handle, plan, pack);
        atomic_store(&seen->fail_function, WITNESS_FUNCTIONS);
        outcome = judge(job, status, plan, bytes);
        atomic_store(&seen->fail_function, function);
    }
    if (pack)
        CUDNN(cudnnBackendDestroyDescriptor(pack));
    return workspace_close(block, bytes) ? outcome : WRONG;
}

/* A new plan: asked, run, asked and run again. */
static outcome_t use(job_t *job, int config)
{
    cudnnBackendDescriptor_t plan = NULL;
    size_t bytes = 0, again;
    outcome_t outcome = make_plan(job, config, &plan);
    if (outcome == RIGHT_RESULT)
        outcome = ask(plan, &bytes);
    if (outcome == RIGHT_RESULT)
        outcome = execute(job, plan, bytes);
    if (outcome == RIGHT_RESULT)
        outcome = ask(plan, &again);
    if (outcome == RIGHT_RESULT)
        outcome = again <= bytes ? execute(job, plan, again) : WRONG;
    if (plan)
        CUDNN(cudnnBackendDestroyDescriptor(plan));
    return outcome;
}

/* Nobody can read its JSON: from then on graphs are followed. */
static void use_one_unread(void)
{
    job_t job;
    open_fresh(&job, 0);
    if (use(&job, 0) != RIGHT_RESULT)
        BAIL("a plan that passes");
    job_close(&job);
}

/* ---- which calls fail ---- */

/* So many spread over all calls, or a few more, at other places for each direction. With all that there is to test
 * (test/tap.sh) they are more. */
static long spread_calls = 4;
static bool thorough;

static bool is_one_of_some(long nth, long all, int direction)
{
    const long step = all / spread_calls + 1;
    return nth % step == direction % step;
}

/* What each call was about that may fail; how many before this one were about the same. */
static int64_t journal[WITNESS_JOURNAL];

static int alike_before(long nth)
{
    int alike = 0;
    for (long i = 0; i < nth - 1; i++)
        alike += journal[i] == journal[nth - 1];
    return alike;
}

/* By direction the first or the second call of its kind, and some others; with all that there is to test a later one of
 * its kind, too. */
static bool is_to_fail(long nth, long all, int direction)
{
    const int alike = alike_before(nth);
    return is_one_of_some(nth, all, direction) || alike == direction % 2 ||
           (thorough && alike == direction);
}

/* ---- cuDNN fails ---- */

static bool backend_call_fails(int direction, int config, int function, int64_t nth, int *failures)
{
    job_t job;
    open_fresh(&job, direction);
    arm(function, nth);
    const outcome_t outcome = use(&job, config % job.count);
    *failures += atomic_load(&seen->failed) != NULL;
    arm(WITNESS_FUNCTIONS, 0);
    if (outcome == WRONG)
        printf("# direction %d, plan %d, function %d, call %d\n", direction, config, function,
               (int)nth);
    CHECK(outcome != WRONG);
    CHECK(use(&job, config % job.count) == RIGHT_RESULT); /* the fault is over */
    job_close(&job);
    return true;
}

static bool any_failing_backend_call_is_survived(int direction)
{
    job_t job;
    int failures = 0;
    static _Atomic int kinds[WITNESS_FUNCTIONS][WITNESS_JOURNAL];
    uint64_t calls[WITNESS_FUNCTIONS];
    open_fresh(&job, direction);
    for (int i = 0; i < WITNESS_FUNCTIONS; i++)
        atomic_store(&seen->calls[i], 0);
    CHECK(use(&job, 0) == RIGHT_RESULT);
    for (int i = 0; i < WITNESS_FUNCTIONS; i++)
        calls[i] = atomic_load(&seen->calls[i]);
    memcpy(kinds, seen->kinds, sizeof kinds);
    job_close(&job);
    for (int function = WITNESS_CREATE; function <= WITNESS_EXECUTE; function++) {
        const long all = (long)calls[function];
        CHECK(all <= WITNESS_JOURNAL);
        for (long nth = 1; nth <= all; nth++)
            journal[nth - 1] = atomic_load(&kinds[function][nth - 1]);
        for (long nth = 1, i = 0; nth <= all; nth++)
            if (is_to_fail(nth, all, direction))
                CHECK(
                    backend_call_fails(direction, (int)(i++ % 2 * nth), function, nth, &failures));
    }
    printf("# %d failures survived\n", failures);
    CHECK(failures > 20);
    return true;
}

/* ---- memory of the host is short ---- */

/* Allocations by libmicrodnn.so, told by the address of the caller; the nth fails. */
static uintptr_t middle_begin, middle_end;
static long allocation_to_fail, allocations;
static int64_t callers[WITNESS_JOURNAL];

static UNWATCHED bool allocation_fails(void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    if (address < middle_begin || address >= middle_end)
        return false;
    if (allocations < WITNESS_JOURNAL)
        callers[allocations] = (int64_t)address;
    return ++allocations == allocation_to_fail;
}

UNWATCHED void *malloc(size_t bytes)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(malloc)(bytes);
}

UNWATCHED void *calloc(size_t count, size_t bytes)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(calloc)(count, bytes);
}

UNWATCHED void *realloc(void *block, size_t bytes)
{
    return allocation_fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(realloc)(block, bytes);
}

static void find_middle(void)
{
    char line[512];
    FILE *const maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (strstr(line, "libmicrodnn.so") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
            middle_begin = middle_begin ? middle_begin : begin;
            middle_end = end;
        }
    }
    if (maps)
        fclose(maps);
}

static bool any_failing_allocation_is_survived(int direction)
{
    job_t job;
    open_fresh(&job, direction);
    CHECK(use(&job, 0) == RIGHT_RESULT);
    job_close(&job);
    find_middle();
    open_fresh(&job, direction);
    allocations = 0;
    CHECK(use(&job, 0) == RIGHT_RESULT);
    const long all = allocations;
    CHECK(all <= WITNESS_JOURNAL);
    memcpy(journal, callers, sizeof journal);
    int shrunk =
        0; /* plans that had to fail, because nobody knew any more what was in their pack */
    job_close(&job);
    for (long nth = 1; nth <= all; nth++) {
        if (!is_to_fail(nth, all, direction))
            continue;
        open_fresh(&job, direction);
        allocations = 0;
        allocation_to_fail = nth;
        const outcome_t outcome = use(&job, (int)(nth % job.count));
        allocation_to_fail = 0;
        if (outcome == WRONG)
            printf("# direction %d, allocation %ld of %ld\n", direction, nth, all);
        CHECK(outcome != WRONG);
        shrunk += outcome == HONEST_FAILURE;
        job_close(&job);
    }
    printf("# %ld allocations\n", all);
    CHECK(all > 20 && shrunk <= 2);
    return true;
}

/* Likewise while the graph is built that is followed: its plans pass then. */
static bool any_failing_allocation_of_a_graph_is_survived(int direction)
{
    job_t job;
    long most = 400;
    find_middle();
    for (long nth = 1; nth <= most; nth++) {
        allocations = 0;
        allocation_to_fail = nth;
        open_fresh(&job, direction);
        allocation_to_fail = 0;
        most = allocations < most ? allocations : most;
        const outcome_t outcome = use(&job, (int)(nth % job.count));
        if (outcome != RIGHT_RESULT)
            printf("# direction %d, allocation %ld of %ld\n", direction, nth, allocations);
        CHECK(outcome == RIGHT_RESULT);
        job_close(&job);
    }
    CHECK(most > 30);
    return true;
}

/* ---- the driver fails ---- */

static bool a_failing_driver_call_is_survived(const char *fault)
{
    char name[64];
    unsigned long long nth;
    int direction;
    job_t job;
    size_t before, after, total, bytes;
    void *const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *const symbol = cuda ? dlsym(cuda, "sim_api") : NULL;
    sim_api_function_t get;
    memcpy(&get, &symbol, sizeof get);
    CHECK(symbol && sscanf(fault, "%63[^:]:%llu:%d", name, &nth, &direction) == 3);
    open_fresh(&job, direction);
    cudnnBackendDescriptor_t plan = job_plan(&job, 0);
    CUDA(cudaMemGetInfo(&before, &total));
    get()->inject(name, nth, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CHECK(ask(plan, &bytes) == RIGHT_RESULT);
    CHECK(get()->faults_fired() == 1); /* the library made that call */
    CUDA(cudaMemGetInfo(&after, &total));
    CHECK(after == before || strcmp(name, "cuMemFreeAsync") == 0 ||
          strcmp(name, "cuMemPoolTrimTo") == 0);
    for (int i = 0; i < 3; i++)
        CHECK(execute(&job, plan, bytes) == RIGHT_RESULT);
    CUDNN(cudnnBackendDestroyDescriptor(plan));
    job_close(&job);
    return true;
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    const char *const argument = argc > 2 ? argv[2] : "";
    seen = dlsym(RTLD_DEFAULT, "witness");
    if (!seen)
        BAIL("graph_witness.so is not preloaded");
    CUDNN(cudnnCreate(&handle));
    thorough = getenv("MDNN_THOROUGH") != NULL;
    if (thorough)
        spread_calls = 24;
    if (getenv("MICRODNN_SIM_PLAN_SCHEMA"))
        use_one_unread();
    if (strcmp(name, "any_failing_backend_call_is_survived") == 0)
        return !any_failing_backend_call_is_survived(atoi(argument));
    if (strcmp(name, "any_failing_allocation_is_survived") == 0)
        return !any_failing_allocation_is_survived(atoi(argument));
    if (strcmp(name, "any_failing_allocation_of_a_graph_is_survived") == 0)
        return !any_failing_allocation_of_a_graph_is_survived(atoi(argument));
    if (strcmp(name, "a_failing_driver_call_is_survived") == 0)
        return !a_failing_driver_call_is_survived(argument);
    fprintf(stderr, "no test '%s'\n", name);
    return 2;
}
