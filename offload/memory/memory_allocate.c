/* An allocation begins: its memory, or addresses alone, and whom its stream has to wait for. */
#include "config/fault.h"
#include "offload/memory/memory_acquire.h"
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"
#include "offload/memory/memory_turns.h"

#include <stdatomic.h>
#include <stdlib.h>

void mdnn_allocation_begin_life(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    memory->report.live_bytes += allocation->bytes;
    memory->live_room_bytes += allocation->room;
    memory->loose_bytes += mdnn_allocation_loose_bytes(memory, allocation);
    mdnn_memory_note_live(memory);
    allocation->follower_range = mdnn_follower_begin_range(memory->follower, allocation->room,
                                                           allocation->stays, allocation);
    mdnn_follower_set_padding(memory->follower, allocation->follower_range,
                              allocation->room - allocation->bytes);
}

static void link_allocation(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    allocation->next = memory->allocations;
    if (allocation->next)
        allocation->next->previous = allocation;
    memory->allocations = allocation;
    mdnn_ranges_set_owner(memory->ranges, allocation->address, allocation);
    if (allocation->range && allocation->stays)
        memory->stuck_bytes += allocation->room;
    mdnn_allocation_begin_life(memory, allocation);
}

static void fill_allocation(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t address,
                            uint64_t bytes)
{
    enum { GRANULE = 512 };              /* of blocks */
    static _Atomic uint64_t last_number; /* of all devices: one that was reset may have its
                                            addresses once more */
    allocation->number = atomic_fetch_add(&last_number, 1) + 1;
    allocation->address = address;
    allocation->bytes = bytes;
    allocation->range = mdnn_ranges_at(memory->ranges, address);
    if (allocation->range)
        allocation->count = mdnn_range_chunks(allocation->range).count;
    allocation->room = allocation->range ? allocation->count * memory->chunk_bytes
                                         : (bytes + GRANULE - 1) / GRANULE * GRANULE;
    allocation->stays =
        !allocation->range || (bytes < memory->config.min_bytes &&
                               (MDNN_FAULT(WHAT_STAYS_LOCKS_OUT) ||
                                mdnn_memory_may_always_stay(memory, allocation->room)));
    if (!allocation->stays)
        mdnn_allocation_note_movable(memory, allocation);
    allocation->born = memory->began;
    allocation->gone = UINT64_MAX;
    allocation->freed_in = MDNN_NO_ORDER;
    allocation->blank = allocation->range && mdnn_allocation_owned(allocation) < allocation->count;
    allocation->slots_from = allocation->covered_from = allocation->count;
    allocation->filled = allocation->in_sent = allocation->out_sent = allocation->clean =
        allocation->blank ? 0 : allocation->count;
    allocation->state = allocation->blank ? MDNN_ALLOCATION_AWAY : MDNN_ALLOCATION_RESIDENT;
    allocation->last_use = memory->report.operations;
}

/* Makes `stream` wait for earlier users of the memory. Users for which it cannot wait become uses of the allocation,
 * and *host says that the host must wait for them. Work in `stream` itself needs no wait there, but must be over before
 * the memory leaves. */
static mdnn_status_t follow_users(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                  uint64_t stream, const mdnn_acquired_t *got, bool *host)
{
    *host = false;
    MDNN_TRY(
        mdnn_allocation_reserve_use(memory, allocation, stream)); /* cannot fail: it is the first */
    for (size_t i = 0; i < got->wait_count && !MDNN_FAULT(EARLIER_USERS_NOT_WAITED_FOR); i++) {
        if (memory->device.wait_in_stream(memory->context, stream, got->waits[i]) == MDNN_STATUS_OK)
            continue;
        MDNN_TRY(mdnn_allocation_reserve_use(memory, allocation, got->waits[i].stream));
        mdnn_allocation_note_use(allocation, got->waits[i]);
        *host = true;
    }
    if (!MDNN_FAULT(NEW_OWNER_FORGETS_OLD_ONE))
        mdnn_allocation_note_use(allocation, memory->device.mark(memory->context, stream));
    return MDNN_STATUS_OK;
}

static void note_refusal(mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t room = mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
    mdnn_memory_refused(memory, room + mdnn_memory_stuck_bytes(memory), false);
    mdnn_memory_note_host_needed(memory, bytes);
}

