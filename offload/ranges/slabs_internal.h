/* The content of a slab: slabs.c maintains it, slab_requests.c finds places in it, and slabs_check.c checks it. */
#ifndef MDNN_SLABS_INTERNAL_H
#define MDNN_SLABS_INTERNAL_H

#include "offload/ranges/ranges_internal.h"

struct mdnn_slab {
    unsigned kind;
    uint64_t used;           /* bytes that blocks in use take */
    mdnn_block_t **starting; /* by granule: the block that starts there */
    uint64_t *starts;        /* bits by granule: where one starts; */
    uint64_t *some;          /* and by word of those: where any does */
};

static inline mdnn_range_t *mdnn_slab_at(const mdnn_ranges_t *ranges, uint64_t address)
{
    return ranges->at[(address - ranges->config.start) / ranges->config.chunk_bytes];
}

static inline uint64_t mdnn_block_end(const mdnn_block_t *block)
{
    return block->address + block->room;
}

/* ---- slabs.c ---- */
/* Splits a block, released or not, into two at `address`, which lies in it; *tail is the second
 * one, with room for `more` users. OUT_OF_MEMORY. */
mdnn_status_t mdnn_block_cut(mdnn_ranges_t *ranges, mdnn_block_t *block, uint64_t address,
                             size_t more, mdnn_block_t **tail);
/* Joins the block with the one after it. */
void mdnn_block_swallow(mdnn_ranges_t *ranges, mdnn_block_t *block);
/* Blocks take those bytes from now on, or no longer take them. A slab is kept while it is empty. */
void mdnn_slab_count_used(mdnn_ranges_t *ranges, uint64_t start, uint64_t end, bool used);
/* Adds a slab in memory where no enqueued work remains; otherwise all of its blocks would inherit
 * the waits. */
mdnn_status_t mdnn_slab_make(mdnn_ranges_t *ranges, unsigned kind);

#endif
