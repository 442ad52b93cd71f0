/* Periods whose ranges are cut into parts, and what the order of parts does to a plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/parts.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/few.h"
#include "test/unit/random_period.h"

enum { SEEDS = 1000, CHUNK = 2 };

static random_period_t instance;
static unsigned more, moved; /* periods that were cut, and of which something moved */

/* Programs and training in turns, in chunks. */
static void fill(uint64_t seed)
{
    if (seed % 2)
        random_period_fill(&instance, seed, 8 + (uint32_t)(seed % 9), 3 + (uint32_t)(seed % 11));
    else
        random_period_training(&instance, seed, 2 + (uint32_t)(seed % 6));
    for (uint32_t r = 0; r < instance.period.range_count; r++)
        instance.ranges[r].bytes *= CHUNK;
}

static mdnn_parts_t cut(uint64_t part_bytes)
{
    mdnn_parts_t parts;
    CHECK(mdnn_parts_cut(&instance.period, CHUNK, part_bytes, &parts) == MDNN_STATUS_OK);
    CHECK(mdnn_period_check(&parts.period) == MDNN_STATUS_OK);
    return parts;
}

static bool is_used(uint32_t range)
{
    for (uint32_t u = 0; u < instance.period.use_count; u++)
        if (instance.uses[u].range == range)
            return true;
    return false;
}

/* The parts of range `r` begin at `part`. Returns the first that is none of them. */
static uint32_t check_range(const mdnn_parts_t *parts, uint32_t r, uint32_t part,
                            uint64_t part_bytes)
{
    const mdnn_period_range_t *const whole = &instance.ranges[r];
    const uint32_t first = part;
    uint64_t begin = 0;
    for (; part < parts->period.range_count && parts->whole[part] == r; part++) {
        const mdnn_period_range_t *const range = &parts->period.ranges[part];
        CHECK(range->birth == whole->birth && range->death == whole->death);
        CHECK(range->stays == whole->stays && parts->begin[part] == begin);
        if (part > first) {
            const uint64_t bytes_before = parts->period.ranges[part - 1].bytes;
            CHECK(range->bytes >= part_bytes && bytes_before >= part_bytes);
            CHECK(range->bytes >= bytes_before && range->bytes <= bytes_before + CHUNK);
            CHECK(begin % CHUNK == 0 && !whole->stays && is_used(r));
        }
        begin += range->bytes;
    }
    CHECK(begin == whole->bytes && part > first);
    CHECK(part - first <= 16 &&
          (part - first > 1 || whole->stays || !is_used(r) || whole->bytes < 2 * part_bytes));
    return part;
}

static void check_parts(uint64_t seed)
{
    uint64_t live[RANDOM_PERIOD_OPERATIONS], live_parts[RANDOM_PERIOD_OPERATIONS];
    fill(seed);
    const uint64_t part_bytes = CHUNK * (1 + seed % 3);
    uint64_t floor_bytes, floor_parts;
    mdnn_parts_t parts = cut(part_bytes);
    uint32_t part = 0;
    for (uint32_t r = 0; r < instance.period.range_count; r++)
        part = check_range(&parts, r, part, part_bytes);
    CHECK(part == parts.period.range_count);
    mdnn_period_live_bytes(&instance.period, live);
    mdnn_period_live_bytes(&parts.period, live_parts);
    CHECK(memcmp(live, live_parts, instance.period.operation_count * sizeof *live) == 0);
    CHECK(mdnn_period_floor(&instance.period, &floor_bytes) == MDNN_STATUS_OK &&
          mdnn_period_floor(&parts.period, &floor_parts) == MDNN_STATUS_OK);
    CHECK(floor_bytes == floor_parts);
    more += part > instance.period.range_count;
    mdnn_parts_fini(&parts);
}

CASE(parts_are_the_range_cut_at_chunks)
{
    more = 0;
    each_seed(check_parts, few(SEEDS / 5, SEEDS));
    assert_true(more > few(SEEDS / 10, SEEDS / 2) || getenv("MDNN_TEST_SEED"));
}

