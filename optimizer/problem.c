/* Identity and description of a convolution problem. */
#include "optimizer/problem.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Hash and equality read the struct as bytes. */
_Static_assert(sizeof(mdnn_problem_tensor_t) == 14 * sizeof(int32_t), "padding in a tensor");
_Static_assert(sizeof(mdnn_problem_pointwise_t) == 4 * sizeof(int32_t) + 5 * sizeof(int64_t),
               "padding in a pointwise operation");
_Static_assert(sizeof(mdnn_problem_t) ==
                   (2 + 5 * 14 + 26) * sizeof(int32_t) + 3 * sizeof(int64_t) +
                       MDNN_PROBLEM_POINTWISE * sizeof(mdnn_problem_pointwise_t),
               "padding in a problem");

void mdnn_problem_init(mdnn_problem_t *problem)
{
    memset(problem, 0, sizeof *problem);
    problem->activation_mode = -1;
    problem->interfaces = MDNN_INTERFACE_LEGACY;
}

mdnn_alpha_class_t mdnn_alpha_class(double alpha)
{
    if (alpha == 1)
        return MDNN_ALPHA_ONE;
    return alpha >= -1 && alpha < 1 ? MDNN_ALPHA_SHRINKS : MDNN_ALPHA_ENLARGES;
}

enum { TYPE_HALF = 2 }; /* of cudnnDataType_t */

bool mdnn_problem_parts_may_add_up(const mdnn_problem_t *problem)
{
    return problem->direction != MDNN_BACKWARD_FILTER ||
           (problem->w.type != TYPE_HALF && problem->alpha_class != MDNN_ALPHA_ENLARGES);
}

uint64_t mdnn_problem_hash(const mdnn_problem_t *problem)
{
    return XXH3_64bits(problem, sizeof *problem);
}

