/* The simulated libcudnn_ops: descriptors keep what they are given; elementwise functions, pooling
 * and softmax equal the formulas of cuDNN's documentation, for all types, layouts and scalings. */
#include "test/sim/cudnn_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2, C = 3, H = 5, W = 4, COUNT = N * C * H * W };

static cudnnHandle_t handle;

typedef struct format {
    cudnnDataType_t type;
    cudnnTensorFormat_t layout;
    double tolerance;
} format_t;

static const format_t formats[] = {{CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 1e-6},
                                   {CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 1e-6},
                                   {CUDNN_DATA_HALF, CUDNN_TENSOR_NCHW, 2e-3},
                                   {CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_NHWC, 1e-2},
                                   {CUDNN_DATA_DOUBLE, CUDNN_TENSOR_NCHW, 1e-14}};
enum { FORMATS = sizeof formats / sizeof *formats };

/* Values are kept in n c h w order here and put into the layout on their way to the device. */
static size_t place(cudnnTensorFormat_t layout, int c, int h, int w, size_t i)
{
    const size_t plane = (size_t)h * (size_t)w, channels = (size_t)c;
    if (layout == CUDNN_TENSOR_NCHW)
        return i;
    return i / (channels * plane) * channels * plane + i % plane * channels + i / plane % channels;
}

typedef struct tensor {
    cudnnTensorDescriptor_t descriptor;
    format_t format;
    int c, h, w;
    size_t count;
    double *values; /* as uploaded, n c h w */
    void *device;
} tensor_t;

static void put(const tensor_t *tensor, const double *values)
{
    double *const placed = malloc(tensor->count * sizeof *placed);
    assert_non_null(placed);
    for (size_t i = 0; i < tensor->count; i++)
        placed[place(tensor->format.layout, tensor->c, tensor->h, tensor->w, i)] = values[i];
    void *const staged = client_upload(tensor->format.type, placed, tensor->count);
    CHECK_CUDA(
        cuMemcpyDtoD((CUdeviceptr)(uintptr_t)tensor->device, (CUdeviceptr)(uintptr_t)staged,
                     tensor->count * reference_type_bytes((reference_type_t)tensor->format.type)));
    client_free(staged);
    free(placed);
}

static void make(tensor_t *tensor, const format_t *format, int n, int c, int h, int w,
                 unsigned seed)
{
    *tensor = (tensor_t){.format = *format, .c = c, .h = h, .w = w};
    tensor->count = (size_t)n * (size_t)c * (size_t)h * (size_t)w;
    tensor->values = malloc(tensor->count * sizeof *tensor->values);
    assert_non_null(tensor->values);
    client_random(format->type, seed, tensor->values, tensor->count);
    tensor->device =
        client_allocate(tensor->count * reference_type_bytes((reference_type_t)format->type), 0xff);
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&tensor->descriptor));
    CHECK_CUDNN(
        cudnnSetTensor4dDescriptor(tensor->descriptor, format->layout, format->type, n, c, h, w));
    put(tensor, tensor->values);
}

static void poison(tensor_t *tensor)
{
    CHECK_CUDA(
        cuMemsetD8((CUdeviceptr)(uintptr_t)tensor->device, 0xff,
                   tensor->count * reference_type_bytes((reference_type_t)tensor->format.type)));
}

/* What the device holds, against `wanted` in n c h w order. */
static void check(const tensor_t *tensor, const double *wanted)
{
    double *const found = malloc(tensor->count * sizeof *found);
    assert_non_null(found);
    client_download(tensor->format.type, tensor->device, tensor->count, found);
    for (size_t i = 0; i < tensor->count; i++) {
        const double value =
            found[place(tensor->format.layout, tensor->c, tensor->h, tensor->w, i)];
        if (!(fabs(value - wanted[i]) <= tensor->format.tolerance * fmax(1.0, fabs(wanted[i]))))
            print_error("element %zu is %.9g, wanted %.9g (type %d)\n", i, value, wanted[i],
                        (int)tensor->format.type);
        assert_true(fabs(value - wanted[i]) <=
                    tensor->format.tolerance * fmax(1.0, fabs(wanted[i])));
    }
    free(found);
}

static void drop(tensor_t *tensor)
{
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(tensor->descriptor));
    client_free(tensor->device);
    free(tensor->values);
}

/* alpha and beta in the type that the API wants for `format`. */
typedef union scaling {
    float narrow;
    double wide;
} scaling_t;

static scaling_t scaling(const format_t *format, double value)
{
    scaling_t result;
    if (format->type == CUDNN_DATA_DOUBLE)
        result.wide = value;
    else
        result.narrow = (float)value;
    return result;
}

static double activate(cudnnActivationMode_t mode, double coefficient, double x)
{
    switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case CUDNN_ACTIVATION_RELU:
        return fmax(x, 0.0);
    case CUDNN_ACTIVATION_TANH:
        return tanh(x);
    case CUDNN_ACTIVATION_CLIPPED_RELU:
        return fmin(fmax(x, 0.0), coefficient);
    case CUDNN_ACTIVATION_ELU:
        return x >= 0.0 ? x : coefficient * (exp(x) - 1.0);
    default:
        return x / (1.0 + exp(-x)); /* swish with beta 1 */
    }
}

