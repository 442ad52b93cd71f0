/* Failures of our own driver calls, per thread. Our error code must not reach a later call of the
 * program: each entry into the library forgets earlier failures, and reports only later ones. */
#ifndef MDNN_FAILURE_H
#define MDNN_FAILURE_H

#include <stdbool.h>

#include <cuda.h>

#include "config/status.h"

/* Remembers a failure. OK, OUT_OF_DEVICE_MEMORY, DEVICE. */
mdnn_status_t mdnn_failure_note(CUresult result);
void mdnn_failure_forget(void);
/* Returns and forgets the last failure; CUDA_SUCCESS: none. */
CUresult mdnn_failure_take(void);

/* Whether the context or the process is unusable after the failure, so that the program's own calls
 * fail as well. After other failures the call may be tried again. */
bool mdnn_failure_is_final(CUresult result);

/* Remembers for the process that a call of the program failed so, and returns whether any has. */
void mdnn_failure_see(CUresult result);
bool mdnn_failure_any_final(void);

#endif
