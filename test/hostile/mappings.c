/* Memory of the driver's virtual memory API: handles, reserved addresses and mappings, which change while other work is
 * queued. What is mapped whole is the library's to move; what is not is the driver's. */
#include "test/hostile/hostile.h"

#include <string.h>

/* Its own size is that of its handles, all alike. */
static uint64_t piece_bytes(const tensor_t *tensor)
{
    return tensor->bytes / tensor->pieces;
}

static CUmemAccessDesc access_of(const thread_t *t, CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, t->device}, flags};
}

static void set_access(thread_t *t, CUdeviceptr address, uint64_t bytes, CUmemAccess_flags flags)
{
    const CUmemAccessDesc access = access_of(t, flags);
    OK(t, api.cuMemSetAccess(address, bytes, &access, 1));
}

/* ---- addresses ---- */

/* Addresses that the tensor fills, or of which it is a part; returns where in them it is to lie. */
static CUdeviceptr reserve(thread_t *t, uint64_t bytes, addresses_t *addresses)
{
    uint64_t before = 0, after = 0;
    if (plan.has[FEATURE_mappings] && draw(&t->draw, 3) == 0) {
        before = draw(&t->draw, 3) * CHUNK;
        after = draw(&t->draw, 3) * CHUNK;
    }
    addresses->bytes = before + bytes + after;
    OK(t, api.cuMemAddressReserve(&addresses->start, addresses->bytes, 0, 0, 0));
    return addresses->start + before;
}

static void free_addresses(thread_t *t, addresses_t *addresses)
{
    OK(t, api.cuMemAddressFree(addresses->start, addresses->bytes));
    *addresses = (addresses_t){0};
}

/* ---- mappings ---- */

