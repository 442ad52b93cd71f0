/* vDNN's static policies and its dynamic one (Rhu 2016, 3.2, 3.3 and figure 8).
 *
 * A period knows no layers, so they are cut from the convolution calls. A layer of forward begins
 * with its convolution and ends before the next. In backward the operations that follow a
 * convolution in forward come before it, so a layer of backward ends with its convolution: with
 * both of its calls, where the one for the data and the one for the filter read a range in common
 * (dY). The turn between the two directions is where most memory lives.
 *
 * X leaves during its layer (the last one that reads it) and the next layer waits for that. It
 * returns during the layer of backward before the one that uses it: with a convolution in every
 * layer, findPrefetchLayer of figure 8 looks no further. */
#include <stdlib.h>

#include "offload/plan/policy.h"

typedef struct layers {
    uint32_t *of;    /* layer of each operation */
    uint32_t *begin; /* first operation of each layer, and the count of operations */
    bool *forward;   /* whether the layer begins with a convolution of forward */
    bool *backward;  /* whether it ends with one of backward */
    uint32_t count;
} layers_t;

static void layers_fini(layers_t *layers)
{
    free(layers->of);
    free(layers->begin);
    free(layers->forward);
    free(layers->backward);
}

static bool is_backward(mdnn_operation_kind_t kind)
{
    return kind == MDNN_OPERATION_BACKWARD_DATA || kind == MDNN_OPERATION_BACKWARD_FILTER;
}

/* The next convolution call behind `position`, or the end. */
static uint32_t next_call(const mdnn_period_t *period, uint32_t position)
{
    for (position++; position < period->operation_count; position++)
        if (period->operations[position].kind != MDNN_OPERATION_OTHER)
            break;
    return position;
}

static bool read_in_common(const mdnn_period_t *period, const mdnn_operation_t *a,
                           const mdnn_operation_t *b)
{
    for (uint32_t i = 0; i < a->use_count; i++)
        for (uint32_t j = 0; j < b->use_count; j++) {
            const mdnn_use_t *const x = &period->uses[a->first_use + i];
            const mdnn_use_t *const y = &period->uses[b->first_use + j];
            if (x->range == y->range && x->role == MDNN_USE_READ && y->role == MDNN_USE_READ)
                return true;
        }
    return false;
}

/* The second call of the layer whose first call of backward is at `call`, or `call`. */
static uint32_t last_call(const mdnn_period_t *period, uint32_t call)
{
    const uint32_t next = next_call(period, call);
    if (next == period->operation_count)
        return call;
    const mdnn_operation_t *const a = &period->operations[call], *const b =
                                                                     &period->operations[next];
    return is_backward(b->kind) && a->kind != b->kind && read_in_common(period, a, b) ? next : call;
}

/* First operation of backward, given the last call of forward and the first of backward. */
static uint32_t turn(const uint64_t *live, uint32_t forward, uint32_t backward)
{
    uint32_t most = forward;
    for (uint32_t i = forward; i < backward; i++)
        if (live[i] >= live[most])
            most = i;
    return most + 1;
}

static void begin_layer(layers_t *layers, uint32_t position, bool forward)
{
    if (layers->begin[layers->count] == position)
        layers->forward[layers->count] |= forward;
    else
        layers->begin[++layers->count] = position;
    layers->forward[layers->count] |= forward;
}

static void cut(const mdnn_period_t *period, const uint64_t *live, layers_t *layers)
{
    const uint32_t end = period->operation_count;
    uint32_t last_forward = MDNN_NO_POSITION;
    for (uint32_t call = period->operations[0].kind == MDNN_OPERATION_OTHER ? next_call(period, 0)
                                                                            : 0;
         call < end; call = next_call(period, call)) {
        if (!is_backward(period->operations[call].kind)) {
            begin_layer(layers, call, true);
            last_forward = call;
            continue;
        }
        if (last_forward != MDNN_NO_POSITION)
            begin_layer(layers, turn(live, last_forward, call), false);
        last_forward = MDNN_NO_POSITION;
        call = last_call(period, call);
        layers->backward[layers->count] = true;
        begin_layer(layers, call + 1, false);
    }
    /* A layer may have begun at the end. */
    if (layers->begin[layers->count] < end)
        layers->begin[++layers->count] = end;
    for (uint32_t layer = 0; layer < layers->count; layer++)
        for (uint32_t i = layers->begin[layer]; i < layers->begin[layer + 1]; i++)
            layers->of[i] = layer;
}

static mdnn_status_t cut_layers(const mdnn_period_t *period, layers_t *layers)
{
    const size_t count = (size_t)period->operation_count + 4;
    uint64_t *const live = calloc(count, sizeof *live);
    layers->of = calloc(count, sizeof *layers->of);
    layers->begin = calloc(2 * count, sizeof *layers->begin);
    layers->forward = calloc(2 * count, sizeof *layers->forward);
    layers->backward = calloc(2 * count, sizeof *layers->backward);
    const bool ok = live && layers->of && layers->begin && layers->forward && layers->backward;
    if (ok) {
        mdnn_period_live_bytes(period, live);
        cut(period, live, layers);
    } else {
        layers_fini(layers);
    }
    free(live);
    return ok ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

/* candidates[r]: whether range r is an X: of a convolution, or (all) of any operation of a layer of
 * forward. Weights, which live always, are not. */
static void find_inputs(const mdnn_period_t *period, const layers_t *layers, bool all,
                        bool *candidates)
{
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        if (!layers->forward[layers->of[i]])
            continue;
        if (operation->kind == MDNN_OPERATION_FORWARD && operation->use_count > 0)
            candidates[period->uses[operation->first_use].range] = true;
        for (uint32_t u = 0; all && u < operation->use_count; u++) {
            const mdnn_use_t *const use = &period->uses[operation->first_use + u];
            if (use->role == MDNN_USE_READ && !mdnn_range_is_permanent(&period->ranges[use->range]))
                candidates[use->range] = true;
        }
    }
}

