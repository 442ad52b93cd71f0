#include "shim/device/memory_device_internal.h"

#include <stdlib.h>
#include <time.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/device/link_rates.h"

/* ---- host memory and copies ---- */

static mdnn_status_t take_slot(void *context, uint64_t *slot)
{
    mdnn_device_memory_t *const memory = context;
    return mdnn_pinned_pool_take(memory->slots, slot);
}

static void give_slot(void *context, uint64_t slot)
{
    mdnn_device_memory_t *const memory = context;
    mdnn_pinned_pool_give(memory->slots, slot);
}

static mdnn_status_t wait_for_slot(void *context)
{
    mdnn_device_memory_t *const memory = context;
    mdnn_device_let_go(memory);
    const mdnn_status_t status = mdnn_pinned_pool_wait(memory->slots);
    mdnn_device_take_back(memory);
    return status;
}

/* Tried twice; its failure is none of the program's. */
static mdnn_status_t cover(void *context, uint64_t address, uint64_t slot)
{
    mdnn_device_memory_t *const memory = context;
    CUresult result = CUDA_ERROR_UNKNOWN;
    for (int round = 0; round < 2 && result != CUDA_SUCCESS; round++)
        result = mdnn_pinned_pool_map(memory->slots, slot, address, memory->access,
                                      memory->access_count);
    if (result == CUDA_SUCCESS)
        return MDNN_STATUS_OK;
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "memory that is away cannot be mapped to its host copy (CUDA error %d): an "
                  "access that no argument names may fail",
                  (int)result);
    return MDNN_STATUS_DEVICE;
}

static mdnn_status_t uncover(void *context, uint64_t address, uint64_t slot)
{
    mdnn_device_memory_t *const memory = context;
    (void)address; /* the slot knows */
    return mdnn_failure_note(mdnn_pinned_pool_unmap(memory->slots, slot));
}

/* Others may want to know that it moves. */
static void set_moves(mdnn_device_memory_t *memory, bool out, bool moves)
{
    memory->copies[out].moves = moves;
    mdnn_device_links_moves(memory->links, memory->copies[1].moves, memory->copies[0].moves);
}

void mdnn_device_point_passed(mdnn_device_memory_t *memory, mdnn_stream_point_t point)
{
    for (int out = 0; out < 2; out++)
        if (memory->copies[out].moves && point.stream == memory->copies[out].number &&
            point.position >= memory->copies[out].last.position)
            set_moves(memory, out, false);
}

static mdnn_status_t copy(void *context, bool out, uint64_t chunk, uint64_t slot, uint64_t bytes,
                          mdnn_stream_point_t *end)
{
    mdnn_device_memory_t *const memory = context;
    CUstream const stream = memory->copies[out].stream;
    MDNN_TRY(mdnn_device_have_alias(memory, chunk));
    const mdnn_status_t begun = mdnn_failure_note(mdnn_copy_enqueue(
        &memory->ways, out, mdnn_device_chunk_alias(memory, chunk), slot, bytes, stream));
    if (begun != MDNN_STATUS_OK && !MDNN_FAULT(COPY_FAILURE_HIDDEN))
        return begun;
    const mdnn_status_t status =
        mdnn_timelines_mark_event(memory->config.timelines, memory->copies[out].number, end);
    if (status != MDNN_STATUS_OK)
        (void)memory->config.driver->cuStreamSynchronize(
            stream); /* a copy whose end nobody can know */
    memory->copies[out].last = *end;
    set_moves(memory, out, status == MDNN_STATUS_OK);
    return status;
}

/* ---- the functions ---- */

