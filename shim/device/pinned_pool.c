#include "shim/device/pinned_pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "config/lock.h"
#include "config/log.h"

/* A mappable slot. */
typedef struct own_handle {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr mapped; /* where else; 0: nowhere */
} own_handle_t;

static const uint64_t piece_bytes_wanted = (uint64_t)64 << 20;

struct mdnn_pinned_pool {
    mdnn_pinned_pool_config_t config;
    uint64_t piece_bytes;
    CUdeviceptr window;    /* 0: pieces are cuMemHostAlloc's */
    CUmemLocation place;   /* of handles */
    uint64_t window_bytes; /* all that can be made */
    own_handle_t *own;     /* by slot in the window; NULL: not mappable */

    mdnn_lock_t lock;
    mdnn_condition_t wanted_more, made_more;
    uint64_t wanted_bytes, made_bytes;
    uint64_t *free_slots; /* a stack */
    size_t free_count, free_capacity;
    uint64_t *pieces; /* as many as made_bytes has */
    bool exhausted;   /* the driver gives no more, and said this */
    CUresult error;
    bool making;  /* a piece, now */
    bool failed;  /* the last try; two in a row are the end */
    bool started; /* the thread */
    bool stopping;
    pthread_t thread;
    struct mdnn_pinned_pool *next; /* of all that have a thread */
};

static mdnn_pinned_pool_t *_Atomic with_thread; /* only grows */

/* ---- pieces ---- */

static int attribute(const mdnn_pinned_pool_config_t *config, CUdevice_attribute which)
{
    int value = 0;
    return config->driver->cuDeviceGetAttribute(&value, which, config->device) == CUDA_SUCCESS
               ? value
               : 0;
}

/* On the device's node; if the process may have no memory there, anywhere. */
static CUresult create_memory(mdnn_pinned_pool_t *slots, CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = slots->place};
    const mdnn_driver_t *const driver = slots->config.driver;
    CUresult result = driver->cuMemCreate(handle, slots->piece_bytes, &properties, 0);
    if (result == CUDA_SUCCESS || slots->made_bytes > 0 ||
        properties.location.type == CU_MEM_LOCATION_TYPE_HOST ||
        !attribute(&slots->config, CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return result;
    properties.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST};
    result = driver->cuMemCreate(handle, slots->piece_bytes, &properties, 0);
    if (result == CUDA_SUCCESS)
        slots->place = properties.location;
    return result;
}

static own_handle_t *own_of(const mdnn_pinned_pool_t *slots, uint64_t slot)
{
    return slots->own + (slot - slots->window) / slots->config.slot_bytes;
}

static CUresult create_handle(mdnn_pinned_pool_t *slots, CUdeviceptr address)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    CUmemGenericAllocationHandle handle;
    CUresult result = create_memory(slots, &handle);
    if (result != CUDA_SUCCESS)
        return result;
    const CUmemAccessDesc access[] = {
        {{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = slots->config.device},
         CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
        {slots->place, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    result = driver->cuMemMap(address, slots->piece_bytes, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = driver->cuMemSetAccess(address, slots->piece_bytes, access, 2);
        if (result != CUDA_SUCCESS)
            (void)driver->cuMemUnmap(address, slots->piece_bytes);
    }
    if (slots->own && result == CUDA_SUCCESS)
        own_of(slots, address)->handle = handle;
    else
        (void)driver->cuMemRelease(handle); /* it lives as long as its mapping */
    return result;
}

static CUresult create_pinned(mdnn_pinned_pool_t *slots, uint64_t *start)
{
    void *memory = NULL;
    const CUresult result =
        slots->config.driver->cuMemHostAlloc(&memory, slots->piece_bytes, CU_MEMHOSTALLOC_PORTABLE);
    *start = (uintptr_t)memory;
    return result;
}

/* Without the lock: one thread at a time makes pieces. */
static CUresult create_piece(mdnn_pinned_pool_t *slots, uint64_t offset, uint64_t *start)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    CUcontext popped;
    CUresult result = driver->cuCtxPushCurrent(slots->config.context);
    if (result != CUDA_SUCCESS)
        return result;
    *start = slots->window + offset;
    result = slots->window ? create_handle(slots, *start) : create_pinned(slots, start);
    (void)driver->cuCtxPopCurrent(&popped);
    return result;
}

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

static void destroy_piece(mdnn_pinned_pool_t *slots, uint64_t start)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    own_handle_t *const own = slots->own ? own_of(slots, start) : NULL;
    if (slots->window)
        (void)driver->cuMemUnmap(start, slots->piece_bytes);
    else
        (void)driver->cuMemFreeHost((void *)(uintptr_t)start);
    if (own && own->mapped)
        (void)driver->cuMemUnmap(own->mapped, slots->piece_bytes);
    if (own)
        (void)driver->cuMemRelease(own->handle);
    if (own)
        *own = (own_handle_t){0};
}

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

/* Locked at the beginning and the end. */
static void make_piece(mdnn_pinned_pool_t *slots)
{
    const size_t count = (size_t)(slots->piece_bytes / slots->config.slot_bytes);
    const uint64_t offset = slots->made_bytes;
    uint64_t start = 0;
    if (!take_from_account(slots))
        return;
    slots->making = true;
    mdnn_unlock(&slots->lock);
    const CUresult result = create_piece(slots, offset, &start);
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
        destroy_piece(slots, start);
    give_back(slots, slots->piece_bytes);
    slots->exhausted = slots->failed;
    slots->failed = true;
    slots->error = result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    const bool first = slots->own && slots->made_bytes == 0; /* who tries says it */
    if (slots->exhausted && !slots->stopping && !first)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "no more than %llu MiB of pinned host memory are "
                      "to be had (CUDA error %d)",
                      (unsigned long long)(slots->made_bytes >> 20), (int)result);
}

