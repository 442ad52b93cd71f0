/* Programs under a budget that is too small for them, whose kernels' results can be dropped and made again, or only seem
 * so. Each goes through some iterations and prints a sum of all that it has read back, which must not depend on the
 * library. Run by test/drops.sh; needs the simulated GPU, since the kernels have no code.
 *
 *   drops PROGRAM [SEED COUNT] */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/named_kernels.h"

enum { WORDS = 320 << 10, BYTES = 4 * WORDS, SMALL = 4096, LAYERS = 8, ITERATIONS = 12 };

/* ---- kernels: (out, in, other, k) ---- */

static arrays_t arrays_of(void *const *parameters)
{
    return arrays_in(parameters, BYTES);
}

/* As large as they are. */
static uint32_t *other_of(const arrays_t *arrays)
{
    return arrays->at ? simulator->memory(arrays->at, BYTES) : NULL;
}

static void run_map(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    map_words(&a, WORDS);
}

/* out = 3 in + other */
static void run_back(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = other_of(&a);
    for (int i = 0; a.out && a.in && other && i < WORDS; i++)
        a.out[i] = 3 * a.in[i] + other[i];
}

/* As map; from `after` launches on never twice the same. */
static uint32_t launches, after = UINT32_MAX;
static void run_unsure(void *const *parameters)
{
    run_map(parameters);
    const arrays_t a = arrays_of(parameters);
    if (a.out && ++launches > after)
        a.out[1] += launches;
}

/* Changes a word of what it seems to read, in some launches. */
static void run_secret(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] = 5 * a.in[i];
    if (a.in && a.k % 2 == 1)
        a.in[7] += a.k;
}

static void run_add(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] += a.in[i] + a.k;
}

/* Has two results, of which the first depends on when it runs. */
static uint32_t moment;
static void run_stamp(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const other = other_of(&a);
    if (a.out)
        a.out[0] = moment;
    for (int i = 0; other && a.in && i < WORDS; i++)
        other[i] = 7 * a.in[i] + a.k;
}

/* As batch normalization: out = (in + scale) by parts, and statistics, which are updated; other: scale, mean, moment. */
enum { SCALE, MEAN, LAST, SMALL_WORDS };
static void run_norm(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    uint32_t *const small = a.at ? simulator->memory(a.at, SMALL) : NULL;
    for (int i = 0; a.out && a.in && small && i < WORDS; i++)
        a.out[i] = 5 * a.in[i] + small[SCALE] + a.k;
    if (small && a.in) {
        small[MEAN] = 3 * small[MEAN] + a.in[0];
        small[LAST] = a.in[1];
    }
}

/* In place; other: which words go. */
static void run_clamp(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    const uint32_t *const flag = a.at ? simulator->memory(a.at, SMALL) : NULL;
    const uint32_t gone = flag ? flag[0] & 1 : 1;
    for (int i = 0; a.out && i < WORDS; i++)
        a.out[i] = (a.out[i] & 1) == gone ? 0 : a.out[i];
}

/* Seems to read only, and begins to change a word one day. */
static bool is_sly;
static void run_sly(void *const *parameters)
{
    const arrays_t a = arrays_of(parameters);
    for (int i = 0; a.out && a.in && i < WORDS; i++)
        a.out[i] = 7 * a.in[i];
    if (a.in && is_sly)
        a.in[7] += 12;
}

static const named_kernel_t bodies[] = {
    {"map", run_map},       {"back", run_back},   {"unsure", run_unsure},
    {"secret", run_secret}, {"add", run_add},     {"stamp", run_stamp},
    {"norm", run_norm},     {"clamp", run_clamp}, {"sly", run_sly}};
enum { BODIES = sizeof bodies / sizeof *bodies };

/* Launches of other shapes are of other kinds, which no proof is of yet. */
static unsigned blocks = 64;

static void launch(const char *name, cudaStream_t stream, void *out, const void *in,
                   const void *other, uint32_t k)
{
    launch_shaped(name, blocks, stream, out, in, other, k);
}

/* ---- the program ---- */

static cudaStream_t first, second;
static uint64_t sum = 1469598103934665603;
static uint32_t *host;

static void *allocate(size_t bytes)
{
    void *memory;
    CUDA(cudaMallocAsync(&memory, bytes, first));
    return memory;
}

