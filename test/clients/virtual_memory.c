/* Programs that hold more than the budget they are given: random work whose results a model on the
 * host foretells, word by word. Run by test/virtual_memory.sh, resets.sh and safety_host.sh, with
 * and without the library; they know nothing of it.
 *
 *   virtual_memory PROGRAM SEED LIVE_BYTES [hidden]
 *
 * PROGRAM: one of the list at the end. LIVE_BYTES of buffers at once, at most. `hidden`: half of
 * the kernels get the addresses of their buffers in a table, which they read; on the simulated GPU
 * only with MICRODNN_SIM_UNNAMED=1. Exit status 0 if all was right. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/clients/mix.h"

enum { BUFFERS = 64, STREAMS = 3, MOST_BYTES = 6 << 20, THREADS = 3, TABLES = 4096 };

typedef struct kernels {
    CUfunction mix, mix_hidden;
} kernels_t;

static int operations = 150; /* at random; more with all that there is to test (test/tap.sh) */
static size_t live_limit;
static bool hidden;
static kernels_t kernels[2]; /* of each device */

static void use_kernels(int device)
{
    mix = kernels[device].mix;
    mix_hidden = kernels[device].mix_hidden;
}

/* ---- buffers and their model ---- */

typedef struct buffer {
    uint32_t *device, *model; /* NULL: none */
    uint32_t words;
    bool ordered; /* from cudaMallocAsync */
    int stream;   /* of the last work there */
} buffer_t;

typedef struct run {
    uint64_t random;
    buffer_t buffers[BUFFERS];
    cudaStream_t streams[STREAMS];
    int stream_count;
    cudaEvent_t event;
    size_t live_bytes, limit_bytes;
    uint32_t *host;
    uint64_t (*tables)[2]; /* of hidden kernels, each for one launch */
    uint32_t table_count;
} run_t;

static uint32_t pick(run_t *run, uint32_t count)
{
    run->random = run->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((run->random >> 33) % count);
}

/* The stream waits for the buffer's last work, if that is in another one. */
static void follow(run_t *run, buffer_t *buffer, int stream)
{
    if (buffer->stream != stream) {
        CUDA(cudaEventRecord(run->event, run->streams[buffer->stream]));
        CUDA(cudaStreamWaitEvent(run->streams[stream], run->event, 0));
        buffer->stream = stream;
    }
}

static buffer_t *live_buffer(run_t *run)
{
    const uint32_t start = pick(run, BUFFERS);
    for (uint32_t i = 0; i < BUFFERS; i++)
        if (run->buffers[(start + i) % BUFFERS].device)
            return &run->buffers[(start + i) % BUFFERS];
    return NULL;
}

static void allocate(run_t *run)
{
    buffer_t *buffer = run->buffers;
    while (buffer < run->buffers + BUFFERS && buffer->device)
        buffer++;
    const uint32_t words = pick(run, 4) == 0 ? 1 + pick(run, 5000) : 1 + pick(run, MOST_BYTES / 4);
    const size_t bytes = (size_t)words * 4;
    if (buffer == run->buffers + BUFFERS || run->live_bytes + bytes > run->limit_bytes)
        return;
    const int value = (int)pick(run, 256);
    *buffer = (buffer_t){.words = words,
                         .ordered = pick(run, 4) != 0,
                         .stream = (int)pick(run, (uint32_t)run->stream_count),
                         .model = malloc(bytes)};
    CHECK(buffer->model);
    cudaStream_t const stream = run->streams[buffer->stream];
    if (buffer->ordered)
        CUDA(cudaMallocAsync((void **)&buffer->device, bytes, stream));
    else
        CUDA(cudaMalloc((void **)&buffer->device, bytes));
    CUDA(cudaMemsetAsync(buffer->device, value, bytes, stream));
    memset(buffer->model, value, bytes);
    run->live_bytes += bytes;
}

static void check_all(run_t *run, buffer_t *buffer)
{
    const size_t bytes = (size_t)buffer->words * 4;
    CUDA(cudaMemcpyAsync(run->host, buffer->device, bytes, cudaMemcpyDeviceToHost,
                         run->streams[buffer->stream]));
    CUDA(cudaStreamSynchronize(run->streams[buffer->stream]));
    CHECK(memcmp(run->host, buffer->model, bytes) == 0);
}

static void release(run_t *run, buffer_t *buffer)
{
    if (pick(run, 4) == 0)
        check_all(run, buffer);
    if (buffer->ordered && pick(run, 8) != 0) {
        follow(run, buffer, (int)pick(run, (uint32_t)run->stream_count));
        CUDA(cudaFreeAsync(buffer->device, run->streams[buffer->stream]));
    } else {
        CUDA(cudaFree(buffer->device));
    }
    run->live_bytes -= (size_t)buffer->words * 4;
    free(buffer->model);
    *buffer = (buffer_t){0};
}

static void launch(run_t *run, cudaStream_t stream, const buffer_t *a, const buffer_t *b,
                   uint32_t k, uint32_t times)
{
    uint32_t words = a->words < b->words ? a->words : b->words;
    void *parameters[] = {(void *)&a->device, (void *)&b->device, &words, &k};
    const bool hides = hidden && run->table_count < TABLES && pick(run, 2) == 0;
    uint64_t *const table = hides ? run->tables[run->table_count++] : NULL;
    void *of_hidden[] = {(void *)&table, &words, &k};
    if (hides) {
        table[0] = (uintptr_t)a->device;
        table[1] = (uintptr_t)b->device;
    }
    CHECK(cuLaunchKernel(hides ? mix_hidden : mix, (words + 255) / 256, 1, 1, 256, 1, 1, 0,
                         (CUstream)stream, hides ? of_hidden : parameters, NULL) == CUDA_SUCCESS);
    for (; times > 0; times--)
        mix_arrays(a->model, b->model, words, k);
}