static const cudnnActivationMode_t modes[] = {
    CUDNN_ACTIVATION_SIGMOID,      CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_TANH,
    CUDNN_ACTIVATION_CLIPPED_RELU, CUDNN_ACTIVATION_ELU,  CUDNN_ACTIVATION_SWISH};

static void activations_equal_their_formulas(void **state)
{
    (void)state;
    const double coefficient = 0.5;
    for (int f = 0; f < FORMATS; f++)
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            tensor_t x, y;
            double wanted[COUNT];
            cudnnActivationDescriptor_t activation;
            make(&x, &formats[f], N, C, H, W, 1);
            make(&y, &formats[f], N, C, H, W, 2);
            CHECK_CUDNN(cudnnCreateActivationDescriptor(&activation));
            CHECK_CUDNN(cudnnSetActivationDescriptor(activation, modes[m], CUDNN_NOT_PROPAGATE_NAN,
                                                     coefficient));
            const scaling_t alpha = scaling(&formats[f], 2.0), none = scaling(&formats[f], 0.0);
            const scaling_t beta = scaling(&formats[f], 0.5);
            CHECK_CUDNN(cudnnActivationForward(handle, activation, &alpha, x.descriptor, x.device,
                                               &beta, y.descriptor, y.device));
            for (int i = 0; i < COUNT; i++)
                wanted[i] = 2.0 * activate(modes[m], coefficient, x.values[i]) + 0.5 * y.values[i];
            check(&y, wanted);
            poison(&y);
            CHECK_CUDNN(cudnnActivationForward(handle, activation, &alpha, x.descriptor, x.device,
                                               &none, y.descriptor, y.device));
            for (int i = 0; i < COUNT; i++)
                wanted[i] = 2.0 * activate(modes[m], coefficient, x.values[i]);
            check(&y, wanted);
            CHECK_CUDNN(cudnnDestroyActivationDescriptor(activation));
            drop(&x);
            drop(&y);
        }
}

/* Backward is the slope: compared with a difference quotient, away from the kinks. */
static void activation_backward_is_the_slope(void **state)
{
    (void)state;
    const double coefficient = 0.5, step = 1e-6;
    const format_t *const format = &formats[4];
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        tensor_t x, y, dy, dx;
        double wanted[COUNT];
        cudnnActivationDescriptor_t activation;
        make(&x, format, N, C, H, W, 1);
        make(&y, format, N, C, H, W, 2);
        make(&dy, format, N, C, H, W, 3);
        make(&dx, format, N, C, H, W, 4);
        dx.format.tolerance = 1e-8;
        for (int i = 0; i < COUNT; i++)
            wanted[i] = activate(modes[m], coefficient, x.values[i]);
        put(&y, wanted);
        CHECK_CUDNN(cudnnCreateActivationDescriptor(&activation));
        CHECK_CUDNN(cudnnSetActivationDescriptor(activation, modes[m], CUDNN_NOT_PROPAGATE_NAN,
                                                 coefficient));
        const scaling_t alpha = scaling(format, 3.0), beta = scaling(format, 1.0);
        CHECK_CUDNN(cudnnActivationBackward(handle, activation, &alpha, y.descriptor, y.device,
                                            dy.descriptor, dy.device, x.descriptor, x.device, &beta,
                                            dx.descriptor, dx.device));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = dx.values[i] + 3.0 * dy.values[i] *
                                           (activate(modes[m], coefficient, x.values[i] + step) -
                                            activate(modes[m], coefficient, x.values[i] - step)) /
                                           (2.0 * step);
        check(&dx, wanted);
        CHECK_CUDNN(cudnnDestroyActivationDescriptor(activation));
        drop(&x);
        drop(&y);
        drop(&dy);
        drop(&dx);
    }
}

static void add_tensor_repeats_dimensions_of_one(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        tensor_t bias, image, c;
        double wanted[COUNT];
        make(&bias, &formats[f], 1, C, 1, 1, 1);
        make(&image, &formats[f], 1, 1, H, W, 2);
        make(&c, &formats[f], N, C, H, W, 3);
        const scaling_t alpha = scaling(&formats[f], -1.0), one = scaling(&formats[f], 1.0);
        CHECK_CUDNN(cudnnAddTensor(handle, &alpha, bias.descriptor, bias.device, &one, c.descriptor,
                                   c.device));
        CHECK_CUDNN(cudnnAddTensor(handle, &one, image.descriptor, image.device, &one, c.descriptor,
                                   c.device));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = c.values[i] - bias.values[i / (H * W) % C] + image.values[i % (H * W)];
        check(&c, wanted);
        drop(&bias);
        drop(&image);
        drop(&c);
    }
}

static double operate(cudnnOpTensorOp_t op, double a, double b)
{
    switch (op) {
    case CUDNN_OP_TENSOR_ADD:
        return a + b;
    case CUDNN_OP_TENSOR_MUL:
        return a * b;
    case CUDNN_OP_TENSOR_MIN:
        return a < b ? a : b;
    case CUDNN_OP_TENSOR_MAX:
        return a > b ? a : b;
    case CUDNN_OP_TENSOR_SQRT:
        return sqrt(a);
    default:
        return 1.0 - a;
    }
}

