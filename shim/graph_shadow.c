#include "shim/graph_shadow.h"

#include <pthread.h>
#include <stdlib.h>

#include "shim/graph_record.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct shadow_entry {
    mdnn_shadow_t shadow;
    UT_hash_handle hh;
} shadow_entry_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `table` */
static shadow_entry_t *table;

bool mdnn_shadow_wanted(cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
           type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
           type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
}

static void release(shadow_entry_t *entry)
{
    if (!entry)
        return;
    if (entry->shadow.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        mdnn_graph_record_destroy(entry->shadow.plan.record);
    free(entry);
}

/* Takes the entry out of the table; the lock is held. */
static shadow_entry_t *detach(cudnnBackendDescriptor_t descriptor)
{
    shadow_entry_t *entry = NULL;
    HASH_FIND_PTR(table, &descriptor, entry);
    if (entry)
        HASH_DEL(table, entry);
    return entry;
}

static void begin(mdnn_shadow_t *shadow)
{
    if (shadow->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        atomic_init(&shadow->plan.told_bytes, UINT64_MAX);
    else if (shadow->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        shadow->configuration_told_bytes = UINT64_MAX;
}

void mdnn_shadow_create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type)
{
    shadow_entry_t *entry = calloc(1, sizeof *entry);
    if (entry) {
        entry->shadow.descriptor = descriptor;
        entry->shadow.type = type;
        begin(&entry->shadow);
    }
    pthread_mutex_lock(&lock);
    shadow_entry_t *const stale = detach(descriptor);
    if (entry) {
        HASH_ADD_PTR(table, shadow.descriptor, entry);
        if (!entry->hh.tbl) {
            free(entry);
            entry = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    release(stale);
}

void mdnn_shadow_destroy(cudnnBackendDescriptor_t descriptor)
{
    pthread_mutex_lock(&lock);
    shadow_entry_t *const entry = detach(descriptor);
    pthread_mutex_unlock(&lock);
    release(entry);
}

mdnn_shadow_t *mdnn_shadow_find(cudnnBackendDescriptor_t descriptor,
                                cudnnBackendDescriptorType_t type)
{
    shadow_entry_t *entry = NULL;
    pthread_mutex_lock(&lock);
    HASH_FIND_PTR(table, &descriptor, entry);
    pthread_mutex_unlock(&lock);
    return entry && entry->shadow.type == type ? &entry->shadow : NULL;
}

void *mdnn_pack_pointer(const mdnn_pack_shadow_t *pack, int64_t uid)
{
    for (int64_t i = 0; i < pack->uid_count; i++)
        if (pack->uids[i] == uid)
            return pack->pointers[i];
    return NULL;
}
