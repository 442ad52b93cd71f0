#include "shim/vmem/virtual_pointers.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/fault.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/real/failure.h"
#include "shim/real/host_memory.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

_Atomic bool mdnn_pointers_any;

static mdnn_lock_t lock = MDNN_LOCK_INIT(POINTERS); /* of `tables` and `blocks` */
static mdnn_pointer_tables_t *tables;
static _Atomic uint64_t generation = 1;
static _Atomic bool any_host_waits;

static bool any_pointers(void)
{
    return atomic_load_explicit(&mdnn_pointers_any, memory_order_acquire);
}

/* Locked. */
static void publish(void)
{
    atomic_store_explicit(&mdnn_pointers_any, tables && mdnn_pointer_tables_any(tables),
                          memory_order_release);
}

/* ---- pinned memory, where words are read back to ---- */

enum { SLOTS = 16, SLOT_BYTES = MDNN_POINTER_UNREAD_BYTES, MOST_BLOCKS = 8 };

/* In the primary context of a device, with which it ends. */
typedef struct block {
    struct block *next;
    CUdevice device;
    char *bytes;
    bool taken[SLOTS];
} block_t;

static block_t *blocks;

/* Locked. */
static void *find_slot(CUdevice device, size_t *count)
{
    *count = 0;
    for (block_t *block = blocks; block; block = block->next) {
        *count += block->device == device;
        for (int i = 0; block->device == device && i < SLOTS; i++)
            if (!block->taken[i]) {
                block->taken[i] = true;
                return block->bytes + (size_t)i * SLOT_BYTES;
            }
    }
    return NULL;
}

static block_t *make_block(mdnn_virtual_device_t *device)
{
    block_t *const block = calloc(1, sizeof *block);
    void *bytes = NULL;
    if (!block)
        return NULL;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool made = device->memory &&
                      mdnn_real_driver()->cuMemHostAlloc(&bytes, (size_t)SLOTS * SLOT_BYTES,
                                                         CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS;
    mdnn_virtual_leave(device, entry);
    if (!made) {
        free(block);
        return NULL;
    }
    block->device = device->ordinal;
    block->bytes = bytes;
    return block;
}

/* NULL: there is none. */
static void *take_slot(mdnn_virtual_device_t *device)
{
    size_t count;
    mdnn_lock(&lock);
    void *slot = find_slot(device->ordinal, &count);
    mdnn_unlock(&lock);
    block_t *const made = slot || count >= MOST_BLOCKS ? NULL : make_block(device);
    if (!made)
        return slot;
    mdnn_lock(&lock);
    made->next = blocks;
    blocks = made;
    slot = find_slot(device->ordinal, &count);
    mdnn_unlock(&lock);
    return slot;
}

/* Locked. */
static void give_slot(void *context, const void *words)
{
    const char *const slot = words;
    (void)context;
    for (block_t *block = blocks; block; block = block->next)
        if (slot >= block->bytes && slot < block->bytes + (size_t)SLOTS * SLOT_BYTES)
            block->taken[(size_t)(slot - block->bytes) / SLOT_BYTES] = false;
}

/* ---- what the tables ask; locked ---- */

static bool find_allocation(void *context, uint64_t address, uint64_t *start, uint64_t *end)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t bytes = 0;
    (void)context;
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    const bool found = device->memory && mdnn_memory_find(device->memory, address, start, &bytes);
    mdnn_unlock(&device->lock);
    *end = found ? *start + bytes : 0;
    return found;
}

static uint64_t generation_now(void *context)
{
    (void)context;
    return atomic_load(&generation);
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_known_timelines();
    (void)context;
    return timelines && mdnn_timelines_is_done(timelines, point);
}

static bool have_tables(void)
{
    static const mdnn_pointer_calls_t calls = {find_allocation, generation_now, is_done, give_slot};
    if (!tables)
        tables = mdnn_pointer_tables_create(&calls, NULL);
    return tables != NULL;
}

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

