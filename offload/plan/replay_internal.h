/* What the files of the replay (replay.h) share. A replay_t lies on the stack of the function that runs it. */
#ifndef MDNN_REPLAY_INTERNAL_H
#define MDNN_REPLAY_INTERNAL_H

#include "offload/plan/replay.h"

enum { NONE = -1, DIRECTIONS = 2, OUT = 0, IN = 1 };

/* A requested copy. The copies in one direction are in one array, in their order. */
typedef struct replay_copy {
    uint32_t range;
    int32_t move;
    bool called_off; /* OUT: must not start; if it runs already, its result is discarded */
    bool orphaned;   /* OUT: the range died before the copy ended */
} replay_copy_t;

typedef struct replay_engine {
    replay_copy_t *copies;
    size_t asked, done, capacity;
    bool running;
    double left_bytes; /* of copies[done], latency included at the full rate */
} replay_engine_t;

/* Lists of indices, one list for each position: items[first[p]] to items[first[p + 1]]. */
typedef struct replay_lists {
    uint32_t *first, *items;
} replay_lists_t;

typedef struct replay_move {
    bool left;  /* it is after leave_after, and the range is not back yet */
    bool freed; /* the range's memory went to others */
} replay_move_t;

typedef struct replay {
    const mdnn_replay_request_t *request;
    const mdnn_period_t *period;
    const mdnn_move_t *moves;
    int32_t count; /* operations */
    /* By position; backs: moves that must have returned before it. */
    replay_lists_t births, deaths, leaves, returns, backs;
    replay_lists_t of_range; /* moves of each range */
    bool *joins;
    int64_t *copying; /* of each range: index of its copy in the OUT engine; NONE */
    replay_move_t *states;
    replay_engine_t engines[DIRECTIONS];
    double most_bytes_per_us[DIRECTIONS]; /* what other ranks leave of the link; INFINITY: all */
    size_t join_out, join_in;             /* copies that must be done before the next operation */
    uint64_t held_bytes, host_bytes;
    double now_us, finish_us; /* finish_us: of the running operation */
    bool running, granted;    /* granted: the next operation has its memory */
    uint32_t iteration;
    int32_t position; /* of the running or the next operation */
    mdnn_replay_result_t result;
    double byte_us; /* held bytes over time, of this iteration */
} replay_t;

/* For each `item` of a list. */
#define EACH(lists, list, item)                                                                    \
    for (uint32_t item##_at = (lists).first[list], item = 0;                                       \
         item##_at < (lists).first[(list) + 1] && (item = (lists).items[item##_at], true);         \
         item##_at++)

static inline uint64_t mdnn_replay_bytes_of(const replay_t *replay, uint32_t range)
{
    return replay->period->ranges[range].bytes;
}

static inline void mdnn_replay_take_host(replay_t *replay, uint32_t range)
{
    replay->host_bytes += mdnn_replay_bytes_of(replay, range);
    if (replay->host_bytes > replay->result.host_peak_bytes)
        replay->result.host_peak_bytes = replay->host_bytes;
}

/* The state in which the first iteration begins. OUT_OF_MEMORY. mdnn_replay_fini follows in any case. */
mdnn_status_t mdnn_replay_open(replay_t *replay, const mdnn_replay_request_t *request);
void mdnn_replay_fini(replay_t *replay);

#endif
