/* What a program sees of cuDNN's backend API that has a library between itself and cuDNN:
 * workspaces, plans, variant packs, statuses. It knows nothing of microdnn and compares with cuDNN
 * itself, which it calls past whatever is preloaded (graph_job.h); graph_witness.so tells what
 * really ran.
 *
 *   graph_rules NAME [ARGUMENT]   one test; exit status 0 if it passes. test/graph_rules.sh has the
 *                                 environments and what the statistics must say. */
#include <dlfcn.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/clients/fail.h"
#include "test/clients/graph_job.h"
#include "test/clients/graph_witness.h"
#include "test/sim/sim.h"

#define RIGHT(call)                                                                                \
    do {                                                                                           \
        const char *const wrong_ = (call);                                                         \
        if (wrong_) {                                                                              \
            printf("# line %d: %s\n", __LINE__, wrong_);                                           \
            return false;                                                                          \
        }                                                                                          \
    } while (0)
/* Its address is free then: the runs of whatever gets it next must not count as its own. */
#define DESTROY(descriptor)                                                                        \
    do {                                                                                           \
        cudnnBackendDescriptor_t destroyed_ = (descriptor);                                        \
        if (atomic_load(&seen->plan) == destroyed_)                                                \
            atomic_store(&seen->plan, NULL);                                                       \
        CUDNN(cudnnBackendDestroyDescriptor(destroyed_));                                          \
    } while (0)

static cudnnHandle_t handle;
static witness_t *seen;
static const char *argument;
static const char *self;

static bool fail_next_launch(void)
{
    void *const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *const symbol = cuda ? dlsym(cuda, "sim_api") : NULL;
    sim_api_function_t get;
    memcpy(&get, &symbol, sizeof get);
    CHECK(symbol);
    get()->inject("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    return true;
}

/* ---- cases ---- */

static graph_case_t fused_case(case_type_t type, int n)
{
    graph_case_t test = small_case(GRAPH_FORWARD, type, n);
    test.steps = CASE_ADD | CASE_BIAS;
    test.activation = CUDNN_POINTWISE_RELU_FWD;
    return test;
}

/* One whose engines take much workspace, the more the more images. */
static graph_case_t hungry_case(graph_direction_t direction, int n)
{
    return small_case(direction, direction == GRAPH_FORWARD ? CASE_FP16 : CASE_TF32, n);
}

enum { CASES = 9 };
static graph_case_t case_at(int i)
{
    static const case_type_t types[] = {CASE_FP32, CASE_TF32, CASE_FP16};
    if (i == 3)
        return fused_case(CASE_FP32, 12);
    if (i == 7)
        return fused_case(CASE_FP16, 12);
    graph_case_t test = small_case((graph_direction_t)(i % 3), types[i / 3], 12);
    if (test.direction == GRAPH_BACKWARD_FILTER && test.type == CASE_TF32)
        test.beta = 1;
    return test;
}

/* ---- workspace ---- */

static bool an_answer_is_all_that_is_touched(void)
{
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            const size_t bytes = reported_bytes(plan);
            RIGHT(job_run(&job, handle, plan, bytes));
            RIGHT(job_run(&job, handle, plan, bytes));
            CHECK(reported_bytes(plan) <= bytes);
            RIGHT(job_run(&job, handle, plan, bytes));
            DESTROY(plan);
        }
        job_close(&job);
    }
    return true;
}

static bool no_answer_exceeds_the_limit(void)
{
    const size_t limit = (size_t)strtoull(argument, NULL, 10);
    size_t most = 0;
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            most = own_bytes(plan) > most ? own_bytes(plan) : most;
            CHECK(reported_bytes(plan) <= limit);
            DESTROY(plan);
        }
        job_close(&job);
    }
    CHECK(most > limit);
    return true;
}

/* Asked while a stream is captured, a plan has its own need; afterwards what was planned meanwhile.
 */
static bool the_smallest_answer_holds(void)
{
    job_t job;
    cudaStream_t stream;
    cudaGraph_t graph;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 25);
    CUDA(cudaStreamCreate(&stream));
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
    CUDNN(cudnnSetStream(handle, stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    const size_t first = reported_bytes(plan);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK(first == own_bytes(plan));
    const size_t second = reported_bytes(plan);
    CHECK(second < first);
    CHECK(reported_bytes(plan) <= second);
    RIGHT(job_run(&job, handle, plan, second));
    CHECK(reported_bytes(plan) <= second);
    RIGHT(job_run(&job, handle, plan, second));
    CUDNN(cudnnSetStream(handle, NULL));
    CUDA(cudaGraphDestroy(graph));
    DESTROY(plan);
    job_close(&job);
    return true;
}

/* The first configuration whose plan is told of more than it takes, or -1. */
static int find_generous(const job_t *job, size_t *told)
{
    for (int i = 0; i < job->count; i++) {
        cudnnBackendDescriptor_t plan = job_plan(job, i);
        const size_t own = own_bytes(plan);
        *told = reported_bytes(plan);
        DESTROY(plan);
        if (*told > own)
            return i;
    }
    return -1;
}

static bool an_answer_of_the_configuration_binds(void)
{
    job_t job;
    size_t generous;
    graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 26);
    job_open(&job, &test, handle, NULL);
    const int config = find_generous(&job, &generous);
    CHECK(config >= 0);
    job_close(&job);
    test.alpha = 0.5; /* another problem, of which nobody has heard yet */
    job_open(&job, &test, handle, NULL);
    int64_t count, asked = -1;
    CUDNN(cudnnBackendGetAttribute(job.configs[config].descriptor,
                                   CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                   &asked));
    cudnnBackendDescriptor_t plan = job_plan(&job, config);
    CHECK(asked >= 0 && (size_t)asked == own_bytes(plan) && (size_t)asked < generous);
    CHECK(reported_bytes(plan) <= (size_t)asked);
    RIGHT(job_run(&job, handle, plan, (size_t)asked));
    DESTROY(plan);
    /* A plan that is never asked itself has what its configuration said. */
    plan = job_plan(&job, config);
    RIGHT(job_run(&job, handle, plan, (size_t)asked));
    DESTROY(plan);
    job_close(&job);
    return true;
}

static size_t configuration_bytes(cudnnBackendDescriptor_t configuration)
{
    int64_t count, bytes = -1;
    CUDNN(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                                   CUDNN_TYPE_INT64, 1, &count, &bytes));
    return (size_t)bytes;
}

/* The second of two plans, which take some workspace, is told of more than that. */
static int open_generous(const job_t *job, cudnnBackendDescriptor_t *first,
                         cudnnBackendDescriptor_t *second)
{
    for (int i = 0; i < job->count; i++) {
        *first = job_plan(job, i);
        (void)reported_bytes(*first);
        *second = job_plan(job, i);
        if (own_bytes(*second) > 0 && reported_bytes(*second) > own_bytes(*second))
            return i;
        DESTROY(*first);
        DESTROY(*second);
    }
    BAIL("no plan that takes workspace was told of more");
}

/* Likewise when it is asked after the plan, by the descriptor that the plan was made from or by one
 * that the plan gives out. */
