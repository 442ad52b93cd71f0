/* The address space of virtual GPU memory: which addresses an allocation gets, and which chunks lie
 * behind them. Bookkeeping only: it calls no CUDA function but through mdnn_ranges_device_t, waits
 * for nothing and takes no lock; the caller lets one thread in at a time.
 *
 * One reservation of addresses, cut into equal steps of a chunk. A range is some steps in a row,
 * each with a chunk (one handle of the virtual memory API) mapped. A released range keeps its
 * chunks and its mapping until somebody wants them. Released neighbours serve a request together,
 * and one that needs less gets a part:
 *   - where a request finds enough mapped steps in a row, nothing is mapped;
 *   - else it gets the steps that lack the fewest chunks, and those are mapped: spare ones, new
 *     ones, or such as are taken out of other released ranges, which changes mappings at host time;
 *     so only once everything that was enqueued there has ended.
 * What another stream still works on is nobody's but that stream's, as long as there is anything
 * else: its work may wait for what the program does next, and who is put behind it waits, too.
 * Small requests are blocks of slabs: steps at the end of the reservation, where they part no
 * others, cut as requests come. Slabs cannot leave. One without a block in use is kept like a
 * released range: its chunk serves blocks again, or whoever else wants it. Where one more chunk
 * must not be a slab, a small request gets a range of its own.
 *
 * A live range may be hidden (its chunks are unmapped), give chunks to others and take chunks back,
 * while it keeps its addresses. Its chunks are those of its first steps, as many as it has; those
 * that are mapped are the first of them. What is in them is the caller's to know.
 *
 * Once the program repeats itself, no chunk is created, mapped or unmapped any more. */
#ifndef MDNN_RANGES_H
#define MDNN_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* A point in a stream's work: what an event recorded there stands for. The numbers are the
 * caller's; in one stream they grow. Work in the same stream is in order after it by itself. */
typedef struct mdnn_stream_point {
    uint64_t stream, position;
} mdnn_stream_point_t;

/* What the address space needs of the device. `context` is passed on. A function that fails has
 * changed nothing. map gives access, too. is_done must be cheap and may answer false too often. */
typedef struct mdnn_ranges_device {
    mdnn_status_t (*create_chunk)(void *context,
                                  uint64_t *chunk); /* OUT_OF_DEVICE_MEMORY: budget */
    mdnn_status_t (*map)(void *context, uint64_t address, uint64_t chunk);
    mdnn_status_t (*unmap)(void *context, uint64_t address, uint64_t chunk);
    bool (*is_done)(void *context, mdnn_stream_point_t point);
    /* Gives a chunk back that is mapped nowhere. NULL where mdnn_ranges_shrink is not called. */
    mdnn_status_t (*destroy_chunk)(void *context, uint64_t chunk);
    /* Whether so many more chunks may have blocks in use; NULL: always. Called by acquire only. */
    bool (*may_be_slabs)(void *context, uint64_t chunks);
} mdnn_ranges_device_t;

typedef struct mdnn_ranges_config {
    uint64_t start, bytes; /* the reservation; both multiples of chunk_bytes */
    uint64_t chunk_bytes;  /* a power of two */
    uint64_t small_bytes;  /* requests up to this are blocks of slabs; at most chunk_bytes / 2 */
    /* Allocations that fill this many chunks or more exactly get one more, so that their end is
     * nobody's beginning; 0: none. */
    uint64_t ended_chunks;
} mdnn_ranges_config_t;

/* What the library has done since it was made, and holds now. */
typedef struct mdnn_ranges_counts {
    uint64_t created, destroyed, mapped, unmapped; /* chunks */
    uint64_t live_bytes;                           /* as asked for */
    uint64_t chunks_live, chunks_free;   /* of ranges, slabs included, that are in use, released */
    uint64_t chunks_spare;               /* of nobody, nowhere mapped */
    uint64_t chunks_hidden, chunks_slab; /* of chunks_live: unmapped; of slabs */
    uint64_t steps_slab;                 /* of the reservation, its last: only slabs lie there */
} mdnn_ranges_counts_t;

typedef struct mdnn_ranges mdnn_ranges_t;
typedef struct mdnn_range mdnn_range_t; /* a live range; valid until it is released or dropped */

/* Copies *config and *device. *ranges is the caller's, for mdnn_ranges_destroy. */
mdnn_status_t mdnn_ranges_create(const mdnn_ranges_config_t *config,
                                 const mdnn_ranges_device_t *device, void *context,
                                 mdnn_ranges_t **ranges);

/* Forgets everything; unmaps nothing: the device's state is the caller's to end. NULL: nothing. */
void mdnn_ranges_destroy(mdnn_ranges_t *ranges);

/* What a request got, or what it would have to wait for. */
typedef struct mdnn_acquired {
    uint64_t address;
    const mdnn_stream_point_t
        *waits; /* valid until the next call; never of the requester's own stream */
    size_t wait_count;
} mdnn_acquired_t;