/* A plan has the memory from the first operation on that names it. */
static mdnn_first_use_t first_use(const mdnn_memory_t *memory, uint64_t bytes)
{
    if (!mdnn_memory_may_be_bare(memory, bytes))
        return MDNN_FIRST_USE_UNKNOWN;
    return mdnn_follower_first_use(memory->follower, mdnn_ranges_chunks_for(memory->ranges, bytes) *
                                                         memory->chunk_bytes);
}

/* Whether so many chunks could be had now, which need not be tried: what would leave for them can, and finds room in
 * host memory. Another device may use the other half of that. */
static bool has_room_for(mdnn_memory_t *memory, uint64_t wanted)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory), held = counts.chunks_live + wanted;
    const uint64_t lacking = held > allowed ? held - allowed : 0;
    const uint64_t stuck = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    const uint64_t host = memory->config.follower.host_limit_bytes / 2 / memory->chunk_bytes;
    const uint64_t used = memory->report.host_bytes / memory->chunk_bytes;
    return (lacking + stuck <= counts.chunks_live && lacking + used <= host) ||
           MDNN_FAULT(QUESTIONS_NEED_NO_ROOM);
}

/* PyTorch's backend cudaMallocAsync finds out how much memory a convolution's search may use: it allocates all that
 * cuMemGetInfo says is free, half of it after a refusal, and frees it at once. For such a question nothing is sent away
 * and no chunk is made, until the program does anything else (mdnn_memory_answer_question). That may be too late to
 * refuse it, so it is a question only where it would not be refused now. */
static bool is_question(mdnn_memory_t *memory, uint64_t bytes)
{
    return bytes <= memory->told_bytes && bytes >= memory->told_bytes / 2 &&
           memory->report.host_short == 0 && mdnn_memory_may_be_bare(memory, bytes) &&
           has_room_for(memory, mdnn_ranges_chunks_for(memory->ranges, bytes)) &&
           !MDNN_FAULT(QUESTIONS_TAKE_MEMORY);
}

void mdnn_allocation_end_question(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!allocation->is_question)
        return;
    allocation->is_question = false;
    memory->question_bytes -= allocation->bytes;
    mdnn_memory_note_live(memory);
}

static mdnn_allocation_t *open_question(const mdnn_memory_t *memory)
{
    mdnn_allocation_t *allocation = memory->allocations; /* newest first */
    while (allocation && (allocation->freed || !allocation->is_question))
        allocation = allocation->next;
    return allocation;
}

/* There is one, unless threads have asked at the same time. It may be freed while this waits. */
void mdnn_memory_answer_question(mdnn_memory_t *memory)
{
    mdnn_allocation_t *allocation;
    uint64_t start;
    while (memory->question_bytes > 0 && !MDNN_FAULT(QUESTIONS_STAY_OPEN) &&
           (allocation = open_question(memory))) {
        const uint64_t address = allocation->address;
        if (mdnn_memory_pin(memory, address, &start) == MDNN_STATUS_OK)
            mdnn_memory_unpin(memory, start);
        allocation = mdnn_allocation_find_live(memory, address);
        if (allocation) /* without memory until it is named, if it could have none */
            mdnn_allocation_end_question(memory, allocation);
    }
}

static mdnn_allocation_t *new_allocation(void)
{
    mdnn_allocation_t *const allocation = calloc(1, sizeof *allocation);
    if (allocation) {
        allocation->uses = allocation->first_uses;
        allocation->use_room = MDNN_INLINE_USES;
    }
    return allocation;
}

/* Memory whose users do not end soon is given back, and addresses alone taken, whose first use finds
 * other memory. NOT_FOUND: not here. */
static mdnn_status_t exchange(mdnn_memory_t *memory, mdnn_allocation_t **allocation,
                              uint64_t stream)
{
    mdnn_acquired_t bare;
    const uint64_t bytes = (*allocation)->bytes;
    if (memory->config.safety != MDNN_SAFETY_FAST || memory->untracked_open > 0 ||
        (*allocation)->stays || (*allocation)->pins > 0)
        return MDNN_STATUS_NOT_FOUND;
    mdnn_allocation_t *const other = new_allocation();
    if (!other)
        return MDNN_STATUS_NOT_FOUND;
    if (mdnn_memory_reserve(memory, bytes, &bare) != MDNN_STATUS_OK) {
        mdnn_allocation_destroy(other);
        return MDNN_STATUS_NOT_FOUND;
    }
    mdnn_allocation_forget(memory, *allocation);
    fill_allocation(memory, other, bare.address, bytes);
    link_allocation(memory, other);
    (void)mdnn_allocation_reserve_use(memory, other, stream);
    mdnn_allocation_note_use(other, memory->device.mark(memory->context, stream));
    *allocation = other;
    return MDNN_STATUS_OK;
}

