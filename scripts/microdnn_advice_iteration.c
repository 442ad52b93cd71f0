/* One iteration under a plan, as the replay runs it. */
#include <inttypes.h>
#include <stdlib.h>

#include "offload/plan/planner.h"
#include "scripts/microdnn_advice.h"

/* The first iterations begin with no copy under way. */
enum { ITERATIONS = 3 };

typedef enum kind {
    KIND_WEIGHTS, /* lives always */
    KIND_KEPT, /* what forward keeps for backward: lives where the most memory is live, or is a convolution's X */
    KIND_TEMPORARY, /* the rest */
    KIND_WORKSPACE,
    KIND_COUNT
} kind_t;

static const char *const kind_names[KIND_COUNT] = {"weights", "kept", "temporary", "workspace"};
static const char *const operation_names[MDNN_OPERATION_KIND_COUNT] = {
    "other", "forward", "backward_data", "backward_filter"};

typedef struct text {
    FILE *stream;
    char *bytes;
    size_t size;
} text_t;

typedef struct recorder {
    const mdnn_parts_t *parts;
    kind_t *kinds;                 /* of whole ranges */
    uint64_t held[KIND_COUNT];     /* now */
    double *out_us, *in_us;        /* of parts: when their last copy began */
    double begin_us, operation_us; /* when the last iteration and the last operation began */
    double sampled_us;             /* the last sample is of this time; < 0: there is none */
    uint64_t sampled[KIND_COUNT];
    text_t samples, moves, operations;
} recorder_t;

/* ---- kinds ---- */

static mdnn_status_t find_kinds(const mdnn_period_t *period, kind_t *kinds)
{
    uint64_t *const live = calloc((size_t)period->operation_count + 1, sizeof *live);
    uint32_t fullest = 0;
    if (!live)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 1; i < period->operation_count; i++)
        if (live[i] > live[fullest])
            fullest = i;
    for (uint32_t r = 0; r < period->range_count; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        kinds[r] = mdnn_range_is_permanent(range)        ? KIND_WEIGHTS
                   : mdnn_range_lives_at(range, fullest) ? KIND_KEPT
                                                         : KIND_TEMPORARY;
    }
    free(live);
    return MDNN_STATUS_OK;
}

/* Programs that allocate everything once have activations that live always. */
static void find_inputs(const mdnn_period_t *period, kind_t *kinds)
{
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        if (operation->kind == MDNN_OPERATION_FORWARD && operation->use_count > 0)
            kinds[period->uses[operation->first_use].range] = KIND_KEPT;
    }
}

/* ---- events ---- */

static double ms_of(const recorder_t *recorder, double time_us)
{
    return time_us > recorder->begin_us ? (time_us - recorder->begin_us) / 1e3 : 0;
}

static const char *comma(const text_t *text)
{
    fflush(text->stream);
    return text->size > 0 ? "," : "";
}

/* Of several changes at one moment only the last one is of interest. */
static void put_sample(recorder_t *recorder)
{
    if (recorder->sampled_us < recorder->begin_us)
        return;
    fprintf(recorder->samples.stream, "%s[%.6f", comma(&recorder->samples),
            ms_of(recorder, recorder->sampled_us));
    for (int k = 0; k < KIND_COUNT; k++)
        fprintf(recorder->samples.stream, ",%" PRIu64, recorder->sampled[k]);
    fputc(']', recorder->samples.stream);
}

static void sample(recorder_t *recorder, double time_us)
{
    if (time_us > recorder->sampled_us)
        put_sample(recorder);
    recorder->sampled_us = time_us;
    for (int k = 0; k < KIND_COUNT; k++)
        recorder->sampled[k] = recorder->held[k];
}

static uint64_t *held_of(recorder_t *recorder, uint32_t part)
{
    return &recorder->held[recorder->kinds[recorder->parts->whole[part]]];
}

/* The replay names ranges; workspace is what is held beside them. */
static void hold(recorder_t *recorder, const mdnn_replay_event_t *event, bool take)
{
    uint64_t others = 0;
    if (event->range != MDNN_NO_POSITION) {
        const uint64_t bytes = recorder->parts->period.ranges[event->range].bytes;
        uint64_t *const held = held_of(recorder, event->range);
        *held = take ? *held + bytes : *held - bytes;
    }
    for (int k = 0; k < KIND_WORKSPACE; k++)
        others += recorder->held[k];
    recorder->held[KIND_WORKSPACE] = event->held_bytes - others;
}

static void put_move(recorder_t *recorder, const mdnn_replay_event_t *event, bool out)
{
    const double begin_us = (out ? recorder->out_us : recorder->in_us)[event->range];
    fprintf(recorder->moves.stream, "%s[\"%s\",%.6f,%.6f,%" PRIu64 "]", comma(&recorder->moves),
            out ? "out" : "in", ms_of(recorder, begin_us), ms_of(recorder, event->time_us),
            mdnn_range_copied_bytes(&recorder->parts->period.ranges[event->range]));
}

static void put_operation(recorder_t *recorder, const mdnn_replay_event_t *event)
{
    const mdnn_operation_t *const operation = &recorder->parts->period.operations[event->operation];
    fprintf(recorder->operations.stream, "%s[%.6f,%.6f,\"%s\"]", comma(&recorder->operations),
            ms_of(recorder, recorder->operation_us), ms_of(recorder, event->time_us),
            operation_names[operation->kind]);
}

