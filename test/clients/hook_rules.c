/* Rules of the hooks, on stand-ins for the CUDA libraries (test/standin) that tell which calls were
 * made: what passes untouched, what is called and what is not, what a caller may leave out. Most
 * come from failures that users of other preloaded libraries reported. Runs under the preload,
 * speaks TAP.
 *
 *   hook_rules [NAME...]     all tests, or those named, in the order of the list below */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/clients/allocator.h"
#include "test/clients/fail.h"
#include "test/standin/standin.h"

#define CUDNN(call) CHECK((call) == CUDNN_STATUS_SUCCESS)
#define CALLS(name) standin.calls[STANDIN_##name]

enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, FUSED };
enum { RESULTS = 8, MIB = 1 << 20 };
/* A new split is tried for fewer calls than this, with so many events, which it keeps until it is
 * decided (shim/convolution/trial.c). */
enum { TRIAL_CALLS = 16, TRIAL_EVENTS = 20 };
static char *const data_address = (char *)0x100000, *const scratch_address = (char *)0x7000000;
static const char *self;

/* Everything that poses a problem; tests change what they are about. */
typedef struct problem {
    int direction, n, c, side, kernel;
    cudnnDataType_t type, compute_type;
    int pad[2], stride[2], dilation[2], groups, row_gap;
    cudnnConvolutionMode_t mode;
    cudnnMathType_t math_type;
    cudnnReorderType_t reorder;
    cudnnTensorFormat_t filter_format;
    float alpha, beta;
    char *x, *w, *y, *z;
    cudnnActivationMode_t activation;
    cudnnNanPropagation_t nan;
    double coefficient;
    int bias_side, z_row_gap;
} problem_t;

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t x_desc, y_desc, z_desc, bias_desc;
static cudnnFilterDescriptor_t w_desc;
static cudnnConvolutionDescriptor_t conv_desc;
static cudnnActivationDescriptor_t activation_desc;

/* Batch sizes tell problems apart: each test has its own. */
static problem_t problem_of(int direction, int n)
{
    return (problem_t){.direction = direction,
                       .n = n,
                       .c = 8,
                       .side = 8,
                       .kernel = 3,
                       .type = CUDNN_DATA_FLOAT,
                       .compute_type = CUDNN_DATA_FLOAT,
                       .pad = {1, 1},
                       .stride = {1, 1},
                       .dilation = {1, 1},
                       .groups = 1,
                       .mode = CUDNN_CROSS_CORRELATION,
                       .math_type = CUDNN_FMA_MATH,
                       .filter_format = CUDNN_TENSOR_NCHW,
                       .alpha = 1,
                       .x = data_address,
                       .w = data_address + (64 << 20),
                       .y = data_address + (128 << 20),
                       .z = data_address + (192 << 20),
                       .activation = CUDNN_ACTIVATION_RELU,
                       .nan = CUDNN_PROPAGATE_NAN,
                       .bias_side = 1};
}

static void set_tensor(cudnnTensorDescriptor_t descriptor, const problem_t *problem, int n,
                       int side, int row_gap)
{
    const int row = side + row_gap, dims[] = {n, problem->c, side, side};
    const int strides[] = {problem->c * side * row, side * row, row, 1};
    (void)cudnnSetTensorNdDescriptor(descriptor, problem->type, 4, dims, strides);
}

static void pose(const problem_t *problem)
{
    const int filter[] = {problem->c, problem->c / problem->groups, problem->kernel,
                          problem->kernel};
    if (!handle) {
        (void)cudnnCreate(&handle);
        (void)cudnnCreateTensorDescriptor(&x_desc);
        (void)cudnnCreateTensorDescriptor(&y_desc);
        (void)cudnnCreateTensorDescriptor(&z_desc);
        (void)cudnnCreateTensorDescriptor(&bias_desc);
        (void)cudnnCreateFilterDescriptor(&w_desc);
        (void)cudnnCreateConvolutionDescriptor(&conv_desc);
        (void)cudnnCreateActivationDescriptor(&activation_desc);
    }
    set_tensor(x_desc, problem, problem->n, problem->side, problem->row_gap);
    set_tensor(y_desc, problem, problem->n, problem->side, 0);
    set_tensor(z_desc, problem, problem->n, problem->side, problem->z_row_gap);
    set_tensor(bias_desc, problem, 1, problem->bias_side, 0);
    (void)cudnnSetFilterNdDescriptor(w_desc, problem->type, problem->filter_format, 4, filter);
    (void)cudnnSetConvolutionNdDescriptor(conv_desc, 2, problem->pad, problem->stride,
                                          problem->dilation, problem->mode, problem->compute_type);
    (void)cudnnSetConvolutionGroupCount(conv_desc, problem->groups);
    (void)cudnnSetConvolutionMathType(conv_desc, problem->math_type);
    (void)cudnnSetConvolutionReorderType(conv_desc, problem->reorder);
    (void)cudnnSetActivationDescriptor(activation_desc, problem->activation, problem->nan,
                                       problem->coefficient);
}

