#include "test/reference_convolution.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

void reference_pack(reference_tensor_t *tensor, bool channels_last)
{
    long next = channels_last ? tensor->dims[1] : 1;
    for (int i = REFERENCE_DIMS - 1; i >= 2; i--) {
        tensor->strides[i] = next;
        next *= tensor->dims[i];
    }
    tensor->strides[1] = channels_last ? 1 : next;
    tensor->strides[0] = channels_last ? next : next * tensor->dims[1];
}

size_t reference_span(const reference_tensor_t *tensor)
{
    long last = 0;
    for (int i = 0; i < REFERENCE_DIMS; i++)
        last += (tensor->dims[i] - 1) * tensor->strides[i];
    return (size_t)last + 1;
}

/* `element` counts in row-major order of the dimensions. */
static long offset_of(const reference_tensor_t *tensor, long element, int at[REFERENCE_DIMS])
{
    long offset = 0;
    for (int i = REFERENCE_DIMS - 1; i >= 0; i--) {
        at[i] = (int)(element % tensor->dims[i]);
        element /= tensor->dims[i];
        offset += at[i] * tensor->strides[i];
    }
    return offset;
}

static long elements_of(const reference_tensor_t *tensor)
{
    long elements = 1;
    for (int i = 0; i < REFERENCE_DIMS; i++)
        elements *= tensor->dims[i];
    return elements;
}

/* Taps of one dimension whose input lies within it, for one place of the window. */
typedef struct taps {
    int count;
    long from, step;          /* offset in x of the first, and from one to the next */
    long filter, filter_step; /* likewise in w */
} taps_t;

static taps_t taps_of(const reference_convolution_t *c, int i, int at)
{
    const int begin = at * c->stride[i] - c->pad[i], all = c->w.dims[2 + i];
    const int dilation = c->dilation[i];
    const long step = c->w.strides[2 + i];
    int first = 0, end = all;
    while (first < end && begin + first * dilation < 0)
        first++;
    while (first < end && begin + (end - 1) * dilation >= c->x.dims[2 + i])
        end--;
    return (taps_t){.count = end - first,
                    .from = (begin + first * dilation) * c->x.strides[2 + i],
                    .step = dilation * c->x.strides[2 + i],
                    .filter = (c->flip ? all - 1 - first : first) * step,
                    .filter_step = c->flip ? -step : step};
}

static inline void add_row(reference_direction_t direction, const taps_t *taps, double *x,
                           double *w, double *y)
{
    for (int i = 0; i < taps->count; i++) {
        double *const at_x = x + i * taps->step;
        double *const at_w = w + i * taps->filter_step;
        if (direction == REFERENCE_FORWARD)
            *y += *at_x * *at_w;
        else if (direction == REFERENCE_BACKWARD_DATA)
            *at_x += *y * *at_w;
        else
            *at_w += *at_x * *y;
    }
}

/* Products of one output element with the filter elements of output channel at[1]. */
static inline void visit_window(const reference_convolution_t *c, reference_direction_t direction,
                                const int at[REFERENCE_DIMS], double *x, double *w, double *y)
{
    const int k = at[1], channels = c->w.dims[1];
    const int first = k / (c->y.dims[1] / c->groups) * channels;
    const taps_t deep = taps_of(c, 0, at[2]), high = taps_of(c, 1, at[3]),
                 wide = taps_of(c, 2, at[4]);
    const long from =
        at[0] * c->x.strides[0] + first * c->x.strides[1] + deep.from + high.from + wide.from;
    const long filter = k * c->w.strides[0] + deep.filter + high.filter + wide.filter;
    if (deep.count <= 0 || high.count <= 0)
        return;
    for (int channel = 0; channel < channels; channel++)
        for (int i = 0; i < deep.count; i++)
            for (int j = 0; j < high.count; j++)
                add_row(direction, &wide,
                        x + from + channel * c->x.strides[1] + i * deep.step + j * high.step,
                        w + filter + channel * c->w.strides[1] + i * deep.filter_step +
                            j * high.filter_step,
                        y);
}

static inline void visit_products(const reference_convolution_t *convolution,
                                  reference_direction_t direction, double *x, double *w, double *y)
{
    int at[REFERENCE_DIMS];
    for (long element = 0; element < elements_of(&convolution->y); element++) {
        double *const out = y + offset_of(&convolution->y, element, at);
        visit_window(convolution, direction, at, x, w, out);
    }
}

/* The sum of products is scaled by alpha afterwards, so beta is divided by it first: exact enough
 * for a reference, except for an alpha of 0, which leaves beta * out alone. */