/* Chunks that an allocation of `bytes` > 0 takes; a small one has part of one. */
uint64_t mdnn_ranges_chunks_for(const mdnn_ranges_t *ranges, uint64_t bytes);

/* `bytes` > 0 bytes for use in `stream`, aligned to 512, and to the chunk if they are not small. A
 * block takes less than 512 bytes more than it was asked for. Nobody works on them any more, but
 * those behind whom the program has put `stream` when it released them in its order.
 *   OK: the stream must wait for `waits` before it touches the memory.
 *   BUSY: there would be enough if the host waited for `waits`; then ask again. `address` is 0.
 *   OUT_OF_DEVICE_MEMORY: there is not enough even then.   OVERFLOW: no addresses left.
 * Other failures are the device's or OUT_OF_MEMORY. After any failure nothing is lost. */
mdnn_status_t mdnn_ranges_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                  mdnn_acquired_t *allocation);

/* The same, but if there is nothing else OK also with memory on which others work: that puts the
 * stream behind them, which the program has not done. */
mdnn_status_t mdnn_ranges_acquire_behind(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                         mdnn_acquired_t *allocation);

/* Chunks of released ranges, and of nobody, on which nobody works. */
uint64_t mdnn_ranges_idle_chunks(mdnn_ranges_t *ranges);

/* Addresses alone for `bytes`, which are not small: a live range that owns no chunk, until
 * mdnn_range_take. OVERFLOW: none left. OUT_OF_MEMORY. */
mdnn_status_t mdnn_ranges_reserve(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t *address);

/* No stream: memory is released in nobody's order. */
#define MDNN_NO_ORDER UINT64_MAX

/* Gives the allocation that starts at `address` back, in the order of `stream`, which the program
 * has put behind all that used it; whoever else gets its memory next waits for `points`, points
 * after the last work there of each stream that used it. If none of them is of the stream that
 * acquired it, which waited for earlier users, those are waited for again. NOT_FOUND: none starts
 * there. OUT_OF_MEMORY: it is still live. INVALID_ARGUMENT: not all of it is mapped. */
mdnn_status_t mdnn_ranges_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                  const mdnn_stream_point_t *points, size_t point_count);

/* The caller's mark on a live allocation, NULL at first. set: `address` is where it starts. owner:
 * of the one around `address`, NULL if there is none. O(1). */
void mdnn_ranges_set_owner(mdnn_ranges_t *ranges, uint64_t address, void *owner);
void *mdnn_ranges_owner(const mdnn_ranges_t *ranges, uint64_t address);

/* The live range that starts at `address`; NULL for a block of a slab and where none starts. */
mdnn_range_t *mdnn_ranges_at(const mdnn_ranges_t *ranges, uint64_t address);

typedef struct mdnn_range_chunks {
    const uint64_t *chunks;        /* the first `owned` are there */
    uint64_t count, owned, mapped; /* it can have, has, and has mapped: count >= owned >= mapped */
} mdnn_range_chunks_t;

mdnn_range_chunks_t mdnn_range_chunks(const mdnn_range_t *range);

/* Unmaps its chunks from `keep` on, the last first, or maps those below `upto` (<= owned), the
 * first first. The caller knows that nothing runs there. A failure leaves what was done until then.
 */
mdnn_status_t mdnn_range_hide(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep);
mdnn_status_t mdnn_range_show(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto);

/* Gives its chunks from `keep` (>= mapped) on to whoever wants them. */
void mdnn_range_give(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep);

/* Has it own its first `upto` chunks; the new ones are not mapped, and nothing runs in them.
 * All or none. BUSY (with *waits, which are valid until the next call) and failures as
 * mdnn_ranges_acquire. */
mdnn_status_t mdnn_range_take(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto,
                              const mdnn_stream_point_t **waits, size_t *wait_count);

/* Ends a range that has nothing mapped; its chunks serve others at once. Never fails. */
void mdnn_range_drop(mdnn_ranges_t *ranges, mdnn_range_t *range);

/* The live allocation around `address`: its start and size. false: none is there. O(1). */
bool mdnn_ranges_find(const mdnn_ranges_t *ranges, uint64_t address, uint64_t *start,
                      uint64_t *bytes);

mdnn_ranges_counts_t mdnn_ranges_counts(const mdnn_ranges_t *ranges);
static inline uint64_t mdnn_ranges_chunks_there(const mdnn_ranges_counts_t *counts)
{
    return counts->created - counts->destroyed;
}

/* Destroys `count` chunks that nobody has, or that released ranges have. What is destroyed is so
 * after a failure, too. BUSY (with *waits, which are valid until the next call): the rest is there
 * when the host has waited for those; OUT_OF_DEVICE_MEMORY: there are not so many. */
mdnn_status_t mdnn_ranges_shrink(mdnn_ranges_t *ranges, uint64_t count,
                                 const mdnn_stream_point_t **waits, size_t *wait_count);

#endif
