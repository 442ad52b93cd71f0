/* Ranges and their chunks; blocks of slabs are in slabs.c, what a live range does with its chunks
 * in range_chunks.c. */
#include "offload/ranges_internal.h"

#include <stdlib.h>

void mdnn_range_free(mdnn_range_t *range)
{
    mdnn_slab_forget(range);
    free(range->chunks);
    free(range->users.tickets);
    free(range);
}

mdnn_status_t mdnn_ranges_create(const mdnn_ranges_config_t *config,
                                 const mdnn_ranges_device_t *device, void *context,
                                 mdnn_ranges_t **ranges)
{
    const uint64_t chunk = config->chunk_bytes;
    if (chunk < MDNN_BLOCK_LEAST || (chunk & (chunk - 1)) != 0 || config->bytes < chunk ||
        config->bytes % chunk != 0 || config->start % chunk != 0 || config->start == 0 ||
        config->small_bytes > chunk / 2 || config->start > UINT64_MAX - config->bytes)
        return MDNN_STATUS_INVALID_ARGUMENT;
    mdnn_ranges_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->config = *config;
    made->device = *device;
    made->context = context;
    made->steps = config->bytes / chunk;
    /* Pages of these are touched only where there are ranges. */
    made->at = calloc(made->steps, sizeof(mdnn_range_t *));
    made->kept = calloc(made->steps + 1, sizeof(mdnn_range_t *));
    if (!made->at || !made->kept) {
        mdnn_ranges_destroy(made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    *ranges = made;
    return MDNN_STATUS_OK;
}

void mdnn_ranges_destroy(mdnn_ranges_t *ranges)
{
    if (!ranges)
        return;
    for (uint64_t step = 0; ranges->at && step < ranges->end;) {
        mdnn_range_t *const range = ranges->at[step];
        step += range ? range->count : 1;
        if (range)
            mdnn_range_free(range);
    }
    free(ranges->at);
    free(ranges->kept);
    free(ranges->spare);
    free(ranges->waits);
    free(ranges);
}

static bool is_done(mdnn_ranges_t *ranges, mdnn_ticket_t ticket)
{
    return ranges->device.is_done(ranges->context, ticket);
}

static bool all_done(mdnn_ranges_t *ranges, const mdnn_users_t *users)
{
    for (size_t i = 0; i < users->count; i++)
        if (!is_done(ranges, users->tickets[i]))
            return false;
    return true;
}

bool mdnn_users_free_for(mdnn_ranges_t *ranges, const mdnn_users_t *users, uint64_t stream)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->tickets[i].stream != stream && !is_done(ranges, users->tickets[i]))
            return false;
    return true;
}

