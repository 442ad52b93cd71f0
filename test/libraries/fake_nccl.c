/* A libnccl.so.2 for one process, with what makes the real one hard to watch: buffers go to a queue
 * in device memory, where the kernel takes them; the kernel works through a staging buffer that
 * nobody names, allocated by a thread of the library's own; a communicator that does not block
 * launches by another thread, after the call has returned, and as late as it may: when it is asked
 * or used again.
 *
 * A collective of `count` words: to[j] = 2 from[j] + 7, as if the ranks had that to add; send and
 * receive, in a group, are one such pair. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "test/libraries/kernels.h"

enum {
    SUCCESS = 0,
    UNHANDLED_CUDA_ERROR = 1,
    INTERNAL_ERROR = 3,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    IN_PROGRESS = 7
};
enum { MOST = 64, STAGING_WORDS = 1 << 18 };

typedef struct work {
    uint64_t from, to, staging;
    uint64_t words;
} work_t;

/* A buffer; registering a part of one that is there counts it once more. */
typedef struct registration {
    uint64_t first, end;
    int count; /* 0: free */
} registration_t;

typedef struct comm {
    work_t *queue;     /* in device memory */
    uint32_t *staging; /* likewise */
    CUfunction kernel;
    cudaStream_t stream; /* of what is waiting */
    work_t waiting[MOST];
    uint32_t count;
    bool later;      /* does not block */
    bool is_pending; /* what waits is for another thread to launch */
    int result;
    registration_t registrations[MOST];
} comm_t;

typedef struct unique_id {
    char bytes[128];
} unique_id_t;

static _Thread_local int depth;
static _Thread_local comm_t *open_comms[8];
static _Thread_local int open_count;
static _Thread_local bool ending;

static void run(void *const *parameters)
{
    const uint32_t count = *(uint32_t *)parameters[1];
    const work_t *const queue =
        simulator->memory(*(uint64_t *)parameters[0], count * sizeof *queue);
    for (uint32_t i = 0; queue && i < count; i++) {
        const uint32_t *const from = simulator->memory(queue[i].from, queue[i].words * 4);
        uint32_t *const to = simulator->memory(queue[i].to, queue[i].words * 4);
        uint32_t *const staging = simulator->memory(queue[i].staging, STAGING_WORDS * 4);
        for (uint64_t j = 0; from && to && staging && j < queue[i].words; j++) {
            staging[j % STAGING_WORDS] = 2 * from[j];
            to[j] = staging[j % STAGING_WORDS] + 7;
        }
    }
}

static const sim_kernel_parameter_t parameters_of_kernel[] = {{0, 8}, {8, 4}};
static const sim_kernel_t kernel = {"_Z21ncclDevKernel_Genericv", 2, parameters_of_kernel, run};

/* ---- communicators ---- */

static void *allocate_staging(void *context)
{
    comm_t *const comm = context;
    if (cudaMalloc((void **)&comm->staging, STAGING_WORDS * 4) != cudaSuccess)
        comm->staging = NULL;
    return NULL;
}

int ncclCommInitRankConfig(void **made, int ranks, unique_id_t id, int rank, void *config);
int ncclCommDestroy(void *handle);
int ncclCommAbort(void *handle);
int ncclCommGetAsyncError(void *handle, int *error);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclGroupSimulateEnd(void *info);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *handle,
                  cudaStream_t stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *handle,
                  cudaStream_t stream);
int ncclBcast(void *buffer, size_t count, int type, int root, void *handle, cudaStream_t stream);
int ncclSend(const void *from, size_t count, int type, int peer, void *handle, cudaStream_t stream);
int ncclRecv(void *to, size_t count, int type, int peer, void *handle, cudaStream_t stream);
int ncclCommRegister(void *handle, void *buffer, size_t bytes, void **registration);
int ncclCommDeregister(void *handle, void *registration);
int ncclCommWindowRegister(void *handle, void *buffer, size_t bytes, void **window, int flags);
int ncclCommWindowDeregister(void *handle, void *window);
int ncclMemAlloc(void **address, size_t bytes);
int ncclFakeTouch(void *handle, void *registration, size_t count, cudaStream_t stream);
void ncclFakeMeanwhile(void (*call)(void));

