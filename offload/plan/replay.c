/* The simulation: operations and copies run, memory is taken and given, from one event to the next. */
#include "offload/plan/replay_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- memory ---- */

static void observe(replay_t *replay, mdnn_replay_event_kind_t kind, uint32_t range)
{
    if (!replay->request->observe)
        return;
    const mdnn_replay_event_t event = {
        kind,  replay->now_us,    replay->iteration, (uint32_t)replay->position,
        range, replay->held_bytes};
    replay->request->observe(replay->request->context, &event);
}

static bool fits(const replay_t *replay, uint64_t bytes)
{
    return replay->held_bytes <= replay->request->budget_bytes &&
           bytes <= replay->request->budget_bytes - replay->held_bytes;
}

static void take(replay_t *replay, uint64_t bytes, uint32_t range)
{
    assert(fits(replay, bytes));
    replay->held_bytes += bytes;
    if (replay->held_bytes > replay->result.peak_bytes)
        replay->result.peak_bytes = replay->held_bytes;
    observe(replay, MDNN_REPLAY_TAKE, range);
}

static void give(replay_t *replay, uint64_t bytes, uint32_t range)
{
    assert(bytes <= replay->held_bytes);
    replay->held_bytes -= bytes;
    observe(replay, MDNN_REPLAY_GIVE, range);
}

static void give_host(replay_t *replay, uint32_t range)
{
    assert(mdnn_replay_bytes_of(replay, range) <= replay->host_bytes);
    replay->host_bytes -= mdnn_replay_bytes_of(replay, range);
}

/* ---- copies ---- */

static bool ask(replay_engine_t *engine, replay_copy_t copy)
{
    if (engine->asked == engine->capacity) {
        const size_t capacity = engine->capacity ? 2 * engine->capacity : 64;
        replay_copy_t *const grown = reallocarray(engine->copies, capacity, sizeof *grown);
        if (!grown)
            return false;
        engine->copies = grown;
        engine->capacity = capacity;
    }
    engine->copies[engine->asked++] = copy;
    return true;
}

static double rate_of(const replay_t *replay, int direction)
{
    const mdnn_link_t *const link = &replay->request->link;
    const bool both = replay->engines[OUT].running && replay->engines[IN].running;
    const double own = direction == OUT
                           ? (both ? link->out_duplex_bytes_per_us : link->out_bytes_per_us)
                           : (both ? link->in_duplex_bytes_per_us : link->in_bytes_per_us);
    return fmin(own, replay->most_bytes_per_us[direction]);
}

static void start_copy(replay_t *replay, int direction, uint32_t range)
{
    const mdnn_link_t *const link = &replay->request->link;
    replay_engine_t *const engine = &replay->engines[direction];
    const uint64_t copied_bytes = mdnn_range_copied_bytes(&replay->period->ranges[range]);
    const double full = direction == OUT ? link->out_bytes_per_us : link->in_bytes_per_us;
    engine->running = true;
    engine->left_bytes = (double)copied_bytes + link->latency_us * full;
    if (direction == OUT) {
        replay->result.out_bytes += copied_bytes;
        mdnn_replay_take_host(replay, range);
    } else {
        replay->result.in_bytes += copied_bytes;
    }
    observe(replay, direction == OUT ? MDNN_REPLAY_OUT_START : MDNN_REPLAY_IN_START, range);
}

static void skip_called_off(replay_engine_t *out)
{
    while (!out->running && out->done < out->asked && out->copies[out->done].called_off)
        out->done++;
}

static void start_copies(replay_t *replay)
{
    replay_engine_t *const out = &replay->engines[OUT], *const in = &replay->engines[IN];
    if (!out->running && out->done < out->asked)
        start_copy(replay, OUT, out->copies[out->done].range);
    /* What the next operation needs comes first. */
    if (in->running || in->done == in->asked || (!replay->running && !replay->granted))
        return;
    const uint32_t range = in->copies[in->done].range;
    if (fits(replay, mdnn_replay_bytes_of(replay, range))) {
        take(replay, mdnn_replay_bytes_of(replay, range), range);
        start_copy(replay, IN, range);
    }
}

static void finish_out(replay_t *replay)
{
    replay_engine_t *const engine = &replay->engines[OUT];
    const replay_copy_t *const copy = &engine->copies[engine->done++];
    engine->running = false;
    observe(replay, MDNN_REPLAY_OUT_END, copy->range);
    if (copy->called_off) {
        give_host(replay, copy->range);
        if (copy->orphaned)
            give(replay, mdnn_replay_bytes_of(replay, copy->range), copy->range);
        return;
    }
    replay->copying[copy->range] = NONE;
    replay->states[copy->move].freed = true; /* the host has its content */
    give(replay, mdnn_replay_bytes_of(replay, copy->range), copy->range);
}

