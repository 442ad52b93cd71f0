/* Which of two contenders is faster, by pairs of times in the running program. */
#ifndef MDNN_TRIAL_TIMES_H
#define MDNN_TRIAL_TIMES_H

#include <stdbool.h>

enum { MDNN_TRIAL_PAIRS = 5 }; /* at most; their medians count */

typedef enum mdnn_trial_verdict {
    MDNN_TRIAL_PENDING,
    MDNN_TRIAL_SPLIT_STAYS,
    MDNN_TRIAL_RIVAL_WINS
} mdnn_trial_verdict_t;

/* Times in milliseconds of the first `count` pairs, 1 to MDNN_TRIAL_PAIRS. */
typedef struct mdnn_trial_times {
    float split_ms[MDNN_TRIAL_PAIRS], rival_ms[MDNN_TRIAL_PAIRS];
    int count;
} mdnn_trial_times_t;

typedef struct mdnn_trial_medians {
    float split_ms, rival_ms;
} mdnn_trial_medians_t;

/* PENDING: more pairs are needed. Keeps no state. */
mdnn_trial_verdict_t mdnn_trial_judge(const mdnn_trial_times_t *times,
                                      mdnn_trial_medians_t *medians);

#endif
