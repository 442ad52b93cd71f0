/* A split must prove itself in the running program, since it was measured on scratch memory, perhaps beside other work.
 * So some of the first calls that a split serves go to the best undivided configuration within the same workspace, and
 * events time both without waiting: one pair if the split clearly wins, and up to five if it does not. If the split
 * loses, the rival runs from then on. The same happens if the device reports no times: a split that has not proved
 * itself is dropped. */
#ifndef MDNN_TRIAL_H
#define MDNN_TRIAL_H

#include "config/status.h"
#include "shim/candidates/call.h"

typedef struct mdnn_trial mdnn_trial_t;

/* Creates the events; must not run during stream capture. */
mdnn_status_t mdnn_trial_create(mdnn_trial_t **trial);
void mdnn_trial_destroy(mdnn_trial_t *trial); /* NULL accepted */

typedef enum mdnn_contender { MDNN_CONTENDER_SPLIT, MDNN_CONTENDER_RIVAL } mdnn_contender_t;

/* Chooses who serves this call on `stream`. *point is >= 0 if the call is timed; pass *point to mdnn_trial_end right
 * after the call was enqueued. Thread-safe; costs one atomic read once the trial is decided. Never waits, allocates
 * nothing, and does nothing to a stream that is being captured. */
mdnn_contender_t mdnn_trial_begin(mdnn_trial_t *trial, CUstream stream, int *point);
/* Whether the same contender serves all calls from now on. */
bool mdnn_trial_is_decided(const mdnn_trial_t *trial);
void mdnn_trial_end(mdnn_trial_t *trial, CUstream stream, int point);

#endif
