#include "shim/vmem/other_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/lock.h"
#include "shim/vmem/virtual_aside.h"

struct mdnn_other_memory {
    struct mdnn_other_memory *next; /* in its bucket, or of those that were taken together */
    mdnn_other_kind_t kind;
    uint64_t key, bytes;
    CUdevice device;
    CUcontext context;
};

/* What is added must find a place: without memory it could not be taken back. */
enum { BUCKETS = 1024 };

static mdnn_lock_t lock = MDNN_LOCK_INIT(OTHER_MEMORY); /* of `buckets` */
static mdnn_other_memory_t *buckets[BUCKETS];
static _Atomic size_t count; /* so that programs without such memory take no lock */

static mdnn_other_memory_t **bucket_of(uint64_t key)
{
    return &buckets[(key >> 9 ^ key >> 21) % BUCKETS];
}

static void add(mdnn_other_memory_t *memory)
{
    mdnn_lock(&lock);
    mdnn_other_memory_t **const bucket = bucket_of(memory->key);
    memory->next = *bucket;
    *bucket = memory;
    atomic_fetch_add(&count, 1);
    mdnn_unlock(&lock);
}

CUresult mdnn_other_begin(mdnn_other_kind_t kind, uint64_t bytes, bool quiet,
                          mdnn_other_memory_t **memory)
{
    CUdevice device;
    CUcontext context;
    *memory = NULL;
    CUresult result = mdnn_virtual_current_context(&device, &context);
    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
    mdnn_other_memory_t *const made = malloc(sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *made =
        (mdnn_other_memory_t){.kind = kind, .bytes = bytes, .device = device, .context = context};
    result = mdnn_virtual_set_aside(device, bytes, MDNN_ASIDE_IN_PAGES, quiet);
    if (result == CUDA_SUCCESS)
        *memory = made;
    else
        free(made);
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

static void end_one(mdnn_other_memory_t *memory)
{
    mdnn_virtual_give_back(memory->device, memory->bytes, MDNN_ASIDE_IN_PAGES);
    free(memory);
}

void mdnn_other_made(mdnn_other_memory_t *memory, uint64_t key, bool made)
{
    if (!memory)
        return;
    memory->key = key;
    if (made)
        add(memory);
    else
        end_one(memory);
}

/* Those that are like `like`: of its kind and key, context, or device. */
typedef bool (*alike_t)(const mdnn_other_memory_t *memory, const mdnn_other_memory_t *like);

static bool has_key(const mdnn_other_memory_t *memory, const mdnn_other_memory_t *like)
{
    return memory->key == like->key && memory->kind == like->kind;
}

static bool has_context(const mdnn_other_memory_t *memory, const mdnn_other_memory_t *like)
{
    return memory->context == like->context;
}

static bool has_device(const mdnn_other_memory_t *memory, const mdnn_other_memory_t *like)
{
    return memory->device == like->device;
}

/* Locked. Takes them out of the bucket; they are put before `taken`. */
static mdnn_other_memory_t *take_of(mdnn_other_memory_t **bucket, alike_t alike,
                                    const mdnn_other_memory_t *like, mdnn_other_memory_t *taken)
{
    for (mdnn_other_memory_t **at = bucket; *at;) {
        mdnn_other_memory_t *const memory = *at;
        if (!alike(memory, like)) {
            at = &memory->next;
            continue;
        }
        *at = memory->next;
        memory->next = taken;
        taken = memory;
        atomic_fetch_sub(&count, 1);
    }
    return taken;
}

mdnn_other_memory_t *mdnn_other_take(mdnn_other_kind_t kind, uint64_t key)
{
    const mdnn_other_memory_t like = {.kind = kind, .key = key};
    if (atomic_load(&count) == 0)
        return NULL;
    mdnn_lock(&lock);
    mdnn_other_memory_t *const taken = take_of(bucket_of(key), has_key, &like, NULL);
    mdnn_unlock(&lock);
    return taken;
}

static mdnn_other_memory_t *take_all(alike_t alike, const mdnn_other_memory_t *like)
{
    mdnn_other_memory_t *taken = NULL;
    if (atomic_load(&count) == 0)
        return NULL;
    mdnn_lock(&lock);
    for (size_t i = 0; i < BUCKETS; i++)
        taken = take_of(&buckets[i], alike, like, taken);
    mdnn_unlock(&lock);
    return taken;
}

mdnn_other_memory_t *mdnn_other_take_context(CUcontext context)
{
    return take_all(has_context, &(mdnn_other_memory_t){.context = context});
}

void mdnn_other_ended(mdnn_other_memory_t *ended, bool gone)
{
    for (mdnn_other_memory_t *memory = ended, *next; memory; memory = next) {
        next = memory->next;
        if (gone)
            end_one(memory);
        else
            add(memory);
    }
}

/* What was set aside is so no more when the device has a budget anew. */
void mdnn_other_device_ends(CUdevice device)
{
    mdnn_other_memory_t *memory = take_all(has_device, &(mdnn_other_memory_t){.device = device});
    for (mdnn_other_memory_t *next; memory; memory = next) {
        next = memory->next;
        free(memory);
    }
}
