#include "optimizer/trial_times.h"

#include <stdlib.h>
#include <string.h>

/* Below this the two are equal, and the measurement's choice stands. */
static const float loses_by = 1.02F;
/* A split that is so much faster in the first pair needs no second: each pair costs one slow call. */
static const float clearly = 0.9F;

static int compare_floats(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(const float *ms, int count)
{
    float sorted[MDNN_TRIAL_PAIRS];
    memcpy(sorted, ms, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, compare_floats);
    return sorted[count / 2];
}

mdnn_trial_verdict_t mdnn_trial_judge(const mdnn_trial_times_t *times,
                                      mdnn_trial_medians_t *medians)
{
    medians->split_ms = median(times->split_ms, times->count);
    medians->rival_ms = median(times->rival_ms, times->count);
    if (times->count < MDNN_TRIAL_PAIRS && medians->split_ms > clearly * medians->rival_ms)
        return MDNN_TRIAL_PENDING;
    return medians->split_ms > loses_by * medians->rival_ms ? MDNN_TRIAL_RIVAL_WINS
                                                            : MDNN_TRIAL_SPLIT_STAYS;
}