static void add_to_sum(const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ words[i]) * 1099511628211;
}

static void read_back(const void *memory)
{
    CUDA(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, first));
    CUDA(cudaStreamSynchronize(first));
    add_to_sum(host, WORDS);
}

static void set_input(void *memory, uint32_t value)
{
    for (uint32_t i = 0; i < WORDS; i++)
        host[i] = i * 2654435761U + value;
    CUDA(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, first));
    CUDA(cudaStreamSynchronize(first));
}

/* x[0] is given, x[i + 1] is made of x[i]; a backward pass reads them in the opposite order. Between the passes
 * `between` does something with them. */
typedef struct chain {
    void *x[LAYERS + 1], *gradients[2];
    uint32_t iteration;
    bool freed; /* x[i] are freed as soon as they were read, and allocated in each iteration */
} chain_t;
typedef void (*between_t)(chain_t *chain);

static void pass_back(chain_t *chain)
{
    CUDA(cudaMemsetAsync(chain->gradients[0], 1, BYTES, first));
    for (int i = LAYERS; i > 0; i--) {
        const int from = (LAYERS - i) % 2;
        launch("back", first, chain->gradients[!from], chain->gradients[from], chain->x[i], 0);
        if (chain->freed)
            CUDA(cudaFreeAsync(chain->x[i], first));
    }
    read_back(chain->gradients[LAYERS % 2]);
}

/* `within` is called when x[made] was made. */
typedef void (*within_t)(chain_t *chain, int made);

static void run_chain(const char *kernel, bool freed, between_t between, within_t within)
{
    chain_t chain = {.freed = freed};
    for (int i = 0; i < 2; i++)
        chain.gradients[i] = allocate(BYTES);
    for (int i = 0; i <= LAYERS && (i == 0 || !freed); i++)
        chain.x[i] = allocate(BYTES);
    for (; chain.iteration < ITERATIONS; chain.iteration++) {
        follow(first, second);
        set_input(chain.x[0], chain.iteration);
        for (int i = 0; i < LAYERS; i++) {
            if (freed)
                chain.x[i + 1] = allocate(BYTES);
            launch(kernel, first, chain.x[i + 1], chain.x[i], NULL, 17);
            if (within)
                within(&chain, i + 1);
        }
        if (between)
            between(&chain);
        pass_back(&chain);
    }
}

/* As a library's kernel, this one is not made again, and nobody knows that it only reads the content. */
static void read_by_others(chain_t *chain, int made)
{
    CUfunction function;
    uint32_t k = 3;
    uint64_t none = 0;
    void *parameters[] = {&chain->gradients[1], &chain->x[made], &none, &k};
    CHECK(cuModuleGetFunction(&function, module, "map") == CUDA_SUCCESS);
    CHECK(cuLaunchCooperativeKernel(function, blocks, 1, 1, 256, 1, 1, 0, first, parameters) ==
          CUDA_SUCCESS);
}

static void training(void)
{
    run_chain("map", true, NULL, NULL);
}

/* By then the results of the kernel are dropped. */
static bool is_late(const chain_t *chain)
{
    return chain->iteration >= ITERATIONS - 4;
}

/* ---- inputs that change ---- */

static void write_by_kernel(chain_t *chain)
{
    if (is_late(chain))
        launch("add", first, chain->x[0], chain->gradients[0], NULL, 1);
}

static void write_by_memset(chain_t *chain)
{
    if (is_late(chain))
        CUDA(cudaMemsetAsync(chain->x[0], 3, BYTES, first));
}

static void write_by_copy(chain_t *chain)
{
    if (is_late(chain))
        set_input(chain->x[0], 77);
}

static void write_by_device_copy(chain_t *chain)
{
    if (is_late(chain))
        CUDA(cudaMemcpyAsync(chain->x[0], chain->gradients[0], BYTES, cudaMemcpyDeviceToDevice,
                             first));
}

/* No order with what reads x[1] afterwards. */
static void write_in_other_stream(chain_t *chain)
{
    if (!is_late(chain))
        return;
    follow(second, first);
    CUDA(cudaMemsetAsync(chain->x[0], 3, BYTES, second));
}

static void *write_on_thread(void *context)
{
    chain_t *const chain = context;
    follow(second, first);
    launch("add", second, chain->x[0], chain->x[0], NULL, 1);
    CUDA(cudaStreamSynchronize(second));
    return NULL;
}

