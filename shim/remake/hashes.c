#include "shim/remake/hashes.h"

#include <string.h>

#include "shim/real/kernels.h"

enum { SLOTS = 2048, THREADS = 256, MOST_BLOCKS = 1056 };
enum { SLOT_BYTES = MDNN_HASHES_OF_A_SLOT * sizeof(mdnn_memory_hash_t) };

static mdnn_slot_t places[SLOTS];
static struct {
    const mdnn_driver_t *driver;
    uint64_t memory; /* 0: there are none */
    mdnn_memory_hash_t *pinned;
    mdnn_slots_t slots;
    unsigned generation;
} state;

uint64_t mdnn_hashes_bytes(void)
{
    return (uint64_t)SLOTS * SLOT_BYTES;
}

void mdnn_hashes_begin(const mdnn_driver_t *driver, uint64_t memory, void *pinned)
{
    const unsigned generation = state.generation + 1;
    memset(places, 0, sizeof places);
    memset(&state, 0, sizeof state);
    state.slots = (mdnn_slots_t){.all = places, .count = SLOTS};
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

int mdnn_hashes_take(void)
{
    const int slot = state.memory != 0 ? mdnn_slots_take(&state.slots) : MDNN_NO_SLOT;
    if (slot != MDNN_NO_SLOT)
        memset(pinned_of(slot), 0, SLOT_BYTES);
    return slot;
}

void mdnn_hashes_give(int slot, mdnn_stream_point_t end)
{
    if (state.memory != 0)
        mdnn_slots_give(&state.slots, slot, end);
}

bool mdnn_hashes_are_many(void)
{
    return state.slots.taken > SLOTS / 2;
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
