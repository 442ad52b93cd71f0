/* Which algorithm can run what, with how much workspace, in what time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/conv.h"

enum { ALGORITHMS_MAX = 8 };

#define FORWARD SIM_FORWARD
#define BACKWARD_DATA SIM_BACKWARD_DATA
#define BACKWARD_FILTER SIM_BACKWARD_FILTER

static const sim_conv_algorithm_t algorithms[SIM_DIRECTIONS][ALGORITHMS_MAX] = {
#define ALGORITHM(direction, number, name, kind, order, block, flags, efficiency,                  \
                  tensor_efficiency, passes, kernels, half_waves, half_terms, beta_factor)         \
    [direction][number] = {#name,   KIND_##kind, ORDER_##order,     block,                         \
                           flags,   efficiency,  tensor_efficiency, passes,                        \
                           kernels, half_waves,  half_terms,        beta_factor},
#define SCALE(profile, kind, width, factor)
#include "test/sim/conv_costs.def"
#undef SCALE
#undef ALGORITHM
};

static const struct {
    const char *profile;
    sim_conv_kind_t kind;
    int width; /* of the filter; 0: any */
    double factor;
} scales[] = {
#define ALGORITHM(...)
#define SCALE(profile, kind, width, factor) {#profile, KIND_##kind, width, factor},
#include "test/sim/conv_costs.def"
#undef SCALE
#undef ALGORITHM
};

int sim_conv_algorithm_count(sim_conv_direction_t direction)
{
    static const int counts[SIM_DIRECTIONS] = {CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                                               CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT,
                                               CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT};
    return counts[direction];
}

const sim_conv_algorithm_t *sim_conv_algorithm(sim_conv_direction_t direction, int number)
{
    if (number < 0 || number >= sim_conv_algorithm_count(direction))
        return NULL;
    return &algorithms[direction][number];
}

/* The environment is read at each call, because tests change it; cuDNN reads it once. */
static bool tf32_allowed(void)
{
    const char *const override = secure_getenv("NVIDIA_TF32_OVERRIDE");
    return !override || strcmp(override, "0") != 0;
}

/* A first layer's three channels run at the speed of plain multiply-add in every type and layout
 * (calibration.tsv). */
static bool fills_tensor_cores(const sim_conv_t *problem)
{
    return problem->w.dims[1] > 3;
}

bool sim_conv_uses_tensor_cores(const sim_profile_t *profile, const sim_conv_t *problem,
                                const sim_conv_algorithm_t *algorithm)
{
    if (!(algorithm->flags & FLAG_TENSOR) || problem->math_type == CUDNN_FMA_MATH ||
        !fills_tensor_cores(problem))
        return false;
    const bool asked = problem->math_type != CUDNN_DEFAULT_MATH;
    switch ((cudnnDataType_t)problem->x.type) {
    case CUDNN_DATA_FLOAT:
        return profile->tf32_tflops > 0.0 && tf32_allowed();
    case CUDNN_DATA_HALF:
        return profile->compute_major >= 8 || (profile->compute_major == 7 && asked);
    case CUDNN_DATA_BFLOAT16:
        return profile->compute_major >= 8;
    default:
        return false;
    }
}

static bool unit(const int32_t values[SIM_SPATIAL])
{
    return values[0] == 1 && values[1] == 1 && values[2] == 1;
}

/* Filter height and width are both `size`. */
static bool square_filter(const sim_conv_t *problem, int size)
{
    return problem->w.dims[2] == 1 && problem->w.dims[3] == size && problem->w.dims[4] == size;
}

static bool transform_fits(const sim_conv_t *problem, sim_conv_kind_t kind)
{
    for (int i = 0; i < SIM_SPATIAL; i++) {
        if (problem->pad[i] >= problem->w.dims[2 + i])
            return false;
        if (kind == KIND_FFT && problem->x.dims[2 + i] + 2 * problem->pad[i] > 256)
            return false;
        if (kind == KIND_FFT_TILING && problem->w.dims[2 + i] > 32)
            return false;
    }
    return true;
}

static bool kind_takes_shape(const sim_conv_t *problem, sim_conv_kind_t kind)
{
    switch (kind) {
    case KIND_UNIMPLEMENTED:
        return false;
    case KIND_FFT:
    case KIND_FFT_TILING:
        return unit(problem->stride) && transform_fits(problem, kind);
    case KIND_WINOGRAD:
        return unit(problem->stride) && square_filter(problem, 3);
    case KIND_WINOGRAD_NONFUSED:
        return unit(problem->stride) &&
               (square_filter(problem, 3) ||
                (square_filter(problem, 5) && problem->x.type == CUDNN_DATA_FLOAT));
    default:
        return true;
    }
}

