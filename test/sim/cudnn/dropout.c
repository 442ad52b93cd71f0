/* libcudnn_ops.so.9: dropout. The generator's state lives in the caller's device memory, as with
 * cuDNN, so that a captured graph draws new numbers at each replay; the mask, one byte an element,
 * lives in the reserve space between forward and backward. */
#include <stdlib.h>

#include "test/sim/cudnn/internal.h"

struct cudnnDropoutStruct {
    float dropout;
    void *states;
    size_t state_bytes;
    unsigned long long seed;
};

typedef struct generator {
    uint64_t seed, drawn;
} generator_t;

enum { STATE_BYTES = 4096 };

typedef struct dropout_arguments {
    int32_t type, dim_count;
    int32_t dims[SIM_DIMS], in_strides[SIM_DIMS], out_strides[SIM_DIMS];
    float dropout;
    int32_t backward;
    uint64_t seed;
} dropout_arguments_t;

/* The `index`th number of the generator, in [0, 1). SplitMix64. */
static double draw(const generator_t *generator, uint64_t index)
{
    uint64_t z = generator->seed + (generator->drawn + index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static int64_t offset_of(const dropout_arguments_t *arguments, const int32_t *strides,
                         uint64_t element)
{
    int64_t offset = 0;
    for (int d = arguments->dim_count - 1; d >= 0; d--) {
        offset += (int64_t)(element % (uint64_t)arguments->dims[d]) * strides[d];
        element /= (uint64_t)arguments->dims[d];
    }
    return offset;
}

/* states, arguments */
static void run_seed(void *const *parameters)
{
    const dropout_arguments_t *const arguments = parameters[1];
    generator_t *const state = sim_cudnn_memory(*(void *const *)parameters[0], sizeof(generator_t));
    if (state)
        *state = (generator_t){.seed = arguments->seed};
}

/* in, out, reserve, states, arguments; states is NULL backward */
static void run_dropout(void *const *parameters)
{
    const dropout_arguments_t *const arguments = parameters[4];
    const cudnnDataType_t type = (cudnnDataType_t)arguments->type;
    const size_t bytes = sim_type_bytes(type);
    const uint64_t elements = sim_tensor_elements(arguments->dim_count, arguments->dims);
    const void *const in = sim_cudnn_memory(
        *(void *const *)parameters[0],
        sim_tensor_span(arguments->dim_count, arguments->dims, arguments->in_strides) * bytes);
    void *const out = sim_cudnn_memory(
        *(void *const *)parameters[1],
        sim_tensor_span(arguments->dim_count, arguments->dims, arguments->out_strides) * bytes);
    unsigned char *const kept = sim_cudnn_memory(*(void *const *)parameters[2], elements);
    generator_t *const state =
        arguments->backward ? NULL
                            : sim_cudnn_memory(*(void *const *)parameters[3], sizeof(generator_t));
    if (!in || !out || !kept || (!arguments->backward && !state))
        return;
    const double scale = arguments->dropout < 1.0f ? 1.0 / (1.0 - (double)arguments->dropout) : 0.0;
    for (uint64_t i = 0; i < elements; i++) {
        double value;
        if (state)
            kept[i] = draw(state, i) >= (double)arguments->dropout;
        sim_row_load(type, in, offset_of(arguments, arguments->in_strides, i), 1, 1, &value);
        value = kept[i] ? value * scale : 0.0;
        sim_row_store(type, out, offset_of(arguments, arguments->out_strides, i), 1, 1, &value);
    }
    if (state)
        state->drawn += elements;
}

enum { BYTES = sizeof(dropout_arguments_t) };
static const sim_kernel_parameter_t one_pointer[] = {{0, 8}, {8, BYTES}};
static const sim_kernel_parameter_t four_pointers[] = {
    {0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, BYTES}};
static const sim_kernel_t seed_kernel = {"cudnn_sim_dropout_seed", 2, one_pointer, run_seed};
static const sim_kernel_t dropout_kernel = {"cudnn_sim_dropout", 5, four_pointers, run_dropout};

cudnnStatus_t CUDNNWINAPI cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *dropoutDesc)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(dropoutDesc, CUDNN_STATUS_BAD_PARAM);
    *dropoutDesc = calloc(1, sizeof **dropoutDesc);
    return *dropoutDesc
               ? CUDNN_STATUS_SUCCESS
               : sim_cudnn_fail(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "host memory");
}

