#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/real/host_memory.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_workspaces.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_holds.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_statistics.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"
#include "shim/vmem/virtual_watch.h"

/* The names of one device. */
struct mdnn_virtual_part {
    struct mdnn_virtual_part *next;
    mdnn_virtual_device_t *device;
    mdnn_memory_operation_t operation;
    mdnn_memory_operand_t *own; /* NULL: the operation's names, all of one device */
    bool begun;
};

/* The convolution that is being enqueued. initial-exec: see shim/real/process.c. */
static _Thread_local struct {
    mdnn_operation_kind_t kind; /* OTHER: its first operation is behind, or there is none */
    uint64_t x, workspace_bytes;
    uint64_t workspace;        /* of all its operations */
    mdnn_virtual_call_t *call; /* that they all are parts of; NULL: of none */
} expected __attribute__((tls_model("initial-exec")));

void mdnn_virtual_convolution(mdnn_operation_kind_t kind, uint64_t x, uint64_t workspace,
                              uint64_t workspace_bytes)
{
    expected.kind = kind;
    expected.x = x;
    expected.workspace = workspace;
    expected.workspace_bytes = workspace_bytes;
}

void mdnn_virtual_expect_call(mdnn_virtual_call_t *call)
{
    expected.call = call;
    expected.workspace = call ? call->lent : 0;
}

void mdnn_virtual_call_is_trial(void)
{
    if (expected.call)
        expected.call->call.is_trial = true;
}

void mdnn_virtual_convolution_over(void)
{
    mdnn_virtual_convolution(MDNN_OPERATION_OTHER, 0, 0, 0);
}

/* ---- names ---- */

static mdnn_memory_operand_t *names_of(mdnn_virtual_operation_t *operation)
{
    return operation->more ? operation->more : operation->names;
}

/* Room for one more: from MDNN_VIRTUAL_NAMES on, memory for the next power of two. */
static bool make_room(mdnn_virtual_operation_t *operation)
{
    const size_t count = operation->name_count;
    if (count < MDNN_VIRTUAL_NAMES || (count & (count - 1)) != 0)
        return true;
    mdnn_memory_operand_t *const grown = realloc(operation->more, 2 * count * sizeof *grown);
    if (!grown)
        return false;
    if (!operation->more)
        memcpy(grown, operation->names, count * sizeof *grown);
    operation->more = grown;
    return true;
}

static void add_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role)
{
    if (make_room(operation))
        names_of(operation)[operation->name_count++] = (mdnn_memory_operand_t){address, role};
    else if (!MDNN_FAULT(NAME_LOST))
        operation->overflowed = true;
}

void mdnn_virtual_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role)
{
    enum { LAST = 8 };
    if (!mdnn_virtual_owns(address))
        return;
    const mdnn_memory_operand_t *const names = names_of(operation);
    const size_t count = operation->name_count;
    for (size_t i = count > LAST ? count - LAST : 0; i < count; i++)
        if (names[i].address == address && names[i].role == role)
            return;
    add_name(operation, address, role);
}

/* A kernel with more tables than that is not known; what the others lead to is missed. */
void mdnn_virtual_name_table(mdnn_virtual_operation_t *operation, uint64_t address)
{
    const size_t count = operation->table_count;
    uint64_t start, end;
    if (MDNN_FAULT(HOST_TABLES_IGNORED) || (count > 0 && operation->tables[0] == address) ||
        !mdnn_host_memory_find(address, &start, &end))
        return;
    if (count < MDNN_VIRTUAL_TABLES)
        operation->tables[count] = address;
    operation->table_count++;
}

/* What the convolution reads comes first among its names. */
static void put_first(mdnn_virtual_operation_t *operation, uint64_t address)
{
    if (!mdnn_virtual_owns(address))
        return;
    size_t place = 0;
    while (place < operation->name_count && names_of(operation)[place].address != address)
        place++;
    if (place == operation->name_count)
        add_name(operation, address, MDNN_USE_READ);
    if (place >= operation->name_count)
        return;
    mdnn_memory_operand_t *const names = names_of(operation);
    const mdnn_memory_operand_t first = names[place];
    memmove(names + 1, names, place * sizeof *names);
    names[0] = first;
}

