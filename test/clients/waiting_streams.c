/* Programs whose streams wait for what their hosts do next: convolutions that nobody has measured yet must go
 * through, as they do with cuDNN alone. TAP. Each test is a process of its own; who hangs is ended from outside.
 *
 *   waiting_streams NAME
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include <cuda.h>

#include "test/clients/bail.h"
#include "test/clients/fail.h"

#define DRIVER(call)                                                                               \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS)                                                                \
            BAIL(#call);                                                                           \
    } while (0)

enum { IMAGES = 8, CHANNELS = 2, SIDE = 6, KERNEL = 3 };

/* A convolution of ones with ones: all results away from the border are CHANNELS * KERNEL * KERNEL. */
typedef struct job {
    cudnnHandle_t handle;
    cudaStream_t stream;
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t convolution;
    float *x, *w, *y;
    void *workspace;
    int channels;
} job_t;
static const size_t workspace_bytes = (size_t)1 << 20;

static float *ones(size_t count)
{
    float *const host = malloc(count * sizeof *host);
    float *device;
    if (!host)
        BAIL("out of memory");
    for (size_t i = 0; i < count; i++)
        host[i] = 1;
    CUDA(cudaMalloc((void **)&device, count * sizeof *host));
    CUDA(cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice));
    CUDA(cudaDeviceSynchronize());
    free(host);
    return device;
}

/* Jobs with other numbers of channels are other problems. */
static void job_open(job_t *job, int channels, unsigned flags)
{
    *job = (job_t){.channels = channels};
    CUDA(cudaStreamCreateWithFlags(&job->stream, flags));
    CUDNN(cudnnCreate(&job->handle));
    CUDNN(cudnnSetStream(job->handle, job->stream));
    CUDNN(cudnnCreateTensorDescriptor(&job->x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&job->y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&job->w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&job->convolution));
    CUDNN(cudnnSetTensor4dDescriptor(job->x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, IMAGES,
                                     channels, SIDE, SIDE));
    CUDNN(cudnnSetTensor4dDescriptor(job->y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, IMAGES,
                                     channels, SIDE, SIDE));
    CUDNN(cudnnSetFilter4dDescriptor(job->w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, channels,
                                     channels, KERNEL, KERNEL));
    CUDNN(cudnnSetConvolution2dDescriptor(job->convolution, 1, 1, 1, 1, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    job->x = ones((size_t)(IMAGES * channels * SIDE * SIDE));
    job->w = ones((size_t)(channels * channels * KERNEL * KERNEL));
    job->y = ones((size_t)(IMAGES * channels * SIDE * SIDE));
    CUDA(cudaMalloc(&job->workspace, workspace_bytes));
}

static void job_close(const job_t *job)
{
    CUDA(cudaFree(job->x));
    CUDA(cudaFree(job->w));
    CUDA(cudaFree(job->y));
    CUDA(cudaFree(job->workspace));
    CUDNN(cudnnDestroyConvolutionDescriptor(job->convolution));
    CUDNN(cudnnDestroyFilterDescriptor(job->w_desc));
    CUDNN(cudnnDestroyTensorDescriptor(job->y_desc));
    CUDNN(cudnnDestroyTensorDescriptor(job->x_desc));
    CUDNN(cudnnDestroy(job->handle));
    CUDA(cudaStreamDestroy(job->stream));
}

static bool job_run(const job_t *job)
{
    const float one = 1, zero = 0;
    CHECK(cudnnConvolutionForward(
              job->handle, &one, job->x_desc, job->x, job->w_desc, job->w, job->convolution,
              CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, job->workspace, workspace_bytes,
              &zero, job->y_desc, job->y) == CUDNN_STATUS_SUCCESS);
    return true;
}

/* Waits for the stream. */
static bool job_is_right(const job_t *job)
{
    float values[SIDE * SIDE];
    CUDA(cudaMemcpyAsync(values, job->y + (IMAGES * job->channels - 1) * SIDE * SIDE, sizeof values,
                         cudaMemcpyDeviceToHost, job->stream));
    CUDA(cudaStreamSynchronize(job->stream));
    CHECK(values[SIDE + 1] == (float)(job->channels * KERNEL * KERNEL));
    return true;
}

/* The handle is the caller's, and stays so. */
static bool job_has_its_stream(const job_t *job)
{
    cudaStream_t stream;
    CUDNN(cudnnGetStream(job->handle, &stream));
    CHECK(stream == job->stream);
    return true;
}

/* ---- what streams wait for ---- */

static CUdeviceptr value; /* four bytes, zero */

static void open_value(void)
{
    void *memory;
    CUDA(cudaMalloc(&memory, 4096));
    CUDA(cudaMemset(memory, 0, 4096));
    value = (CUdeviceptr)(uintptr_t)memory;
    CUDA(cudaDeviceSynchronize());
}

static void wait_for_value(cudaStream_t stream)
{
    DRIVER(cuStreamWaitValue32(stream, value, 1, CU_STREAM_WAIT_VALUE_EQ));
}

/* From a stream of its own, which waits for nothing. */
static void write_value(void)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DRIVER(cuStreamWriteValue32(stream, value, 1, 0));
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamDestroy(stream));
}

