/* The kernels of shim/real/kernels.cu for proofs, for the simulated GPU. */
#include "test/sim/engine.h"

#include <string.h>

static uint64_t take(void *const *parameters, int index)
{
    uint64_t value;
    memcpy(&value, parameters[index], sizeof value);
    return value;
}

/* Of up to 8 bytes. */
static uint64_t word_at(const unsigned char *bytes, uint64_t count)
{
    uint64_t word = 0;
    memcpy(&word, bytes, count);
    return word;
}

static void run_compare(void *const *parameters)
{
    const uint64_t bytes = take(parameters, 2);
    const unsigned char *const now = sim_memory(take(parameters, 0), bytes);
    const unsigned char *const then = sim_memory(take(parameters, 1), bytes);
    uint64_t *const counts = sim_memory(take(parameters, 3), 2 * sizeof *counts);
    if (!now || !then || !counts)
        return;
    for (uint64_t at = 0; at < bytes; at += 8) {
        const uint64_t count = bytes - at < 8 ? bytes - at : 8;
        const uint64_t a = word_at(now + at, count), b = word_at(then + at, count);
        counts[0] += a != b;
        counts[1] += a != b && ((a ^ b) & UINT64_C(0x0101010101010101)) * 0xFF == (a ^ b);
    }
}

static void run_complement(void *const *parameters)
{
    const uint64_t bytes = take(parameters, 2);
    unsigned char *const to = sim_memory(take(parameters, 0), bytes);
    const unsigned char *const from = sim_memory(take(parameters, 1), bytes);
    for (uint64_t i = 0; to && from && i < bytes; i++)
        to[i] = (unsigned char)~from[i];
}

static const sim_kernel_parameter_t layout[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
static const sim_kernel_t compare_kernel = {"mdnn_compare", 4, layout, run_compare};
static const sim_kernel_t complement_kernel = {"mdnn_complement", 3, layout, run_complement};

void sim_register_compare(void)
{
    (void)sim_function(&compare_kernel);
    (void)sim_function(&complement_kernel);
}
