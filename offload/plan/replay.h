/* The timing replay: simulates, by discrete events on the host, an iteration of a recorded period (the operations that
 * repeat, offload/plan/period.h) under a schedule (which ranges leave when, and when they return,
 * offload/plan/schedule.h). It says how long that takes, what waited for what, and how much memory was held at each
 * moment.
 *
 * It assumes that operations run one after another, each for the time of its variant. There is one copy engine per
 * direction, which serves copies in their order. A copy that runs alone gets the full rate, and two copies in opposite
 * directions get the duplex rates. Memory is a number of bytes: ranges are backed by equal chunks, so nothing is lost
 * to gaps between them. Memory for an operation has priority over early returns. Every range that leaves is copied out,
 * even if it was only read after it came back, since the mechanism (offload/memory/memory.h) trusts no host copy of
 * mapped memory. If a range must return before its copy out has ended, it stops leaving: it stays, and the copy is
 * discarded. */
#ifndef MDNN_REPLAY_H
#define MDNN_REPLAY_H

#include "offload/plan/schedule.h"

typedef struct mdnn_link {
    double out_bytes_per_us, in_bytes_per_us; /* device to host, host to device; > 0 */
    double out_duplex_bytes_per_us, in_duplex_bytes_per_us; /* while both run; > 0 */
    double latency_us;                                      /* of each copy; >= 0 */
} mdnn_link_t;

typedef enum mdnn_replay_event_kind {
    MDNN_REPLAY_START, /* of an operation */
    MDNN_REPLAY_FINISH,
    MDNN_REPLAY_OUT_START, /* of a copy of a range */
    MDNN_REPLAY_OUT_END,
    MDNN_REPLAY_IN_START,
    MDNN_REPLAY_IN_END,
    MDNN_REPLAY_TAKE, /* of memory by a range, or for workspace */
    MDNN_REPLAY_GIVE
} mdnn_replay_event_kind_t;

typedef struct mdnn_replay_event {
    mdnn_replay_event_kind_t kind;
    double time_us;
    uint32_t iteration;
    uint32_t operation;  /* START, FINISH: this one; others: the one that runs or waits */
    uint32_t range;      /* of copies, TAKE and GIVE; MDNN_NO_POSITION for workspace */
    uint64_t held_bytes; /* memory that is held after the event */
} mdnn_replay_event_t;

typedef struct mdnn_replay_request {
    const mdnn_period_t *period;     /* passes mdnn_period_check */
    const mdnn_schedule_t *schedule; /* passes mdnn_schedule_check */
    mdnn_link_t link;
    uint64_t budget_bytes; /* UINT64_MAX: none */
    uint32_t iterations; /* >= 1; the last one is reported. 0: as many as the steady state needs */
    void (*observe)(void *context, const mdnn_replay_event_t *event); /* may be NULL */
    void *context;
} mdnn_replay_request_t;

/* Of one iteration, from the end of the previous iteration's last operation to the end of its own last operation. */
typedef struct mdnn_replay_result {
    double time_us;
    double compute_us;     /* time = compute + the waits */
    double wait_return_us; /* for ranges to return */
    double wait_memory_us; /* for memory that is not free yet */
    double wait_join_us;   /* for joins (mdnn_schedule_t) */
    double wait_ranks_us;  /* for slower ranks, at the end of the iteration (mdnn_ranks_replay) */
    uint64_t peak_bytes;   /* of all iterations */
    double average_bytes;
    uint64_t out_bytes, in_bytes;
    uint64_t host_peak_bytes; /* host copies, each from the beginning of its copy out until the
                                 range is back or dies */
    uint64_t steps;           /* of the simulation, in all iterations: what the replay costs */
} mdnn_replay_result_t;

/* NOT_FOUND if the schedule needs more memory than the budget in program order, or if an operation would wait for ever;
 * INVALID_ARGUMENT for a link without rates; OUT_OF_MEMORY. *result untouched on failure. O(iterations * (operations +
 * uses + moves)). Thread-safe: keeps no state. */
mdnn_status_t mdnn_replay(const mdnn_replay_request_t *request, mdnn_replay_result_t *result);

/* Replays `count` ranks together: processes of one training whose devices share a link. Copies of several ranks in one
 * direction get equal shares of it (Kim 2018, III-A: N devices that copy at once take N times as long). As in
 * data-parallel training, all ranks begin an iteration when the slowest one has ended the previous iteration. Opposite
 * copies of one rank slow each other as that rank's own duplex rates say; the shared link has the rates of the first
 * rank. The number of iterations is the largest that a rank requests.
 *
 * results[i] is of rank i alone, except that its time ends with the slowest rank's last operation; wait_ranks_us says
 * how long rank i waited for that. Fails if mdnn_replay would fail for any of the ranks; INVALID_ARGUMENT for no rank,
 * more than MDNN_RANKS, or an empty period. */
enum { MDNN_RANKS = 16 };
mdnn_status_t mdnn_ranks_replay(const mdnn_replay_request_t *ranks, size_t count,
                                mdnn_replay_result_t *results);

#endif
