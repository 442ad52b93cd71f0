/* The kernels of shim/real/kernels.cu for the simulated GPU: the same operation, element by element. */
#include "test/sim/engine.h"

#include <string.h>

enum { FIRST, ADD, FINISH };

typedef struct accumulation {
    float *sums;
    const uint16_t *parts;
    uint16_t *out; /* FINISH only */
    uint64_t n;
    int mode;
    float beta;
} accumulation_t;

static float widen(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t narrow(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U)
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

static void accumulate(const accumulation_t *work)
{
    for (uint64_t i = 0; i < work->n; i++) {
        const float part = widen(work->parts[i]);
        if (work->mode == FIRST)
            work->sums[i] = part;
        else if (work->mode == ADD)
            work->sums[i] += part;
        else
            work->out[i] = narrow(work->sums[i] + part +
                                  (work->beta == 0.0F ? 0.0F : work->beta * widen(work->out[i])));
    }
}

/* False if an address is bad: sim_memory has then marked the context. */
static bool read_parameters(void *const *parameters, accumulation_t *work)
{
    uint64_t addresses[3];
    memcpy(addresses, parameters[0], sizeof addresses[0]);
    memcpy(addresses + 1, parameters[1], sizeof addresses[1]);
    memcpy(addresses + 2, parameters[2], sizeof addresses[2]);
    memcpy(&work->n, parameters[3], sizeof work->n);
    memcpy(&work->mode, parameters[4], sizeof work->mode);
    memcpy(&work->beta, parameters[5], sizeof work->beta);
    work->sums = sim_memory(addresses[0], work->n * sizeof *work->sums);
    work->parts = sim_memory(addresses[1], work->n * sizeof *work->parts);
    work->out = work->mode == FINISH ? sim_memory(addresses[2], work->n * sizeof *work->out) : NULL;
    return work->sums && work->parts && (work->mode != FINISH || work->out);
}

static void run_bfloat16(void *const *parameters)
{
    accumulation_t work;
    if (read_parameters(parameters, &work))
        accumulate(&work);
}

static const sim_kernel_parameter_t layout[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 4}};
enum { PARAMETERS = sizeof layout / sizeof *layout };

static const sim_kernel_t bfloat16_kernel = {"mdnn_accumulate_bfloat16", PARAMETERS, layout,
                                             run_bfloat16};

void sim_register_accumulate(void)
{
    (void)sim_function(&bfloat16_kernel);
}
