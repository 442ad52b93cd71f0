/* What the files of the address space share; ranges.h introduces its terms. Memory in use was acquired and not
 * released; released memory is "kept" until it serves a request. */
#ifndef MDNN_RANGES_INTERNAL_H
#define MDNN_RANGES_INTERNAL_H

#include "offload/ranges/ranges.h"

enum {
    MDNN_GRANULE = 512,   /* bytes; blocks begin and end at multiples */
    MDNN_SLAB_KINDS = 2,  /* of slabs: of ordinary blocks, of tiny ones */
    MDNN_SLAB_BINS = 512, /* of runs of released blocks; eight for each power of two */
};

typedef struct mdnn_user {
    mdnn_stream_point_t point;
    uint64_t freed_in; /* the stream in whose order the memory was released, after that work */
} mdnn_user_t;

/* Streams that may still work on memory. If it is in use, they worked on it before `stream` acquired it. */
typedef struct mdnn_users {
    uint64_t stream; /* that acquired it last */
    mdnn_user_t *all;
    size_t count, room;
} mdnn_users_t;

typedef struct mdnn_slab mdnn_slab_t;
typedef struct mdnn_block mdnn_block_t;

/* A block is some bytes of slabs, in use or released. Blocks fill all of a slab. A released block
 * lies in one slab and keeps its own users; neighbouring released blocks form a run, which serves
 * requests together. A block in use may reach into the next slab. */
struct mdnn_block {
    uint64_t address, room; /* room: bytes that it takes */
    uint64_t bytes;         /* as asked for; 0: released */
    void *owner;
    mdnn_users_t users;
    mdnn_block_t *before, *after; /* its neighbours in slabs of its kind; NULL: none */

    /* Valid in the first block of a run: its bytes, its last block, and the first blocks of other runs in its bin. */
    uint64_t run_bytes;
    mdnn_block_t *run_last;
    mdnn_block_t *next_run, *previous_run;
    mdnn_block_t *run_first; /* valid in the last block of a run */
};

typedef struct mdnn_slab_runs {
    mdnn_block_t *bins[MDNN_SLAB_BINS]; /* first blocks of runs, by size */
    uint64_t some[MDNN_SLAB_BINS / 64]; /* one bit for each bin that has a run */
} mdnn_slab_runs_t;

/* A range: neighbouring steps with their chunks, in use or released (kept). Neighbouring kept
 * ranges form a run, whose chunks serve a request together. Each keeps its own users, so that
 * unmapping it, or using it in another stream, waits for nobody else. A slab is a range of one
 * step: it is kept while none of its blocks is in use, and is part of no run. */
struct mdnn_range {
    uint64_t first, count; /* steps */
    uint64_t owned,
        mapped;       /* how many of its first chunks it has, and has mapped; all if released */
    uint64_t bytes;   /* as asked for */
    uint64_t *chunks; /* those of its steps in mdnn_ranges_t.chunks */
    void *owner;
    mdnn_slab_t *slab; /* what is in it, or NULL */
    bool is_free;
    mdnn_users_t users;
    struct mdnn_range *older, *newer; /* all kept ones, by release */

    uint64_t released; /* number of the release, if it is kept */

    /* Valid in the first range of a run: its steps, and the first ranges of other runs with as many steps. */
    uint64_t run_count;
    struct mdnn_range *next_run, *previous_run;
    struct mdnn_range *run_first; /* valid in the last range of a run */
};

struct mdnn_ranges {
    mdnn_ranges_config_t config;
    mdnn_ranges_device_t device;
    void *context;
    uint64_t steps;
    uint64_t end;        /* no step from here on has a range, except slabs */
    uint64_t top;        /* from here on steps are for slabs, which thus separate no runs */
    uint64_t used;       /* steps with a range, except slabs */
    mdnn_range_t **at;   /* by step; NULL: no range */
    uint64_t *chunks;    /* by step, of its range */
    mdnn_range_t **runs; /* by their number of steps: first ranges of runs */
    uint64_t *some_runs; /* one bit for each entry of `runs` that is not NULL */
    uint64_t releases;
    mdnn_range_t *oldest, *newest; /* kept */
    uint64_t *spare;               /* chunks that are mapped nowhere */
    size_t spare_room;
    mdnn_slab_runs_t slab_runs[MDNN_SLAB_KINDS];
    mdnn_stream_point_t *waits;
    size_t wait_count, wait_room;
    mdnn_ranges_counts_t counts;
};

/* ---- ranges.c ---- */
/* The address of a step. */
uint64_t mdnn_ranges_address(const mdnn_ranges_t *ranges, uint64_t step);
void mdnn_range_free(mdnn_range_t *range); /* the bookkeeping only */
/* The `count` steps from `first` on, all below `top`, have no range any more. */
void mdnn_ranges_clear(mdnn_ranges_t *ranges, uint64_t first, uint64_t count);

