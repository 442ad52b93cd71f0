/* Programs under a budget that is too small for them, whose kernels have small operands beside large ones: counters,
 * statistics, ranges that are named in other ways than by their beginning. In the last iterations something about these
 * is different from what proofs have seen. Each prints a sum of all that it has read back, which must not depend on the
 * library. Run by test/drops.sh; needs the simulated GPU, since the kernels have no code.
 *
 *   small_results PROGRAM */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/named_kernels.h"

/* Of the other operands: bytes. 4000 is no multiple of what ranges are aligned to. */
enum {
    WORDS = 320 << 10,
    BYTES = 4 * WORDS,
    SMALL = 4096,
    ODD = 4000,
    MEDIUM = 64 << 10,
    LAYERS = 8
};
enum { ITERATIONS = 18, LATE = 14 };

/* ---- kernels: (out, in, other, k) ---- */

static arrays_t arrays_of(void *const *parameters)
{
    return arrays_in(parameters, BYTES);
}

static uint32_t *other_of(const arrays_t *arrays, size_t bytes)
{
    return arrays->at ? simulator->memory(arrays->at, bytes) : NULL;
}

static void run_back(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    const uint32_t *const other = other_of(&a, BYTES);
    for (int i = 0; a.out && a.in && other && i < WORDS; i++)
        a.out[i] = 3 * a.in[i] + other[i];
}

/* In place; no two words become the same. */
static void run_fold(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && i < WORDS; i++)
        a.out[i] = (a.out[i] << 7 | a.out[i] >> 25) * 5 + 1;
}

/* The same, and counts in the second word of `other`, of which nothing depends on it. */
static void run_fold_and_count(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = other_of(&a, ODD);
    run_fold(parameters);
    if (other)
        other[1]++;
}

static void run_poke(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    if (a.in)
        a.in[7] += 9;
}

/* Changes `other` once its first word is not 0. */
static void run_stat(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = other_of(&a, MEDIUM);
    map_words(&a, WORDS);
    if (other && other[0])
        other[3]++;
}

/* Depends on how often it has run, but not in each run. */
static void run_count(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = other_of(&a, SMALL);
    for (int i = 0; a.out && a.in && other && i < WORDS; i++)
        a.out[i] = 5 * a.in[i] + other[0] / LATE + a.k;
    if (other)
        other[0]++;
}

static void run_spread(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    const uint32_t *const other = other_of(&a, MEDIUM);
    for (int i = 0; a.out && other && i < WORDS; i++)
        a.out[i] = 2 * other[i % (MEDIUM / 4)] + (uint32_t)i;
}

static const named_kernel_t bodies[] = {
    {"back", run_back},    {"fold", run_fold}, {"fold_and_count", run_fold_and_count},
    {"poke", run_poke},    {"stat", run_stat}, {"count", run_count},
    {"spread", run_spread}};
enum { BODIES = sizeof bodies / sizeof *bodies };

static void launch(const char *name, void *out, const void *in, const void *other,
                   cudaStream_t stream)
{
    launch_shaped(name, 64, stream, out, in, other, 17);
}

/* ---- kernels with other parameters ---- */

static uint64_t parameter(void *const *parameters, int i)
{
    uint64_t value;
    memcpy(&value, parameters[i], sizeof value);
    return value;
}

/* (out, in, tensor map of `other`): counts in its third word once the second is not 0. */
static void run_mapped(void *const *parameters)
{
    uint64_t words[2];
    memcpy(words, parameters[2], sizeof words);
    uint32_t *const out = simulator->memory(parameter(parameters, 0), BYTES);
    const uint32_t *const in = simulator->memory(parameter(parameters, 1), BYTES);
    uint32_t *const other = simulator->memory(words[1] ^ words[0], SMALL);
    for (int i = 0; out && in && other && i < WORDS; i++)
        out[i] = 5 * in[i] + other[0];
    if (other && other[1])
        other[2]++;
}

/* (out, beginning and end of `other`). */
static void run_ends(void *const *parameters)
{
    const uint64_t begin = parameter(parameters, 1), end = parameter(parameters, 2);
    uint32_t *const out = simulator->memory(parameter(parameters, 0), BYTES);
    CHECK(end - begin == ODD); /* a GPU would fault */
    const uint32_t *const other = simulator->memory(begin, ODD);
    for (int i = 0; out && other && i < WORDS; i++)
        out[i] = other[0] + 7 * (uint32_t)i;
}

/* (out, beginning and end of `other`): counts in its last word. */
static void run_between(void *const *parameters)
{
    const uint64_t begin = parameter(parameters, 1), end = parameter(parameters, 2);
    uint32_t *const out = simulator->memory(parameter(parameters, 0), BYTES);
    CHECK(end - begin == ODD); /* a GPU would fault */
    uint32_t *const other = simulator->memory(begin, ODD);
    for (int i = 0; out && other && i < WORDS; i++)
        out[i] = other[i % (ODD / 4 - 1)] + 7 * (uint32_t)i;
    if (other)
        other[ODD / 4 - 1]++;
}

