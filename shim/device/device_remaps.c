#include "shim/device/device_remaps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "config/fault.h"
#include "config/lock.h"
#include "config/own_thread.h"
#include "shim/device/memory_device_internal.h"

enum { REMAPS = 32 }; /* under way at once; a token is a place, from 1 on */

typedef struct change {
    bool open, ending; /* ending: the thread leaves it alone from now on */
    uint64_t number;   /* of its beginning */
    bool map;
    CUdeviceptr address;
    uint64_t chunks[MDNN_REMAP_CHUNKS], count;
    size_t access_count;
    _Atomic uint64_t done;
    _Atomic bool over; /* written last */
    CUresult result;
    uint64_t noted; /* in the device's table of mappings */
} change_t;

struct mdnn_device_remaps {
    mdnn_device_memory_t *memory;
    mdnn_lock_t lock;         /* the changes' beginnings and ends */
    mdnn_lock_t at_work;      /* is held while a mapping is changed, by whichever thread */
    _Atomic unsigned callers; /* that change mappings themselves; the thread lets them go first */
    mdnn_condition_t more;    /* to do */
    change_t changes[REMAPS];
    const change_t *current; /* of which the thread changes a chunk, or has just done so */
    uint64_t begun;
    _Atomic uint64_t thread_chunks, thread_ns; /* changed by the thread, and how long that took */
    bool started;
    _Atomic bool stopping;
    pthread_t thread;
    mdnn_device_remaps_t *next; /* of all that have a thread */
};

static mdnn_device_remaps_t *_Atomic with_thread; /* only grows */
static _Atomic bool all_stop;                     /* the process ends: no thread any more */

/* ---- one chunk ---- */

static CUresult try_mapping(const mdnn_device_memory_t *memory, CUdeviceptr address,
                            CUmemGenericAllocationHandle handle, size_t access_count)
{
    const mdnn_driver_t *const driver = memory->config.driver;
    const uint64_t bytes = memory->config.chunk_bytes;
    CUresult result = driver->cuMemMap(address, bytes, 0, handle, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->cuMemSetAccess(address, bytes, memory->access, access_count);
    if (result != CUDA_SUCCESS)
        (void)driver->cuMemUnmap(address, bytes);
    return result;
}

/* The chunk is there: what the driver lacks is something of its own, and may be there a moment later. Otherwise it would
 * be the program that is refused memory. */
CUresult mdnn_device_map_handle(const mdnn_device_memory_t *memory, CUdeviceptr address,
                                CUmemGenericAllocationHandle handle, size_t access_count)
{
    CUresult result = try_mapping(memory, address, handle, access_count);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !MDNN_FAULT(SHORT_ONCE_IS_REFUSED))
        result = try_mapping(memory, address, handle, access_count);
    return result;
}

static uint64_t index_of(const change_t *change, uint64_t done)
{
    return change->map ? done : change->count - 1 - done;
}

/* at_work is held. */
static void change_one(const mdnn_device_memory_t *memory, change_t *change)
{
    const uint64_t index = index_of(change, atomic_load(&change->done));
    const uint64_t bytes = memory->config.chunk_bytes;
    const CUdeviceptr address = change->address + index * bytes;
    change->result = change->map ? mdnn_device_map_handle(memory, address,
                                                          memory->chunks[change->chunks[index] - 1],
                                                          change->access_count)
                                 : memory->config.driver->cuMemUnmap(address, bytes);
}

/* at_work is held; whoever changed it does not touch it afterwards, since it may then be over and begin anew. */
static void publish(change_t *change)
{
    const uint64_t done = atomic_load(&change->done) + (change->result == CUDA_SUCCESS);
    atomic_store(&change->done, done);
    if (change->result != CUDA_SUCCESS || done == change->count)
        atomic_store(&change->over, true);
}

/* ---- turns ---- */

/* The driver changes one mapping at a time, and threads that ask at once cost each other more than a wait for a turn. A
 * turn takes tens of microseconds, so the wait for one is worth a little spinning. */
void mdnn_device_turn_begin(mdnn_device_remaps_t *remaps)
{
    enum { SPINS = 2000 };
    if (!remaps)
        return;
    atomic_fetch_add(&remaps->callers, 1);
    for (int i = 0; i < SPINS; i++)
        if (mdnn_trylock(&remaps->at_work))
            return;
    mdnn_lock(&remaps->at_work);
}

void mdnn_device_turn_end(mdnn_device_remaps_t *remaps)
{
    if (!remaps)
        return;
    mdnn_unlock(&remaps->at_work);
    atomic_fetch_sub(&remaps->callers, 1);
}

