/* The mechanism and the plan follower under a program that repeats itself, on a device with a clock:
 * streams and copies take the time that they would, and the host pays for what it enqueues, maps
 * and unmaps. Contents count for nothing. One program includes it once; what must not fail ends it.
 */
#ifndef MDNN_TEST_CLOCKED_PROGRAM_H
#define MDNN_TEST_CLOCKED_PROGRAM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/memory/memory.h"
#include "test/unit/must.h"
#include "test/unit/random_period.h"

enum { QUEUES = 3, OUT = 1, IN = 2, MOMENTS = 1 << 20, TOKENS = 1 << 16 };
static const double HOST_US = 5; /* of enqueueing an operation */

/* ---- a device with a clock ---- */

typedef struct device {
    double now_us; /* the host's */
    mdnn_link_t link;
    double *end_us[QUEUES]; /* of each moment */
    uint64_t moments[QUEUES];
    double token_us[TOKENS]; /* when the stream came by */
    uint64_t tokens, token_moment[TOKENS];
    uint64_t chunks, slots;
    double map_us, unmap_us; /* what they cost the host, with access */
    uint64_t maps, unmaps;   /* so many the calling thread did */
} device_t;

static inline double end_of(const device_t *device, uint64_t queue)
{
    return device->moments[queue] ? device->end_us[queue][device->moments[queue] % MOMENTS] : 0;
}

/* Work that begins when the queue is free. */
static inline void enqueue(device_t *device, uint64_t queue, double time_us)
{
    const double begin_us =
        end_of(device, queue) > device->now_us ? end_of(device, queue) : device->now_us;
    device->end_us[queue][++device->moments[queue] % MOMENTS] = begin_us + time_us;
}

