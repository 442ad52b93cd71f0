#include "offload/plan/replay.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NONE = -1, DIRECTIONS = 2, OUT = 0, IN = 1 };

/* A copy that was asked for. Entries of a direction stand in one array, first come first served. */
typedef struct copy {
    uint32_t range;
    int32_t move;    /* IN */
    bool called_off; /* OUT: not to be started any more; thrown away if it runs */
    bool orphaned;   /* OUT: the range died meanwhile */
} copy_t;

typedef struct engine {
    copy_t *copies;
    size_t asked, done, capacity;
    bool running;
    double left_bytes; /* of copies[done], latency included at the full rate */
} engine_t;

/* Lists of indices, one list a position: items[first[p]] to items[first[p + 1]]. */
typedef struct lists {
    uint32_t *first, *items;
} lists_t;

typedef struct move_state {
    bool left;  /* behind leave_after and not back yet */
    bool freed; /* its memory went to others */
} move_state_t;

typedef struct replay {
    const mdnn_replay_request_t *request;
    const mdnn_period_t *period;
    const mdnn_move_t *moves;
    int32_t count;                                  /* operations */
    lists_t births, deaths, leaves, returns, backs; /* by position; backs: moves that must have
                                                       returned before it */
    lists_t of_range;                               /* moves of each range */
    bool *joins;
    int64_t *copying; /* of each range: index of its copy in the OUT engine; NONE */
    move_state_t *states;
    engine_t engines[DIRECTIONS];
    size_t join_out, join_in; /* copies that must be done before the next operation */
    uint64_t held_bytes, host_bytes;
    double now_us, finish_us; /* finish_us: of the running operation */
    bool running, granted;    /* granted: the next operation has its memory */
    uint32_t iteration;
    int32_t position; /* of the running or the next operation */
    mdnn_replay_result_t result;
    double byte_us; /* held bytes over time, of this iteration */
} replay_t;

/* ---- lists ---- */

typedef int32_t position_of_t(const replay_t *replay, uint32_t item);

/* Position of an item that may lie outside the period; NONE if it has none. */
static int32_t on_circle(const replay_t *replay, int32_t position)
{
    if (position == MDNN_NEVER || position == MDNN_GAP_ALWAYS)
        return NONE;
    return (int32_t)(((int64_t)position + replay->count) % replay->count);
}

static int32_t birth_of(const replay_t *replay, uint32_t range)
{
    return (int32_t)replay->period->ranges[range].birth; /* MDNN_NO_POSITION becomes NONE */
}

static int32_t death_of(const replay_t *replay, uint32_t range)
{
    return (int32_t)replay->period->ranges[range].death;
}

static int32_t leave_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].leave_after);
}

static int32_t return_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].return_after);
}

static int32_t back_of(const replay_t *replay, uint32_t move)
{
    return on_circle(replay, replay->moves[move].return_before);
}

static int32_t range_of(const replay_t *replay, uint32_t move)
{
    return (int32_t)replay->moves[move].range;
}

/* Items keep their order within a list. False without memory. */
static bool fill_lists(const replay_t *replay, lists_t *lists, uint32_t list_count,
                       uint32_t item_count, position_of_t *position_of)
{
    lists->first = calloc((size_t)list_count + 2, sizeof *lists->first);
    lists->items = calloc((size_t)item_count + 1, sizeof *lists->items);
    if (!lists->first || !lists->items)
        return false;
    for (uint32_t i = 0; i < item_count; i++)
        if (position_of(replay, i) >= 0)
            lists->first[position_of(replay, i) + 2]++;
    for (uint32_t p = 2; p <= list_count; p++)
        lists->first[p] += lists->first[p - 1];
    for (uint32_t i = 0; i < item_count; i++)
        if (position_of(replay, i) >= 0)
            lists->items[lists->first[position_of(replay, i) + 1]++] = i;
    return true;
}

static void free_lists(lists_t *lists)
{
    free(lists->first);
    free(lists->items);
}

