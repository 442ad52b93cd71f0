/* Kernels, copies, fills, and questions about addresses. */
#include "test/hostile/hostile.h"

#include <string.h>

/* A part of a tensor that an operand is: `n` words from `first` on. */
typedef struct part {
    tensor_t *tensor;
    uint32_t first;
} part_t;

static uint32_t words_of(const tensor_t *tensor)
{
    return (uint32_t)(tensor->bytes / 4);
}

static CUdeviceptr address_of(const part_t *part)
{
    return part->tensor->address + (uint64_t)part->first * 4;
}

static uint32_t *model_of(const part_t *part)
{
    return part->tensor->model + part->first;
}

/* As many words as all operands have, and where each begins. */
static uint32_t place_parts(thread_t *t, part_t *parts, tensor_t *const *tensors, unsigned count)
{
    uint32_t n = UINT32_MAX;
    for (unsigned i = 0; i < count; i++)
        n = words_of(tensors[i]) < n ? words_of(tensors[i]) : n;
    if (plan.has[FEATURE_interior] && draw(&t->draw, 2))
        n = 1 + draw(&t->draw, n);
    for (unsigned i = 0; i < count; i++) {
        const uint32_t room = words_of(tensors[i]) - n;
        parts[i] = (part_t){tensors[i], 0};
        if (plan.has[FEATURE_interior] && room > 0 && draw(&t->draw, 2))
            parts[i].first = draw(&t->draw, 2) ? room : draw(&t->draw, room);
    }
    return n;
}

static bool launch(thread_t *t, CUstream stream, enum kernel kernel, void **parameters)
{
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 128,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = stream};
    if (draw(&t->draw, 3) == 0)
        return OK(t, api.cuLaunchKernelEx(&config, kernel_function(kernel), parameters, NULL));
    return OK(t, api.cuLaunchKernel(kernel_function(kernel), 1, 1, 1, 128, 1, 1, 0, stream,
                                    parameters, NULL));
}

static bool launch_two(thread_t *t, CUstream stream, const part_t *parts, uint32_t n,
                       uint32_t stride, bool model)
{
    uint32_t k = draw(&t->draw, 1000);
    CUdeviceptr a = address_of(&parts[0]), b = address_of(&parts[1]);
    void *parameters[] = {&a, &b, &n, &stride, &k};
    if (!launch(t, stream, KERNEL_TWO, parameters))
        return false;
    if (model)
        mix_two(model_of(&parts[0]), model_of(&parts[1]), n, stride, k);
    return true;
}

static bool launch_four(thread_t *t, CUstream stream, const part_t *parts, uint32_t n,
                        uint32_t stride, bool model)
{
    uint32_t k = draw(&t->draw, 1000);
    CUdeviceptr all[4];
    void *parameters[] = {&all[0], &all[1], &all[2], &all[3], &n, &stride, &k};
    for (int i = 0; i < 4; i++)
        all[i] = address_of(&parts[i]);
    if (!launch(t, stream, KERNEL_FOUR, parameters))
        return false;
    if (model)
        mix_four((uint32_t *const[]){model_of(&parts[0]), model_of(&parts[1]), model_of(&parts[2]),
                                     model_of(&parts[3])},
                 n, stride, k);
    return true;
}

bool launch_on(thread_t *t, CUstream stream, tensor_t *const *tensors, unsigned count)
{
    part_t parts[MOST_OPERANDS];
    tensor_t *all[MOST_OPERANDS];
    const bool four = count > 2 || draw(&t->draw, 3) == 0;
    for (unsigned i = 0; i < MOST_OPERANDS; i++)
        all[i] = tensors[i < count ? i : draw(&t->draw, count)];
    const uint32_t n = place_parts(t, parts, all, four ? 4 : 2);
    const uint32_t stride = n / 2048 + 1;
    const bool model = all[0]->model != NULL;
    return four ? launch_four(t, stream, parts, n, stride, model)
                : launch_two(t, stream, parts, n, stride, model);
}

