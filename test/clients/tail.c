/* Operations that name more memory than the budget holds, and allocations that are larger than it, on the simulated
 * GPU: each word is what a model says. Run by test/tail.sh.
 *
 *   tail PROGRAM SEED    one of the list at the end. Exit status 0 if all was right. */
#include <stdbool.h>
#include <string.h>

#include "test/clients/mix.h"

enum { WORDS = 5 << 20, MOST = 4, STREAMS = 2 };

typedef struct buffer {
    CUdeviceptr device;
    uint32_t *model; /* what it holds when all has run */
    uint32_t words;
} buffer_t;

static cudaStream_t streams[STREAMS];
static cudaEvent_t event;
static uint64_t random_state;

static uint32_t pick(uint32_t count)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % count;
}

static void begin(uint64_t seed)
{
    random_state = seed;
    load_mix();
    for (int i = 0; i < STREAMS; i++)
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
}

static buffer_t new_buffer(uint32_t words)
{
    buffer_t buffer = {.words = words, .model = malloc(words * sizeof(uint32_t))};
    CHECK(buffer.model);
    CUDA(cudaMalloc((void **)&buffer.device, words * sizeof(uint32_t)));
    for (uint32_t i = 0; i < words; i++)
        buffer.model[i] = i * 2654435761u + pick(3);
    CUDA(cudaMemcpy((void *)buffer.device, buffer.model, words * sizeof(uint32_t),
                    cudaMemcpyHostToDevice));
    CUDA(cudaStreamSynchronize(NULL)); /* pageable memory may still be on its way */
    return buffer;
}

/* Behind what the other stream has been given so far. */
static void follow(int stream)
{
    CUDA(cudaEventRecord(event, streams[!stream]));
    CUDA(cudaStreamWaitEvent(streams[stream], event, 0));
}

static CUresult launch(const buffer_t *a, const buffer_t *b, uint32_t k, cudaStream_t stream)
{
    uint32_t words = a->words < b->words ? a->words : b->words;
    CUdeviceptr first = a->device, second = b->device;
    void *parameters[] = {&first, &second, &words, &k};
    return cuLaunchKernel(mix, (words + 255) / 256, 1, 1, 256, 1, 1, 0, (CUstream)stream,
                          parameters, NULL);
}

static void mix_into(const buffer_t *a, const buffer_t *b, int stream)
{
    const uint32_t k = pick(1000);
    CHECK(launch(a, b, k, streams[stream]) == CUDA_SUCCESS);
    mix_arrays(a->model, b->model, a->words < b->words ? a->words : b->words, k);
}

static void copy_into(const buffer_t *a, const buffer_t *b, int stream)
{
    const size_t bytes = (a->words < b->words ? a->words : b->words) * sizeof(uint32_t);
    CUDA(cudaMemcpyAsync((void *)a->device, (const void *)b->device, bytes,
                         cudaMemcpyDeviceToDevice, streams[stream]));
    memmove(a->model, b->model, bytes);
}

static void check_and_free(buffer_t *buffer)
{
    uint32_t *const found = malloc(buffer->words * sizeof *found);
    CHECK(found);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(found, (const void *)buffer->device, buffer->words * sizeof *found,
                    cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < buffer->words; i++)
        if (found[i] != buffer->model[i]) {
            printf("word %u of %u: %u instead of %u\n", i, buffer->words, found[i],
                   buffer->model[i]);
            exit(1);
        }
    free(found);
    free(buffer->model);
    CUDA(cudaFree((void *)buffer->device));
}

/* What it names together is larger than the budget; each alone is not. */
static void one_operation(void)
{
    buffer_t a = new_buffer(WORDS), b = new_buffer(WORDS);
    for (int i = 0; i < 3; i++) {
        mix_into(&a, &b, 0);
        mix_into(&b, &a, 0);
    }
    copy_into(&a, &b, 0);
    mix_into(&a, &a, 0); /* alone: all of it comes back */
    check_and_free(&a);
    check_and_free(&b);
}

static void one_allocation(void)
{
    buffer_t a = new_buffer(2 * WORDS), b = new_buffer(WORDS / 5);
    for (int i = 0; i < 3; i++) {
        mix_into(&a, &b, 0);
        mix_into(&b, &a, 0);
    }
    CUDA(cudaMemsetAsync((void *)a.device, 7, a.words, streams[0]));
    memset(a.model, 7, a.words);
    mix_into(&a, &a, 0);
    check_and_free(&a);
    check_and_free(&b);
}

