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

static uint64_t mix(uint64_t value, uint64_t one, uint64_t two)
{
    value = (value ^ value >> 32) * one;
    value = (value ^ value >> 29) * two;
    return value ^ value >> 32;
}

static unsigned char poison_for(unsigned char from, uint64_t at, uint64_t salt)
{
    const uint64_t word = mix((at / 8 + salt) * UINT64_C(0x9E3779B97F4A7C15),
                              UINT64_C(0xBF58476D1CE4E5B9), UINT64_C(0x94D049BB133111EB));
    const unsigned char random = (unsigned char)(word >> 8 * (at % 8));
    return salt == 0 || random == from ? (unsigned char)~from : random;
}

static void run_poison(void *const *parameters)
{
    const uint64_t bytes = take(parameters, 2), salt = take(parameters, 3);
    unsigned char *const to = sim_memory(take(parameters, 0), bytes);
    const unsigned char *const from = sim_memory(take(parameters, 1), bytes);
    for (uint64_t i = 0; to && from && i < bytes; i++)
        to[i] = poison_for(from[i], i, salt);
}

static void add_word(uint64_t word, uint64_t place, uint64_t sums[2])
{
    const uint64_t at = (place + 1) * UINT64_C(0x9E3779B97F4A7C15);
    sums[0] += mix(word + at, UINT64_C(0xFF51AFD7ED558CCD), UINT64_C(0xC4CEB9FE1A85EC53));
    sums[1] += mix(word ^ (at << 31 | at >> 33), UINT64_C(0xBF58476D1CE4E5B9),
                   UINT64_C(0x94D049BB133111EB));
}

static void run_hash(void *const *parameters)
{
    const uint64_t bytes = take(parameters, 1), words = bytes / 8;
    const unsigned char *const at = sim_memory(take(parameters, 0), bytes);
    uint64_t *const hash = sim_memory(take(parameters, 2), 2 * sizeof *hash);
    if (!at || !hash)
        return;
    for (uint64_t i = 0; i < words; i++)
        add_word(word_at(at + 8 * i, 8), i, hash);
    add_word(word_at(at + 8 * words, bytes % 8), bytes, hash);
}

static void run_demand_equal(void *const *parameters)
{
    const uint64_t *const now = sim_memory(take(parameters, 0), 2 * sizeof *now);
    const uint64_t *const then = sim_memory(take(parameters, 1), 2 * sizeof *then);
    if (now && then && (now[0] != then[0] || now[1] != then[1]))
        (void)sim_memory(0, 1); /* the context ends with an error */
}

static const sim_kernel_parameter_t layout[] = {{0, 8}, {8, 8}, {16, 8}, {24, 8}};
static const sim_kernel_t compare_kernel = {"mdnn_compare", 4, layout, run_compare};
static const sim_kernel_t poison_kernel = {"mdnn_poison", 4, layout, run_poison};
static const sim_kernel_t hash_kernel = {"mdnn_hash", 3, layout, run_hash};
static const sim_kernel_t demand_equal_kernel = {"mdnn_demand_equal", 2, layout, run_demand_equal};

void sim_register_compare(void)
{
    (void)sim_function(&hash_kernel);
    (void)sim_function(&demand_equal_kernel);
    (void)sim_function(&compare_kernel);
    (void)sim_function(&poison_kernel);
}