static inline mdnn_status_t device_create(void *context, uint64_t *chunk)
{
    *chunk = ++((device_t *)context)->chunks;
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_map(void *context, uint64_t address, uint64_t chunk)
{
    device_t *const device = context;
    (void)address, (void)chunk;
    device->now_us += device->map_us;
    device->maps++;
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_unmap(void *context, uint64_t address, uint64_t chunk)
{
    device_t *const device = context;
    (void)address, (void)chunk;
    device->now_us += device->unmap_us;
    device->unmaps++;
    return MDNN_STATUS_OK;
}

static inline mdnn_stream_point_t device_mark(void *context, uint64_t stream)
{
    const device_t *const device = context;
    return (mdnn_stream_point_t){stream, device->moments[stream]};
}

static inline double point_us(const device_t *device, mdnn_stream_point_t point)
{
    MUST(point.position + MOMENTS > device->moments[point.stream]);
    return device->end_us[point.stream][point.position % MOMENTS];
}

static inline bool device_is_done(void *context, mdnn_stream_point_t point)
{
    const device_t *const device = context;
    return point_us(device, point) <= device->now_us;
}

static inline mdnn_status_t device_wait(void *context, mdnn_stream_point_t point)
{
    device_t *const device = context;
    if (point_us(device, point) > device->now_us)
        device->now_us = point_us(device, point);
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_wait_in_stream(void *context, uint64_t stream,
                                                  mdnn_stream_point_t point)
{
    device_t *const device = context;
    double *const end_us = &device->end_us[stream][++device->moments[stream] % MOMENTS];
    *end_us = device->end_us[stream][(device->moments[stream] - 1) % MOMENTS];
    if (*end_us < point_us(device, point))
        *end_us = point_us(device, point);
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_take_slot(void *context, uint64_t *slot)
{
    *slot = ++((device_t *)context)->slots;
    return MDNN_STATUS_OK;
}

static inline void device_give_slot(void *context, uint64_t slot)
{
    (void)context, (void)slot;
}

static inline mdnn_status_t device_wait_for_slot(void *context)
{
    (void)context;
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_copy(void *context, bool out, uint64_t chunk, uint64_t slot,
                                        uint64_t bytes, mdnn_stream_point_t *end)
{
    device_t *const device = context;
    const uint64_t queue = out ? OUT : IN, other = out ? IN : OUT;
    const mdnn_link_t *const link = &device->link;
    const bool both = end_of(device, other) > device->now_us;
    const double rate = out ? (both ? link->out_duplex_bytes_per_us : link->out_bytes_per_us)
                            : (both ? link->in_duplex_bytes_per_us : link->in_bytes_per_us);
    (void)chunk, (void)slot;
    enqueue(device, queue, (double)bytes / rate);
    *end = device_mark(context, queue);
    return MDNN_STATUS_OK;
}

static inline uint64_t device_time_begin(void *context, uint64_t stream, bool operation)
{
    device_t *const device = context;
    (void)operation;
    const uint64_t token = ++device->tokens;
    const double end_us = end_of(device, stream);
    device->token_us[token % TOKENS] = end_us > device->now_us ? end_us : device->now_us;
    return token;
}

static inline void device_time_end(void *context, uint64_t stream, uint64_t token)
{
    device_t *const device = context;
    device->token_moment[token % TOKENS] = device->moments[stream];
}

static inline mdnn_status_t device_time_read(void *context, uint64_t token, double *time_us)
{
    device_t *const device = context;
    const mdnn_stream_point_t point = {0, device->token_moment[token % TOKENS]};
    if (!device_is_done(device, point))
        return MDNN_STATUS_BUSY;
    *time_us = point_us(device, point) - device->token_us[token % TOKENS];
    return MDNN_STATUS_OK;
}

static inline mdnn_status_t device_wait_a_while(void *context, mdnn_stream_point_t point,
                                                double seconds, bool quiet)
{
    (void)seconds, (void)quiet;
    return device_wait(context, point);
}

static inline double device_now_us(void *context)
{
    return ((device_t *)context)->now_us;
}

static const mdnn_memory_device_t functions = {
    .create_chunk = device_create,
    .map = device_map,
    .unmap = device_unmap,
    .mark = device_mark,
    .is_done = device_is_done,
    .wait_on_host = device_wait,
    .wait_a_while = device_wait_a_while,
    .wait_in_stream = device_wait_in_stream,
    .take_slot = device_take_slot,
    .give_slot = device_give_slot,
    .wait_for_slot = device_wait_for_slot,
    .copy = device_copy,
    .time_begin = device_time_begin,
    .time_end = device_time_end,
    .time_read = device_time_read,
    .now_us = device_now_us,
};

/* ---- a program ---- */

static random_period_t network;
static uint64_t addresses[RANDOM_PERIOD_RANGES];
static device_t device;
static mdnn_memory_t *memory;
/* A range is allocated so many operations before the first that names it. */
static uint32_t allocated_ahead;
/* What dies is freed only after what follows was allocated. */
static bool frees_late;
/* Other budgets are planned for as well. */
static bool forecasts;

static inline void allocate_range(uint32_t range)
{
    const uint64_t bytes = mdnn_range_copied_bytes(&network.ranges[range]);
    MUST(mdnn_memory_allocate(memory, bytes, 0, &addresses[range]) == MDNN_STATUS_OK);
}

/* Those that begin with operation `position`, if they do so ahead of it or, else, at it. */
static inline void allocate_ahead(uint32_t position)
{
    const uint32_t first = (position + allocated_ahead) % network.period.operation_count;
    for (uint32_t r = 0; r < network.period.range_count; r++)
        if (network.ranges[r].birth == first)
            allocate_range(r);
}

static inline void free_behind(uint32_t position)
{
    for (uint32_t r = 0; r < network.period.range_count; r++)
        if (network.ranges[r].death == position)
            MUST(mdnn_memory_free(memory, addresses[r], 0) == MDNN_STATUS_OK);
}

static inline void run_operation(uint32_t position)
{
    const mdnn_operation_t *const operation = &network.operations[position];
    const double time_us = network.variants[operation->first_variant].time_us;
    mdnn_memory_operand_t names[16];
    allocate_ahead(position);
    if (frees_late && position > 0)
        free_behind(position - 1);
    MUST(operation->use_count <= sizeof names / sizeof names[0]);
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_use_t *const use = &network.uses[operation->first_use + u];
        names[u] = (mdnn_memory_operand_t){addresses[use->range], use->role};
    }
    mdnn_memory_operation_t running = {.key = 1 + position,
                                       .kind = operation->kind,
                                       .operands = names,
                                       .operand_count = operation->use_count};
    MUST(mdnn_memory_begin(memory, &running) == MDNN_STATUS_OK);
    device.now_us += HOST_US;
    enqueue(&device, 0, time_us);
    mdnn_memory_end(memory, &running, true);
    if (!frees_late || position + 1 == network.period.operation_count)
        free_behind(position);
}

static inline void log_something(uint32_t key)
{
    mdnn_memory_operation_t running = {.key = 1000 + key};
    MUST(mdnn_memory_begin(memory, &running) == MDNN_STATUS_OK);
    enqueue(&device, 0, 1);
    mdnn_memory_end(memory, &running, true);
}

/* The program waits for all that it enqueued; moves go on meanwhile. */
static inline void synchronize(void)
{
    while (end_of(&device, 0) > device.now_us) {
        mdnn_memory_progress(memory);
        const double next_us = device.now_us + 20;
        device.now_us = next_us < end_of(&device, 0) ? next_us : end_of(&device, 0);
    }
}

static inline void run_round(bool waits)
{
    for (uint32_t i = 0; i < network.period.operation_count; i++)
        run_operation(i);
    if (waits)
        synchronize();
}

/* `parts`: chunks of the budget, at most; the plan follower may plan with `follower_bytes` of it. */
static inline void start(uint64_t budget_bytes, uint64_t follower_bytes, uint64_t parts,
                         mdnn_policy_t policy)
{
    uint64_t chunk_bytes = 2 << 20;
    while (chunk_bytes * parts < budget_bytes)
        chunk_bytes *= 2;
    device.now_us = 0;
    device.tokens = device.chunks = device.slots = 0;
    memset(device.moments, 0, sizeof device.moments);
    device.link = (mdnn_link_t){55300, 55400, 50800, 50800, 0};
    const mdnn_memory_config_t config = {
        .ranges = {chunk_bytes << 20, chunk_bytes << 14, chunk_bytes, chunk_bytes / 2},
        .budget_bytes = budget_bytes,
        .min_bytes = chunk_bytes,
        .follower = {.policy = policy,
                     .budget_bytes = follower_bytes,
                     .chunk_bytes = chunk_bytes,
                     .host_limit_bytes = UINT64_MAX,
                     .forecast = forecasts,
                     .link = device.link}};
    for (int i = 0; i < QUEUES; i++)
        if (!device.end_us[i])
            device.end_us[i] = calloc(MOMENTS, sizeof *device.end_us[i]);
    MUST(mdnn_memory_create(&config, &functions, &device, &memory) == MDNN_STATUS_OK);
    for (uint32_t r = 0; r < network.period.range_count; r++)
        if (mdnn_range_is_permanent(&network.ranges[r]))
            allocate_range(r);
    for (uint32_t r = 0; r < network.period.range_count; r++)
        if (network.ranges[r].birth < allocated_ahead)
            allocate_range(r);
}

/* Rounds that are enough for a plan to be made and followed. */
static inline void run_to_plan(bool waits)
{
    for (uint32_t i = 0; i < 10 + 96 / network.period.operation_count; i++)
        run_round(waits);
}

static inline void free_device(void)
{
    for (int i = 0; i < QUEUES; i++)
        free(device.end_us[i]);
}

#endif
