/* Blocks of slabs. A slab has one chunk and blocks of one size; blocks of all slabs of a size wait
 * in one list, those that were released last first. */
#include "offload/ranges_internal.h"

#include <stdlib.h>

struct mdnn_block {
    uint64_t address;
    uint64_t bytes; /* as asked for; 0: released */
    void *owner;
    mdnn_users_t users;
    mdnn_block_t *next; /* in the list of released ones */
};

struct mdnn_slab {
    unsigned size_class;
    size_t count;
    mdnn_block_t *blocks;
};

static uint64_t class_bytes(unsigned size_class)
{
    return (uint64_t)MDNN_BLOCK_LEAST << size_class;
}

static unsigned class_of(uint64_t bytes)
{
    unsigned size_class = 0;
    while (class_bytes(size_class) < bytes)
        size_class++;
    return size_class;
}

/* Cuts one more chunk into blocks. It is no kept range: each block would inherit its waits. */
static mdnn_status_t make_slab(mdnn_ranges_t *ranges, unsigned size_class)
{
    mdnn_range_t *range;
    const size_t count = ranges->config.chunk_bytes / class_bytes(size_class);
    mdnn_slab_t *const slab = calloc(1, sizeof *slab);
    mdnn_block_t *const blocks = calloc(count, sizeof *blocks);
    mdnn_status_t status =
        slab && blocks ? mdnn_kept_make(ranges, &range) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status != MDNN_STATUS_OK) {
        free(slab);
        free(blocks);
        return status;
    }
    *slab = (mdnn_slab_t){size_class, count, blocks};
    range->slab = slab;
    ranges->counts.chunks_slab++;
    const uint64_t base = ranges->config.start + range->first * ranges->config.chunk_bytes;
    for (size_t i = count; i-- > 0;) {
        blocks[i].address = base + i * class_bytes(size_class);
        blocks[i].next = ranges->blocks[size_class];
        ranges->blocks[size_class] = &blocks[i];
    }
    return MDNN_STATUS_OK;
}

/* The link to a released block that `stream` may use at once, or to the first there is. */
static mdnn_block_t **find_block(mdnn_ranges_t *ranges, unsigned size_class, uint64_t stream)
{
    enum { LOOKS = 8 };
    mdnn_block_t **link = &ranges->blocks[size_class];
    for (int i = 0; *link && i < LOOKS; i++, link = &(*link)->next)
        if (mdnn_users_free_for(ranges, &(*link)->users, stream))
            return link;
    return &ranges->blocks[size_class];
}

mdnn_status_t mdnn_slab_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                uint64_t *address)
{
    const unsigned size_class = class_of(bytes);
    if (!ranges->blocks[size_class])
        MDNN_TRY(make_slab(ranges, size_class));
    mdnn_block_t **const link = find_block(ranges, size_class, stream);
    mdnn_block_t *const block = *link;
    MDNN_TRY(mdnn_users_acquire(ranges, &block->users, stream));
    *link = block->next;
    block->bytes = bytes;
    block->owner = NULL;
    *address = block->address;
    return MDNN_STATUS_OK;
}

static mdnn_block_t *block_at(const mdnn_range_t *range, uint64_t base, uint64_t address)
{
    return &range->slab->blocks[(address - base) / class_bytes(range->slab->size_class)];
}

mdnn_status_t mdnn_slab_release(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t address,
                                const mdnn_ticket_t *tickets, size_t ticket_count)
{
    const uint64_t base = ranges->config.start + range->first * ranges->config.chunk_bytes;
    mdnn_block_t *const block = block_at(range, base, address);
    MDNN_TRY(mdnn_users_release(ranges, &block->users, tickets, ticket_count));
    block->bytes = 0;
    block->next = ranges->blocks[range->slab->size_class];
    ranges->blocks[range->slab->size_class] = block;
    return MDNN_STATUS_OK;
}

bool mdnn_slab_find(const mdnn_range_t *range, uint64_t base, uint64_t address, uint64_t *start,
                    uint64_t *bytes)
{
    const mdnn_block_t *const block = block_at(range, base, address);
    *start = block->address;
    *bytes = block->bytes;
    return address - block->address < block->bytes;
}

void **mdnn_slab_owner(const mdnn_range_t *range, uint64_t base, uint64_t address)
{
    mdnn_block_t *const block = block_at(range, base, address);
    return address - block->address < block->bytes ? &block->owner : NULL;
}

void mdnn_slab_forget(mdnn_range_t *range)
{
    if (!range->slab)
        return;
    for (size_t i = 0; i < range->slab->count; i++)
        free(range->slab->blocks[i].users.tickets);
    free(range->slab->blocks);
    free(range->slab);
}