static double now_us(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* The driver takes memory, too, when it loads a kernel, for example. */
static uint64_t room(void *context)
{
    enum { DRIVERS_SHARE = 64 };
    const mdnn_device_memory_t *const memory = context;
    size_t free_bytes = 0, total_bytes = 0;
    if (memory->config.driver->cuMemGetInfo(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return UINT64_MAX / 2; /* not known: the driver refuses what it does not have */
    const size_t drivers = total_bytes / DRIVERS_SHARE;
    return free_bytes > drivers ? free_bytes - drivers : 0;
}

static void event(void *context, const mdnn_memory_event_t *what)
{
    const mdnn_device_memory_t *const memory = context;
    mdnn_trace_event(memory->config.trace, memory->config.device, now_us(context), what);
}

mdnn_memory_device_t mdnn_device_memory_functions(void)
{
    return (mdnn_memory_device_t){.create_chunk = mdnn_device_create_chunk,
                                  .destroy_chunk = mdnn_device_destroy_chunk,
                                  .map = mdnn_device_map_chunk,
                                  .unmap = mdnn_device_unmap_chunk,
                                  .remap_begin = mdnn_device_remap_begin,
                                  .remap_done = mdnn_device_remap_done,
                                  .remap_end = mdnn_device_remap_end,
                                  .background = mdnn_device_remap_background,
                                  .mark = mdnn_device_mark_point,
                                  .is_done = mdnn_device_is_done,
                                  .wait_on_host = mdnn_device_wait_on_host,
                                  .wait_a_while = mdnn_device_wait_a_while,
                                  .wait_for_change = mdnn_device_wait_for_change,
                                  .completions = mdnn_device_completions,
                                  .opened_here = mdnn_device_opened_here,
                                  .fix = mdnn_device_fix_point,
                                  .wait_in_stream = mdnn_device_wait_in_stream,
                                  .room = room,
                                  .take_slot = take_slot,
                                  .give_slot = give_slot,
                                  .wait_for_slot = wait_for_slot,
                                  .cover = cover,
                                  .uncover = uncover,
                                  .copy = copy,
                                  .time_begin = mdnn_device_time_begin,
                                  .time_end = mdnn_device_time_end,
                                  .time_read = mdnn_device_time_read,
                                  .now_us = now_us,
                                  .event = event};
}

/* ---- beginning and end ---- */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Four times the device's memory, so that freed ranges may keep their addresses; at least 1 TiB if
 * there is as much. */
static mdnn_status_t reserve_addresses(mdnn_device_memory_t *memory)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    const uint64_t chunk = memory->config.chunk_bytes;
    size_t total = 0;
    MDNN_TRY(mdnn_failure_note(driver->cuDeviceTotalMem(&total, memory->config.device)));
    uint64_t bytes = (uint64_t)1 << 40;
    if (bytes < 4 * (uint64_t)total)
        bytes = round_up(4 * (uint64_t)total, chunk);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (; result != CUDA_SUCCESS && bytes >= memory->alias_bytes;
         bytes = bytes / 2 / chunk * chunk) {
        memory->address_bytes = bytes;
        result = driver->cuMemAddressReserve(&memory->addresses, bytes, chunk, 0, 0);
    }
    if (result != CUDA_SUCCESS)
        memory->addresses = 0;
    return mdnn_failure_note(result);
}

static mdnn_status_t make_streams(mdnn_device_memory_t *memory)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    int least = 0, greatest = 0;
    (void)driver->cuCtxGetStreamPriorityRange(&least, &greatest);
    for (int i = 0; i < 2; i++) {
        MDNN_TRY(mdnn_failure_note(driver->cuStreamCreateWithPriority(
            &memory->copies[i].stream, CU_STREAM_NON_BLOCKING, greatest)));
        MDNN_TRY(mdnn_timelines_stream(memory->config.timelines, memory->copies[i].stream, false,
                                       &memory->copies[i].number));
    }
    return MDNN_STATUS_OK;
}

static mdnn_pinned_pool_config_t slots_config(const mdnn_device_memory_t *memory)
{
    const mdnn_device_memory_config_t *const config = &memory->config;
    return (mdnn_pinned_pool_config_t){.driver = config->driver,
                                       .device = config->device,
                                       .context = config->context,
                                       .slot_bytes = config->chunk_bytes,
                                       .account = config->host,
                                       .background = config->background,
                                       .mappable = memory->covers};
}

static mdnn_status_t await_slot(mdnn_pinned_pool_t *slots, uint64_t *slot)
{
    mdnn_status_t status;
    while ((status = mdnn_pinned_pool_take(slots, slot)) == MDNN_STATUS_BUSY)
        MDNN_TRY(mdnn_pinned_pool_wait(slots)); /* at the beginning: there is no lock yet */
    return status;
}

/* One slot, at the first range's address. A call that fails is tried once more. */
static CUresult map_one(const mdnn_device_memory_t *memory, mdnn_pinned_pool_t *slots)
{
    enum { ATTEMPTS = 2 };
    uint64_t slot;
    if (await_slot(slots, &slot) != MDNN_STATUS_OK)
        return mdnn_pinned_pool_error(slots);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < ATTEMPTS && result != CUDA_SUCCESS; i++)
        result = mdnn_pinned_pool_map(slots, slot, memory->addresses, memory->access, 1);
    if (result == CUDA_SUCCESS && mdnn_pinned_pool_unmap(slots, slot) != CUDA_SUCCESS)
        result = mdnn_pinned_pool_unmap(slots, slot);
    return result;
}

