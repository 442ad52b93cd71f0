/* Programs that call libraries whose kernels use memory that no parameter names: arrays of pointers
 * (cuBLAS), tables of its own (cuFFT), buffers in a queue (NCCL). Their libraries are those of test/libraries/, whose results
 * a model on the host foretells. Run by test/library_calls.sh and test/nccl_calls.sh with
 * MICRODNN_SIM_UNNAMED=1, with and without the library under test; they know nothing of it.
 *
 *   library_calls PROGRAM SEED BUFFERS
 *
 * PROGRAM: one of the list at the end; buffers of 3 MiB. Exit status 0 if all was right. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "test/clients/many_buffers.h"

enum { SIDE = 512, BATCH = 3 };
enum { NCCL_INVALID_ARGUMENT = 4, NCCL_IN_PROGRESS = 7 };

typedef struct unique_id {
    char bytes[128];
} unique_id_t;

/* As the headers say, with handles and array elements as pointers. */
int cublasCreate_v2(void **handle);
int cublasSetStream_v2(void *handle, cudaStream_t stream);
int cublasSgemmBatched(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                       const void *alpha, const void *const *a, int lda, const void *const *b,
                       int ldb, const void *beta, void *const *c, int ldc, int batch);
int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch);
int ncclCommInitRankConfig(void **comm, int ranks, unique_id_t id, int rank, void *config);
int ncclCommDestroy(void *comm);
int ncclCommAbort(void *comm);
int ncclCommGetAsyncError(void *comm, int *error);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *comm,
                  cudaStream_t stream);
int ncclBcast(void *buffer, size_t count, int type, int root, void *comm, cudaStream_t stream);
int ncclSend(const void *from, size_t count, int type, int peer, void *comm, cudaStream_t stream);
int ncclRecv(void *to, size_t count, int type, int peer, void *comm, cudaStream_t stream);
int ncclCommRegister(void *comm, void *buffer, size_t bytes, void **registration);
int ncclCommDeregister(void *comm, void *registration);
int ncclCommWindowRegister(void *comm, void *buffer, size_t bytes, void **window, int flags);
int ncclCommWindowDeregister(void *comm, void *window);
int ncclMemAlloc(void **address, size_t bytes);
int ncclFakeTouch(void *comm, void *registration, size_t count, cudaStream_t stream);
void ncclFakeMeanwhile(void (*call)(void));
int cufftFakePlan(int *plan, uint32_t count, size_t table_bytes);
int cufftFakeAdd(int plan, void *words);
int cufftSetWorkArea(int plan, void *work);
int cufftExecC2C(int plan, void *in, void *out, int direction);
int cufftExecR2C(int plan, void *in, void *out);
int cufftXtExec(int plan, void *in, void *out, int direction);
int cufftSetStream(int plan, cudaStream_t stream);
int cufftDestroy(int plan);

/* ---- cuBLAS ---- */

static void *cublas;
static void **arrays; /* in device memory: three of BATCH pointers */

static void begin_cublas(void)
{
    CHECK(cublasCreate_v2(&cublas) == 0 && cublasSetStream_v2(cublas, stream) == 0);
    CUDA(cudaMalloc((void **)&arrays, 3 * BATCH * sizeof *arrays));
}

/* In the order of the stream. */
static void write_arrays(const int *chosen)
{
    void *pointers[3 * BATCH];
    for (int i = 0; i < 3 * BATCH; i++)
        pointers[i] = buffers[chosen[i]];
    CUDA(cudaMemcpyAsync(arrays, pointers, sizeof pointers, cudaMemcpyHostToDevice, stream));
}

static void multiply(void)
{
    const float one = 1;
    CHECK(cublasSgemmBatched(cublas, 0, 0, WORDS / SIDE, SIDE, 1, &one, (const void *const *)arrays,
                             SIDE, (const void *const *)(arrays + BATCH), SIDE, &one,
                             arrays + 2 * (size_t)BATCH, SIDE, BATCH) == 0);
}

static void multiply_model(const int *chosen)
{
    for (int i = 0; i < BATCH; i++)
        for (int j = 0; j < MODEL_WORDS; j++)
            model[chosen[2 * BATCH + i]][j] =
                3 * model[chosen[i]][j] + model[chosen[BATCH + i]][j] + 1;
}

