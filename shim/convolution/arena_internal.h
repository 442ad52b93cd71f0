/* The structures of an arena, for the files of arenas and leases. */
#ifndef MDNN_ARENA_INTERNAL_H
#define MDNN_ARENA_INTERNAL_H

#include <stdatomic.h>

#include "config/lock.h"
#include "shim/convolution/arena.h"

enum { MDNN_ARENA_SLOTS = 16, MDNN_ARENA_CAPTURES = 32 };
enum { MDNN_ARENA_LEAST_BYTES = 1 << 20 };

/* A stream and its region. Written by a holder of the arena's lock for writing, or of both the arena's lock for reading
 * and the slot's own lock. */
typedef struct mdnn_arena_slot {
    mdnn_lock_t lock;
    bool taken;
    CUstream stream;
    const void *thread; /* of the per-thread default stream; else NULL */
    CUevent event;      /* NULL: none could be made, so each use ends with a wait of the host */
    /* There was a use, whose end `event` marks. Other threads read this flag, too. */
    _Atomic bool used;
    uint32_t waits;   /* slots for whose events the next use waits, one bit each */
    uint64_t network; /* number of the network for which `group` was divided; 0: none */
    mdnn_wd_group_t group;
    mdnn_watch_t *watch;
    _Atomic uint64_t last_call; /* value of the arena's `calls` */
} mdnn_arena_slot_t;

/* Memory that belongs for good to the convolutions of one stream in one capture. Written under the arena's lock for
 * writing. */
typedef struct mdnn_arena_capture {
    mdnn_lock_t lock;
    unsigned long long id;
    CUstream stream;
    mdnn_wd_segment_t memory; /* 0 bytes: none could be allocated so far */
} mdnn_arena_capture_t;

struct mdnn_arena {
    CUcontext context;
    mdnn_shared_lock_t lock; /* reading: while a convolution is enqueued; writing: regions change */
    /* The arena is allocated, or cannot be; from then on the members above `slots` may be read without the lock. */
    _Atomic bool tried;
    CUdeviceptr base;
    uint64_t bytes;
    _Atomic uint64_t divisible_bytes; /* the rest belongs to captures; this never grows */
    /* The largest workspace of any convolution for which 0 bytes were reported to the caller; never shrinks. */
    _Atomic uint64_t promised_bytes;
    mdnn_arena_slot_t slots[MDNN_ARENA_SLOTS];
    mdnn_arena_capture_t captures[MDNN_ARENA_CAPTURES];
    int capture_count;
    _Atomic uint64_t calls;
    _Atomic bool lost; /* order cannot be kept, since device calls fail */
    struct mdnn_arena *next;
};

/* The arena of the current context, which the first request makes; NULL if that fails. */
mdnn_arena_t *mdnn_arena_current(void);
/* Allocates as much as the user allows, or as much of that as is available. The arena is locked for
 * writing, and this was not tried yet. */
void mdnn_arena_allocate(mdnn_arena_t *arena);
/* The bytes that stay reserved for one convolution in the streams, whatever captures take. */
uint64_t mdnn_arena_kept_bytes(const mdnn_arena_t *arena);
/* The stream of a call, and whether it is being captured; false if that is not known. */
bool mdnn_arena_find_stream(const mdnn_call_t *call, CUstream *stream, bool *capturing);

#endif