/* Whether slots can be mapped at the program's addresses. The slot of the trial is beside the account, where others may
 * hold everything just now. */
static CUresult try_cover(const mdnn_device_memory_t *memory)
{
    mdnn_host_account_t alone = {.limit_bytes = memory->config.chunk_bytes};
    mdnn_pinned_pool_config_t config = slots_config(memory);
    mdnn_pinned_pool_t *slots;
    config.account = &alone;
    config.background = false;
    config.mappable = config.is_trial = true;
    if (mdnn_pinned_pool_create(&config, &slots) != MDNN_STATUS_OK)
        return CUDA_ERROR_NOT_SUPPORTED;
    const CUresult result = map_one(memory, slots);
    mdnn_pinned_pool_destroy(slots);
    return result;
}

static void see_whether_it_covers(mdnn_device_memory_t *memory)
{
    const CUresult result = try_cover(memory);
    memory->covers = result == CUDA_SUCCESS;
    if (!memory->covers)
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "device %d: host memory cannot be mapped at the program's addresses (CUDA error "
                 "%d), so operations above the budget are refused, and safety = host works like "
                 "fast",
                 (int)memory->config.device, (int)result);
}

static mdnn_status_t make_slots(mdnn_device_memory_t *memory)
{
    if (memory->config.covers)
        see_whether_it_covers(memory);
    const mdnn_pinned_pool_config_t config = slots_config(memory);
    return mdnn_pinned_pool_create(&config, &memory->slots);
}

static mdnn_status_t fill(mdnn_device_memory_t *memory)
{
    MDNN_TRY(mdnn_device_make_chunks(
        memory)); /* first: what follows takes the addresses that are left */
    MDNN_TRY(reserve_addresses(memory));
    MDNN_TRY(make_streams(memory));
    mdnn_copy_ways_init(memory->config.driver, memory->config.copies, &memory->ways);
    if (memory->config.background)
        MDNN_TRY(mdnn_device_remaps_create(memory, &memory->remaps));
    return make_slots(memory);
}

bool mdnn_device_memory_covers(const mdnn_device_memory_t *memory)
{
    return memory->covers;
}

mdnn_status_t mdnn_device_memory_create(const mdnn_device_memory_config_t *config,
                                        mdnn_device_memory_t **memory)
{
    mdnn_device_memory_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    const mdnn_status_t status = fill(made);
    if (status != MDNN_STATUS_OK) {
        mdnn_device_memory_destroy(made);
        return status;
    }
    *memory = made;
    return MDNN_STATUS_OK;
}

static void destroy_stream(mdnn_device_memory_t *memory, CUstream stream)
{
    if (!stream)
        return;
    mdnn_timelines_stream_ends(memory->config.timelines, stream);
    (void)memory->config.driver->cuStreamDestroy(stream);
}