bool mdnn_problem_equal(const mdnn_problem_t *a, const mdnn_problem_t *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

typedef struct line {
    char *buffer;
    size_t bytes;
    size_t used; /* == bytes once it is full */
} line_t;

__attribute__((format(printf, 2, 3))) static void add(line_t *line, const char *format, ...)
{
    if (line->used >= line->bytes)
        return;
    const size_t left = line->bytes - line->used;
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(line->buffer + line->used, left, format, arguments);
    va_end(arguments);
    line->used =
        written < 0 || (size_t)written >= left ? line->bytes : line->used + (size_t)written;
}

/* The names are cuDNN's; a number without a name here is shown as it is. */
static void add_name(line_t *line, const char *what, const char *const *names, size_t count,
                     int32_t number)
{
    const bool known = number >= 0 && (size_t)number < count && names[number];
    if (known)
        add(line, " %s%s", what, names[number]);
    else
        add(line, " %s%" PRId32, *what ? what : "#", number);
}
#define ADD_NAME(line, what, names, number)                                                        \
    add_name((line), (what), (names), sizeof(names) / sizeof *(names), (number))

static const char *const DIRECTIONS[] = {"forward", "backward_data", "backward_filter",
                                         "bias_activation_forward"};
static const char *const TYPES[] = {[0] = "float", [1] = "double", [2] = "half", [9] = "bfloat16"};
static const char *const MATHS[] = {"default", "tensor_op", "tensor_op_allow_conversion", "fma"};
static const char *const ACTIVATIONS[] = {"sigmoid", "relu",     "tanh", "clipped_relu",
                                          "elu",     "identity", "swish"};

/* cudnnPointwiseMode_t */
static const char *const POINTWISE[] = {
    [0] = "add",    [100] = "relu",     [101] = "tanh",  [102] = "sigmoid",         [103] = "elu",
    [104] = "gelu", [105] = "softplus", [106] = "swish", [107] = "gelu_approximate"};

static int dims_of(const mdnn_problem_tensor_t *tensor)
{
    if (tensor->dim_count < 0)
        return 0;
    return tensor->dim_count < MDNN_PROBLEM_DIMS ? tensor->dim_count : MDNN_PROBLEM_DIMS;
}

static void add_dims(line_t *line, const int32_t *dims, int count)
{
    for (int i = 0; i < count; i++)
        add(line, "%s%" PRId32, i ? "x" : "", dims[i]);
}

/* "pad 2", or "pad 2x1" where the dimensions differ; nothing if all have the default. */
static void add_spatial(line_t *line, const char *name, const int32_t *values, int count,
                        int32_t standard)
{
    bool all_default = true, all_equal = true;
    for (int i = 0; i < count; i++) {
        all_default = all_default && values[i] == standard;
        all_equal = all_equal && values[i] == values[0];
    }
    if (all_default)
        return;
    add(line, " %s ", name);
    add_dims(line, values, all_equal ? 1 : count);
}

/* Whether the strides are those of dense memory with `order[0]` the outermost dimension. The stride
 * of a dimension of one element says nothing. */
static bool is_packed(const mdnn_problem_tensor_t *tensor, const int *order)
{
    int64_t expected = 1;
    for (int i = dims_of(tensor); i-- > 0;) {
        if (tensor->dims[order[i]] != 1 && tensor->strides[order[i]] != expected)
            return false;
        expected *= tensor->dims[order[i]];
    }
    return true;
}

static const char *layout_of(const mdnn_problem_tensor_t *tensor)
{
    static const int CHANNELS_SECOND[] = {0, 1, 2, 3, 4};
    static const int CHANNELS_LAST_2D[] = {0, 2, 3, 1};
    static const int CHANNELS_LAST_3D[] = {0, 2, 3, 4, 1};
    const bool three = tensor->dim_count == 5;

    if (tensor->dim_count < 4 || tensor->dim_count > 5)
        return "strided";
    if (is_packed(tensor, CHANNELS_SECOND))
        return three ? "ncdhw" : "nchw";
    if (is_packed(tensor, three ? CHANNELS_LAST_3D : CHANNELS_LAST_2D))
        return three ? "ndhwc" : "nhwc";
    return "strided";
}

void mdnn_problem_format(const mdnn_problem_t *problem, char *buffer, size_t bytes)
{
    line_t line = {buffer, bytes, 0};
    const int spatial = problem->spatial_dims == 3 ? 3 : 2;

    if (bytes == 0)
        return;
    buffer[0] = '\0';
    if (problem->direction >= 0 && problem->direction < MDNN_DIRECTION_COUNT)
        add(&line, "%s ", DIRECTIONS[problem->direction]);
    else
        add(&line, "direction #%" PRId32 " ", problem->direction);
    add_dims(&line, problem->x.dims, dims_of(&problem->x));
    add(&line, " * ");
    add_dims(&line, problem->w.dims, dims_of(&problem->w));
    add_spatial(&line, "pad", problem->pad, spatial, 0);
    add_spatial(&line, "stride", problem->stride, spatial, 1);
    add_spatial(&line, "dilation", problem->dilation, spatial, 1);
    if (problem->groups != 1)
        add(&line, " groups %" PRId32, problem->groups);
    if (problem->mode == 0)
        add(&line, " flipped"); /* CUDNN_CONVOLUTION; networks use CROSS_CORRELATION */
    ADD_NAME(&line, "", TYPES, problem->x.type);
    if (problem->compute_type != problem->x.type)
        ADD_NAME(&line, "compute ", TYPES, problem->compute_type);
    add(&line, " %s", layout_of(&problem->x));
    if (problem->math_type != 0)
        ADD_NAME(&line, "math ", MATHS, problem->math_type);
    if (problem->direction == MDNN_BIAS_ACTIVATION_FORWARD && problem->pointwise_count == 0)
        ADD_NAME(&line, "activation ", ACTIVATIONS, problem->activation_mode);
    for (int i = 0; i < problem->pointwise_count && i < MDNN_PROBLEM_POINTWISE; i++)
        ADD_NAME(&line, "then ", POINTWISE, problem->pointwise[i].mode);
    if (!problem->beta_is_zero)
        add(&line, " beta");
}
