/* Calls with arrays of pointers in device memory. The kernels get the arrays' addresses only; so that
 * what the pointers lead to is there, either all is and stays so, or the arrays are read back first,
 * which has the host wait for the stream. */
#include <stdlib.h>

#include "config/log.h"
#include "config/statistics.h"
#include "shim/interpose/library_hooks.h"
#include "shim/vmem/virtual_untracked.h"

/* What is captured now runs later, with what the arrays hold then. */
static void name_everything(mdnn_batch_t *batch)
{
    size_t count;
    bool fits;
    uint64_t *const starts = mdnn_virtual_live(&count, &fits);
    for (size_t i = 0; fits && i < count; i++)
        mdnn_indirect_add(&batch->operands, starts[i], MDNN_USE_UNKNOWN, NULL);
    if (!fits)
        MDNN_LOG_ONCE(
            MDNN_LOG_WARN, "memory",
            "%s is captured: its arrays of pointers cannot be read, and not all memory fits in the "
            "budget at once, so memory that they point to may be away when the graph runs",
            batch->name);
    free(starts);
}

void mdnn_batch_begin(mdnn_batch_t *batch, mdnn_get_stream_t get_stream, void *handle,
                      const char *name)
{
    *batch = (mdnn_batch_t){.way = MDNN_BATCH_PASSED, .name = name};
    if (!mdnn_virtual_any() || !get_stream || get_stream(handle, &batch->stream) != 0)
        return;
    if (mdnn_virtual_capture(batch->stream, false) != 0)
        batch->way = MDNN_BATCH_ALL;
    else if ((batch->device = mdnn_virtual_untracked_begin(batch->stream, &batch->number)))
        batch->way = MDNN_BATCH_UNTRACKED;
    else
        batch->way = MDNN_BATCH_READ;
    if (batch->way == MDNN_BATCH_ALL)
        name_everything(batch);
    mdnn_indirect_enter(&batch->operands);
}

/* ---- reading ---- */

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Starts of the allocations that the addresses lie in, in their place, each once; returns how many. */
static size_t allocations_of(uint64_t *words, size_t count)
{
    uint64_t start = 0, bytes = 0;
    int device;
    size_t kept = 0, different = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t address = words[i];
        if (kept > 0 && address - start < bytes)
            continue;
        if (mdnn_virtual_owns(address) && mdnn_virtual_find(address, &start, &bytes, &device))
            words[kept++] = start;
    }
    qsort(words, kept, sizeof *words, compare);
    for (size_t i = 0; i < kept; i++)
        if (different == 0 || words[different - 1] != words[i])
            words[different++] = words[i];
    return different;
}

void mdnn_batch_array(mdnn_batch_t *batch, const void *array, int64_t count, mdnn_use_role_t role)
{
    if (batch->way != MDNN_BATCH_READ || !array || count <= 0)
        return;
    uint64_t *const words = reallocarray(NULL, (size_t)count, sizeof *words);
    const CUresult result = words ? mdnn_virtual_read(words, array, (size_t)count, batch->stream)
                                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS) {
        const size_t different = allocations_of(words, (size_t)count);
        for (size_t i = 0; i < different; i++)
            mdnn_indirect_add(&batch->operands, words[i], role, NULL);
        mdnn_count(MDNN_COUNTER_pointer_arrays_read, 1);
    } else {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "%s: an array of pointers cannot be read (CUDA error %d): memory that it "
                      "points to may be away",
                      batch->name, (int)result);
    }
    free(words);
}

void mdnn_batch_end(mdnn_batch_t *batch)
{
    if (batch->way == MDNN_BATCH_PASSED)
        return;
    mdnn_indirect_leave(&batch->operands);
    mdnn_indirect_clear(&batch->operands);
    if (batch->way == MDNN_BATCH_UNTRACKED) {
        mdnn_virtual_untracked_end(batch->device, batch->number);
        mdnn_count(MDNN_COUNTER_pointer_arrays_unread, 1);
    }
}