static void finish_in(replay_t *replay)
{
    replay_engine_t *const engine = &replay->engines[IN];
    const replay_copy_t *const copy = &engine->copies[engine->done++];
    engine->running = false;
    observe(replay, MDNN_REPLAY_IN_END, copy->range);
    give_host(replay, copy->range); /* it may be written now, by whoever is named or not */
    replay->states[copy->move] = (replay_move_t){0};
}

/* ---- what happens between two operations ---- */

/* The copy out that runs, if it is of this range and of its present life; else NULL. */
static replay_copy_t *copy_now(const replay_t *replay, uint32_t range)
{
    const replay_engine_t *const out = &replay->engines[OUT];
    replay_copy_t *const copy = out->running ? &out->copies[out->done] : NULL;
    return copy && copy->range == range && !copy->orphaned ? copy : NULL;
}

/* The copy of a range that dies or is to stay, if there is one. */
static void call_off(replay_t *replay, uint32_t range)
{
    if (replay->copying[range] != NONE)
        replay->engines[OUT].copies[replay->copying[range]].called_off = true;
    replay->copying[range] = NONE;
}

static void die(replay_t *replay, uint32_t range)
{
    replay_copy_t *const copy = copy_now(replay, range);
    bool freed = false;
    EACH(replay->of_range, range, m)
    {
        freed |= replay->states[m].freed;
        replay->states[m] = (replay_move_t){0};
    }
    call_off(replay, range);
    if (copy) /* its memory is free when the copy is done */
        copy->orphaned = true;
    else if (freed)
        give_host(replay, range);
    else
        give(replay, mdnn_replay_bytes_of(replay, range), range);
}

static bool leave(replay_t *replay, uint32_t move)
{
    const uint32_t range = replay->moves[move].range;
    replay->states[move].left = true;
    replay->copying[range] = (int64_t)replay->engines[OUT].asked;
    return ask(&replay->engines[OUT], (replay_copy_t){.range = range, .move = (int32_t)move});
}

static bool ask_in(replay_t *replay, uint32_t move)
{
    if (!replay->states[move].freed) { /* still leaving: called off */
        replay->states[move].left = false;
        call_off(replay, replay->moves[move].range);
        return true;
    }
    return ask(&replay->engines[IN],
               (replay_copy_t){.range = replay->moves[move].range, .move = (int32_t)move});
}

/* Behind operation `position`. False without memory. */
static bool pass(replay_t *replay, int32_t position)
{
    const int32_t next = (position + 1) % replay->count;
    bool ok = true;
    EACH(replay->deaths, position, range)
    die(replay, range);
    EACH(replay->leaves, position, move)
    ok &= leave(replay, move);
    replay->join_out = replay->joins[next] ? replay->engines[OUT].asked : 0;
    replay->join_in = replay->joins[next] ? replay->engines[IN].asked : 0;
    EACH(replay->returns, position, move)
    ok &= ask_in(replay, move);
    return ok;
}

/* ---- operations ---- */

static const mdnn_variant_t *variant_at(const replay_t *replay, int32_t position)
{
    const uint32_t *const choices = replay->request->schedule->choices;
    const mdnn_operation_t *const operation = &replay->period->operations[position];
    return &replay->period->variants[operation->first_variant + (choices ? choices[position] : 0)];
}

/* Memory of the ranges born now and of the workspace, all at once. */
static bool grant(replay_t *replay)
{
    const uint64_t workspace = variant_at(replay, replay->position)->workspace_bytes;
    uint64_t bytes = workspace;
    EACH(replay->births, replay->position, range)
    bytes += mdnn_replay_bytes_of(replay, range);
    if (replay->granted || !fits(replay, bytes))
        return replay->granted;
    EACH(replay->births, replay->position, range)
    take(replay, mdnn_replay_bytes_of(replay, range), range);
    if (workspace > 0)
        take(replay, workspace, MDNN_NO_POSITION);
    return replay->granted = true;
}

/* What the next operation waits for; NULL if it can start. */
static double *wait_of(replay_t *replay)
{
    if (!grant(replay))
        return &replay->result.wait_memory_us;
    if (replay->engines[OUT].done < replay->join_out || replay->engines[IN].done < replay->join_in)
        return &replay->result.wait_join_us;
    EACH(replay->backs, replay->position, move)
    if (replay->states[move].left)
        return &replay->result.wait_return_us;
    return NULL;
}

