/* Requests for chunks in a row: runs of released ranges are cut for those that need less, and extended for
 * those that need more.
 *
 * A request gets the steps in a row that lack the fewest chunks: none, if there is a run that is
 * long enough (of those the shortest); else what is missing is mapped beside and between runs.
 * Steps where other streams still work are passed over. Only if there is no place without them, and
 * the request may be put behind them, it gets such a run, or a place with such steps, unless the
 * host would have to wait for the chunks that it lacks and need not elsewhere. A large run may be
 * cut for a small request. PyTorch's allocator avoids that, since what it has cut it cannot extend;
 * here it costs at most a few mappings later. To allow requests only runs of 2, 4, 8, or 16 times
 * their size was tried on the sequences of test/bench/bench_ranges.c: sometimes fewer mappings, as
 * often more. */
#include "config/fault.h"
#include "offload/ranges/free_runs_internal.h"

#include <stdlib.h>

static bool free_for(mdnn_ranges_t *ranges, mdnn_window_t window, uint64_t stream)
{
    for (uint64_t step = window.first; step < window.end;) {
        const mdnn_range_t *const range = ranges->at[step];
        if (!mdnn_users_free_for(ranges, &range->users, stream) &&
            !MDNN_FAULT(WAITS_WHERE_IT_NEED_NOT))
            return false;
        step = range->first + range->count;
    }
    return true;
}

/* Where memory is short, the side of a run that was released last: what has been released for
 * longer is idle sooner, and can be taken apart. Else always the same side: a program that repeats
 * itself settles within fewer iterations. */
static mdnn_window_t side_of(const mdnn_ranges_t *ranges, const mdnn_range_t *run, uint64_t count)
{
    const uint64_t end = run->first + run->run_count;
    const bool is_short = ranges->counts.unmapped > 0 && !MDNN_FAULT(IDLE_MEMORY_IS_USED_FIRST);
    if (is_short && ranges->at[end - 1]->released > run->released)
        return (mdnn_window_t){end - count, end};
    return (mdnn_window_t){run->first, run->first + count};
}

typedef enum fit { NO_FIT, FIT_IN_USE, FIT } fit_t;

/* Kept steps in a row: the shortest run that is long enough; of the first few of those, one where
 * no other stream still works. */
static fit_t find_fit(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream, mdnn_window_t *window)
{
    enum { LOOKS = 8 };
    int looks = 0;
    fit_t found = NO_FIT;
    for (uint64_t size = mdnn_free_runs_next_size(ranges, count);
         looks < LOOKS && size <= ranges->counts.chunks_free;
         size = mdnn_free_runs_next_size(ranges, size + 1))
        for (const mdnn_range_t *run = ranges->runs[size]; run && looks < LOOKS;
             run = run->next_run, looks++) {
            const mdnn_window_t side = side_of(ranges, run, count);
            const bool good = free_for(ranges, side, stream);
            if (good || found == NO_FIT)
                *window = side;
            if (good)
                return FIT;
            found = FIT_IN_USE;
        }
    return found;
}

typedef struct search {
    uint64_t count; /* steps wanted */
    uint64_t limit; /* before this step */
    uint64_t idle;  /* chunks that nobody works on, spare or kept; UINT64_MAX: does not matter */
    const uint64_t *stream; /* only where no other stream still works; NULL: does not matter */
    uint64_t missing; /* steps of the best window without a chunk; UINT64_MAX: there is none */
    mdnn_window_t window;
} search_t;

/* Steps of the window with a chunk; *idle: of them, those that nobody works on. UINT64_MAX: others
 * than *stream work there. */
static uint64_t kept_steps(mdnn_ranges_t *ranges, mdnn_window_t window, const uint64_t *stream,
                           uint64_t *idle)
{
    uint64_t kept = 0;
    for (uint64_t step = window.first; step < window.end && step < ranges->end;) {
        const mdnn_range_t *const range = ranges->at[step];
        const uint64_t range_end = range ? range->first + range->count : step + 1;
        const uint64_t end = range_end < window.end ? range_end : window.end;
        if (range && stream && !mdnn_users_free_for(ranges, &range->users, *stream))
            return UINT64_MAX;
        kept += range ? end - step : 0;
        if (range && idle && mdnn_users_done(ranges, &range->users))
            *idle += end - step;
        step = end;
    }
    return kept;
}

