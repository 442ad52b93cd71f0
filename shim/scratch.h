/* Device scratch and timing for measurements, through the driver. Lives only while one problem is
 * measured; everything is freed at the end. */
#ifndef MDNN_SCRATCH_H
#define MDNN_SCRATCH_H

#include "shim/call.h"

typedef enum mdnn_scratch_use {
    MDNN_SCRATCH_X,
    MDNN_SCRATCH_W,
    MDNN_SCRATCH_Y,
    MDNN_SCRATCH_Z,
    MDNN_SCRATCH_BIAS,
    MDNN_SCRATCH_WORKSPACE,
    MDNN_SCRATCH_COUNT
} mdnn_scratch_use_t;

enum { MDNN_SCRATCH_GROUPS = 8 }; /* timed groups that are enqueued together */

typedef struct mdnn_scratch {
    const mdnn_driver_t *driver;
    CUstream stream;
    CUevent events[MDNN_SCRATCH_GROUPS + 1]; /* between groups */
    CUdeviceptr blocks[MDNN_SCRATCH_COUNT];  /* 0: none */
    uint64_t bytes[MDNN_SCRATCH_COUNT];
} mdnn_scratch_t;

/* Events on `stream`; no memory yet. DEVICE on failure, with nothing to free. */
mdnn_status_t mdnn_scratch_init(mdnn_scratch_t *scratch, const mdnn_driver_t *driver,
                                CUstream stream);
void mdnn_scratch_fini(mdnn_scratch_t *scratch);

/* Makes `use` at least `bytes` large; what it held is lost. OUT_OF_DEVICE_MEMORY if the device does
 * not have them with a reserve left for the host; the old block is then gone too. */
mdnn_status_t mdnn_scratch_reserve(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, uint64_t bytes);
/* Fills a block with random numbers of `type` between -1 and 1, never zero or denormal: zeros run
 * faster than real data (stream-ordered). */
mdnn_status_t mdnn_scratch_randomize(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, int32_t type);

/* Runs `lead` calls untimed, then `count` timed, calls[i % distinct] each, all back to back; *ms
 * per timed call by events. Waits. The lead keeps the GPU busy while the host enqueues, as the
 * earlier parts of a split do: without it, short calls seemed up to 1.9 times slower than they ran
 * (H200). */
mdnn_status_t mdnn_scratch_time(mdnn_scratch_t *scratch, const mdnn_call_t *calls, size_t distinct,
                                size_t lead, size_t count, double *ms);
/* The same for up to MDNN_SCRATCH_GROUPS groups of `count` calls behind one lead and with one wait:
 * ms[groups]. */
mdnn_status_t mdnn_scratch_time_groups(mdnn_scratch_t *scratch, const mdnn_call_t *calls,
                                       size_t distinct, size_t lead, size_t count, size_t groups,
                                       double *ms);

#endif
