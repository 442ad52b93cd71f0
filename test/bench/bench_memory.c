/* Host time that the mechanism of virtual memory adds to an operation that names four ranges, all
 * resident and nothing under way (begin, end, progress), and to an allocation with its free. The
 * device costs nothing here; the plan follower follows no plan. Exit status 1 if a limit is missed. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "offload/memory/memory.h"

enum { RANGES = 512, NAMES = 4, ROUNDS = 200000, RUNS = 5 };
#define CHUNK ((uint64_t)2 << 20)

static uint64_t moments, chunks;

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    (void)context;
    *chunk = ++chunks;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map(void *context, uint64_t address, uint64_t chunk)
{
    (void)context, (void)address, (void)chunk;
    return MDNN_STATUS_OK;
}

static mdnn_stream_point_t mark(void *context, uint64_t stream)
{
    (void)context;
    return (mdnn_stream_point_t){stream, ++moments};
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context;
    return point.position + 100 < moments;
}

static mdnn_status_t wait_on_host(void *context, mdnn_stream_point_t point)
{
    (void)context, (void)point;
    return MDNN_STATUS_DEVICE; /* nothing here has to wait */
}

static mdnn_status_t wait_in_stream(void *context, uint64_t stream, mdnn_stream_point_t point)
{
    (void)context, (void)stream, (void)point;
    return MDNN_STATUS_OK;
}

static double now_us(void *context)
{
    struct timespec time;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static uint64_t time_begin(void *context, uint64_t stream, bool operation)
{
    (void)context, (void)stream, (void)operation;
    return 0;
}

static uint64_t addresses[RANGES];

static bool operate(mdnn_memory_t *memory, uint64_t number)
{
    mdnn_memory_operand_t names[NAMES];
    for (uint64_t i = 0; i < NAMES; i++)
        names[i] = (mdnn_memory_operand_t){addresses[(number * 7 + i * 131) % RANGES] + 64,
                                           i < NAMES - 1 ? MDNN_USE_READ : MDNN_USE_WRITE};
    mdnn_memory_operation_t operation = {.key = number * 0x9e3779b97f4a7c15u,
                                         .stream = 7,
                                         .operands = names,
                                         .operand_count = NAMES};
    if (mdnn_memory_begin(memory, &operation) != MDNN_STATUS_OK)
        return false;
    mdnn_memory_end(memory, &operation, true);
    return !mdnn_memory_progress(memory);
}

static bool allocate_and_free(mdnn_memory_t *memory, uint64_t bytes)
{
    uint64_t address;
    return mdnn_memory_allocate(memory, bytes, 7, &address) == MDNN_STATUS_OK &&
           mdnn_memory_free(memory, address, 7) == MDNN_STATUS_OK;
}

static bool report(const char *name, double best_us, double limit_us)
{
    const bool good = best_us <= limit_us;
    printf("memory\t%s\t%.3f\tus\tlimit %g\t%s\n", name, best_us, limit_us, good ? "ok" : "MISSED");
    return good;
}

int main(void)
{
    const mdnn_memory_device_t device = {.create_chunk = create_chunk,
                                         .map = map,
                                         .unmap = map,
                                         .mark = mark,
                                         .is_done = is_done,
                                         .wait_on_host = wait_on_host,
                                         .wait_in_stream = wait_in_stream,
                                         .time_begin = time_begin,
                                         .now_us = now_us};
    const mdnn_memory_config_t config = {
        .ranges = {(uint64_t)1 << 40, (uint64_t)1 << 36, CHUNK, CHUNK / 2},
        .budget_bytes = 4 * RANGES * CHUNK,
        .follower = {.policy = MDNN_POLICY_NONE,
                     .budget_bytes = 4 * RANGES * CHUNK,
                     .host_limit_bytes = UINT64_MAX,
                     .link = {55e3, 55e3, 50e3, 50e3, 10}},
    };
    mdnn_memory_t *memory;
    bool good = mdnn_memory_create(&config, &device, NULL, &memory) == MDNN_STATUS_OK;
    for (int i = 0; i < RANGES && good; i++)
        good = mdnn_memory_allocate(memory, 3 * CHUNK - 100, 7, &addresses[i]) == MDNN_STATUS_OK;
    double best[3] = {1e30, 1e30, 1e30};
    for (int run = 0; run < RUNS && good; run++)
        for (int what = 0; what < 3; what++) {
            const double begin_us = now_us(NULL);
            for (uint64_t i = 0; i < ROUNDS && good; i++)
                good = what == 0 ? operate(memory, i % 3000)
                                 : allocate_and_free(memory, what == 1 ? 5 * CHUNK : 4096);
            const double took_us = (now_us(NULL) - begin_us) / ROUNDS;
            best[what] = took_us < best[what] ? took_us : best[what];
        }
    mdnn_memory_destroy(memory);
    good = good && report("operation with 4 resident ranges", best[0], 0.5);
    good = good && report("allocate and free a range", best[1], 1);
    good = good && report("allocate and free a block", best[2], 1);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