static bool a_later_answer_of_the_configuration_binds(void)
{
    for (int given = 0; given < 2; given++) {
        job_t job;
        int64_t count;
        cudnnBackendDescriptor_t first, plan, from_plan;
        const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 45 + 2 * given);
        job_open(&job, &test, handle, NULL);
        const int config = open_generous(&job, &first, &plan);
        CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &from_plan));
        CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &from_plan));
        const size_t asked =
            configuration_bytes(given ? from_plan : job.configs[config].descriptor);
        CHECK(asked == own_bytes(plan));
        DESTROY(from_plan);
        RIGHT(job_run(&job, handle, plan, asked));
        CHECK(reported_bytes(plan) <= asked);
        RIGHT(job_run(&job, handle, plan, asked));
        DESTROY(plan);
        DESTROY(first);
        job_close(&job);
    }
    return true;
}

static int config_that_takes_less(const job_t *job, size_t bytes)
{
    for (int i = 0; i < job->count; i++)
        if (configuration_bytes(job->configs[i].descriptor) < bytes)
            return i;
    BAIL("no configuration takes less");
}

/* What it answered as another plan's does not bind the plan that it is filled from later. */
static bool a_configuration_may_be_filled_again(void)
{
    job_t job;
    int64_t count;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 66);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
    const size_t told = reported_bytes(plan);
    graph_config_t *const other = &job.configs[config_that_takes_less(&job, told)];
    CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &other->descriptor));
    CHECK(reported_bytes(plan) == told);
    RIGHT(job_run(&job, handle, plan, told));
    CHECK(configuration_bytes(other->descriptor) == own_bytes(plan));
    CHECK(reported_bytes(plan) <= own_bytes(plan));
    DESTROY(plan);
    job_close(&job);
    return true;
}

/* Nor does what one answered that the plan was first to be made from. */
static bool a_plan_may_get_another_configuration(void)
{
    job_t job;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 67);
    job_open(&job, &test, handle, NULL);
    const int wanted = job_hungriest(&job);
    const int given[] = {
        config_that_takes_less(&job, configuration_bytes(job.configs[wanted].descriptor)), wanted};
    cudnnBackendDescriptor_t plan;
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
    CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                   &handle));
    for (int i = 0; i < 2; i++)
        CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                       &job.configs[given[i]].descriptor));
    CUDNN(cudnnBackendFinalize(plan));
    CHECK(own_bytes(plan) == configuration_bytes(job.configs[wanted].descriptor));
    CHECK(reported_bytes(plan) == own_bytes(plan));
    RIGHT(job_run(&job, handle, plan, own_bytes(plan)));
    DESTROY(plan);
    job_close(&job);
    return true;
}

static bool without_a_question_the_plans_own_need_holds(void)
{
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            RIGHT(job_run(&job, handle, plan, own_bytes(plan)));
            RIGHT(job_run(&job, handle, plan, own_bytes(plan)));
            DESTROY(plan);
        }
        job_close(&job);
    }
    return true;
}

/* cuDNN refuses where its plan needs one; what runs instead may need none. */
static bool a_missing_workspace_is_no_catastrophe(void)
{
    job_t job;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 27);
    job_open(&job, &test, handle, NULL);
    for (int config = 0; config < job.count; config++)
        for (int asked = 0; asked < 2; asked++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            if (asked)
                (void)reported_bytes(plan);
            job_upload(&job);
            cudnnBackendDescriptor_t pack = job_pack(backend_linked(), &job, NULL);
            const cudnnStatus_t stock = backend_stock()->cudnnBackendExecute(handle, plan, pack);
            job_upload(&job);
            const cudnnStatus_t status = cudnnBackendExecute(handle, plan, pack);
            CHECK(status == CUDNN_STATUS_SUCCESS || status == stock);
            CHECK(status != CUDNN_STATUS_SUCCESS || !job_judge(&job));
            DESTROY(pack);
            DESTROY(plan);
        }
    job_close(&job);
    return true;
}

/* A plan that was told of less than it takes. */
static cudnnBackendDescriptor_t shrunk_plan(const job_t *job, size_t *bytes)
{
    for (int i = 0; i < job->count; i++) {
        cudnnBackendDescriptor_t plan = job_plan(job, i);
        *bytes = reported_bytes(plan);
        if (*bytes < own_bytes(plan))
            return plan;
        DESTROY(plan);
    }
    BAIL("no plan was told of less than it takes");
}

static bool a_shrunk_plan_never_runs_itself(void)
{
    job_t job;
    size_t bytes;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 28);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
    atomic_store(&seen->plan, plan);
    for (int i = 0; i < 14; i++) /* whatever is tried is tried by then */
        RIGHT(job_run(&job, handle, plan, bytes));
    CHECK(fail_next_launch());
    const char *const wrong = job_run(&job, handle, plan, bytes);
    CHECK(wrong && strcmp(wrong, cudnnGetErrorString(CUDNN_STATUS_EXECUTION_FAILED)) == 0);
    RIGHT(job_run(&job, handle, plan, bytes)); /* the fault is over, the answer holds */
    CHECK(reported_bytes(plan) <= bytes);
    CHECK(atomic_load(&seen->plan_runs) == 0);
    /* Others of this problem, made after the trouble, run as cuDNN made them. */
    cudnnBackendDescriptor_t other = job_plan(&job, job_hungriest(&job));
    RIGHT(job_run(&job, handle, other, reported_bytes(other)));
    DESTROY(other);
    DESTROY(plan);
    job_close(&job);
    return true;
}

static bool a_plan_that_was_not_shrunk_runs_itself_in_trouble(void)
{
    job_t job;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 29);
    int replaced = 0;
    job_open(&job, &test, handle, NULL);
    for (int config = 0; config < job.count; config++) {
        cudnnBackendDescriptor_t plan = job_plan(&job, config);
        const size_t bytes = own_bytes(plan); /* of nothing is it told */
        atomic_store(&seen->plan, plan);
        atomic_store(&seen->plan_runs, 0);
        RIGHT(job_run(&job, handle, plan, bytes));
        if (atomic_load(&seen->plan_runs) == 0) {
            CHECK(fail_next_launch());
            RIGHT(job_run(&job, handle, plan, bytes));
            CHECK(atomic_load(&seen->plan_runs) == 1);
            replaced++;
        }
        DESTROY(plan);
    }
    job_close(&job);
    return replaced == 1; /* that was enough for all of them */
}

static bool one_generous_answer_at_a_time(void)
{
    job_t job;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 30);
    job_open(&job, &test, handle, NULL);
    int config = 0;
    cudnnBackendDescriptor_t first = NULL;
    size_t told = 0;
    for (; config < job.count; config++) {
        first = job_plan(&job, config);
        told = reported_bytes(first);
        if (told > own_bytes(first))
            break;
        DESTROY(first);
    }
    CHECK(config < job.count);
    cudnnBackendDescriptor_t second = job_plan(&job, config);
    CHECK(reported_bytes(second) <= own_bytes(second));
    CHECK(reported_bytes(first) == told);
    RIGHT(job_run(&job, handle, second, reported_bytes(second)));
    RIGHT(job_run(&job, handle, first, told));
    CHECK(reported_bytes(second) <= own_bytes(second));
    cudnnBackendDescriptor_t third = job_plan(&job, config);
    CHECK(reported_bytes(third) == told); /* that memory was to be had */
    RIGHT(job_run(&job, handle, third, told));
    DESTROY(third);
    DESTROY(second);
    DESTROY(first);
    job_close(&job);
    return true;
}

/* ---- plans ---- */