/* Both streams work on what has a tail; now and then it is wanted whole. */
static void two_streams(void)
{
    buffer_t buffers[MOST];
    for (uint32_t i = 0; i < MOST; i++)
        buffers[i] = new_buffer(WORDS / 4 * (i + 1));
    for (int i = 0; i < 12; i++) {
        const int stream = (int)pick(STREAMS);
        const buffer_t *const a = &buffers[pick(MOST)], *const b = &buffers[pick(MOST)];
        follow(stream);
        if (pick(3) > 0 || a == b)
            mix_into(a, b, stream);
        else
            copy_into(a, b, stream);
    }
    for (int i = 0; i < MOST; i++)
        check_and_free(&buffers[i]);
}

/* It reads the same tail as the other stream, and neither waits for the other. */
static void readers_beside_each_other(void)
{
    buffer_t read = new_buffer(2 * WORDS), a = new_buffer(WORDS / 4), b = new_buffer(WORDS / 4);
    for (int i = 0; i < 4; i++) {
        mix_into(&a, &read, 0);
        mix_into(&b, &read, 1);
    }
    check_and_free(&read);
    check_and_free(&a);
    check_and_free(&b);
}

/* An error of the call, in both ways, which the program can go on after. */
static void is_refused(size_t bytes)
{
    void *block = NULL;
    CHECK(cudaMalloc(&block, bytes) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&block, bytes, streams[0]) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
}

/* Host memory ends: an error of the call, and what was there is right. */
static void beyond_the_host(void)
{
    buffer_t a = new_buffer(WORDS);
    mix_into(&a, &a, 0);
    is_refused((size_t)WORDS * 16);
    mix_into(&a, &a, 0);
    check_and_free(&a);
}

static void refused(void)
{
    buffer_t a = new_buffer(WORDS), b = new_buffer(WORDS);
    CHECK(launch(&a, &b, 1, streams[0]) == CUDA_ERROR_OUT_OF_MEMORY);
    is_refused((size_t)WORDS * 8);
    check_and_free(&a);
    check_and_free(&b);
}

/* Its replays would name nothing. */
static void captured(void)
{
    buffer_t a = new_buffer(WORDS), b = new_buffer(WORDS);
    cudaGraph_t graph = NULL;
    CUDA(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    CHECK(launch(&a, &b, 1, streams[0]) == CUDA_ERROR_OUT_OF_MEMORY);
    CUDA(cudaStreamEndCapture(streams[0], &graph));
    CUDA(cudaGraphDestroy(graph));
    mix_into(&a, &b, 0);
    check_and_free(&a);
    check_and_free(&b);
}

/* How much there is, and then a capture: why that is refused is another matter. */
static void probed(void)
{
    is_refused((size_t)1 << 42);
    captured();
}

/* More lives than the budget and some host memory hold, and all of it is used; ends with status 3 where that is refused. */
static void on_the_host(void)
{
    CUdeviceptr all[10];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 10; i++) {
            if (round == 0 && cudaMalloc((void **)&all[i], 6 << 20) != cudaSuccess)
                exit(3);
            if (cudaMemset((void *)all[i], i, 6 << 20) != cudaSuccess)
                exit(3);
        }
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < 10; i++)
        CUDA(cudaFree((void *)all[i]));
}

/* More than any address space has; then what fits. */
static void beyond_all(void)
{
    buffer_t a = new_buffer(WORDS / 4);
    is_refused((size_t)8 << 40);
    mix_into(&a, &a, 0);
    check_and_free(&a);
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"one_operation", one_operation},
    {"one_allocation", one_allocation},
    {"two_streams", two_streams},
    {"readers_beside_each_other", readers_beside_each_other},
    {"beyond_the_host", beyond_the_host},
    {"refused", refused},
    {"captured", captured},
    {"probed", probed},
    {"on_the_host", on_the_host},
    {"beyond_all", beyond_all},
};

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    begin(strtoull(argv[2], NULL, 10));
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(programs[i].name, argv[1]) == 0) {
            programs[i].run();
            return 0;
        }
    return 2;
}
