/* Our own kernels (shim/real/kernels.cu), which the library carries as PTX: loaded into each context that
 * wants one. */
#ifndef MDNN_KERNELS_H
#define MDNN_KERNELS_H

#include "config/status.h"
#include "shim/real/real.h"

typedef struct mdnn_kernels {
    CUfunction accumulate_bfloat16; /* shim/candidates/accumulate.h */
    CUfunction hold; /* (nanoseconds, uint64_t), one thread: does nothing for so long */
} mdnn_kernels_t;

/* Those of the current context, loaded once per context; they live as long as that. DEVICE if that
 * fails, UNSUPPORTED for too many contexts. Must not run during stream capture. The planner's
 * alone (planning.h). */
mdnn_status_t mdnn_kernels_get(const mdnn_kernels_t **kernels);

#endif