static void forget_calls(void)
{
    memset(standin.calls, 0, sizeof standin.calls);
    standin.run_count = 0;
}

/* Poses and runs; counters and the list of runs show this call alone. */
static cudnnStatus_t run(const problem_t *problem, int algo, size_t bytes)
{
    void *const scratch = bytes ? scratch_address : NULL;
    const float *const alpha = &problem->alpha, *const beta = &problem->beta;
    pose(problem);
    forget_calls();
    switch (problem->direction) {
    case FORWARD:
        return cudnnConvolutionForward(handle, alpha, x_desc, problem->x, w_desc, problem->w,
                                       conv_desc, (cudnnConvolutionFwdAlgo_t)algo, scratch, bytes,
                                       beta, y_desc, problem->y);
    case BACKWARD_DATA:
        return cudnnConvolutionBackwardData(handle, alpha, w_desc, problem->w, y_desc, problem->y,
                                            conv_desc, (cudnnConvolutionBwdDataAlgo_t)algo, scratch,
                                            bytes, beta, x_desc, problem->x);
    case BACKWARD_FILTER:
        return cudnnConvolutionBackwardFilter(handle, alpha, x_desc, problem->x, y_desc, problem->y,
                                              conv_desc, (cudnnConvolutionBwdFilterAlgo_t)algo,
                                              scratch, bytes, beta, w_desc, problem->w);
    default:
        return cudnnConvolutionBiasActivationForward(
            handle, alpha, x_desc, problem->x, w_desc, problem->w, conv_desc,
            (cudnnConvolutionFwdAlgo_t)algo, scratch, bytes, beta, z_desc, problem->z, bias_desc,
            data_address, activation_desc, y_desc, problem->y);
    }
}

/* The call reached cuDNN as it was made, and nothing else was called. */
static bool passed_untouched(const problem_t *problem, int algo)
{
    uint64_t calls = 0;
    for (int i = 0; i < STANDIN_FUNCTION_COUNT; i++)
        calls += standin.calls[i];
    CHECK(calls == 1 && standin.run_count == 1);
    CHECK(standin.runs[0].algo == algo && standin.runs[0].images == problem->n &&
          standin.runs[0].x == problem->x);
    return true;
}

static bool ran_as(int parts, int algo)
{
    CHECK(standin.run_count == parts);
    for (int i = 0; i < parts; i++)
        CHECK(standin.runs[i].algo == algo);
    return true;
}

/* Counts calls of our own hooks from inside the library's start: options are read through
 * secure_getenv, and whoever stands in for that may use CUDA. */
static int lookups_during_start;
char *secure_getenv(const char *name)
{
    lookups_during_start++;
    (void)cudaFree(NULL);
    return getenv(name);
}

static bool hooked_calls_leave_no_error_text(void)
{
    (void)dlerror();
    CHECK(cudaFree(NULL) == cudaSuccess); /* the first: tables are built */
    CHECK(dlerror() == NULL);
    const problem_t problem = problem_of(FORWARD, 8);
    CUDNN(run(&problem, 0, 0));
    CHECK(dlerror() == NULL);
    return true;
}

static bool hooks_may_be_entered_while_options_are_read(void)
{
    CHECK(lookups_during_start > 0);
    return true;
}

static bool failed_lookups_say_so(void)
{
    void *const other = dlopen("libm.so.6", RTLD_NOW);
    static const char *const names[] = {"cudaMalloc", "cudnnConvolutionForward", "cuNothing"};
    CHECK(other);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int again = 0; again < 2; again++) {
            (void)dlerror();
            CHECK(dlsym(other, names[i]) == NULL);
            CHECK(dlerror() != NULL && dlerror() == NULL);
        }
    CHECK(dlsym(RTLD_DEFAULT, "") == NULL);
    return dlclose(other) == 0;
}

