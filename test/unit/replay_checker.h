/* Watches a replay and checks what must hold at each moment, from its events alone. */
#ifndef REPLAY_CHECKER_H
#define REPLAY_CHECKER_H

#include <math.h>
#include <stdlib.h>

#include "offload/plan/replay.h"

typedef struct replay_checker {
    const mdnn_replay_request_t *request;
    int *taken;    /* of each range: memory held, twice where a copy outlives the range before */
    bool *content; /* of each range: it is there */
    bool *saved;   /* of each range: it was copied out, and neither used nor mapped since */
    double out_since, in_since, operation_since, now_us; /* < 0: none runs */
    uint32_t out_range, in_range;
    bool out_spoiled; /* the range was used meanwhile */
    bool out_orphan;  /* it has died meanwhile */
    uint64_t held_bytes, workspace_bytes;
    uint64_t operations; /* finished */
    const char *fault;   /* the first; NULL if all is well */
} replay_checker_t;

#define REPLAY_EXPECT(condition)                                                                   \
    do {                                                                                           \
        if (!(condition) && !checker->fault)                                                       \
            checker->fault = #condition;                                                           \
    } while (0)

static inline const mdnn_variant_t *checker_variant(const replay_checker_t *checker, uint32_t at)
{
    const mdnn_period_t *const period = checker->request->period;
    const uint32_t *const choices = checker->request->schedule->choices;
    return &period->variants[period->operations[at].first_variant + (choices ? choices[at] : 0)];
}

static inline void check_operation(replay_checker_t *checker, const mdnn_replay_event_t *event)
{
    const mdnn_period_t *const period = checker->request->period;
    const mdnn_operation_t *const operation = &period->operations[event->operation];
    REPLAY_EXPECT(event->operation == checker->operations % period->operation_count);
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_use_t *const use = &period->uses[operation->first_use + u];
        REPLAY_EXPECT(checker->taken[use->range]);
        REPLAY_EXPECT(checker->content[use->range]);
        checker->saved[use->range] = false;
        checker->out_spoiled |= checker->out_range == use->range;
    }
    REPLAY_EXPECT(checker->workspace_bytes ==
                  checker_variant(checker, event->operation)->workspace_bytes);
}

static inline void check_memory(replay_checker_t *checker, const mdnn_replay_event_t *event)
{
    const bool take = event->kind == MDNN_REPLAY_TAKE;
    if (event->range == MDNN_NO_POSITION) {
        const uint64_t bytes = checker_variant(checker, event->operation)->workspace_bytes;
        checker->workspace_bytes = take ? bytes : 0;
        checker->held_bytes += take ? bytes : 0 - bytes;
    } else {
        const uint64_t bytes = checker->request->period->ranges[event->range].bytes;
        const bool dies =
            checker->request->period->ranges[event->range].death == event->operation ||
            (checker->out_orphan && checker->out_range == event->range);
        REPLAY_EXPECT(take || checker->saved[event->range] || dies);
        checker->taken[event->range] += take ? 1 : -1;
        REPLAY_EXPECT(checker->taken[event->range] >= 0 && checker->taken[event->range] <= 2);
        checker->content[event->range] = checker->taken[event->range] > 0; /* IN_START: not yet */
        checker->held_bytes += take ? bytes : 0 - bytes;
    }
}

static inline void check_copy(replay_checker_t *checker, const mdnn_replay_event_t *event)
{
    const mdnn_link_t *const link = &checker->request->link;
    const bool out = event->kind == MDNN_REPLAY_OUT_START || event->kind == MDNN_REPLAY_OUT_END;
    const bool start = event->kind == MDNN_REPLAY_OUT_START || event->kind == MDNN_REPLAY_IN_START;
    double *const since = out ? &checker->out_since : &checker->in_since;
    uint32_t *const range = out ? &checker->out_range : &checker->in_range;
    const double bytes =
        (double)mdnn_range_copied_bytes(&checker->request->period->ranges[event->range]);
    const double rate = out ? link->out_bytes_per_us : link->in_bytes_per_us;
    const double duplex = out ? link->out_duplex_bytes_per_us : link->in_duplex_bytes_per_us;
    REPLAY_EXPECT(checker->taken[event->range]);
    REPLAY_EXPECT(start == (*since < 0));
    if (start) {
        *range = event->range;
        *since = event->time_us;
        checker->content[event->range] = out;
        if (out)
            checker->out_spoiled = checker->out_orphan = false;
        return;
    }
    const double took = event->time_us - *since;
    REPLAY_EXPECT(*range == event->range);
    REPLAY_EXPECT(took >= (bytes / rate + link->latency_us) * (1 - 1e-9) - 1e-9);
    REPLAY_EXPECT(took <= (bytes + link->latency_us * rate) / duplex * (1 + 1e-9) + 1e-9);
    *since = -1;
    checker->content[event->range] = true;
    checker->saved[event->range] = out && !checker->out_spoiled && !checker->out_orphan;
}