void mdnn_device_memory_destroy(mdnn_device_memory_t *memory)
{
    if (!memory)
        return;
    const mdnn_driver_t *const driver = memory->config.driver;
    mdnn_device_links_destroy(memory->links);
    mdnn_device_remaps_destroy(memory->remaps);
    mdnn_pinned_pool_destroy(memory->slots);
    for (int i = 0; i < 2; i++)
        destroy_stream(memory, memory->copies[i].stream);
    mdnn_device_release_chunks(memory);
    mdnn_device_destroy_timers(memory);
    if (memory->aliases)
        (void)driver->cuMemAddressFree(memory->aliases, memory->alias_bytes);
    if (memory->addresses)
        (void)driver->cuMemAddressFree(memory->addresses, memory->address_bytes);
    free(memory->chunks);
    free(memory->mapped);
    free(memory->states);
    free(memory);
}

void mdnn_device_memory_addresses(const mdnn_device_memory_t *memory, uint64_t *start,
                                  uint64_t *bytes)
{
    *start = memory->addresses;
    *bytes = memory->address_bytes;
}

typedef struct change_trial {
    mdnn_device_memory_t *memory;
    uint64_t chunk;
} change_trial_t;

/* Where the first range will be. */
static double change_us(void *context)
{
    const change_trial_t *const trial = context;
    mdnn_device_memory_t *const memory = trial->memory;
    const double begin_us = now_us(memory);
    if (mdnn_device_map_chunk(memory, memory->addresses, trial->chunk) != MDNN_STATUS_OK)
        return -1;
    const double end_us = now_us(memory);
    return mdnn_device_unmap_chunk(memory, memory->addresses, trial->chunk) == MDNN_STATUS_OK
               ? end_us - begin_us
               : -1;
}

static void destroy_or_keep(mdnn_device_memory_t *memory, uint64_t chunk)
{
    if (mdnn_device_destroy_chunk(memory, chunk) != MDNN_STATUS_OK)
        memory->left_over = chunk;
}

/* With a second chunk, whose mapping changes meanwhile. The simulated GPU has no page tables. */
static void choose_ways(mdnn_device_memory_t *memory, uint64_t chunk, uint64_t slot)
{
    change_trial_t change = {.memory = memory};
    const mdnn_copy_trial_t trial = {
        .streams = {memory->copies[0].stream, memory->copies[1].stream},
        .device = mdnn_device_chunk_alias(memory, chunk),
        .host = slot,
        .bytes = memory->config.chunk_bytes,
        .change_us = change_us,
        .now_us = now_us,
        .context = &change};
    if (memory->config.copies != MDNN_COPIES_AUTO || memory->config.driver->is_simulated ||
        memory->left_over != 0 || mdnn_device_create_chunk(memory, &change.chunk) != MDNN_STATUS_OK)
        return;
    mdnn_copy_ways_choose(&trial, &memory->ways);
    destroy_or_keep(memory, change.chunk);
}

void mdnn_device_memory_measure(mdnn_device_memory_t *memory, mdnn_link_t *link)
{
    uint64_t slot, chunk;
    if (await_slot(memory->slots, &slot) != MDNN_STATUS_OK)
        return;
    /* A chunk, since cuMemFree would wait for all that the device does. */
    if (mdnn_device_create_chunk(memory, &chunk) == MDNN_STATUS_OK) {
        choose_ways(memory, chunk, slot);
        (void)mdnn_link_measure(&memory->ways, memory->copies[0].stream, memory->copies[1].stream,
                                mdnn_device_chunk_alias(memory, chunk), slot,
                                memory->config.chunk_bytes, link);
        mdnn_device_measure_launch(memory, mdnn_device_chunk_alias(memory, chunk), slot,
                                   memory->config.chunk_bytes);
        destroy_or_keep(memory, chunk);
    }
    give_slot(memory, slot);
}

void mdnn_device_memory_join(mdnn_device_memory_t *memory, const char *link,
                             const mdnn_link_t *alone)
{
    memory->links = mdnn_device_links_create(memory->config.driver, memory->config.device,
                                             memory->config.host->registry, link, alone);
}

mdnn_device_links_t *mdnn_device_memory_links(const mdnn_device_memory_t *memory)
{
    return memory->links;
}

mdnn_pinned_pool_t *mdnn_device_memory_slots(mdnn_device_memory_t *memory)
{
    return memory->slots;
}
