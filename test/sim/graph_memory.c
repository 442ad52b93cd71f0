/* Memory that is allocated in a graph: its address is given at the capture, with memory that counts
 * from then on until neither graph nor instance nor program has a use for it. Between the node (or
 * call) that frees it and the node that allocates it again it may not be touched, and each launch
 * finds it fresh. The real driver gives the memory at the first launch and lets graphs share it. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <stdlib.h>
#include <string.h>

struct sim_graph_memory {
    unsigned refs;       /* works that name it, and one while it is live */
    uint64_t address;    /* 0: gone with its context */
    uint64_t mark;       /* its range's `pending` while it may not be touched */
    bool freed_in_graph; /* by a node */
    bool live;           /* launched, with no node to free it, and not freed since */
};

sim_graph_memory_t *sim_graph_memory_hold(sim_graph_memory_t *memory)
{
    if (memory)
        memory->refs++;
    return memory;
}

void sim_graph_memory_drop(sim_graph_memory_t *memory)
{
    if (!memory || --memory->refs > 0)
        return;
    if (memory->address != 0) {
        const sim_range_t *range = sim_map_find(memory->address);
        sim_memory_given_back(sim_device(range->device), range->pages_bytes);
        sim_map_remove(memory->address);
    }
    free(memory);
}

void sim_graph_memory_lose(sim_graph_memory_t *memory)
{
    memory->address = 0;
}

static bool has_room(const sim_device_t *device, uint64_t bytes)
{
    uint64_t pages = (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE;
    return pages >= bytes && pages <= device->profile.memory_bytes - device->used_bytes;
}

CUresult sim_graph_allocate(CUstream stream, uint64_t bytes, CUdeviceptr *out)
{
    sim_range_t range;
    sim_device_t *device = sim_device(stream->context->device);
    while (!has_room(device, bytes))
        if (!sim_pools_give_back(stream->context->device))
            return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = sim_map_add_device(stream->context->device, bytes, &range);
    if (result != CUDA_SUCCESS)
        return result;
    sim_memory_taken(device, range.pages_bytes);
    sim_graph_memory_t *memory = sim_allocate(sizeof *memory);
    *memory = (sim_graph_memory_t){.refs = 1, .address = range.start, .mark = ++sim_engine.next_id};
    sim_map_edit(range.start)->graph_memory = memory;
    sim_map_edit(range.start)->pending = memory->mark;
    sim_work_t work = {.kind = SIM_ACQUIRE, .destination = range.start, .graph_memory = memory};
    *out = range.start;
    return sim_capture_add(stream, &work);
}

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