static void op_tensor_has_all_its_operations(void **state)
{
    (void)state;
    for (int op = CUDNN_OP_TENSOR_ADD; op <= CUDNN_OP_TENSOR_NOT; op++) {
        tensor_t a, b, c;
        double wanted[COUNT];
        cudnnOpTensorDescriptor_t descriptor;
        make(&a, &formats[0], N, C, H, W, 1);
        make(&b, &formats[0], 1, C, 1, 1, 2);
        make(&c, &formats[1], N, C, H, W, 3); /* another layout than its inputs */
        for (size_t i = 0; i < a.count; i++)
            a.values[i] = fabs(a.values[i]);
        put(&a, a.values);
        CHECK_CUDNN(cudnnCreateOpTensorDescriptor(&descriptor));
        CHECK_CUDNN(cudnnSetOpTensorDescriptor(descriptor, (cudnnOpTensorOp_t)op, CUDNN_DATA_FLOAT,
                                               CUDNN_PROPAGATE_NAN));
        const float alpha1 = 2.0f, alpha2 = -0.5f, beta = 0.25f;
        CHECK_CUDNN(cudnnOpTensor(handle, descriptor, &alpha1, a.descriptor, a.device, &alpha2,
                                  b.descriptor, b.device, &beta, c.descriptor, c.device));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = operate((cudnnOpTensorOp_t)op, 2.0 * a.values[i],
                                -0.5 * b.values[i / (H * W) % C]) +
                        0.25 * c.values[i];
        check(&c, wanted);
        CHECK_CUDNN(cudnnDestroyOpTensorDescriptor(descriptor));
        drop(&a);
        drop(&b);
        drop(&c);
    }
}

static void set_scale_and_transform_tensors(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++) {
        tensor_t x, y;
        double wanted[COUNT], seven = 7.0;
        char encoded[8];
        const format_t other = {formats[f].type,
                                formats[f].layout == CUDNN_TENSOR_NCHW ? CUDNN_TENSOR_NHWC
                                                                       : CUDNN_TENSOR_NCHW,
                                formats[f].tolerance};
        make(&x, &formats[f], N, C, H, W, 1);
        make(&y, &other, N, C, H, W, 2);
        const scaling_t alpha = scaling(&formats[f], 0.5), beta = scaling(&formats[f], 2.0);
        CHECK_CUDNN(cudnnTransformTensor(handle, &alpha, x.descriptor, x.device, &beta,
                                         y.descriptor, y.device));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = 0.5 * x.values[i] + 2.0 * y.values[i];
        check(&y, wanted);
        CHECK_CUDNN(cudnnScaleTensor(handle, x.descriptor, x.device, &alpha));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = 0.5 * x.values[i];
        check(&x, wanted);
        reference_encode((reference_type_t)formats[f].type, &seven, 1, encoded);
        CHECK_CUDNN(cudnnSetTensor(handle, x.descriptor, x.device, encoded));
        for (int i = 0; i < COUNT; i++)
            wanted[i] = 7.0;
        check(&x, wanted);
        drop(&x);
        drop(&y);
    }
}

/* Pooling ----------------------------------------------------------------------------------------
 */

typedef struct pooling {
    cudnnPoolingMode_t mode;
    int window[2], pad[2], stride[2];
} pooling_t;

static const pooling_t poolings[] = {
    {CUDNN_POOLING_MAX, {2, 2}, {0, 0}, {2, 2}},
    {CUDNN_POOLING_MAX_DETERMINISTIC, {3, 2}, {1, 1}, {2, 1}},
    {CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, {3, 3}, {1, 1}, {1, 2}},
    {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, {3, 3}, {1, 1}, {2, 2}},
};

static int pooled(const pooling_t *pooling, int axis, int extent)
{
    return 1 + (extent + 2 * pooling->pad[axis] - pooling->window[axis]) / pooling->stride[axis];
}

/* Forward value of the window at (h, w) of a plane; adds `slope` times its gradient to `gradient`.
 */
static double pool(const pooling_t *pooling, const double *plane, int h, int w, double slope,
                   double *gradient)
{
    const bool is_max =
        pooling->mode == CUDNN_POOLING_MAX || pooling->mode == CUDNN_POOLING_MAX_DETERMINISTIC;
    int best = -1, inside = 0;
    double sum = 0.0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < pooling->window[0] * pooling->window[1]; i++) {
            const int at_h = h * pooling->stride[0] - pooling->pad[0] + i / pooling->window[1];
            const int at_w = w * pooling->stride[1] - pooling->pad[1] + i % pooling->window[1];
            if (at_h < 0 || at_h >= H || at_w < 0 || at_w >= W)
                continue;
            const int at = at_h * W + at_w;
            if (pass == 0) {
                inside++;
                sum += plane[at];
                best = best < 0 || plane[at] > plane[best] ? at : best;
            } else if (!is_max) {
                gradient[at] +=
                    slope / (pooling->mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                                 ? inside
                                 : pooling->window[0] * pooling->window[1]);
            } else if (at == best) {
                gradient[at] += slope;
            }
        }
    if (is_max)
        return plane[best];
    return sum / (pooling->mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING
                      ? inside
                      : pooling->window[0] * pooling->window[1]);
}