/* Bound to cuDNN 8 where only cuDNN 9 is. */
static bool a_library_that_is_not_there_is_an_error(void)
{
    void *const entry =
        dlvsym(RTLD_DEFAULT, "cudnnGetConvolutionForwardAlgorithmMaxCount", "libcudnn.so.8");
    __typeof__(&cudnnGetConvolutionForwardAlgorithmMaxCount) max_count;
    int count = 77;
    CHECK(entry);
    memcpy(&max_count, &entry, sizeof entry);
    (void)dlerror();
    CHECK(max_count(handle, &count) == CUDNN_STATUS_NOT_INITIALIZED && count == 77);
    CHECK(dlerror() == NULL);
    return true;
}

static bool optional_results_may_be_null(void)
{
    size_t available = 0, total = 0;
    cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
    int count;
    const problem_t problem = problem_of(FORWARD, 9);
    pose(&problem);
    CHECK(cudaMemGetInfo(NULL, &total) == cudaSuccess && total > 0);
    CHECK(cudaMemGetInfo(&available, NULL) == cudaSuccess && available > 0);
    CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_desc, w_desc, conv_desc, y_desc, RESULTS,
                                                 NULL, results) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_desc, w_desc, conv_desc, y_desc, RESULTS,
                                                 &count, NULL) == CUDNN_STATUS_BAD_PARAM);
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv_desc, y_desc,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                                  NULL) == CUDNN_STATUS_BAD_PARAM);
    return true;
}

/* cuDNN's own use of its exported names comes to us, too: it is not ours to decide. */
static bool inner_calls_are_not_decided(void)
{
    const problem_t problem = problem_of(FORWARD, 10);
    cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
    int count;
    pose(&problem);
    forget_calls();
    standin.nested = true;
    const cudnnStatus_t status = cudnnFindConvolutionForwardAlgorithm(
        handle, x_desc, w_desc, conv_desc, y_desc, RESULTS, &count, results);
    standin.nested = false;
    CUDNN(status);
    CHECK(standin.run_count == 1 && standin.runs[0].x == &standin && standin.nested_reads == 0);
    return true;
}

static bool splits_fit_the_workspace(void)
{
    const problem_t problem = problem_of(FORWARD, 64);
    CUDNN(run(&problem, 0, 8 * MIB));
    CUDNN(run(&problem, 0, 8 * MIB));
    CHECK(ran_as(8, 1) && standin.runs[1].x == problem.x + 8 * 8 * 8 * 8 * 4);
    CUDNN(run(&problem, 0, 3 * MIB)); /* less than was planned for */
    CHECK(ran_as(32, 1) && standin.runs[0].images == 2);
    CUDNN(run(&problem, 0, 0));
    CHECK(ran_as(1, 0));
    CUDNN(run(&problem, 0, 64 * MIB)); /* more: planned anew */
    CUDNN(run(&problem, 0, 64 * MIB));
    CHECK(ran_as(1, 1));
    return true;
}

static bool planned_calls_do_only_what_they_must(void)
{
    static const standin_function_t forbidden[] = {
        STANDIN_cuStreamSynchronize,
        STANDIN_cuEventSynchronize,
        STANDIN_cuEventCreate,
        STANDIN_cuEventRecord,
        STANDIN_cuEventQuery,
        STANDIN_cuMemAlloc,
        STANDIN_cuMemFree,
        STANDIN_cuMemGetInfo,
        STANDIN_cuMemcpyHtoDAsync,
        STANDIN_cuModuleLoadData,
        STANDIN_cudnnCreateTensorDescriptor,
        STANDIN_cudnnSetTensorNdDescriptor,
        STANDIN_cudnnCreateConvolutionDescriptor,
        STANDIN_cudnnSetConvolutionNdDescriptor,
        STANDIN_cudnnGetConvolutionForwardWorkspaceSize,
        STANDIN_cudnnGetConvolutionBackwardFilterWorkspaceSize};
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16};
    for (int narrow = 0; narrow < 2; narrow++)
        for (int direction = FORWARD; direction <= FUSED; direction++) {
            problem_t problem = problem_of(direction, 32);
            problem.type = types[narrow];
            for (int i = 0; i < TRIAL_CALLS + 1; i++)
                CUDNN(run(&problem, 1, 9 * MIB));
            CHECK(standin.run_count == 4);
            /* Sums of bf16 are taken in fp32, part by part. */
            CHECK(CALLS(cuLaunchKernel) == (narrow && direction == BACKWARD_FILTER ? 4 : 0));
            for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
                CHECK(standin.calls[forbidden[i]] == 0);
        }
    return true;
}

