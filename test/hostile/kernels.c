/* Kernels of the simulated GPU that random programs launch. Each works on every `stride`th word, so
 * that it is quick in large tensors, from the first to the last. */
#include "test/hostile/hostile.h"

#include <dlfcn.h>
#include <string.h>

const sim_api_t *simulator;

const char kernels_ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
                           ".visible .entry hostile_two(.param .u64 a)\n{\nret;\n}\n"
                           ".visible .entry hostile_four(.param .u64 a)\n{\nret;\n}\n"
                           ".visible .entry hostile_fill(.param .u64 a)\n{\nret;\n}\n"
                           ".visible .entry hostile_table(.param .u64 a)\n{\nret;\n}\n";

void mix_two(uint32_t *a, const uint32_t *b, uint32_t n, uint32_t stride, uint32_t k)
{
    for (uint32_t i = 0; i < n; i += stride)
        a[i] = 3 * a[i] + b[i] + k;
}

void mix_four(uint32_t *const of[4], uint32_t n, uint32_t stride, uint32_t k)
{
    for (uint32_t i = 0; i < n; i += stride) {
        of[0][i] = of[0][i] + 5 * of[1][i] + 7 * of[2][i] + of[3][i] + k;
        of[3][i] += k;
    }
}

void fill_words(uint32_t *a, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n; i++)
        a[i] = k + (i >> 8);
}

void scale_words(uint32_t *a, uint32_t n, uint32_t stride, uint32_t k)
{
    for (uint32_t i = 0; i < n; i += stride)
        a[i] = 3 * a[i] + k;
}

static uint32_t number(void *const *parameters, int which)
{
    return *(uint32_t *)parameters[which];
}

static uint32_t *words(void *const *parameters, int which, uint32_t n)
{
    return simulator->memory(*(uint64_t *)parameters[which], (uint64_t)n * 4);
}

static void run_two(void *const *parameters)
{
    const uint32_t n = number(parameters, 2);
    uint32_t *const a = words(parameters, 0, n);
    const uint32_t *const b = words(parameters, 1, n);
    if (a && b)
        mix_two(a, b, n, number(parameters, 3), number(parameters, 4));
}

static void run_four(void *const *parameters)
{
    const uint32_t n = number(parameters, 4);
    uint32_t *of[4];
    bool all = true;
    for (int i = 0; i < 4; i++)
        all = (of[i] = words(parameters, i, n)) && all;
    if (all)
        mix_four(of, n, number(parameters, 5), number(parameters, 6));
}

static void run_fill(void *const *parameters)
{
    const uint32_t n = number(parameters, 1);
    uint32_t *const a = words(parameters, 0, n);
    if (a)
        fill_words(a, n, number(parameters, 2));
}

/* Pairs of an address and a number of words. */
static void run_table(void *const *parameters)
{
    const uint32_t count = number(parameters, 1);
    const uint64_t *const table =
        simulator->memory(*(uint64_t *)parameters[0], (uint64_t)count * 2 * sizeof *table);
    for (uint32_t i = 0; table && i < count; i++) {
        const uint32_t n = (uint32_t)table[2 * i + 1];
        uint32_t *const a = simulator->memory(table[2 * i], (uint64_t)n * 4);
        if (a)
            scale_words(a, n, number(parameters, 2), number(parameters, 3) + i);
    }
}

static const sim_kernel_parameter_t of_two[] = {{0, 8}, {8, 8}, {16, 4}, {20, 4}, {24, 4}};
static const sim_kernel_parameter_t of_four[] = {{0, 8},  {8, 8},  {16, 8}, {24, 8},
                                                 {32, 4}, {36, 4}, {40, 4}};
static const sim_kernel_parameter_t of_fill[] = {{0, 8}, {8, 4}, {12, 4}};
static const sim_kernel_parameter_t of_table[] = {{0, 8}, {8, 4}, {12, 4}, {16, 4}};
static const sim_kernel_t all[KERNELS] = {{"hostile_two", 5, of_two, run_two},
                                          {"hostile_four", 7, of_four, run_four},
                                          {"hostile_fill", 3, of_fill, run_fill},
                                          {"hostile_table", 4, of_table, run_table}};

CUfunction kernel_function(enum kernel kernel)
{
    return simulator->function(&all[kernel]);
}

void kernels_register(void)
{
    sim_api_function_t found;
    void *const address = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "sim_api");
    if (!address) {
        printf("this is for the simulated GPU\n");
        exit(2);
    }
    memcpy(&found, &address, sizeof found);
    simulator = found();
    for (int i = 0; i < KERNELS; i++)
        (void)kernel_function((enum kernel)i);
}
