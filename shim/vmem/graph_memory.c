#include "shim/vmem/graph_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "config/lock.h"
#include "shim/real/driver_queries.h"

/* What one executable allocates of one device. */
typedef struct use {
    CUgraphExec executable;
    CUdevice device;
    uint64_t bytes;
    bool backed; /* it has run, and the driver has kept its memory */
    struct use *next;
} use_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(GRAPH_MEMORY); /* of `uses` */
static use_t *uses;
static _Atomic bool seen;

void mdnn_graph_memory_seen(void)
{
    atomic_store(&seen, true);
}

/* ---- what a graph allocates ---- */

typedef struct sums {
    uint64_t bytes[64]; /* by device */
    bool failed;
} sums_t;

static void add_node(sums_t *sums, const CUDA_MEM_ALLOC_NODE_PARAMS *node)
{
    const int device = node->poolProps.location.id;
    if (node->poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE && device >= 0 && device < 64)
        sums->bytes[device] += (node->bytesize + (2 << 20) - 1) >> 21 << 21;
}

static void add_graph(sums_t *sums, CUgraph graph);

static void add_any(sums_t *sums, CUgraphNode node)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    CUgraph child;
    if (ask->cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
        sums->failed = true;
    else if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
             ask->cuGraphMemAllocNodeGetParams(node, &parameters) == CUDA_SUCCESS)
        add_node(sums, &parameters);
    else if (type == CU_GRAPH_NODE_TYPE_GRAPH &&
             ask->cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
        add_graph(sums, child);
}

static void add_graph(sums_t *sums, CUgraph graph)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    size_t count = 0;
    if (ask->cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0)
        return;
    CUgraphNode *const nodes = malloc(count * sizeof *nodes);
    sums->failed |= !nodes;
    if (nodes && ask->cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++)
            add_any(sums, nodes[i]);
    free(nodes);
}

static bool can_ask(void)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    return ask->cuGraphGetNodes && ask->cuGraphNodeGetType && ask->cuGraphMemAllocNodeGetParams &&
           ask->cuGraphChildGraphNodeGetGraph && ask->cuDeviceGetGraphMemAttribute;
}

static bool add_use(CUgraphExec executable, CUdevice device, uint64_t bytes)
{
    use_t *const use = malloc(sizeof *use);
    if (!use || !mdnn_reserved_of_graphs(device)) {
        free(use);
        return false;
    }
    mdnn_lock(&lock);
    *use = (use_t){.executable = executable, .device = device, .bytes = bytes, .next = uses};
    uses = use;
    mdnn_unlock(&lock);
    return true;
}

bool mdnn_graph_memory_instantiated(CUgraph graph, CUgraphExec executable)
{
    sums_t sums = {0};
    if (!atomic_load(&seen) || !can_ask())
        return true;
    add_graph(&sums, graph);
    bool known = !sums.failed;
    for (int device = 0; known && device < 64; device++)
        if (sums.bytes[device] > 0)
            known = add_use(executable, device, sums.bytes[device]);
    if (!known)
        mdnn_graph_memory_executable_ends(executable);
    return known;
}

void mdnn_graph_memory_executable_ends(CUgraphExec executable)
{
    if (!atomic_load(&seen))
        return;
    mdnn_lock(&lock);
    for (use_t **at = &uses; *at;) {
        use_t *const use = *at;
        if (use->executable != executable) {
            at = &use->next;
            continue;
        }
        *at = use->next;
        free(use);
    }
    mdnn_unlock(&lock);
}

/* ---- launches ---- */

/* What it may take now; devices in which its memory is there already are in it, too, with 0. */
static void find_growth(mdnn_graph_growth_t *growth)
{
    CUdevice devices[MDNN_DEVICES];
    mdnn_lock(&lock);
    for (const use_t *use = uses; use && growth->count < MDNN_DEVICES; use = use->next)
        if (use->executable == growth->executable) {
            devices[growth->count] = use->device;
            growth->bytes[growth->count++] = use->backed ? 0 : use->bytes;
        }
    mdnn_unlock(&lock);
    for (size_t i = 0; i < growth->count; i++)
        growth->reserved[i] = mdnn_reserved_of_graphs(devices[i]); /* it is there */
}

CUresult mdnn_graph_memory_begin(CUgraphExec executable, mdnn_graph_growth_t *growth)
{
    growth->executable = executable;
    growth->count = 0;
    if (!atomic_load(&seen))
        return CUDA_SUCCESS;
    find_growth(growth);
    for (size_t i = 0; i < growth->count; i++) {
        const uint64_t bytes = growth->bytes[i];
        growth->bytes[i] = 0;
        const CUresult result =
            bytes > 0 ? mdnn_reserved_begin(growth->reserved[i], bytes, &growth->bytes[i])
                      : CUDA_SUCCESS;
        if (result != CUDA_SUCCESS) {
            growth->count = i;
            mdnn_graph_memory_end(growth, false);
            return result;
        }
    }
    return CUDA_SUCCESS;
}

void mdnn_graph_memory_end(mdnn_graph_growth_t *growth, bool success)
{
    if (growth->count == 0)
        return;
    mdnn_lock(&lock);
    for (use_t *use = uses; use && success; use = use->next)
        use->backed = use->backed || use->executable == growth->executable;
    mdnn_unlock(&lock);
    for (size_t i = 0; i < growth->count; i++)
        (void)mdnn_reserved_end(growth->reserved[i], growth->bytes[i]); /* else it counts */
}

void mdnn_graph_memory_trimmed(CUdevice device)
{
    if (!atomic_load(&seen))
        return;
    mdnn_lock(&lock);
    for (use_t *use = uses; use; use = use->next)
        use->backed = use->backed && use->device != device;
    mdnn_unlock(&lock);
    mdnn_reserved_t *const reserved = mdnn_reserved_of_graphs(device);
    if (reserved)
        mdnn_reserved_settle(reserved);
}
