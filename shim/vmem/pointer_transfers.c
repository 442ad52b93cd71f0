/* What copies and fills write: words at the call, and words that are read back. */
#include "shim/vmem/virtual_pointers_internal.h"

#include <stdlib.h>
#include <string.h>

#include "config/extremes.h"
#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/real/failure.h"
#include "shim/real/host_memory.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"

/* ---- words at the call ---- */

/* Tables are often packed with numbers behind them. What has no pointer in its first bytes is numbers. */
enum { MOST_BYTES = 1 << 20, FIRST_BYTES = 64 << 10, MOST_PIECES = 16 };

static bool is_small(const mdnn_transfer_t *transfer)
{
    return transfer->width >= sizeof(uint64_t) && transfer->width <= MOST_BYTES &&
           transfer->rows <= MOST_BYTES / transfer->width;
}

/* What the host can read. *pinned: the device reads it when the copy runs. */
static bool is_of_host(uint64_t address, bool *pinned)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    unsigned type = 0;
    *pinned = false;
    if (!driver || !driver->cuPointerGetAttribute)
        return false;
    const CUresult result =
        driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    *pinned = result == CUDA_SUCCESS;
    return result == CUDA_ERROR_INVALID_VALUE || /* it is no memory of CUDA's */
           (result == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST);
}

static void add_word(mdnn_transfers_t *transfers, mdnn_pointer_word_t word)
{
    if (transfers->word_count == transfers->word_capacity) {
        const size_t capacity = 2 * transfers->word_capacity + 16;
        mdnn_pointer_word_t *const grown = reallocarray(transfers->words, capacity, sizeof *grown);
        if (!grown) {
            transfers->lost = true;
            return;
        }
        transfers->words = grown;
        transfers->word_capacity = capacity;
    }
    transfers->words[transfers->word_count++] = word;
}

static void look_at_word(mdnn_transfers_t *transfers, uint64_t place, uint64_t value)
{
    uint64_t start, end;
    if (mdnn_virtual_owns(value) && mdnn_pointers_find(NULL, value, &start, &end) &&
        !MDNN_FAULT(POINTERS_IN_COPIES_IGNORED))
        add_word(transfers, (mdnn_pointer_word_t){place, value});
}

/* Words of the row that begin at byte `first` or later, and before byte `last`. What is no memory of CUDA's may be a
 * device address that has ended, so it is not read here. */
static void read_row(mdnn_transfers_t *transfers, uint64_t to, uint64_t from, uint64_t width,
                     uint64_t first, uint64_t last)
{
    enum { AT_ONCE = 512 };
    uint64_t words[AT_ONCE], at = first + -(to + first) % 8, came = AT_ONCE;
    while (came == AT_ONCE && at < last && at + sizeof *words <= width) {
        const uint64_t left = mdnn_min((last - at + 7) / 8, (width - at) / 8);
        came = mdnn_host_memory_read(words, from + at, mdnn_min(left, AT_ONCE));
        for (uint64_t i = 0; i < came; i++)
            look_at_word(transfers, to + at + 8 * i, words[i]);
        at += came * sizeof *words;
    }
}

static void read_rows(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer)
{
    uint64_t seen = 0;
    for (uint64_t row = 0; row < transfer->rows; row++) {
        const uint64_t to = transfer->to + row * transfer->to_step;
        const uint64_t from = transfer->from + row * transfer->from_step;
        const uint64_t left = seen < FIRST_BYTES ? FIRST_BYTES - seen : 0;
        const uint64_t first = left < transfer->width ? left : transfer->width;
        read_row(transfers, to, from, transfer->width, 0, first);
        seen += first;
        if (seen == FIRST_BYTES && transfers->word_count == transfer->first_word)
            return;
        read_row(transfers, to, from, transfer->width, first, transfer->width);
    }
}