static const sim_kernel_parameter_t with_map[] = {{0, 8}, {8, 8}, {64, 128}},
                                    with_end[] = {{0, 8}, {8, 8}, {16, 8}};
static const sim_kernel_t mapped = {"mapped", 3, with_map, run_mapped},
                          between = {"between", 3, with_end, run_between},
                          ends = {"ends", 3, with_end, run_ends};

/* ---- the program ---- */

/* x[i + 1] is made of x[i] and other[i]; a backward pass reads them in the opposite order. */
static void *x[LAYERS + 1], *other[LAYERS], *gradients[2];
static size_t other_bytes = SMALL;
static uint32_t iteration, *host;
static uint64_t sum = 1469598103934665603;
static cudaStream_t first, second;

static bool is_late(void)
{
    return iteration >= LATE;
}

static void add_to_sum(const void *memory, size_t bytes)
{
    CUDA(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, first));
    CUDA(cudaStreamSynchronize(first));
    for (size_t i = 0; i < bytes / 4; i++)
        sum = (sum ^ host[i]) * 1099511628211;
}

static void *allocate(size_t bytes, int value)
{
    void *memory;
    CUDA(cudaMallocAsync(&memory, bytes, first));
    CUDA(cudaMemsetAsync(memory, value, bytes, first));
    return memory;
}

static void set_words(int layer, int word, int value)
{
    CUDA(cudaMemsetAsync((char *)other[layer] + 4 * word, value, 4, first));
}

static void launch_mapped(int i)
{
    CUtensorMap map;
    const cuuint64_t size = SMALL;
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, other[i], &size, NULL,
                                 NULL, NULL, 0, 0, 0, 0) == CUDA_SUCCESS);
    void *parameters[] = {&x[i + 1], &x[i], &map};
    CHECK(cuLaunchKernel(simulator->function(&mapped), 64, 1, 1, 256, 1, 1, 0, first, parameters,
                         NULL) == CUDA_SUCCESS);
}

/* ---- how a layer is made ---- */

static void make_with_statistics(int i)
{
    if (iteration == LATE)
        set_words(i, 0, 1);
    launch("stat", x[i + 1], x[i], other[i], first);
    launch("fold", x[i + 1], NULL, NULL, first);
}

static void make_with_counter(int i)
{
    launch("count", x[i + 1], x[i], other[i], first);
}

static void make_with_counter_and_fold(int i)
{
    make_with_counter(i);
    launch("fold", x[i + 1], NULL, NULL, first);
}

/* What the first kernel has read changes in another stream once that kernel is over. */
static void make_in_a_race(int i)
{
    launch("spread", x[i + 1], x[i], other[i], first);
    if (is_late())
        follow(second, first);
    launch("fold", x[i + 1], NULL, NULL, first);
    if (is_late())
        CUDA(cudaMemsetAsync(other[i], 9, MEDIUM, second));
    follow(first, second);
}

static void make_with_map(int i)
{
    launch_mapped(i);
}

static void make_with_map_that_counts(int i)
{
    if (is_late())
        set_words(i, 1, 1);
    launch_mapped(i);
}

static void launch_with_end(const sim_kernel_t *kernel, int i)
{
    char *end = (char *)other[i] + ODD;
    void *parameters[] = {&x[i + 1], &other[i], &end};
    CHECK(cuLaunchKernel(simulator->function(kernel), 64, 1, 1, 256, 1, 1, 0, first, parameters,
                         NULL) == CUDA_SUCCESS);
}

static void make_with_end(int i)
{
    launch_with_end(&between, i);
}

/* The second launch names the range by its beginning alone. */
static void make_with_end_in_chain(int i)
{
    launch_with_end(&ends, i);
    launch("fold_and_count", x[i + 1], NULL, other[i], first);
}