/* It works on SIDE * SIDE words of each; the rest becomes like them. */
static void factor_model(const int *chosen)
{
    for (int i = 0; i < BATCH; i++) {
        uint32_t *const at = buffers[chosen[i]];
        for (int copy = 1; copy < WORDS / (SIDE * SIDE); copy++)
            CUDA(cudaMemcpyAsync(at + (size_t)copy * SIDE * SIDE, at, SIDE * SIDE * sizeof *at,
                                 cudaMemcpyDeviceToDevice, stream));
        for (int j = 0; j < MODEL_WORDS; j++)
            model[chosen[i]][j] = 5 * model[chosen[i]][j] + 1;
    }
}

static void batches(uint64_t seed, int count)
{
    int chosen[3 * BATCH];
    begin(seed, count);
    begin_cublas();
    for (int round = 0; round < rounds; round++) {
        choose(chosen, 3 * BATCH);
        write_arrays(chosen);
        work();
        if (pick(3) == 0) {
            CHECK(cublasSgetrfBatched(cublas, SIDE, arrays, SIDE, NULL, NULL, BATCH) == 0);
            factor_model(chosen);
        } else {
            multiply();
            multiply_model(chosen);
        }
        work();
    }
    check_all();
}

/* The functions as JAX finds them. */
static void looked_up(uint64_t seed, int count)
{
    int chosen[3 * BATCH];
    int (*getrf)(void *, int, void *const *, int, int *, int *, int);
    void *const library = dlopen("libcublas.so.13", RTLD_LAZY | RTLD_LOCAL);
    CHECK(library);
    *(void **)(void *)&getrf = dlsym(library, "cublasSgetrfBatched");
    CHECK(getrf);
    begin(seed, count);
    begin_cublas();
    for (int round = 0; round < rounds; round++) {
        choose(chosen, 3 * BATCH);
        write_arrays(chosen);
        work();
        CHECK(getrf(cublas, SIDE, arrays, SIDE, NULL, NULL, BATCH) == 0);
        factor_model(chosen);
    }
    check_all();
}

/* So that an event covers all that was enqueued: of what is named by nothing since it is known that
 * nothing works on it. */
static void cover(void)
{
    void *small;
    CUDA(cudaMalloc(&small, 256));
    CUDA(cudaMemsetAsync(small, 0, 256, stream));
    CUDA(cudaFree(small));
}

/* More buffers than there is room for, without a wait. */
static void crowd(int count)
{
    for (; buffer_count < count; buffer_count++) {
        CUDA(cudaMalloc((void **)&buffers[buffer_count], WORDS * sizeof(uint32_t)));
        CUDA(
            cudaMemsetAsync(buffers[buffer_count], buffer_count, WORDS * sizeof(uint32_t), stream));
        for (int j = 0; j < MODEL_WORDS; j++)
            memset(&model[buffer_count][j], buffer_count, sizeof model[0][j]);
    }
}

/* All is there while the calls are made, and has been on the host before; what makes it leave again
 * is enqueued behind them. */
static void then_short(uint64_t seed, int count)
{
    int chosen[3 * BATCH];
    uint32_t first;
    begin(seed, 3 * BATCH);
    begin_cublas();
    crowd(count);
    while (buffer_count > 3 * BATCH)
        CUDA(cudaFree(buffers[--buffer_count]));
    for (int i = 0; i < buffer_count; i++) /* back, and only read */
        CUDA(cudaMemcpyAsync(&first, buffers[i], sizeof first, cudaMemcpyDeviceToHost, stream));
    for (int round = 0; round < 3; round++) {
        choose(chosen, 3 * BATCH);
        write_arrays(chosen);
        cover();
        multiply();
        multiply_model(chosen);
    }
    crowd(count);
    check_all();
}

