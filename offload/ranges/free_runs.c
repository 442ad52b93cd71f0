/* Released ranges: neighbours are runs, which are cut, and give chunks away. free_run_requests.c serves requests with
 * them. */
#include "config/fault.h"
#include "offload/ranges/free_runs_internal.h"
#include "offload/ranges/ranges_check.h"

#include <stdlib.h>

/* ---- runs ---- */

static mdnn_range_t *free_at(const mdnn_ranges_t *ranges, uint64_t step)
{
    mdnn_range_t *const range = step < ranges->top ? ranges->at[step] : NULL;
    return range && range->is_free ? range : NULL;
}

static mdnn_range_t *first_of_run(const mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    mdnn_range_t *before;
    while (range->first > 0 && (before = free_at(ranges, range->first - 1)) != NULL)
        range = before;
    return range;
}

/* The run of `count` steps that begins at `first`, which was in no list; 0: nothing. */
static void list_run(mdnn_ranges_t *ranges, uint64_t first, uint64_t count)
{
    if (count == 0)
        return;
    mdnn_range_t *const run = ranges->at[first];
    run->run_count = count;
    ranges->at[first + count - 1]->run_first = run;
    run->previous_run = NULL;
    run->next_run = ranges->runs[count];
    if (run->next_run)
        run->next_run->previous_run = run;
    ranges->runs[count] = run;
    ranges->some_runs[count / 64] |= (uint64_t)1 << count % 64;
}

static void unlist_run(mdnn_ranges_t *ranges, mdnn_range_t *run)
{
    const uint64_t count = run->run_count;
    *(run->previous_run ? &run->previous_run->next_run : &ranges->runs[count]) = run->next_run;
    if (run->next_run)
        run->next_run->previous_run = run->previous_run;
    if (!ranges->runs[count])
        ranges->some_runs[count / 64] &= ~((uint64_t)1 << count % 64);
}

uint64_t mdnn_free_runs_next_size(const mdnn_ranges_t *ranges, uint64_t count)
{
    const uint64_t most = ranges->counts.chunks_free;
    while (count <= most) {
        const uint64_t bits = ranges->some_runs[count / 64] >> count % 64;
        if (bits)
            return count + (uint64_t)__builtin_ctzll(bits);
        count = (count / 64 + 1) * 64;
    }
    return most + 1;
}

void mdnn_free_runs_link(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    range->is_free = true;
    range->released = ++ranges->releases;
    range->older = ranges->newest;
    range->newer = NULL;
    *(range->older ? &range->older->newer : &ranges->oldest) = range;
    ranges->newest = range;
    ranges->counts.chunks_free += range->count;
}

void mdnn_free_runs_unlink(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    *(range->older ? &range->older->newer : &ranges->oldest) = range->newer;
    *(range->newer ? &range->newer->older : &ranges->newest) = range->older;
    range->is_free = false;
    ranges->counts.chunks_free -= range->count;
}

void mdnn_free_runs_add(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    uint64_t first = range->first, end = range->first + range->count;
    mdnn_range_t *const before = first > 0 ? free_at(ranges, first - 1) : NULL;
    mdnn_range_t *const after = free_at(ranges, end);
    if (before) {
        first = before->run_first->first;
        unlist_run(ranges, before->run_first);
    }
    if (after) {
        end += after->run_count;
        unlist_run(ranges, after);
    }
    mdnn_free_runs_link(ranges, range);
    list_run(ranges, first, end - first);
}

void mdnn_free_runs_leave(mdnn_ranges_t *ranges, uint64_t first, uint64_t count)
{
    mdnn_range_t *const run = first_of_run(ranges, ranges->at[first]);
    const uint64_t end = run->first + run->run_count;
    unlist_run(ranges, run);
    list_run(ranges, run->first, first - run->first);
    list_run(ranges, first + count, end - (first + count));
}

