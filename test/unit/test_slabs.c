/* Slabs: how much memory programs of small allocations take, beside what they need. The device
 * costs nothing, and each stream is some releases behind the host. */
#include <stdio.h>
#include <stdlib.h>

#include "offload/ranges/ranges.h"
#include "test/unit/cases.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/few.h"
#include "test/unit/random.h"

#define MIB ((uint64_t)1 << 20)
#define BASE ((uint64_t)1 << 40)
enum { MOST = 20000, BEHIND = 50 };

typedef struct program {
    mdnn_ranges_t *ranges;
    uint64_t chunk_bytes, budget, chunks; /* chunks: created, of so many that may be */
    uint64_t random, now;
    uint64_t address[MOST], bytes[MOST]; /* bytes 0: none */
    uint64_t live_bytes, peak_bytes;
    long allocations; /* of the host's, before it */
} program_t;

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    program_t *const program = context;
    if (program->chunks == program->budget)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    *chunk = ++program->chunks;
    return MDNN_STATUS_OK;
}

static mdnn_status_t change_mapping(void *context, uint64_t address, uint64_t chunk)
{
    (void)context;
    (void)address;
    (void)chunk;
    return MDNN_STATUS_OK;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    return point.position + BEHIND <= ((program_t *)context)->now;
}

static program_t *new_program(uint64_t chunk_bytes, uint64_t budget_bytes, uint64_t seed)
{
    static program_t program;
    const mdnn_ranges_device_t device = {create_chunk, change_mapping, change_mapping,
                                         is_done,      NULL,           NULL};
    const mdnn_ranges_config_t config = {BASE, (uint64_t)1 << 38, chunk_bytes, chunk_bytes / 2, 0};
    program = (program_t){.chunk_bytes = chunk_bytes,
                          .budget = budget_bytes / chunk_bytes,
                          .random = seed,
                          .allocations = live_allocations};
    assert_int_equal(mdnn_ranges_create(&config, &device, &program, &program.ranges),
                     MDNN_STATUS_OK);
    return &program;
}

static uint64_t pick(program_t *program, uint64_t below)
{
    return random_next(&program->random) % below;
}

/* What has to be waited for ends meanwhile. */
static mdnn_status_t allocate(program_t *program, size_t i, uint64_t bytes)
{
    mdnn_acquired_t got;
    mdnn_status_t status;
    while ((status = mdnn_ranges_acquire(program->ranges, bytes, 0, &got)) == MDNN_STATUS_BUSY)
        program->now += BEHIND;
    if (status != MDNN_STATUS_OK)
        return status;
    program->address[i] = got.address;
    program->bytes[i] = bytes;
    program->live_bytes += bytes;
    if (program->peak_bytes < program->live_bytes)
        program->peak_bytes = program->live_bytes;
    return status;
}

static void release(program_t *program, size_t i)
{
    const mdnn_stream_point_t point = {0, ++program->now};
    if (program->bytes[i] == 0)
        return;
    assert_int_equal(
        mdnn_ranges_release(program->ranges, program->address[i], MDNN_NO_ORDER, &point, 1),
        MDNN_STATUS_OK);
    program->live_bytes -= program->bytes[i];
    program->bytes[i] = 0;
}

static void end_program(program_t *program)
{
    mdnn_ranges_destroy(program->ranges);
    assert_int_equal(live_allocations, program->allocations);
}

/* A batch of sequences of random length through layers: activations stay until the backward pass,
 * which frees them the last first. Some statistics are kept in each iteration. */
static mdnn_status_t train(program_t *program, int iterations, int layers)
{
    size_t kept = (size_t)layers;
    for (int iteration = 0; iteration < iterations; iteration++) {
        const uint64_t length = 32 + pick(program, 480);
        for (int layer = 0; layer < layers; layer++) {
            const uint64_t width = 1 + (uint64_t)(layer * 37 % 11);
            const mdnn_status_t status = allocate(program, (size_t)layer, length * width * 170 + 4);
            if (status != MDNN_STATUS_OK)
                return status;
            if (layer % 16 == 0 && kept < MOST) {
                const mdnn_status_t other = allocate(program, kept++, 4 + pick(program, 600));
                if (other != MDNN_STATUS_OK)
                    return other;
            }
        }
        for (int layer = layers; layer-- > 0;)
            release(program, (size_t)layer);
    }
    return MDNN_STATUS_OK;
}