/* Freed behind the call, in another stream that waits for it, and handed on. */
static void then_freed(uint64_t seed, int count)
{
    int chosen[3 * BATCH];
    cudaStream_t other;
    cudaEvent_t event;
    (void)count;
    begin(seed, 3 * BATCH);
    begin_cublas();
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int round = 0; round < 6; round++) {
        choose(chosen, 3 * BATCH);
        const int gone = chosen[0];
        write_arrays(chosen);
        cover();
        multiply();
        multiply_model(chosen);
        if (pick(2) == 0) {
            CUDA(cudaEventRecord(event, stream));
            CUDA(cudaStreamWaitEvent(other, event, 0));
            CUDA(cudaFreeAsync(buffers[gone], other));
        } else {
            CUDA(cudaFree(buffers[gone]));
        }
        CUDA(cudaMallocAsync((void **)&buffers[gone], WORDS * sizeof(uint32_t), other));
        CUDA(cudaMemsetAsync(buffers[gone], round, WORDS * sizeof(uint32_t), other));
        CUDA(cudaStreamSynchronize(other));
        for (int j = 0; j < MODEL_WORDS; j++)
            memset(&model[gone][j], round, sizeof model[gone][j]);
    }
    CUDA(cudaEventDestroy(event));
    check_all();
}

/* A call in a graph, whose arrays are written before and stay; other work needs the memory between
 * its launches. */
static void captured(uint64_t seed, int count)
{
    enum { LAUNCHES = 5 };
    int chosen[3 * BATCH];
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    begin(seed, 3 * BATCH);
    begin_cublas();
    choose(chosen, 3 * BATCH);
    write_arrays(chosen);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    multiply();
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    crowd(count);
    for (int launch = 0; launch < LAUNCHES; launch++) {
        work();
        CUDA(cudaGraphLaunch(executable, stream));
        multiply_model(chosen);
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaGraphExecDestroy(executable));
    CUDA(cudaGraphDestroy(graph));
    check_all();
}

/* ---- cuFFT ---- */

static int new_plan(size_t table_bytes)
{
    int plan;
    CHECK(cufftFakePlan(&plan, WORDS, table_bytes) == 0 && cufftSetStream(plan, stream) == 0);
    return plan;
}

static void add_tables(int plan, int buffer)
{
    CHECK(cufftFakeAdd(plan, buffers[buffer]) == 0);
    for (uint32_t j = 0; j < MODEL_WORDS; j++)
        model[buffer][j] += 11 * j + 5;
}

/* What the library allocates for itself, plans of each round before any of its
 * functions but that one was called. */
static void plans(uint64_t seed, int count)
{
    enum { PLANS = 3, TABLE_BYTES = 3 << 20 };
    int made[PLANS];
    for (int i = 0; i < PLANS; i++)
        made[i] = new_plan(TABLE_BYTES);
    begin(seed, count);
    for (int i = 0; i < PLANS; i++)
        CHECK(cufftSetStream(made[i], stream) == 0);
    for (int round = 0; round < rounds; round++) {
        const int plan = pick(PLANS);
        work();
        add_tables(made[plan], pick(count));
        if (pick(4) == 0) {
            CUDA(cudaStreamSynchronize(stream));
            CHECK(cufftDestroy(made[plan]) == 0);
            made[plan] = new_plan(TABLE_BYTES);
        }
    }
    check_all();
}

/* A transform's kernel is told of no memory. */
static void transform(int plan, int form, int from, int to)
{
    static int (*found)(int, void *, void *, int);
    if (!found) {
        void *const library = dlopen("libcufft.so.12", RTLD_LAZY | RTLD_LOCAL);
        CHECK(library);
        *(void **)(void *)&found = dlsym(library, "cufftXtExec");
        CHECK(found);
    }
    CHECK((form == 0   ? cufftExecC2C(plan, buffers[from], buffers[to], 1)
           : form == 1 ? cufftExecR2C(plan, buffers[from], buffers[to])
           : form == 2 ? cufftXtExec(plan, buffers[from], buffers[to], 1)
                       : found(plan, buffers[from], buffers[to], 1)) == 0);
    for (uint32_t j = 0; j < MODEL_WORDS; j++)
        model[to][j] = 3 * model[from][j] + 11 * j + 5;
}

