#include "shim/device/memory_device.h"

#include <stdlib.h>
#include <time.h>

#include "config/log.h"
#include "shim/device/link_rates.h"

enum { TIMERS = 64 };

/* A stretch of a stream that is timed. */
typedef struct stopwatch {
    CUevent begin, end;
    bool taken, ended, failed;
} stopwatch_t;

/* A place for a chunk. */
typedef enum chunk_state { CHUNK_NONE, CHUNK_THERE, CHUNK_WITHOUT_ALIAS } chunk_state_t;

struct mdnn_device_memory {
    mdnn_device_memory_config_t config;
    CUdeviceptr addresses, aliases; /* reservations */
    uint64_t address_bytes, alias_bytes;
    CUmemGenericAllocationHandle *chunks;
    CUdeviceptr *mapped; /* by chunk: its range's address; 0: it is mapped for none */
    chunk_state_t *states;
    size_t chunk_count, chunk_capacity; /* places that were ever taken, and all */
    uint64_t left_over; /* a chunk that measuring had and could not destroy, the next one; or 0 */
    CUmemAccessDesc access[1 + MDNN_MEMORY_PEERS]; /* who may use ranges; the device itself first */
    size_t access_count;
    struct {
        CUstream stream;
        uint64_t number;
    } copies[2]; /* in, out */
    mdnn_pinned_pool_t *slots;
    bool covers;
    stopwatch_t timers[TIMERS]; /* a token is a place, from 1 on */
};

/* ---- chunks ---- */

static CUdeviceptr alias_of(const mdnn_device_memory_t *memory, uint64_t chunk)
{
    return memory->aliases + (chunk - 1) * memory->config.chunk_bytes;
}

/* For the first `access_count` of those that may use ranges. */
static mdnn_status_t map_handle(mdnn_device_memory_t *memory, CUdeviceptr address,
                                CUmemGenericAllocationHandle handle, size_t access_count)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    const uint64_t bytes = memory->config.chunk_bytes;
    MDNN_TRY(mdnn_failure_note(driver->cuMemMap(address, bytes, 0, handle, 0)));
    const mdnn_status_t status =
        mdnn_failure_note(driver->cuMemSetAccess(address, bytes, memory->access, access_count));
    if (status != MDNN_STATUS_OK)
        (void)driver->cuMemUnmap(address, bytes);
    return status;
}

/* Its alias may be missing since destroying it failed. */
static mdnn_status_t have_alias(mdnn_device_memory_t *memory, uint64_t chunk)
{
    if (memory->states[chunk - 1] == CHUNK_THERE)
        return MDNN_STATUS_OK;
    MDNN_TRY(map_handle(memory, alias_of(memory, chunk), memory->chunks[chunk - 1], 1));
    memory->states[chunk - 1] = CHUNK_THERE;
    return MDNN_STATUS_OK;
}

/* false: there is none. */
static bool take_left_over(mdnn_device_memory_t *memory, uint64_t *chunk)
{
    if (memory->left_over == 0 || have_alias(memory, memory->left_over) != MDNN_STATUS_OK)
        return false;
    *chunk = memory->left_over;
    memory->left_over = 0;
    return true;
}

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = memory->config.device}};
    CUmemGenericAllocationHandle handle;
    size_t place = 0;
    if (take_left_over(memory, chunk))
        return MDNN_STATUS_OK;
    while (place < memory->chunk_count && memory->states[place] != CHUNK_NONE)
        place++;
    if (place == memory->chunk_capacity)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY; /* as many as the budget has */
    MDNN_TRY(mdnn_failure_note(
        driver->cuMemCreate(&handle, memory->config.chunk_bytes, &properties, 0)));
    const mdnn_status_t status = map_handle(memory, alias_of(memory, place + 1), handle, 1);
    if (status != MDNN_STATUS_OK) {
        (void)driver->cuMemRelease(handle);
        return status;
    }
    memory->chunks[place] = handle;
    memory->states[place] = CHUNK_THERE;
    memory->chunk_count += place == memory->chunk_count;
    *chunk = place + 1;
    return MDNN_STATUS_OK;
}

