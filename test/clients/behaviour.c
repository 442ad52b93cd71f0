/* How convolutions behave for a program that has the library under it: honest answers, odd callers,
 * threads, capture, no waiting and no allocation once a problem is known. Runs on the simulated GPU
 * under the preload, speaks TAP. Results are compared with a reference on the host.
 *
 *   behaviour [NAME [FAULT]]   all tests, in order, or one; the environment tunes the library.
 * FAULT, like cuMemAlloc_v2:3:0, makes a call of the driver fail in
 * a_fault_of_the_driver_changes_nothing: the third one during a convolution of direction 0 that was
 * never planned. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/allocator.h"
#include "test/clients/fail.h"
#include "test/reference_convolution.h"
#include "test/sim/sim.h"

#define CUDA(call) CHECK((call) == cudaSuccess)
#define CUDNN(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, RESULTS = 16, SETTLING_CALLS = 14 };
enum { N = 64, C = 4, SIDE = 8, K = 8, KERNEL = 5, PAD = 2 };
static const size_t arena_bytes = (size_t)32 << 20;

/* Allocations by libmicrodnn.so, counted by the address of the caller. */
static _Atomic long our_allocations;
static void *ours_begin, *ours_end;

static UNWATCHED void count_if_ours(void *caller)
{
    if ((char *)caller >= (char *)ours_begin && (char *)caller < (char *)ours_end)
        atomic_fetch_add(&our_allocations, 1);
}

UNWATCHED void *malloc(size_t bytes)
{
    count_if_ours(__builtin_return_address(0));
    return ALLOCATOR(malloc)(bytes);
}

UNWATCHED void *calloc(size_t count, size_t bytes)
{
    count_if_ours(__builtin_return_address(0));
    return ALLOCATOR(calloc)(count, bytes);
}

/* Where the library lies in memory, from the kernel's own list. */
static void find_library(void)
{
    char line[512];
    FILE *const maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (strstr(line, "libmicrodnn.so") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
            if (!ours_begin)
                ours_begin = (void *)begin;
            ours_end = (void *)end;
        }
    }
    if (maps)
        fclose(maps);
}

static const sim_api_t *sim(void)
{
    void *const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *const symbol = cuda ? dlsym(cuda, "sim_api") : NULL;
    sim_api_function_t get;
    memcpy(&get, &symbol, sizeof get);
    return symbol ? get() : NULL;
}

/* One thread's convolution: descriptors, device and host data, the right answers. */
typedef struct job {
    cudnnHandle_t handle;
    cudaStream_t stream;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    int n;
    size_t counts[DIRECTIONS]; /* elements of y, x, w: the output of each direction */
    float *device[DIRECTIONS]; /* y, x, w */
    double *host[DIRECTIONS];
    double *truth[DIRECTIONS];
    void *workspace;
    reference_convolution_t reference;
} job_t;

static void set_reference(job_t *job)
{
    job->reference = (reference_convolution_t){.groups = 1,
                                               .pad = {0, PAD, PAD},
                                               .stride = {1, 1, 1},
                                               .dilation = {1, 1, 1},
                                               .x = {.dims = {job->n, C, 1, SIDE, SIDE}},
                                               .w = {.dims = {K, C, 1, KERNEL, KERNEL}},
                                               .y = {.dims = {job->n, K, 1, SIDE, SIDE}}};
    reference_pack(&job->reference.x, false);
    reference_pack(&job->reference.w, false);
    reference_pack(&job->reference.y, false);
}

/* On the job's own stream: a plain cudaMemcpy from pageable memory may return before its transfer
 * has arrived, and a non-blocking stream does not wait for it. */
static bool upload(const job_t *job, int i, const float *values)
{
    CUDA(cudaMemcpyAsync(job->device[i], values, job->counts[i] * sizeof *values,
                         cudaMemcpyHostToDevice, job->stream));
    CUDA(cudaStreamSynchronize(job->stream));
    return true;
}