static void work(run_t *run, buffer_t *a, buffer_t *b)
{
    const int stream = (int)pick(run, (uint32_t)run->stream_count);
    follow(run, a, stream);
    follow(run, b, stream);
    launch(run, run->streams[stream], a, b, pick(run, 1000), 1);
}

static void copy(run_t *run, buffer_t *to, buffer_t *from)
{
    const int stream = (int)pick(run, (uint32_t)run->stream_count);
    const uint32_t most = to->words < from->words ? to->words : from->words;
    const uint32_t words = 1 + pick(run, most);
    if (to == from)
        return;
    follow(run, to, stream);
    follow(run, from, stream);
    CUDA(cudaMemcpyAsync(to->device + to->words - words, from->device, (size_t)words * 4,
                         cudaMemcpyDeviceToDevice, run->streams[stream]));
    memcpy(to->model + to->words - words, from->model, (size_t)words * 4);
}

static void upload(run_t *run, buffer_t *buffer)
{
    const uint32_t words = 1 + pick(run, buffer->words);
    for (uint32_t i = 0; i < words; i++)
        run->host[i] = buffer->model[i] = i * 7 + words;
    CUDA(cudaMemcpyAsync(buffer->device, run->host, (size_t)words * 4, cudaMemcpyHostToDevice,
                         run->streams[buffer->stream]));
    CUDA(cudaStreamSynchronize(run->streams[buffer->stream]));
}

static void step(run_t *run)
{
    buffer_t *const a = live_buffer(run), *const b = live_buffer(run);
    const uint32_t what = pick(run, 16);
    if (!a || what < 4)
        allocate(run);
    else if (what < 6)
        release(run, a);
    else if (what < 12)
        work(run, a, b);
    else if (what < 14)
        copy(run, a, b);
    else if (what < 15)
        upload(run, a);
    else
        check_all(run, a);
}

static void finish(run_t *run)
{
    for (int i = 0; i < BUFFERS; i++)
        if (run->buffers[i].device) {
            check_all(run, &run->buffers[i]);
            release(run, &run->buffers[i]);
        }
    for (int i = 0; i < run->stream_count; i++)
        if (run->streams[i] != cudaStreamPerThread && run->streams[i] != NULL)
            CUDA(cudaStreamDestroy(run->streams[i]));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaEventDestroy(run->event));
    if (hidden)
        CUDA(cudaFreeHost(run->tables));
    free(run->host);
}

static void begin(run_t *run, uint64_t seed, size_t limit_bytes, int streams)
{
    *run = (run_t){.random = seed, .limit_bytes = limit_bytes, .stream_count = streams};
    for (int i = 0; i < streams; i++)
        CUDA(cudaStreamCreateWithFlags(&run->streams[i], cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&run->event, cudaEventDisableTiming));
    run->host = malloc(MOST_BYTES);
    CHECK(run->host);
    if (hidden)
        CUDA(cudaHostAlloc((void **)&run->tables, TABLES * sizeof *run->tables,
                           cudaHostAllocPortable));
}

/* ---- programs ---- */

static void one_stream(uint64_t seed)
{
    run_t run;
    begin(&run, seed, live_limit, 1);
    for (int i = 0; i < operations; i++)
        step(&run);
    finish(&run);
}

static void many_streams(uint64_t seed)
{
    run_t run;
    begin(&run, seed, live_limit, STREAMS);
    for (int i = 0; i < operations; i++)
        step(&run);
    finish(&run);
}

/* The legacy default stream, which waits for others and they for it, and one that comes and goes.
 */
static void default_stream(uint64_t seed)
{
    run_t run;
    begin(&run, seed, live_limit, 2);
    CUDA(cudaStreamDestroy(run.streams[0]));
    run.streams[0] = NULL;
    for (int i = 0; i < operations; i++) {
        step(&run);
        if (i % 50 != 49)
            continue;
        for (int j = 0; j < BUFFERS; j++)
            if (run.buffers[j].device)
                follow(&run, &run.buffers[j], 0);
        CUDA(cudaStreamDestroy(run.streams[1]));
        CUDA(cudaStreamCreateWithFlags(&run.streams[1], cudaStreamNonBlocking));
    }
    finish(&run);
}

/* In the stream of the buffer's number. */
static void mix_into(run_t *run, uint32_t to, uint32_t from)
{
    const int stream = (int)(to % (uint32_t)run->stream_count);
    follow(run, &run->buffers[to], stream);
    follow(run, &run->buffers[from], stream);
    launch(run, run->streams[stream], &run->buffers[to], &run->buffers[from], to, 1);
}

/* Every other one comes and goes in each round. */
static void forward(run_t *run, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        buffer_t *const buffer = &run->buffers[i];
        if (!buffer->device) {
            const size_t bytes = (size_t)buffer->words * 4;
            buffer->stream = (int)(i % (uint32_t)run->stream_count);
            CUDA(cudaMallocAsync((void **)&buffer->device, bytes, run->streams[buffer->stream]));
            CUDA(cudaMemsetAsync(buffer->device, (int)i, bytes, run->streams[buffer->stream]));
            memset(buffer->model, (int)i, bytes);
        }
        if (i > 0)
            mix_into(run, i, i - 1);
    }
}

static void backward(run_t *run, uint32_t count)
{
    for (uint32_t i = count - 1; i-- > 0;) {
        buffer_t *const last = &run->buffers[i + 1];
        mix_into(run, i, i + 1);
        if (i % 2 != 0)
            continue;
        CUDA(cudaFreeAsync(last->device, run->streams[last->stream]));
        last->device = NULL;
    }
}