/* Words of the row that begin at byte `first` or later, and before byte `last`. */
static void read_row(mdnn_transfers_t *transfers, uint64_t to, uint64_t from, uint64_t width,
                     uint64_t first, uint64_t last)
{
    uint64_t start, end;
    for (uint64_t at = first + -(to + first) % 8; at < last && at + sizeof(uint64_t) <= width;
         at += sizeof(uint64_t)) {
        mdnn_pointer_word_t word = {.place = to + at};
        const void *source;
        const uintptr_t address = (uintptr_t)(from + at);
        memcpy(&source, &address, sizeof source);
        memcpy(&word.value, source, sizeof word.value);
        if (mdnn_virtual_owns(word.value) && find_allocation(NULL, word.value, &start, &end) &&
            !MDNN_FAULT(POINTERS_IN_COPIES_IGNORED))
            add_word(transfers, word);
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
    if (transfer->from && !mdnn_virtual_owns(transfer->from) && is_small(transfer) &&
        is_of_host(transfer->from, &pinned)) {
        read_rows(transfers, transfer);
        transfer->later = transfer->later && pinned && !MDNN_FAULT(PINNED_POINTERS_TRUSTED);
    } else {
        transfer->later = false;
    }
    transfer->word_count = transfers->word_count - transfer->first_word;
}

void mdnn_transfer(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer)
{
    if (!mdnn_virtual_owns(transfer->to) || transfer->width == 0 || transfer->rows == 0)
        return;
    const bool from_host = transfer->from && !mdnn_virtual_owns(transfer->from);
    mdnn_transfer_t made = *transfer;
    if (!any_pointers() && !(from_host && is_small(transfer)))
        return;
    read_words(transfers, &made);
    if (!any_pointers() && made.word_count == 0)
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
    void *const slot = device ? take_slot(device) : NULL;
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
    mdnn_lock(&lock);
    if (marked)
        known = mdnn_pointer_tables_unread(tables, at, bytes, point, slot);
    if (!known && !enqueued)
        give_slot(NULL, slot); /* else it may still be written to */
    publish();
    mdnn_unlock(&lock);
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

/* Locked. `point`: of the copy; position 0: it is captured. Whether what came there is to be read back. */
static bool take_transfer(const mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer,
                          mdnn_stream_point_t point, bool *all)
{
    bool unread = transfer->later && transfer->word_count > 0;
    for (uint64_t row = 0; row < transfer->rows; row++) {
        const uint64_t to = transfer->to + row * transfer->to_step;
        const uint64_t from = transfer->from + row * transfer->from_step;
        const bool on_device = transfer->from && mdnn_virtual_owns(transfer->from);
        unread = unread ||
                 (transfer->later && mdnn_pointer_tables_has(tables, to, transfer->width)) ||
                 (on_device && is_small(transfer) &&
                  mdnn_pointer_tables_is_unread(tables, from, transfer->width));
        if (point.position != 0)
            mdnn_pointer_tables_overwrite(tables, to, transfer->width, point);
        if (on_device && !MDNN_FAULT(COPIED_POINTERS_IGNORED))
            *all = mdnn_pointer_tables_copy(tables, to, from, transfer->width) && *all;
    }
    *all = mdnn_pointer_tables_add(tables, transfers->words + transfer->first_word,
                                   transfer->word_count) &&
           *all;
    return unread && point.position != 0;
}

static void warn_of_loss(void)
{
    MDNN_LOG_ONCE(MDNN_LOG_ERROR, "memory",
                  "host memory is short: what pointers in device memory lead to may be away");
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
        mdnn_lock(&lock);
        const bool unread =
            have_tables() && take_transfer(transfers, &transfers->list[i], point, &all);
        all = all && tables;
        publish();
        mdnn_unlock(&lock);
        if (unread)
            read_back_rows(&transfers->list[i], operation, stream);
    }
    mdnn_capture_end_own();
    if (!all)
        warn_of_loss();
}

static int compare_values(const void *left, const void *right)
{
    const uint64_t a = ((const mdnn_pointer_word_t *)left)->value;
    const uint64_t b = ((const mdnn_pointer_word_t *)right)->value;
    return (a > b) - (a < b);
}

static size_t without_repeats(mdnn_pointer_word_t *words, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || words[kept - 1].value != words[i].value)
            words[kept++] = words[i];
    return kept;
}