static void write_by_thread(chain_t *chain)
{
    pthread_t thread;
    if (!is_late(chain))
        return;
    CHECK(pthread_create(&thread, NULL, write_on_thread, chain) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void free_input(chain_t *chain)
{
    if (!is_late(chain))
        return;
    CUDA(cudaFreeAsync(chain->x[0], first));
    chain->x[0] = allocate(BYTES);
    CUDA(cudaMemsetAsync(chain->x[0], 9, BYTES, first));
}

static void free_input_at_once(chain_t *chain)
{
    void *memory;
    if (!is_late(chain))
        return;
    CUDA(cudaFree(chain->x[0]));
    CUDA(cudaMalloc(&memory, BYTES));
    CUDA(cudaMemset(memory, 9, BYTES));
    CUDA(cudaDeviceSynchronize());
    chain->x[0] = memory;
}

/* Nobody wants x[1] to x[3] any more. */
static void free_results(chain_t *chain)
{
    for (int i = 1; i <= 3 && is_late(chain); i++) {
        CUDA(cudaFreeAsync(chain->x[i], first));
        chain->x[i] = allocate(BYTES);
        CUDA(cudaMemsetAsync(chain->x[i], i, BYTES, first));
    }
}

/* Every other content changes before what is made of it is wanted. */
static void write_in_vain(chain_t *chain)
{
    for (int i = 0; chain->iteration >= 3 && i < LAYERS; i += 2)
        launch("add", first, chain->x[i], chain->gradients[0], NULL, 1);
}

/* ---- other ways to the content ---- */

static void read_results(chain_t *chain)
{
    for (int i = 0; i <= LAYERS; i++)
        read_back(chain->x[i]);
}

/* Synchronous, and only a part. */
static void read_parts(chain_t *chain)
{
    CUDA(cudaStreamSynchronize(first));
    for (int i = 1; i <= LAYERS; i++) {
        CUDA(cudaMemcpy(host, (char *)chain->x[i] + SMALL, SMALL, cudaMemcpyDeviceToHost));
        add_to_sum(host, SMALL / 4);
    }
}

/* The other stream reads what this one has made again. */
static void read_in_two_streams(chain_t *chain)
{
    uint32_t *other;
    if (!is_late(chain))
        return;
    CUDA(cudaHostAlloc((void **)&other, BYTES, cudaHostAllocPortable));
    follow(second, first);
    for (int i = 1; i <= LAYERS; i++) {
        CUDA(cudaMemcpyAsync(host, chain->x[i], BYTES, cudaMemcpyDeviceToHost, first));
        CUDA(cudaMemcpyAsync(other, chain->x[i], BYTES, cudaMemcpyDeviceToHost, second));
        CUDA(cudaStreamSynchronize(second));
        add_to_sum(other, WORDS);
        CUDA(cudaStreamSynchronize(first));
        add_to_sum(host, WORDS);
    }
    CUDA(cudaFreeHost(other));
}

/* The graph writes x[0] and reads x[1] whenever it runs. */
static void capture(chain_t *chain)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    if (!is_late(chain))
        return;
    CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
    launch("add", first, chain->x[0], chain->x[1], NULL, 1);
    CUDA(cudaStreamEndCapture(first, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphLaunch(executable, first));
    launch("map", first, chain->gradients[1], chain->x[2], NULL, 1);
    CUDA(cudaGraphLaunch(executable, first));
    read_back(chain->gradients[1]);
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
}

/* Textures of an input and of a result, which must be there as long as these exist. */
static void texture(chain_t *chain)
{
    const int pinned[] = {0, 2};
    CUtexObject objects[2];
    for (int i = 0; i < 2 && is_late(chain); i++) {
        const CUDA_TEXTURE_DESC how = {0};
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
        resource.res.linear.devPtr = (CUdeviceptr)chain->x[pinned[i]];
        resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT32;
        resource.res.linear.numChannels = 1;
        resource.res.linear.sizeInBytes = BYTES;
        CHECK(cuTexObjectCreate(&objects[i], &resource, &how, NULL) == CUDA_SUCCESS);
    }
    for (int i = 0; i < 2 && is_late(chain); i++) {
        read_back(chain->x[pinned[i]]);
        CHECK(cuTexObjectDestroy(objects[i]) == CUDA_SUCCESS);
    }
}

static void unload(chain_t *chain)
{
    if (!is_late(chain))
        return;
    CUDA(cudaStreamSynchronize(first));
    CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
    module = load_module(bodies, BODIES);
}

/* ---- kernels that are not what they seem ---- */

/* Between the making of x[made] and its leave. */
static void change_input(chain_t *chain, int made)
{
    if (is_late(chain) && made % 3 == 0)
        launch("secret", first, chain->gradients[1], chain->x[made - 1], NULL, 1);
}

static void change_result(chain_t *chain, int made)
{
    if (is_late(chain) && made % 3 == 0)
        launch("secret", first, chain->gradients[1], chain->x[made], NULL, 1);
}

/* The results that were made again are other ones. */
static void unsure(void)
{
    after = ITERATIONS / 2 * LAYERS;
    run_chain("unsure", true, NULL, NULL);
}

/* Results of the same kernel are first as large as what it writes, then twice as large. */
static void larger(void)
{
    char *x[LAYERS + 1];
    void *const gradient = allocate(BYTES);
    x[0] = allocate(BYTES);
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        const size_t bytes = i < ITERATIONS - 3 ? BYTES : 2 * BYTES;
        set_input(x[0], i);
        for (int k = 1; k <= LAYERS; k++) {
            x[k] = allocate(bytes);
            CUDA(cudaMemsetAsync(x[k], 7, bytes, first));
            launch("map", first, x[k], x[k - 1], NULL, 17);
        }
        CUDA(cudaMemsetAsync(gradient, 1, BYTES, first));
        for (int k = LAYERS; k > 0; k--) {
            launch("add", first, gradient, x[k] + bytes - BYTES, NULL, 0);
            CUDA(cudaFreeAsync(x[k], first));
        }
        read_back(gradient);
    }
}

/* The input lies in a pool of the program's own, whose memory is not virtual, and changes before results are read. */
static void own_pool(void)
{
    const struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                                .location = {.type = cudaMemLocationTypeDevice}};
    void *x[LAYERS], *input, *const gradient = allocate(BYTES);
    cudaMemPool_t pool;
    CUDA(cudaMemPoolCreate(&pool, &properties));
    CUDA(cudaMallocFromPoolAsync(&input, BYTES, pool, first));
    for (uint32_t i = 0; i < ITERATIONS; i++) {
        set_input(input, i);
        for (uint32_t k = 0; k < LAYERS; k++) {
            x[k] = allocate(BYTES);
            launch("map", first, x[k], input, NULL, 17 + k);
        }
        if (i >= ITERATIONS - 4)
            CUDA(cudaMemsetAsync(input, 3, BYTES, first));
        CUDA(cudaMemsetAsync(gradient, 1, BYTES, first));
        for (int k = LAYERS; k-- > 0;) {
            launch("add", first, gradient, x[k], NULL, 0);
            CUDA(cudaFreeAsync(x[k], first));
        }
        read_back(gradient);
    }
    CUDA(cudaFreeAsync(input, first));
    CUDA(cudaStreamSynchronize(first));
    CUDA(cudaMemPoolDestroy(pool));
}

