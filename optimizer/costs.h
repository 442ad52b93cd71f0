/* Costs of every part size that a split can use, gathered once through the source and cut down to
 * what any workspace limit could still choose. */
#ifndef MDNN_COSTS_H
#define MDNN_COSTS_H

#include "optimizer/wr.h"

/* Pareto set of one size in one role: workspace ascending, time strictly descending. */
typedef struct mdnn_cost_list {
    mdnn_cost_t *costs;
    size_t count;
} mdnn_cost_list_t;

typedef struct mdnn_size_costs {
    int64_t images;
    mdnn_cost_list_t role[MDNN_PART_ROLE_COUNT]; /* may share one array; empty: this role cannot
                                                  * occur */
} mdnn_size_costs_t;

typedef struct mdnn_costs_by_size {
    mdnn_size_costs_t *sizes; /* images strictly descending; sizes[0] is the whole batch */
    size_t count;
} mdnn_costs_by_size_t;

/* Asks the source, from the largest size down, for every size and role that occurs in at least one split that obeys
 * `request`; measuring others would be a waste. OUT_OF_MEMORY or the source's error; *table is untouched on failure.
 * Release with mdnn_costs_by_size_fini. */
mdnn_status_t mdnn_costs_by_size_init(mdnn_costs_by_size_t *table, const mdnn_wr_request_t *request,
                                      const mdnn_cost_source_t *source);
void mdnn_costs_by_size_fini(mdnn_costs_by_size_t *table);

/* Keeps the costs that `request` admits and that no other cost beats in both time and workspace;
 * order as in mdnn_cost_list_t, whatever the order of the input. Returns how many are left. */
size_t mdnn_costs_prune(mdnn_cost_t *costs, size_t count, const mdnn_wr_request_t *request);

/* Fastest cost with workspace <= limit; NULL if none. */
const mdnn_cost_t *mdnn_cost_list_best(const mdnn_cost_list_t *list, uint64_t limit_bytes);

#endif
