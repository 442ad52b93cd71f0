/* Ranks of locks, as debug builds check them, whatever this build is. Each violation happens in a child
 * and ends that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MDNN_DEBUG
#define MDNN_DEBUG
#endif
#include "config/lock.c"
#include "test/unit/cases.h"
#include "test/unit/death_of.h"

static mdnn_lock_t slot = MDNN_LOCK_INIT(ARENA_SLOT);
static mdnn_lock_t device = MDNN_LOCK_INIT(DEVICE);
static mdnn_lock_t other_device = MDNN_LOCK_INIT(DEVICE);
static mdnn_lock_t timelines = MDNN_LOCK_INIT(TIMELINES);
static mdnn_lock_t table = MDNN_LOCK_INIT(SHADOWS);
static mdnn_lock_t recursive = MDNN_LOCK_INIT_RECURSIVE(DATABASE);
static mdnn_shared_lock_t arena;
static mdnn_condition_t condition;

static void take_in_order(void)
{
    mdnn_lock_to_read(&arena);
    mdnn_lock(&slot);
    mdnn_lock(&device);
    mdnn_lock(&timelines);
    mdnn_unlock(&timelines);
    mdnn_lock(&timelines);
    mdnn_unlock(&device); /* in any order */
    mdnn_unlock(&timelines);
    mdnn_unlock(&slot);
    mdnn_unlock_shared(&arena);
    mdnn_lock(&slot);
    mdnn_lock(&table);
    mdnn_unlock(&table);
    mdnn_unlock(&slot);
}

static void take_upwards(void)
{
    mdnn_lock(&timelines);
    mdnn_lock(&device);
}

static void take_two_of_a_rank(void)
{
    mdnn_lock(&device);
    mdnn_lock(&other_device);
}

static void take_twice(void)
{
    mdnn_lock(&device);
    mdnn_lock(&device);
}

/* SHADOWS is further up than DEVICE, but its row names nothing. */
static void take_what_no_row_names(void)
{
    mdnn_lock(&table);
    mdnn_lock(&device);
}

static void read_twice(void)
{
    mdnn_lock_to_read(&arena);
    mdnn_lock_to_read(&arena);
}

static void release_what_is_not_held(void)
{
    mdnn_unlock(&device);
}

static void wait_locked(void)
{
    mdnn_lock(&device);
    mdnn_lock_may_wait();
}

static void wait_for_condition_locked(void)
{
    const struct timespec past = {0};
    mdnn_lock(&device);
    mdnn_lock(&timelines);
    (void)mdnn_condition_wait_until(&condition, &timelines, &past);
}

CASE(test_order_is_free)
{
    assert_string_equal(death_of(take_in_order), "");
}

CASE(test_violations_end_the_process)
{
    assert_non_null(strstr(death_of(take_upwards),
                           "taking DEVICE (all that the mechanism knows of one "
                           "device) while TIMELINES is held"));
    assert_non_null(strstr(death_of(take_two_of_a_rank), "taking DEVICE"));
    assert_non_null(strstr(death_of(take_twice), "taking DEVICE"));
    assert_non_null(strstr(death_of(take_what_no_row_names), "while SHADOWS is held"));
    assert_non_null(strstr(death_of(read_twice), "taking ARENA"));
    assert_non_null(strstr(death_of(release_what_is_not_held), "does not hold it"));
}

CASE(test_nobody_waits_with_a_short_lock)
{
    assert_non_null(strstr(death_of(wait_locked), "a wait while DEVICE is held"));
    assert_non_null(strstr(death_of(wait_for_condition_locked), "a wait while DEVICE is held"));
}

/* Not wrong: what does not wait blocks nobody; the recursive one; a wait that lets its lock go. */
CASE(test_what_is_allowed)
{
    const struct timespec past = {0};
    mdnn_lock(&timelines);
    assert_true(mdnn_trylock(&device));
    mdnn_unlock(&device);
    mdnn_unlock(&timelines);
    assert_true(mdnn_timedlock(&recursive, &past));
    assert_true(mdnn_timedlock(&recursive, &past));
    mdnn_unlock(&recursive);
    mdnn_unlock(&recursive);
    mdnn_lock(&slot);
    mdnn_lock(&device);
    assert_false(mdnn_condition_wait_until(&condition, &device, &past));
    mdnn_unlock(&device);
    mdnn_lock_may_wait();
    mdnn_unlock(&slot);
}

/* A lock that another thread has is not taken by a try. */
static void *try_device(void *taken)
{
    *(bool *)taken = mdnn_trylock(&device);
    if (*(bool *)taken)
        mdnn_unlock(&device);
    return NULL;
}

CASE(test_locks_lock)
{
    pthread_t thread;
    bool taken = true;
    mdnn_lock(&device);
    assert_int_equal(pthread_create(&thread, NULL, try_device, &taken), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(taken);
    mdnn_unlock(&device);
    assert_int_equal(pthread_create(&thread, NULL, try_device, &taken), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(taken);
}

/* No row names a rank that is further up, so the rows have no circle. */
CASE(test_rows_lead_downwards)
{
    for (unsigned rank = 0; rank < MDNN_LOCK_COUNT; rank++) {
        const uint64_t up_to_it = ((uint64_t)2 << rank) - 1;
        if (ranks[rank].after != ALL_BELOW)
            assert_int_equal(ranks[rank].after & up_to_it, 0);
        assert_true(strlen(ranks[rank].protects) > 0);
    }
}

int main(void)
{
    mdnn_shared_lock_init(&arena, MDNN_LOCK_ARENA);
    mdnn_condition_init(&condition);
    return run_cases("lock");
}