/* One word each, at the same place: where in the table they lie is not known. */
void mdnn_pointers_may_be_at(uint64_t at, const uint64_t *values, size_t count, bool lost)
{
    mdnn_pointer_word_t *const words = count > 0 ? reallocarray(NULL, count, sizeof *words) : NULL;
    size_t made = 0;
    bool all = !lost && (words || count == 0);
    uint64_t start, end;
    for (size_t i = 0; words && i < count; i++)
        if (find_allocation(NULL, values[i], &start, &end))
            words[made++] = (mdnn_pointer_word_t){at / 8 * 8, start};
    if (made > 0) {
        qsort(words, made, sizeof *words, compare_values);
        made = without_repeats(words, made);
        mdnn_lock(&lock);
        all = have_tables() && mdnn_pointer_tables_add(tables, words, made) && all;
        publish();
        mdnn_unlock(&lock);
    }
    free(words);
    if (!all)
        warn_of_loss();
}

/* ---- what is followed ---- */

static const mdnn_memory_operand_t *names_of(const mdnn_virtual_operation_t *operation)
{
    return operation->more ? operation->more : operation->names;
}

/* ---- tables in memory of the host ---- */

/* Allocations that words there lead to, each once in a row. */
typedef struct found {
    uint64_t *starts;
    size_t count, capacity;
    bool lost;
} found_t;

/* The host's memory is locked: no other lock may be taken, so this keeps the words. */
static void keep_word(void *context, uint64_t word)
{
    found_t *const found = context;
    if (!mdnn_virtual_owns(word) || found->lost)
        return;
    if (found->count == found->capacity) {
        const size_t capacity = 2 * found->capacity + 16;
        uint64_t *const grown = reallocarray(found->starts, capacity, sizeof *grown);
        found->lost = !grown;
        if (!grown)
            return;
        found->starts = grown;
        found->capacity = capacity;
    }
    found->starts[found->count++] = word;
}

static void find_in_host(const mdnn_virtual_operation_t *operation, found_t *found)
{
    uint64_t start = 0, end = 0;
    size_t kept = 0;
    for (size_t i = 0; i < operation->table_count; i++)
        mdnn_host_memory_words(operation->tables[i], MDNN_POINTER_UNREAD_BYTES, keep_word, found);
    for (size_t i = 0; i < found->count; i++) {
        const uint64_t word = found->starts[i];
        if (word - start < end - start) /* as the one before */
            continue;
        if (find_allocation(NULL, word, &start, &end))
            found->starts[kept++] = start;
        else
            start = end = 0;
    }
    found->count = kept;
}

static void put_before(const found_t *found, mdnn_pointers_followed_t *followed)
{
    const size_t count = found->count + followed->count;
    if (found->count == 0)
        return;
    uint64_t *const all = reallocarray(NULL, count, sizeof *all);
    if (!all) {
        followed->lost = true;
        return;
    }
    memcpy(all, found->starts, found->count * sizeof *all);
    if (followed->count > 0)
        memcpy(all + found->count, followed->starts, followed->count * sizeof *all);
    free(followed->starts);
    followed->starts = all;
    followed->count = followed->capacity = count;
    followed->current += found->count;
}

/* ---- what has room ---- */

/* Whether an operation that names these can ever run in the budgets of their devices. */
static bool fit(const uint64_t *addresses, size_t count)
{
    mdnn_virtual_device_t *device;
    uint64_t *const here = reallocarray(NULL, count + 1, sizeof *here);
    bool fits = here != NULL;
    for (size_t i = 0; fits && (device = mdnn_virtual_device(i)); i++) {
        size_t found = 0;
        for (size_t j = 0; j < count; j++)
            if (addresses[j] - device->start < device->bytes)
                here[found++] = addresses[j];
        mdnn_lock(&device->lock);
        fits = !device->memory || mdnn_memory_fit_together(device->memory, here, found);
        mdnn_unlock(&device->lock);
    }
    free(here);
    return fits;
}

