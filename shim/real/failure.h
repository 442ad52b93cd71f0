/* Calls of ours that the driver refused, each thread's own. An error code of ours must not reach a
 * later call of the program: whoever enters forgets, and tells only what happened since. */
#ifndef MDNN_FAILURE_H
#define MDNN_FAILURE_H

#include <stdbool.h>

#include <cuda.h>

#include "config/status.h"

/* Remembers a failure. OK, OUT_OF_DEVICE_MEMORY, DEVICE. */
mdnn_status_t mdnn_failure_note(CUresult result);
void mdnn_failure_forget(void);
/* The last one since; CUDA_SUCCESS: none. Forgets it. */
CUresult mdnn_failure_take(void);

/* Whether the context, or the process, does nothing more after it, so that the program's own calls
 * say the same. After others the call may be tried again. */
bool mdnn_failure_is_final(CUresult result);

#endif
