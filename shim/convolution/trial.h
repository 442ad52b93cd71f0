/* A split must prove itself in the running program. Measurements are made on scratch, maybe beside
 * other work; so among the first calls that a split serves some go to the best undivided configuration
 * within the same workspace, and both are timed by events, without waiting: one pair where the split
 * clearly wins, up to five where it does not. If it loses, the rival runs from then on; likewise if the device
 * will not tell the times: a split that has not proved itself does not stay. */
#ifndef MDNN_TRIAL_H
#define MDNN_TRIAL_H

#include "config/status.h"
#include "shim/candidates/call.h"

typedef struct mdnn_trial mdnn_trial_t;

/* Creates the events; must not run during stream capture. */
mdnn_status_t mdnn_trial_create(mdnn_trial_t **trial);
void mdnn_trial_destroy(mdnn_trial_t *trial); /* NULL accepted */

typedef enum mdnn_contender { MDNN_CONTENDER_SPLIT, MDNN_CONTENDER_RIVAL } mdnn_contender_t;

/* Who serves this call on `stream`. *point >= 0 if the call is timed: it must then be given to
 * mdnn_trial_end right after the call was enqueued. Thread-safe; one atomic read once decided. Never
 * waits, allocates nothing, and does nothing to a stream that is being captured. */
mdnn_contender_t mdnn_trial_begin(mdnn_trial_t *trial, CUstream stream, int *point);
void mdnn_trial_end(mdnn_trial_t *trial, CUstream stream, int point);

#endif