/* As many as may live, large enough to leave; not allocated yet. */
static uint32_t plan_buffers(run_t *run)
{
    enum { LEAST_BYTES = 3 << 20 };
    uint32_t count = 0;
    while (count < BUFFERS && run->live_bytes + MOST_BYTES <= run->limit_bytes) {
        const uint32_t words = (LEAST_BYTES + pick(run, MOST_BYTES - LEAST_BYTES)) / 4;
        run->buffers[count] = (buffer_t){.words = words, .model = malloc((size_t)words * 4)};
        CHECK(run->buffers[count++].model);
        run->live_bytes += (size_t)words * 4;
    }
    return count;
}

/* Like training: the same operations in rounds, which are planned for, in parts of buffers, too;
 * now and then something else. */
static void go_round(uint64_t seed, int rounds, const char *until)
{
    run_t run;
    begin(&run, seed, live_limit, 1 + (int)(seed % 2));
    const uint32_t count = plan_buffers(&run);
    for (int i = 0; until ? access(until, F_OK) != 0 : i < rounds; i++) {
        forward(&run, count);
        if (pick(&run, 4) == 0)
            check_all(&run, &run.buffers[pick(&run, count)]);
        if (pick(&run, 8) == 0)
            copy(&run, live_buffer(&run), live_buffer(&run));
        backward(&run, count);
    }
    finish(&run);
    for (uint32_t i = 1; i < count; i += 2)
        free(run.buffers[i].model); /* what came and went */
}

static void rounds(uint64_t seed)
{
    const char *const few = getenv("MDNN_CLIENT_ROUNDS");
    go_round(seed, few ? atoi(few) : 16, NULL);
}

/* Until somebody makes the file that MDNN_ROUNDS_UNTIL names. */
static void rounds_until(uint64_t seed)
{
    const char *const until = getenv("MDNN_ROUNDS_UNTIL");
    go_round(seed, 1, until);
}

/* ---- memory that is allocated some operations before it is used ---- */

static void allocate_early(run_t *run, uint32_t i)
{
    buffer_t *const buffer = &run->buffers[i];
    const size_t bytes = (size_t)buffer->words * 4;
    buffer->stream = (int)(i % (uint32_t)run->stream_count);
    buffer->ordered = i % 4 != 1;
    if (buffer->ordered)
        CUDA(cudaMallocAsync((void **)&buffer->device, bytes, run->streams[buffer->stream]));
    else
        CUDA(cudaMalloc((void **)&buffer->device, bytes));
}

/* The driver knows of it all that it knows of other memory. */
static void ask_about(const buffer_t *buffer)
{
    const CUdeviceptr address = (uintptr_t)buffer->device;
    struct cudaPointerAttributes attributes;
    CUdeviceptr start;
    size_t bytes;
    CUDA(cudaPointerGetAttributes(&attributes, buffer->device + 1));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    CHECK(cuMemGetAddressRange(&start, &bytes, address + 4) == CUDA_SUCCESS);
    CHECK(start == address && bytes == (size_t)buffer->words * 4);
}

/* A graph sets it, which is captured now. */
static void set_by_graph(const buffer_t *buffer, cudaStream_t stream, int value)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CUDA(cudaMemsetAsync(buffer->device, value, (size_t)buffer->words * 4, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphLaunch(executable, stream));
    CUDA(cudaGraphExecDestroy(executable));
}

static void set_halves_in_two_streams(run_t *run, buffer_t *buffer, int value)
{
    const uint32_t half = buffer->words / 2;
    const int other = (buffer->stream + 1) % run->stream_count;
    CUDA(cudaEventRecord(run->event, run->streams[buffer->stream])); /* where it was allocated */
    CUDA(cudaStreamWaitEvent(run->streams[other], run->event, 0));
    CUDA(cudaMemsetAsync(buffer->device, value, (size_t)half * 4, run->streams[buffer->stream]));
    CUDA(cudaMemsetAsync(buffer->device + half, value, (size_t)(buffer->words - half) * 4,
                         run->streams[other]));
    CUDA(cudaEventRecord(run->event, run->streams[other]));
    CUDA(cudaStreamWaitEvent(run->streams[buffer->stream], run->event, 0));
}

/* Always in the same way, but for a graph now and then. */
static void use_first(run_t *run, uint32_t i, int round)
{
    buffer_t *const buffer = &run->buffers[i];
    cudaStream_t const stream = run->streams[buffer->stream];
    const size_t bytes = (size_t)buffer->words * 4;
    memset(buffer->model, (int)i, bytes);
    if (round % 8 == 7 && i % 6 == 1)
        set_by_graph(buffer, stream, (int)i);
    else if (i % 6 == 5)
        set_halves_in_two_streams(run, buffer, (int)i);
    else if (i % 6 != 3)
        CUDA(cudaMemsetAsync(buffer->device, (int)i, bytes, stream));
    else {
        CUDA(cudaMemcpyAsync(buffer->device, buffer->model, bytes, cudaMemcpyHostToDevice, stream));
        CUDA(cudaStreamSynchronize(stream));
    }
}

/* It is freed before anything uses it, in this stream or in another. */
static void allocate_for_nothing(run_t *run, uint32_t i)
{
    void *nothing;
    cudaStream_t const stream = run->streams[i % (uint32_t)run->stream_count];
    cudaStream_t const other = run->streams[i / 2 % (uint32_t)run->stream_count];
    if (i % 2 == 0) {
        CUDA(cudaMallocAsync(&nothing, MOST_BYTES, stream));
        CUDA(cudaEventRecord(run->event, stream));
        CUDA(cudaStreamWaitEvent(other, run->event, 0));
        CUDA(cudaFreeAsync(nothing, other));
    } else {
        CUDA(cudaMalloc(&nothing, MOST_BYTES));
        CUDA(cudaFree(nothing));
    }
}

