#include "shim/vmem/virtual_pointers_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/fault.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/real/failure.h"
#include "shim/real/host_memory.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

_Atomic bool mdnn_pointers_any;

mdnn_lock_t mdnn_pointers_lock = MDNN_LOCK_INIT(POINTERS);
mdnn_pointer_tables_t *mdnn_pointers_tables;
static _Atomic uint64_t generation = 1;

bool mdnn_pointers_are_any(void)
{
    return atomic_load_explicit(&mdnn_pointers_any, memory_order_acquire);
}

/* Locked. */
void mdnn_pointers_publish(void)
{
    atomic_store_explicit(&mdnn_pointers_any,
                          mdnn_pointers_tables && mdnn_pointer_tables_any(mdnn_pointers_tables),
                          memory_order_release);
}

/* ---- pinned memory, where words are read back to ---- */

enum { SLOTS = 16, SLOT_BYTES = MDNN_POINTER_UNREAD_BYTES, MOST_BLOCKS = 8 };

/* In the primary context of a device, with which it ends. */
typedef struct block {
    struct block *next;
    CUdevice device;
    char *bytes;
    bool taken[SLOTS];
} block_t;

static block_t *blocks;

/* Locked. */
static void *find_slot(CUdevice device, size_t *count)
{
    *count = 0;
    for (block_t *block = blocks; block; block = block->next) {
        *count += block->device == device;
        for (int i = 0; block->device == device && i < SLOTS; i++)
            if (!block->taken[i]) {
                block->taken[i] = true;
                return block->bytes + (size_t)i * SLOT_BYTES;
            }
    }
    return NULL;
}

static block_t *make_block(mdnn_virtual_device_t *device)
{
    block_t *const block = calloc(1, sizeof *block);
    void *bytes = NULL;
    if (!block)
        return NULL;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool made = device->memory &&
                      mdnn_real_driver()->cuMemHostAlloc(&bytes, (size_t)SLOTS * SLOT_BYTES,
                                                         CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS;
    mdnn_virtual_leave(device, entry);
    if (!made) {
        free(block);
        return NULL;
    }
    block->device = device->ordinal;
    block->bytes = bytes;
    return block;
}

/* NULL: there is none. */
void *mdnn_pointers_take_slot(mdnn_virtual_device_t *device)
{
    size_t count;
    mdnn_lock(&mdnn_pointers_lock);
    void *slot = find_slot(device->ordinal, &count);
    mdnn_unlock(&mdnn_pointers_lock);
    block_t *const made = slot || count >= MOST_BLOCKS ? NULL : make_block(device);
    if (!made)
        return slot;
    mdnn_lock(&mdnn_pointers_lock);
    made->next = blocks;
    blocks = made;
    slot = find_slot(device->ordinal, &count);
    mdnn_unlock(&mdnn_pointers_lock);
    return slot;
}

void mdnn_pointers_give_slot(const void *words)
{
    const char *const slot = words;
    for (block_t *block = blocks; block; block = block->next)
        if (slot >= block->bytes && slot < block->bytes + (size_t)SLOTS * SLOT_BYTES)
            block->taken[(size_t)(slot - block->bytes) / SLOT_BYTES] = false;
}

/* ---- what the tables ask; locked ---- */

bool mdnn_pointers_find(void *context, uint64_t address, uint64_t *start, uint64_t *end)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t bytes = 0;
    (void)context;
    if (!device)
        return mdnn_host_memory_may_hold(address) && mdnn_host_memory_find(address, start, end);
    mdnn_lock(&device->lock);
    const bool found = device->memory && mdnn_memory_find(device->memory, address, start, &bytes);
    mdnn_unlock(&device->lock);
    *end = found ? *start + bytes : 0;
    return found;
}

static uint64_t generation_now(void *context)
{
    (void)context;
    return atomic_load(&generation);
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_known_timelines();
    (void)context;
    return timelines && mdnn_timelines_is_done(timelines, point);
}

static void give_back(void *context, const void *words)
{
    (void)context;
    mdnn_pointers_give_slot(words);
}

