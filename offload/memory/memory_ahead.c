#include "offload/memory/memory_ahead.h"
#include "config/fault.h"

enum {
    MOST_PREPARED = 16, /* chunks under way; one more range may begin below that */
    MOST_BESIDE = 2,    /* ranges that move, and whose mappings change meanwhile: they come first */
};

/* Work of which nobody knows what it uses is being enqueued, or was not seen to have ended. */
static bool is_untracked(const mdnn_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->untracked_count; i++)
        if (memory->untracked[i].position != 0)
            return true;
    return memory->untracked_open > 0;
}

/* Nobody may touch memory that is released; only such work might. */
static bool may_be_ahead(mdnn_memory_t *memory)
{
    return memory->device.remap_begin && memory->remaps <= MOST_BESIDE && !memory->quiet &&
           !memory->closed && memory->config.safety == MDNN_SAFETY_FAST && !is_untracked(memory) &&
           memory->remap_failed != memory->began + 1;
}

static mdnn_ahead_t *find_place(mdnn_memory_t *memory)
{
    for (int i = 0; i < MDNN_AHEAD; i++)
        if (!memory->ahead[i].range)
            return &memory->ahead[i];
    return NULL;
}

/* Begins to change the mappings of a live range without an owner. Without room for that it is released again. */
static bool begin(mdnn_memory_t *memory, mdnn_ahead_t *place, mdnn_range_t *range, bool map)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(range);
    const mdnn_remap_t remap =
        mdnn_range_remap(memory->ranges, range, map ? chunks.count : 0, MDNN_REMAP_CHUNKS);
    *place = (mdnn_ahead_t){.range = range, .map = map};
    if (memory->device.remap_begin(memory->context, &remap, &place->token) == MDNN_STATUS_OK) {
        memory->steps++;
        return true;
    }
    mdnn_ranges_end_withdrawn(memory->ranges, range);
    place->range = NULL;
    return false;
}

static uint64_t chunks_under_way(const mdnn_memory_t *memory, bool map)
{
    uint64_t chunks = 0;
    for (int i = 0; i < MDNN_AHEAD; i++)
        if (memory->ahead[i].range && memory->ahead[i].map == map)
            chunks += mdnn_range_chunks(memory->ahead[i].range).owned;
    return chunks;
}

void mdnn_memory_reclaim(mdnn_memory_t *memory, uint64_t chunks)
{
    mdnn_ahead_t *place;
    while (may_be_ahead(memory) && (place = find_place(memory))) {
        const uint64_t there =
            mdnn_ranges_counts(memory->ranges).chunks_spare + chunks_under_way(memory, false);
        const uint64_t missing = chunks > there ? chunks - there : 0;
        mdnn_range_t *const range =
            missing > 0
                ? mdnn_ranges_withdraw(memory->ranges,
                                       missing < MDNN_REMAP_CHUNKS ? missing : MDNN_REMAP_CHUNKS)
                : NULL;
        if (!range || !begin(memory, place, range, false))
            return;
    }
}

/* ---- ends ---- */

static void note(mdnn_memory_t *memory, mdnn_ahead_t *ahead, uint64_t done)
{
    if (done == ahead->done)
        return;
    mdnn_range_remapped(memory->ranges, ahead->range, ahead->map, done - ahead->done);
    if (!ahead->map)
        mdnn_range_give(memory->ranges, ahead->range, mdnn_range_chunks(ahead->range).mapped);
    ahead->done = done;
    memory->steps++;
}

/* `all`: after all of its chunks. */
static void end(mdnn_memory_t *memory, mdnn_ahead_t *ahead, bool all)
{
    uint64_t done;
    const mdnn_status_t status = mdnn_memory_end_change(memory, ahead->token, all, &done);
    note(memory, ahead, done);
    if (mdnn_range_chunks(ahead->range).mapped == 0 || !MDNN_FAULT(MAPPED_IN_PART_IS_LOST))
        mdnn_ranges_end_withdrawn(memory->ranges, ahead->range);
    ahead->range = NULL;
    memory->steps++;
    if (status != MDNN_STATUS_OK) /* no demand's trouble: it would try what it needs itself */
        mdnn_memory_note_failed_remap(
            memory, MDNN_FAULT(FAILED_AHEAD_IS_A_DEMANDS) ? status : memory->trouble);
}