static void check_pooling(const format_t *format, const pooling_t *pooling)
{
    const int out_h = pooled(pooling, 0, H), out_w = pooled(pooling, 1, W), plane = out_h * out_w;
    tensor_t x, y, dy, dx;
    int n, c, h, w;
    double wanted[2 * COUNT], gradient[COUNT] = {0};
    cudnnPoolingDescriptor_t descriptor;
    make(&x, format, N, C, H, W, 1);
    make(&dx, format, N, C, H, W, 2);
    make(&y, format, N, C, out_h, out_w, 3);
    make(&dy, format, N, C, out_h, out_w, 4);
    CHECK_CUDNN(cudnnCreatePoolingDescriptor(&descriptor));
    CHECK_CUDNN(cudnnSetPooling2dDescriptor(
        descriptor, pooling->mode, CUDNN_PROPAGATE_NAN, pooling->window[0], pooling->window[1],
        pooling->pad[0], pooling->pad[1], pooling->stride[0], pooling->stride[1]));
    CHECK_CUDNN(cudnnGetPooling2dForwardOutputDim(descriptor, x.descriptor, &n, &c, &h, &w));
    assert_true(n == N && c == C && h == out_h && w == out_w);
    const scaling_t one = scaling(format, 1.0), none = scaling(format, 0.0);
    const scaling_t half = scaling(format, 0.5);
    poison(&y);
    CHECK_CUDNN(cudnnPoolingForward(handle, descriptor, &one, x.descriptor, x.device, &none,
                                    y.descriptor, y.device));
    for (int i = 0; i < N * C * plane; i++)
        wanted[i] = pool(pooling, x.values + i / plane * H * W, i % plane / out_w, i % out_w,
                         dy.values[i], gradient + i / plane * H * W);
    check(&y, wanted);
    CHECK_CUDNN(cudnnPoolingBackward(handle, descriptor, &one, y.descriptor, y.device,
                                     dy.descriptor, dy.device, x.descriptor, x.device, &half,
                                     dx.descriptor, dx.device));
    for (int i = 0; i < COUNT; i++)
        gradient[i] += 0.5 * dx.values[i];
    check(&dx, gradient);
    CHECK_CUDNN(cudnnDestroyPoolingDescriptor(descriptor));
    drop(&x);
    drop(&y);
    drop(&dy);
    drop(&dx);
}

static void pooling_goes_forward_and_backward(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++)
        for (size_t p = 0; p < sizeof poolings / sizeof *poolings; p++)
            check_pooling(&formats[f], &poolings[p]);
}

static void pooling_in_three_dimensions_takes_the_largest(void **state)
{
    (void)state;
    const int in[] = {1, 2, 4, 4, 4}, packed[] = {128, 64, 16, 4, 1};
    const int window[] = {2, 2, 2}, pad[] = {0, 0, 0}, small[] = {16, 8, 4, 2, 1};
    int out[5];
    double values[128], found[16];
    cudnnTensorDescriptor_t x, y;
    cudnnPoolingDescriptor_t descriptor;
    for (int i = 0; i < 128; i++)
        values[i] = i;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&x));
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&y));
    CHECK_CUDNN(cudnnCreatePoolingDescriptor(&descriptor));
    CHECK_CUDNN(cudnnSetTensorNdDescriptor(x, CUDNN_DATA_FLOAT, 5, in, packed));
    CHECK_CUDNN(cudnnSetPoolingNdDescriptor(descriptor, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3,
                                            window, pad, window));
    CHECK_CUDNN(cudnnGetPoolingNdForwardOutputDim(descriptor, x, 5, out));
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 2 && out[3] == 2 && out[4] == 2);
    CHECK_CUDNN(cudnnSetTensorNdDescriptor(y, CUDNN_DATA_FLOAT, 5, out, small));
    void *const device_x = client_upload(CUDNN_DATA_FLOAT, values, 128);
    void *const device_y = client_allocate(16 * sizeof(float), 0xff);
    const float one = 1.0f, none = 0.0f;
    CHECK_CUDNN(cudnnPoolingForward(handle, descriptor, &one, x, device_x, &none, y, device_y));
    client_download(CUDNN_DATA_FLOAT, device_y, 16, found);
    for (int i = 0; i < 16; i++) /* the last corner of each cube */
        assert_true(found[i] == i / 8 * 64 + (i / 4 % 2 * 2 + 1) * 16 + (i / 2 % 2 * 2 + 1) * 4 +
                                    i % 2 * 2 + 1);
    client_free(device_x);
    client_free(device_y);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(x));
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(y));
    CHECK_CUDNN(cudnnDestroyPoolingDescriptor(descriptor));
}

/* Softmax ----------------------------------------------------------------------------------------
 */

/* Elements of the vector that element i belongs to, and the j-th of them. */
static int vector_element(cudnnSoftmaxMode_t mode, int i, int j)
{
    const int image = i / (C * H * W) * (C * H * W);
    return mode == CUDNN_SOFTMAX_MODE_INSTANCE ? image + j : image + j * H * W + i % (H * W);
}