/* ---- parts ---- */

static void free_parts(mdnn_virtual_operation_t *operation)
{
    for (struct mdnn_virtual_part *part = operation->parts, *next; part; part = next) {
        next = part->next;
        free(part->own);
        free(part);
    }
    free(operation->more);
    operation->parts = NULL;
    operation->more = NULL;
    operation->begun = false;
}

/* A part with the names of `device`; `all`: it has every name. */
static bool add_part(mdnn_virtual_operation_t *operation, mdnn_virtual_device_t *device, bool all,
                     const mdnn_memory_operation_t *what)
{
    const mdnn_memory_operand_t *const names = names_of(operation);
    const size_t count = operation->name_count;
    struct mdnn_virtual_part *const part = malloc(sizeof *part);
    if (!part)
        return false;
    *part =
        (struct mdnn_virtual_part){.next = operation->parts, .device = device, .operation = *what};
    part->operation.operands = names;
    part->operation.operand_count = count;
    if (what->call && expected.call->device != device)
        part->operation.call = NULL;
    if (!all) {
        part->own = malloc((count + 1) * sizeof *part->own);
        part->operation.operands = part->own;
        part->operation.operand_count = 0;
        for (size_t i = 0; part->own && i < count; i++)
            if (mdnn_virtual_device_of(names[i].address) == device)
                part->own[part->operation.operand_count++] = names[i];
    }
    if (!all && !part->own) {
        free(part);
        return false;
    }
    operation->parts = part;
    return true;
}

/* Each device that has names; `host`: every device, since it may reach what is on any. */
static bool add_parts(mdnn_virtual_operation_t *operation, bool host,
                      const mdnn_memory_operation_t *what)
{
    const mdnn_memory_operand_t *const names = names_of(operation);
    const size_t count = operation->name_count;
    const bool one = !mdnn_virtual_device(1);
    mdnn_virtual_device_t *device;
    bool made = true;
    for (size_t i = 0; made && (device = mdnn_virtual_device(i)); i++) {
        size_t first = 0;
        while (first < count && mdnn_virtual_device_of(names[first].address) != device)
            first++;
        if (first < count || (host && device->bytes > 0))
            made = add_part(operation, device, one, what);
    }
    return made;
}

/* Another thread resets a device between naming and begin: what is there ends with its context. */
static bool names_what_is_gone(mdnn_virtual_operation_t *operation)
{
    for (size_t i = 0; i < operation->name_count; i++)
        if (!mdnn_virtual_device_of(names_of(operation)[i].address))
            return true;
    return false;
}

/* In the same order of devices for all: whoever waits holds only what comes before. An operation
 * without names may have none. */
static CUresult make_parts(mdnn_virtual_operation_t *operation, const mdnn_memory_operation_t *what)
{
    const mdnn_memory_operand_t *const names = names_of(operation);
    const size_t count = operation->name_count;
    const bool host = mdnn_virtual_serves_all();
    mdnn_virtual_device_t *const device =
        count > 0 ? mdnn_virtual_device_of(names[0].address) : mdnn_virtual_current();
    size_t same = 0;
    while (device && same < count && names[same].address - device->start < device->bytes)
        same++;
    bool made = true;
    if (!host && same == count)
        made = !device || add_part(operation, device, true, what);
    else if (names_what_is_gone(operation))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    else
        made = add_parts(operation, host, what);
    return made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- peers ---- */

/* The device that does the work: its stream's. -1: the driver does not say. */
static CUdevice device_at_work(const mdnn_virtual_operation_t *operation)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    CUstream const stream = operation->stream;
    const bool own = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    CUcontext context = NULL;
    CUdevice ordinal;
    mdnn_virtual_device_t *device;
    if ((own ? driver->cuStreamGetCtx(stream, &context) : driver->cuCtxGetCurrent(&context)) !=
        CUDA_SUCCESS)
        return -1;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (device->context == context)
            return device->ordinal;
    const mdnn_context_change_t change = mdnn_context_enter(driver, context);
    const CUresult result = driver->cuCtxGetDevice(&ordinal);
    mdnn_context_leave(driver, change);
    return result == CUDA_SUCCESS ? ordinal : -1;
}