static cudnnBackendDescriptor_t plan_from_json(cudnnBackendDescriptor_t plan)
{
    static char text[1 << 20];
    int64_t count = 0;
    cudnnBackendDescriptor_t made;
    CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                   CUDNN_TYPE_CHAR, sizeof text, &count, text));
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &made));
    CUDNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                   &handle));
    CUDNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                   CUDNN_TYPE_CHAR, count, text));
    CUDNN(cudnnBackendFinalize(made));
    return made;
}

static bool plans_from_json_are_plans_like_others(void)
{
    job_t job;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 31);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
    cudnnBackendDescriptor_t again = plan_from_json(plan);
    DESTROY(plan);
    const size_t bytes = reported_bytes(again);
    CHECK(bytes < own_bytes(again));
    atomic_store(&seen->plan, again);
    RIGHT(job_run(&job, handle, again, bytes));
    RIGHT(job_run(&job, handle, again, bytes));
    CHECK(atomic_load(&seen->plan_runs) == 0);
    DESTROY(again);
    job_close(&job);
    return true;
}

/* A plan for a described device, made on another thread than the one that has a handle. */
static cudnnBackendDescriptor_t deviceless_plan(const job_t *job, int config,
                                                cudnnBackendDescriptor_t device)
{
    cudnnBackendDescriptor_t plan;
    CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan));
    CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device));
    CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                   &job->configs[config].descriptor));
    if (cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS)
        return plan;
    DESTROY(plan);
    return NULL;
}

static bool plans_without_a_device_run_on_one(void)
{
    static char json[1 << 16];
    cudnnBackendDescriptor_t device;
    job_t job;
    int plans = 0;
    const graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP32, 32);
    FILE *const file = fopen(argument, "r");
    CHECK(file);
    const size_t length = fread(json, 1, sizeof json, file);
    fclose(file);
    CUDNN(graph_create_device(json, length, &device));
    job_open(&job, &test, NULL, device);
    for (int config = 0; config < job.count; config++) {
        cudnnBackendDescriptor_t plan = deviceless_plan(&job, config, device);
        if (!plan)
            continue;
        const size_t bytes = reported_bytes(plan);
        CHECK(bytes <= own_bytes(plan)); /* nothing can be measured yet */
        RIGHT(job_run(&job, handle, plan, bytes));
        CHECK(reported_bytes(plan) <= bytes);
        RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(plan);
        plans++;
    }
    CHECK(plans > 2);
    job_close(&job);
    DESTROY(device);
    return true;
}

static bool any_handle_on_any_stream_runs_a_plan(void)
{
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++) {
        job_t job;
        cudnnHandle_t other;
        cudaStream_t stream;
        size_t bytes;
        const graph_case_t test = hungry_case((graph_direction_t)direction, 33);
        CUDNN(cudnnCreate(&other));
        CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
        RIGHT(job_run(&job, other, plan, bytes));
        CUDNN(cudnnSetStream(other, stream));
        RIGHT(job_run(&job, other, plan, bytes));
        RIGHT(job_run(&job, handle, plan, bytes));
        CUDNN(cudnnDestroy(other));
        CUDA(cudaStreamDestroy(stream));
        DESTROY(plan);
        job_close(&job);
    }
    return true;
}

/* What a plan was made with may be gone when it is asked or run: nobody needs it any more. */
static bool a_plan_outlives_its_handle(void)
{
    for (int named = 0; named < 2; named++) {
        job_t job;
        cudnnHandle_t first;
        const graph_case_t test = hungry_case(GRAPH_FORWARD, 48 + named);
        CUDNN(cudnnCreate(&first));
        job_open(&job, &test, first, NULL);
        job.handle = named ? first : NULL; /* else it is its graph's */
        cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
        CUDNN(cudnnDestroy(first));
        const size_t bytes = reported_bytes(plan);
        RIGHT(job_run(&job, handle, plan, bytes));
        RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(plan);
        job_close(&job);
    }
    return true;
}

/* A question may come while another device is current: nothing can be measured for the handle's then. */
static bool the_current_device_may_be_another(void)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    for (int i = 0; i < 6; i++) {
        job_t job;
        const graph_case_t test = small_case((graph_direction_t)(i / 2), CASE_FP16, 20 + i);
        CUDNN(cudnnSetStream(handle, i % 2 ? stream : NULL));
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
        CUDA(cudaSetDevice(1));
        const size_t bytes = reported_bytes(plan);
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaSetDevice(0));
        RIGHT(job_run(&job, handle, plan, bytes));
        RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(plan);
        job_close(&job);
    }
    CUDNN(cudnnSetStream(handle, NULL));
    CUDA(cudaStreamDestroy(stream));
    return true;
}

typedef struct worker {
    job_t job; /* data of its own; the plan is everybody's */
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t plan;
    size_t bytes;
    const char *wrong;
} worker_t;

static void *work(void *context)
{
    worker_t *const worker = context;
    for (int i = 0; i < 4 && !worker->wrong; i++)
        worker->wrong = job_run(&worker->job, worker->handle, worker->plan, worker->bytes);
    return NULL;
}

/* Nobody has executed or asked before the threads do. */
static bool two_threads_run_one_plan_on_two_streams(void)
{
    enum { THREADS = 2 };
    for (int round = 0; round < 3; round++) {
        static worker_t workers[THREADS];
        pthread_t threads[THREADS];
        cudaStream_t streams[THREADS];
        const graph_case_t test = hungry_case((graph_direction_t)round, 34);
        for (int i = 0; i < THREADS; i++) {
            worker_t *const worker = &workers[i];
            memset(worker, 0, sizeof *worker);
            CUDNN(cudnnCreate(&worker->handle));
            CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
            CUDNN(cudnnSetStream(worker->handle, streams[i]));
            job_open(&worker->job, &test, worker->handle, NULL);
            worker->plan =
                i ? workers[0].plan : job_plan(&worker->job, job_hungriest(&worker->job));
            worker->bytes = own_bytes(worker->plan);
        }
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
        for (int i = 0; i < THREADS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        for (int i = 0; i < THREADS; i++)
            RIGHT(workers[i].wrong);
        DESTROY(workers[0].plan);
        for (int i = 0; i < THREADS; i++) {
            job_close(&workers[i].job);
            CUDNN(cudnnDestroy(workers[i].handle));
            CUDA(cudaStreamDestroy(streams[i]));
        }
    }
    return true;
}

/* Captures one execution within `bytes` and replays it with fresh data. */
static bool capture_and_replay(job_t *job, cudnnBackendDescriptor_t plan, size_t bytes)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    char *const block = workspace_open(bytes);
    job_upload(job);
    cudnnBackendDescriptor_t pack = job_pack(backend_linked(), job, workspace_at(block, bytes));
    CUDA(cudaStreamCreate(&stream));
    CUDNN(cudnnSetStream(job->handle, stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    const cudnnStatus_t status = cudnnBackendExecute(job->handle, plan, pack);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK(status == CUDNN_STATUS_SUCCESS);
    DESTROY(pack);
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; i++) {
        job_upload(job);
        CUDA(cudaGraphLaunch(executable, stream));
        CUDA(cudaStreamSynchronize(stream));
        RIGHT(job_judge(job));
    }
    CUDNN(cudnnSetStream(job->handle, NULL));
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaStreamDestroy(stream));
    CHECK(workspace_close(block, bytes));
    return true;
}

