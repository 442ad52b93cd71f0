/* Released ranges: neighbours are runs, which are cut for requests that need less, extended for
 * those that need more, and give chunks away.
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
#include "offload/memory/ranges_check.h"
#include "offload/memory/ranges_internal.h"

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

/* The least size of runs from `count` steps on; above all that there are: none. */
static uint64_t next_size(const mdnn_ranges_t *ranges, uint64_t count)
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

/* Whole ranges from `first` on are no part of their run any more. */
static void leave_run(mdnn_ranges_t *ranges, uint64_t first, uint64_t count)
{
    mdnn_range_t *const run = first_of_run(ranges, ranges->at[first]);
    const uint64_t end = run->first + run->run_count;
    unlist_run(ranges, run);
    list_run(ranges, run->first, first - run->first);
    list_run(ranges, first + count, end - (first + count));
}

/* If a kept range goes over `step`, it is two from now on, as old as it was. */
static mdnn_status_t cut(mdnn_ranges_t *ranges, uint64_t step)
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
    leave_run(ranges, range->first, range->count);
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

/* Steps that must not be stripped. */
typedef struct window {
    uint64_t first, end;
} window_t;

static bool lies_in(const mdnn_range_t *range, window_t window)
{
    return window.first <= range->first && range->first < window.end;
}

/* Takes from the range that was released longest ago, of those that are done. NOT_FOUND: none. */
static mdnn_status_t strip_one(mdnn_ranges_t *ranges, uint64_t wanted, window_t except)
{
    mdnn_range_t *range = ranges->oldest;
    while (range && (lies_in(range, except) || !is_done(ranges, range)))
        range = range->newer;
    if (!range)
        return MDNN_STATUS_NOT_FOUND;
    if (wanted < range->count) {
        /* The side on which its run goes on keeps its chunks. Without memory to cut it, all go. */
        if (free_at(ranges, range->first + range->count) &&
            !(range->first > 0 && free_at(ranges, range->first - 1)))
            (void)cut(ranges, range->first + wanted);
        else if (cut(ranges, range->first + range->count - wanted) == MDNN_STATUS_OK)
            range = range->newer;
    }
    return strip(ranges, range);
}

/* What the host would have to wait for to have `missing` chunks more: the oldest ranges' work. */
static mdnn_status_t note_blockers(mdnn_ranges_t *ranges, uint64_t missing, window_t except)
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

/* Has `count` chunks aside; but makes none of kept ones. OUT_OF_DEVICE_MEMORY. */
static mdnn_status_t create_spare(mdnn_ranges_t *ranges, uint64_t count)
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