/* Adds those that are not done to ranges->waits; not those of *own_stream, if it is given. */
static mdnn_status_t note_waits(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                                const uint64_t *own_stream)
{
    mdnn_ticket_t *const waits =
        reallocarray(ranges->waits, ranges->wait_count + users->count + 1, sizeof *waits);
    if (!waits)
        return MDNN_STATUS_OUT_OF_MEMORY;
    ranges->waits = waits;
    for (size_t i = 0; i < users->count; i++)
        if (!(own_stream && users->tickets[i].stream == *own_stream) &&
            !is_done(ranges, users->tickets[i]))
            waits[ranges->wait_count++] = users->tickets[i];
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_acquire(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream)
{
    MDNN_TRY(note_waits(ranges, users, &stream));
    users->stream = stream;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_release(mdnn_ranges_t *ranges, mdnn_users_t *users,
                                 const mdnn_ticket_t *tickets, size_t count)
{
    bool covered = false; /* by the owner's stream, which waited for those before it */
    for (size_t i = 0; i < count; i++)
        covered = covered || tickets[i].stream == users->stream;
    const size_t before = covered ? 0 : users->count;
    mdnn_ticket_t *const all = reallocarray(users->tickets, before + count + 1, sizeof *all);
    if (!all)
        return MDNN_STATUS_OUT_OF_MEMORY;
    users->tickets = all;
    users->count = 0;
    for (size_t i = 0; i < before; i++)
        if (!is_done(ranges, all[i]))
            all[users->count++] = all[i];
    for (size_t i = 0; i < count; i++)
        all[users->count++] = tickets[i];
    return MDNN_STATUS_OK;
}

static void keep(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    range->kept = true;
    range->next_kept = ranges->kept[range->count];
    range->previous_kept = NULL;
    if (range->next_kept)
        range->next_kept->previous_kept = range;
    ranges->kept[range->count] = range;
    range->older = ranges->newest;
    range->newer = NULL;
    if (range->older)
        range->older->newer = range;
    else
        ranges->oldest = range;
    ranges->newest = range;
    ranges->counts.chunks_kept += range->count;
}

static void unkeep(mdnn_ranges_t *ranges, mdnn_range_t *range)
{
    if (range->previous_kept)
        range->previous_kept->next_kept = range->next_kept;
    else
        ranges->kept[range->count] = range->next_kept;
    if (range->next_kept)
        range->next_kept->previous_kept = range->previous_kept;
    *(range->older ? &range->older->newer : &ranges->oldest) = range->newer;
    *(range->newer ? &range->newer->older : &ranges->newest) = range->older;
    range->kept = false;
    ranges->counts.chunks_kept -= range->count;
}

/* A kept range of so many chunks: one that costs no wait if there is one among the first few. */
static mdnn_range_t *find_kept(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream)
{
    enum { LOOKS = 8 };
    mdnn_range_t *range = ranges->kept[count];
    for (int i = 0; range && i < LOOKS; i++, range = range->next_kept)
        if (mdnn_users_free_for(ranges, &range->users, stream))
            return range;
    return ranges->kept[count];
}

/* First stretch of `count` steps without a range; grows the part in use. false: none is left. */
static bool find_steps(mdnn_ranges_t *ranges, uint64_t count, uint64_t *first)
{
    uint64_t run = 0;
    for (uint64_t step = 0; step < ranges->end;) {
        const mdnn_range_t *const range = ranges->at[step];
        run = range ? 0 : run + 1;
        step += range ? range->count : 1;
        if (run == count) {
            *first = step - count;
            return true;
        }
    }
    if (count > ranges->steps - (ranges->end - run))
        return false;
    *first = ranges->end - run;
    return true;
}

uint64_t mdnn_ranges_address(const mdnn_ranges_t *ranges, uint64_t step)
{
    return ranges->config.start + step * ranges->config.chunk_bytes;
}

/* Unmaps the last `count` chunks of a kept range, whose work is done, and puts them aside. */
static mdnn_status_t strip(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t count)
{
    unkeep(ranges, range);
    mdnn_status_t status = MDNN_STATUS_OK;
    for (; count > 0 && status == MDNN_STATUS_OK; count--) {
        const uint64_t last = range->first + range->count - 1;
        const uint64_t chunk = range->chunks[range->count - 1];
        status = ranges->device.unmap(ranges->context, mdnn_ranges_address(ranges, last), chunk);
        if (status != MDNN_STATUS_OK)
            break;
        ranges->counts.unmapped++;
        ranges->spare[ranges->counts.chunks_spare++] = chunk;
        ranges->at[last] = NULL;
        range->count--;
    }
    if (range->count > 0)
        keep(ranges, range);
    else
        mdnn_range_free(range);
    return status;
}

/* Room to put every chunk that exists aside, and one more. */
static mdnn_status_t make_spare_room(mdnn_ranges_t *ranges)
{
    if (ranges->counts.created < ranges->spare_room)
        return MDNN_STATUS_OK;
    const size_t room = ranges->spare_room * 2 + 64;
    uint64_t *const spare = reallocarray(ranges->spare, room, sizeof *spare);
    if (!spare)
        return MDNN_STATUS_OUT_OF_MEMORY;
    ranges->spare = spare;
    ranges->spare_room = room;
    return MDNN_STATUS_OK;
}

/* Takes from the range that was released longest ago, of those that are done. NOT_FOUND: none. */
static mdnn_status_t strip_oldest(mdnn_ranges_t *ranges, uint64_t wanted)
{
    for (mdnn_range_t *range = ranges->oldest; range; range = range->newer)
        if (all_done(ranges, &range->users))
            return strip(ranges, range, wanted < range->count ? wanted : range->count);
    return MDNN_STATUS_NOT_FOUND;
}

/* What the host would have to wait for to have `missing` chunks more: the oldest ranges' work. */
static mdnn_status_t note_blockers(mdnn_ranges_t *ranges, uint64_t missing)
{
    ranges->wait_count = 0;
    for (mdnn_range_t *range = ranges->oldest; range && missing > 0; range = range->newer) {
        MDNN_TRY(note_waits(ranges, &range->users, NULL));
        missing -= missing < range->count ? missing : range->count;
    }
    return missing == 0 ? MDNN_STATUS_BUSY : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
}

mdnn_status_t mdnn_ranges_gather(mdnn_ranges_t *ranges, uint64_t count)
{
    while (ranges->counts.chunks_spare < count) {
        MDNN_TRY(make_spare_room(ranges));
        uint64_t *const slot = &ranges->spare[ranges->counts.chunks_spare];
        const uint64_t missing = count - ranges->counts.chunks_spare;
        mdnn_status_t status = ranges->device.create_chunk(ranges->context, slot);
        if (status == MDNN_STATUS_OK) {
            ranges->counts.created++;
            ranges->counts.chunks_spare++;
            continue;
        }
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            status = strip_oldest(ranges, missing);
        if (status == MDNN_STATUS_NOT_FOUND)
            return note_blockers(ranges, missing);
        MDNN_TRY(status);
    }
    return MDNN_STATUS_OK;
}

/* Maps chunks that are aside at the range's steps. A failure leaves a shorter range. */
static mdnn_status_t fill(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t count)
{
    for (; range->count < count; range->count++) {
        const uint64_t step = range->first + range->count;
        const uint64_t chunk = ranges->spare[ranges->counts.chunks_spare - 1];
        MDNN_TRY(ranges->device.map(ranges->context, mdnn_ranges_address(ranges, step), chunk));
        ranges->counts.mapped++;
        ranges->counts.chunks_spare--;
        range->chunks[range->count] = chunk;
        ranges->at[step] = range;
        if (ranges->end <= step)
            ranges->end = step + 1;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_range_make(mdnn_ranges_t *ranges, uint64_t count, mdnn_range_t **out)
{
    mdnn_range_t *const range = calloc(1, sizeof *range);
    uint64_t *const chunks = calloc(count, sizeof *chunks);
    mdnn_status_t status =
        range && chunks ? mdnn_ranges_gather(ranges, count) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK) {
        range->chunks = chunks;
        status = find_steps(ranges, count, &range->first) ? fill(ranges, range, count)
                                                          : MDNN_STATUS_OVERFLOW;
        if (status == MDNN_STATUS_OK) {
            range->owned = range->mapped = count;
            ranges->counts.chunks_live += count;
            *out = range;
            return MDNN_STATUS_OK;
        }
        if (range->count > 0) { /* nobody has used it; whoever comes may */
            keep(ranges, range);
            return status;
        }
    }
    free(range);
    free(chunks);
    return status;
}

/* Chunks in a row for use in `stream`, whose waits are noted. */
static mdnn_status_t take_range(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream,
                                mdnn_range_t **out)
{
    mdnn_range_t *range = find_kept(ranges, count, stream);
    if (range) {
        MDNN_TRY(mdnn_users_acquire(ranges, &range->users, stream));
        unkeep(ranges, range);
        range->owned = range->mapped = count;
        range->owner = NULL;
        ranges->counts.chunks_live += count;
    } else {
        MDNN_TRY(mdnn_range_make(ranges, count, &range));
        range->users.stream = stream;
    }
    *out = range;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_ranges_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                  mdnn_allocation_t *allocation)
{
    const uint64_t chunk = ranges->config.chunk_bytes;
    mdnn_range_t *range;
    uint64_t address = 0;
    if (bytes == 0)
        return MDNN_STATUS_INVALID_ARGUMENT;
    if (bytes > ranges->config.bytes)
        return MDNN_STATUS_OVERFLOW;
    ranges->wait_count = 0;
    mdnn_status_t status;
    if (bytes <= ranges->config.small_bytes) {
        status = mdnn_slab_acquire(ranges, bytes, stream, &address);
    } else {
        status = take_range(ranges, (bytes + chunk - 1) / chunk, stream, &range);
        if (status == MDNN_STATUS_OK) {
            range->bytes = bytes;
            address = mdnn_ranges_address(ranges, range->first);
        }
    }
    if (status == MDNN_STATUS_OK)
        ranges->counts.live_bytes += bytes;
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_BUSY)
        *allocation = (mdnn_allocation_t){address, ranges->waits, ranges->wait_count};
    return status;
}

static mdnn_range_t *range_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    const uint64_t offset = address - ranges->config.start;
    mdnn_range_t *const range =
        offset < ranges->config.bytes ? ranges->at[offset / ranges->config.chunk_bytes] : NULL;
    return range && !range->kept ? range : NULL;
}

mdnn_status_t mdnn_ranges_release(mdnn_ranges_t *ranges, uint64_t address,
                                  const mdnn_ticket_t *tickets, size_t ticket_count)
{
    mdnn_range_t *const range = range_at(ranges, address);
    uint64_t start, bytes;
    if (!range || !mdnn_ranges_find(ranges, address, &start, &bytes) || start != address)
        return MDNN_STATUS_NOT_FOUND;
    if (range->slab) {
        MDNN_TRY(mdnn_slab_release(ranges, range, address, tickets, ticket_count));
    } else {
        if (range->mapped < range->count)
            return MDNN_STATUS_INVALID_ARGUMENT;
        MDNN_TRY(mdnn_users_release(ranges, &range->users, tickets, ticket_count));
        ranges->counts.chunks_live -= range->count;
        keep(ranges, range);
    }
    ranges->counts.live_bytes -= bytes;
    return MDNN_STATUS_OK;
}

bool mdnn_ranges_find(const mdnn_ranges_t *ranges, uint64_t address, uint64_t *start,
                      uint64_t *bytes)
{
    const mdnn_range_t *const range = range_at(ranges, address);
    if (!range)
        return false;
    const uint64_t base = mdnn_ranges_address(ranges, range->first);
    if (range->slab)
        return mdnn_slab_find(range, base, address, start, bytes);
    *start = base;
    *bytes = range->bytes;
    return address - base < range->bytes;
}

/* Where the owner of the live allocation around `address` stands; NULL if there is none. */
static void **owner_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    mdnn_range_t *const range = range_at(ranges, address);
    if (!range)
        return NULL;
    const uint64_t base = mdnn_ranges_address(ranges, range->first);
    if (range->slab)
        return mdnn_slab_owner(range, base, address);
    return address - base < range->bytes ? &range->owner : NULL;
}

void mdnn_ranges_set_owner(mdnn_ranges_t *ranges, uint64_t address, void *owner)
{
    void **const place = owner_at(ranges, address);
    if (place)
        *place = owner;
}

void *mdnn_ranges_owner(const mdnn_ranges_t *ranges, uint64_t address)
{
    void *const *const place = owner_at(ranges, address);
    return place ? *place : NULL;
}

mdnn_range_t *mdnn_ranges_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    mdnn_range_t *const range = range_at(ranges, address);
    return range && !range->slab && mdnn_ranges_address(ranges, range->first) == address ? range
                                                                                         : NULL;
}

mdnn_ranges_counts_t mdnn_ranges_counts(const mdnn_ranges_t *ranges)
{
    return ranges->counts;
}