cudnnStatus_t sim_conv_supported(const sim_profile_t *profile, const sim_conv_t *problem,
                                 const sim_conv_algorithm_t *algorithm)
{
    unsigned needed = 0;
    if (problem->spatial_dims == 3)
        needed |= FLAG_3D;
    if (problem->groups > 1)
        needed |= FLAG_GROUPS;
    if (!unit(problem->dilation))
        needed |= FLAG_DILATION;
    if (problem->x.type == CUDNN_DATA_DOUBLE)
        needed |= FLAG_DOUBLE;
    if (problem->x.type == CUDNN_DATA_BFLOAT16)
        needed |= FLAG_BF16;
    if (problem->layout == SIM_LAYOUT_NHWC)
        needed |= FLAG_NHWC;
    if (problem->layout == SIM_LAYOUT_STRIDED)
        needed |= FLAG_STRIDED;
    const bool has_bf16 = profile->compute_major >= 8 || problem->x.type != CUDNN_DATA_BFLOAT16;
    if ((algorithm->flags & needed) != needed || !has_bf16 ||
        !kind_takes_shape(problem, algorithm->kind))
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, algorithm->name);
    return CUDNN_STATUS_SUCCESS;
}

/* Sizes that workspace and work are made of. Doubles: products of large networks pass 64 bits only
 * in nonsense, and sums stay exact far beyond any device's memory. */
typedef struct sizes {
    double n, c, k, groups; /* c and k of one group */
    double in, out, filter; /* spatial elements of one channel */
    double x_bytes, w_bytes, y_bytes;
} sizes_t;

static double spatial(const int32_t dims[SIM_CONV_DIMS])
{
    return (double)dims[2] * dims[3] * dims[4];
}

static sizes_t sizes_of(const sim_conv_t *problem)
{
    const double bytes = (double)sim_type_bytes((cudnnDataType_t)problem->x.type);
    sizes_t sizes = {.n = problem->x.dims[0],
                     .c = problem->w.dims[1],
                     .k = (double)problem->w.dims[0] / problem->groups,
                     .groups = problem->groups,
                     .in = spatial(problem->x.dims),
                     .out = spatial(problem->y.dims),
                     .filter = spatial(problem->w.dims)};
    sizes.x_bytes = sizes.n * sizes.c * sizes.groups * sizes.in * bytes;
    sizes.w_bytes = sizes.groups * sizes.k * sizes.c * sizes.filter * bytes;
    sizes.y_bytes = sizes.n * sizes.k * sizes.groups * sizes.out * bytes;
    return sizes;
}

static double power_of_two_from(double value)
{
    double power = 1.0;
    while (power < value)
        power *= 2.0;
    return power;
}

/* Complex numbers in the spectrum of one real plane, and planes of one image. */
static void spectrum(const sim_conv_t *problem, sim_conv_kind_t kind, double *points, double *tiles)
{
    *points = *tiles = 1.0;
    for (int i = 0; i < SIM_SPATIAL; i++) {
        const double padded = problem->x.dims[2 + i] + 2.0 * problem->pad[i];
        if (i == 0 && problem->spatial_dims == 2)
            continue;
        /* In three dimensions the tiles are small, or they would not fit a multiprocessor. */
        const double tile = problem->spatial_dims == 3 ? 8.0 : 32.0;
        const double tile_extent = fmax(tile, power_of_two_from(problem->w.dims[2 + i] + 1.0));
        const double extent = kind == KIND_FFT ? power_of_two_from(padded) : tile_extent;
        if (kind == KIND_FFT_TILING)
            *tiles *= ceil(problem->y.dims[2 + i] / (tile_extent - problem->w.dims[2 + i] + 1.0));
        *points *= i == SIM_SPATIAL - 1 ? extent / 2.0 + 1.0 : extent;
    }
}

/* Input tile of F(4x4, 3x3) or F(9x9, 5x5), and tiles of one output plane. */
static void winograd_tiles(const sim_conv_t *problem, double *tile_elements, double *tiles)
{
    const double out = problem->w.dims[3] == 5 ? 9.0 : 4.0;
    const double tile = out + problem->w.dims[3] - 1.0;
    *tile_elements = tile * tile;
    *tiles = ceil(problem->y.dims[3] / out) * ceil(problem->y.dims[4] / out);
}

/* Images that the explicit algorithms unfold at once: the largest power of two that divides the
 * batch, which is why 256 images take more workspace than 257. */
static double unfolded_images(double n)
{
    double images = 1.0;
    while (images < 128.0 && fmod(n, images * 2.0) == 0.0)
        images *= 2.0;
    return images;
}