/* `config`: an int, 0 for one that does not block. */
int ncclCommInitRankConfig(void **made, int ranks, unique_id_t id, int rank, void *config)
{
    comm_t *const comm = calloc(1, sizeof *comm);
    pthread_t proxy;
    (void)ranks, (void)id, (void)rank;
    if (!comm)
        return INTERNAL_ERROR;
    comm->later = config && *(const int *)config == 0;
    comm->kernel = find_kernel(&kernel);
    if (cudaMalloc((void **)&comm->queue, sizeof comm->waiting) != cudaSuccess ||
        pthread_create(&proxy, NULL, allocate_staging, comm) != 0)
        return UNHANDLED_CUDA_ERROR;
    pthread_join(proxy, NULL);
    *made = comm;
    return comm->staging ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

static void *launch_later(void *context);

static void join(comm_t *comm)
{
    pthread_t launcher;
    if (!comm->is_pending)
        return;
    comm->is_pending = false;
    if (pthread_create(&launcher, NULL, launch_later, comm) == 0)
        pthread_join(launcher, NULL);
}

int ncclCommDestroy(void *handle)
{
    comm_t *const comm = handle;
    join(comm);
    cudaFree(comm->queue);
    cudaFree(comm->staging);
    free(comm);
    return SUCCESS;
}

int ncclCommAbort(void *handle)
{
    return ncclCommDestroy(handle);
}

int ncclCommGetAsyncError(void *handle, int *error)
{
    comm_t *const comm = handle;
    join(comm);
    *error = comm->result;
    return SUCCESS;
}

/* ---- launches ---- */

static int launch(comm_t *comm)
{
    void *parameters[] = {&comm->queue, &comm->count};
    if (comm->count == 0)
        return SUCCESS;
    const int failed = cudaMemcpyAsync(comm->queue, comm->waiting, comm->count * sizeof(work_t),
                                       cudaMemcpyHostToDevice, comm->stream) != cudaSuccess ||
                       launch_kernel(comm->kernel, comm->stream, parameters);
    comm->count = 0;
    return failed ? UNHANDLED_CUDA_ERROR : SUCCESS;
}

static void *launch_later(void *context)
{
    comm_t *const comm = context;
    const int result = launch(comm);
    comm->result = comm->result == SUCCESS ? result : comm->result;
    return NULL;
}

static void (*meanwhile)(void);

static int finish(comm_t *comm)
{
    if (!comm->later)
        return launch(comm);
    if (meanwhile)
        meanwhile();
    comm->is_pending = true;
    return IN_PROGRESS;
}

static int enqueue(comm_t *comm, uint64_t from, uint64_t to, size_t words, cudaStream_t stream)
{
    if (comm->count == MOST)
        return INTERNAL_ERROR;
    join(comm);
    comm->stream = stream;
    comm->waiting[comm->count++] = (work_t){from, to, (uintptr_t)comm->staging, words};
    if (depth == 0)
        return finish(comm);
    for (int i = 0; i < open_count; i++)
        if (open_comms[i] == comm)
            return SUCCESS;
    open_comms[open_count++] = comm;
    return SUCCESS;
}

int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

/* Of the library's own, by the public names. */
__attribute__((noinline)) static int open_own_group(void)
{
    return ncclGroupStart() == SUCCESS && ncclGroupEnd() == SUCCESS ? SUCCESS : INTERNAL_ERROR;
}

int ncclGroupEnd(void)
{
    int result = SUCCESS;
    if (--depth > 0 || ending)
        return SUCCESS;
    ending = true;
    result = open_own_group();
    ending = false;
    for (int i = 0; i < open_count; i++) {
        const int each = finish(open_comms[i]);
        result = each == SUCCESS ? result : each;
    }
    open_count = 0;
    return result;
}

/* Ends the group, whose calls are estimated and not made. */
int ncclGroupSimulateEnd(void *info)
{
    (void)info;
    if (--depth > 0)
        return SUCCESS;
    for (int i = 0; i < open_count; i++)
        open_comms[i]->count = 0;
    open_count = 0;
    return SUCCESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, void *handle,
                  cudaStream_t stream)
{
    (void)operation;
    if (type < 0)
        return INVALID_ARGUMENT;
    return enqueue(handle, (uintptr_t)from, (uintptr_t)to, count, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, void *handle,
                  cudaStream_t stream)
{
    (void)type, (void)root;
    return enqueue(handle, (uintptr_t)from, (uintptr_t)to, count, stream);
}

/* By the public name, as the real one does. */
int ncclBcast(void *buffer, size_t count, int type, int root, void *handle, cudaStream_t stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, handle, stream);
}

int ncclSend(const void *from, size_t count, int type, int peer, void *handle, cudaStream_t stream)
{
    (void)type, (void)peer;
    return enqueue(handle, (uintptr_t)from, 0, count, stream);
}

/* What was sent last in this group. */
int ncclRecv(void *to, size_t count, int type, int peer, void *handle, cudaStream_t stream)
{
    comm_t *const comm = handle;
    (void)count, (void)type, (void)peer, (void)stream;
    if (comm->count == 0 || comm->waiting[comm->count - 1].to != 0)
        return INTERNAL_ERROR;
    comm->waiting[comm->count - 1].to = (uintptr_t)to;
    return SUCCESS;
}

int ncclCommRegister(void *handle, void *buffer, size_t bytes, void **registration)
{
    comm_t *const comm = handle;
    const uint64_t first = (uintptr_t)buffer, end = first + bytes;
    registration_t *place = NULL;
    for (registration_t *each = comm->registrations; each < comm->registrations + MOST; each++)
        if (each->count > 0 && each->first <= first && end <= each->end) {
            each->count++;
            *registration = each;
            return SUCCESS;
        } else if (each->count == 0) {
            place = each;
        }
    if (!place)
        return INTERNAL_ERROR;
    *place = (registration_t){first, end, 1};
    *registration = place;
    return SUCCESS;
}

/* As versions that do not take NULL. */
int ncclCommDeregister(void *handle, void *registration)
{
    comm_t *const comm = handle;
    registration_t *const one = registration;
    if (one < comm->registrations || one >= comm->registrations + MOST || one->count == 0)
        return INVALID_USAGE;
    one->count--;
    return SUCCESS;
}

int ncclCommWindowRegister(void *handle, void *buffer, size_t bytes, void **window, int flags)
{
    (void)flags;
    return ncclCommRegister(handle, buffer, bytes, window);
}

int ncclCommWindowDeregister(void *handle, void *window)
{
    return ncclCommDeregister(handle, window);
}

int ncclMemAlloc(void **address, size_t bytes)
{
    return cudaMalloc(address, bytes) == cudaSuccess ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

/* No function of the real one: what other ranks do with a registered buffer. */
int ncclFakeTouch(void *handle, void *registration, size_t count, cudaStream_t stream)
{
    const registration_t *const one = registration;
    return enqueue(handle, one->first, one->first, count, stream);
}

/* No function of the real one: what other threads of the program do just before a call that does not
 * block is handed to the thread that launches it. */
void ncclFakeMeanwhile(void (*call)(void))
{
    meanwhile = call;
}
