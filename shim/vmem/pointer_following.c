/* What an operation reaches through pointers in memory of the device and of the host. */
#include "shim/vmem/virtual_pointers_internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/real/failure.h"
#include "shim/real/host_memory.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

static _Atomic bool any_host_waits;

/* ---- what is followed ---- */

static const mdnn_memory_operand_t *names_of(const mdnn_virtual_operation_t *operation)
{
    return operation->more ? operation->more : operation->names;
}

/* ---- tables in memory of the host ---- */

enum { MOST_AREAS = 32 };

/* What was read of it. */
typedef struct areas {
    uint64_t start[MOST_AREAS], end[MOST_AREAS];
    size_t count;
} areas_t;

static bool is_read(const areas_t *areas, uint64_t address)
{
    size_t i = 0;
    while (i < areas->count && (address < areas->start[i] || address >= areas->end[i]))
        i++;
    return i < areas->count;
}

static bool is_pointer(uint64_t word)
{
    return mdnn_virtual_owns(word) || mdnn_host_memory_may_hold(word);
}

bool mdnn_pointers_in_host(const uint64_t *addresses, size_t count, mdnn_address_list_t *list)
{
    areas_t areas = {.count = 0};
    size_t next = list->count;
    for (size_t i = 0; i < count; i++)
        mdnn_address_list_add(list, addresses[i]);
    for (; next < list->count && areas.count < MOST_AREAS; next++) {
        const uint64_t start = list->values[next];
        if (next >= count && MDNN_FAULT(HOST_TABLES_END_FOLLOWING))
            continue;
        if (mdnn_virtual_owns(start) || !mdnn_host_memory_may_hold(start) || is_read(&areas, start))
            continue;
        const uint64_t end = mdnn_host_memory_words(start, is_pointer, list);
        areas.start[areas.count] = start;
        areas.end[areas.count] = end;
        areas.count += end > start; /* else it is a number */
    }
    return next == list->count;
}

/* The starts of allocations and of the pieces of pinned memory, each once in a row. */
static void keep_starts(mdnn_address_list_t *found)
{
    uint64_t start = 0, end = 0;
    size_t kept = 0;
    for (size_t i = 0; i < found->count; i++) {
        const uint64_t word = found->values[i];
        if (word - start < end - start) /* as the one before */
            continue;
        if (mdnn_pointers_find(NULL, word, &start, &end))
            found->values[kept++] = start;
        else
            start = end = 0;
    }
    found->count = kept;
}

static void find_in_host(mdnn_virtual_operation_t *operation, mdnn_address_list_t *found)
{
    const size_t given = operation->table_count;
    const size_t count = given < MDNN_VIRTUAL_TABLES ? given : MDNN_VIRTUAL_TABLES;
    if (!mdnn_pointers_in_host(operation->tables, count, found) || count < given) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "kernel %s is given more tables in pinned memory than are read: it runs with "
                      "everything resident, if that fits",
                      operation->name ? operation->name : "");
        if (operation->reach == MDNN_REACH_NAMED &&
            mdnn_process_options()->memory_safety == MDNN_SAFETY_AUTO)
            operation->reach = MDNN_REACH_WHAT_FITS;
    }
    keep_starts(found);
}

