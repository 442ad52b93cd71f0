/* What the files about released ranges, and about the requests that they serve, share. */
#ifndef MDNN_FREE_RUNS_INTERNAL_H
#define MDNN_FREE_RUNS_INTERNAL_H

#include "offload/ranges/ranges_internal.h"

/* Steps that must keep their chunks. */
typedef struct mdnn_window {
    uint64_t first, end;
} mdnn_window_t;

/* The smallest size of a run that has at least `count` steps; above the largest size: there is
 * none. */
uint64_t mdnn_free_runs_next_size(const mdnn_ranges_t *ranges, uint64_t count);
/* If a kept range crosses `step`, it is split into two of the same age. */
mdnn_status_t mdnn_free_runs_cut(mdnn_ranges_t *ranges, uint64_t step);
/* Takes whole ranges, from `first` on, out of their run. */
void mdnn_free_runs_leave(mdnn_ranges_t *ranges, uint64_t first, uint64_t count);
/* Puts `count` chunks aside, but takes none from kept ranges. OUT_OF_DEVICE_MEMORY. */
mdnn_status_t mdnn_free_runs_create_spare(mdnn_ranges_t *ranges, uint64_t count);
/* The same, but also takes chunks of released ranges outside the window. Returns the statuses of
 * mdnn_ranges_acquire. */
mdnn_status_t mdnn_free_runs_gather_beside(mdnn_ranges_t *ranges, uint64_t count,
                                           mdnn_window_t except);
/* The kept range that was released longest ago, of those outside the window on which no work runs, or a part of it that
 * has at least `wanted` chunks if it has so many. `slabs`: it may be one. NULL: there is none. */
mdnn_range_t *mdnn_free_runs_oldest_done(mdnn_ranges_t *ranges, uint64_t wanted,
                                         mdnn_window_t except, bool slabs);
/* Notes what the host would have to wait for to get `missing` chunks more: the work of the oldest
 * ranges. */
mdnn_status_t mdnn_free_runs_note_blockers(mdnn_ranges_t *ranges, uint64_t missing,
                                           mdnn_window_t except);

#endif