/* Gives a device that now first works on another's memory access to that. */
static void meet(mdnn_virtual_device_t *device, CUdevice other)
{
    const uint64_t bit = (uint64_t)1 << other;
    if (device->ordinal == other || atomic_load(&device->met) & bit)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    /* Where it fails the real call says what is wrong. */
    if (device->memory && !(atomic_fetch_or(&device->met, bit) & bit))
        (void)mdnn_device_memory_let(device->device, other);
    mdnn_virtual_leave(device, entry);
}

void mdnn_virtual_devices_meet(void)
{
    mdnn_virtual_device_t *device, *other;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        for (size_t j = 0; (other = mdnn_virtual_device(j)); j++)
            if (device->bytes > 0 && other->bytes > 0) /* else it was reset */
                meet(device, other->ordinal);
}

/* All devices whose memory is named meet each other and the one that does the work. */
static void meet_all(const mdnn_virtual_operation_t *operation)
{
    CUcontext current;
    if (!mdnn_virtual_device(1) && mdnn_real_driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
        current == operation->parts->device->context)
        return; /* as in every program with one device */
    const CUdevice here = device_at_work(operation);
    for (const struct mdnn_virtual_part *part = operation->parts; part; part = part->next) {
        if (here >= 0 && here <= MDNN_MEMORY_PEERS)
            meet(part->device, here);
        for (const struct mdnn_virtual_part *other = operation->parts; other; other = other->next)
            meet(part->device, other->device->ordinal);
    }
}

/* ---- begin and end ---- */

/* Entered. What the operation names belongs to its capture; the mechanism has pinned each once. */
static void hold_names(mdnn_virtual_device_t *device, unsigned long long capture,
                       const mdnn_memory_operation_t *operation)
{
    uint64_t *const starts = malloc(operation->operand_count * sizeof *starts);
    size_t count = 0;
    for (size_t i = 0; starts && i < operation->operand_count; i++) {
        uint64_t start;
        size_t known = 0;
        if (!mdnn_memory_operand_start(device->memory, operation, i, &start))
            continue;
        while (known < count && starts[known] != start)
            known++;
        if (known < count && !MDNN_FAULT(UNPINNED_TWICE))
            continue;
        starts[count++] = start;
        mdnn_virtual_hold_pinned(device, capture, start);
    }
    free(starts); /* without memory all stays pinned for good */
}

static CUresult begin_part(struct mdnn_virtual_part *part)
{
    mdnn_virtual_device_t *const device = part->device;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_status_t status;
    CUresult result = CUDA_SUCCESS;
    bool retried = false;
    do
        status = device->memory ? mdnn_memory_begin(device->memory, &part->operation)
                                : MDNN_STATUS_NOT_FOUND;
    while (mdnn_virtual_try_again(device, status, &retried));
    part->begun = device->memory && status == MDNN_STATUS_OK;
    if (part->begun)
        mdnn_virtual_open(device);
    if (device->memory && status != MDNN_STATUS_OK) /* a report costs as much as all else here */
        result = mdnn_virtual_result(device, status,
                                     mdnn_memory_report(device->memory).largest_operation_bytes);
    if (!device->memory && part->operation.operand_count > 0)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    mdnn_virtual_leave(device, entry);
    return result;
}

