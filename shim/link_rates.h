/* How fast the link between host and device copies. */
#ifndef MDNN_LINK_RATES_H
#define MDNN_LINK_RATES_H

#include "offload/replay.h"
#include "shim/real.h"

/* Copies between device memory of its own and pinned host memory at `host`, `bytes` large, in one
 * direction after the other and in both at once, by events in the two streams; a few milliseconds.
 * The context is current; nothing of the program's waits for it. DEVICE or OUT_OF_DEVICE_MEMORY:
 * *link is untouched. */
mdnn_status_t mdnn_link_measure(const mdnn_driver_t *driver, CUstream in, CUstream out,
                                uint64_t host, uint64_t bytes, mdnn_link_t *link);

#endif
