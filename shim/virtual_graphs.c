#include <stdlib.h>
#include <string.h>

#include "shim/virtual_internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of mdnn_virtual_captures() */

static CUstream handle_of(CUstream stream, bool per_thread)
{
    return stream ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static mdnn_status_t hold(mdnn_holder_kind_t kind, uint64_t id, uint64_t address)
{
    pthread_mutex_lock(&lock);
    const mdnn_status_t status = mdnn_captures_hold(mdnn_virtual_captures(), kind, id, address);
    pthread_mutex_unlock(&lock);
    return status;
}

void mdnn_virtual_hold_captured(mdnn_virtual_device_t *device, unsigned long long capture,
                                uint64_t address, bool pinned)
{
    uint64_t start, bytes;
    if (!mdnn_memory_find(device->memory, address, &start, &bytes) ||
        (!pinned && mdnn_memory_pin(device->memory, start) != MDNN_STATUS_OK))
        return;
    if (hold(MDNN_HOLDER_CAPTURE, capture, start) == MDNN_STATUS_BUSY)
        mdnn_memory_unpin(device->memory, start); /* once is enough */
    /* Without memory for the note it stays pinned for good. */
}

/* The holder has the allocation, too. */
static void hold_pinned(mdnn_holder_kind_t kind, uint64_t id, uint64_t address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t start, bytes;
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (!mdnn_memory_find(device->memory, address, &start, &bytes))
        start = address; /* freed, but held by another */
    if (mdnn_memory_pin(device->memory, start) == MDNN_STATUS_OK &&
        hold(kind, id, start) == MDNN_STATUS_BUSY)
        mdnn_memory_unpin(device->memory, start);
    mdnn_virtual_leave(device, entry);
}

static void release(mdnn_holder_kind_t kind, uint64_t id)
{
    size_t count = 0;
    uint64_t *addresses = NULL;
    if (!mdnn_virtual_captures())
        return;
    pthread_mutex_lock(&lock);
    addresses = mdnn_captures_release(mdnn_virtual_captures(), kind, id, &count);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++) {
        mdnn_virtual_device_t *const device = mdnn_virtual_device_of(addresses[i]);
        const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
        mdnn_memory_unpin(device->memory, addresses[i]);
        mdnn_virtual_leave(device, entry);
    }
    free(addresses);
}

/* A copy of what the holder has, the caller's to free; NULL for nothing. */
static uint64_t *held(mdnn_holder_kind_t kind, uint64_t id, size_t *count)
{
    uint64_t *copy = NULL;
    *count = 0;
    if (!mdnn_virtual_captures())
        return NULL;
    pthread_mutex_lock(&lock);
    const uint64_t *const addresses = mdnn_captures_held(mdnn_virtual_captures(), kind, id, count);
    if (*count > 0 && (copy = malloc(*count * sizeof *copy)))
        memcpy(copy, addresses, *count * sizeof *copy);
    pthread_mutex_unlock(&lock);
    if (!copy)
        *count = 0;
    return copy;
}

/* `to` holds what `from` does, and what it held before. */
static void pass_on(mdnn_holder_kind_t from_kind, uint64_t from, mdnn_holder_kind_t to_kind,
                    uint64_t to)
{
    size_t count;
    uint64_t *const before = held(to_kind, to, &count);
    free(before);
    if (count == 0) {
        if (!mdnn_virtual_captures())
            return;
        pthread_mutex_lock(&lock);
        (void)mdnn_captures_share(mdnn_virtual_captures(), from_kind, from, to_kind, to);
        pthread_mutex_unlock(&lock);
        return;
    }
    uint64_t *const addresses = held(from_kind, from, &count);
    for (size_t i = 0; i < count; i++)
        hold_pinned(to_kind, to, addresses[i]);
    free(addresses);
}

void mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable)
{
    size_t count;
    uint64_t *const addresses = held(MDNN_HOLDER_EXECUTABLE, (uintptr_t)executable, &count);
    for (size_t i = 0; i < count; i++)
        mdnn_virtual_name(operation, addresses[i], MDNN_USE_UNKNOWN);
    free(addresses);
}

void mdnn_virtual_capture_began(CUstream stream, bool per_thread)
{
    mdnn_moments_t *const moments = mdnn_virtual_moments();
    (void)stream;
    (void)per_thread; /* others may join its capture: all streams are prepared */
    if (!moments)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_relax();
    mdnn_moments_capture_began(moments);
    mdnn_virtual_restore(entry);
}

unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread)
{
    mdnn_moments_t *const moments = mdnn_virtual_moments();
    unsigned long long id = 0;
    return moments && mdnn_moments_is_capturing(moments) &&
                   mdnn_capture_of(handle_of(stream, per_thread), &id)
               ? id
               : 0;
}

void mdnn_virtual_capture_ended(unsigned long long capture, CUgraph graph)
{
    mdnn_moments_t *const moments = mdnn_virtual_moments();
    if (moments)
        mdnn_moments_capture_ended(moments);
    if (capture && graph)
        pass_on(MDNN_HOLDER_CAPTURE, capture, MDNN_HOLDER_GRAPH, (uintptr_t)graph);
    if (capture)
        release(MDNN_HOLDER_CAPTURE, capture);
}

void mdnn_virtual_graph_named(CUgraph graph, uint64_t address)
{
    hold_pinned(MDNN_HOLDER_GRAPH, (uintptr_t)graph, address);
}

void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable)
{
    pass_on(MDNN_HOLDER_GRAPH, (uintptr_t)graph, MDNN_HOLDER_EXECUTABLE, (uintptr_t)executable);
}

void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone)
{
    pass_on(MDNN_HOLDER_GRAPH, (uintptr_t)graph, MDNN_HOLDER_GRAPH, (uintptr_t)clone);
}

void mdnn_virtual_graph_destroyed(CUgraph graph)
{
    release(MDNN_HOLDER_GRAPH, (uintptr_t)graph);
}

void mdnn_virtual_executable_destroyed(CUgraphExec executable)
{
    release(MDNN_HOLDER_EXECUTABLE, (uintptr_t)executable);
}
