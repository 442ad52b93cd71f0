/* The address space of virtual GPU memory: which addresses an allocation gets, and which chunks lie behind them. A
 * chunk is a piece of device memory (one handle of the driver's virtual memory API); all chunks have the same size.
 * This is bookkeeping only: it calls CUDA functions only through mdnn_ranges_device_t, waits for nothing and takes no
 * lock; the caller lets one thread in at a time.
 *
 * There is one reservation of addresses, cut into equal steps of the size of a chunk. A range is a sequence of
 * neighbouring steps. Normally each of them has a mapped chunk; the exceptions are further down. A released range keeps
 * its chunks and its mapping until a request needs them. Released neighbours serve a request together, and a smaller
 * request gets a part of them:
 *   - if a request finds enough neighbouring mapped steps, nothing is mapped;
 *   - otherwise it gets the neighbouring steps that lack the fewest chunks, and the missing chunks are mapped there:
 *     spare ones, new ones, or those of other released ranges. Taking a chunk changes mappings immediately, so it
 *     happens only when all work that was enqueued there has ended.
 * Memory on which a stream still works serves only that stream, as long as there is other memory: the stream's work may
 * wait for what the program does next, and another stream that is put behind it would wait as well.
 *
 * Small requests become blocks of slabs. A slab is one chunk at the end of the reservation, where slabs do not separate
 * other ranges; each is cut into blocks as requests come. Slabs cannot leave. A slab without a block in use is kept
 * like a released range: its chunk serves blocks again, or any other request. Tiny blocks (at most a 64th of a chunk) have
 * slabs of their own. If no further slab is allowed (may_be_slabs), a small request gets a range of its own.
 *
 * A live range keeps its addresses, but may be hidden (its chunks are unmapped), give chunks to other ranges and take
 * chunks back. The chunks that it has belong to its first steps, and those that are mapped come before those that
 * are not. What the chunks contain is the caller's business.
 *
 * If a program repeats itself, no live range is hidden or gives chunks away, and there is some memory to spare, then
 * after the first iterations usually no chunk is created, mapped or unmapped. */
#ifndef MDNN_RANGES_H
#define MDNN_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* A point in a stream's work, as an event recorded there would mark it. The caller chooses the
 * numbers, which grow within a stream. Later work in the same stream follows it without a wait. */
typedef struct mdnn_stream_point {
    uint64_t stream, position;
} mdnn_stream_point_t;

/* The functions of the device that the address space needs. `context` is passed on to them. A
 * function that fails has changed nothing. map also gives access. is_done must be cheap, and may return false for a
 * while although the point has passed. */
typedef struct mdnn_ranges_device {
    mdnn_status_t (*create_chunk)(void *context,
                                  uint64_t *chunk); /* OUT_OF_DEVICE_MEMORY: budget */
    mdnn_status_t (*map)(void *context, uint64_t address, uint64_t chunk);
    mdnn_status_t (*unmap)(void *context, uint64_t address, uint64_t chunk);
    bool (*is_done)(void *context, mdnn_stream_point_t point);
    /* Gives back a chunk that is mapped nowhere. NULL if mdnn_ranges_shrink is never called. */
    mdnn_status_t (*destroy_chunk)(void *context, uint64_t chunk);
    /* Whether this many more slabs may come into use, for a block that takes `room`; NULL: always. Only acquire calls it. */
    bool (*may_be_slabs)(void *context, uint64_t chunks, uint64_t room);
} mdnn_ranges_device_t;

typedef struct mdnn_ranges_config {
    uint64_t start, bytes; /* the reservation; both multiples of chunk_bytes */
    uint64_t chunk_bytes;  /* a power of two */
    uint64_t small_bytes;  /* requests up to this are blocks of slabs; at most chunk_bytes / 2 */
    /* An allocation that has at least this many chunks and fills them to the last byte gets one more chunk, so that no
     * other allocation begins where it ends; 0: none gets one. */
    uint64_t ended_chunks;
} mdnn_ranges_config_t;

