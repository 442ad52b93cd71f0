/* For the test of offload/memory/memory.h: a follower that gives random advice, which must be harmless. */
#ifndef MDNN_TEST_RANDOM_FOLLOWER_H
#define MDNN_TEST_RANDOM_FOLLOWER_H

#include "memory_model.h"
#include "offload/follow/follower.h"

enum { FOLLOWER_RANGES = 4096 };

struct mdnn_follower {
    int none;
};

static struct {
    uint64_t random, births;          /* their states */
    unsigned leave, back, join, time; /* 1 in so many; 0: never */
    bool parts;                       /* advice for parts of ranges, too */
    bool follows;                     /* a plan, now and then */
    mdnn_first_use_t first_use;       /* without `follows`, */
    uint64_t plan;                    /* and the plan that is followed then; 0: none */
    bool knows_none;                  /* of the ranges */
    uint64_t birth_bytes;             /* of the one range that is new soon; 0: any are */
    bool small_birth;                 /* before it, a small one is */
    uint64_t aside_bytes;
    uint64_t keep;   /* of each that leaves; bytes */
    uint32_t leaver; /* the only one that leaves, from 1 on in the order of birth; 0: any do */
    void *owners[FOLLOWER_RANGES]; /* NULL: dead */
    uint64_t bytes[FOLLOWER_RANGES];
    uint32_t count;
    uint64_t sequence;
    bool time_advised;
    uint64_t timed, recorded_uses, workspace_bytes;
    mdnn_advised_t leaving[FOLLOWER_RANGES], coming[FOLLOWER_RANGES];
} advisor;

static inline void advise_at_random(model_t *model, uint64_t seed)
{
    memset(&advisor, 0, sizeof advisor);
    advisor.random = advisor.births = seed + 1;
    advisor.leave = (unsigned)pick(model, 3) * (unsigned)pick(model, 5);
    advisor.back = (unsigned)pick(model, 5);
    advisor.join = pick(model, 4) == 0 ? 10 : 0;
    advisor.time = 3;
    advisor.follows = seed % 2 == 0;
}

mdnn_follower_t *mdnn_follower_create(const mdnn_follower_config_t *config)
{
    static struct mdnn_follower follower;
    (void)config;
    return &follower;
}

void mdnn_follower_destroy(mdnn_follower_t *follower)
{
    (void)follower;
}

uint32_t mdnn_follower_begin_range(mdnn_follower_t *follower, uint64_t bytes, bool stays,
                                   void *owner)
{
    (void)follower, (void)stays;
    assert_true(bytes > 0 && owner);
    if (advisor.count == FOLLOWER_RANGES)
        return MDNN_NO_POSITION;
    advisor.owners[advisor.count] = owner;
    advisor.bytes[advisor.count] = bytes;
    return advisor.count++;
}

void mdnn_follower_set_padding(mdnn_follower_t *follower, uint32_t range, uint64_t padding_bytes)
{
    (void)follower;
    assert_true(range == MDNN_NO_POSITION || padding_bytes < advisor.bytes[range]);
}