/* From the fifth iteration on, the launches write into their other results what is there already, so all that they name
 * stays as it is. Had they to run again after the moment has changed, that would spoil these results. */
static void two_results(void)
{
    void *x[LAYERS + 1], *stamps[LAYERS], *gradient = allocate(BYTES);
    x[0] = allocate(BYTES);
    for (int i = 0; i < LAYERS; i++) {
        stamps[i] = allocate(BYTES);
        CUDA(cudaMemsetAsync(stamps[i], 0, BYTES, first));
    }
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
        moment = iteration < 4 ? iteration + 1 : 4;
        set_input(x[0], iteration);
        for (int i = 0; i < LAYERS; i++) {
            x[i + 1] = allocate(BYTES);
            launch("stamp", first, stamps[i], x[i], x[i + 1], 17);
        }
        CUDA(cudaStreamSynchronize(first));
        moment += iteration >= ITERATIONS - 4;
        CUDA(cudaMemsetAsync(gradient, 1, BYTES, first));
        for (int i = LAYERS; i > 0; i--) {
            launch("add", first, gradient, x[i], NULL, 0);
            CUDA(cudaFreeAsync(x[i], first));
        }
        read_back(gradient);
        for (int i = 0; i < LAYERS; i++)
            read_back(stamps[i]);
    }
}

