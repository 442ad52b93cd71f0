/* What watching and proving has counted, on its way to the host. The counters of a proof are copied to pinned memory in the
 * proof's stream, and read once that copy is known to have ended; nobody waits for it. The caller holds the lock. */
#ifndef MDNN_PROOF_RESULTS_H
#define MDNN_PROOF_RESULTS_H

#include "shim/device/timelines.h"
#include "shim/remake/own_work.h"

/* Of a span: words that differ from its copy, and those of them in which each byte is the same or the complement. */
typedef struct mdnn_span_counts {
    uint64_t differ, mixed;
} mdnn_span_counts_t;

enum { MDNN_PROOF_SPANS = 8192 };

typedef struct mdnn_proof_result {
    mdnn_launch_key_t *key;
    bool watched;    /* a launch of the program's, not one that was made again */
    uint32_t wanted; /* the operand whose content was proven */
    bool poisoned;
    uint64_t timer;             /* 0: none */
    size_t span_count;          /* the first ones are the operands, in their order */
    const uint64_t *span_bytes; /* owned */
    mdnn_stream_point_t end;
    const mdnn_span_counts_t *counts;
} mdnn_proof_result_t;

/* Whether another result has a place. Makes the pinned memory at the first call. The device is entered. */
bool mdnn_proof_results_have_room(const mdnn_driver_t *driver);
/* Enqueues the copy of the counters, and remembers the result; takes over span_bytes, in any case. false: a call failed. */
bool mdnn_proof_results_add(mdnn_own_work_t *work, mdnn_proof_result_t *result);
/* Takes the oldest result if its counters are there; span_bytes is the caller's then. */
bool mdnn_proof_results_take(mdnn_proof_result_t *result);
/* The device was reset: nothing of it comes any more. */
void mdnn_proof_results_forget(void);

#endif
