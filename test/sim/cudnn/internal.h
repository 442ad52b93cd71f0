/* What the simulated cuDNN libraries share: descriptors, the handle, launching, element rows.
 * driver.c and elements.c are compiled into each library, so that each has its own way to the
 * driver, as cuDNN's libraries have their own static runtime. */
#ifndef SIM_CUDNN_INTERNAL_H
#define SIM_CUDNN_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>
#include <cudnn.h>

#include "test/sim/sim.h"

enum { SIM_DIMS = CUDNN_DIM_MAX, SIM_SPATIAL = 3 };

/* Descriptors. `dim_count` 0: created and not set yet. Strides in elements. */
struct cudnnTensorStruct {
    cudnnDataType_t type;
    int dim_count;
    int dims[SIM_DIMS];
    int strides[SIM_DIMS];
};

struct cudnnFilterStruct {
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    int dim_count;
    int dims[SIM_DIMS]; /* k c [d] h w whatever the format */
};

struct cudnnConvolutionStruct {
    int spatial_dims; /* 0: not set yet */
    int pad[SIM_DIMS], stride[SIM_DIMS], dilation[SIM_DIMS];
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute_type;
    cudnnMathType_t math_type;
    cudnnReorderType_t reorder;
    int groups;
};

struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
    cudnnNanPropagation_t nan;
    double coefficient; /* ceiling of clipped ReLU, alpha of ELU */
    double swish_beta;
};

struct cudnnPoolingStruct {
    cudnnPoolingMode_t mode;
    cudnnNanPropagation_t nan;
    int spatial_dims;
    int window[SIM_DIMS], pad[SIM_DIMS], stride[SIM_DIMS];
};

struct cudnnOpTensorStruct {
    cudnnOpTensorOp_t op;
    cudnnDataType_t compute_type;
    cudnnNanPropagation_t nan;
};

#define SIM_HANDLE_MAGIC UINT32_C(0x53434e4e)

/* Used by one thread at a time, as the documentation of cuDNN asks. */
struct cudnnContext {
    uint32_t magic;
    int device;
    CUcontext context; /* current when the handle was made */
    CUstream stream;
    const sim_profile_t *profile;
    uint64_t launches; /* numbers the launches of algorithms that are not deterministic */
};

/* Keeps `text` for cudnnGetLastErrorString of this thread and returns `status`. Lives in
 * libcudnn_graph.so.9, as cuDNN's own error records do. */
cudnnStatus_t sim_cudnn_fail(cudnnStatus_t status, const char *text);

/* driver.c ------------------------------------------------------------------------------------- */

typedef struct sim_driver {
    const sim_api_t *sim;
    CUresult(CUDAAPI *init)(unsigned int);
    CUresult(CUDAAPI *ctx_get_current)(CUcontext *);
    CUresult(CUDAAPI *ctx_set_current)(CUcontext);
    CUresult(CUDAAPI *ctx_get_device)(CUdevice *);
    CUresult(CUDAAPI *primary_ctx_retain)(CUcontext *, CUdevice);
    CUresult(CUDAAPI *launch_kernel)(CUfunction, unsigned int, unsigned int, unsigned int,
                                     unsigned int, unsigned int, unsigned int, unsigned int,
                                     CUstream, void **, void **);
    CUresult(CUDAAPI *mem_alloc)(CUdeviceptr *, size_t);
    CUresult(CUDAAPI *mem_free)(CUdeviceptr);
    CUresult(CUDAAPI *event_create)(CUevent *, unsigned int);
    CUresult(CUDAAPI *event_destroy)(CUevent);
    CUresult(CUDAAPI *event_record)(CUevent, CUstream);
    CUresult(CUDAAPI *event_synchronize)(CUevent);
    CUresult(CUDAAPI *event_elapsed_time)(float *, CUevent, CUevent);
    CUresult(CUDAAPI *stream_synchronize)(CUstream);
} sim_driver_t;

/* NULL without a simulated driver. Found once a library. */
const sim_driver_t *sim_driver(void);

