/* Locks with a rank (config/lock_rank.def). No other file uses a pthread mutex. If MDNN_DEBUG is defined, taking a lock
 * compares its rank with those of the locks that the thread holds already, and a violation ends the process with one
 * line on stderr and SIGABRT; otherwise a lock is a mutex and nothing more.
 *
 * Any thread may use a lock, but no signal handler. The thread that took a lock releases it. */
#ifndef MDNN_LOCK_H
#define MDNN_LOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

typedef enum mdnn_lock_rank {
#define MDNN_LOCK_RANK(name, waits, after, protects) MDNN_LOCK_##name,
#include "config/lock_rank.def"
#undef MDNN_LOCK_RANK
    MDNN_LOCK_COUNT
} mdnn_lock_rank_t;

typedef struct mdnn_lock {
    pthread_mutex_t mutex;
#ifdef MDNN_DEBUG
    mdnn_lock_rank_t rank;
    bool recursive;
#endif
} mdnn_lock_t;

/* Many threads may read at once. New readers wait behind a waiting writer, so a thread that reads must not take the
 * lock for reading again. */
typedef struct mdnn_shared_lock {
    pthread_rwlock_t lock;
#ifdef MDNN_DEBUG
    mdnn_lock_rank_t rank;
#endif
} mdnn_shared_lock_t;

/* The limits of waits for a condition are times of CLOCK_MONOTONIC. */
typedef struct mdnn_condition {
    pthread_cond_t condition;
} mdnn_condition_t;

#ifdef MDNN_DEBUG

#define MDNN_LOCK_INIT(rank_name)                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, MDNN_LOCK_##rank_name, false                                    \
    }
#define MDNN_LOCK_INIT_RECURSIVE(rank_name)                                                        \
    {                                                                                              \
        PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP, MDNN_LOCK_##rank_name, true                        \
    }

/* Aborts if the thread may not take a lock of this rank now. `recursive`: it may take the lock again if it already
 * holds this very lock. */
void mdnn_lock_check(const void *lock, mdnn_lock_rank_t rank, bool recursive);
void mdnn_lock_note_taken(const void *lock, mdnn_lock_rank_t rank);
void mdnn_lock_note_released(const void *lock, mdnn_lock_rank_t rank);
/* Aborts if the thread holds a lock whose holder must not wait. `but` is a lock that is released
 * during the wait, or NULL. */
void mdnn_lock_check_wait(const void *but);

#else

#define MDNN_LOCK_INIT(rank_name)                                                                  \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER                                                                  \
    }
#define MDNN_LOCK_INIT_RECURSIVE(rank_name)                                                        \
    {                                                                                              \
        PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP                                                     \
    }
#define mdnn_lock_check(lock, rank, recursive) ((void)0)
#define mdnn_lock_note_taken(lock, rank) ((void)0)
#define mdnn_lock_note_released(lock, rank) ((void)0)
#define mdnn_lock_check_wait(but) ((void)0)
_Static_assert(sizeof(mdnn_lock_t) == sizeof(pthread_mutex_t), "a lock is its mutex");

#endif

/* Called before a call that may wait for the device: checks that the thread holds no lock that
 * forbids it. */
static inline void mdnn_lock_may_wait(void)
{
    mdnn_lock_check_wait(NULL);
}

static inline void mdnn_lock_init(mdnn_lock_t *lock, mdnn_lock_rank_t rank)
{
    (void)pthread_mutex_init(&lock->mutex, NULL);
#ifdef MDNN_DEBUG
    lock->rank = rank;
    lock->recursive = false;
#else
    (void)rank;
#endif
}

static inline void mdnn_lock_destroy(mdnn_lock_t *lock)
{
    (void)pthread_mutex_destroy(&lock->mutex);
}