/* The names of the operation, and then what is followed from them; to be freed. */
static uint64_t *all_of(const mdnn_virtual_operation_t *operation,
                        const mdnn_pointers_followed_t *followed)
{
    const size_t named = operation->name_count, count = followed ? followed->count : 0;
    uint64_t *const all = reallocarray(NULL, named + count + 1, sizeof *all);
    for (size_t i = 0; all && i < named; i++)
        all[i] = names_of(operation)[i].address;
    if (all && count > 0)
        memcpy(all + named, followed->starts, count * sizeof *all);
    return all;
}

/* The most of them, from the first on, that fit beside what the operation names. */
static size_t most_that_fit(const uint64_t *all, size_t named, size_t count)
{
    size_t fits = 0;
    while (fits < count) {
        const size_t middle = fits + (count - fits + 1) / 2;
        if (fit(all, named + middle))
            fits = middle;
        else
            count = middle - 1;
    }
    return fits;
}

/* Old pointers, which nothing may have overwritten, are no reason to refuse an operation. */
static size_t count_that_fits(const mdnn_virtual_operation_t *operation,
                              const mdnn_pointers_followed_t *followed)
{
    const size_t named = operation->name_count;
    uint64_t *const all = followed->count > 0 ? all_of(operation, followed) : NULL;
    size_t count = 0;
    if (!all)
        return 0;
    if (fit(all, named + followed->count))
        count = followed->count;
    else if (followed->current < followed->count && fit(all, named + followed->current))
        count = followed->current;
    else {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "what the pointers in a kernel's memory lead to does not fit in the budget "
                      "at once: the kernel runs with what the latest of them lead to");
        count = most_that_fit(all, named, followed->current);
    }
    free(all);
    return count;
}

/* The end of the copy, if that does not wait for the host. */
static bool wait_for(mdnn_stream_point_t point)
{
    static const double patience_s = 1;
    enum { ROUNDS = 400 };
    mdnn_timelines_t *const timelines = mdnn_virtual_known_timelines();
    mdnn_status_t status = MDNN_STATUS_BUSY;
    mdnn_capture_begin_own();
    if (!mdnn_real_driver()->is_simulated)
        status = mdnn_timelines_wait_a_while(timelines, point, patience_s);
    else
        for (int i = 0; status == MDNN_STATUS_BUSY && i < ROUNDS; i++)
            status = mdnn_timelines_wait_simulated(timelines, point);
    mdnn_failure_forget();
    mdnn_capture_end_own();
    return status == MDNN_STATUS_OK;
}

static void follow_all(const uint64_t *addresses, size_t count, uint64_t stream,
                       mdnn_pointers_followed_t *followed)
{
    mdnn_capture_begin_own();
    mdnn_lock(&lock);
    if (tables)
        mdnn_pointer_tables_follow(tables, addresses, count, stream, followed);
    publish();
    mdnn_unlock(&lock);
    mdnn_failure_forget();
    mdnn_capture_end_own();
}

bool mdnn_pointers_visit(uint64_t address, void (*visit)(void *context, uint64_t start),
                         void *context)
{
    mdnn_pointers_followed_t followed = {0};
    if (any_pointers())
        follow_all(&address, 1, MDNN_NO_STREAM, &followed);
    for (size_t i = 0; i < followed.count; i++)
        visit(context, followed.starts[i]);
    free(followed.starts);
    return !followed.lost;
}

/* `found`: allocations that tables in memory of the host lead to. They come first in what is followed. */
static void follow(const mdnn_virtual_operation_t *operation, const found_t *found, uint64_t stream,
                   mdnn_pointers_followed_t *followed)
{
    enum { FEW = 64 };
    uint64_t few[FEW];
    const mdnn_pointers_followed_t host = {.starts = found->starts, .count = found->count};
    const size_t named = operation->name_count, count = named + found->count;
    uint64_t *const more = count > FEW ? all_of(operation, &host) : NULL;
    followed->lost = found->lost || (count > FEW && !more);
    if (count > FEW && !more)
        return;
    for (size_t i = 0; !more && i < count; i++)
        few[i] = i < named ? names_of(operation)[i].address : found->starts[i - named];
    follow_all(more ? more : few, count, stream, followed);
    free(more);
    put_before(found, followed);
}