/* ---- range_users.c ---- */
bool mdnn_users_done(mdnn_ranges_t *ranges, const mdnn_users_t *users);
/* Whether no stream still works on the memory, except `stream` and streams behind which the program has put `stream`.
 * */
bool mdnn_users_free_for(mdnn_ranges_t *ranges, const mdnn_users_t *users, uint64_t stream);
/* Adds users that are not done to ranges->waits, except those of *own_stream, if it is given. */
mdnn_status_t mdnn_users_note(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                              const uint64_t *own_stream);
/* Adds the users because of which the memory is not free for `stream`. */
mdnn_status_t mdnn_users_note_others(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                                     uint64_t stream);
/* Gives the memory to `stream`, which must wait for ranges->waits. */
mdnn_status_t mdnn_users_acquire(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream);
/* Takes the memory back, released in the order of `stream`; `points` are its last users. */
mdnn_status_t mdnn_users_release(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream,
                                 const mdnn_stream_point_t *points, size_t count);
/* Adds other users that are not done, if they are of the same streams; otherwise false. Needs no
 * memory. */
bool mdnn_users_merge(mdnn_ranges_t *ranges, mdnn_users_t *users, mdnn_users_t *others);
/* Makes room for `more` users. Then mdnn_users_join, which cannot fail, adds the users of another
 * list; of two points in one stream the later one remains. */
mdnn_status_t mdnn_users_reserve(mdnn_users_t *users, size_t more);
void mdnn_users_join(mdnn_ranges_t *ranges, mdnn_users_t *users, const mdnn_users_t *others);

/* ---- free_runs.c ---- */
/* Adds a range to the kept ones: one that was in use, or new steps with chunks. */
void mdnn_free_runs_add(mdnn_ranges_t *ranges, mdnn_range_t *range);
/* Gets neighbouring chunks with as few changes of mappings as possible, and notes the waits of
 * `stream`. Works like mdnn_ranges_acquire, or with `behind` like mdnn_ranges_acquire_behind. */
mdnn_status_t mdnn_free_runs_take(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream,
                                  bool behind, mdnn_range_t **range);
/* Puts `count` chunks aside, from kept ranges if more cannot be made. Returns the statuses of
 * mdnn_ranges_acquire. */
mdnn_status_t mdnn_free_runs_gather(mdnn_ranges_t *ranges, uint64_t count);
/* Adds a range that is in no run to the kept ones, as the newest of them; or takes it out. */
void mdnn_free_runs_link(mdnn_ranges_t *ranges, mdnn_range_t *range);
void mdnn_free_runs_unlink(mdnn_ranges_t *ranges, mdnn_range_t *range);

/* ---- slabs.c ---- */
/* Like mdnn_free_runs_take. NOT_FOUND: only one more slab would help, which is not allowed. */
mdnn_status_t mdnn_slab_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream, bool behind,
                                uint64_t *address);
/* BUSY: there is a place where other streams still work, which are noted. If not, returns
 * `otherwise`. */
mdnn_status_t mdnn_slab_blocked(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                mdnn_status_t otherwise);
mdnn_status_t mdnn_slab_release(mdnn_ranges_t *ranges, uint64_t address, uint64_t stream,
                                const mdnn_stream_point_t *points, size_t point_count);
/* The block around `address`, which is in a slab; in use or not. */
mdnn_block_t *mdnn_slab_block(const mdnn_ranges_t *ranges, uint64_t address);
/* For a slab that is kept: whether no stream works in it; adds those that do to ranges->waits. */
bool mdnn_slab_done(mdnn_ranges_t *ranges, const mdnn_range_t *slab);
mdnn_status_t mdnn_slab_note(mdnn_ranges_t *ranges, const mdnn_range_t *slab);
/* Its chunk has been unmapped: the range ends. */
void mdnn_slab_end(mdnn_ranges_t *ranges, mdnn_range_t *slab);
void mdnn_slab_forget(mdnn_range_t *range); /* the bookkeeping only; no slab: nothing */

/* ---- slab_runs.c ---- */
/* Adds a released block to its neighbours' run. */
void mdnn_run_add(mdnn_slab_runs_t *runs, mdnn_block_t *block);
/* Takes neighbouring blocks out of the run that begins with `run`. */
void mdnn_run_leave(mdnn_slab_runs_t *runs, mdnn_block_t *run, mdnn_block_t *first,
                    mdnn_block_t *last);
/* The first bin from `bin` on that has a run; MDNN_SLAB_BINS: none. Bins above the bin of a size
 * have only longer runs than that size. */
unsigned mdnn_run_next_bin(const mdnn_slab_runs_t *runs, unsigned bin);
unsigned mdnn_run_bin(uint64_t bytes);
static inline bool mdnn_block_released(const mdnn_block_t *block)
{
    return block && block->bytes == 0;
}

#endif