static inline void mdnn_lock(mdnn_lock_t *lock)
{
    mdnn_lock_check(lock, lock->rank, lock->recursive);
    (void)pthread_mutex_lock(&lock->mutex);
    mdnn_lock_note_taken(lock, lock->rank);
}

static inline void mdnn_unlock(mdnn_lock_t *lock)
{
    mdnn_lock_note_released(lock, lock->rank);
    (void)pthread_mutex_unlock(&lock->mutex);
}

/* false: another thread holds the lock. The order of locks does not matter here, since nobody waits. */
static inline bool mdnn_trylock(mdnn_lock_t *lock)
{
    const bool taken = pthread_mutex_trylock(&lock->mutex) == 0;
    if (taken)
        mdnn_lock_note_taken(lock, lock->rank);
    return taken;
}

/* false: the lock was not free by `limit`, a time of CLOCK_REALTIME. */
static inline bool mdnn_timedlock(mdnn_lock_t *lock, const struct timespec *limit)
{
    mdnn_lock_check(lock, lock->rank, lock->recursive);
    const bool taken = pthread_mutex_timedlock(&lock->mutex, limit) == 0;
    if (taken)
        mdnn_lock_note_taken(lock, lock->rank);
    return taken;
}

static inline void mdnn_shared_lock_init(mdnn_shared_lock_t *lock, mdnn_lock_rank_t rank)
{
    pthread_rwlockattr_t attributes;
    (void)pthread_rwlockattr_init(&attributes);
    (void)pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    (void)pthread_rwlock_init(&lock->lock, &attributes);
    (void)pthread_rwlockattr_destroy(&attributes);
#ifdef MDNN_DEBUG
    lock->rank = rank;
#else
    (void)rank;
#endif
}

static inline void mdnn_lock_to_read(mdnn_shared_lock_t *lock)
{
    mdnn_lock_check(lock, lock->rank, false);
    (void)pthread_rwlock_rdlock(&lock->lock);
    mdnn_lock_note_taken(lock, lock->rank);
}

static inline void mdnn_lock_to_write(mdnn_shared_lock_t *lock)
{
    mdnn_lock_check(lock, lock->rank, false);
    (void)pthread_rwlock_wrlock(&lock->lock);
    mdnn_lock_note_taken(lock, lock->rank);
}

static inline void mdnn_unlock_shared(mdnn_shared_lock_t *lock)
{
    mdnn_lock_note_released(lock, lock->rank);
    (void)pthread_rwlock_unlock(&lock->lock);
}

/* For waits without a limit. */
#define MDNN_CONDITION_INIT                                                                        \
    {                                                                                              \
        PTHREAD_COND_INITIALIZER                                                                   \
    }

static inline void mdnn_condition_init(mdnn_condition_t *condition)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&condition->condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

/* Releases `lock` during the wait, and no other lock. The wait may end without a signal. */
static inline void mdnn_condition_wait(mdnn_condition_t *condition, mdnn_lock_t *lock)
{
    mdnn_lock_check_wait(lock);
    mdnn_lock_note_released(lock, lock->rank);
    (void)pthread_cond_wait(&condition->condition, &lock->mutex);
    mdnn_lock_note_taken(lock, lock->rank);
}

/* false: it is later than `limit`. */
static inline bool mdnn_condition_wait_until(mdnn_condition_t *condition, mdnn_lock_t *lock,
                                             const struct timespec *limit)
{
    mdnn_lock_check_wait(lock);
    mdnn_lock_note_released(lock, lock->rank);
    const bool in_time = pthread_cond_timedwait(&condition->condition, &lock->mutex, limit) == 0;
    mdnn_lock_note_taken(lock, lock->rank);
    return in_time;
}

static inline void mdnn_condition_signal(mdnn_condition_t *condition)
{
    (void)pthread_cond_signal(&condition->condition);
}

static inline void mdnn_condition_broadcast(mdnn_condition_t *condition)
{
    (void)pthread_cond_broadcast(&condition->condition);
}

#endif
