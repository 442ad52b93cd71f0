#include "shim/handles/handle_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/lock.h"
#include "shim/vmem/virtual_aside.h"

typedef struct memory {
    uint64_t bytes;
    CUdevice device;
    uint64_t holds;                 /* handles as often as they are to be released, and mappings */
    bool counted;                   /* else its device is being reset */
    struct memory *next, *previous; /* all */
} memory_t;

struct mdnn_handle {
    CUmemGenericAllocationHandle value;
    uint64_t releases; /* that it has to be released, from now on; 0: it is in no bucket */
    uint32_t taken;    /* threads that release it now */
    memory_t *memory;
    struct mdnn_handle *next; /* in its bucket */
};

struct mdnn_mapping {
    uint64_t start, bytes;
    memory_t *memory;          /* NULL: none that counts */
    struct mdnn_mapping *next; /* in its bucket, or of those taken together */
};

/* What is added must find a place: without memory it could not be taken back. */
enum { BUCKETS = 4096 };

static mdnn_lock_t lock = MDNN_LOCK_INIT(HANDLE_MEMORY); /* of all below */
static mdnn_handle_t *handles[BUCKETS];
static mdnn_mapping_t *mappings[BUCKETS];
static memory_t *memories;

static size_t bucket_of(uint64_t key)
{
    return (key ^ key >> 21 ^ key >> 32) % BUCKETS;
}

/* ---- memory; locked, as is all of this section ---- */

static memory_t *hold(memory_t *memory)
{
    if (memory)
        memory->holds++;
    return memory;
}

/* What is to be given back; its bytes are 0, if it is there still. */
typedef struct gone {
    CUdevice device;
    uint64_t bytes;
} gone_t;

static gone_t let_go(memory_t *memory)
{
    gone_t gone = {0};
    if (!memory || --memory->holds > 0)
        return gone;
    gone = (gone_t){memory->device, memory->counted ? memory->bytes : 0};
    *(memory->previous ? &memory->previous->next : &memories) = memory->next;
    if (memory->next)
        memory->next->previous = memory->previous;
    free(memory);
    return gone;
}

static void add_handle(mdnn_handle_t *handle)
{
    mdnn_handle_t **const bucket = &handles[bucket_of(handle->value)];
    handle->next = *bucket;
    *bucket = handle;
}

/* Where it stands in its bucket, or the end. */
static mdnn_handle_t **find_handle(CUmemGenericAllocationHandle value)
{
    mdnn_handle_t **at = &handles[bucket_of(value)];
    while (*at && (*at)->value != value)
        at = &(*at)->next;
    return at;
}

static void add_mapping(mdnn_mapping_t *mapping)
{
    mdnn_mapping_t **const bucket = &mappings[bucket_of(mapping->start >> 16)];
    mapping->next = *bucket;
    *bucket = mapping;
}

/* ---- */

static void give_back(gone_t gone)
{
    if (gone.bytes > 0)
        mdnn_virtual_give_back(gone.device, gone.bytes, MDNN_ASIDE_EXACT);
}

static CUresult begin_memory(CUdevice device, uint64_t bytes, memory_t **made)
{
    memory_t *const memory = malloc(sizeof *memory);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = mdnn_virtual_set_aside(device, bytes, MDNN_ASIDE_EXACT, false);
    if (result != CUDA_SUCCESS) {
        free(memory);
        return result;
    }
    *memory = (memory_t){.bytes = bytes, .device = device, .holds = 1, .counted = true};
    mdnn_lock(&lock);
    memory->next = memories;
    if (memories)
        memories->previous = memory;
    memories = memory;
    mdnn_unlock(&lock);
    *made = memory;
    return CUDA_SUCCESS;
}