static void softmax_reference(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode,
                              const double *x, const double *dy, double *y, double *dx)
{
    const int length = mode == CUDNN_SOFTMAX_MODE_INSTANCE ? C * H * W : C;
    for (int i = 0; i < COUNT; i++) {
        double sum = 0.0;
        for (int j = 0; j < length; j++)
            sum += exp(x[vector_element(mode, i, j)]);
        y[i] = exp(x[i]) / sum;
    }
    for (int i = 0; i < COUNT; i++) {
        double sum = 0.0;
        for (int j = 0; j < length; j++) {
            const int at = vector_element(mode, i, j);
            sum += algorithm == CUDNN_SOFTMAX_LOG ? dy[at] : dy[at] * y[at];
        }
        dx[i] = algorithm == CUDNN_SOFTMAX_LOG ? dy[i] - y[i] * sum : y[i] * (dy[i] - sum);
    }
    for (int i = 0; algorithm == CUDNN_SOFTMAX_LOG && i < COUNT; i++)
        y[i] = log(y[i]);
}

static void check_softmax(const format_t *format, cudnnSoftmaxAlgorithm_t algorithm,
                          cudnnSoftmaxMode_t mode)
{
    tensor_t x, y, dy, dx;
    double wanted_y[COUNT], wanted_dx[COUNT];
    make(&x, format, N, C, H, W, 1);
    make(&y, format, N, C, H, W, 2);
    make(&dy, format, N, C, H, W, 3);
    make(&dx, format, N, C, H, W, 4);
    y.format.tolerance = dx.format.tolerance = 4.0 * format->tolerance;
    poison(&y);
    softmax_reference(algorithm, mode, x.values, dy.values, wanted_y, wanted_dx);
    const scaling_t one = scaling(format, 1.0), none = scaling(format, 0.0);
    CHECK_CUDNN(cudnnSoftmaxForward(handle, algorithm, mode, &one, x.descriptor, x.device, &none,
                                    y.descriptor, y.device));
    check(&y, wanted_y);
    CHECK_CUDNN(cudnnSoftmaxBackward(handle, algorithm, mode, &one, y.descriptor, y.device,
                                     dy.descriptor, dy.device, &one, dx.descriptor, dx.device));
    for (int i = 0; i < COUNT; i++)
        wanted_dx[i] += dx.values[i];
    check(&dx, wanted_dx);
    drop(&x);
    drop(&y);
    drop(&dy);
    drop(&dx);
}

static void softmax_goes_forward_and_backward(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++)
        for (int algorithm = CUDNN_SOFTMAX_FAST; algorithm <= CUDNN_SOFTMAX_LOG; algorithm++)
            for (int mode = CUDNN_SOFTMAX_MODE_INSTANCE; mode <= CUDNN_SOFTMAX_MODE_CHANNEL; mode++)
                check_softmax(&formats[f], (cudnnSoftmaxAlgorithm_t)algorithm,
                              (cudnnSoftmaxMode_t)mode);
}

/* Batch normalization ----------------------------------------------------------------------------
 */

/* Element j of feature f: of all images and positions of a channel, or of all images. */
static int feature_element(bool per_activation, int f, int j)
{
    return per_activation ? j * C * H * W + f : j / (H * W) * C * H * W + f * H * W + j % (H * W);
}

typedef struct bn_case {
    bool per_activation;
    int features, elements;
    tensor_t x, y, dy, dx, scale, bias, mean, variance, saved_mean, saved_inverse, dscale, dbias;
} bn_case_t;

static void make_bn(bn_case_t *c, const format_t *format, bool per_activation)
{
    *c = (bn_case_t){.per_activation = per_activation,
                     .features = per_activation ? C * H * W : C,
                     .elements = per_activation ? N : N * H * W};
    tensor_t *const data[] = {&c->x, &c->y, &c->dy, &c->dx};
    tensor_t *const vectors[] = {&c->scale,      &c->bias,          &c->mean,   &c->variance,
                                 &c->saved_mean, &c->saved_inverse, &c->dscale, &c->dbias};
    for (unsigned i = 0; i < 4; i++)
        make(data[i], format, N, C, H, W, 10 + i);
    const format_t narrow = {format->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE
                                                               : CUDNN_DATA_FLOAT,
                             CUDNN_TENSOR_NCHW, 4.0 * format->tolerance};
    for (unsigned i = 0; i < 8; i++)
        make(vectors[i], &narrow, 1, C, per_activation ? H : 1, per_activation ? W : 1, 20 + i);
    c->y.format.tolerance = 4.0 * format->tolerance;
    c->dx.format.tolerance = 16.0 * format->tolerance;
    c->dscale.format.tolerance = 8.0 * format->tolerance;
}

static void drop_bn(bn_case_t *c)
{
    tensor_t *const all[] = {&c->x,      &c->y,    &c->dy,       &c->dx,         &c->scale,
                             &c->bias,   &c->mean, &c->variance, &c->saved_mean, &c->saved_inverse,
                             &c->dscale, &c->dbias};
    for (int i = 0; i < 12; i++)
        drop(all[i]);
}

enum { FEATURES_MAX = C * H * W };
static const double bn_epsilon = 0.01, bn_factor = 0.25;