/* What the address space has done since it was made, and what it holds now. */
typedef struct mdnn_ranges_counts {
    uint64_t created, destroyed, mapped, unmapped; /* chunks */
    uint64_t live_bytes;                           /* as asked for */
    uint64_t chunks_live;                          /* of ranges (slabs included) that are in use */
    uint64_t chunks_free;   /* of ranges (slabs included) that were released */
    uint64_t chunks_spare;  /* in no range, and not mapped */
    uint64_t chunks_hidden; /* those of chunks_live that are not mapped */
    uint64_t chunks_slab;   /* those of chunks_live that are slabs */
    uint64_t steps_slab;    /* at the end of the reservation, where only slabs lie */
} mdnn_ranges_counts_t;

typedef struct mdnn_ranges mdnn_ranges_t;
typedef struct mdnn_range mdnn_range_t; /* a live range; valid until it is released or dropped */

/* Copies *config and *device. The caller owns *ranges and ends it with mdnn_ranges_destroy. */
mdnn_status_t mdnn_ranges_create(const mdnn_ranges_config_t *config,
                                 const mdnn_ranges_device_t *device, void *context,
                                 mdnn_ranges_t **ranges);

/* Forgets everything, but unmaps nothing: the caller ends the device's state. Accepts NULL. */
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

/* Acquires `bytes` > 0 for use in `stream`, aligned to 512, and to the chunk if they are not small. A block takes less
 * than 512 bytes more than requested. Memory on which other streams still work is returned only if the program released
 * it in the order of `stream`, and thereby put `stream` behind that work.
 *   OK: the stream must wait for `waits` before it touches the memory.
 *   BUSY: there would be enough if the host waited for `waits`; then ask again. `address` is 0.
 *   OUT_OF_DEVICE_MEMORY: there is not enough even then.   OVERFLOW: no addresses left.
 * Other failures are the device's or OUT_OF_MEMORY. After any failure nothing is lost. */
mdnn_status_t mdnn_ranges_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                  mdnn_acquired_t *allocation);

/* The same, but if there is no other memory, it also returns memory on which other streams work. That puts `stream`
 * behind them, although the program has not done so. */
mdnn_status_t mdnn_ranges_acquire_behind(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                         mdnn_acquired_t *allocation);

/* The number of chunks that are spare or belong to released ranges, and on which no work runs. */
uint64_t mdnn_ranges_idle_chunks(mdnn_ranges_t *ranges);

/* Reserves only addresses, for `bytes` > small_bytes: makes a live range that owns no chunk until mdnn_range_take.
 * OVERFLOW: no addresses left. OUT_OF_MEMORY. */
mdnn_status_t mdnn_ranges_reserve(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t *address);

/* Passed to mdnn_ranges_release instead of a stream if the program releases memory in the order of no stream. */
#define MDNN_NO_ORDER UINT64_MAX

/* Releases the allocation that starts at `address`, in the order of `stream`, which the program has put behind all
 * streams that used it. Another stream that gets its memory next waits for `points`, the points after the last work of
 * each stream that used it. Work of the stream that acquired the memory follows the work of the earlier users: if
 * `points` has a point of that stream, that point is enough; if not, the next owner waits for the earlier users as
 * well. NOT_FOUND: no allocation starts there. OUT_OF_MEMORY: it is still live. INVALID_ARGUMENT: not all of it is
 * mapped. */
mdnn_status_t mdnn_ranges_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                  const mdnn_stream_point_t *points, size_t point_count);

/* The caller's mark on a live allocation, which is NULL until it is set. For set_owner, `address` is where the
 * allocation starts; owner returns the mark of the allocation around `address`, or NULL if there is none. O(1). */
void mdnn_ranges_set_owner(mdnn_ranges_t *ranges, uint64_t address, void *owner);
void *mdnn_ranges_owner(const mdnn_ranges_t *ranges, uint64_t address);

bool mdnn_range_has_owner(const mdnn_range_t *range);

/* The live range that starts at `address`; NULL for a block of a slab and where none starts. */
mdnn_range_t *mdnn_ranges_at(const mdnn_ranges_t *ranges, uint64_t address);

