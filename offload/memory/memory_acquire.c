/* Memory for an allocation, or addresses alone. */
#include "offload/memory/memory_acquire.h"
#include "config/fault.h"
#include "offload/memory/memory_ahead.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_room.h"
#include "offload/memory/memory_turns.h"
#include "offload/memory/memory_victims.h"
#include "offload/memory/memory_waits.h"

/* Whether a demand could have so many chunks some day: then all that lives beside them must find
 * room on the host. What is refused is refused here, where programs expect it, and not when the
 * memory is named. */
static bool may_have(const mdnn_memory_t *memory, uint64_t wanted, bool may_have_tail)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory);
    const uint64_t stuck = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    const uint64_t room = allowed * memory->chunk_bytes,
                   host = memory->config.follower.host_limit_bytes;
    const bool has_no_room = !may_have_tail && (stuck > allowed || wanted > allowed - stuck);
    if (has_no_room && !MDNN_FAULT(RESERVES_WHAT_CANNOT_BE))
        return false;
    return host > UINT64_MAX - room || MDNN_FAULT(RESERVES_BEYOND_THE_HOST) ||
           memory->live_room_bytes + wanted * memory->chunk_bytes <= room + host;
}

/* Addresses alone. NOT_FOUND: it may never have chunks. */
static mdnn_status_t reserve(mdnn_memory_t *memory, uint64_t bytes, uint64_t wanted,
                             bool may_have_tail, mdnn_acquired_t *allocation)
{
    if (!may_have(memory, wanted, may_have_tail))
        return MDNN_STATUS_NOT_FOUND;
    allocation->wait_count = 0;
    return mdnn_ranges_reserve(memory->ranges, bytes, &allocation->address);
}

mdnn_status_t mdnn_memory_reserve(mdnn_memory_t *memory, uint64_t bytes,
                                  mdnn_acquired_t *allocation)
{
    return reserve(memory, bytes, mdnn_ranges_chunks_for(memory->ranges, bytes), false, allocation);
}

/* Whether it can never be device memory as a whole, but an operation can use it all the same. */
static bool needs_tail(const mdnn_memory_t *memory, uint64_t bytes, uint64_t chunks)
{
    const bool may_be_seen =
        (memory->config.safety != MDNN_SAFETY_FAST || memory->untracked_open > 0) &&
        !MDNN_FAULT(BARE_WHERE_IT_MAY_BE_SEEN);
    return mdnn_memory_has_tails(memory) && !may_be_seen &&
           bytes > memory->config.ranges.small_bytes &&
           chunks * memory->chunk_bytes > mdnn_memory_bytes_for_demands(memory);
}

bool mdnn_memory_may_be_bare(const mdnn_memory_t *memory, uint64_t bytes)
{
    const bool is_tracked = memory->untracked_open == 0 || MDNN_FAULT(BLANK_BESIDE_UNTRACKED_WORK);
    const bool can_leave = bytes >= memory->config.min_bytes || MDNN_FAULT(BLANK_THOUGH_IT_STAYS);
    return memory->config.safety == MDNN_SAFETY_FAST && is_tracked && can_leave &&
           bytes > memory->config.ranges.small_bytes;
}

bool mdnn_memory_could_hold(const mdnn_memory_t *memory, uint64_t bytes)
{
    return may_have(memory, mdnn_ranges_chunks_for(memory->ranges, bytes),
                    mdnn_memory_has_tails(memory));
}

/* An allocation. */
typedef struct request {
    uint64_t bytes, stream, chunks;
    mdnn_first_use_t first_use;
    bool behind;   /* its stream may be put behind others: there is nothing else */
    unsigned vain; /* stretches in a row in which nothing has changed */
} request_t;

/* Whether it is to have addresses alone: the plan says so, or what is idle can leave for its first
 * use, if what it could have now is still in use then. */
static bool is_to_be_bare(mdnn_memory_t *memory, const request_t *request, mdnn_status_t status)
{
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        return request->first_use != MDNN_FIRST_USE_UNKNOWN &&
               mdnn_memory_may_be_bare(memory, request->bytes) &&
               !MDNN_FAULT(NEXT_SENDS_OTHERS_AWAY);
    return status == MDNN_STATUS_BUSY && memory->stalled &&
           mdnn_memory_may_be_bare(memory, request->bytes) &&
           mdnn_memory_chunks_elsewhere(memory, true) >= request->chunks;
}

static mdnn_status_t acquire(mdnn_memory_t *memory, const request_t *request,
                             mdnn_acquired_t *allocation)
{
    return request->behind
               ? mdnn_ranges_acquire_behind(memory->ranges, request->bytes, request->stream,
                                            allocation)
               : mdnn_ranges_acquire(memory->ranges, request->bytes, request->stream, allocation);
}

