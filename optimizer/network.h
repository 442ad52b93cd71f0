/* Discovers networks from the convolutions that run: which calls make up one iteration of a program, its period, and
 * which of them a given call is. Programs do not identify layers, so the sequence of calls in one stream is watched
 * until it repeats.
 *
 * Two calls are the same layer if they ask for the same problem on the same tensors; the same problem
 * on other tensors is another layer. Programs whose activations change their addresses show no such
 * period. In that case only the weights distinguish layers, and more repeats are required. Without
 * stable weights no network is found, and only the division by layers is lost. */
#ifndef MDNN_NETWORK_H
#define MDNN_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* What distinguishes the layers in one convolution call. */
typedef struct mdnn_network_call {
    const void *problem; /* one address for each problem; compared, not read */
    uintptr_t x, w, y;   /* addresses of the tensors */
    uint32_t demand; /* what the caller demands of the results, a number of the caller's choice */
    uint32_t writes_weights; /* 1: `w` is a gradient, whose address may change */
} mdnn_network_call_t;

typedef enum mdnn_likeness {
    MDNN_LIKE_TENSORS, /* same problem, demand, x, w and y */
    MDNN_LIKE_WEIGHTS  /* same problem and demand, same w unless it is written */
} mdnn_likeness_t;

bool mdnn_network_calls_alike(const mdnn_network_call_t *a, const mdnn_network_call_t *b,
                              mdnn_likeness_t likeness);

/* The end of a sequence counts as repeating if it holds this many whole periods and calls. */
enum { MDNN_REPEATS_TENSORS = 3, MDNN_REPEATS_WEIGHTS = 6, MDNN_REPEATING_CALLS = 32 };

/* The smallest period p with which the last max(repeats x p, MDNN_REPEATING_CALLS) of `count` calls repeat, where
 * `repeats` is the number above for this likeness; 0 if there is none. `lengths` has room for `count` numbers.
 * O(count). */
size_t mdnn_period_find(const mdnn_network_call_t *calls, size_t count, mdnn_likeness_t likeness,
                        size_t *lengths);

/* One iteration of a network. Immutable. */
typedef struct mdnn_network {
    uint64_t number; /* unique within its watch, from 1 */
    mdnn_likeness_t likeness;
    size_t count; /* of calls */
    const mdnn_network_call_t *calls;
    size_t layer_count;     /* calls that are alike are one layer */
    const size_t *layer_of; /* of each call; layers are numbered as they first come */
} mdnn_network_t;

enum { MDNN_WATCH_NETWORKS = 8, MDNN_WATCH_CALLS = 6144 };

/* Watches one sequence. Not thread-safe. */
typedef struct mdnn_watch mdnn_watch_t;

mdnn_status_t mdnn_watch_create(mdnn_watch_t **watch);
void mdnn_watch_destroy(mdnn_watch_t *watch); /* NULL accepted */

/* Where a call stands. `network` is NULL if the call is in no known network. */
typedef struct mdnn_network_place {
    const mdnn_network_t *network;
    size_t layer; /* < layer_count */
} mdnn_network_place_t;

/* Takes the next call. True if the sequence now follows another network than at the last call: one that was just
 * discovered, or a known one that it has followed for a whole iteration. That is the time for a new plan. Calls out of
 * order, evaluations of the same layers, or a few other calls do not change the network. Allocates only when a network
 * is discovered. */
bool mdnn_watch_call(mdnn_watch_t *watch, const mdnn_network_call_t *call,
                     mdnn_network_place_t *place);

/* The network that the sequence follows; NULL before the first. A network stays valid until
 * MDNN_WATCH_NETWORKS others have been followed after it. */
const mdnn_network_t *mdnn_watch_network(const mdnn_watch_t *watch);
/* How many were discovered. */
uint64_t mdnn_watch_discoveries(const mdnn_watch_t *watch);

#endif