/* Plans come and go, whose numbers are used again, with work areas that change. */
static void transforms(uint64_t seed, int count)
{
    enum { PLANS = 2, AREAS = 3 };
    int made[PLANS], two[2];
    void *areas[AREAS];
    begin(seed, count);
    for (int i = 0; i < AREAS; i++)
        CUDA(cudaMalloc(&areas[i], WORDS * sizeof(uint32_t)));
    for (int i = 0; i < PLANS; i++) {
        made[i] = new_plan(1 << 20);
        CHECK(cufftSetWorkArea(made[i], areas[i]) == 0);
    }
    for (int round = 0; round < rounds; round++) {
        const int plan = pick(PLANS);
        if (pick(8) == 0) {
            CUDA(cudaStreamSynchronize(stream));
            CHECK(cufftDestroy(made[plan]) == 0);
            made[plan] = new_plan(1 << 20);
            CHECK(cufftSetWorkArea(made[plan], areas[pick(AREAS)]) == 0);
        }
        choose(two, 2);
        work();
        transform(made[plan], pick(4), two[0], two[1]);
    }
    check_all();
}

/* A transform in a graph. */
static void captured_transform(uint64_t seed, int count)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    void *area;
    begin(seed, count);
    CUDA(cudaMalloc(&area, WORDS * sizeof(uint32_t)));
    const int plan = new_plan(1 << 20);
    CHECK(cufftSetWorkArea(plan, area) == 0);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    CHECK(cufftExecC2C(plan, buffers[0], buffers[1], 1) == 0);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    for (int round = 0; round < 6; round++) {
        work();
        CUDA(cudaGraphLaunch(executable, stream));
        for (uint32_t j = 0; j < MODEL_WORDS; j++)
            model[1][j] = 3 * model[0][j] + 11 * j + 5;
    }
    check_all();
}

/* More than has room beside what the program's operations need: it is like any other memory then. */
static void large_plan(uint64_t seed, int count)
{
    begin(seed, count);
    work();
    const int plan = new_plan(44 << 20);
    add_tables(plan, 0);
    CUDA(cudaStreamSynchronize(stream));
    work();
    CHECK(cufftDestroy(plan) == 0);
    check_all();
}

/* ---- NCCL ---- */

enum { COMMS = 8 }; /* of a MiB and some */
static void *comm, *comms[COMMS];

static void begin_nccl(int blocking)
{
    const unique_id_t id = {{0}};
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &blocking) == 0);
}

/* A communicator that does not block is asked until it is done. */
static void settle(int result)
{
    while (result == NCCL_IN_PROGRESS)
        CHECK(ncclCommGetAsyncError(comm, &result) == 0);
    CHECK(result == 0);
}

static void reduce_model(int from, int to)
{
    for (int j = 0; j < MODEL_WORDS; j++)
        model[to][j] = 2 * model[from][j] + 7;
}

static void one_collective(void)
{
    int two[2];
    choose(two, 2);
    settle(ncclAllReduce(buffers[two[0]], buffers[two[1]], WORDS, 7, 0, comm, stream));
    reduce_model(two[0], two[1]);
    settle(ncclBcast(buffers[two[0]], WORDS, 7, 0, comm, stream));
    reduce_model(two[0], two[0]);
}

/* Groups in groups; what is used last is enqueued first. */
static void one_group(void)
{
    int six[6];
    choose(six, 6);
    CHECK(ncclGroupStart() == 0);
    CHECK(ncclAllReduce(buffers[six[0]], buffers[six[1]], WORDS, 7, 0, comm, stream) == 0);
    CHECK(ncclGroupStart() == 0);
    CHECK(ncclSend(buffers[six[2]], WORDS, 7, 0, comm, stream) == 0);
    CHECK(ncclRecv(buffers[six[3]], WORDS, 7, 0, comm, stream) == 0);
    CHECK(ncclGroupEnd() == 0);
    work(); /* of the same thread, before anything of the group is launched */
    CHECK(ncclAllReduce(buffers[six[4]], buffers[six[5]], WORDS, 7, 0, comm, stream) == 0);
    settle(ncclGroupEnd());
    for (int i = 0; i < 6; i += 2)
        reduce_model(six[i], six[i + 1]);
}