/* Partial sums of a weight gradient on tensor cores: the multiprocessors share the tiles of 128 x
 * 128 weights (64 x 64, if there are no more filters), as many whole times as they can. */
static double partial_sum_bytes(const sim_profile_t *profile, const sizes_t *sizes)
{
    const double rows = sizes->c * sizes->filter;
    const double side = sizes->k <= 64.0 ? 64.0 : 128.0;
    const double tiles = sizes->groups * ceil(sizes->k / side) * ceil(rows / side);
    const double busy = profile->multiprocessors;
    const double tile = fmin(side, sizes->k) * fmin(side, rows);
    return 4.0 * tile * fmin(busy, tiles * fmax(1.0, floor(busy / tiles)));
}

/* On tensor cores single-precision data is copied to channels last and back; 1x1 filters do with
 * less, and read planes of whole vectors in place. */
static double tf32_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                         const sizes_t *sizes)
{
    const bool filter = problem->direction == SIM_BACKWARD_FILTER;
    const double partial_sums = filter ? partial_sum_bytes(profile, sizes) : 0.0;
    if (problem->layout == SIM_LAYOUT_NHWC)
        return partial_sums;
    const double copies = sizes->x_bytes + sizes->y_bytes;
    if (sizes->filter != 1.0)
        return copies + sizes->w_bytes + partial_sums;
    if (!unit(problem->stride) || fmod(sizes->in, 4.0) != 0.0)
        return copies + partial_sums;
    if (filter)
        return sizes->n * sizes->w_bytes;
    if (problem->direction == SIM_BACKWARD_DATA)
        return 0.0;
    if (sizes->c < sizes->k)
        return sizes->x_bytes + sizes->w_bytes;
    return fmod(sizes->in, 64.0) == 0.0 ? 0.0 : copies;
}

/* Tensor cores want channels last; other data is copied first. */
static double precomputed_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                                const sim_conv_algorithm_t *algorithm, const sizes_t *sizes)
{
    const double indices = 1024.0;
    const bool filter = problem->direction == SIM_BACKWARD_FILTER;
    if (!sim_conv_uses_tensor_cores(profile, problem, algorithm))
        return filter ? sizes->w_bytes + sizes->k * sizes->filter + 16.0 : indices;
    if (problem->x.type == CUDNN_DATA_FLOAT)
        return indices + tf32_bytes(profile, problem, sizes);
    if (problem->layout != SIM_LAYOUT_NHWC)
        return sizes->x_bytes + sizes->y_bytes + sizes->w_bytes + indices;
    return indices + (filter ? partial_sum_bytes(profile, sizes) : 0.0);
}

static double workspace_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                              const sim_conv_algorithm_t *algorithm, const sizes_t *sizes)
{
    const double element = sizes->x_bytes / (sizes->n * sizes->c * sizes->groups * sizes->in);
    const double planes = sizes->groups * (sizes->n * sizes->c + sizes->n * sizes->k);
    const double filters = sizes->groups * sizes->c * sizes->k;
    double points, tiles;
    switch (algorithm->kind) {
    case KIND_PRECOMPUTED:
        return precomputed_bytes(profile, problem, algorithm, sizes);
    case KIND_EXPLICIT:
        return unfolded_images(sizes->n) * sizes->c * sizes->filter * sizes->out * element;
    case KIND_FFT:
        spectrum(problem, algorithm->kind, &points, &tiles);
        return 8.0 * points * (planes + filters);
    case KIND_FFT_TILING: /* two tiles of every plane at a time */
        spectrum(problem, algorithm->kind, &points, &tiles);
        return 8.0 * points * (fmin(tiles, 2.0) * planes + filters);
    case KIND_WINOGRAD:
        return 16.0 * element * filters;
    case KIND_WINOGRAD_NONFUSED:
        winograd_tiles(problem, &points, &tiles);
        return points * element * (tiles * planes + filters);
    default:
        return 0.0;
    }
}

uint64_t sim_conv_workspace_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                                  const sim_conv_algorithm_t *algorithm)
{
    const sizes_t sizes = sizes_of(problem);
    const double bytes = workspace_bytes(profile, problem, algorithm, &sizes);
    return ((uint64_t)bytes + 15) / 16 * 16;
}

/* What goes through device memory each time that the workspace does: all tiles, in turn. */
static double transformed_bytes(const sim_profile_t *profile, const sim_conv_t *problem,
                                const sim_conv_algorithm_t *algorithm, const sizes_t *sizes)
{
    if (algorithm->kind != KIND_FFT_TILING)
        return workspace_bytes(profile, problem, algorithm, sizes);
    double points, tiles;
    spectrum(problem, algorithm->kind, &points, &tiles);
    return 8.0 * points * sizes->groups *
           (tiles * sizes->n * (sizes->c + sizes->k) + sizes->c * sizes->k);
}