/* The move of an X whose gap this is, and the joins (by position) that it asks for. */
static bool move_of(const mdnn_period_t *period, const layers_t *layers, const mdnn_gap_t *gap,
                    mdnn_move_t *move, bool *joins)
{
    const int32_t end = (int32_t)period->operation_count;
    if (gap->from == MDNN_GAP_ALWAYS || gap->one_way || gap->to >= end)
        return false;
    const uint32_t from = layers->of[gap->from], to = layers->of[gap->to];
    if (!layers->forward[from] || layers->forward[to] || to <= from)
        return false;
    const int32_t next = (int32_t)layers->begin[from + 1];
    const bool before = to > 0 && !layers->forward[to - 1] && layers->backward[to - 1];
    *move = mdnn_move_of_gap(gap);
    move->return_after = (int32_t)layers->begin[before ? to - 1 : to] - 1;
    if (move->return_after < next) /* wanted before its layer is over */
        return false;
    if (next < end)
        joins[next] = true;
    if (before)
        joins[layers->begin[to]] = true;
    return true;
}

mdnn_status_t mdnn_vdnn_moves(const mdnn_period_t *period, bool all, mdnn_schedule_t *schedule)
{
    layers_t layers = {0};
    mdnn_gap_t *gaps = NULL;
    size_t gap_count = 0;
    if (period->operation_count == 0)
        return MDNN_STATUS_OK;
    MDNN_TRY(cut_layers(period, &layers));
    mdnn_status_t status = mdnn_period_gaps(period, &gaps, &gap_count);
    bool *const candidates = calloc((size_t)period->range_count + 1, sizeof *candidates);
    bool *const joins = calloc((size_t)period->operation_count + 1, sizeof *joins);
    if (status == MDNN_STATUS_OK && (!candidates || !joins))
        status = MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK)
        find_inputs(period, &layers, all, candidates);
    for (size_t g = 0; status == MDNN_STATUS_OK && g < gap_count; g++) {
        mdnn_move_t move;
        if (candidates[gaps[g].range] && move_of(period, &layers, &gaps[g], &move, joins))
            status = mdnn_schedule_add_move(schedule, move);
    }
    for (uint32_t i = 0; status == MDNN_STATUS_OK && i < period->operation_count; i++)
        if (joins[i])
            status = mdnn_schedule_add_join(schedule, i);
    free(candidates);
    free(joins);
    free(gaps);
    layers_fini(&layers);
    return status;
}

static mdnn_status_t consider(const mdnn_move_plan_request_t *request, mdnn_policy_t policy,
                              mdnn_variants_t variants, mdnn_move_plan_t *plan)
{
    mdnn_schedule_t schedule = {0};
    mdnn_status_t status = MDNN_STATUS_OK;
    if (policy != MDNN_POLICY_NONE)
        status = mdnn_vdnn_moves(request->period, policy == MDNN_POLICY_ALL, &schedule);
    if (status == MDNN_STATUS_OK)
        status = mdnn_choose_variants(request, variants, &schedule);
    if (status == MDNN_STATUS_OK)
        return mdnn_move_plan_consider(request, policy, variants, &schedule, plan);
    mdnn_schedule_fini(&schedule);
    return status;
}

mdnn_status_t mdnn_policy_none(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    return consider(request, MDNN_POLICY_NONE, request->variants, plan);
}

mdnn_status_t mdnn_policy_conv(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    return consider(request, MDNN_POLICY_CONV, request->variants, plan);
}

mdnn_status_t mdnn_policy_all(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    return consider(request, MDNN_POLICY_ALL, request->variants, plan);
}

/* 3.3: can it be trained at all; then the fastest algorithms with more and more leaving; then
 * slower algorithms where memory is short; at last the configuration of the first pass. */
mdnn_status_t mdnn_policy_dynamic(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    static const struct {
        mdnn_policy_t policy;
        mdnn_variants_t variants;
    } passes[] = {
        {MDNN_POLICY_NONE, MDNN_VARIANTS_FASTEST}, {MDNN_POLICY_CONV, MDNN_VARIANTS_FASTEST},
        {MDNN_POLICY_ALL, MDNN_VARIANTS_FASTEST},  {MDNN_POLICY_CONV, MDNN_VARIANTS_FITTING},
        {MDNN_POLICY_ALL, MDNN_VARIANTS_FITTING},
    };
    mdnn_move_plan_t least = *plan;
    MDNN_TRY(consider(request, MDNN_POLICY_ALL, MDNN_VARIANTS_SMALLEST, &least));
    for (size_t i = 0; least.verdict == MDNN_VERDICT_FITS && i < sizeof passes / sizeof *passes;
         i++) {
        mdnn_move_plan_t pass = *plan;
        const mdnn_status_t status = consider(request, passes[i].policy, passes[i].variants, &pass);
        if (status != MDNN_STATUS_OK || pass.verdict == MDNN_VERDICT_FITS) {
            mdnn_move_plan_fini(&least);
            if (status == MDNN_STATUS_OK)
                *plan = pass;
            return status;
        }
        mdnn_move_plan_fini(&pass);
    }
    *plan = least;
    return MDNN_STATUS_OK;
}
