/* What graphs hold: the allocations that were named or made in a capture, or named by a node, as
 * long as the graph, a clone or an executable of it exists. And which captures are under way, which
 * graphs are parts of others. Bookkeeping only: makes no driver call, takes no lock; the caller holds one around every other call.
 *
 * The mechanism counts pins, one for each holder here, and keeps what the program frees meanwhile
 * until the last is gone. */
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

/* What has allocations: a capture under way by its id, a graph or an executable by its handle. */
typedef enum mdnn_holder_kind {
    MDNN_HOLDER_CAPTURE,
    MDNN_HOLDER_GRAPH,
    MDNN_HOLDER_EXECUTABLE,
    MDNN_HOLDER_FOR_GOOD /* mdnn_captures_keep's own */
} mdnn_holder_kind_t;

typedef struct mdnn_held {
    uint64_t address; /* where the allocation starts */
    bool by_hand; /* only nodes name it that the program makes: held until it is freed at most */
    bool made, ended; /* each launch allocates it, frees it */
    bool out;         /* made and not ended: it was launched, and not freed since */
} mdnn_held_t;

/* Adds an allocation. OK: it is held anew, so pin it. BUSY: that holder has it already, by hand
 * only if both say so. OUT_OF_MEMORY. */
mdnn_status_t mdnn_captures_hold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                 mdnn_held_t what);
/* Takes it back. false: the holder does not have it. */
bool mdnn_captures_unhold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                          uint64_t address);
/* The program frees it: those that have it by hand have it no more, unless a graph makes it anew. How
 * many they were. */
size_t mdnn_captures_freed(mdnn_captures_t *captures, uint64_t address);
/* What the holder has there; NULL: nothing. Valid until the next call. */
mdnn_held_t *mdnn_captures_find(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                uint64_t address);
/* Whether a graph makes what is there. */
bool mdnn_captures_is_made(const mdnn_captures_t *captures, uint64_t address);
/* Whether launches of the executable free what earlier ones made. set: it holds something. */
bool mdnn_captures_frees_on_launch(const mdnn_captures_t *captures, uint64_t executable);
void mdnn_captures_set_frees_on_launch(mdnn_captures_t *captures, uint64_t executable, bool frees);
/* `to`, which holds nothing yet, holds what `from` does; both are then one for what is added. No
 * holder `from`, or they are one already: nothing. BUSY: `to` holds something else. OUT_OF_MEMORY:
 * `from` will never let go. */
mdnn_status_t mdnn_captures_share(mdnn_captures_t *captures, mdnn_holder_kind_t from_kind,
                                  uint64_t from, mdnn_holder_kind_t to_kind, uint64_t to);
/* `from` will never let go. */
void mdnn_captures_keep(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id);
/* What the holder has; valid until the next call. */
const mdnn_held_t *mdnn_captures_held(const mdnn_captures_t *captures, mdnn_holder_kind_t kind,
                                      uint64_t id, size_t *count);

/* The holder, and a graph as the whole of parts, is known as `to` from now on, which is nobody yet.
 */
void mdnn_captures_rename(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t from,
                          uint64_t to);

/* The holder is no more. What nobody holds with it any longer comes back for unpinning, in memory
 * that is the caller's to free (NULL for none). */
mdnn_held_t *mdnn_captures_release(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                   size_t *count);

/* Allocations that start within are no more: nobody holds them. */
void mdnn_captures_forget(mdnn_captures_t *captures, uint64_t start, uint64_t bytes);

/* ---- captures under way ---- */

typedef struct mdnn_capture {
    mdnn_stream_t stream;  /* where it began and has to end, */
    bool of_thread;        /* which is the handle of each thread's own stream: */
    pthread_t thread;      /* then this one's */
    unsigned long long id; /* 0: the driver does not say */
    mdnn_graph_t graph;    /* that it makes; NULL: the driver does not say */
    bool given;            /* the graph is the program's and stays, whatever becomes of this */
} mdnn_capture_t;

/* Remembers it. false: for want of memory not. */
bool mdnn_captures_begin(mdnn_captures_t *captures, const mdnn_capture_t *capture);
/* The one that began in the stream, of that thread or of any, or that makes the graph, is given
 * out; false: there is none. */
bool mdnn_captures_in(const mdnn_captures_t *captures, mdnn_stream_t stream, pthread_t thread,
                      mdnn_capture_t *capture);
bool mdnn_captures_making(const mdnn_captures_t *captures, mdnn_graph_t graph,
                          mdnn_capture_t *capture);
/* false: it was not remembered, or forgotten meanwhile. */
bool mdnn_captures_end(mdnn_captures_t *captures, unsigned long long id);

/* ---- graphs in graphs ---- */

/* `part` lives in `whole` and ends with it. false: without memory. */
bool mdnn_captures_join(mdnn_captures_t *captures, mdnn_graph_t whole, mdnn_graph_t part);
/* The graph that is no part of another, itself perhaps, in which `graph` is. */
mdnn_graph_t mdnn_captures_whole(const mdnn_captures_t *captures, mdnn_graph_t graph);
/* `whole` is no more, nor are its parts. */
void mdnn_captures_part(mdnn_captures_t *captures, mdnn_graph_t whole);

#endif
