/* Large ranges cut into parts, so that a planner may have a part of a range leave, or come back
 * before the rest. A part is a range of its own with the uses and the life of the whole: planners,
 * replay and checks need not know of it.
 *
 * The mechanism keeps the first chunks of a range and sends away the last. Parts of a range are
 * alike to a planner, so what it decided for some of them in a gap may as well be done with the
 * last ones: mdnn_parts_order. */
#ifndef MDNN_PARTS_H
#define MDNN_PARTS_H

#include "offload/plan/schedule.h"

typedef struct mdnn_parts {
    mdnn_period_t period; /* its ranges are parts; those of a range are neighbours, in order */
    uint32_t *whole;      /* of each part: the range that it is a part of */
    uint64_t *begin;      /* of each part: its first byte in that */
} mdnn_parts_t;

/* Ranges that may leave become parts of `part_bytes` or a little more, of whole chunks, 16 at most.
 * UINT64_MAX: all stay whole. OUT_OF_MEMORY; OVERFLOW if that is too much for a period. */
mdnn_status_t mdnn_parts_cut(const mdnn_period_t *period, uint64_t chunk_bytes, uint64_t part_bytes,
                             mdnn_parts_t *parts);
void mdnn_parts_fini(mdnn_parts_t *parts);

/* Of the parts that leave in a gap and come back one after the other, makes them the last of their
 * range, and the last of these the last to come back. No more memory is held at any position than
 * before. */
void mdnn_parts_order(const mdnn_parts_t *parts, mdnn_schedule_t *schedule);

#endif