static bool capture_of_an_unknown_plan_passes(void)
{
    job_t job;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 35);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
    atomic_store(&seen->plan, plan);
    CHECK(capture_and_replay(&job, plan, own_bytes(plan)));
    CHECK(atomic_load(&seen->plan_runs) == 1);
    DESTROY(plan);
    job_close(&job);
    return true;
}

static bool capture_of_a_known_plan_replays(void)
{
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++) {
        job_t job;
        size_t bytes;
        const graph_case_t test = hungry_case((graph_direction_t)direction, 36);
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
        atomic_store(&seen->plan, plan);
        CHECK(capture_and_replay(&job, plan, bytes)); /* asked, never run */
        RIGHT(job_run(&job, handle, plan, bytes));
        CHECK(capture_and_replay(&job, plan, bytes));
        CHECK(atomic_load(&seen->plan_runs) == 0);
        DESTROY(plan);
        job_close(&job);
    }
    return true;
}

/* CUDA does not work in the child, descriptors do. */
static bool a_forked_child_passes(void)
{
    job_t job;
    size_t bytes;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 37);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        cudnnBackendDescriptor_t pack;
        void *const data = &pack;
        const bool fine =
            reported_bytes(plan) == own_bytes(plan) &&
            cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) ==
                CUDNN_STATUS_SUCCESS &&
            cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                     1, &data) == CUDNN_STATUS_SUCCESS &&
            cudnnBackendDestroyDescriptor(pack) == CUDNN_STATUS_SUCCESS;
        _exit(fine ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    RIGHT(job_run(&job, handle, plan, bytes));
    DESTROY(plan);
    job_close(&job);
    return true;
}

/* In a process of its own; registered before anybody else's exit handler, this one runs after it.
 */
static job_t exit_job;
static cudnnBackendDescriptor_t exit_plan;
static size_t exit_bytes;

static void execute_at_exit(void)
{
    const char *const wrong = job_run(&exit_job, handle, exit_plan, exit_bytes);
    const bool itself = atomic_load(&seen->plan_runs) > 0;
    if (wrong || itself)
        printf("# %s%s\n", wrong ? wrong : "", itself ? " and the plan ran itself" : "");
    fflush(stdout);
    _exit(wrong || itself);
}

static bool exit_child(void)
{
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 38);
    job_open(&exit_job, &test, handle, NULL);
    exit_plan = shrunk_plan(&exit_job, &exit_bytes);
    atomic_store(&seen->plan, exit_plan);
    return false; /* execute_at_exit decides */
}

static bool a_shrunk_plan_does_not_run_itself_at_exit(void)
{
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(self, self, "exit_child", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return true;
}

/* Answers are cuDNN's and so is what runs. */
static bool everything_is_as_without(void)
{
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            const size_t bytes = reported_bytes(plan);
            CHECK(bytes == own_bytes(plan));
            atomic_store(&seen->plan, plan);
            atomic_store(&seen->plan_runs, 0);
            RIGHT(job_run(&job, handle, plan, bytes));
            CHECK(atomic_load(&seen->plan_runs) == 1);
            DESTROY(plan);
        }
        job_close(&job);
    }
    return true;
}

/* ---- variant packs ---- */

/* How a pack is put together. */
typedef struct pack_recipe {
    const char *name;
    bool uids_first, filler_first, set_twice, no_finalize, duplicate;
    int missing;     /* an operand that is left out; -1: none */
    int fillers;     /* tensors that the graph does not have */
    int uids_less;   /* how many more pointers than uids */
    int misaligned;  /* bytes that x is off */
    bool overridden; /* with an attribute that plans here do not know */
    bool null_data, late_set;
} pack_recipe_t;

enum { PACK_MOST = 48 };
typedef struct pack_content {
    int64_t uids[PACK_MOST];
    void *pointers[PACK_MOST];
    int count;
} pack_content_t;

static void add(pack_content_t *content, int64_t uid, void *pointer)
{
    content->uids[content->count] = uid;
    content->pointers[content->count++] = pointer;
}

static pack_content_t content_of(const job_t *job, const pack_recipe_t *recipe)
{
    pack_content_t content = {.count = 0};
    graph_pack_t bound = {.count = 0};
    problem_bind(&job->problem, &bound);
    for (int i = 0; recipe->filler_first && i < recipe->fillers; i++)
        add(&content, 1000 + i, bound.pointers[0]);
    for (int i = 0; i < bound.count; i++)
        if (i != recipe->missing)
            add(&content, bound.uids[i],
                recipe->null_data              ? NULL
                : i == 0 && recipe->misaligned ? (char *)bound.pointers[i] + recipe->misaligned
                                               : bound.pointers[i]);
    for (int i = 0; !recipe->filler_first && i < recipe->fillers; i++)
        add(&content, 1000 + i, bound.pointers[0]);
    if (recipe->duplicate)
        add(&content, bound.uids[0], bound.pointers[0]);
    return content;
}

enum { STEPS = 8 };
typedef struct trace {
    int count;
    cudnnStatus_t statuses[STEPS];
} trace_t;

static void note(trace_t *trace, cudnnStatus_t status)
{
    trace->statuses[trace->count++] = status;
}

static void set_content(const backend_api_t *api, cudnnBackendDescriptor_t pack,
                        const pack_recipe_t *recipe, const pack_content_t *content, trace_t *trace)
{
    for (int step = 0; step < 2; step++)
        if ((step == 0) == recipe->uids_first)
            note(trace, api->cudnnBackendSetAttribute(
                            pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                            content->count - recipe->uids_less, content->uids));
        else
            note(trace, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                      CUDNN_TYPE_VOID_PTR, content->count,
                                                      content->pointers));
}

/* Makes the pack and executes it twice; every call's status. */
static trace_t follow(const backend_api_t *api, const job_t *job, const pack_recipe_t *recipe,
                      cudnnBackendDescriptor_t plan, void *workspace)
{
    trace_t trace = {.count = 0};
    cudnnBackendDescriptor_t pack;
    const pack_content_t content = content_of(job, recipe);
    pack_content_t wrong = content;
    const int64_t override[] = {1, 4, 6, 6};
    memset(wrong.pointers, 0, sizeof wrong.pointers);
    CUDNN(api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    if (recipe->set_twice) {
        trace_t ignored = {.count = 0};
        set_content(api, pack, recipe, &wrong, &ignored);
    }
    set_content(api, pack, recipe, &content, &trace);
    note(&trace, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                               CUDNN_TYPE_VOID_PTR, 1, &workspace));
    if (recipe->overridden)
        note(&trace, api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES,
                                                   CUDNN_TYPE_INT64, 4, override));
    if (!recipe->no_finalize)
        note(&trace, api->cudnnBackendFinalize(pack));
    if (recipe->late_set)
        note(&trace,
             api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                           CUDNN_TYPE_VOID_PTR, content.count, wrong.pointers));
    for (int i = 0; i < 2; i++)
        note(&trace, api->cudnnBackendExecute(job->handle, plan, pack));
    CUDNN(api->cudnnBackendDestroyDescriptor(pack));
    return trace;
}