typedef struct bn_expected {
    double y[COUNT], dx[COUNT], inference[COUNT];
    double mean[FEATURES_MAX], inverse[FEATURES_MAX], dscale[FEATURES_MAX], dbias[FEATURES_MAX];
    double running_mean[FEATURES_MAX], running_variance[FEATURES_MAX];
} bn_expected_t;

static void expect_statistics(const bn_case_t *c, int f, bn_expected_t *e)
{
    double variance = 0.0;
    e->mean[f] = 0.0;
    for (int j = 0; j < c->elements; j++)
        e->mean[f] += c->x.values[feature_element(c->per_activation, f, j)] / c->elements;
    for (int j = 0; j < c->elements; j++)
        variance += pow(c->x.values[feature_element(c->per_activation, f, j)] - e->mean[f], 2.0) /
                    c->elements;
    e->inverse[f] = 1.0 / sqrt(variance + bn_epsilon);
    e->running_mean[f] = (1.0 - bn_factor) * c->mean.values[f] + bn_factor * e->mean[f];
    e->running_variance[f] = (1.0 - bn_factor) * c->variance.values[f] +
                             bn_factor * variance * c->elements / (c->elements - 1);
}

/* Inference takes `mean` and `variance` for its estimates, training for its running ones. */
static void expect_bn(const bn_case_t *c, int f, bn_expected_t *e)
{
    expect_statistics(c, f, e);
    const double scale = c->scale.values[f], bias = c->bias.values[f];
    e->dscale[f] = e->dbias[f] = 0.0;
    for (int j = 0; j < c->elements; j++) {
        const int at = feature_element(c->per_activation, f, j);
        const double normal = (c->x.values[at] - e->mean[f]) * e->inverse[f];
        e->y[at] = scale * normal + bias;
        e->dscale[f] += c->dy.values[at] * normal;
        e->dbias[f] += c->dy.values[at];
        e->inference[at] = scale * (c->x.values[at] - c->mean.values[f]) /
                               sqrt(c->variance.values[f] + bn_epsilon) +
                           bias;
    }
    for (int j = 0; j < c->elements; j++) {
        const int at = feature_element(c->per_activation, f, j);
        const double normal = (c->x.values[at] - e->mean[f]) * e->inverse[f];
        e->dx[at] = 0.5 * c->dx.values[at] +
                    scale * e->inverse[f] *
                        (c->dy.values[at] - (e->dbias[f] + normal * e->dscale[f]) / c->elements);
    }
}

static void check_bn(const format_t *format, bool per_activation)
{
    const cudnnBatchNormMode_t mode =
        per_activation ? CUDNN_BATCHNORM_PER_ACTIVATION : CUDNN_BATCHNORM_SPATIAL;
    const scaling_t one = scaling(format, 1.0), none = scaling(format, 0.0),
                    half = scaling(format, 0.5);
    bn_case_t c;
    bn_expected_t e;
    cudnnTensorDescriptor_t derived;
    make_bn(&c, format, per_activation);
    for (int f = 0; f < c.features; f++) {
        c.variance.values[f] = fabs(c.variance.values[f]);
        expect_bn(&c, f, &e);
    }
    put(&c.variance, c.variance.values);
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&derived));
    CHECK_CUDNN(cudnnDeriveBNTensorDescriptor(derived, c.x.descriptor, mode));
    poison(&c.y);
    CHECK_CUDNN(cudnnBatchNormalizationForwardInference(
        handle, mode, &one, &none, c.x.descriptor, c.x.device, c.y.descriptor, c.y.device, derived,
        c.scale.device, c.bias.device, c.mean.device, c.variance.device, bn_epsilon));
    check(&c.y, e.inference);
    poison(&c.y);
    CHECK_CUDNN(cudnnBatchNormalizationForwardTraining(
        handle, mode, &one, &none, c.x.descriptor, c.x.device, c.y.descriptor, c.y.device, derived,
        c.scale.device, c.bias.device, bn_factor, c.mean.device, c.variance.device, bn_epsilon,
        c.saved_mean.device, c.saved_inverse.device));
    check(&c.y, e.y);
    check(&c.mean, e.running_mean);
    check(&c.variance, e.running_variance);
    check(&c.saved_mean, e.mean);
    check(&c.saved_inverse, e.inverse);
    poison(&c.dscale);
    poison(&c.dbias);
    CHECK_CUDNN(cudnnBatchNormalizationBackward(
        handle, mode, &one, &half, &one, &none, c.x.descriptor, c.x.device, c.dy.descriptor,
        c.dy.device, c.dx.descriptor, c.dx.device, derived, c.scale.device, c.dscale.device,
        c.dbias.device, bn_epsilon, c.saved_mean.device, c.saved_inverse.device));
    check(&c.dx, e.dx);
    check(&c.dscale, e.dscale);
    check(&c.dbias, e.dbias);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(derived));
    drop_bn(&c);
}

static void batch_normalization_trains_and_infers(void **state)
{
    (void)state;
    for (int f = 0; f < FORMATS; f++)
        for (int per_activation = 0; per_activation < 2; per_activation++)
            check_bn(&formats[f], per_activation);
}

/* Dropout ----------------------------------------------------------------------------------------
 */

