/* Cuts large ranges into parts, so that a part of a range may leave, or come back before the rest.
 * A part is a range of its own with the uses and the life of the whole range, so planners, replay
 * and checks need not know about parts.
 *
 * The mechanism keeps the first chunks of a range and sends away the last ones. To a planner all
 * parts of a range are alike, so mdnn_parts_order may apply its decisions for some of them to the
 * last ones. */
#ifndef MDNN_PARTS_H
#define MDNN_PARTS_H

#include "offload/plan/schedule.h"

typedef struct mdnn_parts {
    mdnn_period_t period; /* its ranges are parts; the parts of a range are neighbours, in order */
    uint32_t *whole;      /* of each part: the range that it is a part of */
    uint64_t *begin;      /* of each part: its first byte in that range */
} mdnn_parts_t;

/* Cuts each range that may leave into at most 16 parts of whole chunks, of `part_bytes` or a little more. UINT64_MAX:
 * all stay whole. OUT_OF_MEMORY; OVERFLOW if the parts are too many for a period. */
mdnn_status_t mdnn_parts_cut(const mdnn_period_t *period, uint64_t chunk_bytes, uint64_t part_bytes,
                             mdnn_parts_t *parts);
void mdnn_parts_fini(mdnn_parts_t *parts);

/* Rearranges the parts that leave in a gap so that they are the last of their range, and so that
 * the very last one comes back last. This never holds more memory at any position. OUT_OF_MEMORY; then nothing has
 * changed. */
mdnn_status_t mdnn_parts_order(const mdnn_parts_t *parts, mdnn_schedule_t *schedule);

#endif