static void put_before(const mdnn_address_list_t *found, mdnn_pointers_followed_t *followed)
{
    const size_t count = found->count + followed->count;
    if (found->count == 0)
        return;
    uint64_t *const all = reallocarray(NULL, count, sizeof *all);
    if (!all) {
        followed->lost = true;
        return;
    }
    memcpy(all, found->values, found->count * sizeof *all);
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

/* Whether an operation that names more than fits runs all the same, with a part of it on the host. */
static bool have_tails(void)
{
    mdnn_virtual_device_t *device;
    bool have = !MDNN_FAULT(POINTERS_LEAD_TO_NO_TAILS);
    for (size_t i = 0; have && (device = mdnn_virtual_device(i)); i++) {
        mdnn_lock(&device->lock);
        have = !device->memory || mdnn_memory_has_tails(device->memory);
        mdnn_unlock(&device->lock);
    }
    return have;
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
static size_t count_to_name(const mdnn_virtual_operation_t *operation,
                            const mdnn_pointers_followed_t *followed, bool capturing)
{
    const size_t named = operation->name_count;
    uint64_t *const all = followed->count > 0 ? all_of(operation, followed) : NULL;
    size_t count = 0;
    if (!all)
        return 0;
    if (fit(all, named + followed->count))
        count = followed->count;
    else if ((followed->current < followed->count && fit(all, named + followed->current)) ||
             (!capturing && have_tails()))
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
    mdnn_lock(&mdnn_pointers_lock);
    if (mdnn_pointers_tables)
        mdnn_pointer_tables_follow(mdnn_pointers_tables, addresses, count, stream, followed);
    mdnn_pointers_publish();
    mdnn_unlock(&mdnn_pointers_lock);
    mdnn_failure_forget();
    mdnn_capture_end_own();
}

void mdnn_pointers_reach(uint64_t address, mdnn_address_list_t *list)
{
    mdnn_pointers_followed_t followed = {0};
    if (mdnn_pointers_are_any())
        follow_all(&address, 1, MDNN_NO_STREAM, &followed);
    for (size_t i = 0; i < followed.count; i++)
        mdnn_address_list_add(list, followed.starts[i]);
    free(followed.starts);
    list->lost = list->lost || followed.lost;
}

/* `found`: allocations that tables in memory of the host lead to. They come first in what is followed. */
static void follow(const mdnn_virtual_operation_t *operation, const mdnn_address_list_t *found,
                   uint64_t stream, mdnn_pointers_followed_t *followed)
{
    enum { FEW = 64 };
    uint64_t few[FEW];
    const mdnn_pointers_followed_t host = {.starts = found->values, .count = found->count};
    const size_t named = operation->name_count, count = named + found->count;
    uint64_t *const more = count > FEW ? all_of(operation, &host) : NULL;
    followed->lost = found->lost || (count > FEW && !more);
    if (count > FEW && !more)
        return;
    for (size_t i = 0; !more && i < count; i++)
        few[i] = i < named ? names_of(operation)[i].address : found->values[i - named];
    follow_all(more ? more : few, count, stream, followed);
    free(more);
    put_before(found, followed);
}

static void give_up(mdnn_stream_point_t until)
{
    mdnn_lock(&mdnn_pointers_lock);
    mdnn_pointer_tables_give_up(mdnn_pointers_tables, until);
    mdnn_unlock(&mdnn_pointers_lock);
    MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                  "a copy of pointers from pinned memory waits for the host: they are followed as "
                  "they were when it was enqueued");
}

void mdnn_pointers_name(mdnn_virtual_operation_t *operation, uint64_t stream, bool capturing)
{
    mdnn_pointers_followed_t followed = {0};
    mdnn_address_list_t found = {0};
    /* What such a kernel writes is known only if what it reads is. */
    const bool must_know = operation->layout && !MDNN_FAULT(UNREAD_POINTERS_ARE_WRITTEN);
    find_in_host(operation, &found);
    follow(operation, &found, stream, &followed);
    while (followed.unread && !MDNN_FAULT(UNREAD_POINTERS_SUFFICE)) {
        if (!capturing && !must_know && !atomic_load(&any_host_waits))
            operation->untracked = mdnn_virtual_untracked_begin(mdnn_pointers_handle(operation),
                                                                &operation->untracked_stream);
        if (operation->untracked)
            break;
        if (!wait_for(followed.until))
            give_up(followed.until);
        follow(operation, &found, stream, &followed);
    }
    operation->overflowed = operation->overflowed || followed.lost;
    const size_t count = count_to_name(operation, &followed, capturing);
    for (size_t i = 0; i < count; i++)
        mdnn_virtual_name(operation, followed.starts[i], MDNN_USE_UNKNOWN);
    free(followed.starts);
    free(found.values);
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
