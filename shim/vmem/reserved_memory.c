#include "shim/vmem/reserved_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/extremes.h"
#include "config/lock.h"
#include "shim/real/driver_queries.h"
#include "shim/vmem/virtual_aside.h"

/* The driver does not document in what steps a pool grows, so they are learned. */
static const uint64_t least_grain = 2 << 20;

struct mdnn_reserved {
    CUmemoryPool pool; /* NULL: graphs, or a pool that has ended */
    CUdevice device;
    bool graphs;
    uint64_t counted, pending; /* bytes set aside; of them, for calls that are under way */
    _Atomic uint64_t grain;
    uint64_t shares; /* allocations that are not freed */
    unsigned asking; /* threads that ask the driver of it now */
    bool ending;     /* nobody may any more */
    mdnn_reserved_t *next;
};

struct mdnn_reserved_share {
    CUdeviceptr address;
    mdnn_reserved_t *reserved;
    mdnn_reserved_share_t *next; /* in its bucket */
};

enum { BUCKETS = 1024 };

static mdnn_lock_t lock = MDNN_LOCK_INIT(RESERVED_MEMORY); /* of all below */
static mdnn_reserved_t *all;
static _Atomic size_t count; /* so that programs without such memory take no lock */
static mdnn_reserved_share_t *buckets[BUCKETS];
static mdnn_condition_t asked = MDNN_CONDITION_INIT; /* nobody asks of some pool any more */

static mdnn_reserved_share_t **bucket_of(CUdeviceptr address)
{
    return &buckets[(address >> 9 ^ address >> 21) % BUCKETS];
}

/* ---- which there are ---- */

/* Locked. */
static mdnn_reserved_t *find(CUmemoryPool pool, CUdevice device, bool graphs)
{
    mdnn_reserved_t *each = all;
    while (each && (graphs ? !each->graphs || each->device != device : each->pool != pool))
        each = each->next;
    return each;
}

static mdnn_reserved_t *find_or_add(CUmemoryPool pool, CUdevice device, bool graphs)
{
    mdnn_lock(&lock);
    mdnn_reserved_t *reserved = find(pool, device, graphs);
    if (!reserved && (reserved = calloc(1, sizeof *reserved))) {
        *reserved = (mdnn_reserved_t){
            .pool = pool, .device = device, .graphs = graphs, .grain = least_grain, .next = all};
        all = reserved;
        atomic_fetch_add(&count, 1);
    }
    mdnn_unlock(&lock);
    return reserved;
}

mdnn_reserved_t *mdnn_reserved_of_pool(CUmemoryPool pool, CUdevice device)
{
    return find_or_add(pool, device, false);
}

mdnn_reserved_t *mdnn_reserved_of_graphs(CUdevice device)
{
    return find_or_add(NULL, device, true);
}

void mdnn_reserved_pool_created(CUmemoryPool pool, CUdevice device)
{
    mdnn_lock(&lock);
    mdnn_reserved_t *const old = find(pool, device, false);
    if (old)
        old->pool = NULL; /* its end was not seen */
    mdnn_unlock(&lock);
    (void)find_or_add(pool, device, false);
}

/* ---- what they hold ---- */

/* The pool stays until end_asking, whatever other threads do; NULL: it has none, or not any more. */
static CUmemoryPool begin_asking(mdnn_reserved_t *reserved)
{
    mdnn_lock(&lock);
    CUmemoryPool const pool = reserved->ending ? NULL : reserved->pool;
    reserved->asking += pool != NULL;
    mdnn_unlock(&lock);
    return pool;
}

static void end_asking(mdnn_reserved_t *reserved)
{
    mdnn_lock(&lock);
    if (--reserved->asking == 0)
        mdnn_condition_broadcast(&asked);
    mdnn_unlock(&lock);
}

static CUresult ask_pool(mdnn_reserved_t *reserved, cuuint64_t *held, cuuint64_t *in_use)
{
    const mdnn_driver_queries_t *const queries = mdnn_driver_queries();
    CUmemoryPool const pool = queries->cuMemPoolGetAttribute ? begin_asking(reserved) : NULL;
    if (!pool)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result =
        queries->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, in_use);
    if (result == CUDA_SUCCESS)
        result = queries->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, held);
    end_asking(reserved);
    return result;
}