CUresult mdnn_handle_begin(CUdevice device, uint64_t bytes, mdnn_handle_t **made)
{
    mdnn_handle_t *const handle = calloc(1, sizeof *handle);
    *made = NULL;
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = begin_memory(device, bytes, &handle->memory);
    if (result == CUDA_SUCCESS)
        *made = handle;
    else
        free(handle);
    return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

void mdnn_handle_made(mdnn_handle_t *made, CUmemGenericAllocationHandle value, bool success)
{
    gone_t gone = {0};
    if (!made)
        return;
    mdnn_lock(&lock);
    mdnn_handle_t *const known = success ? *find_handle(value) : NULL;
    if (known && known->memory == made->memory) { /* it holds the memory once more */
        known->releases++;
        free(made);
    } else if (success) {
        made->value = value;
        made->releases = 1;
        add_handle(made);
    } else {
        gone = let_go(made->memory);
        free(made);
    }
    mdnn_unlock(&lock);
    give_back(gone);
}

bool mdnn_handle_again(CUmemGenericAllocationHandle value)
{
    mdnn_lock(&lock);
    mdnn_handle_t *const known = *find_handle(value);
    if (known) {
        known->releases++;
        (void)hold(known->memory);
    }
    mdnn_unlock(&lock);
    return known != NULL;
}

mdnn_handle_t *mdnn_handle_take(CUmemGenericAllocationHandle value)
{
    mdnn_lock(&lock);
    mdnn_handle_t **const at = find_handle(value), *const handle = *at;
    if (handle) {
        handle->taken++;
        if (--handle->releases == 0)
            *at = handle->next; /* the value may be another's next */
    }
    mdnn_unlock(&lock);
    return handle;
}

void mdnn_handle_released(mdnn_handle_t *taken, bool success)
{
    gone_t gone = {0};
    if (!taken)
        return;
    mdnn_lock(&lock);
    taken->taken--;
    if (success)
        gone = let_go(taken->memory);
    else if (taken->releases++ == 0)
        add_handle(taken);
    const bool over = taken->releases == 0 && taken->taken == 0;
    mdnn_unlock(&lock);
    if (over)
        free(taken);
    give_back(gone);
}

/* ---- mappings ---- */

CUresult mdnn_mapping_begin(CUmemGenericAllocationHandle value, mdnn_mapping_t **made)
{
    mdnn_mapping_t *const mapping = *made = calloc(1, sizeof *mapping);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mdnn_lock(&lock);
    const mdnn_handle_t *const handle = *find_handle(value);
    mapping->memory = hold(handle ? handle->memory : NULL);
    mdnn_unlock(&lock);
    return CUDA_SUCCESS;
}

static void end_mapping(mdnn_mapping_t *mapping)
{
    mdnn_lock(&lock);
    const gone_t gone = let_go(mapping->memory);
    mdnn_unlock(&lock);
    free(mapping);
    give_back(gone);
}

static void put(mdnn_mapping_t *mapping)
{
    mdnn_lock(&lock);
    add_mapping(mapping);
    mdnn_unlock(&lock);
}

void mdnn_mapping_made(mdnn_mapping_t *made, CUdeviceptr address, uint64_t bytes, bool success)
{
    if (!success) {
        end_mapping(made);
        return;
    }
    made->start = address;
    made->bytes = bytes;
    put(made);
}

/* Locked. Takes the one that starts there out of its bucket. */
static mdnn_mapping_t *take_at(uint64_t start)
{
    mdnn_mapping_t **at = &mappings[bucket_of(start >> 16)];
    while (*at && (*at)->start != start)
        at = &(*at)->next;
    mdnn_mapping_t *const taken = *at;
    if (taken)
        *at = taken->next;
    return taken;
}

/* Locked. */
static const mdnn_mapping_t *find_around(uint64_t address)
{
    for (size_t i = 0; i < BUCKETS; i++)
        for (const mdnn_mapping_t *mapping = mappings[i]; mapping; mapping = mapping->next)
            if (address - mapping->start < mapping->bytes)
                return mapping;
    return NULL;
}

mdnn_mapping_t *mdnn_mapping_take(CUdeviceptr address, uint64_t bytes)
{
    mdnn_mapping_t *taken = NULL, *mapping;
    mdnn_lock(&lock);
    for (uint64_t done = 0; done < bytes && (mapping = take_at(address + done));) {
        done += mapping->bytes;
        mapping->next = taken;
        taken = mapping;
    }
    mdnn_unlock(&lock);
    return taken;
}

void mdnn_mapping_ended(mdnn_mapping_t *taken, bool success)
{
    for (mdnn_mapping_t *mapping = taken, *next; mapping; mapping = next) {
        next = mapping->next;
        if (success)
            end_mapping(mapping);
        else
            put(mapping);
    }
}

/* ---- handles of what is there ---- */

CUresult mdnn_handle_retain_begin(CUdeviceptr address, mdnn_handle_t **made)
{
    mdnn_handle_t *const handle = *made = calloc(1, sizeof *handle);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mdnn_lock(&lock);
    const mdnn_mapping_t *const mapping = find_around(address);
    handle->memory = hold(mapping ? mapping->memory : NULL);
    mdnn_unlock(&lock);
    if (!handle->memory) {
        free(handle);
        *made = NULL;
    }
    return CUDA_SUCCESS;
}

void mdnn_handle_keep(CUmemGenericAllocationHandle value)
{
    mdnn_lock(&lock);
    const mdnn_handle_t *const handle = *find_handle(value);
    (void)hold(handle ? handle->memory : NULL);
    mdnn_unlock(&lock);
}

/* ---- resets ---- */

void mdnn_handles_device_ends(CUdevice device)
{
    mdnn_lock(&lock);
    for (memory_t *memory = memories; memory; memory = memory->next)
        memory->counted = memory->counted && memory->device != device;
    mdnn_unlock(&lock);
}

void mdnn_handles_device_ended(CUdevice device)
{
    uint64_t bytes = 0;
    mdnn_lock(&lock);
    for (memory_t *memory = memories; memory; memory = memory->next) {
        if (memory->counted || memory->device != device)
            continue;
        memory->counted = true;
        bytes += memory->bytes;
    }
    mdnn_unlock(&lock);
    mdnn_virtual_set_aside_all_the_same(device, bytes);
}