static void start_operation(replay_t *replay)
{
    replay->running = true;
    replay->finish_us = replay->now_us + variant_at(replay, replay->position)->time_us;
    observe(replay, MDNN_REPLAY_START, MDNN_NO_POSITION);
}

static bool finish_operation(replay_t *replay)
{
    const int32_t position = replay->position;
    const uint64_t workspace = variant_at(replay, position)->workspace_bytes;
    replay->running = replay->granted = false;
    replay->result.compute_us += variant_at(replay, position)->time_us;
    observe(replay, MDNN_REPLAY_FINISH, MDNN_NO_POSITION);
    if (workspace > 0)
        give(replay, workspace, MDNN_NO_POSITION);
    const bool ok = pass(replay, position);
    replay->position = (position + 1) % replay->count;
    replay->iteration += replay->position == 0;
    return ok;
}

/* ---- time ---- */

static double end_of_copy(const replay_t *replay, int direction)
{
    const replay_engine_t *const engine = &replay->engines[direction];
    return engine->running
               ? replay->now_us + fmax(engine->left_bytes, 0) / rate_of(replay, direction)
               : INFINITY;
}

/* Starts what can start now. `active`: the next operation may; else it waits for other ranks. Returns what collects the
 * time of the wait; NULL while an operation runs. */
static double *begin_step(replay_t *replay, bool active)
{
    double *wait = NULL;
    skip_called_off(&replay->engines[OUT]);
    if (!replay->running && !active) {
        (void)grant(replay);
        wait = &replay->result.wait_ranks_us;
    } else if (!replay->running) {
        wait = wait_of(replay);
        if (!wait)
            start_operation(replay);
    }
    start_copies(replay);
    return wait;
}

/* When something happens next; INFINITY: never. */
static double next_us_of(const replay_t *replay)
{
    const double finish = replay->running ? replay->finish_us : INFINITY;
    return fmin(finish, fmin(end_of_copy(replay, OUT), end_of_copy(replay, IN)));
}

static mdnn_status_t pass_time(replay_t *replay, double next_us, double *wait)
{
    const double ends[DIRECTIONS] = {end_of_copy(replay, OUT), end_of_copy(replay, IN)};
    const double rates[DIRECTIONS] = {rate_of(replay, OUT), rate_of(replay, IN)};
    const double finish = replay->running ? replay->finish_us : INFINITY;
    const double passed = next_us - replay->now_us;
    replay->result.steps++;
    for (int d = 0; d < DIRECTIONS; d++)
        if (replay->engines[d].running)
            replay->engines[d].left_bytes -= passed * rates[d];
    replay->byte_us += passed * (double)replay->held_bytes;
    if (wait)
        *wait += passed;
    replay->now_us = next_us;
    if (ends[OUT] <= next_us)
        finish_out(replay);
    if (ends[IN] <= next_us)
        finish_in(replay);
    if (finish <= next_us && !finish_operation(replay))
        return MDNN_STATUS_OUT_OF_MEMORY;
    return MDNN_STATUS_OK;
}

static void begin_iteration(replay_t *replay)
{
    const mdnn_replay_result_t kept = replay->result;
    replay->result = (mdnn_replay_result_t){.peak_bytes = kept.peak_bytes,
                                            .host_peak_bytes = kept.host_peak_bytes,
                                            .steps = kept.steps};
    replay->byte_us = 0;
}

static void end_iteration(replay_t *replay, double begin_us)
{
    replay->result.time_us = replay->now_us - begin_us;
    if (replay->result.time_us > 0)
        replay->result.average_bytes = replay->byte_us / replay->result.time_us;
}

static bool is_within_budget(const mdnn_replay_request_t *request, uint64_t *resident)
{
    mdnn_schedule_resident_bytes(request->period, request->schedule, resident);
    for (uint32_t i = 0; i < request->period->operation_count; i++)
        if (resident[i] > request->budget_bytes)
            return false;
    return true;
}

/* The first iteration begins with no copy under way, unlike the others, and the second may feel it. */
enum { STEADY_ITERATIONS = 3 };

