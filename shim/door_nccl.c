/* NCCL. A collective's buffers go to a queue from where a kernel takes them that is launched in the
 * call, at the end of a group, or (communicators that do not block) by a thread of NCCL's own: that
 * kernel names them. What NCCL allocates is plain memory (shim/plain_memory.h). */
#include <pthread.h>
#include <stdlib.h>

#include "shim/library_doors.h"
#include "shim/virtual_unseen.h"

/* initial-exec: see shim/process.c. */
static _Thread_local struct {
    mdnn_hidden_t names; /* of the group that is open */
    uint32_t depth;      /* groups in groups */
    uint32_t inside;     /* calls of NCCL under way */
} group __attribute__((tls_model("initial-exec")));

void mdnn_nccl_enter(void)
{
    group.inside++;
}

void mdnn_nccl_leave(void)
{
    group.inside--;
}

bool mdnn_nccl_is_inside(void)
{
    return group.inside > 0;
}

/* ---- collectives ---- */

static void publish(const mdnn_hidden_t *names, size_t first)
{
    for (size_t i = first; i < names->count; i++)
        mdnn_hidden_publish(&names->names[i]);
}

static void begin_launches(mdnn_hidden_t *names)
{
    publish(names, 0);
    mdnn_nccl_enter();
    mdnn_hidden_enter(names);
}

static void end_launches(mdnn_hidden_t *names, int result)
{
    mdnn_hidden_leave(names);
    mdnn_nccl_leave();
    for (size_t i = 0; result != MDNN_NCCL_IN_PROGRESS && i < names->count; i++)
        mdnn_hidden_done(names->names[i].owner);
    mdnn_hidden_clear(names);
}

/* In a group the real call launches nothing: its own list stays empty. */
void mdnn_collective_begin(mdnn_collective_t *collective, void *comm)
{
    collective->own = (mdnn_hidden_t){0};
    collective->names = group.depth > 0 ? &group.names : &collective->own;
    collective->comm = comm;
    begin_launches(&collective->own);
}

void mdnn_collective_buffer(mdnn_collective_t *collective, const void *buffer, mdnn_use_role_t role)
{
    if (!mdnn_virtual_owns((uintptr_t)buffer))
        return;
    mdnn_virtual_devices_meet(); /* kernels of other ranks reach into it */
    mdnn_hidden_add(collective->names, (uintptr_t)buffer, role, collective->comm);
    if (collective->names == &collective->own)
        publish(&collective->own, collective->own.count - 1);
}

void mdnn_collective_end(mdnn_collective_t *collective, int result)
{
    end_launches(&collective->own, result);
}

int mdnn_door_ncclGroupStart(int (*real)(void))
{
    const int result = real();
    group.depth += result == 0;
    return result;
}

/* What the group has named, if that was the outermost one, for the call that ends it. */
static mdnn_hidden_t leave_group(void)
{
    mdnn_hidden_t names = {0}; /* of its own: NCCL may open groups meanwhile */
    if (group.depth > 0)
        group.depth--;
    if (group.depth == 0) {
        names = group.names;
        group.names = (mdnn_hidden_t){0};
    }
    return names;
}

int mdnn_door_ncclGroupEnd(int (*real)(void))
{
    mdnn_hidden_t names = leave_group();
    begin_launches(&names);
    const int result = real();
    end_launches(&names, result);
    return result;
}

/* Nothing is launched, but connections may be made. */
int mdnn_door_ncclGroupSimulateEnd(int (*real)(void *), void *info)
{
    mdnn_hidden_t names = leave_group();
    mdnn_hidden_clear(&names);
    mdnn_nccl_enter();
    const int result = real(info);
    mdnn_nccl_leave();
    return result;
}

/* ---- communicators that do not block ---- */

int mdnn_door_ncclCommGetAsyncError(int (*real)(void *, int *), void *comm, int *error)
{
    const int result = real(comm, error);
    if (result == 0 && error && *error != MDNN_NCCL_IN_PROGRESS)
        mdnn_hidden_done(comm);
    return result;
}

int mdnn_door_ncclCommDestroy(int (*real)(void *), void *comm)
{
    const int result = real(comm);
    mdnn_hidden_done(comm);
    return result;
}

int mdnn_door_ncclCommAbort(int (*real)(void *), void *comm)
{
    const int result = real(comm);
    mdnn_hidden_done(comm);
    return result;
}

/* ---- memory that is used at any time ---- */