/* What was enqueued before the first launch runs between both, since the program lets it. */
static void make_in_another_order(int i)
{
    static uint32_t *flag, turn;
    static CUdeviceptr at;
    if (!flag) {
        CUDA(cudaHostAlloc((void **)&flag, 4, cudaHostAllocMapped));
        CHECK(cuMemHostGetDevicePointer(&at, flag, 0) == CUDA_SUCCESS);
        *flag = 0;
    }
    if (is_late()) {
        follow(second, first);
        CHECK(cuStreamWaitValue32(second, at, ++turn, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS);
        CUDA(cudaMemsetAsync(x[i + 1], 3, BYTES, second));
    }
    launch("count", x[i + 1], x[i], other[i], first);
    if (is_late()) {
        CUDA(cudaStreamSynchronize(first));
        *(volatile uint32_t *)flag = turn;
        CUDA(cudaStreamSynchronize(second));
    }
    launch("fold", x[i + 1], NULL, NULL, first);
}

/* The other device, which may write here. */
static struct {
    cudaStream_t stream;
    CUmodule module;
    void *memory;
} far;

static void open_far(void)
{
    CUDA(cudaDeviceEnablePeerAccess(1, 0));
    CUDA(cudaSetDevice(1));
    CUDA(cudaFree(NULL));
    CUDA(cudaDeviceEnablePeerAccess(0, 0));
    far.module = load_module(bodies, BODIES);
    CUDA(cudaStreamCreateWithFlags(&far.stream, cudaStreamNonBlocking));
    CUDA(cudaMalloc(&far.memory, BYTES));
    CUDA(cudaSetDevice(0));
}

/* `stream` of one device waits for what the stream of another has now. */
static void follow_far(cudaStream_t stream, int device, cudaStream_t earlier, int its_device)
{
    cudaEvent_t event;
    CUDA(cudaSetDevice(its_device));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CUDA(cudaEventRecord(event, earlier));
    CUDA(cudaSetDevice(device));
    CUDA(cudaStreamWaitEvent(stream, event, 0));
    CUDA(cudaEventDestroy(event));
    CUDA(cudaSetDevice(0));
}

/* A kernel there names its own memory first, and changes the result here. */
static void make_and_poke(int i)
{
    CUmodule const here = module;
    if (!far.stream)
        open_far();
    launch("stat", x[i + 1], x[i], other[i], first);
    follow_far(far.stream, 1, first, 0);
    CUDA(cudaSetDevice(1));
    module = far.module;
    launch("poke", far.memory, x[i + 1], NULL, far.stream);
    module = here;
    follow_far(first, 0, far.stream, 1);
}

/* ---- what happens between the passes ---- */

static void leave(int i)
{
    (void)i;
}

static void set_other(int i)
{
    set_words(i, 0, 50 + i);
}

static void renew_other(int i)
{
    CUDA(cudaFreeAsync(other[i], first));
    other[i] = allocate(other_bytes, 60 + i);
}

static const struct {
    const char *name;
    size_t bytes;
    void (*make)(int layer), (*late)(int layer);
} programs[] = {{"statistics", MEDIUM, make_with_statistics, leave},
                {"counter", SMALL, make_with_counter, leave},
                {"counter_in_chain", SMALL, make_with_counter_and_fold, leave},
                {"race", MEDIUM, make_in_a_race, leave},
                {"map", SMALL, make_with_map, set_other},
                {"map_that_counts", SMALL, make_with_map_that_counts, leave},
                {"map_of_freed", SMALL, make_with_map, renew_other},
                {"end", ODD, make_with_end, leave},
                {"end_in_chain", ODD, make_with_end_in_chain, leave},
                {"order", SMALL, make_in_another_order, leave},
                {"other_device", MEDIUM, make_and_poke, leave}};

static void pass_back(void)
{
    CUDA(cudaMemsetAsync(gradients[0], 1, BYTES, first));
    for (int i = LAYERS; i > 0; i--) {
        const int from = (LAYERS - i) % 2;
        launch("back", gradients[!from], gradients[from], x[i], first);
        CUDA(cudaFreeAsync(x[i], first));
    }
    add_to_sum(gradients[LAYERS % 2], BYTES);
}

static void run(void (*make)(int layer), void (*late)(int layer))
{
    for (; iteration < ITERATIONS; iteration++) {
        CUDA(cudaMemsetAsync(x[0], (int)iteration, BYTES, first));
        for (int i = 0; i < LAYERS; i++) {
            CUDA(cudaMallocAsync(&x[i + 1], BYTES, first));
            make(i);
        }
        for (int i = 0; i < LAYERS && is_late(); i++)
            late(i);
        pass_back();
        for (int i = 0; i < LAYERS; i++)
            add_to_sum(other[i], other_bytes);
    }
}

int main(int argc, char **argv)
{
    size_t program = 0;
    CHECK(argc == 2);
    while (program < sizeof programs / sizeof *programs &&
           strcmp(argv[1], programs[program].name) != 0)
        program++;
    CHECK(program < sizeof programs / sizeof *programs);
    other_bytes = programs[program].bytes;
    load_kernels(bodies, BODIES);
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    for (int i = 0; i < 2; i++)
        gradients[i] = allocate(BYTES, 1);
    x[0] = allocate(BYTES, 1);
    for (int i = 0; i < LAYERS; i++)
        other[i] = allocate(other_bytes, 0);
    run(programs[program].make, programs[program].late);
    CUDA(cudaDeviceSynchronize());
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