static void end_part(struct mdnn_virtual_part *part, unsigned long long capture, bool enqueued)
{
    mdnn_virtual_device_t *const device = part->device;
    if (!part->begun)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory) { /* else another thread has reset it meanwhile */
        mdnn_memory_end(device->memory, &part->operation, enqueued);
        /* Not before: what was not captured gives back its own pin, not an earlier operation's. */
        if (enqueued && capture && device->memory)
            hold_names(device, capture, &part->operation);
        if (device->memory && !device->said_tail)
            mdnn_virtual_say_tail(device);
        mdnn_virtual_count(device);
    }
    mdnn_virtual_close(device);
    mdnn_virtual_leave(device, entry);
}

/* The kind is the first operation's alone: what the next ones are is known by their keys only. */
static void take_expected(mdnn_virtual_operation_t *operation, mdnn_memory_operation_t *what)
{
    what->kind = expected.kind;
    what->workspace = expected.workspace;
    what->workspace_bytes = expected.workspace_bytes;
    what->call = expected.call ? &expected.call->call : NULL;
    if (expected.kind != MDNN_OPERATION_OTHER)
        put_first(operation, expected.x);
    expected.kind = MDNN_OPERATION_OTHER;
    expected.workspace_bytes = 0;
}

static CUresult begin_parts(mdnn_virtual_operation_t *operation)
{
    struct mdnn_virtual_part *part = operation->parts;
    CUresult result = CUDA_SUCCESS;
    meet_all(operation);
    while (part && (result = begin_part(part)) == CUDA_SUCCESS)
        part = part->next;
    if (result != CUDA_SUCCESS)
        for (struct mdnn_virtual_part *begun = operation->parts; begun != part; begun = begun->next)
            end_part(begun, 0, false);
    return result;
}

/* VERIFY and HOST: kernels that name nothing may still reach anything. What is captured runs
 * later. */
static bool must_be_seen(const mdnn_virtual_operation_t *operation)
{
    const bool proving = mdnn_process_options()->memory_safety == MDNN_SAFETY_VERIFY;
    return (proving || mdnn_virtual_serves_all()) && operation->name && mdnn_virtual_current() &&
           mdnn_virtual_capture(operation->stream, operation->per_thread) == 0;
}

static bool is_any_virtual(void)
{
    const mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (device->bytes > 0)
            return true;
    return false;
}

/* ---- whatever it uses ---- */

static bool name_live(mdnn_virtual_operation_t *operation)
{
    size_t count;
    bool fits;
    uint64_t *const starts = mdnn_virtual_live(&count, &fits);
    for (size_t i = 0; fits && starts && i < count; i++)
        mdnn_virtual_name(operation, starts[i], MDNN_USE_UNKNOWN);
    free(starts);
    return fits;
}

/* Work that runs beside a stream that waits for the host would keep memory there that the host waits for. */
static void reach(mdnn_virtual_operation_t *operation, bool capturing)
{
    if (mdnn_virtual_all_serve())
        return;
    if (!capturing && !mdnn_pointers_host_may_be_awaited())
        operation->untracked = mdnn_virtual_untracked_begin(mdnn_pointers_handle(operation),
                                                            &operation->untracked_stream);
    if (operation->untracked || name_live(operation) || operation->reach == MDNN_REACH_WHAT_FITS)
        return;
    const mdnn_status_t status = capturing ? MDNN_STATUS_OK : mdnn_virtual_serve_all();
    if (!capturing && status == MDNN_STATUS_OK)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "kernel %s is in the list of kernels, and not all that it may reach fits in "
                      "the budget: from now on memory is served as with safety = host",
                      operation->name);
    else
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "kernel %s is in the list of kernels, and not all that it may reach fits in "
                      "the budget: some of it may be away%s",
                      operation->name,
                      capturing                    ? ", since the launch is captured"
                      : status == MDNN_STATUS_BUSY ? ", since a call of another thread does not end"
                                                   : "");
}