static bool its_stream_waits_for_a_value(void)
{
    job_t job;
    open_value();
    job_open(&job, CHANNELS, cudaStreamNonBlocking);
    wait_for_value(job.stream);
    CHECK(job_run(&job) && job_has_its_stream(&job));
    CHECK(job_run(&job));
    write_value();
    CHECK(job_is_right(&job));
    for (int i = 0; i < 4; i++) /* and now it is measured */
        CHECK(job_run(&job) && job_is_right(&job));
    CHECK(job_has_its_stream(&job));
    job_close(&job);
    return true;
}

/* Idle is the stream of the convolution; another one is not, and waiting for the device would never end. */
static bool another_stream_waits_for_a_value(void)
{
    job_t job;
    cudaStream_t other;
    open_value();
    job_open(&job, CHANNELS, cudaStreamNonBlocking);
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    wait_for_value(other);
    CHECK(job_run(&job) && job_is_right(&job));
    write_value();
    CUDA(cudaStreamSynchronize(other));
    CHECK(job_has_its_stream(&job));
    CUDA(cudaStreamDestroy(other));
    job_close(&job);
    return true;
}

/* What waits is a stream that the default stream waits for, and so does every other blocking stream. */
static bool the_default_stream_is_held_up(void)
{
    job_t job;
    cudaStream_t other;
    open_value();
    job_open(&job, CHANNELS, cudaStreamNonBlocking);
    CUDA(cudaStreamCreate(&other));
    wait_for_value(other);
    CUDA(cudaMemsetAsync(job.y, 0, 4, cudaStreamLegacy)); /* behind it */
    CHECK(job_run(&job) && job_is_right(&job));
    write_value();
    CUDA(cudaStreamSynchronize(other));
    CUDA(cudaStreamDestroy(other));
    job_close(&job);
    return true;
}

static bool its_stream_waits_for_an_event_of_another(void)
{
    job_t job;
    cudaStream_t other;
    cudaEvent_t event;
    open_value();
    job_open(&job, CHANNELS, 0);
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&event));
    wait_for_value(other);
    CUDA(cudaEventRecord(event, other));
    CUDA(cudaStreamWaitEvent(job.stream, event, 0));
    CHECK(job_run(&job));
    write_value();
    CHECK(job_is_right(&job));
    CUDA(cudaEventDestroy(event));
    CUDA(cudaStreamDestroy(other));
    job_close(&job);
    return true;
}

/* ---- two threads ---- */

static atomic_int steps;

typedef struct worker {
    job_t *job;
    bool passed;
} worker_t;

static void *run_blocked(void *argument)
{
    worker_t *const worker = argument;
    CUDA(cudaSetDevice(0));
    wait_for_value(worker->job->stream);
    atomic_fetch_add(&steps, 1);
    worker->passed = job_run(worker->job);
    return NULL;
}

/* A thread waits for its stream to be idle; what the other one runs meanwhile, planned or not, is what will end
 * that. The library's patience must be longer than this test may take. */
static bool a_thread_that_waits_stops_no_other(void)
{
    job_t blocked, known, unknown;
    pthread_t thread;
    worker_t worker = {.job = &blocked};
    open_value();
    job_open(&blocked, CHANNELS, cudaStreamNonBlocking);
    job_open(&known, CHANNELS + 1, cudaStreamNonBlocking);
    job_open(&unknown, CHANNELS + 2, cudaStreamNonBlocking);
    CHECK(job_run(&known) && job_is_right(&known));
    CHECK(pthread_create(&thread, NULL, run_blocked, &worker) == 0);
    while (atomic_load(&steps) < 1)
        ;
    for (int i = 0; i < 100;
         i++) /* by now it waits, as a rule; if not, one of them passes all the same */
        CHECK(job_run(&known) && job_is_right(&known));
    for (int i = 0; i < 20; i++)
        CHECK(job_run(&unknown) && job_is_right(&unknown));
    write_value();
    CHECK(pthread_join(thread, NULL) == 0 && worker.passed);
    CHECK(job_is_right(&blocked));
    job_close(&blocked);
    job_close(&known);
    job_close(&unknown);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(void);
} tests[] = {
#define TEST(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
    TEST(its_stream_waits_for_a_value),       TEST(another_stream_waits_for_a_value),
    TEST(the_default_stream_is_held_up),      TEST(its_stream_waits_for_an_event_of_another),
    TEST(a_thread_that_waits_stops_no_other),
#undef TEST
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof tests / sizeof *tests; i++)
        if (strcmp(tests[i].name, argv[1]) == 0) {
            const bool passed = tests[i].run();
            fflush(stdout);
            return passed ? 0 : 1;
        }
    BAIL("usage: waiting_streams NAME");
}