bool mdnn_pointers_have_tables(void)
{
    static const mdnn_pointer_calls_t calls = {mdnn_pointers_find, generation_now, is_done,
                                               give_back};
    if (!mdnn_pointers_tables)
        mdnn_pointers_tables = mdnn_pointer_tables_create(&calls, NULL);
    return mdnn_pointers_tables != NULL;
}

/* ---- what may be written ---- */

void mdnn_pointers_warn_of_loss(void)
{
    MDNN_LOG_ONCE(MDNN_LOG_ERROR, "memory",
                  "host memory is short: what pointers in device memory lead to may be away");
}

/* Where in the table they lie is not known. */
void mdnn_pointers_may_be_at(uint64_t at, mdnn_address_list_t *values, bool captured)
{
    size_t count = 0;
    bool all = !values->lost;
    for (size_t i = 0; i < values->count; i++)
        if (mdnn_virtual_owns(values->values[i]))
            values->values[count++] = values->values[i];
    values->count = count;
    if (count > 0) {
        mdnn_lock(&mdnn_pointers_lock);
        all =
            mdnn_pointers_have_tables() &&
            mdnn_pointer_tables_spread(mdnn_pointers_tables, at, values->values, count, captured) &&
            all;
        mdnn_pointers_publish();
        mdnn_unlock(&mdnn_pointers_lock);
    }
    if (!all)
        mdnn_pointers_warn_of_loss();
}

/* ---- questions ---- */

bool mdnn_pointers_are_in(uint64_t address)
{
    uint64_t start, end;
    if (!mdnn_pointers_are_any() || !mdnn_pointers_find(NULL, address, &start, &end))
        return false;
    mdnn_lock(&mdnn_pointers_lock);
    const bool are =
        mdnn_pointers_tables && mdnn_pointer_tables_has(mdnn_pointers_tables, start, end - start);
    mdnn_unlock(&mdnn_pointers_lock);
    return are;
}

/* ---- ends ---- */

void mdnn_pointers_changed(void)
{
    atomic_fetch_add(&generation, 1);
}

static void forget(uint64_t start, uint64_t bytes)
{
    mdnn_lock(&mdnn_pointers_lock);
    mdnn_pointer_tables_forget(mdnn_pointers_tables, start, bytes);
    mdnn_pointers_publish();
    mdnn_unlock(&mdnn_pointers_lock);
}

void mdnn_pointers_freed(uint64_t address)
{
    uint64_t start, end;
    if (mdnn_pointers_are_any() && mdnn_pointers_find(NULL, address, &start, &end))
        forget(start, end - start);
}

void mdnn_pointers_host_ends(const void *start, size_t bytes)
{
    if (bytes > 0 && mdnn_pointers_are_any())
        forget((uintptr_t)start, bytes);
}

/* Locked. */
static block_t *take_blocks(CUdevice device)
{
    block_t *taken = NULL;
    for (block_t **at = &blocks; *at;) {
        block_t *const block = *at;
        if (block->device != device) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        block->next = taken;
        taken = block;
    }
    return taken;
}

/* As the reset does, this waits for what still runs there. */
static void free_blocks(block_t *ended, CUcontext context)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!ended)
        return;
    mdnn_capture_begin_own();
    const mdnn_context_change_t change = mdnn_context_enter(driver, context);
    (void)driver->cuCtxSynchronize();
    for (block_t *block = ended, *next; block; block = next) {
        next = block->next;
        (void)driver->cuMemFreeHost(block->bytes);
        free(block);
    }
    mdnn_context_leave(driver, change);
    mdnn_capture_end_own();
}

void mdnn_pointers_device_ends(CUdevice ordinal)
{
    const mdnn_virtual_device_t *const device = mdnn_virtual_find_numbered(ordinal);
    if (!device)
        return;
    mdnn_lock(&mdnn_pointers_lock);
    if (mdnn_pointers_tables)
        mdnn_pointer_tables_forget(mdnn_pointers_tables, device->start, device->bytes);
    block_t *const ended = take_blocks(ordinal);
    mdnn_pointers_publish();
    mdnn_unlock(&mdnn_pointers_lock);
    free_blocks(ended, device->context);
}