static unsigned some_tensors(thread_t *t, tensor_t **tensors)
{
    unsigned count = 1 + draw(&t->draw, MOST_OPERANDS);
    for (unsigned i = 0; i < count; i++)
        tensors[i] = tensor_any(t);
    if (!tensors[0])
        return 0;
    if (plan.has[FEATURE_two_addresses] && count > 1 && draw(&t->draw, 3) == 0)
        tensors[1] = tensors[0];
    return count;
}

void work_launch(thread_t *t)
{
    tensor_t *tensors[MOST_OPERANDS];
    const int stream = stream_any(t);
    const unsigned count = some_tensors(t, tensors);
    if (count > 0 && streams_follow(t, stream, tensors, count))
        launch_on(t, t->streams[stream], tensors, count);
}

static void copy_words(thread_t *t, int stream, tensor_t *to, tensor_t *from)
{
    const uint32_t most = words_of(to) < words_of(from) ? words_of(to) : words_of(from);
    const uint32_t n = 1 + draw(&t->draw, most);
    const part_t target = {to, words_of(to) - n}, source = {from, words_of(from) - n};
    const uint64_t bytes = (uint64_t)n * 4;
    const bool unified = draw(&t->draw, 2) != 0;
    const bool done = unified
                          ? OK(t, api.cuMemcpyAsync(address_of(&target), address_of(&source), bytes,
                                                    t->streams[stream]))
                          : OK(t, api.cuMemcpyDtoDAsync(address_of(&target), address_of(&source),
                                                        bytes, t->streams[stream]));
    if (done && to->model)
        memcpy(model_of(&target), model_of(&source), bytes);
}

void work_copy(thread_t *t)
{
    tensor_t *pair[2] = {tensor_any(t), tensor_any(t)};
    const int stream = stream_any(t);
    if (pair[0] && pair[0] != pair[1] && streams_follow(t, stream, pair, 2))
        copy_words(t, stream, pair[0], pair[1]);
}

/* From memory that never changes. A copy from pageable memory makes the host wait. */
void work_upload(thread_t *t)
{
    tensor_t *tensor = tensor_any(t);
    const int stream = stream_any(t);
    const bool pageable = plan.has[FEATURE_pageable] && draw(&t->draw, 2);
    if (!tensor || (pageable && t->gate != NO_GATE) || !streams_follow(t, stream, &tensor, 1))
        return;
    const uint64_t most = tensor->bytes < SOURCE_BYTES ? tensor->bytes : SOURCE_BYTES;
    const uint64_t bytes = 16 * (1 + (uint64_t)draw(&t->draw, (uint32_t)(most / 16)));
    const uint64_t at = tensor->bytes - bytes, from = draw(&t->draw, 64) * 16;
    const unsigned char *const source = (pageable ? t->pageable : t->pinned) + from;
    if (OK(t, api.cuMemcpyHtoDAsync(tensor->address + at, source, bytes, t->streams[stream])) &&
        tensor->model)
        memcpy((char *)tensor->model + at, source, bytes);
}

void work_set(thread_t *t)
{
    tensor_t *tensor = tensor_any(t);
    const int stream = stream_any(t);
    if (!tensor || !streams_follow(t, stream, &tensor, 1))
        return;
    const uint32_t n = 1 + draw(&t->draw, words_of(tensor)), value = draw(&t->draw, 1 << 30);
    const part_t part = {tensor, words_of(tensor) - n};
    if (!OK(t, api.cuMemsetD32Async(address_of(&part), value, n, t->streams[stream])))
        return;
    for (uint32_t i = 0; tensor->model && i < n; i++)
        model_of(&part)[i] = value;
}

/* ---- tables of pointers ---- */

enum { MOST_ROWS = 3, ROW_WORDS = 2 };

/* Memory that holds pointers must not show them at the end: they are other addresses in each run. */
static bool may_hold(const tensor_t *tensor)
{
    return tensor->bytes >= MOST_ROWS * ROW_WORDS * 8 && tensor->kind != MAPPED &&
           tensor->kind != POOLED && !tensor->graphs;
}

