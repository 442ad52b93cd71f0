/* The sums in float (all types but double) and in double. */
#include <string.h>

#include "test/sim/cudnn/conv_kernels.h"

/* To TF32, as tensor cores take their inputs: 10 bits of fraction, to nearest even. */
static void round_inputs_float(const sim_conv_kernel_arguments_t *arguments, float *values,
                               int64_t count)
{
    if (!arguments->round_tf32)
        return;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if ((bits & 0x7f800000u) != 0x7f800000u)
            bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static void round_inputs_double(const sim_conv_kernel_arguments_t *arguments, double *values,
                                int64_t count)
{
    (void)arguments, (void)values, (void)count;
}

#define REAL float
#define LANES 8
#define NAME(x) x##_float
#define LOAD_ROW sim_row_load_float
#include "test/sim/cudnn/conv_sum.inc"
#undef REAL
#undef LANES
#undef NAME
#undef LOAD_ROW

#define REAL double
#define LANES 4
#define NAME(x) x##_double
#define LOAD_ROW sim_row_load
#include "test/sim/cudnn/conv_sum.inc"
