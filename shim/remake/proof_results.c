#include "shim/remake/proof_results.h"

#include <stdlib.h>

#include "shim/vmem/virtual_shared.h"

enum { SLOTS = 8 };

static mdnn_span_counts_t *pinned; /* SLOTS times MDNN_PROOF_SPANS */
static bool refused;
static mdnn_proof_result_t results[SLOTS]; /* a ring, the oldest first */
static unsigned first, count;

bool mdnn_proof_results_have_room(const mdnn_driver_t *driver)
{
    void *memory;
    if (!pinned && !refused) {
        refused = driver->cuMemHostAlloc(&memory, sizeof *pinned * MDNN_PROOF_SPANS * SLOTS,
                                         CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS;
        pinned = refused ? NULL : memory;
    }
    return pinned && count < SLOTS;
}

bool mdnn_proof_results_add(mdnn_own_work_t *work, mdnn_proof_result_t *result)
{
    const unsigned slot = (first + count) % SLOTS;
    mdnn_span_counts_t *const counts = pinned + (size_t)slot * MDNN_PROOF_SPANS;
    if (work->driver->cuMemcpyDtoHAsync(counts, work->scratch, result->span_count * sizeof *counts,
                                        work->stream) != CUDA_SUCCESS ||
        mdnn_timelines_mark_event(mdnn_virtual_timelines(), work->number, &result->end) !=
            MDNN_STATUS_OK) {
        free((void *)(uintptr_t)result->span_bytes);
        return false;
    }
    result->counts = counts;
    results[slot] = *result;
    count++;
    return true;
}

bool mdnn_proof_results_take(mdnn_proof_result_t *result)
{
    if (count == 0 || !mdnn_timelines_is_done(mdnn_virtual_timelines(), results[first].end))
        return false;
    *result = results[first];
    first = (first + 1) % SLOTS;
    count--;
    return true;
}

void mdnn_proof_results_forget(void)
{
    for (; count > 0; count--) {
        free((void *)(uintptr_t)results[first].span_bytes);
        if (results[first].watched)
            results[first].key->watching--;
        else
            results[first].key->proving = false;
        first = (first + 1) % SLOTS;
    }
    pinned = NULL; /* it ended with its context */
}