static bool measuring_gives_everything_back(void)
{
    for (int direction = FORWARD; direction <= FUSED; direction++) {
        const problem_t problem = problem_of(direction, 33);
        CUDNN(run(&problem, 1, 8 * MIB));
        CHECK(CALLS(cuMemAlloc) > 0 && CALLS(cuMemAlloc) == CALLS(cuMemFree));
        CHECK(CALLS(cuEventCreate) > 0 &&
              (CALLS(cuEventCreate) - CALLS(cuEventDestroy)) % TRIAL_EVENTS == 0);
        CHECK(CALLS(cuThreadExchangeStreamCaptureMode) == 2);
    }
    return true;
}

static bool little_memory_is_left_to_the_host(void)
{
    const problem_t problem = problem_of(FORWARD, 34);
    standin.free_bytes = 32 * MIB;
    const cudnnStatus_t status = run(&problem, 0, 8 * MIB);
    standin.free_bytes = (uint64_t)64 << 30;
    CUDNN(status);
    CHECK(CALLS(cuMemGetInfo) > 0 && CALLS(cuMemAlloc) == 0);
    CHECK(ran_as(1, 0));
    return true;
}

static bool captured_streams_are_left_alone(void)
{
    const problem_t unknown = problem_of(FORWARD, 35), known = problem_of(FORWARD, 36);
    CUDNN(run(&known, 0, 8 * MIB));
    standin.capturing = true;
    const cudnnStatus_t statuses[] = {run(&unknown, 0, 8 * MIB)};
    const bool passed = ran_as(1, 0) && CALLS(cuMemAlloc) == 0 && CALLS(cuEventCreate) == 0 &&
                        CALLS(cuStreamSynchronize) == 0;
    const cudnnStatus_t status = run(&known, 0, 8 * MIB);
    standin.capturing = false;
    CUDNN(statuses[0]);
    CUDNN(status);
    CHECK(passed && standin.run_count == 5); /* 8 8 8 8 4 */
    return true;
}

/* In both backward directions the fastest algorithm may give another result every time. */
static bool results_that_must_repeat_do(void)
{
    for (int direction = BACKWARD_DATA; direction <= BACKWARD_FILTER; direction++) {
        const problem_t problem = problem_of(direction, 37);
        CUDNN(run(&problem, 0, 8 * MIB));
        CUDNN(run(&problem, 0, 8 * MIB));
        CHECK(ran_as(1, 0)); /* the caller does not mind */
        CUDNN(run(&problem, 1, 8 * MIB));
        CHECK(ran_as(6, 1)); /* 8 8 8 8 4 1 */
        CUDNN(run(&problem, 2, 0));
        CHECK(ran_as(1, 2));
    }
    return true;
}

static bool math_is_never_weaker(void)
{
    for (int math = CUDNN_DEFAULT_MATH; math <= CUDNN_FMA_MATH; math++) {
        problem_t problem = problem_of(FORWARD, 38);
        problem.math_type = (cudnnMathType_t)math;
        for (int i = 0; i < 2; i++) {
            CUDNN(run(&problem, 0, 8 * MIB));
            for (int j = 0; j < standin.run_count; j++)
                CHECK(standin.runs[j].math_type == math ||
                      standin.runs[j].math_type == CUDNN_FMA_MATH);
        }
    }
    return true;
}

/* Images of 36 bytes: only every fourth begins as aligned as the first. */
static bool slices_are_as_aligned_as_the_whole(void)
{
    problem_t problem = problem_of(FORWARD, 64);
    problem.c = 1;
    problem.side = 3;
    CUDNN(run(&problem, 0, 6 * MIB));
    CUDNN(run(&problem, 0, 6 * MIB));
    CHECK(standin.run_count == 16);
    CUDNN(run(&problem, 0, 2 * MIB));
    for (int i = 0; i < standin.run_count; i++)
        CHECK(standin.runs[i].x_alignment == 16);
    return true;
}

static bool what_is_not_ours_passes(void)
{
    problem_t problem = problem_of(FORWARD, 39);
    problem.type = CUDNN_DATA_INT8;
    CUDNN(run(&problem, 0, 8 * MIB));
    CHECK(ran_as(1, 0) && CALLS(cuMemAlloc) == 0);
    CHECK(standin.runs[0].x == problem.x && standin.runs[0].images == 39);
    return true;
}

