#include "shim/device/pinned_pool_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "config/extremes.h"
#include "config/fault.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/own_thread.h"

static const uint64_t piece_bytes_wanted = (uint64_t)64 << 20;

static mdnn_pinned_pool_t *_Atomic with_thread; /* only grows */
static _Atomic bool all_stop;                   /* the process ends: no thread any more */

/* ---- the account ---- */

static bool has_room(const mdnn_pinned_pool_t *slots)
{
    const mdnn_host_account_t *const account = slots->config.account;
    return atomic_load(&account->made_bytes) + slots->piece_bytes <= account->limit_bytes &&
           (!account->registry ||
            mdnn_node_registry_has_room(account->registry, slots->piece_bytes));
}

static void give_back(mdnn_pinned_pool_t *slots, uint64_t bytes)
{
    mdnn_host_account_t *const account = slots->config.account;
    if (account->registry)
        mdnn_node_registry_give(account->registry, bytes);
    (void)atomic_fetch_sub(&account->made_bytes, bytes);
}

static bool take_from_account(mdnn_pinned_pool_t *slots)
{
    mdnn_host_account_t *const account = slots->config.account;
    const uint64_t bytes = slots->piece_bytes;
    if (atomic_fetch_add(&account->made_bytes, bytes) + bytes <= account->limit_bytes &&
        (!account->registry || mdnn_node_registry_take(account->registry, bytes)))
        return true;
    (void)atomic_fetch_sub(&account->made_bytes, bytes);
    return false;
}

/* ---- making pieces ---- */

static bool make_room(mdnn_pinned_pool_t *slots, size_t more)
{
    const size_t all = (size_t)(slots->made_bytes / slots->config.slot_bytes) + more;
    if (all <= slots->free_capacity)
        return true;
    uint64_t *const grown = realloc(slots->free_slots, 2 * all * sizeof *grown);
    if (!grown)
        return false;
    slots->free_slots = grown;
    slots->free_capacity = 2 * all;
    return true;
}

static bool remember_piece(mdnn_pinned_pool_t *slots, uint64_t start)
{
    const size_t count = (size_t)(slots->made_bytes / slots->piece_bytes);
    uint64_t *const grown = realloc(slots->pieces, (count + 1) * sizeof *grown);
    if (!grown)
        return false;
    slots->pieces = grown;
    grown[count] = start;
    return true;
}

/* Locked at the beginning and the end; nobody else is making one. */
static void make_piece(mdnn_pinned_pool_t *slots)
{
    const size_t count = (size_t)(slots->piece_bytes / slots->config.slot_bytes);
    const uint64_t offset = slots->made_bytes;
    uint64_t start = 0;
    if (!take_from_account(slots))
        return;
    slots->making = true;
    mdnn_unlock(&slots->lock);
    const CUresult result = mdnn_pinned_create_piece(slots, offset, &start);
    mdnn_lock(&slots->lock);
    slots->making = false;
    if (result == CUDA_SUCCESS && make_room(slots, count) && remember_piece(slots, start)) {
        for (size_t i = count; i-- > 0;)
            slots->free_slots[slots->free_count++] = start + i * slots->config.slot_bytes;
        slots->made_bytes += slots->piece_bytes;
        slots->failed = false;
        return;
    }
    if (result == CUDA_SUCCESS)
        mdnn_pinned_destroy_piece(slots, start);
    give_back(slots, slots->piece_bytes);
    slots->exhausted = slots->failed;
    slots->failed = true;
    slots->error = result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    if (slots->exhausted && !slots->config.is_trial && result != CUDA_ERROR_DEINITIALIZED)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "no more than %llu MiB of pinned host memory are available (CUDA error %d)",
                      (unsigned long long)(slots->made_bytes >> 20), (int)result);
}

static bool can_grow(const mdnn_pinned_pool_t *slots)
{
    const bool ended = slots->stopping && MDNN_FAULT(EXIT_MAKES_NO_PIECES);
    return !slots->exhausted && !ended &&
           slots->made_bytes + slots->piece_bytes <= slots->window_bytes && has_room(slots);
}

/* There will be more without anybody's giving a slot back. */
static bool will_have_more(const mdnn_pinned_pool_t *slots)
{
    return slots->making || can_grow(slots);
}

/* ---- the thread ---- */

static void *run(void *context)
{
    mdnn_pinned_pool_t *const slots = context;
    mdnn_lock(&slots->lock);
    while (!slots->stopping) {
        if (can_grow(slots) && slots->made_bytes < slots->wanted_bytes) {
            make_piece(slots);
            mdnn_condition_broadcast(&slots->made_more);
            continue;
        }
        mdnn_condition_broadcast(&slots->made_more); /* others may have taken all there is */
        mdnn_condition_wait(&slots->wanted_more, &slots->lock);
    }
    mdnn_unlock(&slots->lock);
    return NULL;
}

static void remember(mdnn_pinned_pool_t *slots)
{
    mdnn_pinned_pool_t *first = atomic_load(&with_thread);
    do
        slots->next = first;
    while (!atomic_compare_exchange_weak(&with_thread, &first, slots));
}

/* Locked. */
static bool start_thread(mdnn_pinned_pool_t *slots)
{
    if (atomic_load(&all_stop))
        return false;
    const bool started = mdnn_thread_start(&slots->thread, "microdnn-host", run, slots);
    if (started)
        remember(slots);
    if (atomic_load(&all_stop)) /* perhaps before it was in the list */
        slots->stopping = true;
    return started;
}

/* Locked. Without a thread (simulated, none could be started, or it has ended) callers make pieces themselves. */
static bool has_thread(const mdnn_pinned_pool_t *slots)
{
    return slots->config.background && (!slots->stopping || MDNN_FAULT(EXIT_MAKES_NO_PIECES));
}