/* Has `count` chunks aside, of those that there are. */
static mdnn_status_t collect(mdnn_ranges_t *ranges, uint64_t count, window_t except)
{
    while (ranges->counts.chunks_spare < count) {
        const uint64_t missing = count - ranges->counts.chunks_spare;
        const mdnn_status_t status = strip_one(ranges, missing, except);
        if (status == MDNN_STATUS_NOT_FOUND)
            return note_blockers(ranges, missing, except);
        MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t gather(mdnn_ranges_t *ranges, uint64_t count, window_t except)
{
    const mdnn_status_t status = create_spare(ranges, count);
    return status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY ? collect(ranges, count, except) : status;
}

mdnn_status_t mdnn_free_runs_gather(mdnn_ranges_t *ranges, uint64_t count)
{
    return gather(ranges, count, (window_t){0, 0});
}

mdnn_status_t mdnn_ranges_shrink(mdnn_ranges_t *ranges, uint64_t count,
                                 const mdnn_stream_point_t **waits, size_t *wait_count)
{
    ranges->wait_count = 0;
    const mdnn_status_t status = collect(ranges, count, (window_t){0, 0});
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

/* ---- serving ---- */

static bool free_for(mdnn_ranges_t *ranges, window_t window, uint64_t stream)
{
    for (uint64_t step = window.first; step < window.end;) {
        const mdnn_range_t *const range = ranges->at[step];
        if (!mdnn_users_free_for(ranges, &range->users, stream))
            return false;
        step = range->first + range->count;
    }
    return true;
}

/* Where memory is short, the side of a run that was released last: what has been released for
 * longer is idle sooner, and can be taken apart. Else always the same side: a program that repeats
 * itself settles within fewer iterations. */
static window_t side_of(const mdnn_ranges_t *ranges, const mdnn_range_t *run, uint64_t count)
{
    const uint64_t end = run->first + run->run_count;
    const bool is_short = ranges->counts.unmapped > 0;
    if (is_short && ranges->at[end - 1]->released > run->released)
        return (window_t){end - count, end};
    return (window_t){run->first, run->first + count};
}

typedef enum fit { NO_FIT, FIT_IN_USE, FIT } fit_t;

/* Kept steps in a row: the shortest run that is long enough; of the first few of those, one where
 * no other stream still works. */
static fit_t find_fit(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream, window_t *window)
{
    enum { LOOKS = 8 };
    int looks = 0;
    fit_t found = NO_FIT;
    for (uint64_t size = next_size(ranges, count);
         looks < LOOKS && size <= ranges->counts.chunks_free; size = next_size(ranges, size + 1))
        for (const mdnn_range_t *run = ranges->runs[size]; run && looks < LOOKS;
             run = run->next_run, looks++) {
            const window_t side = side_of(ranges, run, count);
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
    window_t window;
} search_t;

/* Steps of the window with a chunk; *idle: of them, those that nobody works on. UINT64_MAX: others
 * than *stream work there. */
static uint64_t kept_steps(mdnn_ranges_t *ranges, window_t window, const uint64_t *stream,
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

static void try_window(mdnn_ranges_t *ranges, search_t *search, window_t stretch, uint64_t first)
{
    const window_t window = {first, first + search->count};
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
static void search_stretch(mdnn_ranges_t *ranges, search_t *search, window_t stretch)
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
            search_stretch(ranges, search, (window_t){first, step});
            first = step + range->count;
        }
        step += range ? range->count : 1;
    }
    search_stretch(ranges, search, (window_t){first, search->limit});
    return search->missing != UINT64_MAX;
}

/* Near the beginning, if there are any: else what is extended again and again wanders through all
 * addresses, and every search takes longer. */
static bool find_window(mdnn_ranges_t *ranges, search_t *search)
{
    search->limit = 2 * (ranges->used + search->count);
    if (search->limit < ranges->top && find_window_below(ranges, search))
        return true;
    search->limit = ranges->top;
    return find_window_below(ranges, search);
}

uint64_t mdnn_ranges_idle_chunks(mdnn_ranges_t *ranges)
{
    uint64_t idle = ranges->counts.chunks_spare;
    for (const mdnn_range_t *range = ranges->oldest; range; range = range->newer)
        idle += is_done(ranges, range) ? range->count : 0;
    return idle;
}

/* Where a request is to be served, and has what it lacks aside. `stream`: as in search_t; then
 * NOT_FOUND: nowhere, or not with what nobody works on. */
static mdnn_status_t prepare_window(mdnn_ranges_t *ranges, uint64_t count, const uint64_t *stream,
                                    window_t *window)
{
    search_t search = {.count = count, .idle = UINT64_MAX, .stream = stream};
    if (!find_window(ranges, &search))
        return stream ? MDNN_STATUS_NOT_FOUND : MDNN_STATUS_OVERFLOW;
    *window = search.window;
    const mdnn_status_t status = create_spare(ranges, search.missing);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {
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
    MDNN_TRY(cut(ranges, window->first));
    MDNN_TRY(cut(ranges, window->end));
    return gather(ranges, search.missing, *window);
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
    if (ranges->end < first + range->count)
        ranges->end = first + range->count;
    if (range->count > 0)
        mdnn_free_runs_add(ranges, range);
    else
        free(range);
    return status;
}

static mdnn_status_t fill(mdnn_ranges_t *ranges, window_t window)
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
static mdnn_status_t use(mdnn_ranges_t *ranges, window_t window, uint64_t stream,
                         mdnn_range_t **out)
{
    MDNN_TRY(cut(ranges, window.first));
    MDNN_TRY(cut(ranges, window.end));
    mdnn_range_t *const range = ranges->at[window.first];
    for (uint64_t step = range->first + range->count; step < window.end;) {
        const mdnn_range_t *const other = ranges->at[step];
        MDNN_TRY(mdnn_users_reserve(&range->users, other->users.count));
        mdnn_users_join(ranges, &range->users, &other->users);
        step += other->count;
    }
    MDNN_TRY(mdnn_users_acquire(ranges, &range->users, stream));
    leave_run(ranges, window.first, window.end - window.first);
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
                                 window_t window)
{
    const uint64_t spare = ranges->counts.chunks_spare;
    search_t anywhere = {.count = count, .idle = UINT64_MAX};
    if (fit == NO_FIT && !find_window(ranges, &anywhere))
        return MDNN_STATUS_OVERFLOW;
    if (fit == NO_FIT)
        return note_blockers(ranges, count > spare ? count - spare : 1, (window_t){0, 0});
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
    window_t run = {0}, window;
    const fit_t fit = find_fit(ranges, count, stream, &run);
    if (fit == FIT)
        return use(ranges, run, stream, range);
    mdnn_status_t status = prepare_window(ranges, count, &stream, &window);
    if (status == MDNN_STATUS_NOT_FOUND && !behind)
        return note_others(ranges, count, stream, fit, run);
    if (status == MDNN_STATUS_NOT_FOUND && fit == FIT_IN_USE)
        return use(ranges, run, stream, range);
    if (status == MDNN_STATUS_NOT_FOUND)
        status = prepare_window(ranges, count, NULL, &window);
    MDNN_TRY(status);
    MDNN_TRY(fill(ranges, window));
    return use(ranges, window, stream, range);
}