static bool fill(job_t *job)
{
    unsigned long long state = 42;
    for (int i = 0; i < DIRECTIONS; i++) {
        float *const narrow = malloc(job->counts[i] * sizeof *narrow);
        CHECK(narrow && job->host[i]);
        for (size_t j = 0; j < job->counts[i]; j++) {
            narrow[j] = (float)reference_random(&state);
            job->host[i][j] = (double)narrow[j];
        }
        CHECK(upload(job, i, narrow));
        free(narrow);
    }
    for (int i = 0; i < DIRECTIONS; i++) {
        double *arrays[DIRECTIONS] = {job->host[0], job->host[1], job->host[2]};
        arrays[i] = job->truth[i];
        job->reference.direction = (reference_direction_t)i;
        reference_convolution(&job->reference, 1.0, 0.0, arrays[1], arrays[2], arrays[0]);
    }
    return true;
}

static bool job_open(job_t *job, int n)
{
    memset(job, 0, sizeof *job);
    job->n = n;
    set_reference(job);
    job->counts[FORWARD] = reference_span(&job->reference.y);
    job->counts[BACKWARD_DATA] = reference_span(&job->reference.x);
    job->counts[BACKWARD_FILTER] = reference_span(&job->reference.w);
    CUDA(cudaStreamCreateWithFlags(&job->stream, cudaStreamNonBlocking));
    CUDNN(cudnnCreate(&job->handle));
    CUDNN(cudnnSetStream(job->handle, job->stream));
    CUDNN(cudnnCreateTensorDescriptor(&job->x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&job->y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&job->w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&job->conv));
    CUDNN(cudnnSetTensor4dDescriptor(job->x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, C, SIDE,
                                     SIDE));
    CUDNN(cudnnSetTensor4dDescriptor(job->y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, K, SIDE,
                                     SIDE));
    CUDNN(cudnnSetFilter4dDescriptor(job->w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, KERNEL,
                                     KERNEL));
    CUDNN(cudnnSetConvolution2dDescriptor(job->conv, PAD, PAD, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(job->conv, CUDNN_FMA_MATH));
    for (int i = 0; i < DIRECTIONS; i++) {
        CUDA(cudaMalloc((void **)&job->device[i], job->counts[i] * sizeof(float)));
        job->host[i] = malloc(job->counts[i] * sizeof(double));
        job->truth[i] = malloc(job->counts[i] * sizeof(double));
    }
    CUDA(cudaMalloc(&job->workspace, arena_bytes));
    return fill(job);
}

static bool job_close(job_t *job)
{
    CUDA(cudaStreamSynchronize(job->stream));
    for (int i = 0; i < DIRECTIONS; i++) {
        CUDA(cudaFree(job->device[i]));
        free(job->host[i]);
        free(job->truth[i]);
    }
    CUDA(cudaFree(job->workspace));
    CUDNN(cudnnDestroyTensorDescriptor(job->x_desc));
    CUDNN(cudnnDestroyTensorDescriptor(job->y_desc));
    CUDNN(cudnnDestroyFilterDescriptor(job->w_desc));
    CUDNN(cudnnDestroyConvolutionDescriptor(job->conv));
    CUDNN(cudnnDestroy(job->handle));
    CUDA(cudaStreamDestroy(job->stream));
    return true;
}

static cudnnStatus_t run(const job_t *job, int direction, int algo, size_t bytes)
{
    const float one = 1.0F, zero = 0.0F;
    void *const workspace = bytes ? job->workspace : NULL;
    if (direction == FORWARD)
        return cudnnConvolutionForward(job->handle, &one, job->x_desc, job->device[1], job->w_desc,
                                       job->device[2], job->conv, (cudnnConvolutionFwdAlgo_t)algo,
                                       workspace, bytes, &zero, job->y_desc, job->device[0]);
    if (direction == BACKWARD_DATA)
        return cudnnConvolutionBackwardData(job->handle, &one, job->w_desc, job->device[2],
                                            job->y_desc, job->device[0], job->conv,
                                            (cudnnConvolutionBwdDataAlgo_t)algo, workspace, bytes,
                                            &zero, job->x_desc, job->device[1]);
    return cudnnConvolutionBackwardFilter(job->handle, &one, job->x_desc, job->device[1],
                                          job->y_desc, job->device[0], job->conv,
                                          (cudnnConvolutionBwdFilterAlgo_t)algo, workspace, bytes,
                                          &zero, job->w_desc, job->device[2]);
}

/* Poisons the output, runs, compares, and puts the input back that the output replaced. */
static bool poison(const job_t *job, int direction)
{
    CUDA(cudaMemsetAsync(job->device[direction], 0xFF, job->counts[direction] * sizeof(float),
                         job->stream));
    return true;
}

static bool result_is_right(const job_t *job, int direction)
{
    const size_t count = job->counts[direction];
    float *const narrow = malloc(count * sizeof *narrow);
    CHECK(narrow);
    CUDA(cudaStreamSynchronize(job->stream));
    CUDA(
        cudaMemcpy(narrow, job->device[direction], count * sizeof *narrow, cudaMemcpyDeviceToHost));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = (double)narrow[i] - job->truth[direction][i];
        difference += error * error;
        norm += job->truth[direction][i] * job->truth[direction][i];
        narrow[i] = (float)job->host[direction][i];
    }
    CHECK(upload(job, direction, narrow));
    free(narrow);
    if (!(difference <= 1e-10 * norm)) /* relative L2 of 1e-5 */
        printf("# direction %d: squared error %g of %g\n", direction, difference, norm);
    CHECK(difference <= 1e-10 * norm);
    return true;
}