/* More launches in a row than are made again at once. */
static void deep(void)
{
    enum { DEPTH = 24 };
    void *x[DEPTH + 1], *gradient = allocate(BYTES);
    x[0] = allocate(BYTES);
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
        set_input(x[0], iteration);
        for (int i = 0; i < DEPTH; i++) {
            x[i + 1] = allocate(BYTES);
            launch("map", first, x[i + 1], x[i], NULL, 17);
        }
        CUDA(cudaMemsetAsync(gradient, 1, BYTES, first));
        for (int i = DEPTH; i > 0; i--) {
            launch("add", first, gradient, x[i], NULL, 0);
            CUDA(cudaFreeAsync(x[i], first));
        }
        read_back(gradient);
    }
}

/* Something is dropped when the device is reset. */
static void reset(void)
{
    for (int i = 0; i < 2; i++) {
        run_chain("map", false, NULL, NULL);
        CUDA(cudaDeviceReset());
        CUDA(cudaFree(NULL));
        module = load_module(bodies, BODIES);
        CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    }
    training();
}

/* ---- several launches that make one content ---- */

/* x[i + 1] is made of x[i] by three launches, two of them in place. */
typedef struct blocks {
    void *x[LAYERS + 1], *small[LAYERS], *gradients[2];
    void *flag; /* NULL: there is none */
    uint32_t iteration;
} blocks_t;

static bool are_late(const blocks_t *each)
{
    return each->iteration >= ITERATIONS - 4;
}

static void make_block(const blocks_t *each, int i, void (*between)(const blocks_t *, int))
{
    launch("norm", first, each->x[i + 1], each->x[i], each->small[i], 17);
    if (between)
        between(each, i);
    launch("add", first, each->x[i + 1], each->x[i], NULL, 3);
    launch("clamp", first, each->x[i + 1], NULL, each->flag, 0);
}

static void block_back(const blocks_t *each, int i)
{
    const int from = (LAYERS - i) % 2;
    launch("back", first, each->gradients[!from], each->gradients[from], each->x[i], 0);
    CUDA(cudaFreeAsync(each->x[i], first));
}

/* `between` is called between two launches of a block, `after_all` between the passes. */
static void run_blocks(void *flag, void (*between)(const blocks_t *, int),
                       void (*after_all)(blocks_t *))
{
    blocks_t each = {.flag = flag};
    for (int i = 0; i < 2; i++)
        each.gradients[i] = allocate(BYTES);
    each.x[0] = allocate(BYTES);
    for (int i = 0; i < LAYERS; i++) {
        each.small[i] = allocate(SMALL);
        CUDA(cudaMemsetAsync(each.small[i], i, SMALL, first));
    }
    for (; each.iteration < ITERATIONS + 6; each.iteration++) {
        set_input(each.x[0], each.iteration);
        for (int i = 0; i < LAYERS; i++) {
            each.x[i + 1] = allocate(BYTES);
            make_block(&each, i, between);
        }
        if (after_all)
            after_all(&each);
        CUDA(cudaMemsetAsync(each.gradients[0], 1, BYTES, first));
        for (int i = LAYERS; i > 0; i--)
            block_back(&each, i);
        read_back(each.gradients[LAYERS % 2]);
        for (int i = 0; i < LAYERS; i++) {
            CUDA(cudaMemcpy(host, each.small[i], SMALL, cudaMemcpyDeviceToHost));
            add_to_sum(host, SMALL / 4);
        }
    }
}

/* Other scales and statistics, or none at all, before the results are wanted. */
static void change_small(blocks_t *each)
{
    for (int i = 0; i < LAYERS && are_late(each); i++) {
        CUDA(cudaFreeAsync(each->small[i], first));
        each->small[i] = allocate(SMALL);
        CUDA(cudaMemsetAsync(each->small[i], 100 + i, SMALL, first));
    }
}

static void change_between(const blocks_t *each, int i)
{
    is_sly = are_late(each);
    launch("sly", first, each->gradients[1], each->x[i + 1], NULL, 0);
}

