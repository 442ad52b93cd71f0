/* Which gap is best for its range to be away, at an operation where bytes are missing. Gaps enter and leave as a sweep
 * over the operations begins and stops to lie within them; the best of those within which it lies is found in logarithmic
 * time. */
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
    struct mdnn_gap_node {
        double enough; /* best score below of a range that is not larger than what is missing */
        double more;   /* of one that is, for each byte that is missing */
    } * nodes;         /* 1 is the root; less than 0: nothing lies below */
    uint32_t *place;   /* of each gap: its leaf, in the order of bytes, then of gaps */
    uint32_t *gap;     /* of each leaf */
    uint64_t *bytes;   /* of each leaf */
    uint32_t count, leaves;
    mdnn_gap_rule_t rule;
    uint64_t steps; /* nodes visited */
} mdnn_gap_choice_t;

/* OUT_OF_MEMORY; mdnn_gap_choice_fini follows in any case. */
mdnn_status_t mdnn_gap_choice_init(mdnn_gap_choice_t *choice, const mdnn_period_t *period,
                                   const mdnn_gap_t *gaps, size_t gap_count);
void mdnn_gap_choice_fini(mdnn_gap_choice_t *choice);

/* Nothing is within. O(gaps). */
void mdnn_gap_choice_start(mdnn_gap_choice_t *choice, mdnn_gap_rule_t rule);

/* Where the gap has a score for the rule: `base`, times the bytes of its range that are missing for LARGE, times the share
 * of its bytes that are missing for FEW. Scores are positive. */
void mdnn_gap_choice_enter(mdnn_gap_choice_t *choice, uint32_t gap, double base);
void mdnn_gap_choice_leave(mdnn_gap_choice_t *choice, uint32_t gap);

/* Of equals the one that comes first by bytes (FEW, LARGE), then by number. UINT32_MAX: there is none. */
uint32_t mdnn_gap_choice_best(mdnn_gap_choice_t *choice, uint64_t missing_bytes);

#endif
