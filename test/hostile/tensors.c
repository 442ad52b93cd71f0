/* Tensors and streams of a thread: which stream a tensor's next work may be in, and what is freed
 * how. Work on a tensor is in one order: a stream that takes it over waits for the one before. */
#include "test/hostile/hostile.h"

#include <string.h>

bool is_small(uint64_t bytes)
{
    return bytes <= CHUNK / 2;
}

uint64_t most_bytes(void)
{
    const uint64_t mapped = plan.has[FEATURE_mappings] ? 4 * CHUNK : 0;
    return mapped > plan.largest ? mapped : plan.largest;
}

uint64_t footprint(uint64_t bytes)
{
    return is_small(bytes) ? 0 : (bytes + CHUNK - 1) / CHUNK * CHUNK;
}

tensor_t *tensor_any(thread_t *t)
{
    const uint32_t start = draw(&t->draw, MOST_TENSORS);
    for (uint32_t i = 0; i < MOST_TENSORS; i++)
        if (t->tensors[(start + i) % MOST_TENSORS].address)
            return &t->tensors[(start + i) % MOST_TENSORS];
    return NULL;
}

tensor_t *tensor_place(thread_t *t)
{
    for (uint32_t i = 0; i < MOST_TENSORS; i++)
        if (!t->tensors[i].address)
            return &t->tensors[i];
    return NULL;
}

int stream_any(thread_t *t)
{
    return (int)draw(&t->draw, (uint32_t)t->stream_count);
}

/* ---- streams ---- */

