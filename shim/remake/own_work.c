#include "shim/remake/own_work.h"

#include <stdlib.h>

#include "config/fault.h"
#include "shim/vmem/virtual_shared.h"

enum { ALIGNMENT = 512, COUNTERS_BYTES = 16, THREADS = 256, MOST_BLOCKS = 1056 };

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Of all scratch memory; each span's copy is given its place behind `scratch`. */
static uint64_t lay_out(mdnn_own_work_t *work, uint64_t scratch, uint64_t more)
{
    uint64_t at = round_up(COUNTERS_BYTES * work->span_count);
    for (size_t i = 0; i < work->span_count; i++) {
        work->spans[i].copy = scratch + at;
        at += round_up(work->spans[i].bytes);
    }
    work->more = scratch + at;
    return at + more;
}

/* Whether an operation can name the scratch memory together with the spans, whatever has to leave for it. */
static bool fits_with_spans(const mdnn_own_work_t *work, uint64_t bytes)
{
    uint64_t *const starts = calloc(work->span_count + 1, sizeof *starts);
    for (size_t i = 0; starts && i < work->span_count; i++)
        starts[i] = work->spans[i].start;
    const bool fits =
        starts && mdnn_memory_has_room_with(work->device->memory, bytes, starts, work->span_count);
    free(starts);
    return fits;
}

static mdnn_remake_outcome_t take_scratch(mdnn_own_work_t *work, uint64_t more, bool may_move)
{
    mdnn_memory_t *const memory = work->device->memory;
    const uint64_t bytes = lay_out(work, 0, more);
    const bool has_room =
        may_move ? fits_with_spans(work, bytes) : mdnn_memory_has_room_beside_all(memory, bytes);
    if (!has_room && !MDNN_FAULT(PROOFS_NEED_NO_ROOM))
        return MDNN_REMAKE_no_room;
    const mdnn_status_t status =
        mdnn_memory_allocate_workspace(memory, bytes, work->number, &work->scratch);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        mdnn_memory_judge_refusal(memory, bytes, true);
    return status == MDNN_STATUS_OK ? MDNN_REMAKE_proven : MDNN_REMAKE_no_room;
}

static bool name_spans(mdnn_own_work_t *work)
{
    work->operands = calloc(work->span_count + 1, sizeof *work->operands);
    if (!work->operands)
        return false;
    for (size_t i = 0; i < work->span_count; i++)
        work->operands[i] = (mdnn_memory_operand_t){work->spans[i].start, MDNN_USE_UNKNOWN};
    work->operands[work->span_count] = (mdnn_memory_operand_t){work->scratch, MDNN_USE_WRITE};
    return true;
}

static bool all_are_resident(const mdnn_own_work_t *work)
{
    for (size_t i = 0; i < work->span_count; i++)
        if (!mdnn_memory_is_resident(work->device->memory, work->spans[i].start))
            return false;
    return work->scratch == 0 || mdnn_memory_is_resident(work->device->memory, work->scratch);
}

/* Without memory for the scratch at once, what is begun would have to wait for it. */
static mdnn_remake_outcome_t begin(mdnn_own_work_t *work)
{
    mdnn_memory_t *const memory = work->device->memory;
    if (!name_spans(work))
        return MDNN_REMAKE_failed;
    work->call = (mdnn_memory_call_t){.stream = work->number, .began = 1}; /* it is not timed */
    work->operation = (mdnn_memory_operation_t){.name = "a proof",
                                                .stream = work->number,
                                                .operands = work->operands,
                                                .operand_count = work->span_count + 1,
                                                .optional = true,
                                                .call = &work->call};
    if (mdnn_memory_begin(memory, &work->operation) == MDNN_STATUS_OK)
        return MDNN_REMAKE_proven;
    free(work->operands);
    return MDNN_REMAKE_failed;
}

mdnn_remake_outcome_t mdnn_own_work_open(mdnn_own_work_t *work, mdnn_virtual_device_t *device,
                                         uint64_t number, mdnn_span_t *spans, size_t span_count,
                                         uint64_t more, uint64_t scratch, bool may_move)
{
    *work = (mdnn_own_work_t){.device = device,
                              .driver = mdnn_real_driver(),
                              .number = number,
                              .spans = spans,
                              .span_count = span_count,
                              .scratch = scratch};
    work->stream = mdnn_timelines_handle(mdnn_virtual_timelines(), number, device->context);
    if (!work->stream || !work->driver->cuMemsetD8Async ||
        mdnn_kernels_get(&work->kernels) != MDNN_STATUS_OK)
        return MDNN_REMAKE_failed;
    if (!may_move && !all_are_resident(work))
        return MDNN_REMAKE_no_room;
    const mdnn_remake_outcome_t taken =
        scratch == 0 ? take_scratch(work, more, may_move) : MDNN_REMAKE_proven;
    if (taken != MDNN_REMAKE_proven)
        return taken;
    (void)lay_out(work, work->scratch, more);
    const mdnn_remake_outcome_t begun = begin(work);
    if (begun != MDNN_REMAKE_proven && scratch == 0)
        mdnn_own_work_free_scratch(device, number, work->scratch);
    return begun;
}

void mdnn_own_work_close(mdnn_own_work_t *work, bool keep_scratch)
{
    mdnn_memory_end(work->device->memory, &work->operation, true);
    free(work->operands);
    if (!keep_scratch)
        mdnn_own_work_free_scratch(work->device, work->number, work->scratch);
}

void mdnn_own_work_free_scratch(mdnn_virtual_device_t *device, uint64_t number, uint64_t scratch)
{
    (void)mdnn_memory_free(device->memory, scratch, number);
}

/* ---- what is enqueued ---- */

bool mdnn_own_work_clear_counters(mdnn_own_work_t *work)
{
    return work->driver->cuMemsetD8Async(work->scratch, 0, COUNTERS_BYTES * work->span_count,
                                         work->stream) == CUDA_SUCCESS;
}

bool mdnn_own_work_copy_aside(mdnn_own_work_t *work, const mdnn_span_t *span)
{
    return work->driver->cuMemcpyDtoDAsync(span->copy, span->start, span->bytes, work->stream) ==
           CUDA_SUCCESS;
}

bool mdnn_own_work_put_back(mdnn_own_work_t *work, const mdnn_span_t *span)
{
    return work->driver->cuMemcpyDtoDAsync(span->start, span->copy, span->bytes, work->stream) ==
           CUDA_SUCCESS;
}

static bool launch(mdnn_own_work_t *work, CUfunction kernel, uint64_t bytes, void **parameters)
{
    const uint64_t blocks = bytes / 8 / THREADS + 1;
    return work->driver->cuLaunchKernel(
               kernel, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, THREADS, 1, 1,
               0, work->stream, parameters, NULL) == CUDA_SUCCESS;
}

bool mdnn_own_work_poison(mdnn_own_work_t *work, const mdnn_span_t *span, uint64_t salt)
{
    mdnn_span_t at = *span;
    void *parameters[] = {&at.start, &at.copy, &at.bytes, &salt};
    return launch(work, work->kernels->poison, at.bytes, parameters);
}

bool mdnn_own_work_compare(mdnn_own_work_t *work, size_t span)
{
    mdnn_span_t at = work->spans[span];
    uint64_t counters = work->scratch + COUNTERS_BYTES * span;
    void *parameters[] = {&at.start, &at.copy, &at.bytes, &counters};
    return launch(work, work->kernels->compare, at.bytes, parameters);
}