/* From pinned memory that keeps its words, or from pageable memory. */
static bool write_rows(thread_t *t, CUdeviceptr to, const uint64_t *rows, uint64_t words,
                       CUstream stream)
{
    uint64_t *const pinned = t->table_words + t->table_word;
    if (plan.has[FEATURE_pageable] && t->gate == NO_GATE && draw(&t->draw, 2))
        return OK(t, api.cuMemcpyHtoDAsync(to, rows, words * 8, stream));
    t->table_word += (uint32_t)words;
    memcpy(pinned, rows, words * 8);
    return OK(t, api.cuMemcpyHtoDAsync(to, pinned, words * 8, stream));
}

/* The first tensor holds the table, at its end; a copy on the device may take it to its beginning. */
static void launch_table(thread_t *t, CUstream stream, tensor_t *const *tensors, uint32_t count)
{
    uint64_t rows[MOST_ROWS * ROW_WORDS];
    const uint64_t words = (uint64_t)count * ROW_WORDS, end = tensors[0]->bytes / 8 * 8;
    uint32_t stride = 16, k = draw(&t->draw, 1000);
    CUdeviceptr at = tensors[0]->address + end - words * 8, first = tensors[0]->address;
    const bool move = tensors[0]->bytes >= 4 * words * 8 && draw(&t->draw, 3) == 0;
    for (uint32_t i = 0; i < count; i++) {
        rows[ROW_WORDS * i] = tensors[i + 1]->address;
        rows[ROW_WORDS * i + 1] = words_of(tensors[i + 1]);
    }
    if (!write_rows(t, at, rows, words, stream))
        return;
    if (move) {
        OK(t, api.cuMemcpyDtoDAsync(first, at, words * 8, stream));
        OK(t, api.cuMemsetD32Async(at, k, words * 2, stream));
        at = first;
    }
    void *parameters[] = {&at, &count, &stride, &k};
    launch(t, stream, KERNEL_TABLE, parameters);
    OK(t, api.cuMemsetD32Async(at, k, words * 2, stream));
}

void work_table(thread_t *t)
{
    tensor_t *tensors[1 + MOST_ROWS];
    const int stream = stream_any(t);
    uint32_t count = 0;
    const uint32_t wanted = 1 + draw(&t->draw, MOST_ROWS);
    tensors[0] = tensor_any(t);
    if (!tensors[0] || !may_hold(tensors[0]) || t->table_word + 16 > TABLE_WORDS)
        return;
    for (uint32_t i = 0; i < wanted; i++) {
        tensor_t *const one = tensor_any(t);
        bool known = false;
        for (uint32_t j = 0; j <= count; j++)
            known = known || tensors[j] == one;
        if (!known)
            tensors[++count] = one;
    }
    if (count > 0 && streams_follow(t, stream, tensors, count + 1))
        launch_table(t, t->streams[stream], tensors, count);
}

/* Rows of 256 bytes, 512 or 1024 apart; of the end of a tensor nothing is touched. */
static void copy_rows(thread_t *t, int stream, tensor_t *to, tensor_t *from, uint64_t rows)
{
    const CUDA_MEMCPY2D shape = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .srcDevice = from->address,
                                 .srcPitch = 512,
                                 .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                 .dstDevice = to->address,
                                 .dstPitch = 1024,
                                 .WidthInBytes = 256,
                                 .Height = rows};
    const CUDA_MEMCPY3D slices = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .srcDevice = from->address,
                                  .srcPitch = 512,
                                  .srcHeight = 1,
                                  .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                  .dstDevice = to->address,
                                  .dstPitch = 1024,
                                  .dstHeight = 1,
                                  .WidthInBytes = 256,
                                  .Height = 1,
                                  .Depth = rows};
    const bool done = draw(&t->draw, 2) ? OK(t, api.cuMemcpy2DAsync(&shape, t->streams[stream]))
                                        : OK(t, api.cuMemcpy3DAsync(&slices, t->streams[stream]));
    for (uint64_t i = 0; done && to->model && i < rows; i++)
        memcpy((char *)to->model + i * 1024, (char *)from->model + i * 512, 256);
}