static const pack_recipe_t recipes[] = {
    {.name = "pointers first", .missing = -1},
    {.name = "uids first", .uids_first = true, .missing = -1},
    {.name = "set twice", .set_twice = true, .missing = -1},
    {.name = "13 others behind", .fillers = 13, .missing = -1},
    {.name = "13 others in front", .fillers = 13, .filler_first = true, .missing = -1},
    {.name = "14 others in front", .fillers = 14, .filler_first = true, .missing = -1},
    {.name = "40 others in front", .fillers = 40, .filler_first = true, .missing = -1},
    {.name = "40 others, uids first", .fillers = 40, .uids_first = true, .missing = -1},
    {.name = "one uid twice", .duplicate = true, .missing = -1},
    {.name = "no x", .missing = 0},
    {.name = "no y", .missing = 1},
    {.name = "no w", .missing = 2},
    {.name = "NULL pointers", .null_data = true, .missing = -1},
    {.name = "a uid too few", .uids_less = 1, .missing = -1},
    {.name = "misaligned by 4", .misaligned = 4, .missing = -1},
    {.name = "misaligned by 16", .misaligned = 16, .missing = -1},
    {.name = "other shapes", .overridden = true, .missing = -1},
    {.name = "not finalized", .no_finalize = true, .missing = -1},
    {.name = "set after finalization", .late_set = true, .missing = -1},
};

static bool same_trace(const char *name, const trace_t *stock, const trace_t *mine)
{
    bool same = stock->count == mine->count;
    for (int i = 0; same && i < stock->count; i++)
        if (stock->statuses[i] != mine->statuses[i]) {
            printf("# %s: step %d gives %d, not %d\n", name, i, (int)mine->statuses[i],
                   (int)stock->statuses[i]);
            same = false;
        }
    return same;
}

/* The plan has been told of `bytes`; cuDNN itself gets as much as it needs. */
static bool packs_agree(job_t *job, cudnnBackendDescriptor_t plan, size_t bytes)
{
    const size_t own = own_bytes(plan);
    bool all = true;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        char *block = workspace_open(own);
        job_upload(job);
        const trace_t stock =
            follow(backend_stock(), job, &recipes[i], plan, workspace_at(block, own));
        CUDA(cudaDeviceSynchronize());
        (void)workspace_close(block, own);
        block = workspace_open(bytes);
        job_upload(job);
        const trace_t mine =
            follow(backend_linked(), job, &recipes[i], plan, workspace_at(block, bytes));
        CUDA(cudaDeviceSynchronize());
        CHECK(workspace_close(block, bytes));
        all = same_trace(recipes[i].name, &stock, &mine) && all;
        if (mine.statuses[mine.count - 1] == CUDNN_STATUS_SUCCESS)
            RIGHT(job_judge(job));
    }
    return all;
}

/* What was loaded for a context ends with it, and the next one may have its address. */
static bool a_device_may_be_reset(void)
{
    for (int round = 0; round < 2; round++) {
        job_t job;
        const graph_case_t test = small_case(GRAPH_BACKWARD_FILTER, CASE_FP16, 68 + round);
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
        const size_t bytes = reported_bytes(plan);
        RIGHT(job_run(&job, handle, plan, bytes));
        RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(plan);
        job_close(&job);
        CUDNN(cudnnDestroy(handle));
        CUDA(cudaSetDevice(0));
        CUDA(cudaDeviceReset());
        CUDNN(cudnnCreate(&handle));
    }
    return true;
}

static bool packs_are_understood_however_made(void)
{
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++) {
        job_t job;
        size_t bytes;
        const graph_case_t test = hungry_case((graph_direction_t)direction, 20);
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t shrunk = shrunk_plan(&job, &bytes);
        CHECK(packs_agree(&job, shrunk, bytes));
        DESTROY(shrunk);
        cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
        CHECK(packs_agree(&job, plan, own_bytes(plan)));
        DESTROY(plan);
        job_close(&job);
    }
    return true;
}

/* Two programs, or two parts of one, pose one problem under different names. */
static bool uids_are_names_not_places(void)
{
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++)
        for (int renamed = 0; renamed < 2; renamed++) {
            job_t job;
            const graph_case_t test = hungry_case((graph_direction_t)direction, 20);
            if (renamed)
                job_open_renamed(&job, &test, handle);
            else
                job_open(&job, &test, handle, NULL);
            for (int config = 0; config < job.count; config++) {
                cudnnBackendDescriptor_t plan = job_plan(&job, config);
                RIGHT(job_run(&job, handle, plan, reported_bytes(plan)));
                DESTROY(plan);
            }
            job_close(&job);
        }
    return true;
}

static bool later_parts_of_a_gradient_add(void)
{
    job_t job;
    const graph_case_t test = hungry_case(GRAPH_BACKWARD_FILTER, 24);
    job_open(&job, &test, handle, NULL);
    for (int config = 0; config < job.count; config++) {
        cudnnBackendDescriptor_t plan = job_plan(&job, config);
        const size_t bytes = reported_bytes(plan);
        for (int i = 0; i < 14; i++)
            RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(plan);
    }
    job_close(&job);
    return true;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
extern size_t __sanitizer_get_current_allocated_bytes(void);
static size_t allocated_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t allocated_bytes(void)
{
    return mallinfo2().uordblks;
}
#endif

static bool nothing_is_kept_of_what_was_destroyed(void)
{
    enum { MANY = 3000 };
    static cudnnBackendDescriptor_t plans[MANY], packs[MANY];
    const size_t before = allocated_bytes();
    for (int i = 0; i < MANY; i++) {
        CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plans[i]));
        CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &packs[i]));
    }
    for (int i = 0; i < MANY; i++) {
        DESTROY(plans[i]);
        DESTROY(packs[i]);
    }
    const size_t after = allocated_bytes();
    printf("# %zu bytes before, %zu after\n", before, after);
    CHECK(after < before + 64 * MANY);
    return true;
}

/* Descriptors get the addresses of destroyed ones, of other types too. */
static bool addresses_may_be_used_again(void)
{
    job_t job;
    size_t bytes;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 20);
    job_open(&job, &test, handle, NULL);
    const int config = job_hungriest(&job);
    cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
    RIGHT(job_run(&job, handle, plan, bytes));
    int reused = 0;
    for (int i = 0; i < 40; i++) {
        cudnnBackendDescriptor_t before = plan;
        DESTROY(plan);
        if (i % 4 == 3) { /* somebody else has it in between */
            cudnnBackendDescriptor_t other;
            CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &other));
            DESTROY(other);
        }
        plan = job_plan(&job, config);
        reused += plan == before;
        /* Nobody has told this plan of less. */
        atomic_store(&seen->plan, plan);
        RIGHT(job_run(&job, handle, plan, i % 2 ? reported_bytes(plan) : own_bytes(plan)));
    }
    CHECK(reused > 0);
    DESTROY(plan);
    job_close(&job);
    return true;
}

/* Forgets what was set, and may be told of it anew. */
static bool a_descriptor_may_be_initialized(void)
{
    job_t job;
    size_t bytes;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 58);
    job_open(&job, &test, handle, NULL);
    const int config = job_hungriest(&job);
    for (int turn = 0; turn < 2; turn++) {
        cudnnBackendDescriptor_t plan = job_plan(&job, config);
        if (turn > 0) {
            (void)reported_bytes(plan);
            CUDNN(cudnnBackendInitialize(plan));
            CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                           CUDNN_TYPE_HANDLE, 1, &handle));
            CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                           &job.configs[config].descriptor));
            CUDNN(cudnnBackendFinalize(plan));
        }
        bytes = reported_bytes(plan);
        CHECK(bytes < own_bytes(plan));
        atomic_store(&seen->plan, plan);
        initializes_packs = true;
        RIGHT(job_run(&job, handle, plan, bytes));
        initializes_packs = false;
        DESTROY(plan);
    }
    CHECK(atomic_load(&seen->plan_runs) == 0);
    job_close(&job);
    return true;
}