/* false: the driver does not say. */
static bool ask(mdnn_reserved_t *reserved, uint64_t *bytes, uint64_t *used)
{
    const mdnn_driver_queries_t *const queries = mdnn_driver_queries();
    cuuint64_t held = 0, in_use = 0;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (reserved->graphs && queries->cuDeviceGetGraphMemAttribute) {
        result = queries->cuDeviceGetGraphMemAttribute(reserved->device,
                                                       CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &in_use);
        if (result == CUDA_SUCCESS)
            result = queries->cuDeviceGetGraphMemAttribute(
                reserved->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &held);
    } else if (!reserved->graphs) {
        result = ask_pool(reserved, &held, &in_use);
    }
    *bytes = held;
    *used = in_use < held ? in_use : held;
    return result == CUDA_SUCCESS;
}

/* What counts from now on: what is there, and what calls under way may take. Returns how much there
 * is beyond what is set aside, which the caller does. */
static uint64_t settle(mdnn_reserved_t *reserved, uint64_t over)
{
    uint64_t bytes, used, less = 0, more = 0;
    const bool known = ask(reserved, &bytes, &used);
    mdnn_lock(&lock);
    reserved->pending -=
        mdnn_min(over, reserved->pending); /* a reset ends what calls had asked for */
    const bool ended = !reserved->graphs && !reserved->pool;
    uint64_t target = known ? bytes + reserved->pending : reserved->counted;
    if (ended && reserved->shares == 0)
        target = 0;
    if (reserved->counted > target)
        less = reserved->counted - target;
    else
        more = target - reserved->counted;
    reserved->counted -= less;
    mdnn_unlock(&lock);
    if (less > 0)
        mdnn_virtual_give_back(reserved->device, less, MDNN_ASIDE_EXACT);
    return more;
}

static void add(mdnn_reserved_t *reserved, uint64_t counted, uint64_t pending)
{
    mdnn_lock(&lock);
    reserved->counted += counted;
    reserved->pending += pending;
    mdnn_unlock(&lock);
}

/* More than was set aside: the program learns it at its next request. */
static void count_all_the_same(mdnn_reserved_t *reserved, uint64_t more)
{
    if (more == 0)
        return;
    add(reserved, more, 0);
    mdnn_virtual_set_aside_all_the_same(reserved->device, more);
}

void mdnn_reserved_settle(mdnn_reserved_t *reserved)
{
    count_all_the_same(reserved, settle(reserved, 0));
}

/* Members of the list stay, and new ones come before them. */
static mdnn_reserved_t *first(void)
{
    if (atomic_load(&count) == 0)
        return NULL;
    mdnn_lock(&lock);
    mdnn_reserved_t *const reserved = all;
    mdnn_unlock(&lock);
    return reserved;
}

void mdnn_reserved_settle_all(void)
{
    for (mdnn_reserved_t *each = first(); each; each = each->next)
        mdnn_reserved_settle(each);
}

/* What pools of the device hold unused goes back, as the driver has it where it lacks memory. */
static void trim(CUdevice device)
{
    const mdnn_driver_queries_t *const queries = mdnn_driver_queries();
    for (mdnn_reserved_t *each = first(); each; each = each->next) {
        if (each->device != device)
            continue;
        CUmemoryPool const pool = queries->cuMemPoolTrimTo ? begin_asking(each) : NULL;
        if (pool) {
            (void)queries->cuMemPoolTrimTo(pool, 0);
            end_asking(each);
        }
        mdnn_reserved_settle(each);
    }
}