/* Nobody knows the allocation yet, but it must not leave meanwhile. */
static mdnn_status_t wait_for_users(mdnn_memory_t *memory, mdnn_allocation_t **allocation,
                                    uint64_t stream)
{
    static const double moment_s = 0.02;
    mdnn_allocation_t *const first = *allocation;
    first->held++;
    mdnn_status_t status = mdnn_allocation_wait_for_uses(memory, first, moment_s);
    if (status == MDNN_STATUS_BUSY) {
        if (exchange(memory, allocation, stream) == MDNN_STATUS_OK)
            status = MDNN_STATUS_OK;
        else
            status = mdnn_allocation_wait_for_uses(memory, first, 0);
    }
    first->held--;
    mdnn_allocation_end(memory, first); /* if it was exchanged */
    return status;
}

typedef struct wish {
    uint64_t bytes, stream;
    mdnn_first_use_t first_use;
    bool may_have_tail, is_question;
} wish_t;

static mdnn_status_t allocate(mdnn_memory_t *memory, const wish_t *wish, uint64_t *address)
{
    mdnn_acquired_t got;
    mdnn_turn_t turn;
    bool host;
    mdnn_memory_answer_question(memory);
    mdnn_allocation_t *allocation = new_allocation();
    if (!allocation)
        return MDNN_STATUS_OUT_OF_MEMORY;
    memory->serving = "an allocation";
    mdnn_status_t status = mdnn_memory_acquire(memory, wish->bytes, wish->stream, wish->first_use,
                                               wish->may_have_tail, &turn, &got);
    if (status != MDNN_STATUS_OK) {
        mdnn_allocation_destroy(allocation);
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY || status == MDNN_STATUS_OVERFLOW)
            note_refusal(memory, wish->bytes);
        return status;
    }
    fill_allocation(memory, allocation, got.address, wish->bytes);
    allocation->is_question = wish->is_question && allocation->blank;
    memory->question_bytes += allocation->is_question ? wish->bytes : 0;
    memory->told_bytes = 0;
    link_allocation(memory, allocation);
    status = follow_users(memory, allocation, wish->stream, &got, &host);
    allocation->held++;
    mdnn_memory_end_quiet(memory);
    mdnn_memory_end_turn(memory, &turn);
    allocation->held--;
    if (status == MDNN_STATUS_OK && host)
        status = wait_for_users(memory, &allocation, wish->stream);
    if (status == MDNN_STATUS_OK)
        *address = allocation->address;
    else
        mdnn_allocation_forget(memory, allocation); /* ranges.c still knows the earlier users */
    mdnn_memory_check(memory);
    return status;
}

mdnn_status_t mdnn_allocation_begin_at(mdnn_memory_t *memory, uint64_t address, uint64_t bytes)
{
    mdnn_allocation_t *const allocation = new_allocation();
    if (!allocation)
        return MDNN_STATUS_OUT_OF_MEMORY;
    fill_allocation(memory, allocation, address, bytes);
    allocation->keeps_addresses = true;
    link_allocation(memory, allocation);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_allocate(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                   uint64_t *address)
{
    wish_t wish = {.bytes = bytes,
                   .stream = stream,
                   .first_use = first_use(memory, bytes),
                   .may_have_tail = true};
    wish.is_question = wish.first_use == MDNN_FIRST_USE_UNKNOWN && is_question(memory, bytes);
    if (wish.is_question)
        wish.first_use = MDNN_FIRST_USE_LATER;
    return allocate(memory, &wish, address);
}

mdnn_status_t mdnn_memory_allocate_workspace(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                             uint64_t *address)
{
    const wish_t wish = {.bytes = bytes,
                         .stream = stream,
                         .first_use = first_use(memory, bytes),
                         .may_have_tail = MDNN_FAULT(WORKSPACE_GETS_A_TAIL)};
    return allocate(memory, &wish, address);
}

mdnn_status_t mdnn_memory_lend(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                               uint64_t *address)
{
    const bool may_be_bare = mdnn_memory_may_be_bare(memory, bytes);
    const wish_t wish = {.bytes = bytes,
                         .stream = stream,
                         .first_use = may_be_bare ? MDNN_FIRST_USE_NEXT : MDNN_FIRST_USE_UNKNOWN};
    return allocate(memory, &wish, address);
}
