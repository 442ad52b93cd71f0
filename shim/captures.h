/* What graphs hold: the allocations that were named or made in a capture, or named by a node, as
 * long as the graph, a clone or an executable of it exists. Bookkeeping only: makes no driver call
 * but for mdnn_capture_of, takes no lock; the caller holds one around every call.
 *
 * The mechanism counts pins, one for each holder here, and keeps what the program frees meanwhile
 * until the last is gone. */
#ifndef MDNN_CAPTURES_H
#define MDNN_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "config/status.h"

typedef struct mdnn_captures mdnn_captures_t;

mdnn_captures_t *mdnn_captures_create(void); /* NULL without memory */
void mdnn_captures_destroy(mdnn_captures_t *captures);

/* What has allocations: a capture under way by its id, a graph or an executable by its handle. */
typedef enum mdnn_holder_kind {
    MDNN_HOLDER_CAPTURE,
    MDNN_HOLDER_GRAPH,
    MDNN_HOLDER_EXECUTABLE
} mdnn_holder_kind_t;

/* Adds the allocation that starts at `address`. OK: it is held anew, so pin it. BUSY: that holder
 * has it already. OUT_OF_MEMORY. */
mdnn_status_t mdnn_captures_hold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                 uint64_t address);
/* `to`, which holds nothing yet, holds what `from` does; both are then one for what is added. No
 * holder `from`: nothing. OUT_OF_MEMORY: `from` will never let go. */
mdnn_status_t mdnn_captures_share(mdnn_captures_t *captures, mdnn_holder_kind_t from_kind,
                                  uint64_t from, mdnn_holder_kind_t to_kind, uint64_t to);
/* Starts of what the holder has; valid until the next call. */
const uint64_t *mdnn_captures_held(const mdnn_captures_t *captures, mdnn_holder_kind_t kind,
                                   uint64_t id, size_t *count);

/* The holder is no more. Starts of what nobody holds with it any longer come back for unpinning, in
 * memory that is the caller's to free (NULL for none). */
uint64_t *mdnn_captures_release(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                size_t *count);

/* The capture that the stream takes part in; false: none, or the driver cannot say. */
bool mdnn_capture_of(CUstream stream, unsigned long long *id);

#endif