static void dropout_drops_its_share_and_backward_drops_the_same(void **state)
{
    (void)state;
    const format_t *const format = &formats[1];
    tensor_t x, y, dy, dx;
    double kept[4096], first[4096], again[4096], slope[4096];
    size_t state_bytes, reserve_bytes;
    int dropped = 0;
    cudnnDropoutDescriptor_t dropout;
    make(&x, format, 4, 16, 8, 8, 1);
    make(&y, format, 4, 16, 8, 8, 2);
    make(&dy, format, 4, 16, 8, 8, 3);
    make(&dx, format, 4, 16, 8, 8, 4);
    assert_int_equal(x.count, 4096);
    CHECK_CUDNN(cudnnCreateDropoutDescriptor(&dropout));
    CHECK_CUDNN(cudnnDropoutGetStatesSize(handle, &state_bytes));
    CHECK_CUDNN(cudnnDropoutGetReserveSpaceSize(x.descriptor, &reserve_bytes));
    void *const states = client_allocate(state_bytes, 0xff);
    void *const reserve = client_allocate(reserve_bytes, 0xff);
    CHECK_CUDNN(cudnnSetDropoutDescriptor(dropout, handle, 0.25f, states, state_bytes, 42));
    CHECK_CUDNN(cudnnDropoutForward(handle, dropout, x.descriptor, x.device, y.descriptor, y.device,
                                    reserve, reserve_bytes));
    CHECK_CUDNN(cudnnDropoutBackward(handle, dropout, dy.descriptor, dy.device, dx.descriptor,
                                     dx.device, reserve, reserve_bytes));
    client_download(format->type, y.device, 4096, first);
    client_download(format->type, dx.device, 4096, slope);
    client_download(format->type, x.device, 4096, kept);
    for (int i = 0; i < 4096; i++) {
        dropped += first[i] == 0.0;
        assert_int_equal(first[i] == 0.0, slope[i] == 0.0);
        assert_true(first[i] == 0.0 || fabs(first[i] - kept[i] / 0.75) < 1e-6);
    }
    assert_in_range(dropped, 1024 - 150, 1024 + 150);
    CHECK_CUDNN(cudnnDropoutForward(handle, dropout, x.descriptor, x.device, y.descriptor, y.device,
                                    reserve, reserve_bytes));
    client_download(format->type, y.device, 4096, again);
    assert_memory_not_equal(first, again, sizeof first);
    CHECK_CUDNN(cudnnSetDropoutDescriptor(dropout, handle, 0.25f, states, state_bytes, 42));
    CHECK_CUDNN(cudnnDropoutForward(handle, dropout, x.descriptor, x.device, y.descriptor, y.device,
                                    reserve, reserve_bytes));
    client_download(format->type, y.device, 4096, again);
    assert_memory_equal(first, again, sizeof first);
    CHECK_STATUS(cudnnDropoutForward(handle, dropout, x.descriptor, x.device, y.descriptor,
                                     y.device, reserve, 4095),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_CUDNN(cudnnDestroyDropoutDescriptor(dropout));
    client_free(states);
    client_free(reserve);
    drop(&x);
    drop(&y);
    drop(&dy);
    drop(&dx);
}

/* Descriptors ------------------------------------------------------------------------------------
 */

static void tensor_descriptors_keep_what_they_are_given(void **state)
{
    (void)state;
    cudnnTensorDescriptor_t t;
    cudnnDataType_t type;
    int v[8], count, dims[8], strides[8];
    size_t bytes;
    CHECK_CUDNN(cudnnCreateTensorDescriptor(&t));
    CHECK_CUDNN(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NHWC, CUDNN_DATA_HALF, 2, 3, 4, 5));
    CHECK_CUDNN(cudnnGetTensor4dDescriptor(t, &type, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
                                           &v[6], &v[7]));
    assert_memory_equal(v, ((int[]){2, 3, 4, 5, 60, 1, 15, 3}), sizeof v);
    assert_int_equal(type, CUDNN_DATA_HALF);
    CHECK_CUDNN(cudnnSetTensor4dDescriptorEx(t, CUDNN_DATA_FLOAT, 4, 2, 3, 3, 100, 9, 3, 1));
    CHECK_CUDNN(cudnnGetTensorSizeInBytes(t, &bytes));
    assert_int_equal(bytes, 1272); /* the last element ends there; cuDNN 9.19 says the same */
    CHECK_CUDNN(cudnnSetTensorNdDescriptorEx(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_DOUBLE, 5,
                                             (const int[]){2, 3, 4, 5, 6}));
    CHECK_CUDNN(cudnnGetTensorNdDescriptor(t, 3, &type, &count, dims, strides));
    assert_int_equal(count, 5);
    assert_memory_equal(dims, ((int[]){2, 3, 4}), 3 * sizeof(int));
    assert_memory_equal(strides, ((int[]){360, 120, 30}), 3 * sizeof(int));
    CHECK_STATUS(cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 1, 1, 1),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(
        cudnnSetTensor4dDescriptor(t, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 65536, 256, 256, 1),
        CUDNN_STATUS_NOT_SUPPORTED);
    CHECK_STATUS(cudnnSetTensor4dDescriptor(NULL, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, 1),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_CUDNN(cudnnDestroyTensorDescriptor(t));
}

static void filter_and_convolution_descriptors_keep_what_they_are_given(void **state)
{
    (void)state;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t convolution;
    cudnnDataType_t type;
    cudnnTensorFormat_t format;
    cudnnConvolutionMode_t mode;
    cudnnMathType_t math;
    int v[6], count, groups, dims[8];
    size_t bytes;
    CHECK_CUDNN(cudnnCreateFilterDescriptor(&filter));
    CHECK_CUDNN(
        cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_NHWC, 2, 3, 4, 5));
    CHECK_CUDNN(cudnnGetFilterNdDescriptor(filter, 8, &type, &format, &count, dims));
    assert_true(type == CUDNN_DATA_BFLOAT16 && format == CUDNN_TENSOR_NHWC && count == 4);
    assert_memory_equal(dims, ((int[]){2, 3, 4, 5}), 4 * sizeof(int));
    CHECK_CUDNN(cudnnGetFilterSizeInBytes(filter, &bytes));
    assert_int_equal(bytes, 240);
    CHECK_CUDNN(cudnnCreateConvolutionDescriptor(&convolution));
    CHECK_CUDNN(cudnnSetConvolution2dDescriptor(convolution, 1, 2, 3, 4, 5, 6, CUDNN_CONVOLUTION,
                                                CUDNN_DATA_FLOAT));
    CHECK_CUDNN(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
    CHECK_CUDNN(cudnnSetConvolutionGroupCount(convolution, 7));
    CHECK_CUDNN(cudnnGetConvolution2dDescriptor(convolution, &v[0], &v[1], &v[2], &v[3], &v[4],
                                                &v[5], &mode, &type));
    assert_memory_equal(v, ((int[]){1, 2, 3, 4, 5, 6}), sizeof v);
    assert_true(mode == CUDNN_CONVOLUTION && type == CUDNN_DATA_FLOAT);
    CHECK_CUDNN(cudnnGetConvolutionMathType(convolution, &math));
    CHECK_CUDNN(cudnnGetConvolutionGroupCount(convolution, &groups));
    assert_true(math == CUDNN_FMA_MATH && groups == 7);
    CHECK_STATUS(cudnnSetConvolution2dDescriptor(convolution, -1, 0, 1, 1, 1, 1, CUDNN_CONVOLUTION,
                                                 CUDNN_DATA_FLOAT),
                 CUDNN_STATUS_BAD_PARAM);
    CHECK_STATUS(cudnnSetConvolutionGroupCount(convolution, 0), CUDNN_STATUS_BAD_PARAM);
    CHECK_CUDNN(cudnnDestroyFilterDescriptor(filter));
    CHECK_CUDNN(cudnnDestroyConvolutionDescriptor(convolution));
}

static void the_handle_keeps_its_stream_and_names_itself(void **state)
{
    (void)state;
    CUstream stream;
    cudaStream_t found;
    int major, minor, patch;
    char text[128];
    assert_int_equal(cudnnGetVersion(), 91900);
    CHECK_CUDNN(cudnnGetProperty(MAJOR_VERSION, &major));
    CHECK_CUDNN(cudnnGetProperty(MINOR_VERSION, &minor));
    CHECK_CUDNN(cudnnGetProperty(PATCH_LEVEL, &patch));
    assert_true(major == 9 && minor == 19 && patch == 0);
    assert_string_equal(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED),
                        "CUDNN_STATUS_NOT_SUPPORTED");
    CHECK_CUDA(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK_CUDNN(cudnnSetStream(handle, (cudaStream_t)stream));
    CHECK_CUDNN(cudnnGetStream(handle, &found));
    assert_ptr_equal(found, stream);
    CHECK_CUDNN(cudnnSetStream(handle, NULL));
    CHECK_CUDA(cuStreamDestroy(stream));
    CHECK_STATUS(cudnnSetStream(NULL, NULL), CUDNN_STATUS_BAD_PARAM);
    cudnnGetLastErrorString(text, sizeof text);
    assert_non_null(strstr(text, "CUDNN_STATUS_BAD_PARAM"));
}

static int create_handle(void **state)
{
    (void)state;
    return cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS;
}

static int destroy_handle(void **state)
{
    (void)state;
    return cudnnDestroy(handle) != CUDNN_STATUS_SUCCESS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_equal_their_formulas),
        cmocka_unit_test(activation_backward_is_the_slope),
        cmocka_unit_test(add_tensor_repeats_dimensions_of_one),
        cmocka_unit_test(op_tensor_has_all_its_operations),
        cmocka_unit_test(set_scale_and_transform_tensors),
        cmocka_unit_test(pooling_goes_forward_and_backward),
        cmocka_unit_test(pooling_in_three_dimensions_takes_the_largest),
        cmocka_unit_test(softmax_goes_forward_and_backward),
        cmocka_unit_test(batch_normalization_trains_and_infers),
        cmocka_unit_test(dropout_drops_its_share_and_backward_drops_the_same),
        cmocka_unit_test(tensor_descriptors_keep_what_they_are_given),
        cmocka_unit_test(filter_and_convolution_descriptors_keep_what_they_are_given),
        cmocka_unit_test(the_handle_keeps_its_stream_and_names_itself),
    };
    return cmocka_run_group_tests(tests, create_handle, destroy_handle);
}