static void collectives(uint64_t seed, int count)
{
    begin(seed, count);
    begin_nccl(1);
    for (int round = 0; round < rounds; round++) {
        work();
        if (pick(2) == 0)
            one_collective();
        else
            one_group();
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

/* Groups that are only estimated: their calls are not made, those after them are. */
static void simulated(uint64_t seed, int count)
{
    begin(seed, count);
    begin_nccl(1);
    for (int round = 0; round < rounds / 2; round++) {
        int two[2];
        choose(two, 2);
        CHECK(ncclGroupStart() == 0);
        CHECK(ncclAllReduce(buffers[two[0]], buffers[two[1]], WORDS, 7, 0, comm, stream) == 0);
        CHECK(ncclGroupSimulateEnd(NULL) == 0);
        work();
        one_collective();
        one_group();
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

static void launched_later(uint64_t seed, int count)
{
    begin(seed, count);
    begin_nccl(0);
    for (int round = 0; round < rounds; round++) {
        work();
        if (pick(2) == 0)
            one_collective();
        else
            one_group();
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

static void *ask(void *unused)
{
    int result;
    CHECK(ncclCommGetAsyncError(comm, &result) == 0);
    return unused;
}

static void watch(void)
{
    pthread_t watchdog;
    CHECK(pthread_create(&watchdog, NULL, ask, NULL) == 0);
    CHECK(pthread_join(watchdog, NULL) == 0);
}

/* As PyTorch's watchdog asks, at any time. */
static void watched(uint64_t seed, int count)
{
    ncclFakeMeanwhile(watch);
    launched_later(seed, count);
}

/* Without a question in between: the library takes a call when it has launched that before. Some
 * are refused, which launches nothing. */
static void never_asked(uint64_t seed, int count)
{
    int two[2], before[2] = {0, 0};
    begin(seed, count);
    begin_nccl(0);
    for (int round = 0; round < rounds; round++) {
        choose(two, 2);
        if (pick(3) == 0)
            CHECK(ncclAllReduce(buffers[two[1]], buffers[two[0]], WORDS, -1, 0, comm, stream) ==
                  NCCL_INVALID_ARGUMENT);
        work();
        CHECK(ncclAllReduce(buffers[two[0]], buffers[two[1]], WORDS, 7, 0, comm, stream) ==
              NCCL_IN_PROGRESS);
        if (round > 0)
            reduce_model(before[0], before[1]);
        memcpy(before, two, sizeof before);
    }
    settle(NCCL_IN_PROGRESS);
    reduce_model(before[0], before[1]);
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

static void touch(void *registration, int buffer)
{
    CHECK(ncclFakeTouch(comm, registration, WORDS, stream) == 0);
    reduce_model(buffer, buffer);
}

/* After other work, for which the buffer would have to leave. */
static void use_and_deregister(void *registration, int buffer)
{
    for (int i = 0; i < 8; i++)
        work();
    touch(registration, buffer);
    CUDA(cudaStreamSynchronize(stream));
    CHECK(ncclCommDeregister(comm, registration) == 0);
}

/* Others use a registered buffer at any time, whatever else needs memory. */
static void registered(uint64_t seed, int count)
{
    void *registration;
    begin(seed, count);
    begin_nccl(1);
    for (int round = 0; round < 2; round++) {
        const int one = pick(count);
        CHECK(ncclCommRegister(comm, buffers[one], WORDS * sizeof(uint32_t), &registration) == 0);
        use_and_deregister(registration, one);
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

/* The library counts: one handle for a buffer and its parts, which ends with the last of them. */
static void registered_twice(uint64_t seed, int count)
{
    void *registration, *again;
    begin(seed, count);
    begin_nccl(1);
    for (int round = 0; round < 2; round++) {
        const int one = pick(count);
        CHECK(ncclCommRegister(comm, buffers[one], WORDS * sizeof(uint32_t), &registration) == 0);
        CHECK(ncclCommRegister(comm, buffers[one] + 1, sizeof(uint32_t), &again) == 0);
        CHECK(again == registration && ncclCommDeregister(comm, again) == 0);
        use_and_deregister(registration, one);
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

/* What is registered ends with its communicator. */
static void never_deregistered(uint64_t seed, int count)
{
    void *registration;
    begin(seed, count);
    for (int round = 0; round < rounds; round++) {
        const int one = round % count;
        begin_nccl(1);
        if (pick(2) == 0)
            CHECK(ncclCommWindowRegister(comm, buffers[one], WORDS * sizeof(uint32_t),
                                         &registration, 0) == 0);
        else
            CHECK(ncclCommRegister(comm, buffers[one], WORDS * sizeof(uint32_t), &registration) ==
                  0);
        work();
        touch(registration, one);
        CUDA(cudaStreamSynchronize(stream));
        CHECK((pick(2) == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm)) == 0);
    }
    check_all();
}

/* More than there is room for. */
static void all_registered(uint64_t seed, int count)
{
    void *registrations[MOST];
    begin(seed, count);
    begin_nccl(1);
    work();
    for (int i = 0; i < count; i++)
        CHECK(ncclCommRegister(comm, buffers[i], WORDS * sizeof(uint32_t), &registrations[i]) == 0);
    for (int round = 0; round < 6; round++) {
        work();
        one_collective();
    }
    for (int i = 0; i < count; i++) {
        if (registrations[i])
            touch(registrations[i], i);
        CUDA(cudaStreamSynchronize(stream));
        CHECK(ncclCommDeregister(comm, registrations[i]) == 0);
    }
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

/* Likewise of windows, which the program can do without. */
static void all_windows(uint64_t seed, int count)
{
    void *windows[MOST];
    int made = 0;
    begin(seed, count);
    begin_nccl(1);
    while (made < count && ncclCommWindowRegister(comm, buffers[made], WORDS * sizeof(uint32_t),
                                                  &windows[made], 0) == 0)
        made++;
    for (int i = 0; i < made; i++)
        CHECK(ncclCommWindowDeregister(comm, windows[i]) == 0);
    printf("%d\n", made);
    work();
    check_all();
    CHECK(ncclCommDestroy(comm) == 0);
}

/* Communicators that were there first. */
static void many_comms(uint64_t seed, int count)
{
    for (int i = 0; i < COMMS; i++) {
        begin_nccl(1);
        comms[i] = comm;
    }
    begin(seed, count);
    for (int round = 0; round < 6; round++) {
        comm = comms[pick(COMMS)];
        work();
        one_group();
    }
    check_all();
}

static void comms_gone(uint64_t seed, int count)
{
    many_comms(seed, count);
    for (int i = 0; i < COMMS; i++)
        CHECK(ncclCommDestroy(comms[i]) == 0);
    for (int round = 0; round < 6; round++)
        work();
    check_all();
}

/* Nothing of what the program and NCCL allocate is a pool's. */
static void check_pool(void)
{
    cudaMemPool_t pool;
    uint64_t used;
    CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
    CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    CHECK(used == 0);
}

/* Communicators that come when the budget is used up, and go. */
static void comms_late(uint64_t seed, int count)
{
    begin(seed, count);
    for (int round = 0; round < rounds; round++) {
        begin_nccl(1);
        work();
        one_collective();
        CUDA(cudaStreamSynchronize(stream));
        CHECK(ncclCommDestroy(comm) == 0);
    }
    check_all();
    check_pool();
}

/* Contexts of the program's own, whose memory ends with them: before the budget is used up, and
 * then. */
static void end_contexts(void)
{
    enum { CONTEXTS = 24 };
    for (int i = 0; i < CONTEXTS; i++) {
        CUcontext context;
        void *address;
        CHECK(cuCtxCreate(&context, NULL, 0, 0) == CUDA_SUCCESS);
        CHECK(ncclMemAlloc(&address, WORDS * sizeof(uint32_t)) == 0);
        CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    }
}

static void contexts_end(uint64_t seed, int count)
{
    CUDA(cudaFree(NULL));
    end_contexts();
    begin(seed, count);
    end_contexts();
    for (int round = 0; round < 6; round++)
        work();
    check_all();
}

int main(int argc, char **argv)
{
    static const named_program_t programs[] = {{"batches", batches},
                                               {"looked_up", looked_up},
                                               {"then_short", then_short},
                                               {"then_freed", then_freed},
                                               {"captured", captured},
                                               {"plans", plans},
                                               {"large_plan", large_plan},
                                               {"transforms", transforms},
                                               {"captured_transform", captured_transform},
                                               {"collectives", collectives},
                                               {"simulated", simulated},
                                               {"launched_later", launched_later},
                                               {"watched", watched},
                                               {"never_asked", never_asked},
                                               {"registered", registered},
                                               {"registered_twice", registered_twice},
                                               {"never_deregistered", never_deregistered},
                                               {"all_registered", all_registered},
                                               {"all_windows", all_windows},
                                               {"many_comms", many_comms},
                                               {"comms_gone", comms_gone},
                                               {"comms_late", comms_late},
                                               {"contexts_end", contexts_end}};
    return run_program(programs, sizeof programs / sizeof *programs, argc, argv);
}