cudnnStatus_t CUDNNWINAPI cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc)
{
    SIM_CUDNN_ENTRY();
    free(dropoutDesc);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *sizeInBytes)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && sizeInBytes, CUDNN_STATUS_BAD_PARAM);
    *sizeInBytes = STATE_BYTES;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t xdesc,
                                                          size_t *sizeInBytes)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(xdesc && xdesc->dim_count && sizeInBytes, CUDNN_STATUS_BAD_PARAM);
    *sizeInBytes = (sim_tensor_elements(xdesc->dim_count, xdesc->dims) + 15) / 16 * 16;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc,
                                                        cudnnHandle_t handle, float dropout,
                                                        void *states, size_t stateSizeInBytes,
                                                        unsigned long long seed)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(dropoutDesc && sim_handle_valid(handle) && dropout >= 0.0f && dropout <= 1.0f,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(!states || stateSizeInBytes >= STATE_BYTES, CUDNN_STATUS_BAD_PARAM);
    *dropoutDesc = (struct cudnnDropoutStruct){dropout, states, stateSizeInBytes, seed};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t CUDNNWINAPI cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc,
                                                    cudnnHandle_t handle, float dropout,
                                                    void *states, size_t stateSizeInBytes,
                                                    unsigned long long seed)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_TRY(cudnnRestoreDropoutDescriptor(dropoutDesc, handle, dropout, states,
                                                stateSizeInBytes, seed));
    if (!states)
        return CUDNN_STATUS_SUCCESS;
    dropout_arguments_t arguments = {.seed = seed};
    void *parameters[] = {&states, &arguments};
    return sim_cudnn_launch(handle, &seed_kernel, parameters,
                            sim_cudnn_memory_cost_us(handle->profile, STATE_BYTES));
}

cudnnStatus_t CUDNNWINAPI cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t dropoutDesc,
                                                    cudnnHandle_t handle, float *dropout,
                                                    void **states, unsigned long long *seed)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(dropoutDesc && sim_handle_valid(handle), CUDNN_STATUS_BAD_PARAM);
    if (dropout)
        *dropout = dropoutDesc->dropout;
    if (states)
        *states = dropoutDesc->states;
    if (seed)
        *seed = dropoutDesc->seed;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t launch_dropout(cudnnHandle_t handle, const struct cudnnDropoutStruct *dropout,
                                    const struct cudnnTensorStruct *in_tensor, const void *in,
                                    const struct cudnnTensorStruct *out_tensor, void *out,
                                    void *reserve, size_t reserve_bytes, bool backward)
{
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && dropout && in_tensor && out_tensor && in && out &&
                          reserve,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(in_tensor->type) && in_tensor->type == out_tensor->type,
                      CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(in_tensor->dim_count == out_tensor->dim_count && in_tensor->dim_count,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(backward || dropout->states, CUDNN_STATUS_BAD_PARAM);
    dropout_arguments_t arguments = {.type = (int32_t)in_tensor->type,
                                     .dim_count = in_tensor->dim_count,
                                     .dropout = dropout->dropout,
                                     .backward = backward};
    for (int i = 0; i < in_tensor->dim_count; i++) {
        SIM_CUDNN_REQUIRE(in_tensor->dims[i] == out_tensor->dims[i], CUDNN_STATUS_BAD_PARAM);
        arguments.dims[i] = in_tensor->dims[i];
        arguments.in_strides[i] = in_tensor->strides[i];
        arguments.out_strides[i] = out_tensor->strides[i];
    }
    SIM_CUDNN_REQUIRE(reserve_bytes >= sim_tensor_elements(in_tensor->dim_count, in_tensor->dims),
                      CUDNN_STATUS_BAD_PARAM);
    void *states = backward ? NULL : dropout->states;
    void *parameters[] = {&in, &out, &reserve, &states, &arguments};
    return sim_cudnn_launch(
        handle, &dropout_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, 2.0 * (double)sim_tensor_bytes(in_tensor)));
}

cudnnStatus_t CUDNNWINAPI cudnnDropoutForward(cudnnHandle_t handle,
                                              const cudnnDropoutDescriptor_t dropoutDesc,
                                              const cudnnTensorDescriptor_t xdesc, const void *x,
                                              const cudnnTensorDescriptor_t ydesc, void *y,
                                              void *reserveSpace, size_t reserveSpaceSizeInBytes)
{
    SIM_CUDNN_ENTRY();
    return launch_dropout(handle, dropoutDesc, xdesc, x, ydesc, y, reserveSpace,
                          reserveSpaceSizeInBytes, false);
}

cudnnStatus_t CUDNNWINAPI cudnnDropoutBackward(cudnnHandle_t handle,
                                               const cudnnDropoutDescriptor_t dropoutDesc,
                                               const cudnnTensorDescriptor_t dydesc, const void *dy,
                                               const cudnnTensorDescriptor_t dxdesc, void *dx,
                                               void *reserveSpace, size_t reserveSpaceSizeInBytes)
{
    SIM_CUDNN_ENTRY();
    return launch_dropout(handle, dropoutDesc, dydesc, dy, dxdesc, dx, reserveSpace,
                          reserveSpaceSizeInBytes, true);
}
