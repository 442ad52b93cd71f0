/* A measuring session, for its own files: measure.c settles candidates, candidate_call.c turns them into calls, and
 * candidate_time.c times these calls. Only the planner uses it. */
#ifndef MDNN_MEASURE_INTERNAL_H
#define MDNN_MEASURE_INTERNAL_H

#include "shim/candidates/measure.h"
#include "shim/candidates/scratch.h"

struct mdnn_measurement {
    mdnn_call_t call; /* its pointers lead to scratch memory */
    const mdnn_problem_t *problem;
    mdnn_slices_t *slices;
    mdnn_candidate_table_t *table;
    mdnn_measure_request_t request;
    int64_t capacity_images; /* how many images the scratch memory holds; 0: not allocated yet */
    bool has_scratch;
    cudnnHandle_t own_handle; /* timed calls run on it; questions to cuDNN use the caller's */
    bool surveyed[MDNN_PART_ROLE_COUNT];
    bool has_shortlist;
    unsigned shortlist;                 /* legacy algorithms, one bit each */
    const mdnn_engine_plan_t *own_plan; /* the caller's plan, while it is being timed; else NULL */
    const mdnn_graph_uids_t *own_uids;
    int timed, untried; /* candidates in this session */
    double begin_us;
    struct {
        double lists, guesses, plans, memory;
    } us; /* parts of the session's time beside the runs */
    mdnn_scratch_t scratch;
};

#endif
