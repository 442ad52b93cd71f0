/* The device as ranges.c sees it, allocations by their addresses and their uses, what was refused, the report. */
#include "offload/memory/memory_internal.h"
#include "config/fault.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_waits.h"

#include <stdlib.h>
#include <string.h>

/* ---- the device, as ranges.c sees it ---- */

/* The only place where chunks come from, and so the one that holds the budget: in every build, and
 * whatever the bookkeeping elsewhere says. */
static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    mdnn_memory_t *const memory = context;
    const uint64_t there = mdnn_memory_chunks_there(memory);
    mdnn_memory_look_for_room(memory, there + 1);
    if ((there >= memory->chunk_limit ||
         (there + 1) * memory->chunk_bytes + memory->aside_bytes + memory->claimed_bytes >
             memory->config.budget_bytes) &&
        !MDNN_FAULT(BUDGET_NOT_KEPT))
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = memory->device.create_chunk(memory->context, chunk);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_making, begin_us);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
        memory->chunk_limit = there; /* until the next demand */
        memory->chunks_known = 0;
    }
    MDNN_TRY(status);
    memory->report.created++;
    memory->steps++;
    mdnn_memory_note_resident(memory);
    return MDNN_STATUS_OK;
}

static mdnn_status_t destroy_chunk(void *context, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = memory->device.destroy_chunk(memory->context, chunk);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_making, begin_us);
    MDNN_TRY(status);
    memory->report.destroyed++;
    memory->steps++;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = memory->device.map(memory->context, address, chunk);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_mapping, begin_us);
    return status;
}

static mdnn_status_t unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_memory_t *const memory = context;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = memory->device.unmap(memory->context, address, chunk);
    mdnn_memory_note_part(memory, MDNN_HOST_TIME_mapping, begin_us);
    return status;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    mdnn_memory_t *const memory = context;
    return memory->device.is_done(memory->context, point);
}

static bool may_be_slabs(void *context, uint64_t chunks, uint64_t room)
{
    return mdnn_memory_may_be_slabs(context, chunks, room);
}

mdnn_status_t mdnn_memory_create(const mdnn_memory_config_t *config,
                                 const mdnn_memory_device_t *device, void *context,
                                 mdnn_memory_t **memory)
{
    static const mdnn_ranges_device_t ranges_device = {create_chunk, map_chunk,     unmap_chunk,
                                                       is_done,      destroy_chunk, may_be_slabs};
    mdnn_memory_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    made->device = *device;
    made->context = context;
    made->chunk_bytes = config->ranges.chunk_bytes;
    made->all.uses = made->all.first_uses;
    made->all.use_room = MDNN_INLINE_USES;
    mdnn_status_t status = mdnn_ranges_create(&config->ranges, &ranges_device, made, &made->ranges);
    if (status == MDNN_STATUS_OK) {
        made->chunk_limit = config->budget_bytes / made->chunk_bytes;
        made->follower = mdnn_follower_create(&config->follower);
        status = made->follower ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK)
        *memory = made;
    else
        mdnn_memory_destroy(made);
    return status;
}

void mdnn_memory_destroy(mdnn_memory_t *memory)
{
    if (!memory)
        return;
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        mdnn_allocation_end_making(memory, allocation);
    while (memory->allocations) {
        mdnn_allocation_t *const allocation = memory->allocations;
        memory->allocations = allocation->next;
        mdnn_allocation_destroy(allocation);
    }
    mdnn_allocation_free_uses(&memory->all);
    mdnn_follower_destroy(memory->follower);
    mdnn_ranges_destroy(memory->ranges);
    free(memory->uses);
    free(memory->streams);
    free(memory->untracked);
    free(memory);
}

/* ---- allocations ---- */

mdnn_allocation_t *mdnn_allocation_find(const mdnn_memory_t *memory, uint64_t address,
                                        uint64_t began)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    const bool was_there =
        allocation && (allocation->born < began || MDNN_FAULT(NAMES_WHAT_CAME_LATER));
    return was_there && began <= allocation->gone ? allocation : NULL;
}