static mdnn_status_t check(const mdnn_replay_request_t *request)
{
    const mdnn_link_t *const link = &request->link;
    const uint32_t count = request->period->operation_count;
    if (!(link->out_bytes_per_us > 0 && link->in_bytes_per_us > 0 &&
          link->out_duplex_bytes_per_us > 0 && link->in_duplex_bytes_per_us > 0 &&
          link->latency_us >= 0))
        return MDNN_STATUS_INVALID_ARGUMENT;
    uint64_t *const resident = calloc((size_t)count + 1, sizeof *resident);
    if (!resident)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const bool possible = is_within_budget(request, resident);
    free(resident);
    return possible ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

static uint32_t iterations_of(const mdnn_replay_request_t *request)
{
    const uint32_t least = request->schedule->move_count > 0 ? STEADY_ITERATIONS : 1;
    return request->iterations ? request->iterations : least;
}

/* ---- ranks ---- */

/* Each rank's most, in each direction, from how many copy now. */
static void share_link(replay_t *ranks, size_t count)
{
    const mdnn_link_t *const link = &ranks[0].request->link;
    size_t copies[DIRECTIONS] = {0};
    for (size_t i = 0; i < count; i++)
        for (int d = 0; d < DIRECTIONS; d++)
            copies[d] += ranks[i].engines[d].running;
    const bool both = copies[OUT] > 0 && copies[IN] > 0;
    const double rates[DIRECTIONS] = {
        [OUT] = both ? link->out_duplex_bytes_per_us : link->out_bytes_per_us,
        [IN] = both ? link->in_duplex_bytes_per_us : link->in_bytes_per_us};
    for (size_t i = 0; i < count; i++)
        for (int d = 0; d < DIRECTIONS; d++)
            ranks[i].most_bytes_per_us[d] = copies[d] > 1 ? rates[d] / (double)copies[d] : INFINITY;
}

/* To the next event of any rank. NOT_FOUND: there is none. */
static mdnn_status_t step(replay_t *ranks, size_t count, uint32_t iteration)
{
    double *waits[MDNN_RANKS];
    double next_us = INFINITY;
    mdnn_status_t status = MDNN_STATUS_OK;
    for (size_t i = 0; i < count; i++)
        waits[i] = begin_step(&ranks[i], ranks[i].iteration == iteration);
    share_link(ranks, count);
    for (size_t i = 0; i < count; i++)
        next_us = fmin(next_us, next_us_of(&ranks[i]));
    if (!isfinite(next_us))
        return MDNN_STATUS_NOT_FOUND;
    for (size_t i = 0; status == MDNN_STATUS_OK && i < count; i++)
        status = pass_time(&ranks[i], next_us, waits[i]);
    return status;
}

static bool all_ended(const replay_t *ranks, size_t count, uint32_t iteration)
{
    for (size_t i = 0; i < count; i++)
        if (ranks[i].iteration == iteration)
            return false;
    return true;
}

static mdnn_status_t run(replay_t *ranks, size_t count, uint32_t iterations)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    double begin_us = 0;
    for (uint32_t k = 0; status == MDNN_STATUS_OK && k < iterations; k++) {
        begin_us = ranks[0].now_us;
        for (size_t i = 0; i < count; i++)
            begin_iteration(&ranks[i]);
        while (status == MDNN_STATUS_OK && !all_ended(ranks, count, k))
            status = step(ranks, count, k);
    }
    for (size_t i = 0; i < count; i++)
        end_iteration(&ranks[i], begin_us);
    return status;
}

mdnn_status_t mdnn_ranks_replay(const mdnn_replay_request_t *ranks, size_t count,
                                mdnn_replay_result_t *results)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    uint32_t iterations = 1;
    if (count == 0 || count > MDNN_RANKS)
        return MDNN_STATUS_INVALID_ARGUMENT;
    replay_t *const replays = calloc(count, sizeof *replays);
    if (!replays)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; status == MDNN_STATUS_OK && i < count; i++) {
        status =
            ranks[i].period->operation_count > 0 ? check(&ranks[i]) : MDNN_STATUS_INVALID_ARGUMENT;
        if (status == MDNN_STATUS_OK)
            status = mdnn_replay_open(&replays[i], &ranks[i]);
        if (iterations_of(&ranks[i]) > iterations)
            iterations = iterations_of(&ranks[i]);
    }
    if (status == MDNN_STATUS_OK)
        status = run(replays, count, iterations);
    for (size_t i = 0; i < count; i++) {
        if (status == MDNN_STATUS_OK)
            results[i] = replays[i].result;
        mdnn_replay_fini(&replays[i]);
    }
    free(replays);
    return status;
}

mdnn_status_t mdnn_replay(const mdnn_replay_request_t *request, mdnn_replay_result_t *result)
{
    if (request->period->operation_count > 0)
        return mdnn_ranks_replay(request, 1, result);
    MDNN_TRY(check(request));
    *result = (mdnn_replay_result_t){0};
    return MDNN_STATUS_OK;
}
