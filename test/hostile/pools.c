/* Memory that is not the library's to move: a pool of the program's own, and the driver's virtual
 * memory API. */
#include "test/hostile/hostile.h"

static void make_pool(thread_t *t)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {CU_MEM_LOCATION_TYPE_DEVICE, t->device}};
    OK(t, api.cuMemPoolCreate(&t->pool, &properties));
}

void pool_allocate(thread_t *t)
{
    tensor_t *const tensor = tensor_place(t);
    const int stream = stream_any(t);
    const uint64_t bytes = CHUNK;
    if (!tensor || t->gate != NO_GATE || t->pool_bytes + bytes > plan.caps.pool ||
        t->live_bytes + bytes > plan.live)
        return;
    if (!t->pool)
        make_pool(t);
    for (int i = 0; i < t->stream_count; i++)
        stream_wait(t, i); /* what it freed is the device's again */
    guard_enter(t);
    OK(t, api.cuMemPoolTrimTo(t->pool, 0));
    guard_leave(t);
    *tensor = (tensor_t){0};
    OK(t, api.cuMemAllocFromPoolAsync(&tensor->address, bytes, t->pool, t->streams[stream]));
    t->pool_bytes += bytes;
    tensor_allocated(t, tensor, POOLED, bytes, stream);
}

void pool_end(thread_t *t)
{
    if (t->pool)
        OK(t, api.cuMemPoolDestroy(t->pool));
    t->pool = NULL;
}

static const CUmemAllocationProp *properties_of(const thread_t *t, CUmemAllocationProp *out)
{
    *out = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, t->device}};
    return out;
}

static void map_handle(thread_t *t, tensor_t *tensor, uint64_t bytes)
{
    CUmemAllocationProp properties;
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, t->device},
                                    CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(t, api.cuMemAddressReserve(&tensor->address, bytes, 0, 0, 0));
    OK(t, api.cuMemCreate(&tensor->handle, bytes, properties_of(t, &properties), 0));
    OK(t, api.cuMemMap(tensor->address, bytes, 0, tensor->handle, 0));
    OK(t, api.cuMemSetAccess(tensor->address, bytes, &access, 1));
    if (draw(&t->draw, 2)) { /* the mapping keeps the memory */
        OK(t, api.cuMemRelease(tensor->handle));
        tensor->handle = 0;
    }
}

static uint64_t mapped_bytes(const thread_t *t)
{
    uint64_t bytes = 0;
    for (int i = 0; i < MOST_TENSORS; i++)
        if (t->tensors[i].address && t->tensors[i].kind == MAPPED)
            bytes += t->tensors[i].bytes;
    return bytes;
}

void handle_allocate(thread_t *t)
{
    tensor_t *const tensor = tensor_place(t);
    const int stream = stream_any(t);
    if (!tensor || t->gate != NO_GATE || mapped_bytes(t) + CHUNK > plan.caps.handles ||
        t->live_bytes + CHUNK > plan.live)
        return;
    *tensor = (tensor_t){0};
    guard_enter(t);
    map_handle(t, tensor, CHUNK);
    guard_leave(t);
    tensor_allocated(t, tensor, MAPPED, CHUNK, stream);
}

void handle_release(thread_t *t, tensor_t *tensor)
{
    const CUdeviceptr address = tensor->address;
    const uint64_t bytes = tensor->bytes;
    CUmemGenericAllocationHandle again;
    stream_wait(t, tensor->stream);
    guard_enter(t);
    if (draw(&t->draw, 2)) {
        OK(t, api.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address));
        OK(t, api.cuMemRelease(again));
    }
    OK(t, api.cuMemUnmap(address, bytes));
    if (tensor->handle)
        OK(t, api.cuMemRelease(tensor->handle));
    OK(t, api.cuMemAddressFree(address, bytes));
    guard_leave(t);
    tensor_forget(t, tensor);
}