static bool runs_right(const job_t *job, int direction, int algo, size_t bytes)
{
    CHECK(poison(job, direction));
    CUDNN(run(job, direction, algo, bytes));
    return result_is_right(job, direction);
}

static cudnnStatus_t workspace_size(const job_t *job, int direction, int algo, size_t *bytes)
{
    if (direction == FORWARD)
        return cudnnGetConvolutionForwardWorkspaceSize(job->handle, job->x_desc, job->w_desc,
                                                       job->conv, job->y_desc,
                                                       (cudnnConvolutionFwdAlgo_t)algo, bytes);
    if (direction == BACKWARD_DATA)
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            job->handle, job->w_desc, job->y_desc, job->conv, job->x_desc,
            (cudnnConvolutionBwdDataAlgo_t)algo, bytes);
    return cudnnGetConvolutionBackwardFilterWorkspaceSize(
        job->handle, job->x_desc, job->y_desc, job->conv, job->w_desc,
        (cudnnConvolutionBwdFilterAlgo_t)algo, bytes);
}

/* The three results have one layout; FindEx overwrites the output. */
static cudnnStatus_t find(const job_t *job, int direction, int requested, int *count,
                          cudnnConvolutionFwdAlgoPerf_t *results, size_t bytes)
{
    if (direction == FORWARD)
        return cudnnFindConvolutionForwardAlgorithmEx(
            job->handle, job->x_desc, job->device[1], job->w_desc, job->device[2], job->conv,
            job->y_desc, job->device[0], requested, count, results, job->workspace, bytes);
    if (direction == BACKWARD_DATA)
        return cudnnFindConvolutionBackwardDataAlgorithmEx(
            job->handle, job->w_desc, job->device[2], job->y_desc, job->device[0], job->conv,
            job->x_desc, job->device[1], requested, count,
            (cudnnConvolutionBwdDataAlgoPerf_t *)results, job->workspace, bytes);
    return cudnnFindConvolutionBackwardFilterAlgorithmEx(
        job->handle, job->x_desc, job->device[1], job->y_desc, job->device[0], job->conv,
        job->w_desc, job->device[2], requested, count,
        (cudnnConvolutionBwdFilterAlgoPerf_t *)results, job->workspace, bytes);
}

