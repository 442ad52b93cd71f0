#include "shim/graph/graph_shadow.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/lock.h"
#include "shim/graph/graph_record.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct shadow_entry {
    mdnn_shadow_t shadow;
    UT_hash_handle hh;
} shadow_entry_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(SHADOWS); /* guards `table` */
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
    if (entry->shadow.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
        free(entry->shadow.pack.uids.many);
        free(entry->shadow.pack.pointers.many);
    }
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
        atomic_init(&shadow->plan.reported_bytes, UINT64_MAX);
    else if (shadow->type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        atomic_init(&shadow->configuration.reported_bytes, UINT64_MAX);
}

void mdnn_shadow_create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type)
{
    shadow_entry_t *entry = calloc(1, sizeof *entry);
    if (entry) {
        entry->shadow.descriptor = descriptor;
        entry->shadow.type = type;
        begin(&entry->shadow);
    }
    mdnn_lock(&lock);
    shadow_entry_t *const stale = detach(descriptor);
    if (entry) {
        HASH_ADD_PTR(table, shadow.descriptor, entry);
        if (!entry->hh.tbl) {
            free(entry);
            entry = NULL;
        }
    }
    mdnn_unlock(&lock);
    release(stale);
}

void mdnn_shadow_destroy(cudnnBackendDescriptor_t descriptor)
{
    mdnn_lock(&lock);
    shadow_entry_t *const entry = MDNN_FAULT(SHADOW_OUTLIVES) ? NULL : detach(descriptor);
    mdnn_unlock(&lock);
    release(entry);
}

static mdnn_shadow_t *find(cudnnBackendDescriptor_t descriptor)
{
    shadow_entry_t *entry = NULL;
    mdnn_lock(&lock);
    HASH_FIND_PTR(table, &descriptor, entry);
    mdnn_unlock(&lock);
    return entry ? &entry->shadow : NULL;
}

void mdnn_shadow_renew(cudnnBackendDescriptor_t descriptor)
{
    const mdnn_shadow_t *const shadow = find(descriptor);
    if (shadow)
        mdnn_shadow_create(descriptor, shadow->type);
}

void mdnn_shadow_finalize(cudnnBackendDescriptor_t descriptor)
{
    mdnn_shadow_t *const shadow = find(descriptor);
    if (shadow && shadow->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        shadow->pack.finalized = true;
    else if (shadow && shadow->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        atomic_store(&shadow->plan.finalized, true);
}

mdnn_shadow_t *mdnn_shadow_find(cudnnBackendDescriptor_t descriptor,
                                cudnnBackendDescriptorType_t type)
{
    mdnn_shadow_t *const shadow = find(descriptor);
    return shadow && shadow->type == type ? shadow : NULL;
}

/* Returns what is least. */
static uint64_t keep_least(_Atomic uint64_t *least, uint64_t bytes)
{
    if (MDNN_FAULT(LAST_REPORT_BINDS)) {
        atomic_store(least, bytes);
        return bytes;
    }
    uint64_t told = atomic_load(least);
    while (bytes < told && !atomic_compare_exchange_weak(least, &told, bytes))
        ;
    return bytes < told ? bytes : told;
}

uint64_t mdnn_shadow_report(mdnn_plan_shadow_t *plan, uint64_t bytes)
{
    return keep_least(&plan->reported_bytes, bytes);
}

static uint64_t number_of(mdnn_configuration_shadow_t *configuration)
{
    static _Atomic uint64_t last;
    uint64_t number = atomic_load(&configuration->number);
    if (number > 0)
        return number;
    const uint64_t fresh = atomic_fetch_add(&last, 1) + 1;
    return atomic_compare_exchange_strong(&configuration->number, &number, fresh) ? fresh : number;
}

void mdnn_shadow_join(mdnn_plan_shadow_t *plan, mdnn_configuration_shadow_t *configuration)
{
    if (atomic_load(&plan->configuration) == 0)
        atomic_store(&plan->configuration, number_of(configuration));
    atomic_store(&configuration->number, atomic_load(&plan->configuration));
    /* A thread that reports an answer at the same time finds the plan, or its answer is found
     * here. */
    (void)mdnn_shadow_report(plan, atomic_load(&configuration->reported_bytes));
}

/* In place: what another thread asks meanwhile must not be gone. */
void mdnn_shadow_fill(mdnn_plan_shadow_t *plan, mdnn_configuration_shadow_t *configuration)
{
    atomic_store(&configuration->number, 0);
    atomic_store(&configuration->reported_bytes, UINT64_MAX);
    mdnn_shadow_join(plan, configuration);
}

void mdnn_shadow_report_configuration(mdnn_configuration_shadow_t *configuration, uint64_t bytes)
{
    shadow_entry_t *entry, *next;
    (void)keep_least(&configuration->reported_bytes, bytes);
    const uint64_t number = atomic_load(&configuration->number);
    if (number == 0 || MDNN_FAULT(LATER_ANSWER_IGNORED))
        return;
    mdnn_lock(&lock);
    HASH_ITER(hh, table, entry, next)
    if (entry->shadow.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
        atomic_load(&entry->shadow.plan.configuration) == number)
        (void)mdnn_shadow_report(&entry->shadow.plan, bytes);
    mdnn_unlock(&lock);
}

void mdnn_pack_keep(mdnn_pack_values_t *values, int64_t count, const void *elements)
{
    const size_t bytes = (size_t)count * sizeof *values->few;
    uint64_t *room = count > MDNN_PACK_POINTERS ? values->many : values->few;
    if (count > MDNN_PACK_POINTERS && count > values->room) {
        room = realloc(values->many, bytes);
        if (room) {
            values->many = room;
            values->room = count;
        }
    }
    const bool too_many = MDNN_FAULT(PACK_OF_SIXTEEN) && count > MDNN_PACK_POINTERS;
    values->count = room && !too_many ? count : -1;
    if (room)
        memcpy(room, elements, bytes);
}

static const uint64_t *content_of(const mdnn_pack_values_t *values)
{
    return values->count > MDNN_PACK_POINTERS ? values->many : values->few;
}

bool mdnn_pack_is_plain(const mdnn_pack_shadow_t *pack)
{
    return !pack->overridden && pack->uids.count > 0 && pack->uids.count == pack->pointers.count;
}

/* As if all programs put x, y and w in this order. */
static int64_t break_uids(int64_t uid)
{
    return uid == 'x' ? 0 : uid == 'y' ? 1 : 2;
}

void *mdnn_pack_pointer(const mdnn_pack_shadow_t *pack, int64_t uid)
{
    const uint64_t *const uids = content_of(&pack->uids);
    const uint64_t *const pointers = content_of(&pack->pointers);
    uint64_t found = 0;
    for (int64_t i = 0; i < pack->uids.count; i++) {
        if (MDNN_FAULT(UIDS_BY_ORDER) ? i != break_uids(uid) : uids[i] != (uint64_t)uid)
            continue;
        if (found && found != pointers[i])
            return NULL;
        found = pointers[i];
    }
    return (void *)(uintptr_t)found;
}