static void read_words(mdnn_transfers_t *transfers, mdnn_transfer_t *transfer)
{
    bool pinned;
    transfer->first_word = transfers->word_count;
    if (transfer->from && mdnn_virtual_owns(transfer->to) && !mdnn_virtual_owns(transfer->from) &&
        is_small(transfer) && is_of_host(transfer->from, &pinned)) {
        read_rows(transfers, transfer);
        transfer->later = transfer->later && pinned && !MDNN_FAULT(PINNED_POINTERS_TRUSTED);
    } else {
        transfer->later = false;
    }
    transfer->word_count = transfers->word_count - transfer->first_word;
}

static bool may_hold_words(uint64_t address)
{
    uint64_t start, end;
    return mdnn_virtual_owns(address) ||
           (mdnn_host_memory_may_hold(address) && mdnn_host_memory_find(address, &start, &end) &&
            !MDNN_FAULT(TABLES_VANISH_ON_THE_HOST));
}

/* Tables have no very many rows, which would cost time where programs copy their results. */
static bool is_table_for_host(const mdnn_transfer_t *transfer)
{
    enum { MOST_ROWS = 64 };
    return transfer->rows <= MOST_ROWS && mdnn_pointers_are_any() && may_hold_words(transfer->to);
}

void mdnn_transfer(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer)
{
    if (transfer->width == 0 || transfer->rows == 0 ||
        !(mdnn_virtual_owns(transfer->to) || is_table_for_host(transfer)))
        return;
    const bool from_host = transfer->from && !mdnn_virtual_owns(transfer->from);
    mdnn_transfer_t made = *transfer;
    if (!mdnn_pointers_are_any() &&
        !(from_host && is_small(transfer) && mdnn_virtual_owns(transfer->to)))
        return;
    read_words(transfers, &made);
    if (!mdnn_pointers_are_any() && made.word_count == 0)
        return;
    if (transfers->count == transfers->capacity) {
        const size_t capacity = 2 * transfers->capacity + 1;
        mdnn_transfer_t *const grown = reallocarray(transfers->list, capacity, sizeof *grown);
        if (!grown) {
            transfers->lost = true;
            return;
        }
        transfers->list = grown;
        transfers->capacity = capacity;
    }
    transfers->list[transfers->count++] = made;
}

void mdnn_transfers_free(mdnn_transfers_t *transfers)
{
    free(transfers->list);
    free(transfers->words);
}

/* ---- words read back ---- */

/* Enqueued behind the copy, whose memory is still held. false: it cannot be. */
static bool read_back(uint64_t at, uint64_t bytes, CUstream handle, uint64_t stream)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(at);
    mdnn_stream_point_t point;
    void *const slot = device ? mdnn_pointers_take_slot(device) : NULL;
    bool known = false;
    if (!slot)
        return false;
    mdnn_capture_begin_own();
    const bool enqueued =
        mdnn_real_driver()->cuMemcpyDtoHAsync(slot, at, bytes, handle) == CUDA_SUCCESS;
    const bool marked = enqueued && mdnn_timelines_mark_event(mdnn_virtual_known_timelines(),
                                                              stream, &point) == MDNN_STATUS_OK;
    mdnn_failure_forget();
    mdnn_capture_end_own();
    mdnn_lock(&mdnn_pointers_lock);
    if (marked)
        known = mdnn_pointer_tables_unread(mdnn_pointers_tables, at, bytes, point, slot);
    if (!known && !enqueued)
        mdnn_pointers_give_slot(slot); /* else it may still be written to */
    mdnn_pointers_publish();
    mdnn_unlock(&mdnn_pointers_lock);
    mdnn_count(MDNN_COUNTER_pointer_arrays_read, known);
    return known;
}

CUstream mdnn_pointers_handle(const mdnn_virtual_operation_t *operation)
{
    return operation->stream       ? operation->stream
           : operation->per_thread ? CU_STREAM_PER_THREAD
                                   : CU_STREAM_LEGACY;
}