/* Floating-point operations that the algorithm needs. */
static double operations(const sim_conv_t *problem, const sim_conv_algorithm_t *algorithm,
                         const sizes_t *sizes)
{
    const double channels = sizes->n * sizes->groups * sizes->c * sizes->k;
    const double direct = 2.0 * channels * sizes->out * sizes->filter;
    double points, tiles;
    switch (algorithm->kind) {
    case KIND_FFT:
    case KIND_FFT_TILING: {
        spectrum(problem, algorithm->kind, &points, &tiles);
        const double planes = sizes->n * sizes->groups * (sizes->c + sizes->k) * tiles +
                              sizes->groups * sizes->c * sizes->k;
        return 8.0 * points * tiles * channels + planes * points * 10.0 * log2(points);
    }
    case KIND_WINOGRAD:
        return direct / 2.25;
    case KIND_WINOGRAD_NONFUSED:
        winograd_tiles(problem, &points, &tiles);
        return 2.0 * points * tiles * channels;
    default:
        return direct;
    }
}

/* Thread blocks over multiprocessors, each block 128 x 64 of the result. */
static double waves(const sim_profile_t *profile, const sim_conv_t *problem, const sizes_t *sizes)
{
    double rows = sizes->n * sizes->out, columns = sizes->k;
    if (problem->direction == SIM_BACKWARD_DATA) {
        rows = sizes->n * sizes->in;
        columns = sizes->c;
    } else if (problem->direction == SIM_BACKWARD_FILTER) {
        rows = sizes->c * sizes->filter;
        columns = sizes->k * fmax(1.0, sizes->n * sizes->out / 1024.0); /* the sum is cut as well */
    }
    return sizes->groups * ceil(rows / 128.0) * ceil(columns / 64.0) / profile->multiprocessors;
}

/* Terms of one output's sum. */
static double terms(const sim_conv_t *problem, const sizes_t *sizes)
{
    switch (problem->direction) {
    case SIM_FORWARD:
        return sizes->c * sizes->filter;
    case SIM_BACKWARD_DATA:
        return sizes->k * sizes->filter;
    default:
        return sizes->n * sizes->out;
    }
}

/* In operations a microsecond. */
static double peak(const sim_profile_t *profile, const sim_conv_t *problem, bool tensor_cores)
{
    const double fp32 = profile->fp32_tflops * 1e6;
    if (problem->compute_double)
        return fp32 / 2.0;
    if (!tensor_cores)
        return fp32;
    return (problem->x.type == CUDNN_DATA_FLOAT ? profile->tf32_tflops : profile->fp16_tflops) *
           1e6;
}

/* What this GPU reaches of the efficiency in the table. */
static double scale_of(const sim_profile_t *profile, const sim_conv_t *problem,
                       sim_conv_kind_t kind)
{
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (scales[i].kind == kind && strcmp(scales[i].profile, profile->name) == 0 &&
            (!scales[i].width || scales[i].width == problem->w.dims[4]))
            return scales[i].factor;
    return 1.0;
}

double sim_conv_cost_us(const sim_profile_t *profile, const sim_conv_t *problem,
                        const sim_conv_algorithm_t *algorithm, bool reads_output)
{
    const sizes_t sizes = sizes_of(problem);
    const bool tensor_cores = sim_conv_uses_tensor_cores(profile, problem, algorithm);
    const double busy = waves(profile, problem, &sizes);
    const double length = terms(problem, &sizes);
    const double share =
        tensor_cores ? algorithm->tensor_efficiency * length / (length + algorithm->half_terms)
                     : algorithm->efficiency;
    const double reached =
        share * scale_of(profile, problem, algorithm->kind) * busy / (busy + algorithm->half_waves);
    const double compute_us =
        operations(problem, algorithm, &sizes) / (peak(profile, problem, tensor_cores) * reached);
    const double output_bytes = problem->direction == SIM_FORWARD         ? sizes.y_bytes
                                : problem->direction == SIM_BACKWARD_DATA ? sizes.x_bytes
                                                                          : sizes.w_bytes;
    const double bytes =
        sizes.x_bytes + sizes.w_bytes + sizes.y_bytes + (reads_output ? output_bytes : 0.0);
    const double rate = profile->memory_gbps * 0.8e3; /* bytes a microsecond */
    const double transforms_us =
        algorithm->workspace_passes * transformed_bytes(profile, problem, algorithm, &sizes) / rate;
    const double work_us = fmax(compute_us, bytes / rate) + transforms_us;
    return algorithm->kernels * profile->kernel_floor_us +
           work_us * (reads_output ? algorithm->beta_factor : 1.0);
}
