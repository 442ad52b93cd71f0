/* The costs of one problem in memory, by part size and role. They come from the database or a table, and from the
 * measurements of this run. A cost memory belongs to one optimization and is not thread-safe. */
#ifndef MDNN_COST_MEMORY_H
#define MDNN_COST_MEMORY_H

#include "optimizer/micro_batch.h"

typedef struct mdnn_cost_entry {
    int64_t images;
    mdnn_part_role_t role;
    bool is_new;        /* not in the database yet */
    size_t count;       /* 0 is also an answer: this size cannot be run */
    mdnn_cost_t *costs; /* owned; NULL if count is 0 */
} mdnn_cost_entry_t;

/* {0} is empty and valid. */
typedef struct mdnn_cost_memory {
    mdnn_cost_entry_t *entries; /* images descending, then role ascending */
    size_t count, capacity;
} mdnn_cost_memory_t;

void mdnn_cost_memory_fini(mdnn_cost_memory_t *memory);

/* Copies the costs in and replaces those that were there. INVALID_ARGUMENT for more than
 * MDNN_COSTS_PER_SIZE costs, OUT_OF_MEMORY; unchanged on failure. */
mdnn_status_t mdnn_cost_memory_put(mdnn_cost_memory_t *memory, int64_t images,
                                   mdnn_part_role_t role, const mdnn_cost_t *costs, size_t count,
                                   bool is_new);

/* NULL if nothing is known. Valid until the next put. */
const mdnn_cost_entry_t *mdnn_cost_memory_find(const mdnn_cost_memory_t *memory, int64_t images,
                                               mdnn_part_role_t role);

/* The memory as a source: sizes that it does not know cannot be run. `memory` is borrowed. */
mdnn_cost_source_t mdnn_cost_memory_source(mdnn_cost_memory_t *memory);

/* Asks the memory first, then `next`, whose answers are kept in the memory as new. */
typedef struct mdnn_cost_chain {
    mdnn_cost_memory_t *memory;
    mdnn_cost_source_t next;
} mdnn_cost_chain_t;

/* `chain` is borrowed. */
mdnn_cost_source_t mdnn_cost_chain_source(mdnn_cost_chain_t *chain);

#endif