/* The kernel in place leaves nothing of what it finds, and nothing of the complement of that either. */
static void zeros(void)
{
    void *x[LAYERS], *gradients[2];
    for (int i = 0; i < 2; i++)
        gradients[i] = allocate(BYTES);
    for (uint32_t iteration = 0; iteration < ITERATIONS + 6; iteration++) {
        set_input(gradients[0], iteration);
        for (int i = 0; i < LAYERS; i++) {
            x[i] = allocate(BYTES);
            CUDA(cudaMemsetAsync(x[i], 1, BYTES, first));
            launch("clamp", first, x[i], NULL, NULL, 0);
        }
        for (int i = 0; i < LAYERS; i++) {
            launch("back", first, gradients[(i + 1) % 2], gradients[i % 2], x[i], 0);
            CUDA(cudaFreeAsync(x[i], first));
        }
        read_back(gradients[LAYERS % 2]);
    }
}

/* No two launches are alike. */
static void hopeless(void)
{
    char *const x = allocate(4 * BYTES), *const y = allocate(BYTES);
    for (uint32_t i = 0; i < 200; i++) {
        if (i % 10 == 0)
            set_input(x, i);
        launch("map", first, y, x + 4096 * i, NULL, 1);
        read_back(y);
    }
}

/* While results are made again, with nothing to wait for. */
static void read_small_elsewhere(blocks_t *each)
{
    follow(second, first);
    for (int i = 0; i < LAYERS; i++)
        CUDA(cudaMemcpyAsync(host + i * SMALL / 4, each->small[i], SMALL, cudaMemcpyDeviceToHost,
                             second));
    for (int i = LAYERS; i > 0; i--)
        launch("map", first, each->gradients[1], each->x[i], NULL, 1);
    CUDA(cudaStreamSynchronize(second));
    add_to_sum(host, LAYERS * SMALL / 4);
}

/* The next forward pass needs it otherwise. */
static void turn_flag(blocks_t *each)
{
    CUDA(cudaMemsetAsync(each->flag, (int)(each->iteration + 1) % 2, SMALL, first));
}

static void blocks_only(void)
{
    run_blocks(NULL, NULL, NULL);
}

static void blocks_with_other_small(void)
{
    run_blocks(NULL, NULL, change_small);
}

static void blocks_with_readers(void)
{
    run_blocks(NULL, NULL, read_small_elsewhere);
}

static void blocks_with_flag(void)
{
    void *const flag = allocate(SMALL);
    CUDA(cudaMemsetAsync(flag, 0, SMALL, first));
    run_blocks(flag, NULL, turn_flag);
}

static void blocks_with_gaps(void)
{
    run_blocks(NULL, change_between, NULL);
}

/* ---- threads ---- */

typedef struct worker {
    cudaStream_t stream;
    uint32_t number;
    uint64_t sum;
} worker_t;

/* Each has a chain of its own; what it reads must not depend on the other. */
static void *work(void *context)
{
    worker_t *const worker = context;
    void *x[LAYERS], *gradient;
    uint32_t *read;
    CUDA(cudaHostAlloc((void **)&read, BYTES, cudaHostAllocPortable));
    for (uint32_t iteration = 0; iteration < ITERATIONS; iteration++) {
        for (int i = 0; i < LAYERS / 2; i++)
            CUDA(cudaMallocAsync(&x[i], BYTES, worker->stream));
        CUDA(cudaMallocAsync(&gradient, BYTES, worker->stream));
        CUDA(cudaMemsetAsync(gradient, 1, BYTES, worker->stream));
        CUDA(cudaMemsetAsync(x[0], (int)(iteration + worker->number), BYTES, worker->stream));
        for (int i = 1; i < LAYERS / 2; i++)
            launch("map", worker->stream, x[i], x[i - 1], NULL, 17);
        if (iteration % 3 == 2) /* spoils what x[1] was made of */
            CUDA(cudaMemsetAsync(x[0], 1, BYTES, worker->stream));
        for (int i = LAYERS / 2 - 1; i >= 0; i--) {
            launch("add", worker->stream, gradient, x[i], NULL, 3);
            CUDA(cudaFreeAsync(x[i], worker->stream));
        }
        CUDA(cudaMemcpyAsync(read, gradient, BYTES, cudaMemcpyDeviceToHost, worker->stream));
        CUDA(cudaFreeAsync(gradient, worker->stream));
        CUDA(cudaStreamSynchronize(worker->stream));
        for (size_t i = 0; i < WORDS; i++)
            worker->sum = (worker->sum ^ read[i]) * 1099511628211;
    }
    return NULL;
}