CASE(ranges_stay_whole_on_request)
{
    fill(2);
    mdnn_parts_t parts = cut(UINT64_MAX);
    const mdnn_period_t *const made = &parts.period, *const period = &instance.period;
    assert_int_equal(made->range_count, period->range_count);
    assert_int_equal(made->use_count, period->use_count);
    assert_memory_equal(made->ranges, period->ranges, made->range_count * sizeof *made->ranges);
    assert_memory_equal(made->uses, period->uses, made->use_count * sizeof *made->uses);
    mdnn_parts_fini(&parts);
}

/* Whether a part of the same range leaves in the same gap, further behind or before. */
static void check_order(const mdnn_parts_t *parts, const mdnn_schedule_t *schedule, size_t m)
{
    const mdnn_move_t *const move = &schedule->moves[m];
    bool is_last = move->range + 1 == parts->period.range_count ||
                   parts->whole[move->range + 1] != parts->whole[move->range];
    for (size_t i = 0; i < schedule->move_count; i++) {
        const mdnn_move_t *const other = &schedule->moves[i];
        if (parts->whole[other->range] != parts->whole[move->range] ||
            other->leave_after != move->leave_after || other->return_before != move->return_before)
            continue;
        is_last |= other->range == move->range + 1;
        CHECK(other->range <= move->range || other->return_after >= move->return_after);
    }
    CHECK(is_last);
}

static void check_moves(uint64_t seed)
{
    uint64_t before[RANDOM_PERIOD_OPERATIONS], after[RANDOM_PERIOD_OPERATIONS];
    uint64_t floor_bytes;
    fill(seed);
    mdnn_parts_t parts = cut(CHUNK);
    CHECK(mdnn_period_floor(&parts.period, &floor_bytes) == MDNN_STATUS_OK);
    const mdnn_move_plan_request_t request = {.period = &parts.period,
                                              .policy = MDNN_POLICY_AUTO,
                                              .variants = MDNN_VARIANTS_FASTEST,
                                              .link = random_period_link(&instance),
                                              .budget_bytes = floor_bytes + seed % 7,
                                              .host_limit_bytes = UINT64_MAX,
                                              .effort = 20};
    mdnn_move_plan_t plan;
    CHECK(mdnn_move_plan(&request, &plan) == MDNN_STATUS_OK);
    mdnn_schedule_resident_bytes(&parts.period, &plan.schedule, before);
    CHECK(mdnn_parts_order(&parts, &plan.schedule) == MDNN_STATUS_OK);
    CHECK(mdnn_schedule_check(&parts.period, &plan.schedule) == MDNN_STATUS_OK);
    mdnn_schedule_resident_bytes(&parts.period, &plan.schedule, after);
    for (uint32_t i = 0; i < parts.period.operation_count; i++)
        CHECK(after[i] <= before[i]);
    for (size_t m = 0; m < plan.schedule.move_count; m++)
        check_order(&parts, &plan.schedule, m);
    moved += plan.schedule.move_count > 0;
    mdnn_move_plan_fini(&plan);
    mdnn_parts_fini(&parts);
}

CASE(last_parts_leave_and_come_back_last)
{
    moved = 0;
    each_seed(check_moves, few(SEEDS / 5, SEEDS));
    assert_true(moved > few(SEEDS / 10, SEEDS / 2) || getenv("MDNN_TEST_SEED"));
}

CASE(an_empty_period_has_no_parts)
{
    const mdnn_period_t empty = {0};
    mdnn_parts_t parts;
    assert_int_equal(mdnn_parts_cut(&empty, CHUNK, CHUNK, &parts), MDNN_STATUS_OK);
    assert_int_equal(parts.period.range_count, 0);
    mdnn_parts_fini(&parts);
    mdnn_parts_fini(&parts);
}

int main(void)
{
    return run_cases("parts");
}
