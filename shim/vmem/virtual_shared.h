/* What all devices of the process share: timelines, captures, the trace, and the account of pinned
 * memory. If a budget is on and the driver has virtual memory, the first call makes it, under a
 * lock of its own, and it lives as long as the process. Any thread may call. */
#ifndef MDNN_VIRTUAL_SHARED_H
#define MDNN_VIRTUAL_SHARED_H

#include "offload/memory/trace.h"
#include "offload/memory/captures.h"
#include "shim/device/pinned_pool.h"
#include "shim/device/timelines.h"

/* false: there is no budget, the driver has no virtual memory, or host memory is short. */
bool mdnn_virtual_has_shared(void);
/* These are NULL where mdnn_virtual_has_shared is false. */
mdnn_timelines_t *mdnn_virtual_timelines(void);
mdnn_captures_t *mdnn_virtual_captures(void);
/* The same, but makes nothing; NULL: nothing was made yet. */
mdnn_timelines_t *mdnn_virtual_known_timelines(void);

/* After mdnn_virtual_has_shared. The trace is NULL without the option. */
mdnn_trace_t *mdnn_virtual_trace(void);
mdnn_host_account_t *mdnn_virtual_host(void);
/* Where the limit of that account comes from, for people. */
const char *mdnn_virtual_host_limit_origin(void);

#endif