static void map(thread_t *t, tensor_t *tensor, CUdeviceptr address)
{
    const uint64_t each = piece_bytes(tensor);
    const bool apart = tensor->pieces > 1 && draw(&t->draw, 2);
    for (unsigned i = 0; i < tensor->pieces; i++) {
        OK(t, api.cuMemMap(address + i * each, each, 0, tensor->handles[i], 0));
        if (apart)
            set_access(t, address + i * each, each, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    }
    if (!apart)
        set_access(t, address, tensor->bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

static void unmap(thread_t *t, const tensor_t *tensor, CUdeviceptr address)
{
    const uint64_t each = piece_bytes(tensor);
    if (tensor->pieces == 1 || draw(&t->draw, 2)) {
        OK(t, api.cuMemUnmap(address, tensor->bytes));
        return;
    }
    for (unsigned i = tensor->pieces; i > 0; i--)
        OK(t, api.cuMemUnmap(address + (i - 1) * each, each));
}

/* ---- handles ---- */

static void create(thread_t *t, tensor_t *tensor)
{
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, t->device}};
    for (unsigned i = 0; i < tensor->pieces; i++)
        OK(t, api.cuMemCreate(&tensor->handles[i], piece_bytes(tensor), &properties, 0));
}

/* The mapping keeps the memory. */
static void release(thread_t *t, tensor_t *tensor)
{
    for (unsigned i = 0; i < tensor->pieces && tensor->handles[0]; i++)
        OK(t, api.cuMemRelease(tensor->handles[i]));
    memset(tensor->handles, 0, sizeof tensor->handles);
}

static void retain(thread_t *t, tensor_t *tensor)
{
    const uint64_t each = piece_bytes(tensor);
    for (unsigned i = 0; i < tensor->pieces; i++) {
        const CUdeviceptr at = tensor->address + i * each + draw(&t->draw, (uint32_t)each);
        OK(t, api.cuMemRetainAllocationHandle(&tensor->handles[i], (void *)(uintptr_t)at));
    }
}

static uint64_t mapped_bytes(const thread_t *t)
{
    uint64_t bytes = t->parked.bytes;
    for (int i = 0; i < MOST_TENSORS; i++)
        if (t->tensors[i].address && t->tensors[i].kind == MAPPED)
            bytes += t->tensors[i].bytes;
    return bytes;
}

/* What becomes the driver's is there twice for a moment. */
static uint64_t most_mapped(void)
{
    return plan.has[FEATURE_mappings] ? plan.caps.handles / 2 : plan.caps.handles;
}

static void draw_size(thread_t *t, tensor_t *tensor)
{
    tensor->pieces = 1;
    tensor->bytes = CHUNK;
    if (plan.has[FEATURE_mappings]) {
        tensor->pieces = 1 + (draw(&t->draw, 3) == 0);
        tensor->bytes *= tensor->pieces * (1 + (uint64_t)(draw(&t->draw, 3) == 0));
    }
}

void mapping_allocate(thread_t *t)
{
    tensor_t *const tensor = tensor_place(t);
    const int stream = stream_any(t);
    tensor_t region = {.kind = MAPPED};
    if (!tensor || t->gate != NO_GATE)
        return;
    draw_size(t, &region);
    if (mapped_bytes(t) + region.bytes > most_mapped() || t->live_bytes + region.bytes > plan.live)
        return;
    guard_enter(t);
    const bool first = !plan.has[FEATURE_mappings] || draw(&t->draw, 2);
    if (first)
        region.address = reserve(t, region.bytes, &region.addresses);
    create(t, &region);
    if (!first)
        region.address = reserve(t, region.bytes, &region.addresses);
    map(t, &region, region.address);
    if (draw(&t->draw, 2))
        release(t, &region);
    guard_leave(t);
    *tensor = region;
    tensor_allocated(t, tensor, MAPPED, region.bytes, stream);
}

/* ---- changes ---- */

static void end_alias(thread_t *t, tensor_t *tensor)
{
    if (!tensor->alias)
        return;
    unmap(t, tensor, tensor->alias);
    free_addresses(t, &tensor->alias_addresses);
    tensor->alias = 0;
}

static void map_anew(thread_t *t, tensor_t *tensor)
{
    unmap(t, tensor, tensor->address);
    map(t, tensor, tensor->address);
}

static void map_elsewhere(thread_t *t, tensor_t *tensor)
{
    addresses_t old = tensor->addresses;
    const bool first = draw(&t->draw, 2);
    unmap(t, tensor, tensor->address);
    if (first)
        free_addresses(t, &old);
    tensor->address = reserve(t, tensor->bytes, &tensor->addresses);
    map(t, tensor, tensor->address);
    if (!first)
        free_addresses(t, &old);
}

/* The same memory at two addresses, of which work uses now one, now the other. */
static void map_twice(thread_t *t, tensor_t *tensor)
{
    const CUdeviceptr address = tensor->address;
    const addresses_t addresses = tensor->addresses;
    if (tensor->alias) {
        tensor->address = tensor->alias;
        tensor->addresses = tensor->alias_addresses;
        tensor->alias = address;
        tensor->alias_addresses = addresses;
        return;
    }
    tensor->alias = reserve(t, tensor->bytes, &tensor->alias_addresses);
    map(t, tensor, tensor->alias);
}

static void change_access(thread_t *t, tensor_t *tensor)
{
    const uint64_t each = piece_bytes(tensor);
    const CUdeviceptr at = tensor->address + each * draw(&t->draw, tensor->pieces);
    const CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, t->device};
    unsigned long long flags = 0;
    if (draw(&t->draw, 2))
        set_access(t, at, each, CU_MEM_ACCESS_FLAGS_PROT_READ);
    OK(t, api.cuMemGetAccess(&flags, &location, at + draw(&t->draw, (uint32_t)each)));
    thread_note(t, flags);
    set_access(t, at, each, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

/* Other memory at the same addresses. */
static void exchange(thread_t *t, tensor_t *tensor)
{
    end_alias(t, tensor);
    if (draw(&t->draw, 2))
        release(t, tensor);
    unmap(t, tensor, tensor->address);
    release(t, tensor);
    create(t, tensor);
    map(t, tensor, tensor->address);
}

/* Its content is nowhere mapped for a while. */
static void park(thread_t *t, tensor_t *tensor)
{
    if (t->parked.bytes > 0)
        return;
    end_alias(t, tensor);
    unmap(t, tensor, tensor->address);
    t->parked = *tensor;
    *tensor = (tensor_t){0};
}

void mapping_unpark(thread_t *t)
{
    tensor_t *const tensor = tensor_place(t);
    if (t->parked.bytes == 0 || !tensor || t->gate != NO_GATE)
        return;
    *tensor = t->parked;
    t->parked = (tensor_t){0};
    guard_enter(t);
    if (draw(&t->draw, 2)) {
        free_addresses(t, &tensor->addresses);
        tensor->address = reserve(t, tensor->bytes, &tensor->addresses);
    }
    map(t, tensor, tensor->address);
    guard_leave(t);
}

static tensor_t *any_mapped(thread_t *t)
{
    const uint32_t start = draw(&t->draw, MOST_TENSORS);
    for (uint32_t i = 0; i < MOST_TENSORS; i++) {
        tensor_t *const tensor = &t->tensors[(start + i) % MOST_TENSORS];
        if (tensor->address && tensor->kind == MAPPED && !tensor->graphs)
            return tensor;
    }
    return NULL;
}

static void change(thread_t *t, tensor_t *tensor)
{
    const uint32_t which = draw(&t->draw, 9);
    if (!tensor->handles[0])
        retain(t, tensor);
    if (which == 0)
        map_anew(t, tensor);
    else if (which == 1)
        map_elsewhere(t, tensor);
    else if (which < 5)
        map_twice(t, tensor);
    else if (which == 5)
        change_access(t, tensor);
    else if (which == 6)
        exchange(t, tensor);
    else if (which == 7)
        park(t, tensor);
    else
        end_alias(t, tensor);
    if (tensor->address && draw(&t->draw, 3) == 0)
        release(t, tensor);
    if (which == 6)
        tensor_fill(t, tensor);
}

/* Work on other tensors goes on meanwhile. */
void mapping_change(thread_t *t)
{
    if (t->gate != NO_GATE)
        return;
    if (t->parked.bytes > 0 && draw(&t->draw, 2)) {
        mapping_unpark(t);
        return;
    }
    tensor_t *const tensor = any_mapped(t);
    if (!tensor)
        return;
    stream_wait(t, tensor->stream);
    guard_enter(t);
    change(t, tensor);
    guard_leave(t);
}

/* ---- the end ---- */

void mapping_release(thread_t *t, tensor_t *tensor)
{
    stream_wait(t, tensor->stream);
    guard_enter(t);
    if (draw(&t->draw, 2)) {
        release(t, tensor);
        retain(t, tensor);
    }
    end_alias(t, tensor);
    const bool early = draw(&t->draw, 2);
    if (early)
        release(t, tensor);
    unmap(t, tensor, tensor->address);
    if (!early)
        release(t, tensor);
    free_addresses(t, &tensor->addresses);
    guard_leave(t);
    tensor_forget(t, tensor);
}