/* An allocation that is pinned for a handle (of a registration, a window) or an operation. */
typedef struct registered {
    struct registered *next;
    const void *comm;
    uint64_t handle, address;
} registered_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `all` */
static registered_t *all;

static void unpin_list(registered_t *list)
{
    for (registered_t *each = list, *next; each; each = next) {
        next = each->next;
        mdnn_virtual_unpin(each->address);
        free(each);
    }
}

/* Pins what lies in the bytes; false: not all of it. */
static bool pin_all(const void *buffer, size_t bytes, registered_t **list)
{
    uint64_t address = (uintptr_t)buffer, start, length;
    const uint64_t end = address + bytes;
    int device;
    while (address < end && mdnn_virtual_owns(address) &&
           mdnn_virtual_find(address, &start, &length, &device)) {
        registered_t *const made = malloc(sizeof *made);
        if (!made || mdnn_virtual_pin(start) != CUDA_SUCCESS) {
            free(made);
            return false;
        }
        *made = (registered_t){.next = *list, .address = start};
        *list = made;
        address = start + length;
    }
    return true;
}

static void keep(registered_t *list, const void *comm, uint64_t handle)
{
    registered_t *last = list;
    if (!list)
        return;
    for (registered_t *each = list; each; each = each->next) {
        each->comm = comm;
        each->handle = handle;
        last = each;
    }
    pthread_mutex_lock(&lock);
    last->next = all;
    all = list;
    pthread_mutex_unlock(&lock);
}

static void forget(const void *comm, uint64_t handle)
{
    registered_t *gone = NULL;
    pthread_mutex_lock(&lock);
    for (registered_t **at = &all; *at;) {
        registered_t *const each = *at;
        if (each->comm == comm && each->handle == handle) {
            *at = each->next;
            each->next = gone;
            gone = each;
        } else {
            at = &each->next;
        }
    }
    pthread_mutex_unlock(&lock);
    unpin_list(gone);
}

enum { UNHANDLED_CUDA_ERROR = 1 };

int mdnn_door_ncclCommRegister(int (*real)(void *, void *, size_t, void **), void *comm,
                               void *buffer, size_t bytes, void **handle)
{
    registered_t *list = NULL;
    int result = UNHANDLED_CUDA_ERROR;
    mdnn_nccl_enter();
    if (pin_all(buffer, bytes, &list))
        result = real(comm, buffer, bytes, handle);
    mdnn_nccl_leave();
    if (result == 0 && handle)
        keep(list, comm, (uintptr_t)*handle);
    else
        unpin_list(list);
    return result;
}

int mdnn_door_ncclCommDeregister(int (*real)(void *, void *), void *comm, void *handle)
{
    const int result = real(comm, handle);
    if (result == 0)
        forget(comm, (uintptr_t)handle);
    return result;
}

int mdnn_door_ncclCommWindowRegister(int (*real)(void *, void *, size_t, void **, int), void *comm,
                                     void *buffer, size_t bytes, void **window, int flags)
{
    registered_t *list = NULL;
    int result = UNHANDLED_CUDA_ERROR;
    mdnn_nccl_enter();
    if (pin_all(buffer, bytes, &list))
        result = real(comm, buffer, bytes, window, flags);
    mdnn_nccl_leave();
    if ((result == 0 || result == MDNN_NCCL_IN_PROGRESS) && window)
        keep(list, comm, result == 0 ? (uintptr_t)*window : 0);
    else
        unpin_list(list);
    return result;
}

int mdnn_door_ncclCommWindowDeregister(int (*real)(void *, void *), void *comm, void *window)
{
    const int result = real(comm, window);
    if (result == 0)
        forget(comm, (uintptr_t)window);
    return result;
}

/* A scalar in device memory is read whenever the operation is used. */
int mdnn_door_ncclRedOpCreatePreMulSum(int (*real)(int *, void *, int, int, void *), int *operation,
                                       void *scalar, int type, int residence, void *comm)
{
    registered_t *list = NULL;
    int result = UNHANDLED_CUDA_ERROR;
    if (pin_all(scalar, 1, &list))
        result = real(operation, scalar, type, residence, comm);
    if (result == 0 && operation)
        keep(list, comm, (uint64_t)*operation);
    else
        unpin_list(list);
    return result;
}

int mdnn_door_ncclRedOpDestroy(int (*real)(int, void *), int operation, void *comm)
{
    const int result = real(operation, comm);
    if (result == 0)
        forget(comm, (uint64_t)operation);
    return result;
}
