#include "shim/vmem/virtual_bound.h"

#include <stdatomic.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */

#include <uthash.h>

#include "config/lock.h"
#include "config/log.h"
#include "shim/vmem/virtual_memory.h"

/* An allocation that ends with its context. */
typedef struct bound {
    CUdeviceptr address;
    CUcontext context;
    UT_hash_handle hh;
} bound_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(CONTEXTS);
static bound_t *bound;             /* by address */
static _Atomic size_t bound_count; /* so that programs without such contexts take no lock */

void mdnn_virtual_bind(CUcontext context, CUdeviceptr address)
{
    bound_t *const one = malloc(sizeof *one);
    if (!one)
        return; /* then it stays until it is freed */
    *one = (bound_t){.address = address, .context = context};
    mdnn_lock(&lock);
    HASH_ADD(hh, bound, address, sizeof one->address, one);
    const bool added = one->hh.tbl != NULL;
    atomic_store(&bound_count, HASH_COUNT(bound));
    mdnn_unlock(&lock);
    if (!added)
        free(one);
}

void mdnn_virtual_unbind(CUdeviceptr address)
{
    bound_t *one;
    if (atomic_load(&bound_count) == 0)
        return;
    mdnn_lock(&lock);
    HASH_FIND(hh, bound, &address, sizeof address, one);
    if (one)
        HASH_DEL(bound, one);
    atomic_store(&bound_count, HASH_COUNT(bound));
    mdnn_unlock(&lock);
    free(one);
}

void mdnn_virtual_unbind_all(uint64_t start, uint64_t bytes)
{
    bound_t *one, *next;
    bool any = false;
    mdnn_lock(&lock);
    HASH_ITER(hh, bound, one, next)
    {
        if (one->address - start >= bytes)
            continue;
        HASH_DEL(bound, one);
        free(one);
        any = true;
    }
    atomic_store(&bound_count, HASH_COUNT(bound));
    mdnn_unlock(&lock);
    if (any)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "a device is reset while other contexts have memory there: they lose it");
}

bool mdnn_virtual_take_bound(CUcontext context, CUdeviceptr *address)
{
    bound_t *one = NULL;
    if (atomic_load(&bound_count) == 0)
        return false;
    mdnn_lock(&lock);
    for (one = bound; one && one->context != context;)
        one = one->hh.next;
    if (one)
        HASH_DEL(bound, one);
    atomic_store(&bound_count, HASH_COUNT(bound));
    mdnn_unlock(&lock);
    if (!one)
        return false;
    *address = one->address;
    free(one);
    return true;
}