/* ---- statuses ---- */

/* Wrong calls that cuDNN answers without a crash (docs/design/simulated-cudnn.md names those that crash it). */
static void wrong_calls(const backend_api_t *api, const job_t *job, cudnnBackendDescriptor_t plan,
                        cudnnBackendDescriptor_t pack, cudnnStatus_t *statuses, int *steps)
{
    cudnnBackendDescriptor_t fresh, fresh_pack;
    int64_t count = 0, value = 0;
    int at = 0;
    void *pointer = NULL;
#define SAY(call) statuses[at++] = (api->call)
    SAY(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)999, &fresh));
    SAY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &fresh));
    SAY(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &fresh_pack));
    SAY(cudnnBackendExecute(job->handle, fresh, pack));
    SAY(cudnnBackendExecute(job->handle, plan, fresh_pack));
    SAY(cudnnBackendExecute(job->handle, pack, plan));
    SAY(cudnnBackendExecute(NULL, plan, pack));
    SAY(cudnnBackendFinalize(fresh));
    SAY(cudnnBackendFinalize(plan));
    SAY(cudnnBackendGetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 1, &count, &value));
    SAY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_FLOAT,
                                 1, &count, &value));
    SAY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 2, &count, &value));
    SAY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 -1, &count, &value));
    count = 7;
    SAY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 0, &count, NULL));
    statuses[at++] = (cudnnStatus_t)count;
    SAY(cudnnBackendGetAttribute(pack, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                 1, &count, &value));
    SAY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                 &count, &value));
    SAY(cudnnBackendGetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                 1, &count, &pointer));
    SAY(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                 &job->handle));
    SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 2,
                                 &job->handle));
    SAY(cudnnBackendSetAttribute(fresh, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_INT64, 1,
                                 &job->handle));
    SAY(cudnnBackendSetAttribute(fresh_pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                 CUDNN_TYPE_INT64, 1, &pointer));
    SAY(cudnnBackendSetAttribute(fresh_pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                 0, NULL));
    SAY(cudnnBackendSetAttribute(fresh_pack, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                 &job->handle));
    SAY(cudnnBackendSetAttribute(fresh_pack, (cudnnBackendAttributeName_t)99999, CUDNN_TYPE_INT64,
                                 1, &value));
    SAY(cudnnBackendSetAttribute(NULL, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                 &job->handle));
    SAY(cudnnBackendExecute(job->handle, NULL, pack));
    SAY(cudnnBackendExecute(job->handle, plan, NULL));
    SAY(cudnnBackendFinalize(NULL));
    SAY(cudnnBackendDestroyDescriptor(fresh_pack));
    SAY(cudnnBackendDestroyDescriptor(fresh));
#undef SAY
    *steps = at;
}

static bool wrong_calls_get_the_same_statuses(void)
{
    for (int shrunk = 0; shrunk < 2; shrunk++) {
        cudnnStatus_t stock[64], mine[64];
        job_t job;
        int count, same_count;
        size_t bytes;
        const graph_case_t test = hungry_case(GRAPH_FORWARD, 41);
        job_open(&job, &test, handle, NULL);
        cudnnBackendDescriptor_t plan =
            shrunk ? shrunk_plan(&job, &bytes) : job_plan(&job, job_hungriest(&job));
        job_upload(&job);
        cudnnBackendDescriptor_t pack = job_pack(backend_linked(), &job, NULL);
        wrong_calls(backend_stock(), &job, plan, pack, stock, &count);
        wrong_calls(backend_linked(), &job, plan, pack, mine, &same_count);
        for (int i = 0; i < count; i++)
            if (stock[i] != mine[i]) {
                printf("# wrong call %d, plan%s shrunk: %d, not %d\n", i, shrunk ? "" : " not",
                       (int)mine[i], (int)stock[i]);
                return false;
            }
        /* None of that was trouble of ours. */
        bytes = reported_bytes(plan);
        atomic_store(&seen->plan, plan);
        CHECK(bytes < own_bytes(plan));
        RIGHT(job_run(&job, handle, plan, bytes));
        DESTROY(pack);
        DESTROY(plan);
        job_close(&job);
    }
    return atomic_load(&seen->plan_runs) == 0;
}

static bool cuda_graphs_are_as_cudnn_makes_them(void)
{
    job_t job;
    cudaGraph_t graph;
    cudaStream_t stream;
    size_t bytes;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 42);
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA(cudaStreamEndCapture(stream, &graph)); /* an empty one */
    job_open(&job, &test, handle, NULL);
    job_upload(&job);
    cudnnBackendDescriptor_t plan = job_plan(&job, job_hungriest(&job));
    char *const block = workspace_open(own_bytes(plan));
    cudnnBackendDescriptor_t pack =
        job_pack(backend_linked(), &job, workspace_at(block, own_bytes(plan)));
    const backend_api_t *const stock = backend_stock(), *const mine = backend_linked();
    atomic_store(&seen->plan, plan);
    CHECK(mine->cudnnBackendPopulateCudaGraph(handle, plan, pack, graph) ==
          stock->cudnnBackendPopulateCudaGraph(handle, plan, pack, graph));
    CHECK(mine->cudnnBackendUpdateCudaGraph(handle, plan, pack, graph) ==
          stock->cudnnBackendUpdateCudaGraph(handle, plan, pack, graph));
    CHECK(mine->cudnnBackendPopulateCudaGraph(NULL, plan, pack, graph) ==
          stock->cudnnBackendPopulateCudaGraph(NULL, plan, pack, graph));
    CHECK(atomic_load(&seen->plan_runs) == 3);
    cudnnBackendDescriptor_t shrunk = shrunk_plan(&job, &bytes);
    atomic_store(&seen->plan, shrunk);
    atomic_store(&seen->plan_runs, 0);
    CHECK(cudnnBackendPopulateCudaGraph(handle, shrunk, pack, graph) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(cudnnBackendUpdateCudaGraph(handle, shrunk, pack, graph) == CUDNN_STATUS_NOT_SUPPORTED);
    CHECK(atomic_load(&seen->plan_runs) == 0);
    CHECK(workspace_close(block, own_bytes(plan)));
    CUDA(cudaGraphDestroy(graph));
    DESTROY(pack);
    DESTROY(shrunk);
    DESTROY(plan);
    job_close(&job);
    return true;
}

/* ---- graphs that nobody needs to know ---- */

static bool same_bits(job_t *job, cudnnBackendDescriptor_t plan)
{
    const size_t bytes = reported_bytes(plan), count = problem_elements(&job->problem);
    double *const stock = calloc(count, sizeof *stock);
    CHECK(stock && bytes == own_bytes(plan));
    for (int linked = 0; linked < 2; linked++) {
        const backend_api_t *const api = linked ? backend_linked() : backend_stock();
        char *const block = workspace_open(bytes);
        job_upload(job);
        cudnnBackendDescriptor_t pack = job_pack(api, job, workspace_at(block, bytes));
        CUDNN(api->cudnnBackendExecute(handle, plan, pack));
        CUDA(cudaDeviceSynchronize());
        CUDNN(api->cudnnBackendDestroyDescriptor(pack));
        CHECK(workspace_close(block, bytes));
        CHECK(problem_download(&job->problem, linked ? job->values : stock));
    }
    CHECK(memcmp(stock, job->values, count * sizeof *stock) == 0);
    free(stock);
    return true;
}