static void make_stream(thread_t *t, int i, draw_t *d)
{
    const uint32_t which = draw(d, 4);
    t->own_made[i] = false;
    t->blocking[i] = true;
    if (i > 0 && which == 0 && plan.has[FEATURE_legacy_stream])
        t->streams[i] = draw(d, 2) ? CU_STREAM_LEGACY : NULL;
    else if (i > 0 && which == 1 && plan.has[FEATURE_own_stream])
        t->streams[i] = CU_STREAM_PER_THREAD;
    else {
        t->blocking[i] = i > 0 && which == 2 && plan.has[FEATURE_blocking_streams];
        t->own_made[i] = true;
        OK(t, api.cuStreamCreate(&t->streams[i],
                                 t->blocking[i] ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    }
}

void streams_make(thread_t *t)
{
    draw_t d = draw_of(plan.seed, 6, t->phase, t->number);
    t->stream_count = 1 + (int)draw(&d, MOST_STREAMS);
    for (int i = 0; i < t->stream_count; i++)
        make_stream(t, i, &d);
}

void streams_end(thread_t *t)
{
    for (int i = 0; i < t->stream_count; i++) {
        OK(t, api.cuStreamSynchronize(t->streams[i]));
        if (t->own_made[i])
            OK(t, api.cuStreamDestroy(t->streams[i]));
    }
}

void stream_wait(thread_t *t, int stream)
{
    OK(t, api.cuStreamSynchronize(t->streams[stream]));
}

/* A stream is destroyed with work in it; what was done there is ordered by an event, and counts as
 * done in the first stream. Graphs captured there live on. */
void stream_replace(thread_t *t)
{
    const int i = stream_any(t);
    if (i == 0 || !t->own_made[i] || t->gated[i] || t->gated[0])
        return;
    OK(t, api.cuEventRecord(t->event, t->streams[i]));
    OK(t, api.cuStreamWaitEvent(t->streams[0], t->event, 0));
    OK(t, api.cuStreamDestroy(t->streams[i]));
    for (int j = 0; j < MOST_TENSORS; j++)
        if (t->tensors[j].address && t->tensors[j].stream == i)
            t->tensors[j].stream = 0;
    OK(t, api.cuStreamCreate(&t->streams[i],
                             t->blocking[i] ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
}

static bool listed(tensor_t *const *tensors, unsigned count, const tensor_t *tensor)
{
    for (unsigned i = 0; i < count; i++)
        if (tensors[i] == tensor)
            return true;
    return false;
}

/* Whether work there would wait for the host, and how many bytes more would be held up. */
static bool would_be_gated(const thread_t *t, int stream, tensor_t *const *tensors, unsigned count,
                           uint64_t *more)
{
    bool gated = t->gated[stream];
    *more = 0;
    for (unsigned i = 0; i < count; i++)
        gated = gated || t->gated[tensors[i]->stream];
    for (unsigned i = 0; i < count; i++)
        if (!tensors[i]->gated && !listed(tensors, i, tensors[i]))
            *more += footprint(tensors[i]->bytes);
    return gated;
}

/* What waits for the host may be held up in streams that nothing else waits for, and only so much.
 */
static bool may_follow(thread_t *t, int stream, tensor_t *const *tensors, unsigned count)
{
    uint64_t more, all = 0;
    for (unsigned i = 0; i < count; i++)
        all += listed(tensors, i, tensors[i]) ? 0 : footprint(tensors[i]->bytes);
    if (all > plan.caps.operation)
        return false;
    if (!would_be_gated(t, stream, tensors, count, &more))
        return true;
    if (t->blocking[stream] || t->gated_bytes + more > plan.caps.gated)
        return false;
    t->gated_bytes += more;
    t->gated[stream] = true;
    for (unsigned i = 0; i < count; i++)
        tensors[i]->gated = true;
    return true;
}

bool streams_follow(thread_t *t, int stream, tensor_t *const *tensors, unsigned count)
{
    if (!may_follow(t, stream, tensors, count))
        return false;
    for (unsigned i = 0; i < count; i++) {
        if (tensors[i]->stream == stream)
            continue;
        OK(t, api.cuEventRecord(t->event, t->streams[tensors[i]->stream]));
        OK(t, api.cuStreamWaitEvent(t->streams[stream], t->event, 0));
        tensors[i]->stream = stream;
    }
    return true;
}

/* ---- allocation ---- */

/* Sizes of small tensors differ from phase to phase. */
static uint64_t small_size(thread_t *t)
{
    draw_t d = draw_of(plan.seed, 7, t->phase, 0);
    const uint64_t base = UINT64_C(256) << draw(&d, 12);
    return (base + base * draw(&t->draw, 4) / 4 + 15) / 16 * 16;
}

static uint64_t pick_size(thread_t *t)
{
    if (plan.has[FEATURE_small] && draw(&t->draw, 3) == 0)
        return small_size(t);
    const uint64_t least = CHUNK / 2 + 16;
    const bool large = draw(&t->draw, 3) == 0 || (plan.has[FEATURE_tails] && draw(&t->draw, 2));
    const uint64_t most = large ? plan.largest : CHUNK;
    const uint64_t bytes = least + draw(&t->draw, (uint32_t)(most - least + 1));
    if (draw(&t->draw, 2)) /* quick to fill, yet a chunk of its own */
        return least + 16 * (uint64_t)draw(&t->draw, 4096);
    return draw(&t->draw, 4) == 0 ? most : bytes / 16 * 16;
}

static bool has_room(const thread_t *t, uint64_t bytes)
{
    if (is_small(bytes))
        return t->small_bytes + bytes <= plan.caps.small / 2;
    return t->live_bytes + footprint(bytes) <= plan.live;
}

void tensor_allocated(thread_t *t, tensor_t *tensor, tensor_kind_t kind, uint64_t bytes, int stream)
{
    tensor->bytes = bytes;
    tensor->kind = kind;
    tensor->stream = stream;
    if (is_small(bytes))
        t->small_bytes += bytes;
    else
        t->live_bytes += footprint(bytes);
    if (plan.tight) {
        tensor->model = malloc(bytes);
        MUST(t, tensor->model);
    }
    tensor_fill(t, tensor);
}

static bool allocate_plain(thread_t *t, tensor_t *tensor, uint64_t *bytes, tensor_kind_t *kind)
{
    size_t pitch = 0;
    guard_enter(t);
    *kind = !is_small(*bytes) && draw(&t->draw, 8) == 0 ? PITCHED : PLAIN;
    const bool done =
        *kind == PITCHED
            ? OK(t, api.cuMemAllocPitch(&tensor->address, &pitch, 1024, *bytes / 1024, 4))
            : OK(t, api.cuMemAlloc(&tensor->address, *bytes));
    guard_leave(t);
    if (*kind == PITCHED)
        *bytes = *bytes / 1024 * 1024;
    return done;
}

void tensor_allocate(thread_t *t)
{
    tensor_t *const tensor = tensor_place(t);
    uint64_t bytes = pick_size(t);
    const int stream = stream_any(t);
    tensor_kind_t kind = ORDERED;
    if (!tensor || !has_room(t, bytes) || t->gated[stream])
        return;
    *tensor = (tensor_t){0};
    if (plan.has[FEATURE_ordered] && chance(&t->draw, 70)) {
        if (!OK(t, api.cuMemAllocAsync(&tensor->address, bytes, t->streams[stream])))
            return;
    } else if (!allocate_plain(t, tensor, &bytes, &kind)) {
        return;
    }
    tensor_allocated(t, tensor, kind, bytes, stream);
}

void tensor_fill(thread_t *t, tensor_t *tensor)
{
    const uint32_t value = draw(&t->draw, 1 << 30);
    uint32_t n = (uint32_t)(tensor->bytes / 4);
    if (chance(&t->draw, 50)) {
        if (!OK(t, api.cuMemsetD32Async(tensor->address, value, n, t->streams[tensor->stream])))
            return;
        for (uint32_t i = 0; tensor->model && i < n; i++)
            tensor->model[i] = value;
        return;
    }
    void *parameters[] = {&tensor->address, &n, (void *)(uintptr_t)&value};
    if (OK(t, api.cuLaunchKernel(kernel_function(KERNEL_FILL), 1, 1, 1, 256, 1, 1, 0,
                                 t->streams[tensor->stream], parameters, NULL)) &&
        tensor->model)
        fill_words(tensor->model, n, value);
}

/* ---- the end of a tensor ---- */

void tensor_forget(thread_t *t, tensor_t *tensor)
{
    if (is_small(tensor->bytes))
        t->small_bytes -= tensor->bytes;
    else
        t->live_bytes -= footprint(tensor->bytes);
    if (tensor->kind == POOLED)
        t->pool_bytes -= footprint(tensor->bytes);
    for (int i = 0; i < MOST_GRAPHS; i++)
        if (tensor->graphs >> i & 1)
            t->graphs[i].stale = true;
    free(tensor->model);
    *tensor = (tensor_t){0};
}

/* Waiting for all that the device does would wait for the host, too. */
static void free_now(thread_t *t, tensor_t *tensor)
{
    guard_enter(t);
    const bool done = OK(t, api.cuMemFree(tensor->address));
    guard_leave(t);
    if (done)
        tensor_forget(t, tensor);
}

void tensor_release(thread_t *t, tensor_t *tensor, bool in_flight)
{
    if (tensor->kind == IN_GRAPH || (tensor->graphs && t->gate != NO_GATE))
        return;
    if (!in_flight) {
        if (t->gated[tensor->stream])
            return;
        stream_wait(t, tensor->stream);
    }
    if (tensor->kind == MAPPED) {
        if (t->gate == NO_GATE)
            mapping_release(t, tensor);
        return;
    }
    if (tensor->kind == PLAIN || tensor->kind == PITCHED) {
        if (t->gate == NO_GATE)
            free_now(t, tensor);
        return;
    }
    int stream = tensor->stream;
    if (draw(&t->draw, 3) == 0)
        stream = stream_any(t);
    if ((t->gated[stream] || tensor->gated) && !plan.has[FEATURE_gated_frees])
        return;
    if (!streams_follow(t, stream, &tensor, 1))
        return;
    if (draw(&t->draw, 8) == 0 && t->gate == NO_GATE)
        free_now(t, tensor);
    else if (OK(t, api.cuMemFreeAsync(tensor->address, t->streams[stream])))
        tensor_forget(t, tensor);
}

void tensor_free_some(thread_t *t)
{
    tensor_t *const tensor = tensor_any(t);
    if (tensor)
        tensor_release(t, tensor, plan.has[FEATURE_frees_in_flight] && chance(&t->draw, 70));
}

void tensor_read(thread_t *t, tensor_t *tensor)
{
    if (t->gated[tensor->stream])
        return;
    unsigned char *const to =
        plan.has[FEATURE_pageable] && draw(&t->draw, 2) ? t->back + most_bytes() : t->back;
    if (!OK(t,
            api.cuMemcpyDtoHAsync(to, tensor->address, tensor->bytes, t->streams[tensor->stream])))
        return;
    stream_wait(t, tensor->stream);
    thread_note_bytes(t, to, tensor->bytes);
    if (tensor->model)
        MUST(t, memcmp(to, tensor->model, tensor->bytes) == 0);
}
