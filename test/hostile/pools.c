/* Memory that is not the library's to move: a pool of the program's own. */
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
