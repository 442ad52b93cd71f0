/* What a policy (offload/plan/planner.h) decides for one period (the operations that repeat, offload/plan/period.h):
 * which ranges leave the device when, and when they return. A schedule is a prediction: the mechanism
 * (offload/memory/memory.h) is correct whatever the program does, and a schedule only moves its work to an earlier
 * time. */
#ifndef MDNN_SCHEDULE_H
#define MDNN_SCHEDULE_H

#include "offload/plan/period.h"

/* One leave and one return of a range within one of its gaps (mdnn_gap_t). The positions are those of operations;
 * returns may lie past the end of the period. In program order, the range's memory is free for others after leave_after
 * and is taken again after return_after; in real time, an operation that takes memory waits until that memory is free.
 *   leave_after   after this operation the range is unmapped, and its copy to the host may begin:
 *                 nothing uses the range until return_before
 *   return_after  >= leave_after: after this operation memory is taken and the copy back is enqueued
 *   return_before > return_after: the operation that uses the range and waits for the copy;
 *                 MDNN_NEVER: the range dies while it is away
 * A permanent range that nothing uses may be away for good: leave_after MDNN_GAP_ALWAYS. */
typedef struct mdnn_move {
    uint32_t range;
    int32_t leave_after, return_after, return_before;
} mdnn_move_t;
#define MDNN_NEVER INT32_MAX

/* {0} does nothing: every range stays, every operation runs as recorded. */
typedef struct mdnn_schedule {
    /* Owned. Copies in one direction that may begin at the same time run in the order of this array. */
    mdnn_move_t *moves;
    size_t move_count, move_capacity;
    /* Owned, ascending. Before these operations, the compute stream waits for all ranges that have begun to leave or to
     * return (vDNN). */
    uint32_t *joins;
    size_t join_count, join_capacity;
    /* Owned. The index of the variant (mdnn_variant_t) in which each operation runs; NULL: the recorded ones. */
    uint32_t *choices;
} mdnn_schedule_t;

void mdnn_schedule_fini(mdnn_schedule_t *schedule);
/* The three functions below return OUT_OF_MEMORY and then change nothing. */
mdnn_status_t mdnn_schedule_copy(const mdnn_schedule_t *schedule, uint32_t operation_count,
                                 mdnn_schedule_t *copy);
mdnn_status_t mdnn_schedule_add_move(mdnn_schedule_t *schedule, mdnn_move_t move);
mdnn_status_t mdnn_schedule_add_join(mdnn_schedule_t *schedule, uint32_t before);

/* The move for a whole gap: the range leaves as early as possible and returns as late as
 * possible. */
mdnn_move_t mdnn_move_of_gap(const mdnn_gap_t *gap);

/* The operations during which the move's range holds no memory: [*from, *to). Positions count on past the end of the
 * period. Empty if the range comes back immediately, and [0, operation_count) if it is away for good. */
void mdnn_move_away(const mdnn_period_t *period, const mdnn_move_t *move, int32_t *from,
                    int32_t *to);

/* resident_bytes[operation_count]: memory that is held at each operation in program order, with the
 * workspace of the chosen variants. The schedule must pass mdnn_schedule_check. */
void mdnn_schedule_resident_bytes(const mdnn_period_t *period, const mdnn_schedule_t *schedule,
                                  uint64_t *resident_bytes);

/* The most memory that is held at any operation. OUT_OF_MEMORY. */
mdnn_status_t mdnn_schedule_peak(const mdnn_period_t *period, const mdnn_schedule_t *schedule,
                                 uint64_t *peak_bytes);

/* Checks that each move lies within a gap of its range, that no two moves of a range meet, and that choices and joins
 * refer to things that exist. INVALID_ARGUMENT if not; OUT_OF_MEMORY. */
mdnn_status_t mdnn_schedule_check(const mdnn_period_t *period, const mdnn_schedule_t *schedule);

#endif
