/* Memory that is allocated in a graph: its address is given with the node; memory is behind it from
 * the first launch on, until neither graph nor instance nor program has a use for it. Between the node (or
 * call) that frees it and the node that allocates it again it may not be touched, and each launch
 * finds it fresh. The real driver lets graphs share memory, and keeps it until it is trimmed. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

struct sim_graph_memory {
    unsigned refs;       /* works that name it, and one while it is live */
    uint64_t address;    /* 0: gone with its context */
    uint64_t mark;       /* its range's `pending` while it may not be touched */
    bool freed_in_graph; /* by a node */
    bool backed;         /* it was launched once */
    bool live;           /* launched, with no node to free it, and not freed since */
};

sim_graph_memory_t *sim_graph_memory_hold(sim_graph_memory_t *memory)
{
    if (memory)
        memory->refs++;
    return memory;
}

static uint64_t held[SIM_MAX_DEVICES], most_held[SIM_MAX_DEVICES];

static void give_back(int device, uint64_t bytes)
{
    held[device] -= bytes;
    sim_memory_given_back(sim_device(device), bytes);
}

void sim_graph_memory_drop(sim_graph_memory_t *memory)
{
    if (!memory || --memory->refs > 0)
        return;
    if (memory->address != 0) {
        const sim_range_t *range = sim_map_find(memory->address);
        if (memory->backed)
            give_back(range->device, range->pages_bytes);
        sim_map_remove(memory->address);
    }
    free(memory);
}

bool sim_graph_memory_lose(sim_graph_memory_t *memory)
{
    const sim_range_t *range = sim_map_find(memory->address);
    held[range->device] -= memory->backed ? range->pages_bytes : 0;
    memory->address = 0;
    return memory->backed;
}

static bool has_room(const sim_device_t *device, uint64_t bytes)
{
    uint64_t pages = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    return pages >= bytes && pages <= sim_free_bytes(device);
}

CUresult sim_graph_memory_back(const sim_work_t *node)
{
    sim_graph_memory_t *memory = node->kind == SIM_ACQUIRE ? node->graph_memory : NULL;
    if (!memory || memory->backed || memory->address == 0)
        return CUDA_SUCCESS;
    const sim_range_t *range = sim_map_find(memory->address);
    const int device = range->device;
    while (!has_room(sim_device(device), range->pages_bytes))
        if (!sim_pools_give_back(device))
            return CUDA_ERROR_OUT_OF_MEMORY;
    memory->backed = true;
    held[device] += range->pages_bytes;
    if (most_held[device] < held[device])
        most_held[device] = held[device];
    sim_memory_taken(sim_device(device), range->pages_bytes);
    return CUDA_SUCCESS;
}

/* The work of a node that allocates. */
static CUresult make_memory(int device, uint64_t bytes, sim_work_t *work)
{
    sim_range_t range;
    CUresult result = sim_map_add_device(device, bytes, &range);
    if (result != CUDA_SUCCESS)
        return result;
    sim_graph_memory_t *memory = sim_allocate(sizeof *memory);
    *memory = (sim_graph_memory_t){.refs = 1, .address = range.start, .mark = ++sim_engine.next_id};
    sim_map_edit(range.start)->graph_memory = memory;
    sim_map_edit(range.start)->pending = memory->mark;
    *work = (sim_work_t){
        .kind = SIM_ACQUIRE, .destination = range.start, .bytes = bytes, .graph_memory = memory};
    return CUDA_SUCCESS;
}

CUresult sim_graph_allocate(CUstream stream, uint64_t bytes, CUdeviceptr *out)
{
    sim_work_t work;
    CUresult result = make_memory(stream->context->device, bytes, &work);
    if (result != CUDA_SUCCESS)
        return result;
    *out = work.destination;
    return sim_capture_add(stream, &work);
}