static void forward_early(run_t *run, uint32_t count, int round)
{
    enum { AHEAD = 2 };
    static bool fresh[BUFFERS];
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t next = i; next < count && next <= i + AHEAD; next++)
            if (!run->buffers[next].device) {
                allocate_early(run, next);
                fresh[next] = true;
                if (round % 4 == 3 && next % 3 == 0)
                    ask_about(&run->buffers[next]);
            }
        if (fresh[i])
            use_first(run, i, round);
        fresh[i] = false;
        allocate_for_nothing(run, i);
        if (i > 0)
            mix_into(run, i, i - 1);
    }
}

/* Every other one is freed, an operation late. */
static void backward_early(run_t *run, uint32_t count)
{
    buffer_t *last = NULL;
    for (uint32_t i = count - 1; i-- > 0;) {
        mix_into(run, i, i + 1);
        if (last && last->ordered)
            CUDA(cudaFreeAsync(last->device, run->streams[last->stream]));
        else if (last)
            CUDA(cudaFree(last->device));
        if (last)
            last->device = NULL;
        last = i % 2 == 0 ? &run->buffers[i + 1] : NULL;
    }
}

static void early(uint64_t seed)
{
    enum { ROUNDS = 20 };
    run_t run;
    begin(&run, seed, live_limit, 1 + (int)(seed % 2));
    const uint32_t count = plan_buffers(&run);
    for (int round = 0; round < ROUNDS; round++) {
        forward_early(&run, count, round);
        backward_early(&run, count);
    }
    finish(&run);
    for (uint32_t i = 1; i < count; i += 2)
        free(run.buffers[i].model); /* what came and went */
}

static void *of_thread(void *context)
{
    const uint64_t seed = *(const uint64_t *)context;
    run_t run;
    begin(&run, seed, live_limit / THREADS, 2);
    CUDA(cudaStreamDestroy(run.streams[0]));
    run.streams[0] = cudaStreamPerThread;
    for (int i = 0; i < operations / 2; i++)
        step(&run);
    finish(&run);
    return NULL;
}

