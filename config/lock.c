#include "config/lock.h"

#ifdef MDNN_DEBUG

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

_Static_assert(MDNN_LOCK_COUNT <= 64, "a bit each");

#define TAKES(name) ((uint64_t)1 << MDNN_LOCK_##name)
#define NOTHING ((uint64_t)0)
#define ALL_BELOW UINT64_MAX
#define WAITS true
#define SHORT false

/* What a rank's row says; ALL_BELOW has the bits of those further up, too. */
static const struct rank {
    const char *name, *protects;
    uint64_t after;
    bool waits;
} ranks[MDNN_LOCK_COUNT] = {
#define MDNN_LOCK_RANK(name, waits, after, protects) {#name, protects, after, waits},
#include "config/lock_rank.def"
#undef MDNN_LOCK_RANK
};

enum { HELD_MOST = 32 };

/* initial-exec: see shim/real/process.c. */
static _Thread_local struct {
    unsigned count;
    struct {
        const void *lock;
        mdnn_lock_rank_t rank;
    } locks[HELD_MOST];
} held __attribute__((tls_model("initial-exec")));

static _Noreturn void violation(const char *what, mdnn_lock_rank_t rank,
                                mdnn_lock_rank_t while_held)
{
    fprintf(stderr, "microdnn: lock ranks: %s %s (%s) while %s is held (%s)\n", what,
            ranks[rank].name, ranks[rank].protects, ranks[while_held].name,
            ranks[while_held].protects);
    abort();
}

static bool may_follow(mdnn_lock_rank_t rank, mdnn_lock_rank_t before)
{
    return rank > before && (ranks[before].after >> rank & 1);
}

void mdnn_lock_check(const void *lock, mdnn_lock_rank_t rank, bool recursive)
{
    for (unsigned i = 0; i < held.count; i++) {
        if (recursive && held.locks[i].lock == lock)
            return;
        if (!may_follow(rank, held.locks[i].rank))
            violation("taking", rank, held.locks[i].rank);
    }
}

void mdnn_lock_note_taken(const void *lock, mdnn_lock_rank_t rank)
{
    if (held.count == HELD_MOST)
        violation("too many locks:", rank, held.locks[HELD_MOST - 1].rank);
    held.locks[held.count].lock = lock;
    held.locks[held.count++].rank = rank;
}

void mdnn_lock_note_released(const void *lock, mdnn_lock_rank_t rank)
{
    unsigned i = held.count;
    while (i > 0 && held.locks[i - 1].lock != lock)
        i--;
    if (i == 0) {
        fprintf(stderr, "microdnn: lock ranks: %s is released by a thread that does not hold it\n",
                ranks[rank].name);
        abort();
    }
    for (; i < held.count; i++)
        held.locks[i - 1] = held.locks[i];
    held.count--;
}

void mdnn_lock_check_wait(const void *but)
{
    for (unsigned i = 0; i < held.count; i++)
        if (held.locks[i].lock != but && !ranks[held.locks[i].rank].waits) {
            fprintf(stderr, "microdnn: lock ranks: a wait while %s is held (%s)\n",
                    ranks[held.locks[i].rank].name, ranks[held.locks[i].rank].protects);
            abort();
        }
}

#else

/* ISO C wants something in each file. */
typedef mdnn_lock_t mdnn_lock_without_check_t;

#endif