#define EACH(lists, list, item)                                                                    \
    for (uint32_t item##_at = (lists).first[list], item = 0;                                       \
         item##_at < (lists).first[(list) + 1] && (item = (lists).items[item##_at], true);         \
         item##_at++)

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

static uint64_t bytes_of(const replay_t *replay, uint32_t range)
{
    return replay->period->ranges[range].bytes;
}

static void take_host(replay_t *replay, uint32_t range)
{
    replay->host_bytes += bytes_of(replay, range);
    if (replay->host_bytes > replay->result.host_peak_bytes)
        replay->result.host_peak_bytes = replay->host_bytes;
}

static void give_host(replay_t *replay, uint32_t range)
{
    assert(bytes_of(replay, range) <= replay->host_bytes);
    replay->host_bytes -= bytes_of(replay, range);
}

/* ---- copies ---- */

static bool ask(engine_t *engine, copy_t copy)
{
    if (engine->asked == engine->capacity) {
        const size_t capacity = engine->capacity ? 2 * engine->capacity : 64;
        copy_t *const grown = reallocarray(engine->copies, capacity, sizeof *grown);
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
    if (direction == OUT)
        return both ? link->out_duplex_bytes_per_us : link->out_bytes_per_us;
    return both ? link->in_duplex_bytes_per_us : link->in_bytes_per_us;
}

static void start_copy(replay_t *replay, int direction, uint32_t range)
{
    const mdnn_link_t *const link = &replay->request->link;
    engine_t *const engine = &replay->engines[direction];
    const double full = direction == OUT ? link->out_bytes_per_us : link->in_bytes_per_us;
    engine->running = true;
    engine->left_bytes = (double)bytes_of(replay, range) + link->latency_us * full;
    if (direction == OUT) {
        replay->result.out_bytes += bytes_of(replay, range);
        take_host(replay, range);
    } else {
        replay->result.in_bytes += bytes_of(replay, range);
    }
    observe(replay, direction == OUT ? MDNN_REPLAY_OUT_START : MDNN_REPLAY_IN_START, range);
}

static void skip_called_off(engine_t *out)
{
    while (!out->running && out->done < out->asked && out->copies[out->done].called_off)
        out->done++;
}

static void start_copies(replay_t *replay)
{
    engine_t *const out = &replay->engines[OUT], *const in = &replay->engines[IN];
    if (!out->running && out->done < out->asked)
        start_copy(replay, OUT, out->copies[out->done].range);
    /* What the next operation needs comes first. */
    if (in->running || in->done == in->asked || (!replay->running && !replay->granted))
        return;
    const uint32_t range = in->copies[in->done].range;
    if (fits(replay, bytes_of(replay, range))) {
        take(replay, bytes_of(replay, range), range);
        start_copy(replay, IN, range);
    }
}

/* The memory of a range that left, once the host has its content. */
static void free_left(replay_t *replay, uint32_t range)
{
    EACH(replay->of_range, range, m)
    {
        if (!replay->states[m].left || replay->states[m].freed)
            continue;
        replay->states[m].freed = true;
        give(replay, bytes_of(replay, range), range);
    }
}

static void finish_out(replay_t *replay)
{
    engine_t *const engine = &replay->engines[OUT];
    const copy_t *const copy = &engine->copies[engine->done++];
    engine->running = false;
    observe(replay, MDNN_REPLAY_OUT_END, copy->range);
    if (copy->called_off) {
        give_host(replay, copy->range);
        if (copy->orphaned)
            give(replay, bytes_of(replay, copy->range), copy->range);
        return;
    }
    replay->copying[copy->range] = NONE;
    free_left(replay, copy->range);
}

static void finish_in(replay_t *replay)
{
    engine_t *const engine = &replay->engines[IN];
    const copy_t *const copy = &engine->copies[engine->done++];
    engine->running = false;
    observe(replay, MDNN_REPLAY_IN_END, copy->range);
    give_host(replay, copy->range); /* it may be written now, by whoever is named or not */
    replay->states[copy->move] = (move_state_t){0};
}

/* ---- what happens between two operations ---- */

/* The copy out that runs, if it is of this range and of its present life; else NULL. */
static copy_t *copy_now(const replay_t *replay, uint32_t range)
{
    const engine_t *const out = &replay->engines[OUT];
    copy_t *const copy = out->running ? &out->copies[out->done] : NULL;
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
    copy_t *const copy = copy_now(replay, range);
    bool freed = false;
    EACH(replay->of_range, range, m)
    {
        freed |= replay->states[m].freed;
        replay->states[m] = (move_state_t){0};
    }
    call_off(replay, range);
    if (copy) /* its memory is free when the copy is done */
        copy->orphaned = true;
    else if (freed)
        give_host(replay, range);
    else
        give(replay, bytes_of(replay, range), range);
}

static bool leave(replay_t *replay, uint32_t move)
{
    const uint32_t range = replay->moves[move].range;
    replay->states[move].left = true;
    replay->copying[range] = (int64_t)replay->engines[OUT].asked;
    return ask(&replay->engines[OUT], (copy_t){.range = range, .move = NONE});
}

static bool ask_in(replay_t *replay, uint32_t move)
{
    if (!replay->states[move].freed) { /* still leaving: called off */
        replay->states[move].left = false;
        call_off(replay, replay->moves[move].range);
        return true;
    }
    return ask(&replay->engines[IN],
               (copy_t){.range = replay->moves[move].range, .move = (int32_t)move});
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
    bytes += bytes_of(replay, range);
    if (replay->granted || !fits(replay, bytes))
        return replay->granted;
    EACH(replay->births, replay->position, range)
    take(replay, bytes_of(replay, range), range);
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
    const engine_t *const engine = &replay->engines[direction];
    return engine->running
               ? replay->now_us + fmax(engine->left_bytes, 0) / rate_of(replay, direction)
               : INFINITY;
}

/* To the next event; `wait` collects the time if no operation runs. False if there is none. */
static bool advance(replay_t *replay, double *wait, mdnn_status_t *status)
{
    const double ends[DIRECTIONS] = {end_of_copy(replay, OUT), end_of_copy(replay, IN)};
    const double finish = replay->running ? replay->finish_us : INFINITY;
    const double next = fmin(finish, fmin(ends[OUT], ends[IN]));
    if (!isfinite(next))
        return false;
    const double passed = next - replay->now_us;
    const double rates[DIRECTIONS] = {rate_of(replay, OUT), rate_of(replay, IN)};
    for (int d = 0; d < DIRECTIONS; d++)
        if (replay->engines[d].running)
            replay->engines[d].left_bytes -= passed * rates[d];
    replay->byte_us += passed * (double)replay->held_bytes;
    if (wait)
        *wait += passed;
    replay->now_us = next;
    if (ends[OUT] <= next)
        finish_out(replay);
    if (ends[IN] <= next)
        finish_in(replay);
    if (finish <= next && !finish_operation(replay))
        *status = MDNN_STATUS_OUT_OF_MEMORY;
    return true;
}

static void begin_iteration(replay_t *replay)
{
    const mdnn_replay_result_t kept = replay->result;
    replay->result = (mdnn_replay_result_t){.peak_bytes = kept.peak_bytes,
                                            .host_peak_bytes = kept.host_peak_bytes};
    replay->byte_us = 0;
}

static mdnn_status_t run(replay_t *replay, uint32_t iterations)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    double begin_us = 0;
    for (uint32_t i = 0; i < iterations; i++) {
        begin_iteration(replay);
        begin_us = replay->now_us;
        while (status == MDNN_STATUS_OK && replay->iteration == i) {
            skip_called_off(&replay->engines[OUT]);
            double *const wait = replay->running ? NULL : wait_of(replay);
            if (!replay->running && !wait)
                start_operation(replay);
            start_copies(replay);
            if (!advance(replay, replay->running ? NULL : wait, &status))
                return MDNN_STATUS_NOT_FOUND;
        }
    }
    replay->result.time_us = replay->now_us - begin_us;
    if (replay->result.time_us > 0)
        replay->result.average_bytes = replay->byte_us / replay->result.time_us;
    return status;
}

/* ---- start and end ---- */

/* Ranges that live across the beginning are there, but for those whose move says otherwise. */
static void begin_state(replay_t *replay)
{
    for (uint32_t r = 0; r < replay->period->range_count; r++) {
        const mdnn_period_range_t *const range = &replay->period->ranges[r];
        replay->copying[r] = NONE;
        if (mdnn_range_is_permanent(range) || range->death < range->birth)
            replay->held_bytes += range->bytes;
    }
    for (size_t m = 0; m < replay->request->schedule->move_count; m++) {
        const mdnn_move_t *const move = &replay->moves[m];
        int32_t from, to;
        mdnn_move_away(replay->period, move, &from, &to);
        if (move->leave_after != MDNN_GAP_ALWAYS && (from > replay->count || to <= replay->count))
            continue;
        replay->states[m] = (move_state_t){.left = true, .freed = true};
        take_host(replay, move->range);
        replay->held_bytes -= bytes_of(replay, move->range);
    }
    replay->result.peak_bytes = replay->held_bytes;
}

static mdnn_status_t prepare(replay_t *replay)
{
    const mdnn_schedule_t *const schedule = replay->request->schedule;
    const uint32_t count = replay->period->operation_count, ranges = replay->period->range_count;
    const uint32_t moves = (uint32_t)schedule->move_count;
    replay->joins = calloc((size_t)count + 1, sizeof *replay->joins);
    replay->copying = calloc((size_t)ranges + 1, sizeof *replay->copying);
    replay->states = calloc((size_t)moves + 1, sizeof *replay->states);
    if (!replay->joins || !replay->copying || !replay->states ||
        !fill_lists(replay, &replay->births, count, ranges, birth_of) ||
        !fill_lists(replay, &replay->deaths, count, ranges, death_of) ||
        !fill_lists(replay, &replay->leaves, count, moves, leave_of) ||
        !fill_lists(replay, &replay->returns, count, moves, return_of) ||
        !fill_lists(replay, &replay->backs, count, moves, back_of) ||
        !fill_lists(replay, &replay->of_range, ranges, moves, range_of))
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < schedule->join_count; i++)
        replay->joins[schedule->joins[i]] = true;
    begin_state(replay);
    return MDNN_STATUS_OK;
}