/* Blocks of random sizes that live for a random time. */
static mdnn_status_t churn(program_t *program, int steps, uint64_t limit, uint64_t most)
{
    for (int i = 0; i < steps; i++) {
        const size_t at = pick(program, MOST);
        release(program, at);
        const uint64_t bytes = 1 + pick(program, pick(program, 2) ? most : most / 16);
        if (program->live_bytes + bytes > limit)
            continue;
        const mdnn_status_t status = allocate(program, at, bytes);
        if (status != MDNN_STATUS_OK)
            return status;
    }
    return MDNN_STATUS_OK;
}

/* Each phase of another size, and each freed before the next: blocks, and ranges among them. */
CASE(phases_of_any_size_follow_each_other)
{
    static const uint64_t sizes[] = {8 * MIB, 3 * MIB / 2, 300000,  5 * MIB, 47 * MIB,
                                     700000,  64 * MIB,    3 * MIB, 1100000};
    const uint64_t live = 5 * 1024 * MIB;
    program_t *const program = new_program(16 * MIB, live + live / 8, 1);
    for (size_t phase = 0; phase < sizeof sizes / sizeof sizes[0]; phase++) {
        size_t count = 0;
        for (; (count + 1) * sizes[phase] <= live / 10 * 9; count++)
            assert_int_equal(allocate(program, count, sizes[phase]), MDNN_STATUS_OK);
        for (size_t i = 0; i < count; i++)
            release(program, i);
    }
    end_program(program);
}

/* Whatever lengths come: a tenth more than what lives at the peak is enough. */
CASE(variable_lengths_run_in_a_tenth_more)
{
    enum { ITERATIONS = 20, LAYERS = 9000 };
    for (uint64_t seed = 1; seed <= few(1, 3); seed++) {
        program_t *program = new_program(2 * MIB, UINT64_MAX, seed);
        assert_int_equal(train(program, ITERATIONS, LAYERS), MDNN_STATUS_OK);
        const uint64_t peak = program->peak_bytes;
        assert_true(peak > 2000 * MIB);
        end_program(program);
        program = new_program(2 * MIB, peak + peak / 10, seed);
        assert_int_equal(train(program, ITERATIONS, LAYERS), MDNN_STATUS_OK);
        end_program(program);
    }
}

CASE(random_lives_run_in_a_tenth_more)
{
    static const uint64_t chunks[] = {2 * MIB, 16 * MIB, 16 * MIB},
                          most[] = {MIB / 4, MIB / 4, 8 * MIB},
                          needed[] = {1024 * MIB, 1024 * MIB, 8192 * MIB};
    for (int i = 0; i < 3; i++) {
        program_t *const program = new_program(chunks[i], needed[i] + needed[i] / 10, (uint64_t)i);
        assert_int_equal(churn(program, (int)few(30000, 100000), needed[i], most[i]),
                         MDNN_STATUS_OK);
        assert_true(program->peak_bytes > needed[i] / 100 * 99);
        end_program(program);
    }
}

/* An eighth of what is asked for at most, or a granule; and the last slabs need not be full. */
CASE(rounding_wastes_an_eighth_at_most)
{
    for (uint64_t bytes = 1; bytes <= MIB; bytes += bytes / 7 + 1) {
        program_t *const program = new_program(2 * MIB, UINT64_MAX, 1);
        uint64_t total = 0;
        for (size_t i = 0; i < 200; i++, total += bytes)
            assert_int_equal(allocate(program, i, bytes), MDNN_STATUS_OK);
        const uint64_t most = bytes <= 512 ? 200 * 512 : total + total / 8 + 200 * 64;
        assert_true(program->chunks <= most / (2 * MIB) + 1);
        end_program(program);
    }
}