/* In pieces; *left: how many more may be read. */
static bool read_back_row(uint64_t to, uint64_t width, const mdnn_virtual_operation_t *operation,
                          uint64_t stream, uint32_t *left)
{
    const uint64_t end = (to + width) / 8 * 8;
    bool all = true;
    for (uint64_t at = (to + 7) / 8 * 8; all && at < end; at += MDNN_POINTER_UNREAD_BYTES) {
        const uint64_t bytes =
            end - at < MDNN_POINTER_UNREAD_BYTES ? end - at : MDNN_POINTER_UNREAD_BYTES;
        all = *left > 0 && read_back(at, bytes, mdnn_pointers_handle(operation), stream);
        *left -= all;
    }
    return all;
}

static void read_back_rows(const mdnn_transfer_t *transfer,
                           const mdnn_virtual_operation_t *operation, uint64_t stream)
{
    const bool whole = transfer->rows == 1 || transfer->to_step == transfer->width;
    const uint64_t width = whole ? transfer->width * transfer->rows : transfer->width;
    uint32_t left = MOST_PIECES;
    bool all = true;
    for (uint64_t row = 0; all && row < (whole ? 1 : transfer->rows); row++)
        all =
            read_back_row(transfer->to + row * transfer->to_step, width, operation, stream, &left);
    if (!all)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "pointers in pinned memory are followed as they were when their copy was "
                      "enqueued: they cannot be read back");
}

/* ---- what is written ---- */

/* Locked. `point`: of the copy; position 0: it is captured, or nobody knows. Whether what came there is to be read
 * back. */
static bool take_transfer(const mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer,
                          mdnn_stream_point_t point, bool captured, bool *all)
{
    bool unread = transfer->later && transfer->word_count > 0;
    for (uint64_t row = 0; row < transfer->rows; row++) {
        const uint64_t to = transfer->to + row * transfer->to_step;
        const uint64_t from = transfer->from + row * transfer->from_step;
        const bool is_known = transfer->from && may_hold_words(transfer->from);
        unread = unread ||
                 (transfer->later &&
                  (mdnn_pointer_tables_has(mdnn_pointers_tables, to, transfer->width) ||
                   mdnn_pointer_tables_has(mdnn_pointers_tables, from, transfer->width))) ||
                 (is_known && is_small(transfer) &&
                  mdnn_pointer_tables_is_unread(mdnn_pointers_tables, from, transfer->width));
        if (point.position != 0)
            mdnn_pointer_tables_overwrite(mdnn_pointers_tables, to, transfer->width, point);
        if (is_known && !MDNN_FAULT(COPIED_POINTERS_IGNORED))
            *all = mdnn_pointer_tables_copy(mdnn_pointers_tables, to, from, transfer->width,
                                            captured) &&
                   *all;
    }
    *all = mdnn_pointer_tables_add(mdnn_pointers_tables, transfers->words + transfer->first_word,
                                   transfer->word_count, captured) &&
           *all;
    return unread && point.position != 0;
}

void mdnn_transfers_enqueued(const mdnn_transfers_t *transfers,
                             const mdnn_virtual_operation_t *operation)
{
    mdnn_stream_point_t point = {0};
    uint64_t stream = 0;
    bool all = true;
    mdnn_capture_begin_own();
    if (operation->capture == 0 &&
        mdnn_virtual_stream(operation->stream, operation->per_thread, &stream) == MDNN_STATUS_OK)
        point = mdnn_timelines_mark(mdnn_virtual_known_timelines(), stream);
    mdnn_failure_forget();
    for (size_t i = 0; i < transfers->count; i++) {
        mdnn_lock(&mdnn_pointers_lock);
        const bool unread =
            mdnn_pointers_have_tables() &&
            take_transfer(transfers, &transfers->list[i], point, operation->capture != 0, &all);
        all = all && mdnn_pointers_tables;
        mdnn_pointers_publish();
        mdnn_unlock(&mdnn_pointers_lock);
        if (unread)
            read_back_rows(&transfers->list[i], operation, stream);
    }
    mdnn_capture_end_own();
    if (!all)
        mdnn_pointers_warn_of_loss();
}