static inline void replay_check(void *context, const mdnn_replay_event_t *event)
{
    replay_checker_t *const checker = context;
    REPLAY_EXPECT(event->time_us >= checker->now_us);
    checker->now_us = event->time_us;
    switch (event->kind) {
    case MDNN_REPLAY_START:
        check_operation(checker, event);
        REPLAY_EXPECT(checker->operation_since < 0);
        checker->operation_since = event->time_us;
        break;
    case MDNN_REPLAY_FINISH:
        check_operation(checker, event);
        REPLAY_EXPECT(fabs(event->time_us - checker->operation_since -
                           checker_variant(checker, event->operation)->time_us) < 1e-6);
        checker->operation_since = -1;
        checker->operations++;
        checker->out_orphan |=
            checker->out_since >= 0 &&
            checker->request->period->ranges[checker->out_range].death == event->operation;
        break;
    case MDNN_REPLAY_TAKE:
    case MDNN_REPLAY_GIVE:
        check_memory(checker, event);
        break;
    default:
        check_copy(checker, event);
        break;
    }
    REPLAY_EXPECT(event->held_bytes == checker->held_bytes);
    REPLAY_EXPECT(event->held_bytes <= checker->request->budget_bytes);
}

/* Runs the replay of *request under watch. Returns the first fault, or NULL; *status is the
 * replay's. Whatever is away at the beginning is taken from the schedule. */
static inline const char *replay_watched(mdnn_replay_request_t *request,
                                         mdnn_replay_result_t *result, mdnn_status_t *status)
{
    const mdnn_period_t *const period = request->period;
    replay_checker_t state = {
        .request = request, .out_since = -1, .in_since = -1, .operation_since = -1};
    replay_checker_t *const checker = &state;
    state.taken = calloc((size_t)period->range_count + 1, sizeof *state.taken);
    state.content = calloc((size_t)period->range_count + 1, sizeof *state.content);
    state.saved = calloc((size_t)period->range_count + 1, sizeof *state.saved);
    for (uint32_t r = 0; r < period->range_count; r++)
        state.taken[r] = mdnn_range_is_permanent(&period->ranges[r]) ||
                         period->ranges[r].death < period->ranges[r].birth;
    for (size_t m = 0; m < request->schedule->move_count; m++) {
        const mdnn_move_t *const move = &request->schedule->moves[m];
        int32_t from, to;
        mdnn_move_away(period, move, &from, &to);
        if (move->leave_after == MDNN_GAP_ALWAYS ||
            (from <= (int32_t)period->operation_count && to > (int32_t)period->operation_count))
            state.taken[move->range] = false;
    }
    for (uint32_t r = 0; r < period->range_count; r++) {
        state.content[r] = state.taken[r];
        state.held_bytes += state.taken[r] ? period->ranges[r].bytes : 0;
    }
    request->observe = replay_check;
    request->context = checker;
    *status = mdnn_replay(request, result);
    if (*status == MDNN_STATUS_OK) {
        const double waits = result->wait_join_us + result->wait_memory_us + result->wait_return_us;
        REPLAY_EXPECT(fabs(result->time_us - result->compute_us - waits) <=
                      1e-6 * (1 + result->time_us));
        REPLAY_EXPECT(result->peak_bytes <= request->budget_bytes);
    }
    free(state.taken);
    free(state.content);
    free(state.saved);
    return state.fault;
}

#endif