void work_rows(thread_t *t)
{
    tensor_t *pair[2] = {tensor_any(t), tensor_any(t)};
    const int stream = stream_any(t);
    if (!pair[0] || pair[0] == pair[1] || !streams_follow(t, stream, pair, 2))
        return;
    uint64_t rows = pair[0]->bytes / 1024;
    if (pair[1]->bytes / 512 < rows)
        rows = pair[1]->bytes / 512;
    rows = rows > 64 ? 64 : rows;
    if (rows == 0)
        return;
    if (draw(&t->draw, 2)) {
        copy_rows(t, stream, pair[0], pair[1], rows);
        return;
    }
    const unsigned char value = (unsigned char)draw(&t->draw, 256);
    const bool done =
        OK(t, api.cuMemsetD2D8Async(pair[0]->address, 1024, value, 256, rows, t->streams[stream]));
    for (uint64_t i = 0; done && pair[0]->model && i < rows; i++)
        memset((char *)pair[0]->model + i * 1024, value, 256);
}

/* Forms without a stream belong to the default stream, which does not wait for all others. */
void work_blocking(thread_t *t)
{
    tensor_t *const tensor = tensor_any(t);
    if (!tensor || t->gated[tensor->stream])
        return;
    stream_wait(t, tensor->stream);
    const uint64_t most = tensor->bytes < SOURCE_BYTES ? tensor->bytes : SOURCE_BYTES;
    const uint64_t bytes = 16 * (1 + (uint64_t)draw(&t->draw, (uint32_t)(most / 16)));
    const unsigned char value = (unsigned char)draw(&t->draw, 256);
    const uint32_t which = draw(&t->draw, 3);
    guard_enter(t);
    bool done;
    if (which == 0)
        done = OK(t, api.cuMemcpyHtoD(tensor->address, t->pageable, bytes));
    else if (which == 1)
        done = OK(t, api.cuMemcpyDtoH(t->back, tensor->address, bytes));
    else
        done = OK(t, api.cuMemsetD8(tensor->address, value, bytes));
    if (done && which == 1)
        thread_note_bytes(t, t->back, bytes);
    if (done && tensor->model && which == 0)
        memcpy(tensor->model, t->pageable, bytes);
    if (done && tensor->model && which == 2)
        memset(tensor->model, value, bytes);
    OK(t, api.cuStreamSynchronize(NULL));
    guard_leave(t);
}

/* The answers depend on time, and count for nothing. */
void work_ask(thread_t *t)
{
    size_t free_bytes = 0, total = 0;
    const int stream = stream_any(t);
    guard_enter(t);
    OK(t, api.cuEventRecord(t->event, t->streams[stream]));
    for (uint32_t i = draw(&t->draw, 4); i > 0; i--) {
        const CUresult event = api.cuEventQuery(t->event);
        const CUresult whole = api.cuStreamQuery(t->streams[stream]);
        MUST(t, event == CUDA_SUCCESS || event == CUDA_ERROR_NOT_READY);
        MUST(t, whole == CUDA_SUCCESS || whole == CUDA_ERROR_NOT_READY);
    }
    OK(t, api.cuMemGetInfo(&free_bytes, &total));
    MUST(t, free_bytes <= total);
    if (!t->gated[stream])
        OK(t, api.cuEventSynchronize(t->event));
    guard_leave(t);
}

void work_attributes(thread_t *t)
{
    const tensor_t *const tensor = tensor_any(t);
    CUdeviceptr start = 0;
    size_t bytes = 0;
    unsigned type = 0;
    int device = -1;
    if (!tensor)
        return;
    const CUdeviceptr at = tensor->address + draw(&t->draw, (uint32_t)tensor->bytes);
    CUpointer_attribute asked[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *answers[] = {&type, &device};
    OK(t, api.cuMemGetAddressRange(&start, &bytes, at));
    const uint64_t piece = tensor->pieces > 1 ? tensor->bytes / tensor->pieces : at;
    MUST(t, start == at - (at - tensor->address) % piece || start == tensor->address);
    if (tensor->kind != PITCHED && tensor->kind != MAPPED)
        MUST(t, bytes == tensor->bytes);
    OK(t, api.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
    MUST(t, type == CU_MEMORYTYPE_DEVICE);
    OK(t, api.cuPointerGetAttributes(2, asked, answers, at));
    thread_note(t, type * 100 + (unsigned)device);
}
