/* What the files of pinned memory share.
 *   pinned_pool.c    slots that are free, how many there may be, and the thread that makes pieces
 *   pinned_pieces.c  pieces: how they are made and mapped */
#ifndef MDNN_PINNED_POOL_INTERNAL_H
#define MDNN_PINNED_POOL_INTERNAL_H

#include "config/lock.h"
#include "shim/device/pinned_pool.h"

/* A mappable slot. */
typedef struct mdnn_pinned_handle {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr mapped; /* where it is mapped in addition; 0: nowhere */
} mdnn_pinned_handle_t;

struct mdnn_pinned_pool {
    mdnn_pinned_pool_config_t config;
    uint64_t piece_bytes;
    CUdeviceptr window;        /* 0: pieces come from cuMemHostAlloc */
    CUmemLocation place;       /* where handles are created */
    uint64_t window_bytes;     /* all that can be made */
    mdnn_pinned_handle_t *own; /* by slot in the window; NULL: not mappable */

    mdnn_lock_t lock;
    mdnn_condition_t wanted_more, made_more;
    uint64_t wanted_bytes, made_bytes;
    uint64_t *free_slots; /* a stack */
    size_t free_count, free_capacity;
    uint64_t *pieces; /* the pieces that make up made_bytes */
    bool exhausted;   /* the driver gives no more, for this reason */
    CUresult error;
    bool making;  /* a piece is being made now */
    bool failed;  /* the last try failed; after two failures in a row no more is tried */
    bool started; /* the thread */
    bool stopping;
    pthread_t thread;
    struct mdnn_pinned_pool *next; /* in the list of all pools that have a thread */
};

/* Reserves as large a window as there are addresses for; none if the driver has no such handles. */
void mdnn_pinned_reserve_window(mdnn_pinned_pool_t *slots);
/* UNSUPPORTED: there is no window. OUT_OF_MEMORY. */
mdnn_status_t mdnn_pinned_make_own_handles(mdnn_pinned_pool_t *slots);

/* Creates a piece, at `offset` of the window if there is a window; *start is its address. Called without the lock,
 * because only one thread at a time makes pieces. */
CUresult mdnn_pinned_create_piece(mdnn_pinned_pool_t *slots, uint64_t offset, uint64_t *start);
/* Destroys a piece, and unmaps it at its other addresses, too. */
void mdnn_pinned_destroy_piece(mdnn_pinned_pool_t *slots, uint64_t start);

#endif
