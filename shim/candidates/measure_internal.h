/* A measuring session, for its own files: measure.c settles candidates, candidate_call.c makes calls of them and
 * candidate_time.c times these. Only the planner calls it. */
#ifndef MDNN_MEASURE_INTERNAL_H
#define MDNN_MEASURE_INTERNAL_H

#include "shim/candidates/measure.h"
#include "shim/candidates/scratch.h"

struct mdnn_measurement {
    mdnn_call_t call; /* points at scratch */
    const mdnn_problem_t *problem;
    mdnn_slices_t *slices;
    mdnn_candidate_table_t *table;
    mdnn_measure_request_t request;
    int64_t capacity_images; /* what the scratch holds; 0: not allocated yet */
    bool has_scratch;
    cudnnHandle_t own_handle; /* timed calls run on it; questions to cuDNN use the caller's */
    bool surveyed[MDNN_PART_ROLE_COUNT];
    bool has_shortlist;
    unsigned shortlist;                 /* legacy algorithms, a bit each */
    const mdnn_engine_plan_t *own_plan; /* the caller's, being timed; else NULL */
    const mdnn_graph_uids_t *own_uids;
    int timed, untried; /* candidates in this session */
    double begin_us;
    struct {
        double lists, guesses, plans, memory;
    } us; /* of it beside the runs */
    mdnn_scratch_t scratch;
};

#endif
