/* The device as this program uses it: lanes, which are a stream with a cuDNN handle, device memory
 * that is counted, and checks that end the program with a message (exit status 1), since a training
 * program can do nothing better. One thread. */
#ifndef TRAIN_CNN_GPU_H
#define TRAIN_CNN_GPU_H

#include <stddef.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#define GPU_MAX_LANES 8

typedef struct gpu_lane {
    cudaStream_t stream;
    cudnnHandle_t cudnn;
} gpu_lane_t;

typedef struct gpu {
    cudaStream_t stream; /* this and the handle are those of the lane in use */
    cudnnHandle_t cudnn;
    gpu_lane_t lanes[GPU_MAX_LANES];
    int lane_count;
    char name[256];
    int driver_version, runtime_version;
    size_t cudnn_version;
    size_t allocated_bytes, peak_bytes; /* of this program's own cudaMalloc, now and at most */
} gpu_t;

/* Device memory with its size; {NULL, 0} is no memory. */
typedef struct buffer {
    void *data;
    size_t bytes;
} buffer_t;

/* Prints "train_cnn: message" and exits with status 1. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What the program is doing (a layer's name), for the messages of failed checks. Not copied. */
void set_activity(const char *activity);
const char *current_activity(void);

void cuda_check(cudaError_t error, const char *call, const char *file, int line);
void cudnn_check(cudnnStatus_t status, const char *call, const char *file, int line);
#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
#define CUDNN_CHECK(call) cudnn_check((call), #call, __FILE__, __LINE__)

/* With 1 to GPU_MAX_LANES lanes, of which lane 0 is in use. */
void gpu_open(gpu_t *gpu, int lane_count);
void gpu_close(gpu_t *gpu);
/* Takes the lane into use: what is enqueued from now on. Orders nothing between lanes. */
void gpu_use(gpu_t *gpu, int lane);

/* Zeroed device memory; ends the program, naming `what`, if there is not enough. 0 bytes: no
 * memory. */
buffer_t gpu_alloc(gpu_t *gpu, size_t bytes, const char *what);
/* The same, not zeroed, and no memory instead of an end. */
buffer_t gpu_try_alloc(gpu_t *gpu, size_t bytes);
/* Frees *buffer, which may be no memory, and makes it no memory. */
void gpu_free(gpu_t *gpu, buffer_t *buffer);

/* Page-locked host memory, zeroed; free with cudaFreeHost. */
void *pinned_alloc(size_t bytes);

/* a * b; ends the program if it does not fit. */
size_t multiply_bytes(size_t a, size_t b);

#endif
