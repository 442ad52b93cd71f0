#include "shim/real/pool_counters.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */

#include <uthash.h>

#include "config/lock.h"

typedef struct pool {
    CUmemoryPool handle;
    CUdevice device;
    uint64_t used, used_high, reserved_high; /* reserved is what is used: nothing is kept */
    struct pool *next;
} pool_t;

typedef struct share {
    CUdeviceptr address;
    uint64_t bytes;
    pool_t *pool;
    UT_hash_handle hh;
} share_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(POOL_COUNTERS); /* of all below */
static pool_t *pools; /* a few: a device has one, and programs have some */
static share_t *shares;
static _Atomic size_t share_count; /* so that frees of programs without pools take no lock */

/* Locked, as are all below that take no lock. */
static pool_t *find(CUmemoryPool handle)
{
    pool_t *pool = pools;
    while (pool && pool->handle != handle)
        pool = pool->next;
    return pool;
}

static pool_t *find_or_add(CUmemoryPool handle, CUdevice device)
{
    pool_t *pool = find(handle);
    if (pool || !(pool = malloc(sizeof *pool)))
        return pool;
    *pool = (pool_t){.handle = handle, .device = device, .next = pools};
    return pools = pool;
}

static void count(pool_t *pool, uint64_t bytes)
{
    pool->used += bytes;
    if (pool->used_high < pool->used)
        pool->used_high = pool->used;
    if (pool->reserved_high < pool->used)
        pool->reserved_high = pool->used;
}

void mdnn_pool_allocated(CUmemoryPool handle, CUdevice device, CUdeviceptr address, uint64_t bytes)
{
    share_t *const share = malloc(sizeof *share);
    if (!share)
        return;
    mdnn_lock(&lock);
    *share = (share_t){.address = address, .bytes = bytes, .pool = find_or_add(handle, device)};
    if (share->pool)
        HASH_ADD(hh, shares, address, sizeof share->address, share);
    const bool added = share->pool && share->hh.tbl;
    if (added)
        count(share->pool, bytes);
    atomic_store(&share_count, HASH_COUNT(shares));
    mdnn_unlock(&lock);
    if (!added)
        free(share);
}

/* Takes it out of the table. */
static void forget(share_t *share)
{
    HASH_DEL(shares, share);
    free(share);
    atomic_store(&share_count, HASH_COUNT(shares));
}

mdnn_pool_share_t mdnn_pool_take(CUdeviceptr address)
{
    mdnn_pool_share_t taken = {0};
    share_t *share = NULL;
    if (atomic_load(&share_count) == 0)
        return taken;
    mdnn_lock(&lock);
    HASH_FIND(hh, shares, &address, sizeof address, share);
    if (share) {
        taken = (mdnn_pool_share_t){share->pool->handle, share->pool->device, share->bytes};
        share->pool->used -= share->bytes;
        forget(share);
    }
    mdnn_unlock(&lock);
    return taken;
}

/* ---- attributes ---- */

void mdnn_pool_add_to(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
    uint64_t more = 0;
    mdnn_lock(&lock);
    const pool_t *const pool = find(handle);
    if (pool && (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
                 attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT))
        more = pool->used;
    else if (pool && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        more = pool->used_high;
    else if (pool && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        more = pool->reserved_high;
    mdnn_unlock(&lock);
    if (more > 0) /* else it may be of another type */
        *(cuuint64_t *)value += more;
}

void mdnn_pool_attribute_set(CUmemoryPool handle, CUmemPool_attribute attribute)
{
    mdnn_lock(&lock);
    pool_t *const pool = find(handle);
    if (pool && attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
    else if (pool && attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = pool->used;
    mdnn_unlock(&lock);
}

/* ---- ends ---- */

/* Those of the pool. */
static void forget_shares(const pool_t *pool)
{
    share_t *share, *next;
    HASH_ITER(hh, shares, share, next)
    {
        if (share->pool == pool)
            forget(share);
    }
}

void mdnn_pool_ended(CUmemoryPool handle)
{
    mdnn_lock(&lock);
    pool_t **at = &pools;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    pool_t *const pool = *at;
    if (pool) {
        forget_shares(pool);
        *at = pool->next;
        free(pool);
    }
    mdnn_unlock(&lock);
}

void mdnn_pools_device_ends(CUdevice device)
{
    mdnn_lock(&lock);
    for (pool_t *pool = pools; pool; pool = pool->next) {
        if (pool->device != device)
            continue;
        forget_shares(pool);
        pool->used = pool->used_high = pool->reserved_high = 0;
    }
    mdnn_unlock(&lock);
}
