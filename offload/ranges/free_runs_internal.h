/* What released ranges, and requests that are served with them, share. */
#ifndef MDNN_FREE_RUNS_INTERNAL_H
#define MDNN_FREE_RUNS_INTERNAL_H

#include "offload/ranges/ranges_internal.h"

/* Steps that must not be stripped. */
typedef struct mdnn_window {
    uint64_t first, end;
} mdnn_window_t;

/* The least size of runs from `count` steps on; above all that there are: none. */
uint64_t mdnn_free_runs_next_size(const mdnn_ranges_t *ranges, uint64_t count);
/* If a kept range goes over `step`, it is two from now on, as old as it was. */
mdnn_status_t mdnn_free_runs_cut(mdnn_ranges_t *ranges, uint64_t step);
/* Whole ranges from `first` on are no part of their run any more. */
void mdnn_free_runs_leave(mdnn_ranges_t *ranges, uint64_t first, uint64_t count);
/* Has `count` chunks aside; but makes none of kept ones. OUT_OF_DEVICE_MEMORY. */
mdnn_status_t mdnn_free_runs_create_spare(mdnn_ranges_t *ranges, uint64_t count);
/* The same, or takes chunks of released ranges that do not lie in the window. As mdnn_ranges_acquire. */
mdnn_status_t mdnn_free_runs_gather_beside(mdnn_ranges_t *ranges, uint64_t count,
                                           mdnn_window_t except);
/* What the host would have to wait for to have `missing` chunks more: the oldest ranges' work. */
mdnn_status_t mdnn_free_runs_note_blockers(mdnn_ranges_t *ranges, uint64_t missing,
                                           mdnn_window_t except);

#endif