/* With the turn. */
static mdnn_status_t try_acquire(mdnn_memory_t *memory, const request_t *request,
                                 mdnn_acquired_t *allocation)
{
    mdnn_acquired_t bare;
    mdnn_memory_progress(memory);
    if (request->bytes > memory->config.ranges.small_bytes || MDNN_FAULT(BLOCKS_WAIT_FOR_RANGES))
        mdnn_memory_finish_prepared(memory, request->chunks); /* a block would not need it */
    mdnn_status_t status = acquire(memory, request, allocation);
    if (status != MDNN_STATUS_OK && mdnn_memory_end_ahead(memory))
        status = acquire(memory, request, allocation);
    if (!is_to_be_bare(memory, request, status) ||
        reserve(memory, request->bytes, request->chunks, false, &bare) != MDNN_STATUS_OK)
        return status;
    *allocation = bare;
    return MDNN_STATUS_OK;
}

static bool nothing_else_can_leave(mdnn_memory_t *memory, const request_t *request)
{
    if (MDNN_FAULT(NOTHING_LEAVES_INSTEAD))
        return true;
    return mdnn_memory_chunks_elsewhere(memory, false) < request->chunks &&
           !MDNN_FAULT(WAITS_THOUGH_NOTHING_CAN_LEAVE);
}

/* The same for an allocation. Its stream could be put behind those who work there, but their work
 * may wait for what the program does when this stream has got on. So that is the last resort: if
 * nothing else could ever leave, or nothing that the device does changes that. */
static mdnn_status_t wait_for_users(mdnn_memory_t *memory, request_t *request,
                                    mdnn_stream_point_t point, mdnn_patience_t *patience)
{
    const unsigned most = mdnn_memory_serves_all(memory) ? 1 : 8;
    const uint64_t steps = memory->steps, completions = patience->completions;
    const bool was_behind = request->behind;
    const bool held = mdnn_memory_others_hold(memory);
    if (!was_behind && !held && nothing_else_can_leave(memory, request)) {
        request->behind = true;
        return MDNN_STATUS_OK;
    }
    const mdnn_status_t status =
        mdnn_memory_wait_for_released(memory, request->chunks, point, patience);
    const bool changed =
        held || memory->steps != steps || patience->completions != completions || !memory->stalled;
    request->vain = changed ? 0 : request->vain + 1;
    request->behind = was_behind || (request->vain > most && !MDNN_FAULT(NO_LAST_RESORT));
    return request->behind && !was_behind && status == MDNN_STATUS_BUSY ? MDNN_STATUS_OK : status;
}

static mdnn_status_t acquire_in_turn(mdnn_memory_t *memory, request_t *request,
                                     mdnn_acquired_t *allocation, mdnn_patience_t *patience)
{
    mdnn_status_t status;
    mdnn_memory_begin_demand(
        memory, patience, request->chunks + mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes);
    do {
        status = try_acquire(memory, request, allocation);
        if (status == MDNN_STATUS_OK)
            break;
        if (status == MDNN_STATUS_BUSY) /* without waits: over meanwhile */
            status = allocation->wait_count > 0
                         ? wait_for_users(memory, request, allocation->waits[0], patience)
                         : MDNN_STATUS_OK;
        else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            status = mdnn_memory_make_room(memory, request->chunks, patience);
    } while (status == MDNN_STATUS_OK);
    mdnn_memory_end_demand(memory);
    return status;
}

mdnn_status_t mdnn_memory_acquire(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                  mdnn_first_use_t first_use, bool may_have_tail, mdnn_turn_t *turn,
                                  mdnn_acquired_t *allocation)
{
    request_t request = {.bytes = bytes,
                         .stream = stream,
                         .chunks = mdnn_ranges_chunks_for(memory->ranges, bytes),
                         .first_use = first_use};
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_status_t status;
    MDNN_TRY(mdnn_memory_take_turn(memory, turn));
    mdnn_memory_look_for_room(memory, request.chunks +
                                          mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes);
    if (may_have_tail && needs_tail(memory, bytes, request.chunks)) {
        if (reserve(memory, bytes, request.chunks, true, allocation) == MDNN_STATUS_OK)
            return MDNN_STATUS_OK;
        memory->report.host_short++;
    }
    const bool is_later = first_use == MDNN_FIRST_USE_LATER && !MDNN_FAULT(LATER_TAKES_MEMORY);
    const bool is_next = first_use == MDNN_FIRST_USE_NEXT && MDNN_FAULT(NEXT_TAKES_NO_MEMORY);
    if ((is_later || is_next) &&
        mdnn_memory_may_be_bare(memory, bytes) && /* still, with the turn */
        mdnn_memory_reserve(memory, bytes, allocation) == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    for (;;) {
        status = acquire_in_turn(memory, &request, allocation, &patience);
        if (status == MDNN_STATUS_OK)
            return MDNN_STATUS_OK;
        mdnn_memory_end_quiet(memory);
        if (status != MDNN_STATUS_BUSY || mdnn_memory_serves_all(memory))
            break;
        MDNN_TRY(mdnn_memory_pass_turn(memory, turn));
    }
    mdnn_memory_end_turn(memory, turn);
    return status;
}
