/* Identity and description of problems. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/problem.h"
#include "test/unit/cases.h"

static void set_packed(mdnn_problem_tensor_t *tensor, int count, const int32_t *dims,
                       const int *order)
{
    int32_t stride = 1;
    tensor->dim_count = count;
    for (int i = 0; i < count; i++)
        tensor->dims[i] = dims[i];
    for (int i = count; i-- > 0;) {
        tensor->strides[order[i]] = stride;
        stride *= dims[order[i]];
    }
}

static const int NCHW[] = {0, 1, 2, 3, 4};
static const int NHWC[] = {0, 2, 3, 1};
static const int NDHWC[] = {0, 2, 3, 4, 1};

static mdnn_problem_t alexnet_conv2(const int *order)
{
    mdnn_problem_t problem;
    memset(&problem, 0, sizeof problem);
    set_packed(&problem.x, 4, (const int32_t[]){256, 64, 27, 27}, order);
    set_packed(&problem.w, 4, (const int32_t[]){192, 64, 5, 5}, NCHW);
    set_packed(&problem.y, 4, (const int32_t[]){256, 192, 27, 27}, order);
    problem.spatial_dims = 2;
    problem.groups = 1;
    problem.mode = 1;
    problem.beta_is_zero = 1;
    problem.alpha_class = MDNN_ALPHA_ONE;
    problem.activation_mode = -1;
    for (int i = 0; i < 3; i++)
        problem.stride[i] = problem.dilation[i] = 1;
    problem.pad[0] = problem.pad[1] = 2;
    return problem;
}

static void assert_format(const mdnn_problem_t *problem, const char *expected)
{
    char text[256];
    mdnn_problem_format(problem, text, sizeof text);
    assert_string_equal(text, expected);
}

CASE(every_byte_counts_in_hash_and_equality)
{
    const mdnn_problem_t problem = alexnet_conv2(NCHW);
    assert_true(mdnn_problem_equal(&problem, &problem));
    for (size_t i = 0; i < sizeof problem; i++) {
        mdnn_problem_t other = problem;
        ((unsigned char *)&other)[i] ^= 1;
        assert_false(mdnn_problem_equal(&problem, &other));
        assert_true(mdnn_problem_hash(&problem) != mdnn_problem_hash(&other));
    }
}

CASE(a_plain_problem_shows_shapes_type_and_layout)
{
    mdnn_problem_t problem = alexnet_conv2(NCHW);
    assert_format(&problem, "forward 256x64x27x27 * 192x64x5x5 pad 2 float nchw");
    problem.direction = MDNN_BACKWARD_DATA;
    assert_format(&problem, "backward_data 256x64x27x27 * 192x64x5x5 pad 2 float nchw");
    problem.direction = MDNN_BACKWARD_FILTER;
    problem.beta_is_zero = 0;
    assert_format(&problem, "backward_filter 256x64x27x27 * 192x64x5x5 pad 2 float nchw beta");
}

CASE(what_differs_from_the_default_is_shown)
{
    mdnn_problem_t problem = alexnet_conv2(NHWC);
    problem.pad[1] = 1;
    problem.stride[0] = problem.stride[1] = 2;
    problem.dilation[0] = problem.dilation[1] = 3;
    problem.groups = 4;
    problem.x.type = 2;
    problem.math_type = 1;
    assert_format(&problem,
                  "forward 256x64x27x27 * 192x64x5x5 pad 2x1 stride 2 dilation 3 groups 4 "
                  "half compute float nhwc math tensor_op");
    problem.mode = 0;
    problem.x.type = problem.compute_type = 9;
    problem.math_type = 3;
    assert_format(&problem,
                  "forward 256x64x27x27 * 192x64x5x5 pad 2x1 stride 2 dilation 3 groups 4 "
                  "flipped bfloat16 nhwc math fma");
}

CASE(unknown_numbers_are_shown_as_numbers)
{
    mdnn_problem_t problem = alexnet_conv2(NCHW);
    problem.direction = 77;
    problem.x.type = 5;
    problem.compute_type = -1;
    problem.math_type = 12;
    assert_format(&problem,
                  "direction #77 256x64x27x27 * 192x64x5x5 pad 2 #5 compute -1 nchw math 12");
}

CASE(layouts_are_recognised_from_strides)
{
    mdnn_problem_t problem = alexnet_conv2(NCHW);
    problem.x.strides[0] += 8;
    assert_format(&problem, "forward 256x64x27x27 * 192x64x5x5 pad 2 float strided");

    set_packed(&problem.x, 5, (const int32_t[]){8, 16, 4, 9, 9}, NCHW);
    set_packed(&problem.w, 5, (const int32_t[]){32, 16, 3, 3, 3}, NCHW);
    problem.spatial_dims = 3;
    problem.pad[2] = 2;
    assert_format(&problem, "forward 8x16x4x9x9 * 32x16x3x3x3 pad 2 float ncdhw");
    set_packed(&problem.x, 5, (const int32_t[]){8, 16, 4, 9, 9}, NDHWC);
    assert_format(&problem, "forward 8x16x4x9x9 * 32x16x3x3x3 pad 2 float ndhwc");

    problem = alexnet_conv2(NHWC);
    set_packed(&problem.x, 4, (const int32_t[]){1, 3, 9, 9}, NHWC);
    problem.x.strides[0] = 12345; /* one image: its stride is never used */
    assert_format(&problem, "forward 1x3x9x9 * 192x64x5x5 pad 2 float nhwc");
}

CASE(bias_activation_names_its_activation)
{
    mdnn_problem_t problem = alexnet_conv2(NCHW);
    problem.direction = MDNN_BIAS_ACTIVATION_FORWARD;
    problem.activation_mode = 1;
    assert_format(&problem, "bias_activation_forward 256x64x27x27 * 192x64x5x5 pad 2 float nchw "
                            "activation relu");
}

CASE(damaged_counts_read_nothing_outside)
{
    mdnn_problem_t problem = alexnet_conv2(NCHW);
    problem.x.dim_count = 1000;
    problem.w.dim_count = -3;
    problem.spatial_dims = 99;
    assert_format(&problem, "forward 256x64x27x27x0 *  pad 2 float strided");
}

CASE(long_text_is_cut_and_terminated)
{
    const mdnn_problem_t problem = alexnet_conv2(NCHW);
    const char whole[] = "forward 256x64x27x27 * 192x64x5x5 pad 2 float nchw";
    for (size_t bytes = 0; bytes <= sizeof whole; bytes++) {
        char text[sizeof whole + 1];
        memset(text, '#', sizeof text);
        mdnn_problem_format(&problem, text, bytes);
        assert_int_equal(text[bytes], '#');
        if (bytes > 0) {
            assert_memory_equal(text, whole, bytes - 1);
            assert_int_equal(text[bytes - 1], '\0');
        }
    }
}

int main(void)
{
    return run_cases("problem");
}