static void try_window(mdnn_ranges_t *ranges, search_t *search, mdnn_window_t stretch,
                       uint64_t first)
{
    const mdnn_window_t window = {first, first + search->count};
    uint64_t idle = 0;
    const bool any = search->idle == UINT64_MAX;
    if (first < stretch.first || window.end > stretch.end || search->missing == 0)
        return;
    const uint64_t kept = kept_steps(ranges, window, search->stream, any ? NULL : &idle);
    if (kept == UINT64_MAX)
        return;
    const uint64_t missing = search->count - kept;
    if (missing < search->missing && (any || missing + idle <= search->idle)) {
        search->missing = missing;
        search->window = window;
    }
}

/* Windows in a stretch without ranges in use. The best one begins or ends with a run. */
static void search_stretch(mdnn_ranges_t *ranges, search_t *search, mdnn_window_t stretch)
{
    if (stretch.end < stretch.first + search->count)
        return;
    try_window(ranges, search, stretch, stretch.first);
    for (uint64_t step = stretch.first; step < stretch.end && step < ranges->end;) {
        const mdnn_range_t *const run = ranges->at[step];
        if (!run) {
            step++;
            continue;
        }
        const uint64_t end = step + run->run_count;
        try_window(ranges, search, stretch, step);
        if (end >= search->count)
            try_window(ranges, search, stretch, end - search->count);
        try_window(ranges, search, stretch, end); /* without it */
        step = end;
    }
}

/* The steps in a row that lack the fewest chunks, and where `idle` matters, of those for which
 * nobody has to wait. false: there are none. */
static bool find_window_below(mdnn_ranges_t *ranges, search_t *search)
{
    uint64_t first = 0;
    search->missing = UINT64_MAX;
    for (uint64_t step = 0; step < ranges->end && step < search->limit;) {
        const mdnn_range_t *const range = ranges->at[step];
        if (range && !range->is_free) {
            search_stretch(ranges, search, (mdnn_window_t){first, step});
            first = step + range->count;
        }
        step += range ? range->count : 1;
    }
    search_stretch(ranges, search, (mdnn_window_t){first, search->limit});
    return search->missing != UINT64_MAX;
}

/* Near the beginning, if there are any: else what is extended again and again wanders through all
 * addresses, and every search takes longer. */
static bool find_window(mdnn_ranges_t *ranges, search_t *search)
{
    search->limit = MDNN_FAULT(ADDRESSES_WANDER) ? ranges->top : 2 * (ranges->used + search->count);
    if (search->limit < ranges->top && find_window_below(ranges, search))
        return true;
    search->limit = ranges->top;
    return find_window_below(ranges, search);
}

/* Where a request is to be served, and has what it lacks aside. `stream`: as in search_t; then
 * NOT_FOUND: nowhere, or not with what nobody works on. */
static mdnn_status_t prepare_window(mdnn_ranges_t *ranges, uint64_t count, const uint64_t *stream,
                                    mdnn_window_t *window)
{
    search_t search = {.count = count, .idle = UINT64_MAX, .stream = stream};
    if (!find_window(ranges, &search))
        return stream ? MDNN_STATUS_NOT_FOUND : MDNN_STATUS_OVERFLOW;
    *window = search.window;
    const mdnn_status_t status = mdnn_free_runs_create_spare(ranges, search.missing);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && !MDNN_FAULT(HOST_WAITS_FOR_FEWER_MAPPINGS)) {
        const uint64_t fewest = search.missing;
        search.idle = mdnn_ranges_idle_chunks(ranges);
        if (find_window(ranges, &search))
            *window = search.window;
        else if (stream)
            return MDNN_STATUS_NOT_FOUND;
        else
            search.missing = fewest;
    } else {
        MDNN_TRY(status);
    }
    MDNN_TRY(mdnn_free_runs_cut(ranges, window->first));
    MDNN_TRY(mdnn_free_runs_cut(ranges, window->end));
    return mdnn_free_runs_gather_beside(ranges, search.missing, *window);
}

/* Maps chunks that are aside at steps from `first` to `end`, where there is no range, as a kept
 * one; a shorter one, if that fails. */
static mdnn_status_t fill_gap(mdnn_ranges_t *ranges, uint64_t first, uint64_t end)
{
    mdnn_range_t *const range = calloc(1, sizeof *range);
    mdnn_status_t status = MDNN_STATUS_OK;
    if (!range)
        return MDNN_STATUS_OUT_OF_MEMORY;
    range->first = first;
    range->chunks = ranges->chunks + first;
    for (uint64_t step = first; step < end && status == MDNN_STATUS_OK; step++) {
        const uint64_t chunk = ranges->spare[ranges->counts.chunks_spare - 1];
        status = ranges->device.map(ranges->context, mdnn_ranges_address(ranges, step), chunk);
        if (status != MDNN_STATUS_OK)
            break;
        ranges->counts.mapped++;
        ranges->counts.chunks_spare--;
        range->chunks[range->count++] = chunk;
        ranges->at[step] = range;
    }
    ranges->used += range->count;
    if (range->count > 0 && ranges->end < first + range->count)
        ranges->end = first + range->count;
    if (range->count > 0)
        mdnn_free_runs_add(ranges, range);
    else
        free(range);
    return status;
}

