#include "optimizer/desirable.h"

#include <stdlib.h>

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

typedef struct entry {
    mdnn_problem_t problem;
    mdnn_desirable_set_t set;
    mdnn_knapsack_item_t *items;
    mdnn_front_t *front;
    UT_hash_handle hh;
} entry_t;

struct mdnn_desirable_sets {
    entry_t *entries;
};

mdnn_status_t mdnn_desirable_sets_create(mdnn_desirable_sets_t **sets)
{
    mdnn_desirable_sets_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    *sets = made;
    return MDNN_STATUS_OK;
}

static void destroy_entry(entry_t *entry)
{
    mdnn_front_destroy(entry->front);
    free(entry->items);
    free(entry);
}

void mdnn_desirable_sets_destroy(mdnn_desirable_sets_t *sets)
{
    if (!sets)
        return;
    entry_t *entry, *next;
    HASH_ITER(hh, sets->entries, entry, next)
    {
        HASH_DEL(sets->entries, entry);
        destroy_entry(entry);
    }
    free(sets);
}

static mdnn_status_t fill(entry_t *entry, const mdnn_wr_request_t *request,
                          const mdnn_cost_source_t *source)
{
    MDNN_TRY(mdnn_wr_optimize(request, source, &entry->front));
    const size_t count = mdnn_front_count(entry->front);
    entry->items = calloc(count, sizeof *entry->items);
    if (!entry->items)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const mdnn_configuration_t *const point = mdnn_front_at(entry->front, i);
        entry->items[i] = (mdnn_knapsack_item_t){point->time_ms, point->workspace_bytes};
    }
    entry->set = (mdnn_desirable_set_t){entry->items, count, entry->front};
    return MDNN_STATUS_OK;
}

static mdnn_status_t add(mdnn_desirable_sets_t *sets, entry_t *entry)
{
    HASH_ADD(hh, sets->entries, problem, sizeof entry->problem, entry);
    return entry->hh.tbl ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

mdnn_status_t mdnn_desirable_sets_get(mdnn_desirable_sets_t *sets, const mdnn_problem_t *problem,
                                      const mdnn_wr_request_t *request,
                                      const mdnn_cost_source_t *source,
                                      const mdnn_desirable_set_t **set)
{
    entry_t *entry;
    HASH_FIND(hh, sets->entries, problem, sizeof *problem, entry);
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return MDNN_STATUS_OUT_OF_MEMORY;
        entry->problem = *problem;
        mdnn_status_t status = fill(entry, request, source);
        if (status == MDNN_STATUS_OK)
            status = add(sets, entry);
        if (status != MDNN_STATUS_OK) {
            destroy_entry(entry);
            return status;
        }
    }
    *set = &entry->set;
    return MDNN_STATUS_OK;
}

size_t mdnn_desirable_sets_count(const mdnn_desirable_sets_t *sets)
{
    return HASH_COUNT(sets->entries);
}

mdnn_wd_kernel_t mdnn_desirable_kernel(const mdnn_desirable_set_t *set, uint32_t group)
{
    return (mdnn_wd_kernel_t){set->items, set->count, group};
}