mdnn_allocation_t *mdnn_allocation_find_live(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    return allocation && !allocation->freed ? allocation : NULL;
}

mdnn_allocation_t *mdnn_allocation_find_kept(const mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_ranges_owner(memory->ranges, address);
    if (!allocation || MDNN_FAULT(FREED_IS_PINNED_TOO_LATE))
        return allocation;
    const bool pinned = allocation->pins > 0 && !MDNN_FAULT(FREED_IS_NOT_PINNED_AGAIN);
    return !allocation->freed || pinned ? allocation : NULL;
}

mdnn_status_t mdnn_allocation_reserve_use(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                          uint64_t stream)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].stream == stream)
            return MDNN_STATUS_OK;
    if (allocation->use_count == allocation->use_room &&
        allocation->held == 0) { /* none is only reserved */
        mdnn_allocation_uses_over(memory, allocation);
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0)
                allocation->uses[kept++] = allocation->uses[i];
        allocation->use_count = kept;
    }
    if (allocation->use_count == allocation->use_room) {
        const bool inside = allocation->uses == allocation->first_uses;
        mdnn_stream_point_t *const uses =
            reallocarray(inside ? NULL : allocation->uses, allocation->use_room * 2, sizeof *uses);
        if (!uses)
            return MDNN_STATUS_OUT_OF_MEMORY;
        if (inside)
            memcpy(uses, allocation->first_uses, sizeof allocation->first_uses);
        allocation->uses = uses;
        allocation->use_room *= 2;
    }
    allocation->uses[allocation->use_count++] = (mdnn_stream_point_t){stream, 0};
    return MDNN_STATUS_OK;
}

void mdnn_allocation_note_use(mdnn_allocation_t *allocation, mdnn_stream_point_t point)
{
    for (uint32_t i = 0; i < allocation->use_count; i++)
        if (allocation->uses[i].stream == point.stream)
            allocation->uses[i].position = point.position;
}

mdnn_status_t mdnn_allocation_wait_for_uses(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                            double seconds)
{
    for (uint32_t i = 0; i < allocation->use_count;) {
        const mdnn_stream_point_t use = allocation->uses[i];
        if (use.position == 0 || memory->device.is_done(memory->context, use))
            i++;
        else
            MDNN_TRY(seconds > 0 ? mdnn_memory_wait_a_while(memory, use, seconds)
                                 : mdnn_memory_wait(memory, use));
    }
    return MDNN_STATUS_OK;
}

void mdnn_memory_judge_refusal(mdnn_memory_t *memory, uint64_t bytes, bool optional)
{
    const uint64_t room = mdnn_ranges_chunks_for(memory->ranges, bytes) * memory->chunk_bytes;
    if (optional && !MDNN_FAULT(OPTIONAL_IS_NEEDED))
        memory->report.refused_optional++;
    else
        mdnn_memory_note_wanting(memory,
                                 room + mdnn_memory_stuck_bytes(memory) + memory->aside_bytes);
}

bool mdnn_memory_find(const mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                      uint64_t *bytes)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    if (!allocation)
        return false;
    *start = allocation->address;
    *bytes = allocation->bytes;
    return true;
}

uint64_t mdnn_memory_number(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    return allocation ? allocation->number : 0;
}

mdnn_status_t mdnn_memory_wait_idle(mdnn_memory_t *memory, uint64_t address)
{
    mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    if (!allocation)
        return MDNN_STATUS_NOT_FOUND;
    allocation->idlers++;
    mdnn_status_t status = mdnn_allocation_wait_for_uses(memory, allocation, 0);
    allocation->idlers--;
    mdnn_allocation_end(memory, allocation);
    if (status == MDNN_STATUS_OK)
        status = mdnn_memory_wait_untracked(memory);
    return status == MDNN_STATUS_OK ? mdnn_memory_wait_for_all(memory) : status;
}

bool mdnn_memory_is_resident(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    return allocation && allocation->state == MDNN_ALLOCATION_RESIDENT;
}