/* Launches `kernel` on the handle's stream with virtual duration `cost_us`; never waits. */
cudnnStatus_t sim_cudnn_launch(cudnnHandle_t handle, const sim_kernel_t *kernel, void **parameters,
                               double cost_us);

/* Virtual duration of a kernel that moves `bytes` and does little else. */
double sim_cudnn_memory_cost_us(const sim_profile_t *profile, double bytes);

/* Host address of device memory, for kernel bodies; NULL once the context has its sticky error. */
void *sim_cudnn_memory(const void *device_address, uint64_t bytes);

/* The status that MICRODNN_SIM_FAULTS ("NAME:NTH:CODE", separated by commas) wants for this call of
 * `function`, else CUDNN_STATUS_SUCCESS. */
cudnnStatus_t sim_cudnn_fault(const char *function);

/* Scratch of the calling thread for one kernel body: each slot is one growing block. Never NULL. */
enum sim_scratch {
    SIM_SCRATCH_A,
    SIM_SCRATCH_B,
    SIM_SCRATCH_C,
    SIM_SCRATCH_D,
    SIM_SCRATCH_E,
    SIM_SCRATCH_F,
    SIM_SCRATCH_G,
    SIM_SCRATCH_COUNT
};
void *sim_cudnn_scratch(enum sim_scratch slot, size_t bytes);

#define SIM_CUDNN_ENTRY()                                                                          \
    do {                                                                                           \
        const cudnnStatus_t sim_fault_ = sim_cudnn_fault(__func__);                                \
        if (sim_fault_ != CUDNN_STATUS_SUCCESS)                                                    \
            return sim_cudnn_fail(sim_fault_, "injected by MICRODNN_SIM_FAULTS");                  \
    } while (0)

#define SIM_CUDNN_REQUIRE(condition, status)                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return sim_cudnn_fail((status), #condition);                                           \
    } while (0)

#define SIM_CUDNN_TRY(expression)                                                                  \
    do {                                                                                           \
        const cudnnStatus_t sim_status_ = (expression);                                            \
        if (sim_status_ != CUDNN_STATUS_SUCCESS)                                                   \
            return sim_status_;                                                                    \
    } while (0)

static inline bool sim_handle_valid(cudnnHandle_t handle)
{
    return handle && handle->magic == SIM_HANDLE_MAGIC;
}

/* elements.c ----------------------------------------------------------------------------------- */

/* 0 for a type that the simulation has no arithmetic for. */
size_t sim_type_bytes(cudnnDataType_t type);
/* float, half, bfloat16, double. */
bool sim_type_is_floating(cudnnDataType_t type);

/* `count` elements of `type`, `stride` elements apart, from or to packed doubles (floats). Stores
 * round to nearest even. */
void sim_row_load(cudnnDataType_t type, const void *base, int64_t offset, int64_t stride,
                  size_t count, double *out);
void sim_row_load_float(cudnnDataType_t type, const void *base, int64_t offset, int64_t stride,
                        size_t count, float *out);
void sim_row_store(cudnnDataType_t type, void *base, int64_t offset, int64_t stride, size_t count,
                   const double *values);

/* Each value becomes the nearest one of `type`. */
void sim_row_round(cudnnDataType_t type, size_t count, double *values);

/* row = alpha * values + beta * row; a zero beta does not read. `scratch` has room for `count`. */
void sim_row_blend(cudnnDataType_t type, void *base, int64_t offset, int64_t stride, size_t count,
                   double alpha, const double *values, double beta, double *scratch);

/* Elements from the first to the last one of a tensor, plus one: what a kernel may touch. */
uint64_t sim_tensor_span(int dim_count, const int *dims, const int *strides);
/* Product of the dimensions. */
uint64_t sim_tensor_elements(int dim_count, const int *dims);
/* Bytes of what the descriptor spans. */
uint64_t sim_tensor_bytes(const struct cudnnTensorStruct *tensor);

/* A scaling factor as the API passes it: double for double tensors, else float. */
double sim_scaling(const void *value, cudnnDataType_t type);

/* In place; shared by cudnnActivationForward and the fused convolution. */
void sim_activate(cudnnActivationMode_t mode, double coefficient, double swish_beta, size_t count,
                  double *values);

#endif