static mdnn_status_t fill(mdnn_ranges_t *ranges, mdnn_window_t window)
{
    for (uint64_t step = window.first; step < window.end;) {
        const mdnn_range_t *const range = ranges->at[step];
        uint64_t end = range ? range->first + range->count : step + 1;
        while (!range && end < window.end && !ranges->at[end])
            end++;
        if (!range)
            MDNN_TRY(fill_gap(ranges, step, end));
        step = end;
    }
    return MDNN_STATUS_OK;
}

/* Kept steps come into use as one range. */
static mdnn_status_t use(mdnn_ranges_t *ranges, mdnn_window_t window, uint64_t stream,
                         mdnn_range_t **out)
{
    MDNN_TRY(mdnn_free_runs_cut(ranges, window.first));
    MDNN_TRY(mdnn_free_runs_cut(ranges, window.end));
    mdnn_range_t *const range = ranges->at[window.first];
    for (uint64_t step = range->first + range->count; step < window.end;) {
        const mdnn_range_t *const other = ranges->at[step];
        MDNN_TRY(mdnn_users_reserve(&range->users, other->users.count));
        if (!MDNN_FAULT(NEIGHBOUR_FORGETS_USERS))
            mdnn_users_join(ranges, &range->users, &other->users);
        step += other->count;
    }
    MDNN_TRY(mdnn_users_acquire(ranges, &range->users, stream));
    mdnn_free_runs_leave(ranges, window.first, window.end - window.first);
    mdnn_free_runs_unlink(ranges, range);
    for (uint64_t step = range->first + range->count; step < window.end; step++) {
        mdnn_range_t *const other = ranges->at[step];
        ranges->at[step] = range;
        if (step + 1 == other->first + other->count) {
            mdnn_free_runs_unlink(ranges, other);
            mdnn_range_free(other);
        }
    }
    range->count = range->owned = range->mapped = window.end - window.first;
    range->owner = NULL;
    ranges->counts.chunks_live += range->count;
    *out = range;
    return MDNN_STATUS_OK;
}

/* There is no place without other streams. BUSY: there is once they have ended, who are noted;
 * those of the steps in a row, if there are so many. */
static mdnn_status_t note_others(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream, fit_t fit,
                                 mdnn_window_t window)
{
    const uint64_t spare = ranges->counts.chunks_spare;
    search_t anywhere = {.count = count, .idle = UINT64_MAX};
    if (fit == NO_FIT && !find_window(ranges, &anywhere))
        return MDNN_STATUS_OVERFLOW;
    if (fit == NO_FIT)
        return mdnn_free_runs_note_blockers(ranges, count > spare ? count - spare : 1,
                                            (mdnn_window_t){0, 0});
    for (uint64_t step = window.first; step < window.end;) {
        const mdnn_range_t *const range = ranges->at[step];
        MDNN_TRY(mdnn_users_note_others(ranges, &range->users, stream));
        step = range->first + range->count;
    }
    return MDNN_STATUS_BUSY;
}

mdnn_status_t mdnn_free_runs_take(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream,
                                  bool behind, mdnn_range_t **range)
{
    mdnn_window_t run = {0}, window;
    const fit_t fit = find_fit(ranges, count, stream, &run);
    if (fit == FIT)
        return use(ranges, run, stream, range);
    mdnn_status_t status = MDNN_FAULT(NOT_EVEN_IDLE_MEMORY_INSTEAD)
                               ? MDNN_STATUS_NOT_FOUND
                               : prepare_window(ranges, count, &stream, &window);
    if (status == MDNN_STATUS_NOT_FOUND && (!behind || MDNN_FAULT(MAPS_NOTHING_INSTEAD)))
        return note_others(ranges, count, stream, fit, run);
    if (status == MDNN_STATUS_NOT_FOUND && fit == FIT_IN_USE)
        return use(ranges, run, stream, range);
    if (status == MDNN_STATUS_NOT_FOUND)
        status = prepare_window(ranges, count, NULL, &window);
    MDNN_TRY(status);
    MDNN_TRY(fill(ranges, window));
    return use(ranges, window, stream, range);
}
