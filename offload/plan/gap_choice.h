/* A gap is a stretch of operations in which a range is not used (offload/plan/period.h). At an operation where bytes
 * are missing, this chooses the gap in which it is best to send the range away. A sweep over the operations enters each
 * gap where the gap begins, and leaves it where the gap ends; among the gaps that the sweep is in, the best is found in
 * logarithmic time. */
#ifndef MDNN_GAP_CHOICE_H
#define MDNN_GAP_CHOICE_H

#include "offload/plan/period.h"

/* What makes a gap a good choice. */
typedef enum mdnn_gap_rule {
    MDNN_GAP_FAR,   /* used again last */
    MDNN_GAP_LONG,  /* longest time without a use */
    MDNN_GAP_FEW,   /* moves fewest bytes for what it gives */
    MDNN_GAP_LARGE, /* most bytes times time */
    MDNN_GAP_RULE_COUNT
} mdnn_gap_rule_t;

typedef struct mdnn_gap_choice {
    /* The tree of the gaps that the sweep is in. 1 is the root; gap n is leaf n (FAR, LONG) or leaf place[n] (FEW,
     * LARGE). Values less than 0: the sweep is in no gap of the subtree. */
    struct mdnn_gap_node {
        /* Best score in the subtree (mdnn_gap_choice_enter); FEW, LARGE: as if no range exceeded what is missing. */
        double enough;
        double
            more; /* FEW, LARGE: best score per missing byte, as if every range exceeded what is missing */
    } * nodes;
    uint32_t *place; /* of each gap, in the order of bytes, then of numbers */
    uint32_t *gap;   /* the other way around */
    uint64_t *bytes; /* of each place */
    uint32_t count, leaves;
    mdnn_gap_rule_t rule;
    uint64_t steps; /* nodes visited */
} mdnn_gap_choice_t;

/* OUT_OF_MEMORY; mdnn_gap_choice_fini follows in any case. */
mdnn_status_t mdnn_gap_choice_init(mdnn_gap_choice_t *choice, const mdnn_period_t *period,
                                   const mdnn_gap_t *gaps, size_t gap_count);
void mdnn_gap_choice_fini(mdnn_gap_choice_t *choice);

/* Starts a sweep, which is in no gap yet. O(gaps). */
void mdnn_gap_choice_start(mdnn_gap_choice_t *choice, mdnn_gap_rule_t rule);

/* The sweep enters or leaves a gap. `base` > 0. `given` is the smaller of the missing bytes and the range's bytes; the
 * gap's score is base (FAR, LONG), base * given (LARGE), or base * given / the range's bytes (FEW). */
void mdnn_gap_choice_enter(mdnn_gap_choice_t *choice, uint32_t gap, double base);
void mdnn_gap_choice_leave(mdnn_gap_choice_t *choice, uint32_t gap);

/* The gap with the highest score; of equals the one that comes first by bytes (FEW, LARGE), then by number. UINT32_MAX:
 * the sweep is in no gap. */
uint32_t mdnn_gap_choice_best(mdnn_gap_choice_t *choice, uint64_t missing_bytes);

#endif
