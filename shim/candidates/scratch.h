/* Device scratch and timing for measurements, through the driver. Lives only while one problem is
 * measured; everything is freed at the end. */
#ifndef MDNN_SCRATCH_H
#define MDNN_SCRATCH_H

#include "shim/candidates/call.h"
#include "shim/candidates/own_stream.h"

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
    mdnn_own_stream_t *own;
    CUstream stream;                         /* the stream of `own` */
    CUevent events[MDNN_SCRATCH_GROUPS + 1]; /* between groups */
    CUdeviceptr blocks[MDNN_SCRATCH_COUNT];  /* 0: none */
    uint64_t bytes[MDNN_SCRATCH_COUNT];
    double call_us;   /* how long the host took per call in the last timing */
    bool takes_all;   /* leaves no room for operations, and less to others' memory */
    bool cannot_hold; /* the GPU cannot be made to wait until everything is enqueued (`held`) */
} mdnn_scratch_t;

/* Makes events on a stream of our own, which outlives them, and allocates no memory yet. DEVICE on
 * failure, with nothing to free. */
mdnn_status_t mdnn_scratch_init(mdnn_scratch_t *scratch, const mdnn_driver_t *driver,
                                mdnn_own_stream_t *own);
/* Waits only for our own work. */
void mdnn_scratch_fini(mdnn_scratch_t *scratch);

/* Makes `use` at least `bytes` large; its content is lost. OUT_OF_DEVICE_MEMORY if the device does not have that much
 * beside a reserve for the program (a smaller one with `takes_all`); the old block is then gone, too. */
mdnn_status_t mdnn_scratch_reserve(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, uint64_t bytes);
/* Fills a block with random numbers of `type` between -1 and 1, never zero or denormal: zeros run
 * faster than real data (stream-ordered). */
mdnn_status_t mdnn_scratch_randomize(mdnn_scratch_t *scratch, mdnn_scratch_use_t use, int32_t type);

typedef struct mdnn_timed_runs {
    size_t lead;   /* untimed calls before the groups */
    size_t count;  /* calls per group */
    size_t groups; /* 1 to MDNN_SCRATCH_GROUPS */
    bool held;     /* the GPU begins when all is enqueued */
} mdnn_timed_runs_t;

/* Runs the lead and then the groups, back to back; the i-th call is calls[i % distinct]. Sets ms[g] to the milliseconds
 * per call of group g, by events. Waits for the end; BUSY if that takes so long that the calls are not worth measuring.
 * The lead keeps the GPU busy while the host enqueues, as the earlier parts of a split do. Without it, short calls
 * seemed up to 1.9 times slower than they ran (H200). If the host takes longer for a call than the GPU, no lead is long
 * enough; then only `held` keeps this from timing the host. */
mdnn_status_t mdnn_scratch_time(mdnn_scratch_t *scratch, const mdnn_call_t *calls, size_t distinct,
                                const mdnn_timed_runs_t *runs, double *ms);

#endif