static bool can_grow(const mdnn_pinned_pool_t *slots)
{
    return !slots->exhausted && !slots->stopping &&
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

static bool start_thread(mdnn_pinned_pool_t *slots)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    const bool started = pthread_create(&slots->thread, NULL, run, slots) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) {
        (void)pthread_setname_np(slots->thread, "microdnn-host");
        remember(slots);
    }
    return started;
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
    for (mdnn_pinned_pool_t *slots = atomic_load(&with_thread); slots; slots = slots->next)
        stop(slots);
}

/* Locked. Without a thread (simulated, or there is none to be had) the caller makes the piece. */
static void have_made(mdnn_pinned_pool_t *slots, uint64_t bytes)
{
    if (bytes > slots->window_bytes)
        bytes = slots->window_bytes;
    if (bytes > slots->wanted_bytes)
        slots->wanted_bytes = bytes;
    if (slots->config.background && !slots->started)
        slots->config.background = slots->started = start_thread(slots);
    if (slots->config.background)
        mdnn_condition_signal(&slots->wanted_more);
}

/* ---- the outside ---- */

/* As large a window as there are addresses for. */
static void reserve_window(mdnn_pinned_pool_t *slots)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    if (!attribute(&slots->config,
                   CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
        return;
    /* -1: the driver knows of no node */
    const int node = attribute(&slots->config, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    slots->place =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node < 0 ? 0 : node};
    uint64_t bytes = slots->window_bytes;
    while (bytes >= slots->piece_bytes &&
           driver->cuMemAddressReserve(&slots->window, bytes, 0, 0, 0) != CUDA_SUCCESS) {
        bytes = bytes / 2 / slots->piece_bytes * slots->piece_bytes;
        slots->window = 0;
    }
    if (slots->window)
        slots->window_bytes = bytes;
}

static mdnn_status_t make_own_handles(mdnn_pinned_pool_t *slots)
{
    if (!slots->window)
        return MDNN_STATUS_UNSUPPORTED;
    slots->own = calloc(slots->window_bytes / slots->config.slot_bytes, sizeof *slots->own);
    return slots->own ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

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
    made->window_bytes = limit_bytes / made->piece_bytes * made->piece_bytes;
    mdnn_lock_init(&made->lock, MDNN_LOCK_PINNED_POOL);
    mdnn_condition_init(&made->wanted_more);
    mdnn_condition_init(&made->made_more);
    reserve_window(made);
    const mdnn_status_t status = config->mappable ? make_own_handles(made) : MDNN_STATUS_OK;
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
        if (!slots->config.background)
            make_piece(slots);
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

mdnn_status_t mdnn_pinned_pool_wait(mdnn_pinned_pool_t *slots)
{
    mdnn_lock(&slots->lock);
    while (slots->free_count == 0 && will_have_more(slots) && slots->config.background) {
        mdnn_condition_signal(&slots->wanted_more);
        mdnn_condition_wait(&slots->made_more, &slots->lock);
    }
    mdnn_unlock(&slots->lock);
    return MDNN_STATUS_OK;
}

CUresult mdnn_pinned_pool_map(mdnn_pinned_pool_t *slots, uint64_t slot, CUdeviceptr address,
                              const CUmemAccessDesc *access, size_t count)
{
    const mdnn_driver_t *const driver = slots->config.driver;
    const uint64_t bytes = slots->config.slot_bytes;
    own_handle_t *const own = own_of(slots, slot);
    CUresult result = driver->cuMemMap(address, bytes, 0, own->handle, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->cuMemSetAccess(address, bytes, access, count);
    if (result != CUDA_SUCCESS)
        (void)driver->cuMemUnmap(address, bytes);
    else
        own->mapped = address;
    return result;
}

CUresult mdnn_pinned_pool_unmap(mdnn_pinned_pool_t *slots, uint64_t slot)
{
    own_handle_t *const own = own_of(slots, slot);
    const CUresult result = slots->config.driver->cuMemUnmap(own->mapped, slots->config.slot_bytes);
    if (result == CUDA_SUCCESS)
        own->mapped = 0;
    return result;
}

CUresult mdnn_pinned_pool_let(mdnn_pinned_pool_t *slots, const CUmemAccessDesc *access)
{
    const uint64_t made = slots->own ? mdnn_pinned_pool_bytes(slots) : 0;
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < made && result == CUDA_SUCCESS; at += slots->config.slot_bytes) {
        const own_handle_t *const own = own_of(slots, slots->window + at);
        if (own->mapped)
            result = slots->config.driver->cuMemSetAccess(own->mapped, slots->config.slot_bytes,
                                                          access, 1);
    }
    return result;
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
        destroy_piece(slots, slots->pieces[i]);
    if (slots->window)
        (void)driver->cuMemAddressFree(slots->window, slots->window_bytes);
    give_back(slots, slots->made_bytes);
    free(slots->free_slots);
    free(slots->pieces);
    free(slots->own);
    if (!slots->started)
        free(slots);
}