static void fail(standin_function_t function, uint64_t nth)
{
    standin.fail_function = function;
    standin.fail_nth = nth;
}

static bool a_failing_first_part_becomes_the_callers_call(void)
{
    problem_t problem = problem_of(FORWARD, 40);
    problem.beta = 0.5F;
    CUDNN(run(&problem, 2, 8 * MIB));
    fail(STANDIN_cudnnConvolutionForward, 1);
    CUDNN(run(&problem, 2, 8 * MIB));
    CHECK(ran_as(1, 2) && standin.runs[0].x == problem.x);
    CUDNN(run(&problem, 2, 8 * MIB)); /* and from then on, too */
    CHECK(ran_as(1, 2));
    return true;
}

/* With beta the first parts cannot be done again. */
static bool a_failing_later_part_is_told(void)
{
    problem_t problem = problem_of(FORWARD, 41);
    problem.beta = 0.5F;
    CUDNN(run(&problem, 2, 8 * MIB));
    fail(STANDIN_cudnnConvolutionForward, 3);
    CHECK(run(&problem, 2, 8 * MIB) == CUDNN_STATUS_EXECUTION_FAILED && standin.run_count == 2);
    CUDNN(run(&problem, 2, 8 * MIB));
    CHECK(ran_as(1, 2));
    return true;
}

/* Without beta, or where the sum reaches the output with the last part only. */
static bool a_failing_later_part_becomes_the_callers_call(void)
{
    static const standin_function_t functions[] = {
        STANDIN_cudnnConvolutionForward, STANDIN_cudnnConvolutionBackwardData,
        STANDIN_cudnnConvolutionBackwardFilter, STANDIN_cudnnConvolutionBiasActivationForward};
    for (int direction = FORWARD; direction <= FUSED; direction++)
        for (int sums = 0; sums < 2; sums++) {
            problem_t problem = problem_of(direction, 42);
            problem.type = sums ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
            problem.beta = sums && direction == BACKWARD_FILTER ? 0.5F : 0;
            CUDNN(run(&problem, 2, 9 * MIB));
            fail(functions[direction], 3);
            CUDNN(run(&problem, 2, 9 * MIB));
            CHECK(standin.run_count == 3 && standin.runs[2].algo == 2);
            CHECK(standin.runs[2].images == 42 && standin.runs[2].x == problem.x);
        }
    return true;
}

/* The host's memory got what it asked for: the last runs are its own call, or parts of it in order.
 */
static bool is_done(const problem_t *problem, int algo)
{
    const int last = standin.run_count - 1;
    CHECK(last >= 0 && last + 1 < STANDIN_RUNS);
    if (standin.runs[last].images == problem->n && standin.runs[last].x == problem->x)
        return standin.runs[last].algo == algo || last == 0;
    const char *at = problem->x;
    const int image_bytes =
        problem->c * problem->side * problem->side * (problem->type == CUDNN_DATA_FLOAT ? 4 : 2);
    for (int i = 0; i <= last; i++) {
        CHECK(standin.runs[i].x == at);
        at += standin.runs[i].images * image_bytes;
    }
    CHECK(at == problem->x + problem->n * image_bytes);
    return true;
}

typedef struct balance {
    int64_t blocks, events, modes;
} balance_t;

/* What a failed call did not make is not there. */
static void add_calls(balance_t *balance)
{
    balance->blocks += (int64_t)CALLS(cuMemAlloc) - (int64_t)CALLS(cuMemFree);
    balance->events += (int64_t)CALLS(cuEventCreate) - (int64_t)CALLS(cuEventDestroy);
    balance->modes += (int64_t)CALLS(cuThreadExchangeStreamCaptureMode);
}

/* Plans a problem that was never seen before and runs it through its trial; a call of ours fails if
 * one is set. */