void mdnn_memory_note_ahead(mdnn_memory_t *memory)
{
    for (int i = 0; i < MDNN_AHEAD; i++) {
        mdnn_ahead_t *const ahead = &memory->ahead[i];
        bool over = false;
        if (!ahead->range)
            continue;
        note(memory, ahead, memory->device.remap_done(memory->context, ahead->token, &over));
        if (over)
            end(memory, ahead, false);
    }
}

bool mdnn_memory_end_ahead(mdnn_memory_t *memory)
{
    bool any = false;
    for (int i = 0; i < MDNN_AHEAD; i++)
        if (memory->ahead[i].range) {
            end(memory, &memory->ahead[i], false);
            any = true;
        }
    return any;
}

bool mdnn_memory_finish_ahead(mdnn_memory_t *memory)
{
    for (int i = 0; i < MDNN_AHEAD; i++) {
        mdnn_ahead_t *const ahead = &memory->ahead[i];
        if (!ahead->range)
            continue;
        const mdnn_ranges_counts_t before = mdnn_ranges_counts(memory->ranges);
        end(memory, ahead, !MDNN_FAULT(WAITS_CALL_OFF_WHAT_IS_AHEAD));
        const mdnn_ranges_counts_t after = mdnn_ranges_counts(memory->ranges);
        if (after.mapped + after.unmapped != before.mapped + before.unmapped ||
            MDNN_FAULT(WAITS_CALL_OFF_WHAT_IS_AHEAD))
            return true;
    }
    return false;
}

/* ---- for what will be new ---- */

/* Of the ranges that are new soon, the first for which there is no released memory in a row; 0: there is none, or there
 * are not enough spare chunks for it. */
static uint64_t next_wanted(mdnn_memory_t *memory, uint64_t spare)
{
    uint64_t sizes[MDNN_BIRTHS_AHEAD];
    const size_t count = mdnn_follower_births(memory->follower, sizes);
    for (size_t i = 0; i < count; i++) {
        const uint64_t chunks = sizes[i] / memory->chunk_bytes;
        const bool is_block = chunks == 0 && !MDNN_FAULT(BLOCKS_ARE_PREPARED_FOR);
        if (is_block || mdnn_ranges_has_run(memory->ranges, chunks))
            continue;
        return chunks <= spare && chunks <= MDNN_REMAP_CHUNKS ? chunks : 0;
    }
    return 0;
}

void mdnn_memory_prepare(mdnn_memory_t *memory)
{
    const uint64_t spare = mdnn_ranges_counts(memory->ranges).chunks_spare;
    const mdnn_stream_point_t *waits;
    size_t wait_count;
    uint64_t address;
    mdnn_ahead_t *place;
    if (spare == 0 || memory->returning.first || chunks_under_way(memory, true) >= MOST_PREPARED ||
        !may_be_ahead(memory) || !(place = find_place(memory)))
        return;
    const uint64_t chunks = next_wanted(memory, spare);
    if (chunks == 0 || mdnn_ranges_reserve(memory->ranges, chunks * memory->chunk_bytes - 1,
                                           &address) != MDNN_STATUS_OK)
        return;
    mdnn_range_t *const range = mdnn_ranges_at(memory->ranges, address);
    if (mdnn_range_take(memory->ranges, range, chunks, &waits, &wait_count) == MDNN_STATUS_OK)
        (void)begin(memory, place, range, true);
    else
        mdnn_ranges_end_withdrawn(memory->ranges, range);
}

void mdnn_memory_finish_prepared(mdnn_memory_t *memory, uint64_t chunks)
{
    for (int i = 0; i < MDNN_AHEAD; i++)
        if (memory->ahead[i].range && memory->ahead[i].map &&
            mdnn_range_chunks(memory->ahead[i].range).count >= chunks &&
            !mdnn_ranges_has_run(memory->ranges, chunks))
            end(memory, &memory->ahead[i], true);
}
