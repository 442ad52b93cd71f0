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

/* From now on there may be graphs that allocate. */
void mdnn_graph_memory_seen(void);
/* After the real call. Without host memory false: the executable is to be destroyed again. */
bool mdnn_graph_memory_instantiated(CUgraph graph, CUgraphExec executable);
/* Before the real call that destroys it: it is known no more. */
void mdnn_graph_memory_executable_ends(CUgraphExec executable);

/* Around a launch or an upload. begin: CUDA_SUCCESS, or what to return instead of it. */
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