CUdeviceptr mdnn_device_memory_sample(const mdnn_device_memory_t *memory)
{
    for (size_t place = 0; place < memory->chunk_count; place++)
        if (memory->states[place] == CHUNK_THERE)
            return alias_of(memory, place + 1);
    return 0;
}

static mdnn_status_t destroy_chunk(void *context, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    if (memory->states[chunk - 1] == CHUNK_THERE)
        MDNN_TRY(mdnn_failure_note(
            driver->cuMemUnmap(alias_of(memory, chunk), memory->config.chunk_bytes)));
    memory->states[chunk - 1] = CHUNK_WITHOUT_ALIAS;
    MDNN_TRY(mdnn_failure_note(driver->cuMemRelease(memory->chunks[chunk - 1])));
    memory->states[chunk - 1] = CHUNK_NONE;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    MDNN_TRY(map_handle(memory, address, memory->chunks[chunk - 1], memory->access_count));
    memory->mapped[chunk - 1] = address;
    return MDNN_STATUS_OK;
}

static mdnn_status_t unmap(void *context, uint64_t address, uint64_t chunk)
{
    mdnn_device_memory_t *const memory = context;
    MDNN_TRY(
        mdnn_failure_note(memory->config.driver->cuMemUnmap(address, memory->config.chunk_bytes)));
    memory->mapped[chunk - 1] = 0;
    return MDNN_STATUS_OK;
}

static CUmemAccessDesc access_of(CUdevice device)
{
    return (CUmemAccessDesc){{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                             CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

mdnn_status_t mdnn_device_memory_let(mdnn_device_memory_t *memory, CUdevice peer)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    const uint64_t bytes = memory->config.chunk_bytes;
    const CUmemAccessDesc access = access_of(peer);
    int can = 0;
    /* Not noted as an error: nothing of ours needs it. */
    if (driver->cuDeviceCanAccessPeer(&can, peer, memory->config.device) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    if (!can || memory->access_count > MDNN_MEMORY_PEERS)
        return MDNN_STATUS_OK;
    for (size_t i = 0; i < memory->chunk_count; i++)
        if (memory->mapped[i] &&
            driver->cuMemSetAccess(memory->mapped[i], bytes, &access, 1) != CUDA_SUCCESS)
            return MDNN_STATUS_DEVICE;
    if (mdnn_pinned_pool_let(memory->slots, &access) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    memory->access[memory->access_count++] = access;
    return MDNN_STATUS_OK;
}

/* ---- stream points ---- */

static mdnn_stream_point_t mark(void *context, uint64_t stream)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_mark(memory->config.timelines, stream);
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_is_done(memory->config.timelines, point);
}

/* ---- waits; the caller's lock is let go ---- */

static void let_go(const mdnn_device_memory_t *memory)
{
    if (memory->config.caller.let_go)
        memory->config.caller.let_go(memory->config.caller.context);
}

static void take_back(const mdnn_device_memory_t *memory)
{
    if (memory->config.caller.take_back)
        memory->config.caller.take_back(memory->config.caller.context);
}

static mdnn_status_t wait_on_host(void *context, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    let_go(memory);
    const mdnn_status_t status = mdnn_timelines_wait_on_host(memory->config.timelines, point);
    take_back(memory);
    return status;
}

static void say_late(const mdnn_device_memory_t *memory, double seconds)
{
    if (memory->config.covers)
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "the device was at work for more than %.0f s: memory moves beside that, which "
            "may not touch what it does not name",
            seconds);
    else
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "the device was at work for more than %.1f s: for a hundred times as long the "
            "program does not wait for memory that moves ahead of time",
            seconds);
}

static mdnn_status_t wait_a_while(void *context, mdnn_stream_point_t point, double seconds)
{
    const mdnn_device_memory_t *const memory = context;
    /* The clock of the simulated GPU hardly moves while it is only asked. */
    const bool simulated = memory->config.driver->is_simulated && !memory->config.covers;
    let_go(memory);
    const mdnn_status_t status =
        simulated ? mdnn_timelines_wait_simulated(memory->config.timelines, point)
                  : mdnn_timelines_wait_a_while(memory->config.timelines, point, seconds);
    take_back(memory);
    if (status == MDNN_STATUS_BUSY && seconds >= 1)
        say_late(memory, seconds);
    return status;
}

static void wait_for_change(void *context, double seconds)
{
    const mdnn_device_memory_t *const memory = context;
    if (memory->config.caller.wait_for_change)
        memory->config.caller.wait_for_change(memory->config.caller.context, seconds);
}

static uint64_t completions(void *context)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_completions(memory->config.timelines);
}