typedef struct mdnn_range_chunks {
    const uint64_t *chunks; /* `owned` of them */
    /* How many chunks the range can have, has, and has mapped: count >= owned >= mapped. */
    uint64_t count, owned, mapped;
} mdnn_range_chunks_t;

mdnn_range_chunks_t mdnn_range_chunks(const mdnn_range_t *range);

/* hide unmaps the range's chunks with indices >= `keep`, beginning with the last; show maps those below `upto` (<=
 * owned), beginning with the first. The caller ensures that no work runs there. On failure, chunks that were already
 * mapped or unmapped stay so. */
mdnn_status_t mdnn_range_hide(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep);
mdnn_status_t mdnn_range_show(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto);

/* For a caller that lets another thread change the mappings (remap_begin in offload/memory/memory.h). mdnn_range_remap
 * returns the next changes on the way to `upto` mapped chunks, of at most `most` chunks; mdnn_range_remapped reports
 * that `count` more of these have changed, in their order. Until all of them have changed, or it is certain that no
 * more will, the range's mappings may not change in any other way. */
typedef struct mdnn_remap {
    bool map;
    uint64_t address; /* of the first of the chunks */
    const uint64_t *chunks;
    uint64_t count; /* mapping begins with the first of them, unmapping with the last */
} mdnn_remap_t;
mdnn_remap_t mdnn_range_remap(const mdnn_ranges_t *ranges, const mdnn_range_t *range, uint64_t upto,
                              uint64_t most);
void mdnn_range_remapped(mdnn_ranges_t *ranges, mdnn_range_t *range, bool map, uint64_t count);

/* Makes the range's chunks with indices >= `keep` spare, so that other ranges can have them. `keep` must not be less
 * than `mapped`. */
void mdnn_range_give(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t keep);

/* Makes the range own its first `upto` chunks; the new ones are not mapped, and no work runs in them. It gets all of
 * them or none. Returns BUSY (with *waits, which are valid until the next call) and failures like mdnn_ranges_acquire.
 */
mdnn_status_t mdnn_range_take(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t upto,
                              const mdnn_stream_point_t **waits, size_t *wait_count);

/* Ends a range that has no chunk mapped; its chunks can serve others immediately. Never fails. */
void mdnn_range_drop(mdnn_ranges_t *ranges, mdnn_range_t *range);

/* Whether there are `count` released steps in a row. */
bool mdnn_ranges_has_run(const mdnn_ranges_t *ranges, uint64_t count);

/* For a caller whose thread unmaps released memory ahead of time. Of the released ranges on which no work runs,
 * withdraw picks the one that was released longest ago, and takes up to `most` of its chunks; they become a live range
 * without an owner, all mapped. NULL: there is none. end_withdrawn releases what is mapped of such a range, or of a
 * reserved one, and gives its other chunks away. */
mdnn_range_t *mdnn_ranges_withdraw(mdnn_ranges_t *ranges, uint64_t most);
void mdnn_ranges_end_withdrawn(mdnn_ranges_t *ranges, mdnn_range_t *range);

/* The live allocation around `address`: its start and size. false: none is there. O(1). */
bool mdnn_ranges_find(const mdnn_ranges_t *ranges, uint64_t address, uint64_t *start,
                      uint64_t *bytes);

mdnn_ranges_counts_t mdnn_ranges_counts(const mdnn_ranges_t *ranges);
static inline uint64_t mdnn_ranges_chunks_there(const mdnn_ranges_counts_t *counts)
{
    return counts->created - counts->destroyed;
}

/* Destroys `count` chunks that are spare or belong to released ranges. Chunks that were destroyed
 * before a failure stay destroyed. BUSY (with *waits, which are valid until the next call): the
 * rest becomes available when the host has waited for these; OUT_OF_DEVICE_MEMORY: there are not
 * that many chunks. */
mdnn_status_t mdnn_ranges_shrink(mdnn_ranges_t *ranges, uint64_t count,
                                 const mdnn_stream_point_t **waits, size_t *wait_count);

#endif
