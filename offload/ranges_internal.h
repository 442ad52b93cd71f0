/* What ranges.c and slabs.c share. */
#ifndef MDNN_RANGES_INTERNAL_H
#define MDNN_RANGES_INTERNAL_H

#include "offload/ranges.h"

enum {
    MDNN_BLOCK_LEAST = 512, /* bytes; every block is this or a power of two more */
    MDNN_BLOCK_CLASSES = 32
};

/* Who may still work on memory: if it is in use, those before `stream` acquired it. */
typedef struct mdnn_users {
    uint64_t stream; /* that acquired it last */
    mdnn_ticket_t *tickets;
    size_t count, room;
} mdnn_users_t;

typedef struct mdnn_slab mdnn_slab_t;

/* Steps in a row with their chunks: in use, or (kept) released. Kept ones that are neighbours make
 * a run, whose chunks serve a request together. Each keeps its own users: what is unmapped or used
 * in another stream waits for nobody else. */
struct mdnn_range {
    uint64_t first, count;  /* steps */
    uint64_t owned, mapped; /* while it is in use: of its chunks, the first. Else all are */
    uint64_t bytes;         /* as asked for */
    uint64_t *chunks;       /* those of its steps in mdnn_ranges_t.chunks */
    void *owner;
    mdnn_slab_t *slab; /* what is in it, or NULL */
    bool kept;
    mdnn_users_t users;
    struct mdnn_range *older, *newer; /* all kept ones, by release */

    uint64_t released; /* number of the release, if it is kept */

    uint64_t run_count;                         /* steps; known by the first of a run, */
    struct mdnn_range *next_run, *previous_run; /* of as many steps; and so are these */
    struct mdnn_range *run_first;               /* known by the last of a run */
};

typedef struct mdnn_block mdnn_block_t;

struct mdnn_ranges {
    mdnn_ranges_config_t config;
    mdnn_ranges_device_t device;
    void *context;
    uint64_t steps;
    uint64_t end;        /* no step from here on has a range, but those */
    uint64_t top;        /* from here on: of slabs, which stay, and so part no runs */
    uint64_t used;       /* steps with a range, but those */
    mdnn_range_t **at;   /* by step; NULL: no range */
    uint64_t *chunks;    /* by step, of its range */
    mdnn_range_t **runs; /* by steps: first ranges of runs */
    uint64_t *some_runs; /* bits: where there are any */
    uint64_t releases;
    mdnn_range_t *oldest, *newest; /* kept */
    uint64_t *spare;               /* chunks that are mapped nowhere */
    size_t spare_room;
    mdnn_block_t *blocks[MDNN_BLOCK_CLASSES]; /* released, by size */
    mdnn_ticket_t *waits;
    size_t wait_count, wait_room;
    mdnn_ranges_counts_t counts;
};

/* ---- ranges.c ---- */
/* The address of a step. */
uint64_t mdnn_ranges_address(const mdnn_ranges_t *ranges, uint64_t step);
void mdnn_range_free(mdnn_range_t *range); /* the bookkeeping only */
/* Steps below `top` have no range any more. */
void mdnn_ranges_clear(mdnn_ranges_t *ranges, uint64_t first, uint64_t count);

/* ---- range_users.c ---- */
bool mdnn_users_done(mdnn_ranges_t *ranges, const mdnn_users_t *users);
/* Whether nobody but `stream` still works there. */
bool mdnn_users_free_for(mdnn_ranges_t *ranges, const mdnn_users_t *users, uint64_t stream);
/* Adds those that are not done to ranges->waits; not those of *own_stream, if it is given. */
mdnn_status_t mdnn_users_note(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                              const uint64_t *own_stream);
/* The memory goes to `stream`; what that must wait for is added to ranges->waits. */
mdnn_status_t mdnn_users_acquire(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream);
/* The memory comes back with these users. */
mdnn_status_t mdnn_users_release(mdnn_ranges_t *ranges, mdnn_users_t *users,
                                 const mdnn_ticket_t *tickets, size_t count);
/* Has room for `more` users; then mdnn_users_join, which cannot fail, adds those of another: of a
 * stream the later moment stands for both. */
mdnn_status_t mdnn_users_reserve(mdnn_users_t *users, size_t more);
void mdnn_users_join(mdnn_ranges_t *ranges, mdnn_users_t *users, const mdnn_users_t *others);

/* ---- ranges_kept.c ---- */
/* A range that was in use, or new steps with chunks, is kept from now on. */
void mdnn_kept_add(mdnn_ranges_t *ranges, mdnn_range_t *range);
/* Chunks in a row, which cost as few changes of mappings as can be; waits of `stream` are noted.
 * As mdnn_ranges_acquire. */
mdnn_status_t mdnn_kept_take(mdnn_ranges_t *ranges, uint64_t count, uint64_t stream,
                             mdnn_range_t **range);
/* A chunk for a slab, where nothing is enqueued any more. As mdnn_ranges_acquire. */
mdnn_status_t mdnn_kept_make(mdnn_ranges_t *ranges, mdnn_range_t **range);
/* Has `count` chunks aside: of kept ranges if more cannot be made. As mdnn_ranges_acquire. */
mdnn_status_t mdnn_kept_gather(mdnn_ranges_t *ranges, uint64_t count);

/* ---- slabs.c ---- */
mdnn_status_t mdnn_slab_acquire(mdnn_ranges_t *ranges, uint64_t bytes, uint64_t stream,
                                uint64_t *address);
mdnn_status_t mdnn_slab_release(mdnn_ranges_t *ranges, mdnn_range_t *range, uint64_t address,
                                const mdnn_ticket_t *tickets, size_t ticket_count);
/* The live block around `address` in a slab that starts at `base`. */
bool mdnn_slab_find(const mdnn_range_t *range, uint64_t base, uint64_t address, uint64_t *start,
                    uint64_t *bytes);
/* Where the owner of the live block around `address` stands; NULL if there is none. */
void **mdnn_slab_owner(const mdnn_range_t *range, uint64_t base, uint64_t address);
void mdnn_slab_forget(mdnn_range_t *range); /* no slab: nothing */

#endif