/* Milliseconds on the stream of one call, after as many as the library may use to try things out.
 */
static bool time_call(const job_t *job, int direction, int algo, size_t bytes, float *ms)
{
    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (int i = 0; i < SETTLING_CALLS; i++)
        CUDNN(run(job, direction, algo, bytes));
    CUDA(cudaStreamSynchronize(job->stream));
    CUDNN(run(job, direction, algo, bytes));
    CUDA(cudaEventRecord(begin, job->stream));
    CUDNN(run(job, direction, algo, bytes));
    CUDA(cudaEventRecord(end, job->stream));
    CUDA(cudaEventSynchronize(end));
    CUDA(cudaEventElapsedTime(ms, begin, end));
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    return true;
}

static const size_t limits[] = {0, 4096, 65536, (size_t)1 << 20, (size_t)32 << 20};

static bool find_tells_what_will_run(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
            int count = 0;
            float ms;
            CUDNN(find(&job, direction, RESULTS, &count, results, limits[i]));
            CHECK(count > 0 && results[0].status == CUDNN_STATUS_SUCCESS);
            for (int j = 0; j < count && results[j].status == CUDNN_STATUS_SUCCESS; j++) {
                size_t bytes;
                CUDNN(workspace_size(&job, direction, (int)results[j].algo, &bytes));
                CHECK(results[j].memory <= limits[i] && bytes == results[j].memory);
                CHECK(j == 0 || results[j].time >= results[j - 1].time);
                CHECK(time_call(&job, direction, (int)results[j].algo, results[j].memory, &ms));
                CHECK(ms <= results[j].time * 1.05F + 0.001F);
                CHECK(ms >= results[j].time * 0.95F - 0.001F);
            }
            CHECK(fill(&job));
            CHECK(runs_right(&job, direction, (int)results[0].algo, results[0].memory));
        }
    return job_close(&job);
}

static bool more_workspace_is_never_slower(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        float last = 1e9F;
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            float ms;
            CHECK(time_call(&job, direction, 0, limits[i], &ms));
            CHECK(ms <= last * 1.001F);
            last = ms;
        }
    }
    return job_close(&job);
}

static bool find_with_one_entry_gets_the_best(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    cudnnConvolutionFwdAlgoPerf_t one[2] = {{.algo = (cudnnConvolutionFwdAlgo_t)77},
                                            {.algo = (cudnnConvolutionFwdAlgo_t)77}};
    cudnnConvolutionFwdAlgoPerf_t all[RESULTS];
    int count = 0, all_count = 0;
    CUDNN(find(&job, FORWARD, RESULTS, &all_count, all, limits[2]));
    CUDNN(find(&job, FORWARD, 1, &count, one, limits[2]));
    CHECK(count == 1 && one[0].algo == all[0].algo && one[0].memory == all[0].memory);
    CHECK(one[1].algo == (cudnnConvolutionFwdAlgo_t)77);
    return job_close(&job);
}

static bool any_workspace_answer_is_enough(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    for (int direction = 0; direction < DIRECTIONS; direction++)
        for (int algo = 0; algo < 8; algo++) {
            size_t bytes = 0;
            if (workspace_size(&job, direction, algo, &bytes) == CUDNN_STATUS_SUCCESS)
                CHECK(bytes <= arena_bytes && runs_right(&job, direction, algo, bytes));
        }
    return job_close(&job);
}

static bool callers_that_never_ask_are_served(void)
{
    /* Batch sizes of their own: no plan of another test helps. */
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        job_t job;
        CHECK(job_open(&job, 33 + direction));
        CHECK(runs_right(&job, direction, direction == FORWARD ? 0 : 1, arena_bytes));
        CHECK(runs_right(&job, direction, 0, 0));
        CHECK(runs_right(&job, direction, 0, 100000));
        CHECK(job_close(&job));
    }
    return true;
}

