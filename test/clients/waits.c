/* Programs whose streams wait for what the program does later: each runs to its end without the
 * library, and must under any budget that what is in use at once fits into. Run by test/waits.sh, with
 * and without the library; they know nothing of it.
 *
 *   waits PROGRAM
 *
 * Exit status 0 if every result was right. One that hangs ends after five minutes, which no machine
 * is too busy for. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/clients/mix.h"

enum { MEBIBYTE = 1 << 20, BIG = 12 * MEBIBYTE, SMALL = 3 * MEBIBYTE, WATCHDOG_S = 1200 };

/* ---- buffers and words ---- */

typedef struct buffer {
    uint32_t *device;
    size_t bytes;
    uint32_t value; /* of every word, when all that is enqueued has run */
} buffer_t;

static uint32_t *words; /* what streams wait for; on the host */
static _Atomic unsigned word_count;

static unsigned new_word(void)
{
    return atomic_fetch_add(&word_count, 1);
}

static void make_words(void)
{
    enum { WORDS = 4096 };
    CUDA(cudaHostAlloc((void **)&words, sizeof *words * WORDS, cudaHostAllocPortable));
    memset(words, 0, sizeof *words * WORDS);
}

static cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static void wait_for(cudaStream_t stream, unsigned word)
{
    CHECK(cuStreamWaitValue32(stream, (uintptr_t)&words[word], 1, CU_STREAM_WAIT_VALUE_GEQ) ==
          CUDA_SUCCESS);
}

static void write_word(unsigned word)
{
    __atomic_store_n(&words[word], 1, __ATOMIC_RELEASE);
}

static void send_word(cudaStream_t stream, unsigned word)
{
    CHECK(cuStreamWriteValue32(stream, (uintptr_t)&words[word], 1, 0) == CUDA_SUCCESS);
}

static buffer_t new_buffer(size_t bytes, cudaStream_t stream)
{
    buffer_t buffer = {.bytes = bytes};
    CUDA(cudaMalloc((void **)&buffer.device, bytes));
    CUDA(cudaMemsetAsync(buffer.device, 0, bytes, stream));
    return buffer;
}

/* a = 3 a + b + k */
static void launch(cudaStream_t stream, buffer_t *a, const buffer_t *b, uint32_t k)
{
    uint32_t n = (uint32_t)((a->bytes < b->bytes ? a->bytes : b->bytes) / 4);
    void *parameters[] = {&a->device, (void *)&b->device, &n, &k};
    CHECK(cuLaunchKernel(mix, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL) ==
          CUDA_SUCCESS);
    a->value = 3 * a->value + b->value + k;
}

static void check(cudaStream_t stream, const buffer_t *buffer)
{
    uint32_t *const host = malloc(buffer->bytes);
    CHECK(host);
    CUDA(cudaMemcpyAsync(host, buffer->device, buffer->bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < buffer->bytes / 4; i++)
        CHECK(host[i] == buffer->value);
    free(host);
}

static void short_sleep(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static pthread_t start(void *(*run)(void *), void *context)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, context) == 0);
    return thread;
}

static void join(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}

/* ---- one thread ---- */

/* What was used before the wait can leave; what the stream does after it is in order. */
static void value_behind(void)
{
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t a = new_buffer(BIG, first), b = new_buffer(BIG, second), c = new_buffer(BIG, second);
    CUDA(cudaDeviceSynchronize());
    launch(first, &a, &a, 1);
    wait_for(first, word);
    for (uint32_t i = 0; i < 3; i++)
        launch(second, &b, &c, i);
    launch(second, &c, &b, 4);
    write_word(word);
    check(first, &a);
    check(second, &b);
    check(second, &c);
}

/* What is used behind the wait cannot leave; the others make room, however soon they are wanted. */
static void value_before(void)
{
    enum { BUFFERS = 5 };
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t a = new_buffer(BIG, first), all[BUFFERS];
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    launch(first, &a, &a, 1);
    for (int i = 0; i < BUFFERS; i++) {
        all[i] = new_buffer(SMALL * 2, second);
        launch(second, &all[i], &all[i], 7);
    }
    for (uint32_t i = 0; i < 20; i++)
        launch(second, &all[i % BUFFERS], &all[(i + 1) % BUFFERS], i);
    write_word(word);
    check(first, &a);
    for (int i = 0; i < BUFFERS; i++)
        check(second, &all[i]);
}