static bool survives(int direction, cudnnDataType_t type, uint64_t *calls)
{
    static int fresh = 1000;
    problem_t problem = problem_of(direction, 24);
    problem.type = type;
    problem.pad[0] = fresh++;
    balance_t balance = {0};
    for (int i = 0; i < TRIAL_CALLS; i++) {
        CUDNN(run(&problem, 2, 9 * MIB));
        CHECK(is_done(&problem, 2));
        add_calls(&balance);
        for (int j = 0; calls && j < STANDIN_FUNCTION_COUNT; j++)
            calls[j] += standin.calls[j];
    }
    if (standin.fail_function == STANDIN_cuMemAlloc)
        balance.blocks--;
    if (standin.fail_function == STANDIN_cuEventCreate)
        balance.events--;
    CHECK(balance.blocks == 0 && balance.events % TRIAL_EVENTS == 0);
    CHECK(standin.fail_function == STANDIN_cuThreadExchangeStreamCaptureMode ||
          balance.modes % 2 == 0);
    return true;
}

static const struct {
    int direction;
    cudnnDataType_t type;
} survivors[] = {{FORWARD, CUDNN_DATA_FLOAT},
                 {BACKWARD_DATA, CUDNN_DATA_FLOAT},
                 {BACKWARD_FILTER, CUDNN_DATA_FLOAT},
                 {BACKWARD_FILTER, CUDNN_DATA_BFLOAT16},
                 {FUSED, CUDNN_DATA_FLOAT}};
enum { SURVIVORS = sizeof survivors / sizeof *survivors };

/* Every call of the driver and of cuDNN that planning and running make, at every position. */
static bool any_failing_call_is_survived(void)
{
    int failures = 0;
    for (size_t i = 0; i < SURVIVORS; i++) {
        uint64_t calls[STANDIN_FUNCTION_COUNT] = {0};
        CHECK(survives(survivors[i].direction, survivors[i].type, calls));
        for (int function = 0; function < STANDIN_FUNCTION_COUNT; function++)
            for (uint64_t nth = 1; nth <= calls[function]; nth++) {
                fail((standin_function_t)function, nth);
                const bool survived = survives(survivors[i].direction, survivors[i].type, NULL);
                fail(STANDIN_FUNCTION_COUNT, 0);
                if (!survived)
                    printf("# direction %d, function %d, call %d\n", survivors[i].direction,
                           function, (int)nth);
                CHECK(survived);
                failures++;
            }
    }
    printf("# %d failures survived\n", failures);
    CHECK(failures > 1000);
    return true;
}

/* The library's own allocations, told by the address of the caller; the nth fails. */
static uintptr_t ours_begin, ours_end;
static long allocation_to_fail, allocations;

static UNWATCHED bool fails(void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    return address >= ours_begin && address < ours_end && ++allocations == allocation_to_fail;
}

UNWATCHED void *malloc(size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(malloc)(bytes);
}

UNWATCHED void *calloc(size_t count, size_t bytes)
{
    return fails(__builtin_return_address(0)) ? NULL : ALLOCATOR(calloc)(count, bytes);
}

static void find_library(void)
{
    char line[512];
    FILE *const maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long begin, end;
        if (strstr(line, "libmicrodnn.so") && sscanf(line, "%lx-%lx", &begin, &end) == 2) {
            ours_begin = ours_begin ? ours_begin : begin;
            ours_end = end;
        }
    }
    if (maps)
        fclose(maps);
}

static bool any_failing_allocation_is_survived(void)
{
    find_library();
    CHECK(ours_begin < ours_end);
    /* Tables of real functions are there: without them there is nothing to pass to. */
    CHECK(survives(FORWARD, CUDNN_DATA_FLOAT, NULL));
    for (size_t i = 0; i < SURVIVORS; i++) {
        allocation_to_fail = 0;
        do {
            allocations = 0;
            allocation_to_fail++;
            CHECK(survives(survivors[i].direction, survivors[i].type, NULL));
        } while (allocations >= allocation_to_fail);
        printf("# direction %d: %ld allocations\n", survivors[i].direction, allocation_to_fail - 1);
        CHECK(allocation_to_fail > 5);
        allocation_to_fail = 0;
    }
    return true;
}