/* Tiny ones that live on among what comes and goes. */
CASE(a_few_that_live_on_hold_few_slabs)
{
    enum { TRANSIENT = 4000, ROUNDS = 8 };
    program_t *const program = new_program(2 * MIB, UINT64_MAX, 7);
    size_t kept = TRANSIENT;
    uint64_t kept_bytes = 0;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < TRANSIENT; i++) {
            assert_int_equal(allocate(program, i, 40000 + pick(program, 900000)), MDNN_STATUS_OK);
            if (i % 10 != 0)
                continue;
            assert_int_equal(allocate(program, kept, 1 + pick(program, 8000)), MDNN_STATUS_OK);
            kept_bytes += program->bytes[kept++];
        }
        for (size_t i = 0; i < TRANSIENT; i++)
            release(program, i);
    }
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(program->ranges);
    assert_true(counts.chunks_slab <= kept_bytes * 11 / 10 / (2 * MIB) + 1);
    assert_int_equal(counts.chunks_free, program->chunks - counts.chunks_slab);
    end_program(program);
}

/* Its chunk is a range's when its work is over, and a slab's again. */
CASE(an_empty_slab_goes_back)
{
    program_t *const program = new_program(2 * MIB, 4 * MIB, 1);
    mdnn_acquired_t got;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6; i++) /* of both kinds */
            assert_int_equal(allocate(program, i, i % 2 ? 100 : 600000), MDNN_STATUS_OK);
        assert_int_equal(mdnn_ranges_counts(program->ranges).chunks_slab, 2);
        assert_int_equal(mdnn_ranges_acquire(program->ranges, 4 * MIB, 0, &got),
                         MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        for (size_t i = 0; i < 6; i++)
            release(program, i);
        assert_int_equal(mdnn_ranges_counts(program->ranges).chunks_slab, 0);
        assert_int_equal(mdnn_ranges_counts(program->ranges).chunks_live, 0);
        assert_int_equal(mdnn_ranges_acquire(program->ranges, 4 * MIB, 0, &got), MDNN_STATUS_BUSY);
        assert_true(got.wait_count > 0);
        assert_int_equal(allocate(program, 0, 4 * MIB), MDNN_STATUS_OK);
        assert_int_equal(mdnn_ranges_counts(program->ranges).steps_slab, 0);
        release(program, 0);
    }
    assert_int_equal(program->chunks, 2);
    end_program(program);
}

/* Work of another stream that is not over orders only those who get its memory. */
CASE(neighbours_wait_for_nobody)
{
    program_t *const program = new_program(2 * MIB, 2 * MIB, 1);
    const mdnn_stream_point_t never = {1, UINT64_MAX / 2};
    mdnn_acquired_t got;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(allocate(program, i, 512 * 1024), MDNN_STATUS_OK);
    assert_int_equal(
        mdnn_ranges_release(program->ranges, program->address[1], MDNN_NO_ORDER, &never, 1),
        MDNN_STATUS_OK);
    release(program, 2);
    assert_int_equal(mdnn_ranges_acquire(program->ranges, 512 * 1024, 0, &got), MDNN_STATUS_OK);
    assert_true(got.address == program->address[2] && got.wait_count == 0);
    assert_int_equal(mdnn_ranges_acquire(program->ranges, 512 * 1024, 0, &got), MDNN_STATUS_BUSY);
    assert_true(got.wait_count == 1 && got.waits[0].stream == 1);
    assert_int_equal(mdnn_ranges_acquire_behind(program->ranges, 512 * 1024, 0, &got),
                     MDNN_STATUS_OK);
    assert_true(got.address == program->address[1] && got.wait_count == 1);
    end_program(program);
}

/* As long as there may be another slab, what others still work on is nobody's. */
CASE(blocks_in_use_elsewhere_are_passed_over)
{
    program_t *const program = new_program(2 * MIB, 4 * MIB, 1);
    const mdnn_stream_point_t never = {1, UINT64_MAX / 2};
    mdnn_acquired_t got;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(allocate(program, i, 512 * 1024), MDNN_STATUS_OK);
        assert_int_equal(
            mdnn_ranges_release(program->ranges, program->address[i], MDNN_NO_ORDER, &never, 1),
            MDNN_STATUS_OK);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(mdnn_ranges_acquire(program->ranges, 512 * 1024, 0, &got), MDNN_STATUS_OK);
        assert_int_equal(got.wait_count, 0);
    }
    assert_int_equal(mdnn_ranges_acquire(program->ranges, 512 * 1024, 0, &got), MDNN_STATUS_BUSY);
    end_program(program);
}

int main(void)
{
    return run_cases("slabs");
}
