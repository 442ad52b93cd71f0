#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *activity_now = "start";

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fputs("train_cnn: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void set_activity(const char *activity)
{
    activity_now = activity;
}

const char *current_activity(void)
{
    return activity_now;
}

static int name_length(const char *call)
{
    return (int)strcspn(call, "(");
}

void cuda_check(cudaError_t error, const char *call, const char *file, int line)
{
    if (error != cudaSuccess)
        fail("%s: %.*s: %s (%s:%d)", activity_now, name_length(call), call,
             cudaGetErrorString(error), file, line);
}

void cudnn_check(cudnnStatus_t status, const char *call, const char *file, int line)
{
    if (status != CUDNN_STATUS_SUCCESS)
        fail("%s: %.*s: %s (%s:%d)", activity_now, name_length(call), call,
             cudnnGetErrorString(status), file, line);
}

void gpu_use(gpu_t *gpu, int lane)
{
    gpu->stream = gpu->lanes[lane].stream;
    gpu->cudnn = gpu->lanes[lane].cudnn;
}

void gpu_open(gpu_t *gpu, int lane_count)
{
    memset(gpu, 0, sizeof *gpu);
    int device;
    CUDA_CHECK(cudaGetDevice(&device));
    struct cudaDeviceProp properties;
    CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    snprintf(gpu->name, sizeof gpu->name, "%s", properties.name);
    CUDA_CHECK(cudaDriverGetVersion(&gpu->driver_version));
    CUDA_CHECK(cudaRuntimeGetVersion(&gpu->runtime_version));
    gpu->cudnn_version = cudnnGetVersion();
    gpu->lane_count = lane_count;
    for (int i = 0; i < lane_count; i++) {
        gpu_lane_t *lane = &gpu->lanes[i];
        CUDA_CHECK(cudaStreamCreate(&lane->stream));
        CUDNN_CHECK(cudnnCreate(&lane->cudnn));
        CUDNN_CHECK(cudnnSetStream(lane->cudnn, lane->stream));
    }
    gpu_use(gpu, 0);
}

void gpu_close(gpu_t *gpu)
{
    for (int i = gpu->lane_count - 1; i >= 0; i--) {
        CUDNN_CHECK(cudnnDestroy(gpu->lanes[i].cudnn));
        CUDA_CHECK(cudaStreamDestroy(gpu->lanes[i].stream));
    }
}

buffer_t gpu_try_alloc(gpu_t *gpu, size_t bytes)
{
    buffer_t buffer = {NULL, bytes};
    if (bytes == 0)
        return buffer;
    cudaError_t error = cudaMalloc(&buffer.data, bytes);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* else the next check would see this one again */
        return (buffer_t){NULL, 0};
    }
    CUDA_CHECK(error);
    gpu->allocated_bytes += bytes;
    if (gpu->peak_bytes < gpu->allocated_bytes)
        gpu->peak_bytes = gpu->allocated_bytes;
    return buffer;
}

buffer_t gpu_alloc(gpu_t *gpu, size_t bytes, const char *what)
{
    buffer_t buffer = gpu_try_alloc(gpu, bytes);
    if (!buffer.data && bytes > 0)
        fail("out of device memory: %s needs %zu bytes beside %zu in use", what, bytes,
             gpu->allocated_bytes);
    if (buffer.data)
        CUDA_CHECK(cudaMemsetAsync(buffer.data, 0, bytes, gpu->stream));
    return buffer;
}

void gpu_free(gpu_t *gpu, buffer_t *buffer)
{
    if (buffer->data) {
        CUDA_CHECK(cudaFree(buffer->data));
        gpu->allocated_bytes -= buffer->bytes;
    }
    *buffer = (buffer_t){NULL, 0};
}

void *pinned_alloc(size_t bytes)
{
    void *memory;
    CUDA_CHECK(cudaMallocHost(&memory, bytes));
    memset(memory, 0, bytes);
    return memory;
}

size_t multiply_bytes(size_t a, size_t b)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        fail("%zu times %zu bytes is more than any device has", a, b);
    return product;
}