CUresult mdnn_reserved_begin(mdnn_reserved_t *reserved, uint64_t bytes, uint64_t *growth)
{
    uint64_t held, used;
    *growth = 0;
    if (!reserved || bytes > UINT64_MAX / 4)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t wanted = (bytes + reserved->grain - 1) / reserved->grain * reserved->grain;
    CUresult result = mdnn_virtual_set_aside(reserved->device, wanted, MDNN_ASIDE_EXACT, true);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        /* What it holds may do: then it need not grow. */
        if (ask(reserved, &held, &used) && held - used >= bytes)
            return CUDA_SUCCESS;
        trim(reserved->device);
        result = mdnn_virtual_set_aside(reserved->device, wanted, MDNN_ASIDE_EXACT, false);
    }
    if (result == CUDA_SUCCESS) {
        *growth = wanted;
        add(reserved, wanted, wanted);
    }
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

bool mdnn_reserved_end(mdnn_reserved_t *reserved, uint64_t growth)
{
    const uint64_t more = settle(reserved, growth);
    if (more == 0)
        return true;
    if (reserved->grain < growth + more && more < (uint64_t)64 << 20)
        reserved->grain = more > least_grain ? more : 2 * least_grain;
    const CUresult result = mdnn_virtual_set_aside(reserved->device, more, MDNN_ASIDE_EXACT, false);
    if (result == CUDA_SUCCESS)
        add(reserved, more, 0);
    else if (result != CUDA_ERROR_NOT_SUPPORTED)
        count_all_the_same(reserved, more);
    return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- allocations of pools ---- */

static void put(mdnn_reserved_share_t *share)
{
    mdnn_lock(&lock);
    mdnn_reserved_share_t **const bucket = bucket_of(share->address);
    share->next = *bucket;
    *bucket = share;
    share->reserved->shares++;
    mdnn_unlock(&lock);
}

bool mdnn_reserved_allocated(mdnn_reserved_t *reserved, CUdeviceptr address)
{
    mdnn_reserved_share_t *const share = malloc(sizeof *share);
    if (!share)
        return false;
    *share = (mdnn_reserved_share_t){.address = address, .reserved = reserved};
    put(share);
    return true;
}

mdnn_reserved_share_t *mdnn_reserved_take(CUdeviceptr address)
{
    if (atomic_load(&count) == 0)
        return NULL;
    mdnn_lock(&lock);
    mdnn_reserved_share_t **at = bucket_of(address);
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    mdnn_reserved_share_t *const share = *at;
    if (share) {
        *at = share->next;
        share->reserved->shares--;
    }
    mdnn_unlock(&lock);
    return share;
}

/* What ended pools hold goes when all before the next wait has run: until then it counts. */
void mdnn_reserved_freed(mdnn_reserved_share_t *share, bool freed)
{
    if (!share)
        return;
    if (!freed) {
        put(share);
        return;
    }
    mdnn_reserved_t *const reserved = share->reserved;
    free(share);
    mdnn_lock(&lock);
    const bool lives = reserved->pool != NULL;
    mdnn_unlock(&lock);
    if (lives)
        mdnn_reserved_settle(reserved);
}

/* ---- ends ---- */

mdnn_reserved_t *mdnn_reserved_pool_ends(CUmemoryPool pool)
{
    if (atomic_load(&count) == 0)
        return NULL;
    mdnn_lock(&lock);
    mdnn_reserved_t *const reserved = find(pool, 0, false);
    mdnn_unlock(&lock);
    if (!reserved)
        return NULL;
    mdnn_reserved_settle(reserved);
    mdnn_lock(&lock);
    reserved->ending = true;
    while (reserved->asking > 0)
        mdnn_condition_wait(&asked, &lock);
    mdnn_unlock(&lock);
    return reserved;
}

void mdnn_reserved_pool_ended(mdnn_reserved_t *reserved, bool ended)
{
    if (!reserved)
        return;
    mdnn_lock(&lock);
    reserved->ending = false;
    if (ended)
        reserved->pool = NULL;
    mdnn_unlock(&lock);
}

void mdnn_reserved_device_ends(CUdevice device)
{
    mdnn_lock(&lock);
    for (mdnn_reserved_t *each = all; each; each = each->next)
        if (each->device == device)
            each->counted = each->pending = 0;
    mdnn_unlock(&lock);
}