static void stop(mdnn_pinned_pool_t *slots)
{
    mdnn_lock(&slots->lock);
    const bool join = slots->started && !slots->stopping;
    slots->stopping = true;
    mdnn_condition_broadcast(&slots->wanted_more);
    mdnn_condition_broadcast(&slots->made_more);
    mdnn_unlock(&slots->lock);
    if (join)
        (void)pthread_join(slots->thread, NULL);
}

void mdnn_pinned_pool_stop_all(void)
{
    atomic_store(&all_stop, true);
    for (mdnn_pinned_pool_t *slots = atomic_load(&with_thread); slots; slots = slots->next)
        stop(slots);
}

/* Locked. */
static void have_made(mdnn_pinned_pool_t *slots, uint64_t bytes)
{
    if (bytes > slots->window_bytes)
        bytes = slots->window_bytes;
    if (bytes > slots->wanted_bytes)
        slots->wanted_bytes = bytes;
    if (has_thread(slots) && !slots->started)
        slots->config.background = slots->started = start_thread(slots);
    if (has_thread(slots))
        mdnn_condition_signal(&slots->wanted_more);
}

/* ---- the outside ---- */

mdnn_status_t mdnn_pinned_pool_create(const mdnn_pinned_pool_config_t *config,
                                      mdnn_pinned_pool_t **slots)
{
    mdnn_pinned_pool_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    made->piece_bytes = config->slot_bytes;
    const uint64_t limit_bytes = config->account->limit_bytes;
    while (!config->mappable && made->piece_bytes < piece_bytes_wanted &&
           made->piece_bytes <= limit_bytes / 16)
        made->piece_bytes *= 2;
    /* Whatever the limit is, slots are mappable: they are refused when they are asked for. */
    const uint64_t pieces = limit_bytes / made->piece_bytes;
    made->window_bytes = (config->mappable ? mdnn_max(pieces, 1) : pieces) * made->piece_bytes;
    mdnn_lock_init(&made->lock, MDNN_LOCK_PINNED_POOL);
    mdnn_condition_init(&made->wanted_more);
    mdnn_condition_init(&made->made_more);
    mdnn_pinned_reserve_window(made);
    const mdnn_status_t status =
        config->mappable ? mdnn_pinned_make_own_handles(made) : MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK)
        *slots = made;
    else
        mdnn_pinned_pool_destroy(made);
    return status;
}

void mdnn_pinned_pool_want(mdnn_pinned_pool_t *slots, uint64_t bytes)
{
    mdnn_lock(&slots->lock);
    if (bytes > slots->wanted_bytes)
        have_made(slots, bytes);
    mdnn_unlock(&slots->lock);
}

mdnn_status_t mdnn_pinned_pool_take(mdnn_pinned_pool_t *slots, uint64_t *slot)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    mdnn_lock(&slots->lock);
    if (slots->free_count == 0 && can_grow(slots)) {
        have_made(slots, slots->made_bytes + slots->made_bytes / 4 + slots->piece_bytes);
        if (!has_thread(slots) && !slots->making) {
            make_piece(slots);
            mdnn_condition_broadcast(&slots->made_more);
        }
    }
    if (slots->free_count > 0)
        *slot = slots->free_slots[--slots->free_count];
    else
        status = will_have_more(slots) ? MDNN_STATUS_BUSY : MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_unlock(&slots->lock);
    return status;
}

void mdnn_pinned_pool_give(mdnn_pinned_pool_t *slots, uint64_t slot)
{
    mdnn_lock(&slots->lock);
    slots->free_slots[slots->free_count++] = slot; /* there is room for all of them */
    mdnn_condition_broadcast(&slots->made_more);
    mdnn_unlock(&slots->lock);
}

/* What was made when the caller asked, others may have taken since. */
mdnn_status_t mdnn_pinned_pool_wait(mdnn_pinned_pool_t *slots)
{
    mdnn_lock(&slots->lock);
    while (slots->free_count == 0 && will_have_more(slots) && has_thread(slots)) {
        have_made(slots, slots->made_bytes + slots->piece_bytes);
        if (has_thread(slots))
            mdnn_condition_wait(&slots->made_more, &slots->lock);
    }
    while (slots->free_count == 0 && slots->making) /* by the thread, which ends then */
        mdnn_condition_wait(&slots->made_more, &slots->lock);
    mdnn_unlock(&slots->lock);
    return MDNN_STATUS_OK;
}

CUresult mdnn_pinned_pool_error(mdnn_pinned_pool_t *slots)
{
    mdnn_lock(&slots->lock);
    const CUresult error = slots->error;
    mdnn_unlock(&slots->lock);
    return error;
}

uint64_t mdnn_pinned_pool_bytes(mdnn_pinned_pool_t *slots)
{
    mdnn_lock(&slots->lock);
    const uint64_t bytes = slots->made_bytes;
    mdnn_unlock(&slots->lock);
    return bytes;
}

/* No thread of others may use it any more; it stays in the list of those with a thread, so only
 * ones without a thread are freed. */
void mdnn_pinned_pool_destroy(mdnn_pinned_pool_t *slots)
{
    if (!slots)
        return;
    stop(slots);
    const mdnn_driver_t *const driver = slots->config.driver;
    for (uint64_t i = 0; i < slots->made_bytes / slots->piece_bytes; i++)
        mdnn_pinned_destroy_piece(slots, slots->pieces[i]);
    if (slots->window)
        (void)driver->cuMemAddressFree(slots->window, slots->window_bytes);
    give_back(slots, slots->made_bytes);
    free(slots->free_slots);
    free(slots->pieces);
    free(slots->own);
    if (!slots->started)
        free(slots);
}
