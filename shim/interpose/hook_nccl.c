/* NCCL. A collective's buffers go to a queue from where a kernel takes them that is launched in the
 * call, at the end of a group, or (communicators that do not block) by a thread of NCCL's own: that
 * kernel names them. What NCCL allocates is plain memory (shim/real/plain_memory.h). */
#include <stdatomic.h>

#include "config/log.h"
#include "shim/interpose/library_hooks.h"
#include "shim/real/plain_memory.h"
#include "shim/vmem/registrations.h"
#include "shim/vmem/virtual_untracked.h"

/* initial-exec: see shim/real/process.c. */
static _Thread_local struct {
    mdnn_indirect_operands_t names; /* of the group that is open */
    uint32_t depth;                 /* groups in groups */
} group __attribute__((tls_model("initial-exec")));

/* ---- collectives ---- */

static void begin_launches(mdnn_indirect_operands_t *names)
{
    mdnn_indirect_publish(names);
    mdnn_nccl_enter();
    mdnn_indirect_enter(names);
}

static void end_launches(mdnn_indirect_operands_t *names, int result)
{
    mdnn_indirect_leave(names);
    mdnn_nccl_leave();
    mdnn_indirect_settle(names, result == 0                       ? MDNN_INDIRECT_LAUNCHED
                                : result == MDNN_NCCL_IN_PROGRESS ? MDNN_INDIRECT_LATER
                                                                  : MDNN_INDIRECT_REFUSED);
    mdnn_indirect_clear(names);
}

/* In a group the real call launches nothing: its own list stays empty. */
void mdnn_collective_begin(mdnn_collective_t *collective, void *comm)
{
    collective->own = (mdnn_indirect_operands_t){0};
    collective->names = group.depth > 0 ? &group.names : &collective->own;
    collective->comm = comm;
    begin_launches(&collective->own);
}

void mdnn_collective_buffer(mdnn_collective_t *collective, const void *buffer, mdnn_use_role_t role)
{
    if (!mdnn_virtual_owns((uintptr_t)buffer))
        return;
    mdnn_virtual_devices_meet(); /* kernels of other ranks reach into it */
    mdnn_indirect_add(collective->names, (uintptr_t)buffer, role, collective->comm);
    if (collective->names == &collective->own)
        mdnn_indirect_publish(&collective->own);
}

void mdnn_collective_end(mdnn_collective_t *collective, int result)
{
    end_launches(&collective->own, result);
}

int mdnn_hook_ncclGroupStart(int (*real)(void))
{
    const int result = real();
    group.depth += result == 0;
    return result;
}

/* What the group has named, if that was the outermost one, for the call that ends it. */
static mdnn_indirect_operands_t leave_group(void)
{
    mdnn_indirect_operands_t names = {0}; /* of its own: NCCL may open groups meanwhile */
    if (group.depth > 0)
        group.depth--;
    if (group.depth == 0) {
        names = group.names;
        group.names = (mdnn_indirect_operands_t){0};
    }
    return names;
}

int mdnn_hook_ncclGroupEnd(int (*real)(void))
{
    mdnn_indirect_operands_t names = leave_group();
    begin_launches(&names);
    const int result = real();
    end_launches(&names, result);
    return result;
}

/* Nothing is launched, but connections may be made. */
int mdnn_hook_ncclGroupSimulateEnd(int (*real)(void *), void *info)
{
    mdnn_indirect_operands_t names = leave_group();
    mdnn_indirect_clear(&names);
    mdnn_nccl_enter();
    const int result = real(info);
    mdnn_nccl_leave();
    return result;
}

/* ---- communicators that do not block ---- */

/* Any thread asks at any time: the answer says nothing of a call that comes back later. */
int mdnn_hook_ncclCommGetAsyncError(int (*real)(void *, int *), void *comm, int *error)
{
    const uint64_t asked = mdnn_indirect_tick();
    const int result = real(comm, error);
    if (result == 0 && error && *error != MDNN_NCCL_IN_PROGRESS)
        mdnn_indirect_done(comm, asked);
    return result;
}

/* ---- memory that is used at any time ---- */

enum { UNHANDLED_CUDA_ERROR = 1 }; /* as NCCL says where CUDA is out of memory */

/* Those that were not made got NULL, as NCCL's own where it makes none. */
static _Atomic bool any_skipped;

static int skip_registration(void **handle)
{
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "a buffer is not registered with NCCL, which may be slower: it would have to "
                  "stay, and the budget has no room for it beside other memory that must stay");
    atomic_store(&any_skipped, true);
    if (handle)
        *handle = NULL;
    return 0;
}

