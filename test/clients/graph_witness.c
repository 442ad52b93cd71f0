#include "test/clients/graph_witness.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

witness_t witness = {.fail_function = WITNESS_FUNCTIONS};

/* The next definition; what is not there cannot be called anyway. */
static void find_next(const char *name, void *function)
{
    void *const found = dlvsym(RTLD_NEXT, name, "libcudnn.so.9");
    if (!found)
        abort();
    memcpy(function, &found, sizeof found);
}

#define NEXT(variable, name)                                                                       \
    __typeof__(&name) variable;                                                                    \
    find_next(#name, &variable)

static _Thread_local int last_set; /* attribute: what is finalized next has it */

/* Counts the call; true if it is the one that fails. */
static bool fails(witness_function_t function, int kind, void *descriptor)
{
    const uint64_t call = atomic_fetch_add(&witness.calls[function], 1);
    if (call < WITNESS_JOURNAL)
        atomic_store(&witness.kinds[function][call], kind);
    if (atomic_load(&witness.fail_function) != (int)function ||
        atomic_fetch_sub(&witness.fail_countdown, 1) != 1)
        return false;
    atomic_store(&witness.failed, descriptor);
    return true;
}

#define MAY_FAIL(function, kind, descriptor)                                                       \
    if (fails(function, (int)(kind), (void *)(descriptor)))                                        \
    return WITNESS_FAILURE

cudnnStatus_t CUDNNWINAPI cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                                       cudnnBackendDescriptor_t *descriptor)
{
    NEXT(real, cudnnBackendCreateDescriptor);
    MAY_FAIL(WITNESS_CREATE, type, descriptor);
    return real(type, descriptor);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type, int64_t count,
                                                   const void *elements)
{
    NEXT(real, cudnnBackendSetAttribute);
    last_set = (int)name;
    MAY_FAIL(WITNESS_SET, name, descriptor);
    return real(descriptor, name, type, count, elements);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                                   cudnnBackendAttributeName_t name,
                                                   cudnnBackendAttributeType_t type,
                                                   int64_t requested, int64_t *count,
                                                   void *elements)
{
    NEXT(real, cudnnBackendGetAttribute);
    MAY_FAIL(WITNESS_GET, name, descriptor);
    return real(descriptor, name, type, requested, count, elements);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    NEXT(real, cudnnBackendFinalize);
    MAY_FAIL(WITNESS_FINALIZE, last_set, descriptor);
    return real(descriptor);
}

/* The engine of a plan tells its notes through two descriptors. */
static cudnnBackendDescriptor_t part_of(cudnnBackendDescriptor_t whole,
                                        cudnnBackendAttributeName_t name,
                                        cudnnBackendDescriptorType_t type)
{
    NEXT(create, cudnnBackendCreateDescriptor);
    NEXT(get, cudnnBackendGetAttribute);
    cudnnBackendDescriptor_t part;
    int64_t count;
    if (create(type, &part) != CUDNN_STATUS_SUCCESS ||
        get(whole, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &part) != CUDNN_STATUS_SUCCESS)
        abort();
    return part;
}

static void see_plan(cudnnBackendDescriptor_t plan)
{
    NEXT(get, cudnnBackendGetAttribute);
    NEXT(destroy, cudnnBackendDestroyDescriptor);
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    cudnnBackendDescriptor_t configuration =
        part_of(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendDescriptor_t engine =
        part_of(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < count; i++)
            atomic_fetch_or(&witness.notes, 1U << notes[i]);
    (void)destroy(engine);
    (void)destroy(configuration);
}

static void count_plan(cudnnBackendDescriptor_t plan)
{
    if (plan && plan == atomic_load(&witness.plan))
        atomic_fetch_add(&witness.plan_runs, 1);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                              cudnnBackendDescriptor_t pack)
{
    NEXT(real, cudnnBackendExecute);
    MAY_FAIL(WITNESS_EXECUTE, 0, plan);
    count_plan(plan);
    const cudnnStatus_t status = real(handle, plan, pack);
    if (status == CUDNN_STATUS_SUCCESS)
        see_plan(plan);
    return status;
}

cudnnStatus_t CUDNNWINAPI cudnnBackendPopulateCudaGraph(cudnnHandle_t handle,
                                                        cudnnBackendDescriptor_t plan,
                                                        cudnnBackendDescriptor_t pack,
                                                        cudaGraph_t graph)
{
    NEXT(real, cudnnBackendPopulateCudaGraph);
    MAY_FAIL(WITNESS_POPULATE, 0, plan);
    count_plan(plan);
    return real(handle, plan, pack, graph);
}

cudnnStatus_t CUDNNWINAPI cudnnBackendUpdateCudaGraph(cudnnHandle_t handle,
                                                      cudnnBackendDescriptor_t plan,
                                                      cudnnBackendDescriptor_t pack,
                                                      cudaGraph_t graph)
{
    NEXT(real, cudnnBackendUpdateCudaGraph);
    MAY_FAIL(WITNESS_UPDATE, 0, plan);
    count_plan(plan);
    return real(handle, plan, pack, graph);
}

/* ---- legacy convolutions ---- */

static void see_call(int direction, int algorithm, cudnnConvolutionDescriptor_t convolution)
{
    cudnnMathType_t math;
    NEXT(real, cudnnGetConvolutionMathType);
    atomic_fetch_or(&witness.algorithms[direction], 1U << algorithm);
    if (real(convolution, &math) == CUDNN_STATUS_SUCCESS)
        atomic_fetch_or(&witness.math, 1U << math);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_desc, const void *x,
    const cudnnFilterDescriptor_t w_desc, const void *w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t y_desc, void *y)
{
    NEXT(real, cudnnConvolutionForward);
    see_call(0, (int)algo, conv);
    return real(handle, alpha, x_desc, x, w_desc, w, conv, algo, workspace, bytes, beta, y_desc, y);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w_desc, const void *w,
    const cudnnTensorDescriptor_t y_desc, const void *y, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t bytes, const void *beta,
    const cudnnTensorDescriptor_t x_desc, void *x)
{
    NEXT(real, cudnnConvolutionBackwardData);
    see_call(1, (int)algo, conv);
    return real(handle, alpha, w_desc, w, y_desc, y, conv, algo, workspace, bytes, beta, x_desc, x);
}

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_desc, const void *x,
    const cudnnTensorDescriptor_t y_desc, const void *y, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t bytes, const void *beta,
    const cudnnFilterDescriptor_t w_desc, void *w)
{
    NEXT(real, cudnnConvolutionBackwardFilter);
    see_call(2, (int)algo, conv);
    return real(handle, alpha, x_desc, x, y_desc, y, conv, algo, workspace, bytes, beta, w_desc, w);
}