static bool unknown_graphs_keep_their_bits(void)
{
    graph_case_t tests[4];
    for (int i = 0; i < 4; i++)
        tests[i] = small_case(i == 3 ? GRAPH_BACKWARD_DATA : GRAPH_FORWARD, CASE_FP32, 24);
    for (int i = 0; i < 4; i++)
        tests[i].layout = i == 0 ? CASE_CHWN : CASE_NHWC;
    tests[1].activation = CUDNN_POINTWISE_EXP;
    tests[2].activation = CUDNN_POINTWISE_ABS;
    tests[2].steps = CASE_BIAS;
    tests[3].activation = CUDNN_POINTWISE_RELU_FWD;
    int plans = 0;
    for (int i = 0; i < 4; i++) {
        job_t job;
        job_open(&job, &tests[i], handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            const bool varies =
                job.configs[config].numerical & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
            CHECK(varies || same_bits(&job, plan));
            DESTROY(plan);
            plans++;
        }
        job_close(&job);
    }
    printf("# %d plans\n", plans);
    return plans > 8;
}

/* y = max(x, 0) alone. */
static bool a_pointwise_graph_keeps_its_bits(void)
{
    enum { COUNT = 64 };
    float *data, host[2 * COUNT];
    graph_t graph;
    graph_config_t configs[GRAPH_CONFIGS];
    int count = 0;
    graph_tensor_t tensor = {.uid = 'x',
                             .type = CUDNN_DATA_FLOAT,
                             .count = 4,
                             .dims = {1, 4, 4, 4},
                             .strides = {64, 16, 4, 1},
                             .alignment = 16};
    graph_init(&graph);
    cudnnBackendDescriptor_t x = graph_add_tensor(&graph, &tensor);
    tensor.uid = 'y';
    cudnnBackendDescriptor_t y = graph_add_tensor(&graph, &tensor);
    const graph_pointwise_t relu = {CUDNN_POINTWISE_RELU_FWD, CUDNN_DATA_FLOAT, 1, 1};
    graph_add_pointwise(&graph, &relu, x, NULL, y);
    CUDNN(graph_finalize(&graph, handle));
    (void)graph_add_configs(&graph, CUDNN_HEUR_MODE_INSTANT, NULL, configs, GRAPH_CONFIGS, &count);
    graph_fini(&graph);
    CHECK(count > 0);
    CUDA(cudaMalloc((void **)&data, sizeof host));
    for (int i = 0; i < 2 * COUNT; i++)
        host[i] = (float)(i % 7 - 3);
    CUDA(cudaMemcpy(data, host, sizeof host, cudaMemcpyHostToDevice));
    cudnnBackendDescriptor_t plan;
    CUDNN(graph_create_plan(handle, &configs[0], &plan));
    CHECK(reported_bytes(plan) == own_bytes(plan));
    const graph_pack_t pack = {.count = 2, .uids = {'x', 'y'}, .pointers = {data, data + COUNT}};
    CUDNN(graph_execute(handle, plan, &pack));
    CUDA(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++)
        CHECK(host[COUNT + i] == fmaxf(host[i], 0));
    DESTROY(plan);
    graph_free_configs(configs, count);
    CUDA(cudaFree(data));
    return true;
}

/* ---- numerics ---- */

static void forget_what_ran(void)
{
    atomic_store(&seen->notes, 0);
    atomic_store(&seen->math, 0);
    for (int i = 0; i < 3; i++)
        atomic_store(&seen->algorithms[i], 0);
}

/* Runs the plan often enough for every trial to end; *same: with the same bits every time. */
static bool watch(job_t *job, cudnnBackendDescriptor_t plan, bool *same)
{
    const size_t bytes = reported_bytes(plan), count = problem_elements(&job->problem);
    double *const first = calloc(count, sizeof *first);
    CHECK(first);
    *same = true;
    forget_what_ran();
    for (int i = 0; i < 16; i++) {
        RIGHT(job_run(job, handle, plan, bytes));
        if (i == 0)
            memcpy(first, job->values, count * sizeof *first);
        *same = *same && memcmp(first, job->values, count * sizeof *first) == 0;
    }
    free(first);
    return true;
}

static const unsigned varying_algorithms[] = {0, 1U << CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                                              1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 |
                                                  1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3};

static bool plans_that_repeat_never_run_what_varies(void)
{
    int watched = 0, varied = 0;
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = job.count - 1; config >= 0; config--) {
            const bool may_vary =
                job.configs[config].numerical & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
            bool same;
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            CHECK(watch(&job, plan, &same));
            const bool varies =
                atomic_load(&seen->notes) & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
                atomic_load(&seen->algorithms[test.direction]) & varying_algorithms[test.direction];
            CHECK(may_vary || (same && !varies));
            watched += !may_vary;
            varied += varies;
            DESTROY(plan);
        }
        job_close(&job);
    }
    printf("# %d watched, %d varied\n", watched, varied);
    CHECK(watched > 20 && varied > 0); /* who may, does */
    return true;
}

/* TF32 plans first, so that what they may run is known. */
static bool strict_plans_never_run_tensor_cores(void)
{
    const unsigned cores = 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    int strict = 0, loose = 0;
    for (int i = 0; i < 6; i++) {
        job_t job;
        graph_case_t test = small_case((graph_direction_t)(i % 3), CASE_TF32, 16);
        test.alpha = i < 3 ? 1 : 0.5;
        job_open(&job, &test, handle, NULL);
        for (int pass = 0; pass < 2; pass++)
            for (int config = 0; config < job.count; config++) {
                const bool allowed = job.configs[config].numerical & cores;
                bool same;
                if (allowed == (pass == (i < 3)))
                    continue;
                cudnnBackendDescriptor_t plan = job_plan(&job, config);
                CHECK(watch(&job, plan, &same));
                const bool used = atomic_load(&seen->notes) & cores ||
                                  atomic_load(&seen->math) & ~(1U << CUDNN_FMA_MATH);
                CHECK(allowed || !used);
                strict += !allowed;
                loose += used;
                DESTROY(plan);
            }
        job_close(&job);
    }
    CHECK(strict > 10 && loose > 0);
    return true;
}

static const unsigned indirect_notes =
    1U << CUDNN_NUMERICAL_NOTE_FFT | 1U << CUDNN_NUMERICAL_NOTE_WINOGRAD;
static const unsigned indirect_algorithms[] = {
    1U << CUDNN_CONVOLUTION_FWD_ALGO_FFT | 1U << CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING |
        1U << CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD |
        1U << CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED,
    1U << CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT | 1U << CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING |
        1U << CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD |
        1U << CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED,
    1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT | 1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD |
        1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED |
        1U << CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING};

