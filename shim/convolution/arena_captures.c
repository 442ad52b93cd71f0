#include "shim/convolution/arena_captures.h"

#include "config/fault.h"
#include "config/statistics.h"
#include "shim/convolution/arena_streams.h"
#include "shim/real/capture_mode.h"

int mdnn_arena_find_capture(const mdnn_arena_t *arena, unsigned long long id, CUstream stream)
{
    for (int i = 0; i < arena->capture_count; i++)
        if (arena->captures[i].id == id && arena->captures[i].stream == stream)
            return i;
    return -1;
}

/* Whether all device work in the arena has ended: a graph may run at any time. */
static bool is_at_rest(const mdnn_arena_t *arena)
{
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (arena->slots[i].used &&
            mdnn_real_driver()->cuEventQuery(arena->slots[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

/* The host waits until it has. None of that work belongs to a capture, so it does end. */
static bool bring_to_rest(const mdnn_arena_t *arena)
{
    mdnn_count(MDNN_COUNTER_arena_waits, 1);
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        if (arena->slots[i].used &&
            mdnn_real_driver()->cuEventSynchronize(arena->slots[i].event) != CUDA_SUCCESS)
            return false;
    return true;
}

/* Half of what is left, but `needed_bytes` if that is more and streams keep theirs. */
static uint64_t share_of_capture(const mdnn_arena_t *arena, uint64_t needed_bytes)
{
    const uint64_t most = arena->divisible_bytes > mdnn_arena_kept_bytes(arena)
                              ? arena->divisible_bytes - mdnn_arena_kept_bytes(arena)
                              : 0;
    uint64_t share = arena->divisible_bytes / 2;
    if (share < needed_bytes)
        share = needed_bytes + MDNN_WD_ALIGNMENT_BYTES;
    if (share > most)
        share = most;
    share -= share % MDNN_WD_ALIGNMENT_BYTES;
    return share < needed_bytes || (needed_bytes == 0 && share < MDNN_ARENA_LEAST_BYTES) ? 0
                                                                                         : share;
}

static void give_to_capture(mdnn_arena_t *arena, mdnn_arena_capture_t *capture,
                            uint64_t needed_bytes)
{
    const uint64_t bytes = share_of_capture(arena, needed_bytes);
    mdnn_capture_relax();
    if (bytes > 0 && (MDNN_FAULT(CAPTURE_TAKES_WHAT_IS_IN_USE) || is_at_rest(arena) ||
                      (needed_bytes > 0 && bring_to_rest(arena)))) {
        if (!MDNN_FAULT(CAPTURES_SHARE_MEMORY))
            arena->divisible_bytes -= bytes;
        capture->memory = (mdnn_wd_segment_t){arena->divisible_bytes, bytes};
        mdnn_arena_divide(arena, NULL);
    }
    mdnn_capture_restore();
}

void mdnn_arena_add_capture(mdnn_arena_t *arena, unsigned long long id, CUstream stream,
                            uint64_t needed_bytes)
{
    mdnn_lock_to_write(&arena->lock);
    int index = mdnn_arena_find_capture(arena, id, stream);
    if (index < 0 && arena->capture_count < MDNN_ARENA_CAPTURES) {
        index = arena->capture_count++;
        arena->captures[index].id = id;
        arena->captures[index].stream = stream;
    }
    if (index >= 0 && arena->captures[index].memory.bytes == 0)
        give_to_capture(arena, &arena->captures[index], needed_bytes);
    mdnn_unlock_shared(&arena->lock);
}
