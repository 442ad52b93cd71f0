/* Index tables and orders of the sums of conv_kernels.h; no arithmetic. */
#include <string.h>

#include "test/sim/cudnn/conv_kernels.h"

static int64_t spatial(const int32_t dims[SIM_CONV_DIMS])
{
    return (int64_t)dims[2] * dims[3] * dims[4];
}

static int64_t group_filters(const sim_conv_t *problem)
{
    return problem->w.dims[0] / problem->groups;
}

int64_t sim_conv_operand_elements(const sim_conv_t *problem)
{
    const bool backward = problem->direction == SIM_BACKWARD_DATA;
    const int64_t m = backward ? problem->w.dims[1] : group_filters(problem);
    const int64_t other = backward ? group_filters(problem) : problem->w.dims[1];
    const int64_t panels = (m + SIM_PANEL_ROWS - 1) / SIM_PANEL_ROWS;
    return problem->groups * panels * SIM_PANEL_ROWS * other * spatial(problem->w.dims);
}

int64_t sim_conv_sum_elements(const sim_conv_t *problem)
{
    return (int64_t)problem->w.dims[0] * problem->w.dims[1] * spatial(problem->w.dims);
}

/* Place of the source: where its element 0 lies and how far apart its elements are. */
static void place_source(const sim_conv_t *problem, sim_conv_geometry_t *geometry)
{
    const bool backward = problem->direction == SIM_BACKWARD_DATA;
    geometry->plane = 1;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        const int reach = (problem->w.dims[2 + i] - 1) * problem->dilation[i];
        if (backward) {
            geometry->extent[i] = problem->x.dims[2 + i] + reach;
            geometry->spread[i] = problem->stride[i];
            geometry->shift[i] = reach - problem->pad[i];
        } else {
            geometry->extent[i] = (problem->y.dims[2 + i] - 1) * problem->stride[i] + reach + 1;
            geometry->spread[i] = 1;
            geometry->shift[i] = problem->pad[i];
        }
        geometry->plane *= geometry->extent[i];
    }
    geometry->tensor = backward ? &problem->y : &problem->x;
    geometry->channels = backward ? group_filters(problem) : problem->w.dims[1];
    geometry->taps = spatial(problem->w.dims);
}

/* Offset in a source plane of `step` times each position of `dims`, in row-major order. */
static void plane_offsets(const sim_conv_geometry_t *geometry, const int32_t *dims, const int *step,
                          bool reversed, int32_t *out)
{
    const int64_t count = (int64_t)dims[0] * dims[1] * dims[2];
    int64_t at = 0;
    for (int d = 0; d < dims[0]; d++)
        for (int h = 0; h < dims[1]; h++)
            for (int w = 0; w < dims[2]; w++, at++)
                out[reversed ? count - 1 - at : at] =
                    ((d * step[0]) * geometry->extent[1] + h * step[1]) * geometry->extent[2] +
                    w * step[2];
}

/* Repeats the offsets of a plane for every channel. */
static void repeat_for_channels(const sim_conv_geometry_t *geometry, int64_t count, int32_t *out)
{
    for (int64_t c = 1; c < geometry->channels; c++)
        for (int64_t i = 0; i < count; i++)
            out[c * count + i] = out[i] + (int32_t)(c * geometry->plane);
}

void sim_conv_geometry(const sim_conv_kernel_arguments_t *arguments, sim_conv_geometry_t *geometry)
{
    const sim_conv_t *const problem = &arguments->problem;
    static const int ones[SIM_SPATIAL] = {1, 1, 1};
    geometry->problem = problem;
    place_source(problem, geometry);
    const bool backward = problem->direction == SIM_BACKWARD_DATA;
    const int64_t in = spatial(problem->x.dims), out = spatial(problem->y.dims);
    const int64_t summands = geometry->channels * geometry->taps;
    const bool filter = problem->direction == SIM_BACKWARD_FILTER;
    geometry->m = backward ? problem->w.dims[1] : group_filters(problem);
    geometry->t = filter ? out : summands;
    geometry->j = filter ? summands : backward ? in : out;
    geometry->rows = sim_cudnn_scratch(SIM_SCRATCH_A, (size_t)geometry->t * sizeof(int32_t));
    geometry->columns = sim_cudnn_scratch(SIM_SCRATCH_B, (size_t)geometry->j * sizeof(int32_t));
    int32_t *const taps = filter ? geometry->columns : geometry->rows;
    int32_t *const positions = filter ? geometry->rows : geometry->columns;
    /* The filter runs backwards over y: its first tap meets the last element of the reach. */
    plane_offsets(geometry, &problem->w.dims[2], problem->dilation, backward, taps);
    repeat_for_channels(geometry, geometry->taps, taps);
    if (backward)
        plane_offsets(geometry, &problem->x.dims[2], ones, false, positions);
    else
        plane_offsets(geometry, &problem->y.dims[2], problem->stride, false, positions);
}

/* (outer, inner) -> (inner, outer). */
static void transposed(int64_t outer, int64_t inner, int32_t *order)
{
    int64_t at = 0;
    for (int64_t i = 0; i < inner; i++)
        for (int64_t o = 0; o < outer; o++)
            order[at++] = (int32_t)(o * inner + i);
}

