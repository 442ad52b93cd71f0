/* For the test of offload/memory/memory.c: a pilot that gives random advice, which must be harmless. */
#ifndef MDNN_TEST_RANDOM_PILOT_H
#define MDNN_TEST_RANDOM_PILOT_H

#include "memory_model.h"
#include "offload/plan/pilot.h"

enum { PILOT_RANGES = 4096 };

struct mdnn_pilot {
    int none;
};

static struct {
    uint64_t random;
    unsigned leave, back, join, time; /* 1 in so many; 0: never */
    bool parts;                       /* advice for parts of ranges, too */
    bool follows;                     /* a plan, now and then */
    mdnn_first_use_t first_use;       /* without `follows`, */
    uint64_t plan;                    /* and the plan that is followed then; 0: none */
    uint64_t aside_bytes;
    uint64_t keep;              /* of each that leaves; bytes */
    void *owners[PILOT_RANGES]; /* NULL: dead */
    uint64_t bytes[PILOT_RANGES];
    uint32_t count;
    uint64_t sequence;
    bool time_advised;
    uint64_t timed, recorded_uses, workspace_bytes;
    mdnn_advised_t leaving[PILOT_RANGES], coming[PILOT_RANGES];
} advisor;

mdnn_pilot_t *mdnn_pilot_create(const mdnn_pilot_config_t *config)
{
    static struct mdnn_pilot pilot;
    (void)config;
    return &pilot;
}

void mdnn_pilot_destroy(mdnn_pilot_t *pilot)
{
    (void)pilot;
}

uint32_t mdnn_pilot_begin_range(mdnn_pilot_t *pilot, uint64_t bytes, bool stays, void *owner)
{
    (void)pilot, (void)stays;
    assert_true(bytes > 0 && owner);
    if (advisor.count == PILOT_RANGES)
        return MDNN_NO_POSITION;
    advisor.owners[advisor.count] = owner;
    advisor.bytes[advisor.count] = bytes;
    return advisor.count++;
}

void mdnn_pilot_end_range(mdnn_pilot_t *pilot, uint32_t range)
{
    (void)pilot;
    if (range == MDNN_NO_POSITION)
        return;
    assert_non_null(advisor.owners[range]);
    advisor.owners[range] = NULL;
}

static bool one_in(unsigned count)
{
    return count > 0 && random_next(&advisor.random) % count == 0;
}

/* A part of range `i`, or `all` that is usual. */
static uint64_t some_of(uint32_t i, uint64_t all)
{
    return advisor.parts && one_in(2) ? random_next(&advisor.random) % (advisor.bytes[i] + 1) : all;
}

void mdnn_pilot_record(mdnn_pilot_t *pilot, const mdnn_history_operation_t *operation,
                       mdnn_advice_t *advice)
{
    (void)pilot;
    size_t leave = 0, back = 0;
    for (uint32_t i = 0; i < operation->use_count; i++)
        assert_non_null(advisor.owners[operation->uses[i].range]);
    advisor.recorded_uses += operation->use_count;
    advisor.workspace_bytes = operation->workspace_bytes;
    advisor.sequence++;
    for (uint32_t i = 0; i < advisor.count; i++) {
        if (advisor.owners[i] && one_in(advisor.leave))
            advisor.leaving[leave++] =
                (mdnn_advised_t){advisor.owners[i], some_of(i, advisor.keep)};
        if (advisor.owners[i] && one_in(advisor.back))
            advisor.coming[back++] =
                (mdnn_advised_t){advisor.owners[i], some_of(i, advisor.bytes[i])};
    }
    *advice = (mdnn_advice_t){
        advisor.leaving, leave, advisor.coming, back, one_in(advisor.join), one_in(advisor.time)};
}

void mdnn_pilot_timed(mdnn_pilot_t *pilot, uint64_t sequence, double time_us)
{
    (void)pilot;
    assert_true(sequence < advisor.sequence && time_us > 0);
    advisor.timed++;
}

uint64_t mdnn_pilot_sequence(const mdnn_pilot_t *pilot)
{
    (void)pilot;
    return advisor.sequence;
}

void mdnn_pilot_short(mdnn_pilot_t *pilot, uint64_t bytes)
{
    (void)pilot;
    assert_true(bytes > 0);
}

uint64_t mdnn_pilot_followed_plan(const mdnn_pilot_t *pilot)
{
    (void)pilot;
    return advisor.follows ? random_next(&advisor.random) % 3 : advisor.plan;
}

mdnn_first_use_t mdnn_pilot_first_use(const mdnn_pilot_t *pilot, uint64_t bytes)
{
    (void)pilot, (void)bytes;
    return advisor.follows ? (mdnn_first_use_t)(random_next(&advisor.random) % 3)
                           : advisor.first_use;
}

void mdnn_pilot_set_aside(mdnn_pilot_t *pilot, uint64_t bytes)
{
    (void)pilot;
    advisor.aside_bytes = bytes;
}

void mdnn_pilot_round_took(mdnn_pilot_t *pilot, uint64_t plan, double time_us)
{
    (void)pilot;
    assert_true(plan == 1 || plan == 2);
    assert_true(time_us >= 0);
}

uint32_t mdnn_pilot_distance(const mdnn_pilot_t *pilot, uint32_t range)
{
    (void)pilot;
    assert_true(range == MDNN_NO_POSITION || advisor.owners[range]);
    const uint64_t any = random_next(&advisor.random);
    return any % 3 == 0 ? 0 : any % 3 == 1 ? UINT32_MAX : (uint32_t)(any >> 8) % 100;
}

mdnn_pilot_report_t mdnn_pilot_report(const mdnn_pilot_t *pilot)
{
    (void)pilot;
    return (mdnn_pilot_report_t){.operations = advisor.sequence};
}

#endif