static CUresult follow_and_make_parts(mdnn_virtual_operation_t *operation,
                                      const mdnn_memory_operation_t *what)
{
    const bool pointers =
        operation->name_count > 0 && atomic_load_explicit(&mdnn_pointers_any, memory_order_relaxed);
    if (operation->follows && (pointers || operation->table_count > 0))
        mdnn_pointers_name(operation, what->stream, what->capturing);
    if (operation->reach != MDNN_REACH_NAMED && !operation->untracked)
        reach(operation, what->capturing);
    return operation->overflowed ? CUDA_ERROR_OUT_OF_MEMORY : make_parts(operation, what);
}

static CUresult begin_operation(mdnn_virtual_operation_t *operation, uint64_t key)
{
    mdnn_memory_operation_t what = {.key = key, .name = operation->name};
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (operation->may_wait)
        mdnn_virtual_fix(operation);
    if (operation->name_count == 0 && operation->table_count == 0 && !operation->overflowed &&
        operation->reach == MDNN_REACH_NAMED && !must_be_seen(operation))
        return CUDA_SUCCESS;
    if (!is_any_virtual()) /* a kernel whose parameters cannot be read: it cannot have ours */
        return CUDA_SUCCESS;
    const unsigned long long capture =
        mdnn_virtual_capture(operation->stream, operation->per_thread);
    what.capturing = capture != 0;
    what.stream = MDNN_NO_STREAM;
    if (operation->name_count > 0)
        take_expected(operation, &what);
    const mdnn_status_t status =
        capture ? MDNN_STATUS_OK
                : mdnn_virtual_stream(operation->stream, operation->per_thread, &what.stream);
    const CUresult error = status == MDNN_STATUS_DEVICE ? mdnn_failure_take() : CUDA_SUCCESS;
    if (error != CUDA_SUCCESS)
        result = error; /* of the stream: the real call would fail, too */
    else if (status == MDNN_STATUS_OK)
        result = follow_and_make_parts(operation, &what);
    if (result == CUDA_SUCCESS && operation->parts)
        result = begin_parts(operation);
    operation->capture = capture;
    operation->begun = result == CUDA_SUCCESS && operation->parts;
    if (!operation->begun)
        free_parts(operation);
    if (!operation->begun && operation->untracked)
        mdnn_pointers_end(operation);
    return result;
}

static const mdnn_virtual_watch_t *watcher(void)
{
    return atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire);
}

CUresult mdnn_virtual_begin(mdnn_virtual_operation_t *operation, uint64_t key)
{
    const mdnn_virtual_watch_t *const watch = watcher();
    operation->watched = watch != NULL;
    if (watch)
        watch->before(operation);
    const CUresult result = begin_operation(operation, key);
    if (watch && result != CUDA_SUCCESS)
        watch->after(operation, false);
    return result;
}

void mdnn_virtual_end(mdnn_virtual_operation_t *operation, bool enqueued)
{
    if (operation->watched)
        watcher()->after(operation, enqueued);
    if (!operation->begun)
        return;
    for (struct mdnn_virtual_part *part = operation->parts; part; part = part->next)
        end_part(part, operation->capture, enqueued);
    free_parts(operation);
    if (operation->untracked)
        mdnn_pointers_end(operation);
}

/* ---- waiting ---- */

/* Never waits: whoever is in there moves things himself, and may wait for work that goes on only once
 * this thread has seen the end of other work. */
static bool progress_all(void)
{
    mdnn_virtual_device_t *device;
    mdnn_virtual_entry_t entry;
    bool under_way = false;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++) {
        if (!mdnn_virtual_try_enter(device, &entry)) {
            under_way = true;
            continue;
        }
        under_way |= device->memory && mdnn_memory_progress(device->memory);
        mdnn_virtual_leave(device, entry);
    }
    return under_way;
}

void mdnn_virtual_progress_while_waiting(bool (*is_over)(void *context), void *context)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    enum { EAGER = 200 };
    for (unsigned round = 0; !is_over(context) && progress_all(); round++)
        if (round < EAGER)
            sched_yield();
        else
            nanosleep(&pause, NULL);
}
