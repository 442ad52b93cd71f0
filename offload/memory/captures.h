/* Records which allocations CUDA graphs hold. A graph holds an allocation that an operation in its capture used
 * ("named") or that the capture allocated ("made"), or that a node names, for as long as the graph, a clone or an
 * executable of it exists. Also records which captures are under way, and which graphs are parts of others. This is
 * bookkeeping only: it makes no driver call and takes no lock; the caller holds a lock around every call.
 *
 * The caller pins an allocation (mdnn_memory_pin in offload/memory/memory.h) once per holder. The mechanism counts
 * these pins, and keeps memory that the program frees in the meantime until the last holder is gone. */
#ifndef MDNN_CAPTURES_H
#define MDNN_CAPTURES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* Handles of the driver: CUgraph and CUstream. Only compared. */
typedef struct CUgraph_st *mdnn_graph_t;
typedef struct CUstream_st *mdnn_stream_t;

typedef struct mdnn_captures mdnn_captures_t;

mdnn_captures_t *mdnn_captures_create(void); /* NULL without memory */
void mdnn_captures_destroy(mdnn_captures_t *captures);

/* A holder of allocations. Its `id` is the id of a capture under way, or the handle of a graph or an executable. */
typedef enum mdnn_holder_kind {
    MDNN_HOLDER_CAPTURE,
    MDNN_HOLDER_GRAPH,
    MDNN_HOLDER_EXECUTABLE,
    MDNN_HOLDER_FOR_GOOD /* mdnn_captures_keep's own */
} mdnn_holder_kind_t;

typedef struct mdnn_held {
    uint64_t address; /* where the allocation starts */
    /* Only nodes that the program made itself name it, so no holder keeps it once the program has freed it. */
    bool by_hand;
    bool made;  /* each launch allocates it */
    bool ended; /* each launch frees it */
    bool out;   /* made and not ended: a launch has allocated it, and nothing has freed it */
} mdnn_held_t;

/* Adds an allocation. OK: the holder did not have it, so the caller pins it. BUSY: the holder has it already; it counts
 * as held by hand only if both calls say so. OUT_OF_MEMORY. */
mdnn_status_t mdnn_captures_hold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                 mdnn_held_t what);
/* Undoes mdnn_captures_hold. false: the holder does not have the allocation. */
bool mdnn_captures_unhold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                          uint64_t address);
/* Called when the program frees the allocation: holders that have it by hand lose it, unless a graph allocates it
 * again. Returns how many holders lost it. */
size_t mdnn_captures_freed(mdnn_captures_t *captures, uint64_t address);
/* The allocation that the holder has there; NULL: none. Valid until the next call. */
mdnn_held_t *mdnn_captures_find(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                uint64_t address);
/* Whether a graph makes the allocation that starts at `address`. */
bool mdnn_captures_is_made(const mdnn_captures_t *captures, uint64_t address);
/* Whether launches of the executable free what earlier launches allocated. The executable must hold something when the
 * second function is called. */
bool mdnn_captures_frees_on_launch(const mdnn_captures_t *captures, uint64_t executable);
void mdnn_captures_set_frees_on_launch(mdnn_captures_t *captures, uint64_t executable, bool frees);
/* `to`, which must hold nothing, gets all that `from` holds, and from then on both count as one holder. Does nothing if
 * there is no holder `from`, or if both are one already. BUSY: `to` holds something else. OUT_OF_MEMORY: `from` keeps
 * everything for good. */
mdnn_status_t mdnn_captures_share(mdnn_captures_t *captures, mdnn_holder_kind_t from_kind,
                                  uint64_t from, mdnn_holder_kind_t to_kind, uint64_t to);
/* What the holder has stays held for good, even after the holder is released. */
void mdnn_captures_keep(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id);
/* All allocations of the holder; valid until the next call. */
const mdnn_held_t *mdnn_captures_held(const mdnn_captures_t *captures, mdnn_holder_kind_t kind,
                                      uint64_t id, size_t *count);

/* From now on the holder (if it is a graph, with its parts) is known as `to`, which must not exist yet. */
void mdnn_captures_rename(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t from,
                          uint64_t to);

/* The holder ends. Returns the allocations that nobody else holds, so that the caller unpins them,
 * in memory that the caller frees (NULL: none). */
mdnn_held_t *mdnn_captures_release(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                   size_t *count);

/* The allocations that start in this range have ended: nobody holds them. */
void mdnn_captures_forget(mdnn_captures_t *captures, uint64_t start, uint64_t bytes);

/* ---- captures under way ---- */

typedef struct mdnn_capture {
    mdnn_stream_t stream;  /* where the capture began and has to end */
    bool of_thread;        /* `stream` is the handle for each thread's own stream */
    pthread_t thread;      /* of_thread: the thread in whose stream the capture began */
    unsigned long long id; /* 0: the driver does not say */
    mdnn_graph_t graph;    /* that the capture makes; NULL: the driver does not say */
    bool given;            /* the graph is the program's, and outlives the capture */
} mdnn_capture_t;

/* Remembers the capture. false: out of memory. */
bool mdnn_captures_begin(mdnn_captures_t *captures, const mdnn_capture_t *capture);
/* in finds the capture that began in the stream (if the handle is for each thread's own stream: in that of `thread`);
 * making finds the capture that makes the graph. false: there is none. */
bool mdnn_captures_in(const mdnn_captures_t *captures, mdnn_stream_t stream, pthread_t thread,
                      mdnn_capture_t *capture);
bool mdnn_captures_making(const mdnn_captures_t *captures, mdnn_graph_t graph,
                          mdnn_capture_t *capture);
/* false: it was never remembered, or was forgotten. */
bool mdnn_captures_end(mdnn_captures_t *captures, unsigned long long id);

/* ---- graphs in graphs ---- */

/* `part` lives in `whole` and ends with it. false: without memory. */
bool mdnn_captures_join(mdnn_captures_t *captures, mdnn_graph_t whole, mdnn_graph_t part);
/* The outermost graph that contains `graph`, perhaps `graph` itself. */
mdnn_graph_t mdnn_captures_whole(const mdnn_captures_t *captures, mdnn_graph_t graph);
/* `whole` and its parts have ended. */
void mdnn_captures_part(mdnn_captures_t *captures, mdnn_graph_t whole);

#endif