static uint32_t opened_here(void *context)
{
    const mdnn_device_memory_t *const memory = context;
    return memory->config.caller.opened_here
               ? memory->config.caller.opened_here(memory->config.caller.context)
               : UINT32_MAX;
}

static void fix(void *context, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    mdnn_timelines_fix(memory->config.timelines, point.stream);
}

static mdnn_status_t wait_in_stream(void *context, uint64_t stream, mdnn_stream_point_t point)
{
    const mdnn_device_memory_t *const memory = context;
    return mdnn_timelines_wait_in_stream(memory->config.timelines, stream, point);
}

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
    let_go(memory);
    const mdnn_status_t status = mdnn_pinned_pool_wait(memory->slots);
    take_back(memory);
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
                  "what is away cannot be mapped to its host copy (CUDA error %d): an access that "
                  "no argument names may fail",
                  (int)result);
    return MDNN_STATUS_DEVICE;
}

static mdnn_status_t uncover(void *context, uint64_t address, uint64_t slot)
{
    mdnn_device_memory_t *const memory = context;
    (void)address; /* the slot knows */
    return mdnn_failure_note(mdnn_pinned_pool_unmap(memory->slots, slot));
}

static mdnn_status_t copy(void *context, bool out, uint64_t chunk, uint64_t slot, uint64_t bytes,
                          mdnn_stream_point_t *end)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    CUstream const stream = memory->copies[out].stream;
    const CUdeviceptr alias = alias_of(memory, chunk);
    void *const host = (void *)(uintptr_t)slot;
    MDNN_TRY(have_alias(memory, chunk));
    MDNN_TRY(mdnn_failure_note(out ? driver->cuMemcpyDtoHAsync(host, alias, bytes, stream)
                                   : driver->cuMemcpyHtoDAsync(alias, host, bytes, stream)));
    const mdnn_status_t status =
        mdnn_timelines_mark_event(memory->config.timelines, memory->copies[out].number, end);
    if (status != MDNN_STATUS_OK)
        (void)driver->cuStreamSynchronize(stream); /* a copy whose end nobody can know */
    return status;
}

/* ---- times ---- */

static bool make_timer(const mdnn_driver_t *driver, stopwatch_t *timer)
{
    if (timer->begin || timer->failed)
        return !timer->failed;
    timer->failed = driver->cuEventCreate(&timer->begin, CU_EVENT_DEFAULT) != CUDA_SUCCESS ||
                    driver->cuEventCreate(&timer->end, CU_EVENT_DEFAULT) != CUDA_SUCCESS;
    return !timer->failed;
}

/* Not in a stream of another device, whose events are others. */
static bool record(mdnn_device_memory_t *memory, CUevent event, uint64_t number)
{
    CUstream const stream =
        mdnn_timelines_handle(memory->config.timelines, number, memory->config.context);
    return stream && !mdnn_timelines_stream_captures(memory->config.timelines, stream) &&
           memory->config.driver->cuEventRecord(event, stream) == CUDA_SUCCESS;
}

static uint64_t time_begin(void *context, uint64_t stream)
{
    mdnn_device_memory_t *const memory = context;
    for (size_t i = 0; i < TIMERS; i++) {
        stopwatch_t *const timer = &memory->timers[i];
        if (timer->taken)
            continue;
        if (!make_timer(memory->config.driver, timer) || !record(memory, timer->begin, stream))
            return 0;
        timer->taken = true;
        timer->ended = false;
        return i + 1;
    }
    return 0;
}