static void threads(uint64_t seed)
{
    pthread_t all[THREADS];
    uint64_t seeds[THREADS];
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = seed * THREADS + (uint64_t)i;
        CHECK(pthread_create(&all[i], NULL, of_thread, &seeds[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

/* What is small, and questions, beside rounds that are planned for: it names nothing, so it changes no plan. */
static void *beside_rounds(void *context)
{
    _Atomic bool *const over = context;
    run_t run;
    begin(&run, 7, (size_t)1 << 20, 1);
    while (!atomic_load(over)) {
        size_t free_bytes, total_bytes;
        void *all = NULL;
        uint32_t *small;
        usleep(1000);
        CUDA(cudaMallocAsync((void **)&small, 4 + 4 * (size_t)pick(&run, 5000), run.streams[0]));
        if (pick(&run, 4) == 0)
            CUDA(cudaDeviceSynchronize());
        if (pick(&run, 8) == 0) {
            CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
            if (free_bytes > 0 && cudaMallocAsync(&all, free_bytes, run.streams[0]) == cudaSuccess)
                CUDA(cudaFreeAsync(all, run.streams[0]));
            (void)cudaGetLastError();
        }
        CUDA(cudaFreeAsync(small, run.streams[0]));
    }
    finish(&run);
    return NULL;
}

static void rounds_beside(uint64_t seed)
{
    _Atomic bool over = false;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, beside_rounds, &over) == 0);
    rounds(seed);
    atomic_store(&over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* LeakSanitizer, which looks for leaks at an exit, waits for a lock that a thread of the parent held at the fork. */
static void leave_child(void)
{
#ifdef __SANITIZE_ADDRESS__
    _exit(0);
#else
    exit(0);
#endif
}

/* A child process ends beside them, and the device is reset in their midst. */
static void rounds_end(uint64_t seed)
{
    static run_t run; /* a reset ends what finish would free */
    begin(&run, seed, live_limit, 1 + (int)(seed % 2));
    const uint32_t count = plan_buffers(&run);
    for (int i = 0; i < 12; i++) {
        forward(&run, count);
        if (i == 9) {
            int status = 0;
            const pid_t child = fork();
            if (child == 0)
                leave_child();
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        backward(&run, count);
    }
    forward(&run, 1 + pick(&run, count));
    CUDA(cudaDeviceReset());
}

static buffer_t *some_buffer(run_t *run)
{
    buffer_t *buffer;
    while (!(buffer = live_buffer(run)))
        allocate(run);
    return buffer;
}

/* A graph over some buffers, captured beside other work; they are used, and others come and go,
 * between its launches. */
static void graphs(uint64_t seed)
{
    enum { ROUNDS = 6, LAUNCHES = 5, NODES = 2 };
    run_t run;
    begin(&run, seed, live_limit, 2);
    for (int round = 0; round < ROUNDS; round++) {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        buffer_t *a[NODES], *b[NODES];
        uint32_t k[NODES];
        for (int i = 0; i < operations / 20; i++)
            step(&run);
        CUDA(cudaStreamBeginCapture(run.streams[0], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < NODES; i++) {
            a[i] = some_buffer(&run);
            b[i] = some_buffer(&run);
            launch(&run, run.streams[0], a[i], b[i], k[i] = pick(&run, 100), 0);
        }
        CUDA(cudaStreamEndCapture(run.streams[0], &graph));
        CUDA(cudaGraphInstantiate(&executable, graph, 0));
        CUDA(cudaGraphDestroy(graph));
        for (int n = 0; n < LAUNCHES; n++) {
            for (int i = 0; i < NODES; i++) {
                follow(&run, a[i], 0);
                follow(&run, b[i], 0);
            }
            CUDA(cudaGraphLaunch(executable, run.streams[0]));
            for (int i = 0; i < NODES; i++)
                mix_arrays(a[i]->model, b[i]->model,
                           a[i]->words < b[i]->words ? a[i]->words : b[i]->words, k[i]);
            for (int i = 0; i < 10; i++) {
                buffer_t *const other = some_buffer(&run);
                work(&run, other, some_buffer(&run));
            }
        }
        CUDA(cudaGraphExecDestroy(executable));
    }
    finish(&run);
}

/* Free memory is what the budget says; a request for more than that is refused, and nothing else
 * suffers from it. */
static void refused(uint64_t seed)
{
    size_t free_bytes, total_bytes;
    run_t run;
    void *block = NULL;
    begin(&run, seed, live_limit, 1);
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(free_bytes <= total_bytes && total_bytes < live_limit);
    for (int i = 0; i < operations / 4; i++) {
        size_t still_free, whole;
        step(&run);
        CUDA(cudaMemGetInfo(&still_free, &whole));
        CHECK(still_free + run.live_bytes <= whole); /* PyTorch ends itself if not */
    }
    CHECK(cudaMalloc(&block, total_bytes + 1) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&block, 2 * total_bytes, run.streams[0]) == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    for (int i = 0; i < operations / 4; i++)
        step(&run);
    finish(&run);
}

/* As many_streams, while calls of the driver fail now and then that this program never makes. */
static void faulty(uint64_t seed)
{
    static const char *const functions[] = {"cuMemMap",     "cuMemSetAccess", "cuMemUnmap",
                                            "cuMemCreate",  "cuEventQuery",   "cuEventElapsedTime",
                                            "cuStreamGetId"};
    enum { FUNCTIONS = sizeof functions / sizeof *functions, EVERY = 20 };
    const int steps = 2 * operations;
    run_t run;
    CHECK(simulator);
    begin(&run, seed, live_limit, STREAMS);
    for (int i = 0; i < steps; i++) {
        if (i % EVERY == 0)
            simulator->inject(functions[pick(&run, FUNCTIONS)], 1 + pick(&run, 8),
                              pick(&run, 2) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNKNOWN);
        step(&run);
    }
    finish(&run);
    CHECK(simulator->faults_fired() >
          (unsigned)(steps / EVERY / 2)); /* the rest lie beyond the last calls */
}

/* A kernel of which the driver does not tell the parameters runs as long as it cannot have memory
 * under a budget; then it is refused, and all else goes on. */
static void unreadable(uint64_t seed)
{
    enum { WORDS = 4096 };
    uint32_t *words, count = WORDS / 2, k = 5;
    CUdeviceptr a, b;
    run_t run;
    CHECK(simulator);
    CHECK(cuMemHostAlloc((void **)&words, WORDS * 4, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
    CHECK(cuMemHostGetDevicePointer(&a, words, 0) == CUDA_SUCCESS);
    b = a + WORDS / 2 * 4;
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    simulator->inject("cuKernelGetParamInfo", 1, CUDA_ERROR_NOT_SUPPORTED);
    simulator->inject("cuFuncGetParamInfo", 1, CUDA_ERROR_NOT_SUPPORTED);
    void *parameters[] = {&a, &b, &count, &k};
    CHECK(cuLaunchKernel(mix, 8, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) == CUDA_SUCCESS);
    CUDA(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < WORDS / 2; i++)
        CHECK(words[i] == 4 * i + WORDS / 2 + 5);
    CUDA(cudaMalloc((void **)&a, WORDS * 4));
    CHECK(cuLaunchKernel(mix, 8, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) ==
          CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cuMemFree(a) == CUDA_SUCCESS);
    CHECK(cuMemFreeHost(words) == CUDA_SUCCESS);
    begin(&run, seed, live_limit, 1);
    buffer_t *const buffer = some_buffer(&run);
    check_all(&run, buffer);
    finish(&run);
}

/* Two devices, each with a budget and half of the buffers; those of one are also freed while
 * the other is current. */
static void devices(uint64_t seed)
{
    enum { DEVICES = 2 };
    run_t runs[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        load_mix();
        kernels[i] = (kernels_t){mix, mix_hidden};
        begin(&runs[i], seed + (uint64_t)i, live_limit / DEVICES, 2);
    }
    for (int i = 0; i < operations; i++) {
        const int here = (int)pick(&runs[0], DEVICES);
        run_t *const other = &runs[1 - here];
        CUDA(cudaSetDevice(here));
        use_kernels(here);
        step(&runs[here]);
        buffer_t *const buffer = live_buffer(other);
        if (i % 16 != 0 || !buffer)
            continue;
        CUDA(cudaStreamSynchronize(other->streams[buffer->stream]));
        CUDA(cudaFree(buffer->device));
        other->live_bytes -= (size_t)buffer->words * 4;
        free(buffer->model);
        *buffer = (buffer_t){0};
    }
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        finish(&runs[i]);
    }
}

/* What is enqueued there from now on comes after what is enqueued here. */
static void join(run_t *run, int stream, run_t *other, int other_stream)
{
    CUDA(cudaEventRecord(run->event, run->streams[stream]));
    CUDA(cudaStreamWaitEvent(other->streams[other_stream], run->event, 0));
}

/* A copy of the current device, `here`, from `from` on one device to `to` on the other. */
static void copy_to_peer(run_t *run, int stream, buffer_t *to, int to_device, buffer_t *from,
                         bool unified)
{
    const uint32_t most = to->words < from->words ? to->words : from->words;
    const uint32_t words = 1 + pick(run, most);
    const size_t bytes = (size_t)words * 4;
    uint32_t *const destination = to->device + to->words - words;
    if (unified) {
        CUDA(cudaMemcpyAsync(destination, from->device, bytes, cudaMemcpyDefault,
                             run->streams[stream]));
    } else if (pick(run, 4) == 0) { /* the default stream's, which these streams do not wait for */
        CUDA(cudaStreamSynchronize(run->streams[stream]));
        CUDA(cudaMemcpyPeer(destination, to_device, from->device, 1 - to_device, bytes));
        CUDA(cudaStreamSynchronize(NULL));
    } else {
        CUDA(cudaMemcpyPeerAsync(destination, to_device, from->device, 1 - to_device, bytes,
                                 run->streams[stream]));
    }
    memcpy(to->model + to->words - words, from->model, bytes);
}

/* Work of device `here` on a buffer of its own and one of its peer, in either direction. */
static void peer_step(run_t *runs, int here, bool reach)
{
    run_t *const run = &runs[here], *const other = &runs[1 - here];
    buffer_t *const mine = live_buffer(run), *const its = live_buffer(other);
    const int stream = (int)pick(run, (uint32_t)run->stream_count);
    const bool give = pick(run, 2) != 0;
    if (!mine || !its)
        return;
    follow(run, mine, stream);
    join(other, its->stream, run, stream);
    /* Peers reach memory of pools only if that is enabled for the pool. */
    const bool pooled = mine->ordered || its->ordered;
    if (reach && !pooled && pick(run, 2) == 0)
        launch(run, run->streams[stream], give ? its : mine, give ? mine : its, pick(run, 1000), 1);
    else if (give)
        copy_to_peer(run, stream, its, 1 - here, mine, reach && pick(run, 2) == 0);
    else
        copy_to_peer(run, stream, mine, here, its, reach && pick(run, 2) == 0);
    join(run, stream, other, its->stream);
}

/* Two devices with budgets that use each other's memory: by copies that name the devices, and,
 * where they can reach it, by other copies and by kernels. */
static void peers(uint64_t seed)
{
    enum { DEVICES = 2 };
    run_t runs[DEVICES];
    int reach = 0;
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        load_mix();
        kernels[i] = (kernels_t){mix, mix_hidden};
        begin(&runs[i], seed + (uint64_t)i, live_limit / DEVICES, 2);
    }
    CUDA(cudaDeviceCanAccessPeer(&reach, 0, 1));
    for (int i = 0; i < operations; i++) {
        const int here = (int)pick(&runs[0], DEVICES);
        CUDA(cudaSetDevice(here));
        use_kernels(here);
        if (reach && (i == operations / 8 || i == operations / 4)) { /* when much is mapped */
            CUDA(cudaSetDevice(i == operations / 4));
            CUDA(cudaDeviceEnablePeerAccess(i != operations / 4, 0));
            CUDA(cudaSetDevice(here));
        }
        step(&runs[here]);
        if (i % 3 == 0 && (!reach || i > operations / 4))
            peer_step(runs, here, reach);
    }
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        finish(&runs[i]);
    }
}

/* Before the context of `run` is destroyed: what will be left of it fits beside the other's. */
static void make_room_for(run_t *run, const run_t *other)
{
    size_t most = other->limit_bytes - other->live_bytes;
    int places = 0;
    for (int i = 0; i < BUFFERS; i++)
        places += !other->buffers[i].device;
    for (int i = 0; i < BUFFERS; i++) {
        buffer_t *const buffer = &run->buffers[i];
        const size_t bytes = (size_t)buffer->words * 4;
        if (!buffer->device || !buffer->ordered)
            continue;
        if (places > 0 && bytes <= most) {
            places--;
            most -= bytes;
        } else {
            release(run, buffer);
        }
    }
}

/* After it: memory of pools is nobody's, and used on in another context; the rest is gone. */
static void inherit(run_t *run, run_t *gone)
{
    for (int i = 0, to = 0; i < BUFFERS; i++) {
        buffer_t *const buffer = &gone->buffers[i];
        if (!buffer->device || !buffer->ordered) {
            free(buffer->model);
            continue;
        }
        while (run->buffers[to].device)
            to++;
        run->buffers[to] = *buffer;
        run->buffers[to].stream = 0;
        run->live_bytes += (size_t)buffer->words * 4;
    }
    free(gone->host);
}

/* Contexts of the program's own, one after the other, beside the primary one. They end with
 * their streams and memory. */
static void contexts(uint64_t seed)
{
    enum { ROUNDS = 4 };
    run_t runs[2];
    CUcontext all[2];
    CHECK(cuCtxGetCurrent(&all[0]) == CUDA_SUCCESS);
    kernels[0] = (kernels_t){mix, mix_hidden};
    begin(&runs[0], seed, live_limit / 3 * 2, 2);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(cuCtxCreate(&all[1], NULL, 0, 0) == CUDA_SUCCESS);
        load_mix();
        kernels[1] = (kernels_t){mix, mix_hidden};
        begin(&runs[1], seed * ROUNDS + (uint64_t)round, live_limit / 3, 2);
        for (int i = 0; i < operations / ROUNDS; i++) {
            const int here = (int)pick(&runs[0], 2);
            CHECK(cuCtxSetCurrent(all[here]) == CUDA_SUCCESS);
            use_kernels(here);
            step(&runs[here]);
        }
        CHECK(cuCtxSetCurrent(all[1]) == CUDA_SUCCESS);
        make_room_for(&runs[1], &runs[0]);
        CUDA(cudaEventDestroy(runs[1].event)); /* the simulated context would lose it */
        CHECK(cuCtxDestroy(all[1]) == CUDA_SUCCESS);
        CHECK(cuCtxSetCurrent(all[0]) == CUDA_SUCCESS);
        use_kernels(0);
        inherit(&runs[0], &runs[1]);
        for (int i = 0; i < operations / ROUNDS / 4; i++)
            step(&runs[0]);
    }
    finish(&runs[0]);
}

static void forget(run_t *run)
{
    for (int i = 0; i < BUFFERS; i++)
        free(run->buffers[i].model);
    free(run->host);
}

/* A graph that is never launched. */
static cudaGraphExec_t capture_one(run_t *run)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    buffer_t *const a = some_buffer(run), *const b = some_buffer(run);
    CUDA(cudaStreamBeginCapture(run->streams[0], cudaStreamCaptureModeThreadLocal));
    launch(run, run->streams[0], a, b, 1, 0);
    CUDA(cudaStreamEndCapture(run->streams[0], &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return executable;
}

/* One device is reset again and again, with whatever is there, and used anew; the other goes on. */
static void resets(uint64_t seed)
{
    enum { ROUNDS = 4, STEPS = 175, DEVICES = 2 };
    run_t runs[DEVICES];
    cudaGraphExec_t last = NULL; /* of before the reset */
    CUDA(cudaSetDevice(1));
    load_mix();
    kernels[1] = (kernels_t){mix, mix_hidden};
    begin(&runs[1], seed, live_limit, 2);
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaSetDevice(0));
        load_mix();
        kernels[0] = (kernels_t){mix, mix_hidden};
        begin(&runs[0], seed * ROUNDS + (uint64_t)round, live_limit, 2);
        for (int i = 0; i < STEPS; i++) {
            if (i == STEPS / 2 && last)
                CUDA(cudaGraphExecDestroy(last));
            const int here = (int)pick(&runs[1], DEVICES);
            CUDA(cudaSetDevice(here));
            use_kernels(here);
            step(&runs[here]);
        }
        CUDA(cudaSetDevice(0));
        use_kernels(0);
        last = capture_one(&runs[0]);
        CUDA(cudaEventDestroy(runs[0].event)); /* as above */
        CUDA(cudaDeviceReset());
        forget(&runs[0]);
    }
    CUDA(cudaGraphExecDestroy(last));
    CUDA(cudaSetDevice(1));
    use_kernels(1);
    finish(&runs[1]);
}

/* Without kernels, whose code ends with each reset. */
static void *reset_again_and_again(void *context)
{
    enum { ROUNDS = 8 };
    const int steps = operations / 12;
    const uint64_t seed = *(const uint64_t *)context;
    CUDA(cudaSetDevice(0));
    for (int round = 0; round < ROUNDS; round++) {
        run_t run;
        begin(&run, seed * ROUNDS + (uint64_t)round, live_limit, 2);
        for (int i = 0; i < steps; i++) {
            copy(&run, some_buffer(&run), some_buffer(&run));
            upload(&run, some_buffer(&run));
            check_all(&run, some_buffer(&run));
            allocate(&run);
        }
        CUDA(cudaEventDestroy(run.event));
        CUDA(cudaDeviceReset());
        forget(&run);
    }
    return NULL;
}

/* One thread resets its device, another works and waits on another one. */
static void reset_beside(uint64_t seed)
{
    pthread_t other;
    run_t run;
    CUDA(cudaSetDevice(1));
    load_mix();
    begin(&run, seed, live_limit, 2);
    CHECK(pthread_create(&other, NULL, reset_again_and_again, &seed) == 0);
    for (int i = 0; i < operations; i++)
        step(&run);
    CHECK(pthread_join(other, NULL) == 0);
    finish(&run);
}

/* Nobody has used the other device. */
static void reset_unused(uint64_t seed)
{
    enum { OTHER = 1 };
    unsigned flags;
    int active = -1;
    run_t run;
    begin(&run, seed, live_limit, 1);
    allocate(&run);
    CHECK(cuDevicePrimaryCtxReset(OTHER) == CUDA_SUCCESS);
    CHECK(cuDevicePrimaryCtxGetState(OTHER, &flags, &active) == CUDA_SUCCESS && active == 0);
    finish(&run);
}

/* What ends a context is not forgotten by allocations that need nothing of the driver. */
static void after_a_fault(uint64_t seed)
{
    enum { BYTES = 4 << 20, WIDTH = 100 };
    size_t wrong = 4096;
    uint32_t one = 1;
    (void)seed;
    void *memory, *other, *parameters[] = {&wrong, &memory, &one, &one};
    size_t pitch;
    cudaStream_t stream;
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc(&memory, BYTES));
    CUDA(cudaMallocAsync(&other, BYTES, stream));
    CUDA(cudaStreamSynchronize(stream));
    DRIVER(cuLaunchKernel(mix, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
    CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
    CHECK(cudaMalloc(&other, BYTES) == cudaErrorIllegalAddress);
    CHECK(cudaMallocPitch(&other, &pitch, WIDTH, WIDTH) == cudaErrorIllegalAddress);
    CHECK(cudaMallocAsync(&other, BYTES, stream) == cudaErrorIllegalAddress);
    CHECK(cudaFreeAsync(other, stream) == cudaErrorIllegalAddress);
    CHECK(cudaFree(memory) == cudaErrorIllegalAddress);
    CUDA(cudaDeviceReset());
    CUDA(cudaMalloc(&memory, BYTES));
    CUDA(cudaFree(memory));
}

/* What streams wait for: words that the host writes. */
enum { FIRST, SECOND, WORDS };

typedef struct waits {
    uint32_t *words;
    cudaStream_t streams[WORDS];
} waits_t;

static void *write_second_soon(void *context)
{
    const waits_t *const waits = context;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    __atomic_store_n(&waits->words[SECOND], 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *write_first_behind_second(void *context)
{
    const waits_t *const waits = context;
    CUDA(cudaStreamSynchronize(waits->streams[SECOND]));
    __atomic_store_n(&waits->words[FIRST], 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Memory is short until a stream has gone on, which it does once another thread has seen the end of
 * work in another one. */
static void wait_beside(uint64_t seed)
{
    enum { VALUE = 7, BYTES = 30 << 20 };
    void *(*const writers[WORDS])(void *) = {write_first_behind_second, write_second_soon};
    unsigned char *before, *behind;
    unsigned char *const host = malloc(BYTES);
    waits_t waits;
    pthread_t threads[WORDS];
    (void)seed;
    CHECK(host);
    CUDA(cudaHostAlloc((void **)&waits.words, sizeof *waits.words * WORDS, 0));
    memset(waits.words, 0, sizeof *waits.words * WORDS);
    CUDA(cudaMalloc((void **)&before, BYTES));
    for (int i = 0; i < WORDS; i++) {
        CUDA(cudaStreamCreateWithFlags(&waits.streams[i], cudaStreamNonBlocking));
        CHECK(cuStreamWaitValue32(waits.streams[i], (uintptr_t)&waits.words[i], 1,
                                  CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS);
    }
    CUDA(cudaMemsetAsync(before, VALUE, BYTES, waits.streams[FIRST]));
    for (int i = 0; i < WORDS; i++)
        CHECK(pthread_create(&threads[i], NULL, writers[i], &waits) == 0);
    CUDA(cudaMalloc((void **)&behind, BYTES));
    CUDA(cudaMemsetAsync(behind, 0, BYTES, waits.streams[FIRST]));
    for (int i = 0; i < WORDS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CUDA(cudaStreamSynchronize(waits.streams[FIRST]));
    CUDA(cudaMemcpy(host, before, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BYTES; i++)
        CHECK(host[i] == VALUE);
    free(host);
}

static atomic_bool resets_are_over;

/* Whatever these calls say: the device may be reset before any of them, or within. */
static void *use_carelessly(void *context)
{
    enum { BYTES = 1 << 20, KEPT = 16 };
    char *const host = malloc(BYTES);
    void *kept[KEPT] = {NULL};
    size_t free_bytes, total_bytes;
    (void)context;
    CHECK(host);
    for (unsigned i = 0; !atomic_load(&resets_are_over); i++) {
        void **const memory = &kept[i % KEPT];
        const size_t bytes = i % 5 ? BYTES : 3 * BYTES; /* smaller than a chunk, and larger */
        (void)(i % 2 ? cudaFree(*memory) : cudaFreeAsync(*memory, NULL));
        *memory = NULL;
        (void)(i % 3 ? cudaMalloc(memory, bytes) : cudaMallocAsync(memory, bytes, NULL));
        (void)cudaMemsetAsync(*memory, 1, bytes, NULL);
        (void)cudaMemcpyAsync(kept[i * 5 % KEPT], *memory, BYTES, cudaMemcpyDeviceToDevice, NULL);
        (void)cudaMemcpy(host, kept[i * 3 % KEPT], BYTES, cudaMemcpyDeviceToHost);
        (void)cudaMemGetInfo(&free_bytes, &total_bytes);
        (void)cudaGetLastError();
    }
    free(host);
    return NULL;
}

/* One thread resets the device that others use: they may be told anything, but no more. */
static void reset_under(uint64_t seed)
{
    enum { USERS = 2 };
    const int resets = getenv("MDNN_THOROUGH") ? 40 : 6;
    pthread_t users[USERS];
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_create(&users[i], NULL, use_carelessly, NULL) == 0);
    for (int i = 0; i < resets; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000 * (long)(1 + (seed + (uint64_t)i) % 7)},
                  NULL);
        (void)cudaDeviceReset();
    }
    atomic_store(&resets_are_over, true);
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_join(users[i], NULL) == 0);
    CUDA(cudaDeviceReset());
    run_t run;
    begin(&run, seed, live_limit, 2);
    CUDA(cudaStreamDestroy(run.streams[1]));
    run.stream_count = 1;
    for (int i = 0; i < operations / 4; i++) {
        copy(&run, some_buffer(&run), some_buffer(&run));
        upload(&run, some_buffer(&run));
        allocate(&run);
    }
    finish(&run);
}

/* Nobody uses the primary context. */
static void own_context(uint64_t seed)
{
    CUcontext context;
    CHECK(cuInit(0) == CUDA_SUCCESS);
    CHECK(cuCtxCreate(&context, NULL, 0, 0) == CUDA_SUCCESS);
    load_mix();
    many_streams(seed);
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(uint64_t seed);
        bool own_context;
        int operations; /* where few do not bring it about, else 0 */
    } programs[] = {{"one_stream", one_stream, false, 0},
                    {"many_streams", many_streams, false, 0},
                    {"rounds", rounds, false, 0},
                    {"rounds_until", rounds_until, false, 0},
                    {"rounds_beside", rounds_beside, false, 0},
                    {"rounds_end", rounds_end, false, 0},
                    {"early", early, false, 0},
                    {"default_stream", default_stream, false, 0},
                    {"threads", threads, false, 0},
                    {"graphs", graphs, false, 300},
                    {"contexts", contexts, false, 300},
                    {"faulty", faulty, false, 0},
                    {"unreadable", unreadable, false, 0},
                    {"resets", resets, false, 300},
                    {"reset_beside", reset_beside, false, 0},
                    {"reset_unused", reset_unused, false, 0},
                    {"reset_under", reset_under, false, 0},
                    {"after_a_fault", after_a_fault, false, 0},
                    {"own_context", own_context, true, 0},
                    {"refused", refused, false, 0},
                    {"wait_beside", wait_beside, false, 0},
                    {"devices", devices, false, 300},
                    {"peers", peers, false, 300}};
    hidden = argc == 5 && strcmp(argv[4], "hidden") == 0;
    for (size_t i = 0; (argc == 4 || hidden) && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            live_limit = strtoull(argv[3], NULL, 10);
            if (programs[i].operations > 0)
                operations = programs[i].operations;
            if (getenv("MDNN_THOROUGH"))
                operations = 700;
            if (!programs[i].own_context)
                load_mix();
            programs[i].run(strtoull(argv[2], NULL, 10));
            return 0;
        }
    fprintf(stderr, "usage: virtual_memory PROGRAM SEED LIVE_BYTES [hidden]\n");
    return 2;
}