/* The receiver is enqueued before the sender, whose memory must come first; and the other way round. */
static void send_and_receive(void)
{
    enum { ROUNDS = 6 };
    cudaStream_t const receiver = new_stream(), sender = new_stream();
    buffer_t in = new_buffer(SMALL, receiver), out = new_buffer(BIG, sender),
             more = new_buffer(BIG, sender);
    CUDA(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const unsigned word = new_word();
        if (i % 2 == 0) {
            wait_for(receiver, word);
            launch(receiver, &in, &in, i);
        }
        launch(sender, &out, &out, i);
        launch(sender, &more, &more, i);
        send_word(sender, word);
        if (i % 2 == 1) {
            wait_for(receiver, word);
            launch(receiver, &in, &in, i);
        }
    }
    check(receiver, &in);
    check(sender, &out);
    check(sender, &more);
}

/* cudaMalloc is not to wait for memory that a blocked stream freed, where other memory can leave. */
static void malloc_beside_freed(void)
{
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t a = {.bytes = BIG}, b, c;
    CUDA(cudaMallocAsync((void **)&a.device, BIG, first));
    b = new_buffer(BIG, second);
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    CUDA(cudaMemsetAsync(a.device, 1, BIG, first));
    CUDA(cudaFreeAsync(a.device, first));
    c = new_buffer(BIG, second);
    launch(second, &c, &c, 5);
    write_word(word);
    check(second, &b);
    check(second, &c);
}

static buffer_t new_ordered(size_t bytes, cudaStream_t stream)
{
    buffer_t buffer = {.bytes = bytes};
    CUDA(cudaMallocAsync((void **)&buffer.device, bytes, stream));
    CUDA(cudaMemsetAsync(buffer.device, 0, bytes, stream));
    return buffer;
}

/* Memory that a blocked stream freed is not what another one gets in the order of that stream: it
 * is not to wait there, since the program waits for it first. */
static void freed_behind(void)
{
    enum { ROUNDS = 8 };
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t a = new_ordered(BIG, first), b = new_ordered(BIG, second);
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    launch(first, &a, &a, 1);
    CUDA(cudaFreeAsync(a.device, first));
    for (uint32_t i = 0; i < ROUNDS; i++) {
        buffer_t c = new_ordered(i % 2 ? SMALL : BIG, second);
        launch(second, &c, &c, i);
        check(second, &c);
        CUDA(cudaFreeAsync(c.device, second));
    }
    write_word(word);
    check(second, &b);
    CUDA(cudaStreamSynchronize(first));
}

/* The same with blocks of slabs, which never leave. */
static void small_freed_behind(void)
{
    enum { BLOCKS = 8, BYTES = 2 * MEBIBYTE / BLOCKS };
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t blocks[BLOCKS], more[BLOCKS], b = new_ordered(BIG, second),
                                           d = new_ordered(2 * MEBIBYTE, second);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = new_ordered(BYTES, first);
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    for (int i = 0; i < BLOCKS; i++) {
        launch(first, &blocks[i], &blocks[i], 1);
        CUDA(cudaFreeAsync(blocks[i].device, first));
    }
    for (int i = 0; i < BLOCKS; i++) {
        more[i] = new_ordered(BYTES, second);
        launch(second, &more[i], &more[i], 5);
        check(second, &more[i]);
    }
    write_word(word);
    for (int i = 0; i < BLOCKS; i++)
        check(second, &more[i]);
    check(second, &b);
    check(second, &d);
    CUDA(cudaStreamSynchronize(first));
}

/* A stream frees what another one has used, as the program orders them; that other one is blocked
 * afterwards. */
