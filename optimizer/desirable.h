/* Desirable sets (Oyama 2018, III-C.1): the configurations of a convolution that no other
 * one beats in both time and workspace, as input of Workspace Division.
 *
 * The front of WR (optimizer/wr.h) is already that set: for every workspace it has the fastest configuration within it.
 * With an adoption margin, a split is in the set only if it is faster than the undivided convolution by that margin.
 * This file adds the form that the solvers take, and lets kernels (convolutions in one direction) of the same problem
 * share one set. */
#ifndef MDNN_DESIRABLE_H
#define MDNN_DESIRABLE_H

#include "optimizer/problem.h"
#include "optimizer/wd.h"
#include "optimizer/wr.h"

/* Item i is configuration mdnn_front_at(front, i): workspace ascending, time strictly descending.
 */
typedef struct mdnn_desirable_set {
    const mdnn_knapsack_item_t *items;
    size_t count; /* >= 1 */
    const mdnn_front_t *front;
} mdnn_desirable_set_t;

/* The sets of a network's problems. Not thread-safe. */
typedef struct mdnn_desirable_sets mdnn_desirable_sets_t;

mdnn_status_t mdnn_desirable_sets_create(mdnn_desirable_sets_t **sets);
void mdnn_desirable_sets_destroy(mdnn_desirable_sets_t *sets); /* NULL accepted */

/* The problem's set. The first call for a problem makes it from `request` and `source`; later calls
 * do not look at them. It is valid until the sets are destroyed. Returns the statuses of
 * mdnn_wr_optimize; nothing is kept on failure. */
mdnn_status_t mdnn_desirable_sets_get(mdnn_desirable_sets_t *sets, const mdnn_problem_t *problem,
                                      const mdnn_wr_request_t *request,
                                      const mdnn_cost_source_t *source,
                                      const mdnn_desirable_set_t **set);
size_t mdnn_desirable_sets_count(const mdnn_desirable_sets_t *sets);

/* A kernel with this set, in a group. */
mdnn_wd_kernel_t mdnn_desirable_kernel(const mdnn_desirable_set_t *set, uint32_t group);

#endif