/* ---- the thread ---- */

static void let_callers_go_first(const mdnn_device_remaps_t *remaps)
{
    const struct timespec pause = {0, 10000};
    while (atomic_load(&remaps->callers) > 0)
        (void)nanosleep(&pause, NULL);
}

static change_t *oldest(mdnn_device_remaps_t *remaps)
{
    change_t *found = NULL;
    for (size_t i = 0; i < REMAPS; i++) {
        change_t *const each = &remaps->changes[i];
        if (each->open && !each->ending && !atomic_load(&each->over) &&
            (!found || each->number < found->number))
            found = each;
    }
    return found;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void change_in_thread(mdnn_device_remaps_t *remaps, change_t *change)
{
    const uint64_t begin_ns = now_ns();
    change_one(remaps->memory, change);
    atomic_fetch_add(&remaps->thread_ns, now_ns() - begin_ns);
    atomic_fetch_add(&remaps->thread_chunks, change->result == CUDA_SUCCESS);
    publish(change);
}

/* By default Linux ends a sleep up to 50 us late, which is as long as a change of a mapping takes. */
static void sleep_exactly(void)
{
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

static void *run(void *context)
{
    mdnn_device_remaps_t *const remaps = context;
    const mdnn_device_memory_config_t *const config = &remaps->memory->config;
    sleep_exactly();
    (void)config->driver->cuCtxPushCurrent(config->context); /* the thread has no other */
    mdnn_lock(&remaps->lock);
    while (!remaps->stopping) {
        change_t *const change = oldest(remaps);
        remaps->current = change;
        if (!change) {
            mdnn_condition_wait(&remaps->more, &remaps->lock);
            continue;
        }
        mdnn_lock(&remaps->at_work);
        mdnn_unlock(&remaps->lock);
        change_in_thread(remaps, change);
        mdnn_unlock(&remaps->at_work);
        let_callers_go_first(remaps);
        mdnn_lock(&remaps->lock);
    }
    mdnn_unlock(&remaps->lock);
    return NULL;
}

static void remember(mdnn_device_remaps_t *remaps)
{
    mdnn_device_remaps_t *first = atomic_load(&with_thread);
    do
        remaps->next = first;
    while (!atomic_compare_exchange_weak(&with_thread, &first, remaps));
}

static bool start_thread(mdnn_device_remaps_t *remaps)
{
    const bool started = mdnn_thread_start(&remaps->thread, "microdnn-map", run, remaps);
    if (started)
        remember(remaps);
    if (atomic_load(&all_stop)) /* perhaps before it was in the list */
        remaps->stopping = true;
    return started;
}

static void stop(mdnn_device_remaps_t *remaps)
{
    mdnn_lock(&remaps->lock);
    const bool join = remaps->started && !remaps->stopping;
    remaps->stopping = true;
    mdnn_condition_broadcast(&remaps->more);
    mdnn_unlock(&remaps->lock);
    if (join)
        (void)pthread_join(remaps->thread, NULL);
}

void mdnn_device_remaps_stop_all(void)
{
    atomic_store(&all_stop, true);
    for (mdnn_device_remaps_t *remaps = atomic_load(&with_thread); remaps; remaps = remaps->next)
        stop(remaps);
}

/* ---- the outside ---- */

/* What has been done since the last time. */
static void note(mdnn_device_memory_t *memory, change_t *change)
{
    for (const uint64_t done = atomic_load(&change->done); change->noted < done; change->noted++) {
        const uint64_t index = index_of(change, change->noted);
        memory->mapped[change->chunks[index] - 1] =
            change->map ? change->address + index * memory->config.chunk_bytes : 0;
    }
}

/* Locked. */
static change_t *find_place(mdnn_device_remaps_t *remaps)
{
    for (size_t i = 0; i < REMAPS; i++)
        if (!remaps->changes[i].open)
            return &remaps->changes[i];
    return NULL;
}

static void fill(mdnn_device_remaps_t *remaps, change_t *change, const mdnn_remap_t *remap)
{
    change->map = remap->map;
    change->address = remap->address;
    change->count = remap->count;
    memcpy(change->chunks, remap->chunks, remap->count * sizeof *remap->chunks);
    change->access_count = remaps->memory->access_count;
    change->noted = 0;
    change->result = CUDA_SUCCESS;
    atomic_store(&change->done, 0);
    atomic_store(&change->over, false);
    change->number = ++remaps->begun;
    change->ending = false;
    change->open = true;
}

static mdnn_status_t begin(mdnn_device_remaps_t *remaps, const mdnn_remap_t *remap, uint64_t *token)
{
    if (!remaps->started && !remaps->stopping && !atomic_load(&all_stop))
        remaps->started = start_thread(remaps);
    remaps->stopping = remaps->stopping || !remaps->started; /* it will not be tried again */
    if (remaps->stopping)
        return MDNN_STATUS_UNSUPPORTED;
    change_t *const change = find_place(remaps);
    if (!change)
        return MDNN_STATUS_BUSY;
    fill(remaps, change, remap);
    *token = (uint64_t)(change - remaps->changes) + 1;
    mdnn_condition_signal(&remaps->more);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_device_remap_begin(void *context, const mdnn_remap_t *remap, uint64_t *token)
{
    mdnn_device_remaps_t *const remaps = ((mdnn_device_memory_t *)context)->remaps;
    if (!remaps)
        return MDNN_STATUS_UNSUPPORTED;
    mdnn_lock(&remaps->lock);
    const mdnn_status_t status = begin(remaps, remap, token);
    mdnn_unlock(&remaps->lock);
    return status;
}

/* The thread leaves it alone from now on, after the chunk at which it may be. true: it may be. */
static bool seize(mdnn_device_remaps_t *remaps, change_t *change)
{
    mdnn_lock(&remaps->lock);
    change->ending = true;
    const bool at_it = remaps->current == change || MDNN_FAULT(ENDED_AFTER_OTHERS);
    mdnn_unlock(&remaps->lock);
    return at_it;
}

/* The thread may be at work on another change, and what is over waits for none. */
static void end(mdnn_device_remaps_t *remaps, change_t *change, bool all)
{
    const bool over = atomic_load(&change->over) && !MDNN_FAULT(ENDED_AFTER_OTHERS);
    const bool at_it = !over && seize(remaps, change);
    if (at_it || (all && !over)) {
        mdnn_device_turn_begin(remaps);
        while (all && !atomic_load(&change->over)) {
            change_one(remaps->memory, change);
            publish(change);
        }
        mdnn_device_turn_end(remaps);
    }
    note(remaps->memory, change);
}

/* What the thread has left, whoever looks changes: it is nobody else's. */
uint64_t mdnn_device_remap_done(void *context, uint64_t token, bool *over)
{
    mdnn_device_memory_t *const memory = context;
    change_t *const change = &memory->remaps->changes[token - 1];
    if (atomic_load(&memory->remaps->stopping) && !MDNN_FAULT(EXIT_LEAVES_REMAPS))
        end(memory->remaps, change, true);
    *over = atomic_load(&change->over);
    note(memory, change);
    return change->noted;
}

mdnn_status_t mdnn_device_remap_end(void *context, uint64_t token, bool all, uint64_t *done)
{
    mdnn_device_memory_t *const memory = context;
    mdnn_device_remaps_t *const remaps = memory->remaps;
    change_t *const change = &remaps->changes[token - 1];
    end(remaps, change, all);
    *done = change->noted;
    const CUresult result = change->result;
    mdnn_lock(&remaps->lock);
    change->open = false;
    mdnn_unlock(&remaps->lock);
    return mdnn_failure_note(result);
}

mdnn_background_t mdnn_device_remap_background(void *context)
{
    const mdnn_device_remaps_t *const remaps = ((mdnn_device_memory_t *)context)->remaps;
    if (!remaps)
        return (mdnn_background_t){0};
    return (mdnn_background_t){atomic_load(&remaps->thread_chunks),
                               (double)atomic_load(&remaps->thread_ns) / 1e3};
}

void mdnn_device_remaps_finish(mdnn_device_remaps_t *remaps)
{
    for (size_t i = 0; remaps && i < REMAPS; i++)
        if (remaps->changes[i].open)
            end(remaps, &remaps->changes[i], true);
}

mdnn_status_t mdnn_device_remaps_create(mdnn_device_memory_t *memory, mdnn_device_remaps_t **remaps)
{
    mdnn_device_remaps_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->memory = memory;
    mdnn_lock_init(&made->lock, MDNN_LOCK_REMAPS);
    mdnn_lock_init(&made->at_work, MDNN_LOCK_REMAPPING);
    mdnn_condition_init(&made->more);
    *remaps = made;
    return MDNN_STATUS_OK;
}

/* It stays in the list of those with a thread. */
void mdnn_device_remaps_destroy(mdnn_device_remaps_t *remaps)
{
    if (!remaps)
        return;
    stop(remaps);
    for (size_t i = 0; i < REMAPS; i++)
        if (remaps->changes[i].open)
            note(remaps->memory, &remaps->changes[i]);
    if (!remaps->started)
        free(remaps);
}