static CUresult add_allocation(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t after_count, CUDA_MEM_ALLOC_NODE_PARAMS *how)
{
    sim_work_t work;
    if (!node || !graph || !how || how->bytesize == 0 ||
        how->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !sim_device(how->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = make_memory(how->poolProps.location.id, how->bytesize, &work);
    if (result != CUDA_SUCCESS)
        return result;
    how->dptr = work.destination;
    return sim_graph_add(graph, after, after_count, &work, node);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                size_t after_count, CUDA_MEM_ALLOC_NODE_PARAMS *how)
{
    SIM_CALL(SIM_NEED_CONTEXT, add_allocation(node, graph, after, after_count, how));
}

static CUresult add_free(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                         size_t after_count, CUdeviceptr address)
{
    const sim_range_t *range = sim_map_find(address);
    if (!node || !graph || !range || !range->graph_memory || range->graph_memory->freed_in_graph)
        return CUDA_ERROR_INVALID_VALUE;
    range->graph_memory->freed_in_graph = true;
    sim_work_t work = {.kind = SIM_SUSPEND,
                       .destination = address,
                       .graph_memory = sim_graph_memory_hold(range->graph_memory)};
    return sim_graph_add(graph, after, after_count, &work, node);
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                               size_t after_count, CUdeviceptr address)
{
    SIM_CALL(SIM_NEED_CONTEXT, add_free(node, graph, after, after_count, address));
}

/* What no graph can use any more is given back at once, so there is nothing to trim. */
SIM_ENTRY(INIT, cuDeviceGraphMemTrim, (CUdevice device),
          sim_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE)

static CUresult get_attribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    if (!sim_device(device) || !value)
        return value ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    const bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                      attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
    *(cuuint64_t *)value = high ? most_held[device] : held[device];
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuDeviceGetGraphMemAttribute,
          (CUdevice device, CUgraphMem_attribute attribute, void *value),
          get_attribute(device, attribute, value))

CUresult sim_graph_free(uint64_t address, CUstream stream)
{
    sim_graph_memory_t *memory = sim_map_find(address)->graph_memory;
    bool allowed = memory && (stream->capture ? !memory->freed_in_graph : memory->live);
    if (!allowed)
        return CUDA_ERROR_INVALID_VALUE;
    sim_work_t work = {
        .kind = SIM_SUSPEND, .destination = address, .graph_memory = sim_graph_memory_hold(memory)};
    if (stream->capture) {
        memory->freed_in_graph = true;
        return sim_capture_add(stream, &work);
    }
    sim_stream_submit(stream, &work, NULL, 0);
    memory->live = false;
    sim_graph_memory_drop(memory);
    return CUDA_SUCCESS;
}

CUresult sim_graph_free_now(sim_graph_memory_t *memory)
{
    if (!memory->live)
        return CUDA_ERROR_INVALID_VALUE;
    memory->live = false;
    sim_map_edit(memory->address)->pending = memory->mark;
    sim_graph_memory_drop(memory);
    return CUDA_SUCCESS;
}

bool sim_graph_memory_is_live(const sim_work_t *node)
{
    return node->kind == SIM_ACQUIRE && node->graph_memory && node->graph_memory->live;
}

void sim_graph_memory_launch(const sim_work_t *node)
{
    sim_graph_memory_t *memory = node->kind == SIM_ACQUIRE ? node->graph_memory : NULL;
    if (!memory || memory->freed_in_graph || memory->live)
        return;
    memory->live = true;
    memory->refs++;
}

void sim_graph_memory_run(const sim_work_t *work)
{
    const sim_graph_memory_t *memory = work->graph_memory;
    if (memory->address == 0)
        return;
    sim_range_t *range = sim_map_edit(memory->address);
    range->pending = work->kind == SIM_SUSPEND ? memory->mark : 0;
    void *content = sim_map_translate(range->start, range->bytes, SIM_ANY_DEVICE, true);
    if (content) /* not now suspended, not in timing mode */
        memset(content, 0xFF, range->bytes);
}