static void freed_for_another(void)
{
    cudaStream_t const first = new_stream(), second = new_stream(), third = new_stream();
    const unsigned word = new_word();
    cudaEvent_t event;
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    buffer_t a = new_ordered(BIG, first), b = new_ordered(BIG, second);
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    launch(first, &a, &a, 1);
    CUDA(cudaEventRecord(event, first));
    CUDA(cudaStreamWaitEvent(third, event, 0));
    CUDA(cudaFreeAsync(a.device, third));
    buffer_t c = new_ordered(BIG, first); /* behind the wait, anyway */
    launch(first, &c, &c, 2);
    launch(second, &b, &b, 3);
    check(second, &b);
    buffer_t d = new_ordered(SMALL, second);
    launch(second, &d, &d, 4);
    check(second, &d);
    write_word(word);
    check(first, &c);
    CUDA(cudaEventDestroy(event));
}

/* Where there is no other memory it is that, and the stream waits. */
static void nothing_but_freed(void)
{
    cudaStream_t const first = new_stream(), second = new_stream();
    const unsigned word = new_word();
    buffer_t a = new_ordered(BIG, first);
    CUDA(cudaDeviceSynchronize());
    wait_for(first, word);
    launch(first, &a, &a, 1);
    CUDA(cudaFreeAsync(a.device, first));
    buffer_t c = new_ordered(BIG, second);
    launch(second, &c, &c, 2);
    write_word(word);
    check(second, &c);
}

/* ---- a callback ---- */

static pthread_mutex_t held_by_main = PTHREAD_MUTEX_INITIALIZER;

static void CUDART_CB lock_it(void *context)
{
    (void)context;
    CHECK(pthread_mutex_lock(&held_by_main) == 0);
    CHECK(pthread_mutex_unlock(&held_by_main) == 0);
}

static void CUDART_CB signal_it(void *context)
{
    write_word(*(unsigned *)context);
}

/* The program holds what a callback needs while it launches, and frees and allocates. */
static void callback_locks(void)
{
    cudaStream_t const first = new_stream(), second = new_stream();
    unsigned word = new_word();
    buffer_t a = new_buffer(BIG, first), b = new_buffer(BIG, second), c = new_buffer(BIG, second);
    CUDA(cudaDeviceSynchronize());
    CHECK(pthread_mutex_lock(&held_by_main) == 0);
    launch(first, &a, &a, 1);
    CUDA(cudaLaunchHostFunc(first, lock_it, NULL));
    launch(second, &b, &c, 2);
    launch(second, &c, &b, 3);
    CHECK(pthread_mutex_unlock(&held_by_main) == 0);
    CUDA(cudaLaunchHostFunc(first, signal_it, &word));
    wait_for(second, word);
    launch(second, &b, &c, 4);
    launch(first, &a, &a, 2);
    check(first, &a);
    check(second, &b);
    check(second, &c);
}

/* ---- several threads ---- */

typedef struct pair {
    cudaStream_t streams[3];
    buffer_t a, b, c, d;
    unsigned word;
    enum cudaStreamCaptureMode mode; /* of a capture beside it */
    atomic_bool is_in, is_out;
} pair_t;

static void *launch_two(void *context)
{
    pair_t *const pair = context;
    CUDA(cudaFree(NULL)); /* the context */
    atomic_store(&pair->is_in, true);
    launch(pair->streams[1], &pair->b, &pair->c, 1);
    return NULL;
}

/* What the other thread launches needs memory that a blocked stream uses; it is about to. */
static pthread_t start_behind_blocked(pair_t *pair, void *(*body)(void *))
{
    pair->b = new_buffer(BIG, pair->streams[1]);
    pair->c = new_buffer(BIG, pair->streams[1]);
    pair->a = new_buffer(BIG, pair->streams[0]);
    CUDA(cudaDeviceSynchronize());
    wait_for(pair->streams[0], pair->word);
    launch(pair->streams[0], &pair->a, &pair->a, 1);
    const pthread_t other = start(body, pair);
    while (!atomic_load(&pair->is_in))
        short_sleep();
    short_sleep();
    return other;
}

/* One thread's launch waits for memory that is in use until this one has launched something, too. */
static void launch_beside_launch(void)
{
    pair_t pair = {.streams = {new_stream(), new_stream(), new_stream()}, .word = new_word()};
    pair.d = new_buffer(SMALL, pair.streams[2]);
    const pthread_t other = start_behind_blocked(&pair, launch_two);
    for (uint32_t i = 0; i < 3; i++)
        launch(pair.streams[2], &pair.d, &pair.d, i);
    send_word(pair.streams[2], pair.word);
    join(other);
    check(pair.streams[0], &pair.a);
    check(pair.streams[1], &pair.b);
    check(pair.streams[2], &pair.d);
}