/* cuDNN runs algorithm 1 on at most 128 images, so that it does not name it for 256. */
static bool answers_are_complete_and_counted(void)
{
    const problem_t problem = problem_of(FORWARD, 256);
    for (int requested = 1; requested <= 4; requested++) {
        cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
        int count = -1;
        memset(results, 0x55, sizeof results);
        pose(&problem);
        CUDNN(cudnnFindConvolutionForwardAlgorithmEx(handle, x_desc, problem.x, w_desc, problem.w,
                                                     conv_desc, y_desc, problem.y, requested,
                                                     &count, results, scratch_address, 8 * MIB));
        CHECK(count == (requested < 3 ? requested : 3));
        unsigned named = 0;
        for (int i = 0; i < count; i++) {
            size_t bytes = SIZE_MAX;
            named |= 1U << results[i].algo;
            CHECK(results[i].status == CUDNN_STATUS_SUCCESS && results[i].memory <= 8 * MIB);
            CUDNN(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv_desc, y_desc,
                                                          results[i].algo, &bytes));
            CHECK(bytes == results[i].memory);
        }
        CHECK((named & 2U) && (requested < 3 || named == 7U));
        CHECK((int)results[count].algo == 0x55555555);
    }
    return true;
}

static bool a_child_passes(pid_t (*make)(void))
{
    const problem_t known = problem_of(FORWARD, 64), unknown = problem_of(FORWARD, 43);
    CUDNN(run(&known, 0, 8 * MIB));
    fflush(stdout);
    const pid_t child = make();
    CHECK(child >= 0);
    if (child == 0) {
        const bool right =
            run(&known, 0, 8 * MIB) == CUDNN_STATUS_SUCCESS && passed_untouched(&known, 0) &&
            run(&unknown, 0, 8 * MIB) == CUDNN_STATUS_SUCCESS && passed_untouched(&unknown, 0);
        fflush(stdout);
        _exit(right ? 0 : 1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return true;
}

static bool a_forked_child_passes(void)
{
    return a_child_passes(fork);
}

/* No handler of pthread_atfork runs in it. */
static pid_t clone_raw(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static bool a_cloned_child_passes(void)
{
    return a_child_passes(clone_raw);
}

/* In a process of its own; registered before the library's exit handler, this one runs after it. */
static void call_at_exit(void)
{
    const problem_t known = problem_of(FORWARD, 64), unknown = problem_of(FORWARD, 44);
    const bool right = run(&known, 0, 8 * MIB) == CUDNN_STATUS_SUCCESS && ran_as(8, 1) &&
                       run(&unknown, 0, 0) == CUDNN_STATUS_SUCCESS;
    fflush(stdout);
    _exit(right ? 0 : 1);
}

static int exit_child(void)
{
    const problem_t problem = problem_of(FORWARD, 64);
    if (atexit(call_at_exit) != 0 || run(&problem, 0, 8 * MIB) != CUDNN_STATUS_SUCCESS)
        return 2;
    return 3; /* call_at_exit decides */
}

static bool calls_during_exit_are_served(void)
{
    fflush(stdout);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(self, self, "--exit", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return true;
}

/* Every member of a problem tells two problems apart: a second one that differs in it alone is
 * measured for itself. */
#define VARIATION(member, value)                                                                   \
    static void vary_##member(problem_t *problem)                                                  \
    {                                                                                              \
        problem->member = value;                                                                   \
    }
#define VARIATION_AT(name, member, value)                                                          \
    static void vary_##name(problem_t *problem)                                                    \
    {                                                                                              \
        problem->member = value;                                                                   \
    }
VARIATION_AT(pad, pad[1], 2)
VARIATION_AT(stride, stride[1], 2)
VARIATION_AT(dilation, dilation[0], 2)
VARIATION(mode, CUDNN_CONVOLUTION)
VARIATION(compute_type, CUDNN_DATA_HALF)
VARIATION(math_type, CUDNN_TENSOR_OP_MATH)
VARIATION(groups, 2)
VARIATION(reorder, CUDNN_NO_REORDER)
VARIATION_AT(x_strides, row_gap, 4)
VARIATION_AT(x_alignment, x, data_address + 4)
VARIATION_AT(y_alignment, y, data_address + 8)
VARIATION_AT(w_alignment, w, data_address + 4)
VARIATION_AT(w_size, kernel, 2)
VARIATION(filter_format, CUDNN_TENSOR_NHWC)
VARIATION(alpha, 0.5F)
VARIATION(beta, 0.5F)
VARIATION(direction, BACKWARD_DATA)
VARIATION_AT(fused_direction, direction, FUSED)
VARIATION(activation, CUDNN_ACTIVATION_IDENTITY)
VARIATION(nan, CUDNN_NOT_PROPAGATE_NAN)
VARIATION(coefficient, 6)
VARIATION_AT(z_strides, z_row_gap, 4)
VARIATION_AT(z_in_place, z, data_address + (128 << 20))
VARIATION(bias_side, 2)
static void use_device(int device)
{
    standin.device = device;
    (void)cudnnDestroy(handle);
    (void)cudnnCreate(&handle);
}

static void vary_device(problem_t *problem)
{
    (void)problem;
    use_device(1);
}

static bool is_planned(const problem_t *problem)
{
    return run(problem, 0, 4 * MIB) == CUDNN_STATUS_SUCCESS &&
           CALLS(cudnnGetConvolutionForwardWorkspaceSize) +
                   CALLS(cudnnGetConvolutionBackwardDataWorkspaceSize) >
               0;
}

static bool problems_that_differ_are_planned_apart(void)
{
#define ROW(direction, name)                                                                       \
    {                                                                                              \
        direction, #name, vary_##name                                                              \
    }
    static const struct {
        int direction;
        const char *name;
        void (*vary)(problem_t *problem);
    } rows[] = {
        ROW(FORWARD, pad),         ROW(FORWARD, stride),        ROW(FORWARD, dilation),
        ROW(FORWARD, mode),        ROW(FORWARD, compute_type),  ROW(FORWARD, math_type),
        ROW(FORWARD, groups),      ROW(FORWARD, reorder),       ROW(FORWARD, x_strides),
        ROW(FORWARD, x_alignment), ROW(FORWARD, y_alignment),   ROW(FORWARD, w_alignment),
        ROW(FORWARD, w_size),      ROW(FORWARD, filter_format), ROW(FORWARD, alpha),
        ROW(FORWARD, beta),        ROW(FORWARD, direction),     ROW(FORWARD, fused_direction),
        ROW(FORWARD, device),      ROW(FUSED, activation),      ROW(FUSED, nan),
        ROW(FUSED, coefficient),   ROW(FUSED, z_strides),       ROW(FUSED, z_in_place),
        ROW(FUSED, bias_side)};
    bool right = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        problem_t first = problem_of(rows[i].direction, 100 + (int)i), second = first;
        const bool fresh = is_planned(&first), known = !is_planned(&first);
        rows[i].vary(&second);
        const bool apart = is_planned(&second);
        if (standin.device != 0)
            use_device(0);
        if (!fresh || !known || !apart)
            printf("# %s: planned %d, then known %d, planned apart %d\n", rows[i].name, fresh,
                   known, apart);
        right = right && fresh && known && apart;
    }
    return right;
}

#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    bool (*run)(void);
} tests[] = {
    TEST(hooked_calls_leave_no_error_text), /* must be first: it makes the first hooked calls */
    TEST(hooks_may_be_entered_while_options_are_read),
    TEST(failed_lookups_say_so),
    TEST(a_library_that_is_not_there_is_an_error),
    TEST(optional_results_may_be_null),
    TEST(inner_calls_are_not_decided),
    TEST(splits_fit_the_workspace),
    TEST(planned_calls_do_only_what_they_must),
    TEST(measuring_gives_everything_back),
    TEST(little_memory_is_left_to_the_host),
    TEST(captured_streams_are_left_alone),
    TEST(results_that_must_repeat_do),
    TEST(math_is_never_weaker),
    TEST(slices_are_as_aligned_as_the_whole),
    TEST(what_is_not_ours_passes),
    TEST(a_failing_first_part_becomes_the_callers_call),
    TEST(a_failing_later_part_is_told),
    TEST(a_failing_later_part_becomes_the_callers_call),
    TEST(any_failing_call_is_survived),
    TEST(any_failing_allocation_is_survived),
    TEST(answers_are_complete_and_counted),
    TEST(problems_that_differ_are_planned_apart),
    TEST(a_forked_child_passes),
    TEST(a_cloned_child_passes),
    TEST(calls_during_exit_are_served),
};

static bool is_wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    const size_t count = sizeof tests / sizeof *tests;
    size_t wanted = 0, number = 0;
    int failed = 0;
    self = argv[0];
    if (argc == 2 && strcmp(argv[1], "--exit") == 0)
        return exit_child();
    for (size_t i = 0; i < count; i++)
        wanted += is_wanted(tests[i].name, argc, argv);
    printf("1..%zu\n", wanted);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(tests[i].name, argc, argv))
            continue;
        fflush(stdout);
        const bool passed = tests[i].run();
        failed += !passed;
        printf("%sok %zu - %s\n", passed ? "" : "not ", ++number, tests[i].name);
        fflush(stdout);
    }
    return failed > 0;
}