static bool refused_calls_stay_refused(void)
{
    job_t job;
    const float one = 1.0F, zero = 0.0F;
    CHECK(job_open(&job, 3));
    CHECK(cudnnConvolutionForward(job.handle, &one, job.y_desc, job.device[0], job.w_desc,
                                  job.device[2], job.conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                  NULL, 0, &zero, job.y_desc,
                                  job.device[0]) != CUDNN_STATUS_SUCCESS);
    CHECK(cudnnConvolutionForward(NULL, &one, job.x_desc, job.device[1], job.w_desc, job.device[2],
                                  job.conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0,
                                  &zero, job.y_desc, job.device[0]) != CUDNN_STATUS_SUCCESS);
    size_t bytes;
    CHECK(workspace_size(&job, FORWARD, 99, &bytes) != CUDNN_STATUS_SUCCESS);
    return job_close(&job);
}

static bool descriptors_changed_in_place_are_noticed(void)
{
    job_t big, small;
    CHECK(job_open(&big, 40) && job_open(&small, 24));
    CHECK(runs_right(&big, FORWARD, 0, 65536));
    /* The same descriptor objects now describe the smaller batch. */
    CUDNN(cudnnSetTensor4dDescriptor(big.x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 24, C, SIDE,
                                     SIDE));
    CUDNN(cudnnSetTensor4dDescriptor(big.y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 24, K, SIDE,
                                     SIDE));
    job_t mixed = small;
    mixed.x_desc = big.x_desc;
    mixed.y_desc = big.y_desc;
    CHECK(runs_right(&mixed, FORWARD, 0, 65536));
    return job_close(&small) && job_close(&big);
}

static bool known_problems_wait_for_nothing(void)
{
    const sim_api_t *const api = sim();
    job_t job;
    CHECK(api && job_open(&job, N));
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        CUDNN(run(&job, direction, 1, 65536));
        CUDA(cudaStreamSynchronize(job.stream));
        const double begin_us = api->host_time_us();
        CUDNN(run(&job, direction, 1, 65536));
        const double enqueued_us = api->host_time_us();
        CUDA(cudaStreamSynchronize(job.stream));
        const double done_us = api->host_time_us();
        /* A host that waited inside the call would find nothing left to wait for. */
        CHECK(enqueued_us - begin_us < 0.5 * (done_us - begin_us));
    }
    return job_close(&job);
}

static bool known_problems_allocate_nothing(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    size_t before, after, total;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        CUDNN(run(&job, direction, 1, 65536));
    CUDA(cudaMemGetInfo(&before, &total));
    const long begin = atomic_load(&our_allocations);
    CHECK(begin > 0);
    for (int i = 0; i < 50; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++)
            CUDNN(run(&job, direction, 1, 65536));
    CHECK(atomic_load(&our_allocations) == begin);
    CUDA(cudaMemGetInfo(&after, &total));
    CHECK(after == before);
    return job_close(&job);
}

static bool measuring_gives_everything_back(void)
{
    job_t job;
    size_t before, after, total;
    CHECK(job_open(&job, 57));
    CUDA(cudaMemGetInfo(&before, &total));
    for (int direction = 0; direction < DIRECTIONS; direction++)
        CUDNN(run(&job, direction, 1, 65536));
    CUDA(cudaMemGetInfo(&after, &total));
    CHECK(after == before);
    return job_close(&job);
}

static const char *fault = "";