mdnn_status_t mdnn_free_runs_cut(mdnn_ranges_t *ranges, uint64_t step)
{
    mdnn_range_t *const range = free_at(ranges, step);
    if (!range || range->first == step)
        return MDNN_STATUS_OK;
    mdnn_range_t *const tail = calloc(1, sizeof *tail);
    if (!tail)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (mdnn_users_reserve(&tail->users, range->users.count) != MDNN_STATUS_OK) {
        free(tail);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (!MDNN_FAULT(PART_FORGETS_USERS))
        mdnn_users_join(ranges, &tail->users, &range->users);
    tail->users.stream = range->users.stream;
    tail->first = step;
    tail->count = range->first + range->count - step;
    tail->chunks = ranges->chunks + step;
    tail->is_free = true;
    tail->released = range->released;
    tail->run_first = range->run_first; /* if it is the last of the run */
    tail->older = range;
    tail->newer = range->newer;
    *(tail->newer ? &tail->newer->older : &ranges->newest) = tail;
    range->newer = tail;
    range->count = step - range->first;
    for (uint64_t i = step; i < step + tail->count; i++)
        ranges->at[i] = tail;
    return MDNN_STATUS_OK;
}

/* ---- giving chunks away ---- */

static bool is_done(mdnn_ranges_t *ranges, const mdnn_range_t *range)
{
    return range->slab ? mdnn_slab_done(ranges, range) : mdnn_users_done(ranges, &range->users);
}

static mdnn_status_t strip_slab(mdnn_ranges_t *ranges, mdnn_range_t *slab)
{
    const uint64_t chunk = slab->chunks[0];
    MDNN_TRY(
        ranges->device.unmap(ranges->context, mdnn_ranges_address(ranges, slab->first), chunk));
    mdnn_free_runs_unlink(ranges, slab);
    mdnn_slab_end(ranges, slab);
    ranges->counts.unmapped++;
    ranges->spare[ranges->counts.chunks_spare++] = chunk;
    return MDNN_STATUS_OK;
}

/* Unmaps the chunks of a kept range, whose work is done, and puts them aside. */
static mdnn_status_t strip(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    if (range->slab)
        return strip_slab(ranges, range);
    mdnn_free_runs_leave(ranges, range->first, range->count);
    mdnn_free_runs_unlink(ranges, range);
    while (range->count > 0) {
        const uint64_t last = range->count - 1;
        const uint64_t chunk = range->chunks[last];
        status = ranges->device.unmap(ranges->context,
                                      mdnn_ranges_address(ranges, range->first + last), chunk);
        if (status != MDNN_STATUS_OK) {
            mdnn_free_runs_add(ranges, range);
            return status;
        }
        ranges->counts.unmapped++;
        ranges->spare[ranges->counts.chunks_spare++] = chunk;
        mdnn_ranges_clear(ranges, range->first + last, 1);
        range->count--;
    }
    mdnn_range_free(range);
    return MDNN_STATUS_OK;
}

/* Room to put every chunk that exists aside, and one more. */
static mdnn_status_t make_spare_room(mdnn_ranges_t *ranges)
{
    if (mdnn_ranges_chunks_there(&ranges->counts) < ranges->spare_room)
        return MDNN_STATUS_OK;
    const size_t room = ranges->spare_room * 2 + 64;
    uint64_t *const spare = reallocarray(ranges->spare, room, sizeof *spare);
    if (!spare)
        return MDNN_STATUS_OUT_OF_MEMORY;
    ranges->spare = spare;
    ranges->spare_room = room;
    return MDNN_STATUS_OK;
}

static bool lies_in(const mdnn_range_t *range, mdnn_window_t window)
{
    return window.first <= range->first && range->first < window.end &&
           !MDNN_FAULT(TAKES_FROM_ITS_OWN_PLACE);
}

static bool can_be_stripped(mdnn_ranges_t *ranges, const mdnn_range_t *range, mdnn_window_t except)
{
    return !lies_in(range, except) && (MDNN_FAULT(UNMAPS_WHAT_IS_IN_USE) || is_done(ranges, range));
}

mdnn_range_t *mdnn_free_runs_oldest_done(mdnn_ranges_t *ranges, uint64_t wanted,
                                         mdnn_window_t except, bool slabs)
{
    mdnn_range_t *range = ranges->oldest;
    while (range && (!can_be_stripped(ranges, range, except) || (range->slab && !slabs)))
        range = range->newer;
    if (!range || wanted >= range->count)
        return range;
    /* The side on which its run goes on keeps its chunks. Without memory to cut it, all go. */
    if (free_at(ranges, range->first + range->count) &&
        !(range->first > 0 && free_at(ranges, range->first - 1)))
        (void)mdnn_free_runs_cut(ranges, range->first + wanted);
    else if (mdnn_free_runs_cut(ranges, range->first + range->count - wanted) == MDNN_STATUS_OK)
        range = range->newer;
    return range;
}

/* NOT_FOUND: there is none. */
static mdnn_status_t strip_one(mdnn_ranges_t *ranges, uint64_t wanted, mdnn_window_t except)
{
    mdnn_range_t *const range = mdnn_free_runs_oldest_done(ranges, wanted, except, true);
    return range ? strip(ranges, range) : MDNN_STATUS_NOT_FOUND;
}

bool mdnn_ranges_has_run(const mdnn_ranges_t *ranges, uint64_t count)
{
    return mdnn_free_runs_next_size(ranges, count) <= ranges->counts.chunks_free;
}

mdnn_status_t mdnn_free_runs_note_blockers(mdnn_ranges_t *ranges, uint64_t missing,
                                           mdnn_window_t except)
{
    ranges->wait_count = 0;
    for (mdnn_range_t *range = ranges->oldest; range && missing > 0; range = range->newer) {
        if (lies_in(range, except))
            continue;
        MDNN_TRY(range->slab ? mdnn_slab_note(ranges, range)
                             : mdnn_users_note(ranges, &range->users, NULL));
        missing -= missing < range->count ? missing : range->count;
    }
    return missing == 0 ? MDNN_STATUS_BUSY : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
}

mdnn_status_t mdnn_free_runs_create_spare(mdnn_ranges_t *ranges, uint64_t count)
{
    while (ranges->counts.chunks_spare < count) {
        MDNN_TRY(make_spare_room(ranges));
        MDNN_TRY(ranges->device.create_chunk(ranges->context,
                                             &ranges->spare[ranges->counts.chunks_spare]));
        ranges->counts.created++;
        ranges->counts.chunks_spare++;
    }
    return MDNN_STATUS_OK;
}

/* Puts `count` of the existing chunks aside. */
static mdnn_status_t collect(mdnn_ranges_t *ranges, uint64_t count, mdnn_window_t except)
{
    while (ranges->counts.chunks_spare < count) {
        const uint64_t missing = count - ranges->counts.chunks_spare;
        const mdnn_status_t status = strip_one(ranges, missing, except);
        if (status == MDNN_STATUS_NOT_FOUND)
            return mdnn_free_runs_note_blockers(ranges, missing, except);
        MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_free_runs_gather_beside(mdnn_ranges_t *ranges, uint64_t count,
                                           mdnn_window_t except)
{
    const mdnn_status_t status = mdnn_free_runs_create_spare(ranges, count);
    return status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY ? collect(ranges, count, except) : status;
}

mdnn_status_t mdnn_free_runs_gather(mdnn_ranges_t *ranges, uint64_t count)
{
    return mdnn_free_runs_gather_beside(ranges, count, (mdnn_window_t){0, 0});
}

mdnn_status_t mdnn_ranges_shrink(mdnn_ranges_t *ranges, uint64_t count,
                                 const mdnn_stream_point_t **waits, size_t *wait_count)
{
    ranges->wait_count = 0;
    const mdnn_status_t status = collect(ranges, count, (mdnn_window_t){0, 0});
    *waits = ranges->waits;
    *wait_count = status == MDNN_STATUS_BUSY ? ranges->wait_count : 0;
    for (; count > 0 && ranges->counts.chunks_spare > 0; count--) {
        const uint64_t chunk = ranges->spare[ranges->counts.chunks_spare - 1];
        MDNN_TRY(ranges->device.destroy_chunk(ranges->context, chunk));
        ranges->counts.chunks_spare--;
        ranges->counts.destroyed++;
    }
    mdnn_ranges_check(ranges);
    return status;
}

uint64_t mdnn_ranges_idle_chunks(mdnn_ranges_t *ranges)
{
    uint64_t idle = ranges->counts.chunks_spare;
    for (const mdnn_range_t *range = ranges->oldest; range; range = range->newer)
        idle += is_done(ranges, range) ? range->count : 0;
    return idle;
}
