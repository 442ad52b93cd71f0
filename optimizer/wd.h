/* Workspace Division (WD): divides one total of workspace among the convolutions of a network so that they take the
 * least time (Oyama 2018, III-C). The other method, Workspace Reuse (WR, optimizer/wr.h), gives each convolution the
 * same limit.
 *
 * A kernel here is one convolution in one direction. Its choice c is one point of its desirable set
 * (optimizer/desirable.h): a configuration that no other beats in both time T and workspace M. Kernels that run one
 * after another are a group g and share a region, whose size is the largest workspace that is chosen in it. Regions lie
 * side by side, and their sum stays within the total:
 *
 *     min  sum_k T_k(c_k)    with   sum_g  max_{k in g} M_k(c_k)  <=  total
 *
 *   MDNN_WD_SUM      every kernel is a group of its own, and its region a segment of docs/design/arena.md: the
 *                    paper's equations 1 to 4
 *   MDNN_WD_SHARED   there is a group for each stream that runs beside others.
 *                    With one group this is WR with the total as its limit.
 *
 * With an adoption margin, a split convolution is accepted only if it is faster than the undivided one by that margin
 * (optimizer/wr.h). Then the choice only fixes the sizes of the regions: each convolution runs the configuration that
 * mdnn_front_best returns for the size of its region (with one group: for the total), as with WR. */
#ifndef MDNN_WD_H
#define MDNN_WD_H

#include "config/choices.h"
#include "optimizer/knapsack.h"

/* One convolution in one direction, with the configurations that it may run in. */
typedef struct mdnn_wd_kernel {
    const mdnn_knapsack_item_t *items; /* borrowed; several kernels may have the same */
    size_t item_count;                 /* >= 1 */
    uint32_t group;                    /* < group_count; without meaning in MDNN_WD_SUM */
} mdnn_wd_kernel_t;

typedef struct mdnn_wd_problem {
    mdnn_wd_model_t model;
    const mdnn_wd_kernel_t *kernels;
    size_t kernel_count;
    uint32_t group_count;
    uint64_t total_bytes;
} mdnn_wd_problem_t;

/* The time and workspace of a choice; see mdnn_knapsack_result_t. `workspace_bytes` is the sum of
 * the regions. */
typedef mdnn_knapsack_result_t mdnn_wd_result_t;

/* Number of regions: group_count; kernel_count in MDNN_WD_SUM. */
size_t mdnn_wd_region_count(const mdnn_wd_problem_t *problem);

/* choices[k] becomes the item of kernel k: the fastest one within its region and, among equals, the
 * one with the least workspace. Otherwise like mdnn_knapsack_solve; INVALID_ARGUMENT also for a bad group. */
mdnn_status_t mdnn_wd_solve(const mdnn_wd_problem_t *problem, const mdnn_knapsack_limits_t *limits,
                            size_t *choices, mdnn_wd_result_t *result);

/* Computes time and workspace of any choices and writes the sizes of the regions to `region_bytes`
 * (mdnn_wd_region_count of them; may be NULL). INVALID_ARGUMENT for an item that does not exist,
 * NOT_FOUND if the total is exceeded. */
mdnn_status_t mdnn_wd_evaluate(const mdnn_wd_problem_t *problem, const size_t *choices,
                               double *time_ms, uint64_t *workspace_bytes, uint64_t *region_bytes);

#endif