static void observe(void *context, const mdnn_replay_event_t *event)
{
    recorder_t *const recorder = context;
    const bool last = event->iteration == ITERATIONS - 1;
    if (event->kind == MDNN_REPLAY_TAKE || event->kind == MDNN_REPLAY_GIVE)
        hold(recorder, event, event->kind == MDNN_REPLAY_TAKE);
    else if (event->kind == MDNN_REPLAY_START)
        recorder->operation_us = event->time_us;
    else if (event->kind == MDNN_REPLAY_OUT_START)
        recorder->out_us[event->range] = event->time_us;
    else if (event->kind == MDNN_REPLAY_IN_START)
        recorder->in_us[event->range] = event->time_us;
    else if (last && event->kind == MDNN_REPLAY_FINISH)
        put_operation(recorder, event);
    else if (last && event->kind != MDNN_REPLAY_FINISH)
        put_move(recorder, event, event->kind == MDNN_REPLAY_OUT_END);
    if (!last)
        recorder->begin_us = event->time_us;
    sample(recorder, event->time_us);
}

/* ---- all of it ---- */

static bool open_text(text_t *text)
{
    text->stream = open_memstream(&text->bytes, &text->size);
    return text->stream != NULL;
}

static void close_text(text_t *text)
{
    if (text->stream)
        (void)fclose(text->stream);
    text->stream = NULL;
}

static void free_recorder(recorder_t *recorder)
{
    text_t *const texts[] = {&recorder->samples, &recorder->moves, &recorder->operations};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        close_text(texts[i]);
        free(texts[i]->bytes);
    }
    free(recorder->kinds);
    free(recorder->out_us);
    free(recorder->in_us);
}

/* As the replay begins: what lives across the beginning is held, unless it is away then. */
static void hold_at_first(recorder_t *recorder, const mdnn_schedule_t *schedule)
{
    const mdnn_period_t *const period = &recorder->parts->period;
    const int32_t count = (int32_t)period->operation_count;
    for (uint32_t r = 0; r < period->range_count; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        if (mdnn_range_is_permanent(range) || range->death < range->birth)
            *held_of(recorder, r) += range->bytes;
    }
    for (size_t m = 0; m < schedule->move_count; m++) {
        const mdnn_move_t *const move = &schedule->moves[m];
        int32_t from, to;
        mdnn_move_away(period, move, &from, &to);
        if (move->leave_after == MDNN_GAP_ALWAYS || (from <= count && to > count))
            *held_of(recorder, move->range) -= period->ranges[move->range].bytes;
    }
}

static mdnn_status_t run(recorder_t *recorder, const mdnn_period_t *whole,
                         const mdnn_move_plan_t *plan, const mdnn_link_t *link,
                         uint64_t budget_bytes)
{
    const size_t parts = (size_t)recorder->parts->period.range_count + 1;
    mdnn_replay_result_t result;
    recorder->kinds = calloc((size_t)whole->range_count + 1, sizeof *recorder->kinds);
    recorder->out_us = calloc(parts, sizeof *recorder->out_us);
    recorder->in_us = calloc(parts, sizeof *recorder->in_us);
    recorder->sampled_us = -1;
    if (!recorder->kinds || !recorder->out_us || !recorder->in_us ||
        !open_text(&recorder->samples) || !open_text(&recorder->moves) ||
        !open_text(&recorder->operations))
        return MDNN_STATUS_OUT_OF_MEMORY;
    MDNN_TRY(find_kinds(whole, recorder->kinds));
    find_inputs(whole, recorder->kinds);
    hold_at_first(recorder, &plan->schedule);
    const mdnn_replay_request_t request = {.period = &recorder->parts->period,
                                           .schedule = &plan->schedule,
                                           .link = *link,
                                           .budget_bytes = budget_bytes,
                                           .iterations = ITERATIONS,
                                           .observe = observe,
                                           .context = recorder};
    MDNN_TRY(mdnn_replay(&request, &result));
    put_sample(recorder);
    return MDNN_STATUS_OK;
}

static mdnn_status_t print(recorder_t *recorder, const mdnn_move_plan_t *plan, uint64_t own_bytes,
                           uint64_t budget_bytes, FILE *out)
{
    close_text(&recorder->samples);
    close_text(&recorder->moves);
    close_text(&recorder->operations);
    fprintf(out, "{\"budget_bytes\": %" PRIu64 ", \"own_bytes\": %" PRIu64 ", \"ms\": %.6f,\n",
            budget_bytes, own_bytes, plan->predicted.time_us / 1e3);
    fputs("  \"kinds\": [", out);
    for (int k = 0; k < KIND_COUNT; k++)
        fprintf(out, "%s\"%s\"", k > 0 ? ", " : "", kind_names[k]);
    fprintf(out, "],\n  \"samples\": [%s],\n  \"moves\": [%s],\n  \"operations\": [%s]}",
            recorder->samples.bytes, recorder->moves.bytes, recorder->operations.bytes);
    return ferror(out) ? MDNN_STATUS_IO : MDNN_STATUS_OK;
}

mdnn_status_t tool_advice_print_iteration(const tool_advice_t *advice, uint64_t budget_bytes,
                                          FILE *out)
{
    const mdnn_run_record_t *const record = advice->record;
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    MDNN_TRY(tool_advice_plan(advice, &record->period, &record->link, budget_bytes, &parts, &plan));
    recorder_t recorder = {.parts = &parts};
    mdnn_status_t status = MDNN_STATUS_NOT_FOUND;
    if (plan.verdict == MDNN_VERDICT_FITS)
        status =
            run(&recorder, &record->period, &plan, &record->link, budget_bytes - advice->own_bytes);
    if (status == MDNN_STATUS_OK)
        status = print(&recorder, &plan, advice->own_bytes, budget_bytes, out);
    free_recorder(&recorder);
    mdnn_parts_fini(&parts);
    mdnn_move_plan_fini(&plan);
    return status;
}