static void give_up(mdnn_stream_point_t until)
{
    mdnn_lock(&lock);
    mdnn_pointer_tables_give_up(tables, until);
    mdnn_unlock(&lock);
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "a copy of pointers from pinned memory waits for the host: they are followed as "
                  "they were when it was enqueued");
}

void mdnn_pointers_name(mdnn_virtual_operation_t *operation, uint64_t stream, bool capturing)
{
    mdnn_pointers_followed_t followed = {0};
    found_t found = {0};
    find_in_host(operation, &found);
    follow(operation, &found, stream, &followed);
    while (followed.unread && !MDNN_FAULT(UNREAD_POINTERS_SUFFICE)) {
        if (!capturing && !atomic_load(&any_host_waits))
            operation->untracked = mdnn_virtual_untracked_begin(mdnn_pointers_handle(operation),
                                                                &operation->untracked_stream);
        if (operation->untracked)
            break;
        if (!wait_for(followed.until))
            give_up(followed.until);
        follow(operation, &found, stream, &followed);
    }
    operation->overflowed = operation->overflowed || followed.lost;
    const size_t count = count_that_fits(operation, &followed);
    for (size_t i = 0; i < count; i++)
        mdnn_virtual_name(operation, followed.starts[i], MDNN_USE_UNKNOWN);
    free(followed.starts);
    free(found.starts);
}

void mdnn_pointers_end(mdnn_virtual_operation_t *operation)
{
    mdnn_virtual_untracked_end(operation->untracked, operation->untracked_stream);
    operation->untracked = NULL;
}

void mdnn_pointers_host_waits(void)
{
    if (!atomic_load_explicit(&any_host_waits, memory_order_relaxed))
        atomic_store(&any_host_waits, true);
}

bool mdnn_pointers_host_may_be_awaited(void)
{
    return atomic_load(&any_host_waits);
}

bool mdnn_pointers_are_in(uint64_t address)
{
    uint64_t start, end;
    if (!any_pointers() || !find_allocation(NULL, address, &start, &end))
        return false;
    mdnn_lock(&lock);
    const bool are = tables && mdnn_pointer_tables_has(tables, start, end - start);
    mdnn_unlock(&lock);
    return are;
}

/* ---- ends ---- */

void mdnn_pointers_changed(void)
{
    atomic_fetch_add(&generation, 1);
}

void mdnn_pointers_freed(uint64_t address)
{
    uint64_t start, end;
    if (!any_pointers() || !find_allocation(NULL, address, &start, &end))
        return;
    mdnn_lock(&lock);
    mdnn_pointer_tables_forget(tables, start, end - start);
    publish();
    mdnn_unlock(&lock);
}

/* Locked. */
static block_t *take_blocks(CUdevice device)
{
    block_t *taken = NULL;
    for (block_t **at = &blocks; *at;) {
        block_t *const block = *at;
        if (block->device != device) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        block->next = taken;
        taken = block;
    }
    return taken;
}

/* As the reset does, this waits for what still runs there. */
static void free_blocks(block_t *ended, CUcontext context)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!ended)
        return;
    mdnn_capture_begin_own();
    const mdnn_context_change_t change = mdnn_context_enter(driver, context);
    (void)driver->cuCtxSynchronize();
    for (block_t *block = ended, *next; block; block = next) {
        next = block->next;
        (void)driver->cuMemFreeHost(block->bytes);
        free(block);
    }
    mdnn_context_leave(driver, change);
    mdnn_capture_end_own();
}

void mdnn_pointers_device_ends(CUdevice ordinal)
{
    const mdnn_virtual_device_t *const device = mdnn_virtual_find_numbered(ordinal);
    if (!device)
        return;
    mdnn_lock(&lock);
    if (tables)
        mdnn_pointer_tables_forget(tables, device->start, device->bytes);
    block_t *const ended = take_blocks(ordinal);
    publish();
    mdnn_unlock(&lock);
    free_blocks(ended, device->context);
}
