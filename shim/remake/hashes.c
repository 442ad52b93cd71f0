#include "shim/remake/hashes.h"

#include <string.h>

#include "shim/real/kernels.h"
#include "shim/vmem/virtual_shared.h"

enum { SLOTS = 2048, THREADS = 256, MOST_BLOCKS = 1056 };
enum { SLOT_BYTES = MDNN_HASHES_OF_A_SLOT * sizeof(mdnn_memory_hash_t) };

static struct {
    const mdnn_driver_t *driver;
    uint64_t memory; /* 0: there are none */
    mdnn_memory_hash_t *pinned;
    struct {
        bool taken;
        mdnn_stream_point_t end;
    } slots[SLOTS];
    int next; /* to be looked at */
    int taken;
    unsigned generation;
} state;

uint64_t mdnn_hashes_bytes(void)
{
    return (uint64_t)SLOTS * SLOT_BYTES;
}

void mdnn_hashes_begin(const mdnn_driver_t *driver, uint64_t memory, void *pinned)
{
    const unsigned generation = state.generation + 1;
    memset(&state, 0, sizeof state);
    state.generation = generation;
    state.driver = driver;
    state.pinned = pinned;
    state.memory = memory;
}

void mdnn_hashes_forget(void)
{
    state.memory = 0; /* it ended with its context */
}

/* ---- slots ---- */

static uint64_t device_of(int slot, size_t place)
{
    return state.memory + (uint64_t)slot * SLOT_BYTES + place * sizeof(mdnn_memory_hash_t);
}

static mdnn_memory_hash_t *pinned_of(int slot)
{
    return state.pinned + (size_t)slot * MDNN_HASHES_OF_A_SLOT;
}

static bool is_free(int slot)
{
    mdnn_stream_point_t *const end = &state.slots[slot].end;
    if (state.slots[slot].taken)
        return false;
    if (end->position != 0 && !mdnn_timelines_is_done(mdnn_virtual_timelines(), *end))
        return false;
    end->position = 0;
    return true;
}

/* The one that was given back longest ago is most likely to be over. */
int mdnn_hashes_take(void)
{
    for (int i = 0; state.memory != 0 && i < SLOTS; i++) {
        const int slot = state.next;
        state.next = (state.next + 1) % SLOTS;
        if (!is_free(slot))
            continue;
        state.slots[slot].taken = true;
        state.taken++;
        memset(pinned_of(slot), 0, SLOT_BYTES);
        return slot;
    }
    return MDNN_NO_SLOT;
}

void mdnn_hashes_give(int slot, mdnn_stream_point_t end)
{
    if (slot == MDNN_NO_SLOT || state.memory == 0 || !state.slots[slot].taken)
        return;
    state.taken--;
    state.slots[slot].taken = false;
    state.slots[slot].end = end;
}

bool mdnn_hashes_are_many(void)
{
    return state.taken > SLOTS / 2;
}

unsigned mdnn_hashes_generation(void)
{
    return state.generation;
}

const mdnn_memory_hash_t *mdnn_hashes_of(int slot)
{
    return pinned_of(slot);
}

/* ---- what is enqueued ---- */

bool mdnn_hashes_clear(int slot, CUstream stream)
{
    return state.driver->cuMemsetD8Async &&
           state.driver->cuMemsetD8Async(device_of(slot, 0), 0, SLOT_BYTES, stream) == CUDA_SUCCESS;
}

bool mdnn_hashes_add(int slot, size_t place, const mdnn_memory_span_t *span, CUstream stream)
{
    const mdnn_kernels_t *kernels;
    uint64_t start = span->address, bytes = span->bytes, hash = device_of(slot, place);
    void *parameters[] = {&start, &bytes, &hash};
    const uint64_t blocks = bytes / 8 / THREADS + 1;
    return mdnn_kernels_get(&kernels) == MDNN_STATUS_OK &&
           state.driver->cuLaunchKernel(
               kernels->hash, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1,
               THREADS, 1, 1, 0, stream, parameters, NULL) == CUDA_SUCCESS;
}

bool mdnn_hashes_copy(int slot, size_t count, CUstream stream)
{
    return state.driver->cuMemcpyDtoHAsync(pinned_of(slot), device_of(slot, 0),
                                           count * sizeof(mdnn_memory_hash_t),
                                           stream) == CUDA_SUCCESS;
}

bool mdnn_hashes_demand_equal(int now, int then, CUstream stream)
{
    const mdnn_kernels_t *kernels;
    uint64_t first = device_of(now, 0), second = device_of(then, 0);
    void *parameters[] = {&first, &second};
    return mdnn_kernels_get(&kernels) == MDNN_STATUS_OK &&
           state.driver->cuLaunchKernel(kernels->demand_equal, 1, 1, 1, 1, 1, 1, 0, stream,
                                        parameters, NULL) == CUDA_SUCCESS;
}