const int32_t *sim_conv_summation_order(const sim_conv_kernel_arguments_t *arguments,
                                        const sim_conv_geometry_t *geometry)
{
    const int64_t t = geometry->t;
    int32_t *const order = sim_cudnn_scratch(SIM_SCRATCH_C, (size_t)t * sizeof *order);
    const int64_t evens = (t + 1) / 2;
    const bool filter = arguments->problem.direction == SIM_BACKWARD_FILTER;
    if (arguments->order == ORDER_RSC) {
        const int64_t inner = filter ? arguments->problem.y.dims[4] : geometry->taps;
        transposed(t / inner, inner, order);
        return order;
    }
    for (int64_t i = 0; i < t; i++) {
        switch (arguments->order) {
        case ORDER_REVERSED:
            order[i] = (int32_t)(t - 1 - i);
            break;
        case ORDER_EVEN_ODD:
            order[i] = (int32_t)(i < evens ? 2 * i : 2 * (i - evens) + 1);
            break;
        case ORDER_VARYING:
            order[i] = (int32_t)(((uint64_t)i + arguments->variation) % (uint64_t)t);
            break;
        default:
            order[i] = (int32_t)i;
            break;
        }
    }
    return order;
}

static int64_t row_offset(const sim_conv_tensor_t *tensor, const int64_t place[4])
{
    int64_t offset = 0;
    for (int i = 0; i < 4; i++)
        offset += place[i] * tensor->strides[i];
    return offset;
}

static void run_steps(const sim_conv_epilogue_t *epilogue, const sim_conv_memory_t *memory,
                      const int64_t place[4], size_t count, double *values, double *scratch)
{
    sim_row_round((cudnnDataType_t)epilogue->rounding, count, values);
    for (int i = 0; i < epilogue->step_count; i++) {
        const sim_conv_step_t *const step = &epilogue->steps[i];
        if (step->operand >= 0) {
            const sim_conv_tensor_t *const operand = &epilogue->operands[step->operand];
            sim_row_load((cudnnDataType_t)operand->type, memory->operands[step->operand],
                         row_offset(operand, place), operand->strides[4], count, scratch);
        }
        sim_conv_step(step, count, scratch, values);
    }
}

/* One row of a plane; the scratch is used up by the blend. `place` is where the row starts: n, c,
 * d, h. */
static void store_row(const sim_conv_kernel_arguments_t *arguments, const sim_conv_tensor_t *tensor,
                      const sim_conv_memory_t *memory, const int64_t place[4], int64_t stride,
                      int64_t addend_stride, double bias, size_t count, double *values,
                      double *scratch)
{
    const sim_conv_epilogue_t *const epilogue = &arguments->epilogue;
    const cudnnDataType_t type = (cudnnDataType_t)tensor->type;
    for (size_t i = 0; i < count; i++)
        values[i] = epilogue->alpha * values[i] + bias;
    if (epilogue->beta != 0.0) {
        sim_row_load(type, memory->addend, row_offset(&epilogue->addend, place), addend_stride,
                     count, scratch);
        for (size_t i = 0; i < count; i++)
            values[i] += epilogue->beta * scratch[i];
    }
    if (epilogue->step_count)
        run_steps(epilogue, memory, place, count, values, scratch);
    else
        sim_activate((cudnnActivationMode_t)epilogue->activation, epilogue->coefficient,
                     epilogue->swish_beta, count, values);
    sim_row_store(type, memory->out, row_offset(tensor, place), stride, count, values);
}

/* Whether the elements of a plane are equally far apart, so that it is one row. */
static bool plane_is_row(const sim_conv_tensor_t *tensor)
{
    const int32_t *const s = tensor->strides, *const d = tensor->dims;
    return (d[3] == 1 || s[3] == d[4] * s[4]) && (d[2] == 1 || s[2] == d[3] * d[4] * s[4]);
}

void sim_conv_store_plane(const sim_conv_kernel_arguments_t *arguments,
                          const sim_conv_tensor_t *tensor, const sim_conv_memory_t *memory,
                          int64_t i, int64_t c, double *values, double *scratch)
{
    const sim_conv_epilogue_t *const epilogue = &arguments->epilogue;
    const int32_t *const s = tensor->strides, *const a = epilogue->addend.strides;
    double bias = 0.0;
    if (epilogue->has_bias)
        sim_row_load((cudnnDataType_t)tensor->type, memory->bias, c * epilogue->bias_stride, 1, 1,
                     &bias);
    if (!epilogue->step_count && plane_is_row(tensor) && plane_is_row(&epilogue->addend)) {
        store_row(arguments, tensor, memory, (const int64_t[]){i, c, 0, 0}, s[4], a[4], bias,
                  (size_t)spatial(tensor->dims), values, scratch);
        return;
    }
    for (int d = 0; d < tensor->dims[2]; d++)
        for (int h = 0; h < tensor->dims[3]; h++, values += tensor->dims[4])
            store_row(arguments, tensor, memory, (const int64_t[]){i, c, d, h}, s[4], a[4], bias,
                      (size_t)tensor->dims[4], values, scratch);
}
