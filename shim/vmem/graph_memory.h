/* Device memory that graphs allocate when they run (nodes of cuGraphAddMemAllocNode, and captured
 * allocations that are not virtual): the driver takes it at a launch, and keeps it until
 * cuDeviceGraphMemTrim. Thread-safe; only inside hooks. */
#ifndef MDNN_GRAPH_MEMORY_H
#define MDNN_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "config/devices.h"
#include "shim/vmem/reserved_memory.h"

/* Notes that there may be graphs that allocate from now on. */
void mdnn_graph_memory_seen(void);
/* Called after the real call. False if host memory is short: the executable must be destroyed
 * again. */
bool mdnn_graph_memory_instantiated(CUgraph graph, CUgraphExec executable);
/* Called before the real call that destroys the executable; forgets it. */
void mdnn_graph_memory_executable_ends(CUgraphExec executable);

/* Called around a launch or an upload. begin returns CUDA_SUCCESS, or the result to return instead
 * of the call. */
typedef struct mdnn_graph_growth {
    CUgraphExec executable;
    size_t count;
    mdnn_reserved_t *reserved[MDNN_DEVICES];
    uint64_t bytes[MDNN_DEVICES];
} mdnn_graph_growth_t;
CUresult mdnn_graph_memory_begin(CUgraphExec executable, mdnn_graph_growth_t *growth);
void mdnn_graph_memory_end(mdnn_graph_growth_t *growth, bool success);
/* After cuDeviceGraphMemTrim. */
void mdnn_graph_memory_trimmed(CUdevice device);

#endif