static void scale(const reference_tensor_t *tensor, double factor, double *values)
{
    int at[REFERENCE_DIMS];
    for (long element = 0; element < elements_of(tensor); element++) {
        double *const value = values + offset_of(tensor, element, at);
        *value = factor == 0.0 ? 0.0 : *value * factor;
    }
}

void reference_convolution(const reference_convolution_t *convolution, double alpha, double beta,
                           double *x, double *w, double *y)
{
    double *const outs[] = {y, x, w};
    const reference_tensor_t *const tensors[] = {&convolution->y, &convolution->x, &convolution->w};
    const reference_direction_t direction = convolution->direction;
    if (alpha == 0.0) {
        scale(tensors[direction], beta, outs[direction]);
        return;
    }
    scale(tensors[direction], beta / alpha, outs[direction]);
    if (direction == REFERENCE_FORWARD)
        visit_products(convolution, REFERENCE_FORWARD, x, w, y);
    else if (direction == REFERENCE_BACKWARD_DATA)
        visit_products(convolution, REFERENCE_BACKWARD_DATA, x, w, y);
    else
        visit_products(convolution, REFERENCE_BACKWARD_FILTER, x, w, y);
    scale(tensors[direction], alpha, outs[direction]);
}

double reference_relative_l2(const reference_tensor_t *tensor, const double *expected,
                             const double *actual)
{
    double difference = 0.0, norm = 0.0;
    int at[REFERENCE_DIMS];
    for (long element = 0; element < elements_of(tensor); element++) {
        const long offset = offset_of(tensor, element, at);
        if (!isfinite(actual[offset]) || !isfinite(expected[offset]))
            return HUGE_VAL;
        difference += (actual[offset] - expected[offset]) * (actual[offset] - expected[offset]);
        norm += expected[offset] * expected[offset];
    }
    return sqrt(norm > 0.0 ? difference / norm : difference);
}

size_t reference_type_bytes(reference_type_t type)
{
    return type == REFERENCE_FLOAT ? 4 : type == REFERENCE_DOUBLE ? 8 : 2;
}

/* 2^exponent, a normal number. ldexp takes most of the time of a conversion. */
static double power_of_two(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* A 16-bit format with `fraction_bits` of fraction. Written from the definition of the formats,
 * with no bit tricks about them, so that it can check code that has them. */
static uint16_t encode16(double value, int fraction_bits)
{
    const int bias = (1 << (14 - fraction_bits)) - 1;
    const uint16_t sign = (uint16_t)(signbit(value) ? 0x8000 : 0);
    const int top = (1 << (15 - fraction_bits)) - 1; /* exponent of infinity and NaN */
    const uint16_t infinity = (uint16_t)(sign | top << fraction_bits);
    if (isnan(value))
        return (uint16_t)(infinity | 1 << (fraction_bits - 1));
    int exponent;
    frexp(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    const int lowest = 1 - bias;
    const int place = value != 0.0 && exponent - 1 > lowest ? exponent - 1 : lowest;
    const double units = nearbyint(fabs(value) * power_of_two(fraction_bits - place));
    if (isinf(value) || units * power_of_two(place - fraction_bits) >= power_of_two(bias + 1))
        return infinity;
    /* A carry out of the fraction moves into the exponent by itself. */
    return (uint16_t)(sign | (((unsigned)(place - lowest) << fraction_bits) + (unsigned)units));
}

static double decode16(uint16_t bits, int fraction_bits)
{
    const int bias = (1 << (14 - fraction_bits)) - 1;
    const int top = (1 << (15 - fraction_bits)) - 1;
    const int exponent = bits >> fraction_bits & top, fraction = bits & ((1 << fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == top)
        return fraction ? NAN : sign * HUGE_VAL;
    if (exponent == 0)
        return sign * fraction * power_of_two(1 - bias - fraction_bits);
    return sign * (fraction + (1 << fraction_bits)) * power_of_two(exponent - bias - fraction_bits);
}

static int fraction_bits_of(reference_type_t type)
{
    return type == REFERENCE_HALF ? 10 : 7;
}

void reference_encode(reference_type_t type, const double *values, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++)
        if (type == REFERENCE_FLOAT)
            ((float *)out)[i] = (float)values[i];
        else if (type == REFERENCE_DOUBLE)
            ((double *)out)[i] = values[i];
        else
            ((uint16_t *)out)[i] = encode16(values[i], fraction_bits_of(type));
}

void reference_decode(reference_type_t type, const void *elements, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++)
        if (type == REFERENCE_FLOAT)
            out[i] = (double)((const float *)elements)[i];
        else if (type == REFERENCE_DOUBLE)
            out[i] = ((const double *)elements)[i];
        else
            out[i] = decode16(((const uint16_t *)elements)[i], fraction_bits_of(type));
}

double reference_random(unsigned long long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (double)(*state >> 11) * 0x1p-52 - 1.0;
}