bool mdnn_memory_has_room_beside_all(const mdnn_memory_t *memory, uint64_t bytes)
{
    const uint64_t slabs = mdnn_ranges_counts(memory->ranges).chunks_slab;
    const uint64_t wanted = mdnn_ranges_chunks_for(memory->ranges, bytes) + slabs;
    return memory->live_room_bytes + memory->aside_bytes + memory->claimed_bytes +
               wanted * memory->chunk_bytes <=
           memory->config.budget_bytes;
}

/* ---- report ---- */

void mdnn_memory_note_host_time(mdnn_memory_t *memory, double inside_us, double lock_us)
{
    memory->report.host_time.us[MDNN_HOST_TIME_library] += inside_us;
    memory->report.host_time.us[MDNN_HOST_TIME_threads] += lock_us;
}

mdnn_memory_report_t mdnn_memory_report(const mdnn_memory_t *memory)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    mdnn_memory_report_t report = memory->report;
    report.budget_bytes = memory->config.budget_bytes;
    report.resident_bytes =
        mdnn_ranges_chunks_there(&counts) * memory->chunk_bytes + memory->aside_bytes;
    report.other_bytes = memory->aside_bytes;
    report.peak_resident_bytes = memory->peak_resident_bytes;
    if (report.operations > 0)
        report.average_resident_bytes =
            memory->resident_sum / report.operations * memory->chunk_bytes;
    report.pinned_live_bytes = mdnn_memory_stuck_bytes(memory);
    report.is_host_short =
        report.host_short != (MDNN_FAULT(HOST_BLAMED_FOR_EVER) ? 0 : memory->host_short_before);
    if (mdnn_memory_has_gone_on(memory))
        report.refused_optional += memory->wanting.count;
    else
        report.wanting_bytes = memory->wanting.bytes;
    report.mapped = counts.mapped;
    if (memory->device.background)
        report.background = memory->device.background(memory->context);
    report.unmapped = counts.unmapped;
    report.iteration_us = mdnn_memory_iteration_us(memory);
    report.round_host_time = mdnn_memory_iteration_host_time(memory);
    report.iteration_background_us = mdnn_memory_iteration_background_us(memory);
    return report;
}

uint64_t mdnn_memory_live_bytes(const mdnn_memory_t *memory)
{
    return memory->report.live_bytes;
}

mdnn_follower_report_t mdnn_memory_follower_report(const mdnn_memory_t *memory)
{
    return mdnn_follower_report(memory->follower);
}

/* The budget without what is stuck, and without room for an operation on what is alive that takes `largest`. */
static uint64_t room_beside(const mdnn_memory_t *memory, uint64_t largest)
{
    const uint64_t live = memory->live_room_bytes; /* no operation takes more of it */
    /* It may have a tail in any case by now, since more is stuck. */
    const uint64_t whole =
        mdnn_memory_counts(memory, largest) || MDNN_FAULT(ONE_TAIL_TAKES_ALL_ROOM) ? largest : 0;
    const uint64_t most = whole < live || MDNN_FAULT(FREE_MEMORY_LACKS_WHAT_IS_GONE) ? whole : live;
    const uint64_t taken = mdnn_memory_stuck_bytes(memory) + most;
    const uint64_t budget = memory->chunk_limit * memory->chunk_bytes;
    return budget > taken ? budget - taken : 0;
}

uint64_t mdnn_memory_room_left(const mdnn_memory_t *memory)
{
    return room_beside(memory, memory->largest_whole_bytes);
}

uint64_t mdnn_memory_available(mdnn_memory_t *memory)
{
    mdnn_memory_look_for_room(memory, memory->config.budget_bytes / memory->chunk_bytes);
    /* The next workspace takes the place of the last one, unless that lives on. */
    const bool lives = memory->whole_workspace_number > 0 &&
                       mdnn_memory_number(memory, memory->whole_workspace_address) ==
                           memory->whole_workspace_number;
    const uint64_t beside = room_beside(memory, memory->largest_beside_bytes),
                   whole = mdnn_memory_room_left(memory);
    const bool counts = lives || MDNN_FAULT(A_WORKSPACE_TAKES_ROOM_FOR_GOOD);
    memory->told_bytes = counts && whole < beside ? whole : beside;
    return memory->told_bytes;
}