/* The argument says whether direct plans may run what is not. */
static bool direct_plans_stay_direct(void)
{
    const bool free_choice = strcmp(argument, "free") == 0;
    int ran = 0;
    for (int direction = GRAPH_FORWARD; direction <= GRAPH_BACKWARD_FILTER; direction++) {
        job_t job;
        graph_case_t test = small_case((graph_direction_t)direction, CASE_FP32, 12);
        test.c = test.k = 16;
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            bool same;
            if (job.configs[config].numerical & indirect_notes)
                continue;
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            CHECK(watch(&job, plan, &same));
            ran += atomic_load(&seen->notes) & indirect_notes ||
                   atomic_load(&seen->algorithms[direction]) & indirect_algorithms[direction];
            DESTROY(plan);
        }
        job_close(&job);
    }
    CHECK(free_choice ? ran > 0 : ran == 0);
    return true;
}

/* ---- plans whose JSON cannot be read ---- */

/* Uses the first plan of a job as it is: nobody knows it. */
static bool use_unread(job_t *job)
{
    cudnnBackendDescriptor_t plan = job_plan(job, job_hungriest(job));
    CHECK(reported_bytes(plan) == own_bytes(plan));
    atomic_store(&seen->plan, plan);
    atomic_store(&seen->plan_runs, 0);
    RIGHT(job_run(job, handle, plan, own_bytes(plan)));
    CHECK(atomic_load(&seen->plan_runs) == 1);
    DESTROY(plan);
    return true;
}

/* The first plan passes, and so does another of its graph. Graphs that are built later are known. */
static bool graphs_are_known_without_json(void)
{
    for (int i = 0; i < CASES; i++) {
        job_t job;
        size_t bytes = 0;
        const graph_case_t test = hungry_case((graph_direction_t)(i % 3), 20 + i);
        job_open(&job, &test, handle, NULL);
        if (i == 0) {
            CHECK(use_unread(&job) && use_unread(&job));
        } else {
            cudnnBackendDescriptor_t plan = shrunk_plan(&job, &bytes);
            for (int run = 0; run < 3; run++)
                RIGHT(job_run(&job, handle, plan, bytes));
            DESTROY(plan);
        }
        job_close(&job);
    }
    return true;
}

/* One plan, of which nobody can know: from then on graphs are followed. Tests run behind it where plans'
 * JSON cannot be read. */
static void use_one_unread(void)
{
    job_t job;
    const graph_case_t test = hungry_case(GRAPH_FORWARD, 61);
    job_open(&job, &test, handle, NULL);
    cudnnBackendDescriptor_t plan = job_plan(&job, 0);
    (void)reported_bytes(plan);
    CUDNN(cudnnBackendDestroyDescriptor(plan));
    job_close(&job);
}

static void *build_and_run(void *image_count)
{
    static const char *const failed = "failed";
    const int images = *(const int *)image_count;
    cudnnHandle_t own;
    CUDNN(cudnnCreate(&own));
    for (int i = 0; i < 4; i++) {
        job_t job;
        graph_case_t test = small_case(GRAPH_FORWARD, CASE_FP16, images);
        test.alpha = 1 + i / 64.0;
        job_open(&job, &test, own, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            size_t bytes;
            if (graph_plan_workspace(plan, &bytes) != CUDNN_STATUS_SUCCESS || bytes > 4096)
                return (void *)(uintptr_t)failed;
            (void)cudnnBackendDestroyDescriptor(plan);
        }
        job_close(&job);
    }
    CUDNN(cudnnDestroy(own));
    return NULL;
}

/* Descriptors of both are created and destroyed at once, at each other's addresses. */
static bool two_threads_build_graphs(void)
{
    static const int images[2] = {13, 17};
    pthread_t threads[2];
    void *failed;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, build_and_run, (void *)(uintptr_t)&images[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], &failed) == 0 && !failed);
    return true;
}

/* ---- what is remembered ---- */

static bool answers_are_printed(void)
{
    for (int i = 0; i < CASES; i++) {
        job_t job;
        const graph_case_t test = case_at(i);
        job_open(&job, &test, handle, NULL);
        for (int config = 0; config < job.count; config++) {
            cudnnBackendDescriptor_t plan = job_plan(&job, config);
            const size_t bytes = reported_bytes(plan);
            forget_what_ran();
            RIGHT(job_run(&job, handle, plan, bytes));
            printf("case %d plan %d: engine %d notes %x, %zu bytes of %zu, ran %x %x\n", i, config,
                   (int)job.configs[config].engine, job.configs[config].numerical, bytes,
                   own_bytes(plan), atomic_load(&seen->notes),
                   atomic_load(&seen->algorithms[test.direction]));
            DESTROY(plan);
        }
        job_close(&job);
    }
    return true;
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    bool (*run)(void);
} all_tests[] = {
    TEST(an_answer_is_all_that_is_touched),
    TEST(no_answer_exceeds_the_limit),
    TEST(the_smallest_answer_holds),
    TEST(an_answer_of_the_configuration_binds),
    TEST(a_later_answer_of_the_configuration_binds),
    TEST(a_configuration_may_be_filled_again),
    TEST(a_plan_may_get_another_configuration),
    TEST(without_a_question_the_plans_own_need_holds),
    TEST(a_missing_workspace_is_no_catastrophe),
    TEST(a_shrunk_plan_never_runs_itself),
    TEST(a_plan_that_was_not_shrunk_runs_itself_in_trouble),
    TEST(one_generous_answer_at_a_time),
    TEST(plans_from_json_are_plans_like_others),
    TEST(plans_without_a_device_run_on_one),
    TEST(any_handle_on_any_stream_runs_a_plan),
    TEST(a_plan_outlives_its_handle),
    TEST(the_current_device_may_be_another),
    TEST(two_threads_run_one_plan_on_two_streams),
    TEST(capture_of_an_unknown_plan_passes),
    TEST(capture_of_a_known_plan_replays),
    TEST(a_forked_child_passes),
    TEST(exit_child),
    TEST(a_shrunk_plan_does_not_run_itself_at_exit),
    TEST(everything_is_as_without),
    TEST(a_device_may_be_reset),
    TEST(packs_are_understood_however_made),
    TEST(uids_are_names_not_places),
    TEST(later_parts_of_a_gradient_add),
    TEST(nothing_is_kept_of_what_was_destroyed),
    TEST(addresses_may_be_used_again),
    TEST(a_descriptor_may_be_initialized),
    TEST(wrong_calls_get_the_same_statuses),
    TEST(cuda_graphs_are_as_cudnn_makes_them),
    TEST(unknown_graphs_keep_their_bits),
    TEST(a_pointwise_graph_keeps_its_bits),
    TEST(plans_that_repeat_never_run_what_varies),
    TEST(strict_plans_never_run_tensor_cores),
    TEST(direct_plans_stay_direct),
    TEST(graphs_are_known_without_json),
    TEST(two_threads_build_graphs),
    TEST(answers_are_printed),
};

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    self = argv[0];
    argument = argc > 2 ? argv[2] : "";
    seen = dlsym(RTLD_DEFAULT, "witness");
    if (!seen)
        BAIL("graph_witness.so is not preloaded");
    if (strcmp(name, "exit_child") == 0 && atexit(execute_at_exit) != 0)
        BAIL("no exit handler");
    CUDNN(cudnnCreate(&handle));
    if (getenv("MICRODNN_SIM_PLAN_SCHEMA") && strcmp(name, "graphs_are_known_without_json") != 0)
        use_one_unread();
    for (size_t i = 0; i < sizeof all_tests / sizeof *all_tests; i++)
        if (strcmp(name, all_tests[i].name) == 0)
            return all_tests[i].run() ? 0 : 1;
    fprintf(stderr, "no test '%s'\n", name);
    return 2;
}