static void threads(void)
{
    enum { WORKERS = 3 };
    worker_t workers[WORKERS];
    pthread_t ids[WORKERS];
    training(); /* makes the kernel known */
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (worker_t){.number = i, .sum = i};
        CUDA(cudaStreamCreateWithFlags(&workers[i].stream, cudaStreamNonBlocking));
    }
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&ids[i], NULL, work, &workers[i]) == 0);
    for (int i = 0; i < WORKERS; i++) {
        CHECK(pthread_join(ids[i], NULL) == 0);
        sum = (sum ^ workers[i].sum) * 1099511628211;
    }
}

/* ---- random programs ---- */

enum { STREAMS = 3, BUFFERS = 11, SMALLS = 3, STEPS = 120 };

/* Who uses a buffer, so that the program is in order, but for that nothing waits for anything. */
typedef struct buffer {
    void *memory;
    int writer;       /* stream */
    unsigned readers; /* streams that have read it since, a bit each */
} buffer_t;
static buffer_t buffers[BUFFERS], smalls[SMALLS];
static cudaStream_t streams[STREAMS];
static uint64_t random_state;

static uint32_t below(uint32_t end)
{
    random_state = random_state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((random_state >> 33) % end);
}

static void to_read(buffer_t *buffer, int stream)
{
    if (buffer->writer != stream)
        follow(streams[stream], streams[buffer->writer]);
    buffer->readers |= 1U << stream;
}

static void to_write(buffer_t *buffer, int stream)
{
    for (int other = 0; other < STREAMS; other++)
        if (other != stream && (buffer->writer == other || buffer->readers >> other & 1))
            follow(streams[stream], streams[other]);
    buffer->writer = stream;
    buffer->readers = 0;
}

static void renew(buffer_t *buffer, size_t bytes, int stream)
{
    if (buffer->memory) {
        to_write(buffer, stream);
        CUDA(cudaFreeAsync(buffer->memory, streams[stream]));
    }
    CUDA(cudaMallocAsync(&buffer->memory, bytes, streams[stream]));
    CUDA(cudaMemsetAsync(buffer->memory, (int)below(256), bytes, streams[stream]));
    *buffer = (buffer_t){.memory = buffer->memory, .writer = stream};
}

static void read_buffer(buffer_t *buffer, size_t bytes, int stream)
{
    to_read(buffer, stream);
    CUDA(cudaMemcpyAsync(host, buffer->memory, bytes, cudaMemcpyDeviceToHost, streams[stream]));
    CUDA(cudaStreamSynchronize(streams[stream]));
    add_to_sum(host, bytes / 4);
}

static buffer_t *another(const buffer_t *than, const buffer_t * or)
{
    buffer_t *buffer;
    do
        buffer = &buffers[below(BUFFERS)];
    while (buffer == than || buffer == or);
    return buffer;
}

/* `other` may be written, too. */
static void come_between(buffer_t *out, buffer_t *other, buffer_t *small, int stream)
{
    if (below(2) == 0) {
        CUDA(cudaMemsetAsync(small->memory, (int)below(256), SMALL, streams[stream]));
        return;
    }
    to_write(other, stream);
    launch("secret", streams[stream], other->memory, out->memory, NULL, below(2));
}

/* A normalization, and what may follow in place. */
static void normalize(buffer_t *out, buffer_t *in, buffer_t *other, int stream)
{
    buffer_t *const small = &smalls[below(SMALLS)];
    to_read(in, stream);
    to_write(small, stream);
    to_write(out, stream);
    launch("norm", streams[stream], out->memory, in->memory, small->memory, 1);
    if (below(8) == 0)
        come_between(out, other, small, stream);
    if (below(4) > 0)
        launch("clamp", streams[stream], out->memory, NULL, below(2) ? small->memory : NULL, 0);
    if (below(4) == 0)
        renew(small, SMALL, stream);
}