static void replay_fini(replay_t *replay)
{
    lists_t *const all[] = {&replay->births,  &replay->deaths, &replay->leaves,
                            &replay->returns, &replay->backs,  &replay->of_range};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_lists(all[i]);
    for (int d = 0; d < DIRECTIONS; d++)
        free(replay->engines[d].copies);
    free(replay->joins);
    free(replay->copying);
    free(replay->states);
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

mdnn_status_t mdnn_replay(const mdnn_replay_request_t *request, mdnn_replay_result_t *result)
{
    const mdnn_link_t *const link = &request->link;
    const uint32_t count = request->period->operation_count;
    if (!(link->out_bytes_per_us > 0 && link->in_bytes_per_us > 0 &&
          link->out_duplex_bytes_per_us > 0 && link->in_duplex_bytes_per_us > 0 &&
          link->latency_us >= 0))
        return MDNN_STATUS_INVALID_ARGUMENT;
    if (count == 0) {
        *result = (mdnn_replay_result_t){0};
        return MDNN_STATUS_OK;
    }
    uint64_t *const resident = calloc(count, sizeof *resident);
    if (!resident)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const bool possible = is_within_budget(request, resident);
    free(resident);
    if (!possible)
        return MDNN_STATUS_NOT_FOUND;
    replay_t replay = {.request = request,
                       .period = request->period,
                       .moves = request->schedule->moves,
                       .count = (int32_t)count};
    const uint32_t least = request->schedule->move_count > 0 ? STEADY_ITERATIONS : 1;
    mdnn_status_t status = prepare(&replay);
    if (status == MDNN_STATUS_OK)
        status = run(&replay, request->iterations ? request->iterations : least);
    if (status == MDNN_STATUS_OK)
        *result = replay.result;
    replay_fini(&replay);
    return status;
}

/* ---- bound ---- */

/* Bytes of ranges that live at each operation: all, those that were born in this period, and of
 * these the ones that are used after it. */
typedef struct living {
    uint64_t *all, *born, *wanted;
} living_t;

static mdnn_status_t sum_living(const mdnn_period_t *period, uint32_t *last_use, living_t *living)
{
    mdnn_period_t part = *period;
    mdnn_period_live_bytes(period, living->all);
    part.ranges = calloc((size_t)period->range_count + 1, sizeof *part.ranges);
    if (!part.ranges)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < period->operation_count; i++)
        for (uint32_t u = 0; u < period->operations[i].use_count; u++)
            last_use[period->uses[period->operations[i].first_use + u].range] = i;
    for (uint32_t r = 0; r < period->range_count; r++) {
        part.ranges[r] = period->ranges[r];
        if (mdnn_range_is_permanent(&part.ranges[r]) || part.ranges[r].death < part.ranges[r].birth)
            part.ranges[r].bytes = 0;
    }
    mdnn_period_live_bytes(&part, living->born);
    /* At its last use a range is there; away before it, it must come back. */
    for (uint32_t r = 0; r < period->range_count; r++)
        if (part.ranges[r].bytes > 0)
            part.ranges[r].death = last_use[r];
    mdnn_period_live_bytes(&part, living->wanted);
    free(part.ranges);
    return MDNN_STATUS_OK;
}

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static double bound_of(const mdnn_period_t *period, const mdnn_link_t *link, uint64_t budget_bytes,
                       const living_t *living)
{
    const double out_rate = fmax(link->out_bytes_per_us, link->out_duplex_bytes_per_us);
    const double in_rate = fmax(link->in_bytes_per_us, link->in_duplex_bytes_per_us);
    double total_us = 0, before_us = 0, bound_us;
    for (uint32_t i = 0; i < period->operation_count; i++)
        total_us += period
                        ->variants[period->operations[i].first_variant +
                                   mdnn_operation_fastest(period, i, UINT64_MAX)]
                        .time_us;
    bound_us = total_us;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_variant_t *const variants =
            &period->variants[period->operations[i].first_variant];
        const double own_us = variants[mdnn_operation_fastest(period, i, UINT64_MAX)].time_us;
        const uint64_t least = variants[mdnn_operation_smallest(period, i)].workspace_bytes;
        const uint64_t away = above(living->all[i] + least, budget_bytes);
        const uint64_t out = above(away, living->all[i] - living->born[i]);
        const uint64_t in = above(away, living->all[i] - living->wanted[i]);
        const double after_us = total_us - before_us - own_us;
        const double here_us =
            fmax(before_us, (double)out / out_rate) + own_us + fmax(after_us, (double)in / in_rate);
        bound_us = fmax(bound_us, here_us);
        before_us += own_us;
    }
    return bound_us;
}

mdnn_status_t mdnn_link_bound(const mdnn_period_t *period, const mdnn_link_t *link,
                              uint64_t budget_bytes, double *bound_us)
{
    const size_t count = (size_t)period->operation_count + 1;
    living_t living = {calloc(count, sizeof *living.all), calloc(count, sizeof *living.born),
                       calloc(count, sizeof *living.wanted)};
    uint32_t *const last_use = calloc((size_t)period->range_count + 1, sizeof *last_use);
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (living.all && living.born && living.wanted && last_use)
        status = sum_living(period, last_use, &living);
    if (status == MDNN_STATUS_OK)
        *bound_us = bound_of(period, link, budget_bytes, &living);
    free(living.all);
    free(living.born);
    free(living.wanted);
    free(last_use);
    return status;
}
