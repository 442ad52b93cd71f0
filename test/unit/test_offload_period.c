/* Periods: lives, gaps and floors against their definitions, and their text. MDNN_TEST_SEED=n
 * repeats the instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/period_text.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/random_period.h"

static random_period_t instance;

static void fill(uint64_t seed)
{
    random_period_fill(&instance, seed, 2 + (uint32_t)(seed % 9), 1 + (uint32_t)(seed % 7));
}

static const mdnn_use_t *use_of(uint32_t position, uint32_t range)
{
    const mdnn_operation_t *const operation = &instance.operations[position];
    for (uint32_t u = 0; u < operation->use_count; u++)
        if (instance.uses[operation->first_use + u].range == range)
            return &instance.uses[operation->first_use + u];
    return NULL;
}

static void check_live(uint64_t seed)
{
    uint64_t live[RANDOM_PERIOD_OPERATIONS], floor_bytes, most = 0;
    const mdnn_period_t *const period = &instance.period;
    fill(seed);
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 0; i < period->operation_count; i++) {
        uint64_t bytes = 0, needed = 0, least = UINT64_MAX;
        for (uint32_t r = 0; r < period->range_count; r++) {
            const bool lives = mdnn_range_lives_at(&period->ranges[r], i);
            bytes += lives ? period->ranges[r].bytes : 0;
            needed +=
                lives && (period->ranges[r].stays || use_of(i, r)) ? period->ranges[r].bytes : 0;
        }
        for (uint32_t v = 0; v < period->operations[i].variant_count; v++) {
            const uint64_t workspace =
                period->variants[period->operations[i].first_variant + v].workspace_bytes;
            least = workspace < least ? workspace : least;
        }
        CHECK(live[i] == bytes);
        most = needed + least > most ? needed + least : most;
    }
    CHECK(mdnn_period_floor(period, &floor_bytes) == MDNN_STATUS_OK);
    CHECK(floor_bytes == most);
}

CASE(live_bytes_and_floor_are_what_they_are_called)
{
    each_seed(check_live, 5000);
}

/* By walking: from a use at `from` on, up to the next use or the death. */
static bool oracle_gap(uint32_t range, int32_t from, mdnn_gap_t *gap)
{
    const int32_t count = (int32_t)instance.period.operation_count;
    const mdnn_period_range_t *const life = &instance.ranges[range];
    const bool permanent = mdnn_range_is_permanent(life);
    *gap = (mdnn_gap_t){.range = range, .from = from, .to = from};
    for (gap->to++;; gap->to++) {
        if (!permanent && (uint32_t)((gap->to - 1) % count) == life->death) {
            gap->one_way = true;
            break;
        }
        if (use_of((uint32_t)(gap->to % count), range))
            break;
    }
    return gap->to > from + 1;
}

static void check_gaps(uint64_t seed)
{
    mdnn_gap_t *gaps, expected;
    size_t count, seen = 0;
    fill(seed);
    CHECK(mdnn_period_check(&instance.period) == MDNN_STATUS_OK);
    CHECK(mdnn_period_gaps(&instance.period, &gaps, &count) == MDNN_STATUS_OK);
    for (uint32_t r = 0; r < instance.period.range_count; r++) {
        bool used = false;
        if (instance.ranges[r].stays || instance.ranges[r].bytes == 0)
            continue;
        for (int32_t from = 0; from < (int32_t)instance.period.operation_count; from++) {
            if (!use_of((uint32_t)from, r))
                continue;
            used = true;
            if (!oracle_gap(r, from, &expected))
                continue;
            bool found = false;
            for (size_t g = 0; g < count; g++)
                found |= gaps[g].range == r && gaps[g].from == from && gaps[g].to == expected.to &&
                         gaps[g].one_way == expected.one_way;
            CHECK(found);
            seen++;
        }
        seen += !used; /* permanent and never used */
    }
    CHECK(seen == count);
    free(gaps);
}

CASE(gaps_are_the_stretches_without_use)
{
    each_seed(check_gaps, 5000);
}

static void check_text(uint64_t seed)
{
    mdnn_text_t written = {0}, again = {0};
    size_t line;
    mdnn_period_t read;
    fill(seed);
    CHECK(mdnn_period_write(&instance.period, &written) == MDNN_STATUS_OK);
    char *const text = written.bytes;
    const size_t bytes = written.used;
    CHECK(mdnn_period_read(text, bytes, &read, &line) == MDNN_STATUS_OK);
    CHECK(mdnn_period_write(&read, &again) == MDNN_STATUS_OK);
    CHECK(bytes == again.used && memcmp(text, again.bytes, bytes) == 0);
    CHECK(read.range_count == instance.period.range_count);
    CHECK(memcmp(read.uses, instance.uses, read.use_count * sizeof *read.uses) == 0);
    mdnn_period_fini(&read);
    /* Every beginning is refused, and so is a text with one byte changed to what fits nowhere. */
    for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 40)
        CHECK(mdnn_period_read(text, cut, &read, &line) == MDNN_STATUS_BAD_FORMAT);
    for (size_t at = 0; at < bytes; at += 1 + bytes / 40) {
        const char kept = text[at];
        text[at] = '#';
        CHECK(mdnn_period_read(text, bytes, &read, &line) == MDNN_STATUS_BAD_FORMAT);
        text[at] = kept;
    }
    free(text);
    free(again.bytes);
}

CASE(text_comes_back_and_broken_text_does_not)
{
    each_seed(check_text, 300);
}

CASE(faults_in_a_text_are_named_by_line)
{
    static const char text[] = "microdnn-period 1\nranges 1\nrange 8 0 0\noperations 1\n"
                               "operation forward 0 1f 1 1\nuse 0 red\nvariant 1.5 0\nend\n";
    mdnn_period_t period;
    size_t line = 0;
    assert_int_equal(mdnn_period_read(text, sizeof text - 1, &period, &line),
                     MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(line, 6);
    static const char huge[] = "microdnn-period 1\nranges 4000000000\n";
    assert_int_equal(mdnn_period_read(huge, sizeof huge - 1, &period, NULL),
                     MDNN_STATUS_BAD_FORMAT);
}

CASE(periods_without_sense_are_refused)
{
    random_period_training(&instance, 1, 3);
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    instance.uses[1].range = instance.uses[0].range; /* twice in an operation */
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_INVALID_ARGUMENT);
    random_period_training(&instance, 1, 3);
    instance.uses[2].range = instance.period.range_count;
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_INVALID_ARGUMENT);
    random_period_training(&instance, 1, 3);
    instance.ranges[instance.uses[0].range].death = 0; /* used when it is dead */
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_INVALID_ARGUMENT);
    random_period_training(&instance, 1, 3);
    instance.variants[0].time_us = -1;
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_INVALID_ARGUMENT);
    random_period_training(&instance, 1, 3);
    instance.ranges[0].bytes = (uint64_t)1 << 63;
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OVERFLOW);
    random_period_training(&instance, 1, 3);
    instance.ranges[0].birth = 0; /* and no death */
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_INVALID_ARGUMENT);
}

int main(void)
{
    return run_cases("offload_period");
}