int mdnn_hook_ncclCommRegister(int (*real)(void *, void *, size_t, void **), void *comm,
                               void *buffer, size_t bytes, void **handle)
{
    mdnn_pin_t *pins;
    if (!mdnn_pins_take_if_spare(buffer, bytes, &pins))
        return skip_registration(handle);
    mdnn_nccl_enter();
    const int result = real(comm, buffer, bytes, handle);
    mdnn_nccl_leave();
    if (result == 0 && handle && *handle)
        mdnn_registration_add(comm, (uintptr_t)*handle, pins);
    else
        mdnn_pins_drop(pins);
    return result;
}

/* Around the call that ends a handle; 0 is none. */
static void end_registration(const void *comm, uint64_t handle, mdnn_pin_t *pins, int result)
{
    if (handle != 0 && result != 0)
        mdnn_registration_add(comm, handle, pins);
    else
        mdnn_pins_drop(pins);
}

int mdnn_hook_ncclCommDeregister(int (*real)(void *, void *), void *comm, void *handle)
{
    if (!handle && atomic_load(&any_skipped))
        return 0; /* not every version takes NULL */
    mdnn_pin_t *const pins = handle ? mdnn_registration_take(comm, (uintptr_t)handle) : NULL;
    const int result = real(comm, handle);
    end_registration(comm, (uintptr_t)handle, pins, result);
    return result;
}

/* In a group, and while a communicator that does not block is at it, there is no handle yet: it
 * stays until the communicator ends. All ranks make the call together, and map the memory into each
 * other: it cannot be skipped, nor done with what may leave. */
int mdnn_hook_ncclCommWindowRegister(int (*real)(void *, void *, size_t, void **, int), void *comm,
                                     void *buffer, size_t bytes, void **window, int flags)
{
    mdnn_pin_t *pins;
    if (mdnn_pins_take(buffer, bytes, &pins) != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    mdnn_nccl_enter();
    const int result = real(comm, buffer, bytes, window, flags);
    mdnn_nccl_leave();
    const bool later = result == MDNN_NCCL_IN_PROGRESS || (result == 0 && group.depth > 0);
    if (later || (result == 0 && window && *window))
        mdnn_registration_add(comm, later ? 0 : (uintptr_t)*window, pins);
    else
        mdnn_pins_drop(pins);
    return result;
}

int mdnn_hook_ncclCommWindowDeregister(int (*real)(void *, void *), void *comm, void *window)
{
    mdnn_pin_t *const pins = window ? mdnn_registration_take(comm, (uintptr_t)window) : NULL;
    const int result = real(comm, window);
    end_registration(comm, (uintptr_t)window, pins, result);
    return result;
}

/* A scalar in device memory is read whenever the operation is used. */
int mdnn_hook_ncclRedOpCreatePreMulSum(int (*real)(int *, void *, int, int, void *), int *operation,
                                       void *scalar, int type, int residence, void *comm)
{
    mdnn_pin_t *pins;
    if (mdnn_pins_take(scalar, 1, &pins) != CUDA_SUCCESS)
        return UNHANDLED_CUDA_ERROR;
    const int result = real(operation, scalar, type, residence, comm);
    if (result == 0 && operation)
        mdnn_registration_add(comm, (uint64_t)*operation, pins);
    else
        mdnn_pins_drop(pins);
    return result;
}

int mdnn_hook_ncclRedOpDestroy(int (*real)(int, void *), int operation, void *comm)
{
    mdnn_pin_t *const pins = mdnn_registration_take(comm, (uint64_t)operation);
    const int result = real(operation, comm);
    end_registration(comm, (uint64_t)operation, pins, result);
    return result;
}

/* ---- ends of communicators ---- */

/* Finalized or revoked ones keep what is registered until then. */
static int end_communicator(int (*real)(void *), void *comm)
{
    mdnn_registration_t *const registrations = mdnn_registrations_take(comm);
    const int result = real(comm);
    mdnn_indirect_end(comm);
    if (result == 0 || result == MDNN_NCCL_IN_PROGRESS)
        mdnn_registrations_drop(registrations);
    else
        mdnn_registrations_restore(registrations);
    return result;
}

int mdnn_hook_ncclCommDestroy(int (*real)(void *), void *comm)
{
    return end_communicator(real, comm);
}

int mdnn_hook_ncclCommAbort(int (*real)(void *), void *comm)
{
    return end_communicator(real, comm);
}
