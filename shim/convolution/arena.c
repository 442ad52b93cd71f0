#include "shim/convolution/arena.h"

#include <stdlib.h>

#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/arena_internal.h"
#include "shim/convolution/wd_settings.h"
#include "shim/real/capture_mode.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

static _Atomic(mdnn_arena_t *) arenas;                   /* of all contexts; never removed */
static mdnn_lock_t arenas_lock = MDNN_LOCK_INIT(ARENAS); /* guards the adding */

static mdnn_arena_t *find_arena(CUcontext context)
{
    mdnn_arena_t *arena = atomic_load_explicit(&arenas, memory_order_acquire);
    while (arena && arena->context != context)
        arena = arena->next;
    return arena;
}

static mdnn_arena_t *make_arena(CUcontext context)
{
    mdnn_arena_t *const arena = calloc(1, sizeof *arena);
    if (!arena)
        return NULL;
    arena->context = context;
    mdnn_shared_lock_init(&arena->lock, MDNN_LOCK_ARENA);
    for (int i = 0; i < MDNN_ARENA_SLOTS; i++)
        mdnn_lock_init(&arena->slots[i].lock, MDNN_LOCK_ARENA_SLOT);
    for (int i = 0; i < MDNN_ARENA_CAPTURES; i++)
        mdnn_lock_init(&arena->captures[i].lock, MDNN_LOCK_ARENA_CAPTURE);
    return arena;
}

mdnn_arena_t *mdnn_arena_current(void)
{
    CUcontext context;
    if (mdnn_real_driver()->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return NULL;
    mdnn_arena_t *arena = find_arena(context);
    if (arena)
        return arena;
    mdnn_lock(&arenas_lock);
    arena = find_arena(context);
    if (!arena && (arena = make_arena(context))) {
        arena->next = atomic_load(&arenas);
        atomic_store_explicit(&arenas, arena, memory_order_release);
    }
    mdnn_unlock(&arenas_lock);
    return arena;
}

void mdnn_arena_allocate(mdnn_arena_t *arena)
{
    uint64_t bytes = mdnn_process_options()->convolution_total_workspace;
    bytes -= bytes % MDNN_WD_ALIGNMENT_BYTES;
    const uint64_t wanted = bytes;
    mdnn_capture_relax();
    while (bytes > 0 && mdnn_device_allocate(&arena->base, bytes) != CUDA_SUCCESS) {
        mdnn_count(MDNN_COUNTER_arena_halvings, 1);
        bytes = bytes / 2 < MDNN_ARENA_LEAST_BYTES ? 0 : bytes / 2;
        bytes -= bytes % MDNN_WD_ALIGNMENT_BYTES;
    }
    mdnn_capture_restore();
    arena->bytes = arena->divisible_bytes = bytes;
    arena->tried = true;
    mdnn_count(MDNN_COUNTER_arena_bytes, bytes);
    if (bytes < wanted)
        MDNN_LOG(MDNN_LOG_WARN, "arena", "of %llu bytes of workspace %llu are available",
                 (unsigned long long)wanted, (unsigned long long)bytes);
}

uint64_t mdnn_arena_kept_bytes(const mdnn_arena_t *arena)
{
    const uint64_t quarter = arena->bytes / 4, promised = arena->promised_bytes;
    return promised > quarter ? promised : quarter;
}

bool mdnn_arena_find_stream(const mdnn_call_t *call, CUstream *stream, bool *capturing)
{
    CUstreamCaptureStatus status;
    if (call->cudnn->cudnnGetStream(call->handle, stream) != CUDNN_STATUS_SUCCESS ||
        mdnn_real_driver()->cuStreamIsCapturing(*stream, &status) != CUDA_SUCCESS ||
        status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return false;
    *capturing = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return true;
}

/* What needs more than streams keep for one convolution may be promised that, if captures have not taken it,
 * and if a capture that cannot have as much finds something weaker that needs nothing. */
static bool may_be_promised(const mdnn_arena_t *arena, const mdnn_conv_plan_t *plan,
                            const mdnn_demand_t *demand, uint64_t needed_bytes)
{
    const mdnn_demand_t weaker = {.strict = demand->strict};
    return needed_bytes <= arena->divisible_bytes && mdnn_conv_plan_least_bytes(plan, &weaker) == 0;
}

/* The arena is locked for writing. */
static bool promise(mdnn_arena_t *arena, const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                    uint64_t needed_bytes)
{
    if (needed_bytes <= mdnn_arena_kept_bytes(arena))
        return true;
    if (!may_be_promised(arena, plan, demand, needed_bytes))
        return false;
    arena->promised_bytes = needed_bytes;
    return true;
}

bool mdnn_arena_serves(const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                       const mdnn_demand_t *demand)
{
    const uint64_t least = mdnn_conv_plan_least_bytes(plan, demand);
    CUstream stream;
    bool capturing;
    mdnn_arena_t *const arena = mdnn_wd_is_on() ? mdnn_arena_current() : NULL;
    if (!arena || least == UINT64_MAX)
        return mdnn_wd_is_on() && least == 0;
    /* What is kept never shrinks and what may be promised never grows, so most answers need no lock. */
    if (arena->tried && least <= mdnn_arena_kept_bytes(arena))
        return true;
    if (arena->tried && !may_be_promised(arena, plan, demand, least))
        return false;
    mdnn_lock_to_write(&arena->lock);
    if (!arena->tried && mdnn_arena_find_stream(call, &stream, &capturing) && !capturing)
        mdnn_arena_allocate(arena);
    const bool serves = promise(arena, plan, demand, least);
    mdnn_unlock_shared(&arena->lock);
    return serves;
}
