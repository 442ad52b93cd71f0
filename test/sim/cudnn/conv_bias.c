/* libcudnn_cnn.so.9: cudnnConvolutionBackwardBias, db[c] = alpha * sum of dy[.][c][.] + beta *
 * db[c]. */
#include <string.h>

#include "test/sim/cudnn/internal.h"

typedef struct bias_arguments {
    int32_t type, dim_count;
    int32_t dims[SIM_DIMS], strides[SIM_DIMS];
    int32_t bias_stride;
    double alpha, beta;
} bias_arguments_t;

/* Sum over one image of one channel, row by row. */
static double channel_sum(const bias_arguments_t *arguments, const void *dy, int n, int c,
                          double *row)
{
    const int inner = arguments->dim_count - 1;
    uint64_t rows = 1;
    for (int d = 2; d < inner; d++)
        rows *= (uint64_t)arguments->dims[d];
    double sum = 0.0;
    for (uint64_t r = 0; r < rows; r++) {
        int64_t offset = (int64_t)n * arguments->strides[0] + (int64_t)c * arguments->strides[1];
        uint64_t rest = r;
        for (int d = inner - 1; d >= 2; d--) {
            offset += (int64_t)(rest % (uint64_t)arguments->dims[d]) * arguments->strides[d];
            rest /= (uint64_t)arguments->dims[d];
        }
        sim_row_load((cudnnDataType_t)arguments->type, dy, offset, arguments->strides[inner],
                     (size_t)arguments->dims[inner], row);
        for (int i = 0; i < arguments->dims[inner]; i++)
            sum += row[i];
    }
    return sum;
}

static void run_backward_bias(void *const *parameters)
{
    const bias_arguments_t *const arguments = parameters[2];
    const cudnnDataType_t type = (cudnnDataType_t)arguments->type;
    const uint64_t channels = (uint64_t)arguments->dims[1];
    const void *const dy = sim_cudnn_memory(
        *(void *const *)parameters[0],
        sim_tensor_span(arguments->dim_count, arguments->dims, arguments->strides) *
            sim_type_bytes(type));
    void *const db = sim_cudnn_memory(*(void *const *)parameters[1],
                                      ((channels - 1) * (uint64_t)arguments->bias_stride + 1) *
                                          sim_type_bytes(type));
    if (!dy || !db)
        return;
    double *const row = sim_cudnn_scratch(
        SIM_SCRATCH_A, (size_t)arguments->dims[arguments->dim_count - 1] * sizeof *row);
    for (int c = 0; c < arguments->dims[1]; c++) {
        double sum = 0.0, blended;
        for (int n = 0; n < arguments->dims[0]; n++)
            sum += channel_sum(arguments, dy, n, c, row);
        sim_row_blend(type, db, (int64_t)c * arguments->bias_stride, 1, 1, arguments->alpha, &sum,
                      arguments->beta, &blended);
    }
}

static const sim_kernel_parameter_t bias_parameters[] = {
    {0, 8}, {8, 8}, {16, sizeof(bias_arguments_t)}};
static const sim_kernel_t bias_kernel = {"cudnn_sim_conv_backward_bias", 3, bias_parameters,
                                         run_backward_bias};

cudnnStatus_t CUDNNWINAPI cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void *alpha,
                                                       const cudnnTensorDescriptor_t dyDesc,
                                                       const void *dy, const void *beta,
                                                       const cudnnTensorDescriptor_t dbDesc,
                                                       void *db)
{
    SIM_CUDNN_ENTRY();
    SIM_CUDNN_REQUIRE(sim_handle_valid(handle) && alpha && beta && dyDesc && dy && dbDesc && db,
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(dyDesc->dim_count >= 4 && dbDesc->dim_count == dyDesc->dim_count &&
                          dbDesc->dims[1] == dyDesc->dims[1] && dbDesc->type == dyDesc->type &&
                          sim_tensor_elements(dbDesc->dim_count, dbDesc->dims) ==
                              (uint64_t)dyDesc->dims[1],
                      CUDNN_STATUS_BAD_PARAM);
    SIM_CUDNN_REQUIRE(sim_type_is_floating(dyDesc->type), CUDNN_STATUS_NOT_SUPPORTED);
    bias_arguments_t arguments = {.type = (int32_t)dyDesc->type,
                                  .dim_count = dyDesc->dim_count,
                                  .bias_stride = dbDesc->strides[1],
                                  .alpha = sim_scaling(alpha, dyDesc->type),
                                  .beta = sim_scaling(beta, dyDesc->type)};
    memcpy(arguments.dims, dyDesc->dims, sizeof arguments.dims);
    memcpy(arguments.strides, dyDesc->strides, sizeof arguments.strides);
    void *parameters[] = {&dy, &db, &arguments};
    return sim_cudnn_launch(
        handle, &bias_kernel, parameters,
        sim_cudnn_memory_cost_us(handle->profile, (double)sim_tensor_bytes(dyDesc)));
}