static void *launch_two_cancelled(void *context)
{
    pair_t *const pair = context;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    CUDA(cudaFree(NULL));
    atomic_store(&pair->is_in, true);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL) == 0);
    launch(pair->streams[1], &pair->b, &pair->c, 1);
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL) == 0);
    return NULL;
}

/* A launch is no cancellation point: a thread that is cancelled there ends later, and stops nobody. */
static void cancelled_in_launch(void)
{
    pair_t pair = {.streams = {new_stream(), new_stream(), new_stream()}, .word = new_word()};
    void *end;
    const pthread_t other = start_behind_blocked(&pair, launch_two_cancelled);
    CHECK(pthread_cancel(other) == 0);
    short_sleep();
    write_word(pair.word);
    CHECK(pthread_join(other, &end) == 0 && end == NULL);
    check(pair.streams[0], &pair.a);
    check(pair.streams[1], &pair.b);
    check(pair.streams[1], &pair.c);
}

static void *free_a(void *context)
{
    pair_t *const pair = context;
    atomic_store(&pair->is_in, true);
    CUDA(cudaFree(pair->a.device)); /* as stock, not before the stream has gone on */
    return NULL;
}

static void launch_beside_free(void)
{
    pair_t pair = {.streams = {new_stream(), new_stream()}, .word = new_word()};
    pair.a = new_buffer(BIG, pair.streams[0]);
    pair.b = new_buffer(BIG, pair.streams[1]);
    CUDA(cudaDeviceSynchronize());
    wait_for(pair.streams[0], pair.word);
    launch(pair.streams[0], &pair.a, &pair.a, 1);
    const pthread_t other = start(free_a, &pair);
    while (!atomic_load(&pair.is_in))
        short_sleep();
    short_sleep();
    launch(pair.streams[1], &pair.b, &pair.b, 3);
    buffer_t more = new_buffer(SMALL, pair.streams[1]);
    launch(pair.streams[1], &more, &pair.b, 3);
    check(pair.streams[1], &more);
    write_word(pair.word);
    join(other);
    check(pair.streams[1], &pair.b);
}

static void *copy_a(void *context)
{
    pair_t *const pair = context;
    char *const host = malloc(pair->a.bytes);
    CHECK(host);
    atomic_store(&pair->is_in, true);
    CUDA(cudaMemcpy(host, pair->a.device, pair->a.bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < pair->a.bytes / 4; i++)
        CHECK(((uint32_t *)host)[i] == pair->a.value);
    free(host);
    return NULL;
}

static void *write_late(void *context)
{
    sleep(12); /* longer than any wait that would be given up */
    write_word(*(unsigned *)context);
    return NULL;
}

/* A copy that blocks has its memory for as long as it takes; a launch that lacks that waits. */
static void launch_beside_copy(void)
{
    pair_t pair = {.streams = {new_stream(), new_stream()}, .word = new_word()};
    pair.b = new_buffer(BIG, pair.streams[1]);
    pair.c = new_buffer(BIG, pair.streams[1]);
    pair.a = new_buffer(BIG, pair.streams[0]);
    launch(pair.streams[0], &pair.a, &pair.a, 1);
    CUDA(cudaDeviceSynchronize());
    wait_for(cudaStreamLegacy, pair.word);
    const pthread_t other = start(copy_a, &pair), writer = start(write_late, &pair.word);
    while (!atomic_load(&pair.is_in))
        short_sleep();
    short_sleep();
    launch(pair.streams[1], &pair.b, &pair.c, 3);
    join(other);
    join(writer);
    check(pair.streams[1], &pair.b);
}

/* Each thread's stream waits for what the thread does after launches that need memory. */
static void *work(void *context)
{
    enum { BUFFERS = 3, ROUNDS = 5 };
    uint32_t random = (uint32_t)(uintptr_t)context * 2654435761u + 1;
    cudaStream_t const waiter = new_stream(), worker = new_stream();
    buffer_t small = new_buffer(MEBIBYTE, waiter), all[BUFFERS];
    for (int i = 0; i < BUFFERS; i++)
        all[i] = new_buffer(SMALL, worker);
    CUDA(cudaStreamSynchronize(worker));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const unsigned word = new_word();
        wait_for(waiter, word);
        launch(waiter, &small, &small, round);
        for (uint32_t i = 0; i < 4; i++) {
            random = random * 1664525 + 1013904223;
            launch(worker, &all[random >> 16 & 1], &all[1 + (random >> 20 & 1)], i);
        }
        if (round % 2)
            send_word(worker, word);
        else
            write_word(word);
        if (round % 4 == 3)
            check(worker, &all[0]);
    }
    check(waiter, &small);
    for (int i = 0; i < BUFFERS; i++) {
        check(worker, &all[i]);
        CUDA(cudaFree(all[i].device));
    }
    return NULL;
}