void mdnn_follower_end_range(mdnn_follower_t *follower, uint32_t range)
{
    (void)follower;
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

void mdnn_follower_record(mdnn_follower_t *follower, const mdnn_history_operation_t *operation,
                          mdnn_advice_t *advice)
{
    (void)follower;
    size_t leave = 0, back = 0;
    for (uint32_t i = 0; i < operation->use_count; i++)
        assert_non_null(advisor.owners[operation->uses[i].range]);
    advisor.recorded_uses += operation->use_count;
    advisor.workspace_bytes = operation->workspace_bytes;
    advisor.sequence++;
    for (uint32_t i = 0; i < advisor.count; i++) {
        const bool may_leave = advisor.leaver == 0 || advisor.leaver == i + 1;
        if (advisor.owners[i] && may_leave && one_in(advisor.leave))
            advisor.leaving[leave++] =
                (mdnn_advised_t){advisor.owners[i], some_of(i, advisor.keep)};
        if (advisor.owners[i] && one_in(advisor.back))
            advisor.coming[back++] =
                (mdnn_advised_t){advisor.owners[i], some_of(i, advisor.bytes[i])};
    }
    *advice = (mdnn_advice_t){
        advisor.leaving, leave, advisor.coming, back, one_in(advisor.join), one_in(advisor.time)};
}

/* Any choice, for any call. */
uint64_t mdnn_follower_workspace(const mdnn_follower_t *follower, uint64_t key)
{
    (void)follower;
    return one_in(2) ? UINT64_MAX : random_next(&advisor.random) % (key + 2);
}

void mdnn_follower_timed(mdnn_follower_t *follower, uint64_t sequence, double time_us)
{
    (void)follower;
    assert_true(sequence < advisor.sequence && time_us > 0);
    advisor.timed++;
}

uint64_t mdnn_follower_sequence(const mdnn_follower_t *follower)
{
    (void)follower;
    return advisor.sequence;
}

void mdnn_follower_short(mdnn_follower_t *follower, uint64_t bytes)
{
    (void)follower;
    assert_true(bytes > 0);
}

uint64_t mdnn_follower_followed_plan(const mdnn_follower_t *follower)
{
    (void)follower;
    return advisor.follows ? random_next(&advisor.random) % 3 : advisor.plan;
}

bool mdnn_follower_knows(const mdnn_follower_t *follower, uint32_t range)
{
    (void)follower, (void)range;
    return !advisor.knows_none;
}

mdnn_first_use_t mdnn_follower_first_use(const mdnn_follower_t *follower, uint64_t bytes)
{
    (void)follower, (void)bytes;
    return advisor.follows ? (mdnn_first_use_t)(random_next(&advisor.random) % 3)
                           : advisor.first_use;
}

size_t mdnn_follower_births(const mdnn_follower_t *follower, uint64_t bytes[MDNN_BIRTHS_AHEAD])
{
    const uint64_t any = random_next(&advisor.births);
    const size_t count = advisor.birth_bytes ? 1
                         : advisor.follows   ? any % (MDNN_BIRTHS_AHEAD + 1)
                                             : 0;
    (void)follower;
    if (advisor.small_birth) {
        bytes[0] = 512;
        bytes[1] = advisor.birth_bytes;
        return 2;
    }
    for (size_t i = 0; i < count; i++)
        bytes[i] = advisor.birth_bytes ? advisor.birth_bytes
                                       : ((any >> (8 + 4 * i)) % 5 + 1) * MODEL_CHUNK;
    return count;
}

void mdnn_follower_set_aside(mdnn_follower_t *follower, uint64_t bytes)
{
    (void)follower;
    advisor.aside_bytes = bytes;
}

void mdnn_follower_iteration_took(mdnn_follower_t *follower, uint64_t plan, double time_us)
{
    (void)follower;
    assert_true(plan == 1 || plan == 2);
    assert_true(time_us >= 0);
}

uint32_t mdnn_follower_distance(const mdnn_follower_t *follower, uint32_t range)
{
    (void)follower;
    assert_true(range == MDNN_NO_POSITION || advisor.owners[range]);
    const uint64_t any = random_next(&advisor.random);
    return any % 3 == 0 ? 0 : any % 3 == 1 ? UINT32_MAX : (uint32_t)(any >> 8) % 100;
}

uint64_t mdnn_follower_planned_bytes(const mdnn_follower_t *follower)
{
    (void)follower;
    return 0;
}

bool mdnn_follower_begins_period(const mdnn_follower_t *follower)
{
    (void)follower;
    return false;
}

mdnn_follower_report_t mdnn_follower_report(const mdnn_follower_t *follower)
{
    (void)follower;
    return (mdnn_follower_report_t){.operations = advisor.sequence};
}

#endif