static bool a_fault_of_the_driver_changes_nothing(void)
{
    char name[64];
    unsigned long long nth;
    int direction = 0;
    static job_t job; /* stays open with a fault, which might hit its end */
    size_t before, after, total;
    const bool any = sscanf(fault, "%63[^:]:%llu:%d", name, &nth, &direction) == 3;
    CHECK(sim() && job_open(&job, 70) && poison(&job, direction));
    CUDA(cudaStreamSynchronize(job.stream));
    CUDA(cudaMemGetInfo(&before, &total));
    if (any)
        sim()->inject(name, nth, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CUDNN(run(&job, direction, 1, 65536));
    CHECK(sim()->faults_fired() == any); /* in a call of the library's */
    CUDA(cudaMemGetInfo(&after, &total));
    CHECK(after == before || (any && strcmp(name, "cuMemFreeAsync") == 0));
    CUDA(cudaStreamSynchronize(job.stream));
    CHECK(result_is_right(&job, direction));
    return any || job_close(&job);
}

typedef struct thread_work {
    job_t job;
    bool right;
} thread_work_t;

static void *work_in_thread(void *argument)
{
    thread_work_t *const work = argument;
    work->right = true;
    for (int i = 0; i < 5 && work->right; i++)
        for (int direction = 0; direction < DIRECTIONS && work->right; direction++)
            work->right = runs_right(&work->job, direction, 1, i % 2 ? 65536 : 4096);
    return NULL;
}

static bool threads_get_right_results(void)
{
    enum { THREADS = 4 };
    static thread_work_t work[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) /* two and two ask for the same problems */
        CHECK(job_open(&work[i].job, 48 + i / 2));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work_in_thread, &work[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(work[i].right && job_close(&work[i].job));
    return true;
}

static bool capture_and_replay(job_t *job, size_t bytes)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA(cudaStreamBeginCapture(job->stream, cudaStreamCaptureModeGlobal));
    CUDNN(run(job, FORWARD, 0, bytes));
    CUDA(cudaStreamEndCapture(job->stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 2; i++) {
        CHECK(poison(job, FORWARD));
        CUDA(cudaGraphLaunch(executable, job->stream));
        CHECK(result_is_right(job, FORWARD));
    }
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    return true;
}

static bool capture_of_an_unknown_problem_passes(void)
{
    job_t job;
    CHECK(job_open(&job, 61));
    CHECK(capture_and_replay(&job, 0));
    return job_close(&job);
}

static bool capture_of_a_known_problem_replays(void)
{
    job_t job;
    CHECK(job_open(&job, 62));
    CHECK(runs_right(&job, FORWARD, 0, 65536));
    CHECK(capture_and_replay(&job, 65536));
    CHECK(capture_and_replay(&job, arena_bytes)); /* more than was planned for */
    return job_close(&job);
}

static bool a_forked_child_passes(void)
{
    job_t job;
    CHECK(job_open(&job, N));
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        size_t bytes;
        /* Whatever cuDNN says here, we must neither hang nor crash. */
        (void)workspace_size(&job, FORWARD, 0, &bytes);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(runs_right(&job, FORWARD, 0, 65536));
    return job_close(&job);
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    bool (*run)(void);
} tests[] = {
    TEST(capture_of_an_unknown_problem_passes),
    TEST(find_tells_what_will_run),
    TEST(more_workspace_is_never_slower),
    TEST(find_with_one_entry_gets_the_best),
    TEST(any_workspace_answer_is_enough),
    TEST(callers_that_never_ask_are_served),
    TEST(refused_calls_stay_refused),
    TEST(descriptors_changed_in_place_are_noticed),
    TEST(known_problems_wait_for_nothing),
    TEST(known_problems_allocate_nothing),
    TEST(measuring_gives_everything_back),
    TEST(a_fault_of_the_driver_changes_nothing),
    TEST(threads_get_right_results),
    TEST(capture_of_a_known_problem_replays),
    TEST(a_forked_child_passes),
};

int main(int argc, char **argv)
{
    const size_t count = sizeof tests / sizeof *tests;
    int failed = 0, number = 0;
    find_library();
    fault = argc > 2 ? argv[2] : "";
    printf("1..%zu\n", argc > 1 ? (size_t)1 : count);
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        const bool passed = tests[i].run();
        failed += !passed;
        printf("%sok %d - %s\n", passed ? "" : "not ", ++number, tests[i].name);
        fflush(stdout);
    }
    return failed > 0 || number == 0;
}