static void eight_threads(void)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start(work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
}

/* ---- captures ---- */

typedef struct capturer {
    enum cudaStreamCaptureMode mode;
    atomic_bool over;
} capturer_t;

/* What another thread does with memory is no part of the capture, in whatever mode. */
static void *capture(void *context)
{
    enum { NODES = 5 };
    const uint32_t captures = getenv("MDNN_THOROUGH") ? 15 : 2;
    capturer_t *const capturer = context;
    CUDA(cudaFree(NULL));
    cudaStream_t const stream = new_stream();
    buffer_t small = new_buffer(MEBIBYTE, stream);
    CUDA(cudaStreamSynchronize(stream));
    for (uint32_t i = 0; i < captures; i++) {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        CUDA(cudaStreamBeginCapture(stream, capturer->mode));
        for (uint32_t node = 0; node < NODES; node++) {
            launch(stream, &small, &small, node);
            short_sleep();
        }
        CUDA(cudaStreamEndCapture(stream, &graph));
        CUDA(cudaGraphInstantiate(&executable, graph, 0));
        CUDA(cudaGraphLaunch(executable, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaGraphExecDestroy(executable));
        CUDA(cudaGraphDestroy(graph));
    }
    check(stream, &small);
    atomic_store(&capturer->over, true);
    return NULL;
}

/* Only what stock allows beside a capture in global mode: launches, and memory in stream order. */
static void beside_captures(enum cudaStreamCaptureMode mode)
{
    capturer_t capturer = {.mode = mode};
    cudaStream_t const stream = new_stream();
    buffer_t all[3];
    for (int i = 0; i < 3; i++)
        all[i] = new_buffer(BIG / 2, stream);
    CUDA(cudaDeviceSynchronize());
    const pthread_t other = start(capture, &capturer);
    for (uint32_t i = 0; !atomic_load(&capturer.over); i++) {
        buffer_t more = {.bytes = SMALL};
        CUDA(cudaMallocAsync((void **)&more.device, SMALL, stream));
        CUDA(cudaMemsetAsync(more.device, 0, SMALL, stream));
        launch(stream, &more, &all[i % 3], i);
        launch(stream, &all[i % 3], &all[(i + 1) % 3], i);
        CUDA(cudaFreeAsync(more.device, stream));
        if (i % 8 == 7)
            CUDA(cudaStreamSynchronize(stream));
    }
    join(other);
    for (int i = 0; i < 3; i++)
        check(stream, &all[i]);
}

/* A capture that begins while another thread waits for memory, and lasts until that has moved. */
static void *capture_meanwhile(void *context)
{
    pair_t *const pair = context;
    cudaGraph_t graph;
    CUDA(cudaFree(NULL));
    while (!atomic_load(&pair->is_in))
        short_sleep();
    for (int i = 0; i < 10; i++)
        short_sleep();
    CUDA(cudaStreamBeginCapture(pair->streams[2], pair->mode));
    launch(pair->streams[2], &pair->d, &pair->d, 1);
    write_word(pair->word);
    while (!atomic_load(&pair->is_out))
        short_sleep();
    launch(pair->streams[2], &pair->d, &pair->d, 2);
    CUDA(cudaStreamEndCapture(pair->streams[2], &graph));
    CUDA(cudaGraphDestroy(graph));
    return NULL;
}

static void wait_beside_capture(enum cudaStreamCaptureMode mode)
{
    pair_t pair = {
        .streams = {new_stream(), new_stream(), new_stream()}, .word = new_word(), .mode = mode};
    pair.d = new_buffer(MEBIBYTE, pair.streams[2]);
    pair.b = new_buffer(BIG / 2, pair.streams[1]);
    pair.c = new_buffer(BIG / 2, pair.streams[1]);
    pair.a = new_buffer(BIG, pair.streams[0]);
    CUDA(cudaDeviceSynchronize());
    const pthread_t other = start(capture_meanwhile, &pair);
    wait_for(pair.streams[0], pair.word);
    launch(pair.streams[0], &pair.a, &pair.a, 1);
    atomic_store(&pair.is_in, true);
    launch(pair.streams[1], &pair.b, &pair.c, 1);
    buffer_t more = {.bytes = SMALL};
    CUDA(cudaMallocAsync((void **)&more.device, SMALL, pair.streams[1]));
    CUDA(cudaMemsetAsync(more.device, 0, SMALL, pair.streams[1]));
    launch(pair.streams[1], &more, &pair.b, 1);
    atomic_store(&pair.is_out, true);
    join(other);
    check(pair.streams[0], &pair.a);
    check(pair.streams[1], &pair.b);
    check(pair.streams[1], &more);
}

static void capture_global(void)
{
    wait_beside_capture(cudaStreamCaptureModeGlobal);
    beside_captures(cudaStreamCaptureModeGlobal);
}

static void capture_of_thread(void)
{
    wait_beside_capture(cudaStreamCaptureModeThreadLocal);
    beside_captures(cudaStreamCaptureModeThreadLocal);
}

static void capture_relaxed(void)
{
    wait_beside_capture(cudaStreamCaptureModeRelaxed);
    beside_captures(cudaStreamCaptureModeRelaxed);
}

/* ---- two devices, as one process that works with NCCL has them ---- */

/* In each round both devices begin a collective that ends when both have, one after the other; what
 * they work on beside that does not fit. */
static void two_devices(void)
{
    enum { DEVICES = 2, ROUNDS = 6 };
    cudaStream_t streams[DEVICES];
    buffer_t grads[DEVICES], layers[DEVICES][2];
    CUfunction kernels[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        load_mix();
        kernels[i] = mix;
        streams[i] = new_stream();
        grads[i] = new_buffer(SMALL, streams[i]);
        for (int j = 0; j < 2; j++)
            layers[i][j] = new_buffer(BIG, streams[i]);
        CUDA(cudaDeviceSynchronize());
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const unsigned begun[DEVICES] = {new_word(), new_word()};
        for (int i = 0; i < DEVICES; i++) {
            CUDA(cudaSetDevice(i));
            mix = kernels[i];
            launch(streams[i], &layers[i][round % 2], &layers[i][round % 2], round);
            send_word(streams[i], begun[i]);
            wait_for(streams[i], begun[1 - i]);
            launch(streams[i], &grads[i], &grads[i], round);
        }
    }
    for (int i = 0; i < DEVICES; i++) {
        CUDA(cudaSetDevice(i));
        check(streams[i], &grads[i]);
        check(streams[i], &layers[i][0]);
        check(streams[i], &layers[i][1]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"value_behind", value_behind},
                    {"value_before", value_before},
                    {"send_and_receive", send_and_receive},
                    {"malloc_beside_freed", malloc_beside_freed},
                    {"freed_behind", freed_behind},
                    {"small_freed_behind", small_freed_behind},
                    {"freed_for_another", freed_for_another},
                    {"nothing_but_freed", nothing_but_freed},
                    {"callback_locks", callback_locks},
                    {"launch_beside_launch", launch_beside_launch},
                    {"cancelled_in_launch", cancelled_in_launch},
                    {"launch_beside_free", launch_beside_free},
                    {"launch_beside_copy", launch_beside_copy},
                    {"eight_threads", eight_threads},
                    {"capture_global", capture_global},
                    {"capture_of_thread", capture_of_thread},
                    {"capture_relaxed", capture_relaxed},
                    {"two_devices", two_devices}};
    (void)alarm(WATCHDOG_S);
    for (size_t i = 0; argc == 2 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            load_mix();
            make_words();
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "usage: waits PROGRAM\n");
    return 2;
}