static void time_end(void *context, uint64_t stream, uint64_t token)
{
    mdnn_device_memory_t *const memory = context;
    if (token > 0)
        memory->timers[token - 1].ended = record(memory, memory->timers[token - 1].end, stream);
}

static mdnn_status_t time_read(void *context, uint64_t token, double *time_us)
{
    mdnn_device_memory_t *const memory = context;
    const mdnn_driver_t *const driver = memory->config.driver;
    stopwatch_t *const timer = &memory->timers[token - 1];
    float ms = 0;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (timer->ended) {
        result = driver->cuEventQuery(timer->end);
        if (result == CUDA_ERROR_NOT_READY)
            return MDNN_STATUS_BUSY;
        if (result == CUDA_SUCCESS)
            result = driver->cuEventElapsedTime(&ms, timer->begin, timer->end);
    }
    timer->taken = false;
    *time_us = (double)ms * 1e3;
    return result == CUDA_SUCCESS ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE; /* nobody needs it */
}

static double now_us(void *context)
{
    struct timespec now;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void event(void *context, const mdnn_memory_event_t *what)
{
    const mdnn_device_memory_t *const memory = context;
    mdnn_trace_event(memory->config.trace, memory->config.device, now_us(context), what);
}

mdnn_memory_device_t mdnn_device_memory_functions(void)
{
    return (mdnn_memory_device_t){.create_chunk = create_chunk,
                                  .destroy_chunk = destroy_chunk,
                                  .map = map,
                                  .unmap = unmap,
                                  .mark = mark,
                                  .is_done = is_done,
                                  .wait_on_host = wait_on_host,
                                  .wait_a_while = wait_a_while,
                                  .wait_for_change = wait_for_change,
                                  .completions = completions,
                                  .opened_here = opened_here,
                                  .fix = fix,
                                  .wait_in_stream = wait_in_stream,
                                  .take_slot = take_slot,
                                  .give_slot = give_slot,
                                  .wait_for_slot = wait_for_slot,
                                  .cover = cover,
                                  .uncover = uncover,
                                  .copy = copy,
                                  .time_begin = time_begin,
                                  .time_end = time_end,
                                  .time_read = time_read,
                                  .now_us = now_us,
                                  .event = event};
}

/* ---- beginning and end ---- */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static mdnn_status_t reserve_aliases(mdnn_device_memory_t *memory)
{
    const uint64_t chunk = memory->config.chunk_bytes;
    memory->alias_bytes = memory->chunk_capacity * chunk;
    const CUresult result = memory->config.driver->cuMemAddressReserve(
        &memory->aliases, memory->alias_bytes, chunk, 0, 0);
    if (result != CUDA_SUCCESS)
        memory->aliases = 0;
    return mdnn_failure_note(result);
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

static mdnn_status_t make_slots(mdnn_device_memory_t *memory, bool mappable)
{
    const mdnn_device_memory_config_t *const config = &memory->config;
    const mdnn_pinned_pool_config_t slots = {.driver = config->driver,
                                             .device = config->device,
                                             .context = config->context,
                                             .slot_bytes = config->chunk_bytes,
                                             .account = config->host,
                                             .background = !config->driver->is_simulated,
                                             .mappable = mappable};
    return mdnn_pinned_pool_create(&slots, &memory->slots);
}

static mdnn_status_t await_slot(mdnn_device_memory_t *memory, uint64_t *slot)
{
    mdnn_status_t status;
    while ((status = take_slot(memory, slot)) == MDNN_STATUS_BUSY)
        MDNN_TRY(mdnn_pinned_pool_wait(memory->slots)); /* at the beginning: there is no lock yet */
    return status;
}

/* One slot, once, at the first range's address. */
static CUresult try_cover(mdnn_device_memory_t *memory)
{
    uint64_t slot;
    if (await_slot(memory, &slot) != MDNN_STATUS_OK) {
        const CUresult error = mdnn_pinned_pool_error(memory->slots);
        return error == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : error; /* host_limit */
    }
    CUresult result =
        mdnn_pinned_pool_map(memory->slots, slot, memory->addresses, memory->access, 1);
    if (result == CUDA_SUCCESS)
        result = mdnn_pinned_pool_unmap(memory->slots, slot);
    give_slot(memory, slot);
    return result;
}

static mdnn_status_t make_covering_slots(mdnn_device_memory_t *memory)
{
    const mdnn_status_t status = make_slots(memory, true);
    const CUresult result = status == MDNN_STATUS_OK ? try_cover(memory) : CUDA_ERROR_NOT_SUPPORTED;
    memory->covers = result == CUDA_SUCCESS;
    if (memory->covers)
        return MDNN_STATUS_OK;
    MDNN_LOG(MDNN_LOG_WARN, "memory",
             "device %d: host memory cannot be mapped at the program's addresses (CUDA error %d), "
             "so safety = host is as fast",
             (int)memory->config.device, (int)result);
    mdnn_pinned_pool_destroy(memory->slots);
    memory->slots = NULL;
    return make_slots(memory, false);
}

static mdnn_status_t fill(mdnn_device_memory_t *memory)
{
    const mdnn_device_memory_config_t *const config = &memory->config;
    memory->chunk_capacity = (size_t)(config->budget_bytes / config->chunk_bytes);
    memory->chunks = calloc(memory->chunk_capacity + 1, sizeof *memory->chunks);
    memory->mapped = calloc(memory->chunk_capacity + 1, sizeof *memory->mapped);
    memory->states = calloc(memory->chunk_capacity + 1, sizeof *memory->states);
    memory->access[memory->access_count++] = access_of(config->device);
    if (!memory->chunks || !memory->mapped || !memory->states || memory->chunk_capacity == 0)
        return MDNN_STATUS_OUT_OF_MEMORY;
    MDNN_TRY(reserve_aliases(memory)); /* first: the other takes what is left */
    MDNN_TRY(reserve_addresses(memory));
    MDNN_TRY(make_streams(memory));
    return config->covers ? make_covering_slots(memory) : make_slots(memory, false);
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
    mdnn_pinned_pool_destroy(memory->slots);
    for (int i = 0; i < 2; i++)
        destroy_stream(memory, memory->copies[i].stream);
    for (size_t i = 0; i < memory->chunk_count; i++) {
        if (memory->mapped[i])
            (void)driver->cuMemUnmap(memory->mapped[i], memory->config.chunk_bytes);
        if (memory->states[i] == CHUNK_THERE)
            (void)driver->cuMemUnmap(alias_of(memory, i + 1), memory->config.chunk_bytes);
        if (memory->states[i] != CHUNK_NONE)
            (void)driver->cuMemRelease(memory->chunks[i]);
    }
    for (size_t i = 0; i < TIMERS; i++) {
        if (memory->timers[i].begin)
            (void)driver->cuEventDestroy(memory->timers[i].begin);
        if (memory->timers[i].end)
            (void)driver->cuEventDestroy(memory->timers[i].end);
    }
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

void mdnn_device_memory_measure(mdnn_device_memory_t *memory, mdnn_link_t *link)
{
    uint64_t slot, chunk;
    if (await_slot(memory, &slot) != MDNN_STATUS_OK)
        return;
    /* A chunk, since cuMemFree would wait for all that the device does. */
    if (create_chunk(memory, &chunk) == MDNN_STATUS_OK) {
        (void)mdnn_link_measure(memory->config.driver, memory->copies[0].stream,
                                memory->copies[1].stream, alias_of(memory, chunk), slot,
                                memory->config.chunk_bytes, link);
        if (destroy_chunk(memory, chunk) != MDNN_STATUS_OK)
            memory->left_over = chunk;
    }
    give_slot(memory, slot);
}

mdnn_pinned_pool_t *mdnn_device_memory_slots(mdnn_device_memory_t *memory)
{
    return memory->slots;
}