static void step(uint32_t k)
{
    const int stream = (int)below(STREAMS);
    const uint32_t what = below(100);
    buffer_t *const out = another(NULL, NULL), *const in = another(out, NULL);
    buffer_t *const other = another(out, in);
    if (what < 20) {
        normalize(out, in, other, stream);
    } else if (what < 60 || (what >= 84 && what < 90)) {
        to_read(in, stream);
        to_write(out, stream);
        launch(what < 60 ? "map" : "add", streams[stream], out->memory, in->memory, NULL, k);
    } else if (what < 70) {
        to_read(in, stream);
        to_read(other, stream);
        to_write(out, stream);
        launch("back", streams[stream], out->memory, in->memory, other->memory, k);
    } else if (what < 74) {
        to_read(in, stream);
        to_write(out, stream);
        CUDA(cudaMemcpyAsync(out->memory, in->memory, BYTES, cudaMemcpyDeviceToDevice,
                             streams[stream]));
    } else if (what < 78) {
        to_write(out, stream);
        CUDA(cudaMemsetAsync(out->memory, (int)below(256), BYTES, streams[stream]));
    } else if (what < 84) {
        to_write(in, stream);
        to_write(out, stream);
        launch("secret", streams[stream], out->memory, in->memory, NULL, 2 * k + below(2));
    } else if (what < 95) {
        renew(out, BYTES, stream);
    } else {
        read_buffer(out, BYTES, stream);
    }
}

/* Each has kinds of launches of its own, which are to be proven first. */
static void random_program(uint64_t seed)
{
    random_state = seed;
    blocks = 64 + (unsigned)(seed % 1000);
    for (int i = 0; i < BUFFERS; i++)
        renew(&buffers[i], BYTES, (int)below(STREAMS));
    for (int i = 0; i < SMALLS; i++)
        renew(&smalls[i], SMALL, (int)below(STREAMS));
    for (int i = 0; i < STEPS; i++)
        step((uint32_t)(2 * seed + below(2)));
    for (int i = 0; i < BUFFERS; i++)
        read_buffer(&buffers[i], BYTES, 0);
    for (int i = 0; i < SMALLS; i++)
        read_buffer(&smalls[i], SMALL, 0);
}

static void random_programs(uint64_t seed, uint64_t count)
{
    for (int i = 0; i < STREAMS; i++)
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    for (uint64_t i = 0; i < count; i++) {
        random_program(seed + i);
        printf("%llu: %016llx\n", (unsigned long long)(seed + i), (unsigned long long)sum);
        fflush(stdout);
    }
}

/* ---- all of that ---- */

static const struct {
    const char *name;
    bool freed;
    between_t between;
    within_t within;
} chains[] = {{"chain", false, NULL, NULL},
              {"training", true, NULL, NULL},
              {"others_read", true, NULL, read_by_others},
              {"kernel", true, write_by_kernel, NULL},
              {"memset", true, write_by_memset, NULL},
              {"copy", true, write_by_copy, NULL},
              {"device_copy", true, write_by_device_copy, NULL},
              {"other_stream", true, write_in_other_stream, NULL},
              {"other_thread", true, write_by_thread, NULL},
              {"free", true, free_input, NULL},
              {"free_at_once", true, free_input_at_once, NULL},
              {"free_results", true, free_results, NULL},
              {"read", true, read_results, NULL},
              {"read_parts", true, read_parts, NULL},
              {"two_streams", true, read_in_two_streams, NULL},
              {"capture", true, capture, NULL},
              {"in_vain", true, write_in_vain, NULL},
              {"texture", true, texture, NULL},
              {"unload", true, unload, NULL},
              {"input", true, NULL, change_input},
              {"result", true, NULL, change_result}};

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {{"unsure", unsure},
                {"two_results", two_results},
                {"larger", larger},
                {"own_pool", own_pool},
                {"deep", deep},
                {"reset", reset},
                {"threads", threads},
                {"blocks", blocks_only},
                {"small", blocks_with_other_small},
                {"readers", blocks_with_readers},
                {"flag", blocks_with_flag},
                {"gaps", blocks_with_gaps},
                {"zeros", zeros},
                {"hopeless", hopeless}};

static void run(const char *program)
{
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++)
        if (strcmp(program, chains[i].name) == 0)
            run_chain("map", chains[i].freed, chains[i].between, chains[i].within);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(program, programs[i].name) == 0)
            programs[i].run();
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    load_kernels(bodies, BODIES);
    CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable));
    if (argc == 4)
        random_programs(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
    else
        run(argv[1]);
    CUDA(cudaDeviceSynchronize());
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}
