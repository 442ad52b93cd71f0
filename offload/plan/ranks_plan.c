/* Staggered is Kim 2018. III-A: where GPUs share a switch, each lets other layers leave, so that few of them copy at once. Of a layers
 * b must leave, every x-th, with x = a / b; GPU i takes the layers i mod x + j x. III-C: a return begins at a trigger,
 * which is as late as it can be without a delay, and not so early that memory runs out.
 *
 * Layers begin with their convolutions, and what may leave of one are the moves that vDNN all has for it. The paper is
 * told b; here it is the least with which all ranks fit. Its triggers are operations of backward, tried in iterations of
 * the training; here all operations are triggers, and iterations are replayed. */
#include "offload/plan/ranks_plan.h"

#include <stdlib.h>
#include <string.h>

#include "offload/plan/planner.h"
#include "offload/plan/policy.h"

typedef struct staggered {
    const mdnn_move_plan_request_t *request;
    mdnn_schedule_t all; /* what may leave */
    uint32_t *layers;    /* of each of its moves */
    uint32_t layer_count;
    mdnn_schedule_t schedules[MDNN_RANKS];
    uint64_t needed_bytes; /* of the rank that needs most */
} staggered_t;

/* ---- staggered: layers ---- */

/* Layers by position: how many convolutions have begun. */
static mdnn_status_t find_layers(staggered_t *staggered)
{
    const mdnn_period_t *const period = staggered->request->period;
    uint32_t *const of = calloc((size_t)period->operation_count + 1, sizeof *of);
    staggered->layers = calloc(staggered->all.move_count + 1, sizeof *staggered->layers);
    if (!of || !staggered->layers) {
        free(of);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < period->operation_count; i++) {
        staggered->layer_count += period->operations[i].kind == MDNN_OPERATION_FORWARD;
        of[i] = staggered->layer_count > 0 ? staggered->layer_count - 1 : 0;
    }
    for (size_t m = 0; m < staggered->all.move_count; m++)
        staggered->layers[m] = of[staggered->all.moves[m].leave_after];
    free(of);
    return MDNN_STATUS_OK;
}

/* The moves of every step-th layer from the rank's on, back as late as can be. */
static mdnn_status_t choose_moves(staggered_t *staggered, uint32_t rank, uint32_t step)
{
    mdnn_schedule_t *const schedule = &staggered->schedules[rank];
    mdnn_schedule_fini(schedule);
    for (size_t m = 0; m < staggered->all.move_count; m++) {
        mdnn_move_t move = staggered->all.moves[m];
        move.return_after = move.return_before - 1;
        if (staggered->layers[m] % step == rank % step)
            MDNN_TRY(mdnn_schedule_add_move(schedule, move));
    }
    return mdnn_choose_variants(staggered->request, staggered->request->variants, schedule);
}

static mdnn_status_t needs(staggered_t *staggered, uint64_t *resident, uint64_t *most)
{
    const mdnn_move_plan_request_t *const request = staggered->request;
    *most = 0;
    for (uint32_t rank = 0; rank < request->ranks.count; rank++) {
        mdnn_schedule_resident_bytes(request->period, &staggered->schedules[rank], resident);
        for (uint32_t i = 0; i < request->period->operation_count; i++)
            *most = resident[i] > *most ? resident[i] : *most;
    }
    return mdnn_move_plan_goes_on(request);
}

/* The largest step with which every rank fits. */
static mdnn_status_t choose_step(staggered_t *staggered, uint64_t *resident)
{
    mdnn_status_t status = MDNN_STATUS_OK;
    staggered->needed_bytes = UINT64_MAX;
    for (uint32_t step = staggered->layer_count;
         step > 0 && status == MDNN_STATUS_OK &&
         staggered->needed_bytes > staggered->request->budget_bytes;
         step--) {
        for (uint32_t rank = 0; status == MDNN_STATUS_OK && rank < staggered->request->ranks.count;
             rank++)
            status = choose_moves(staggered, rank, step);
        if (status == MDNN_STATUS_OK)
            status = needs(staggered, resident, &staggered->needed_bytes);
    }
    return status;
}

/* ---- staggered: triggers ---- */

static int compare_deadlines(const void *left, const void *right)
{
    const mdnn_move_t *const a = left, *const b = right;
    if (a->return_before != b->return_before)
        return a->return_before < b->return_before ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

/* As early as memory allows, those that are needed first at first. */
static void return_early(const staggered_t *staggered, mdnn_schedule_t *schedule,
                         uint64_t *resident)
{
    const mdnn_period_t *const period = staggered->request->period;
    if (schedule->move_count > 0)
        qsort(schedule->moves, schedule->move_count, sizeof *schedule->moves, compare_deadlines);
    mdnn_schedule_resident_bytes(period, schedule, resident);
    for (size_t m = 0; m < schedule->move_count; m++) {
        mdnn_move_t *const move = &schedule->moves[m];
        const uint64_t bytes = period->ranges[move->range].bytes;
        while (move->return_after > move->leave_after + 1 &&
               resident[move->return_after] + bytes <= staggered->request->budget_bytes)
            resident[move->return_after--] += bytes;
    }
}

/* NOT_FOUND: copies would wait for each other without end. */
static mdnn_status_t replay(const staggered_t *staggered, mdnn_replay_result_t *results)
{
    const mdnn_move_plan_request_t *const request = staggered->request;
    mdnn_replay_request_t replays[MDNN_RANKS];
    MDNN_TRY(mdnn_move_plan_goes_on(request));
    for (uint32_t i = 0; i < request->ranks.count; i++)
        replays[i] = (mdnn_replay_request_t){.period = request->period,
                                             .schedule = &staggered->schedules[i],
                                             .link = request->link,
                                             .budget_bytes = request->budget_bytes};
    return mdnn_ranks_replay(replays, request->ranks.count, results);
}

/* The latest trigger with which no iteration takes longer than `time_us`, found by halving. */
static mdnn_status_t return_late(staggered_t *staggered, mdnn_move_t *move, double time_us)
{
    mdnn_replay_result_t results[MDNN_RANKS];
    int32_t early = move->return_after, late = move->return_before - 1;
    while (early < late) {
        move->return_after = early + (late - early + 1) / 2;
        const mdnn_status_t status = replay(staggered, results);
        if (status == MDNN_STATUS_OK && results[0].time_us <= time_us * (1 + 1e-9))
            early = move->return_after;
        else if (status == MDNN_STATUS_OK || status == MDNN_STATUS_NOT_FOUND)
            late = move->return_after - 1;
        else
            return status;
    }
    move->return_after = early;
    return MDNN_STATUS_OK;
}

static mdnn_status_t set_triggers(staggered_t *staggered, uint64_t *resident,
                                  mdnn_replay_result_t *results)
{
    const uint32_t count = staggered->request->ranks.count;
    for (uint32_t rank = 0; rank < count; rank++)
        return_early(staggered, &staggered->schedules[rank], resident);
    MDNN_TRY(replay(staggered, results));
    const double time_us = results[0].time_us;
    for (uint32_t rank = 0; rank < count; rank++)
        for (size_t m = 0; m < staggered->schedules[rank].move_count; m++)
            MDNN_TRY(return_late(staggered, &staggered->schedules[rank].moves[m], time_us));
    return replay(staggered, results);
}

/* ---- staggered: the plans ---- */

static mdnn_status_t stagger(staggered_t *staggered, uint64_t *resident,
                             mdnn_replay_result_t *results, mdnn_verdict_t *verdict)
{
    const mdnn_move_plan_request_t *const request = staggered->request;
    MDNN_TRY(mdnn_vdnn_moves(request->period, true, &staggered->all));
    MDNN_TRY(find_layers(staggered));
    MDNN_TRY(choose_step(staggered, resident));
    *verdict = MDNN_VERDICT_NEEDS_MORE;
    if (staggered->needed_bytes > request->budget_bytes)
        return MDNN_STATUS_OK;
    const mdnn_status_t status = set_triggers(staggered, resident, results);
    if (status == MDNN_STATUS_NOT_FOUND)
        return MDNN_STATUS_OK;
    *verdict = MDNN_VERDICT_FITS;
    for (uint32_t i = 0; status == MDNN_STATUS_OK && i < request->ranks.count; i++)
        if (results[i].host_peak_bytes > request->host_limit_bytes)
            *verdict = MDNN_VERDICT_HOST_LIMIT;
    return status;
}

/* The schedules become the plans'. */
static void hand_over(staggered_t *staggered, mdnn_verdict_t verdict,
                      const mdnn_replay_result_t *results, uint64_t floor_bytes,
                      mdnn_move_plan_t *plans)
{
    for (uint32_t i = 0; i < staggered->request->ranks.count; i++) {
        plans[i] = (mdnn_move_plan_t){.verdict = verdict,
                                      .needed_bytes = staggered->needed_bytes,
                                      .floor_bytes = floor_bytes,
                                      .policy = MDNN_POLICY_ALL,
                                      .variants = staggered->request->variants};
        if (verdict != MDNN_VERDICT_FITS)
            continue;
        plans[i].schedule = staggered->schedules[i];
        plans[i].predicted = results[i];
        staggered->schedules[i] = (mdnn_schedule_t){0};
    }
}

static mdnn_status_t policy_staggered(const mdnn_move_plan_request_t *request,
                                      mdnn_move_plan_t *plans)
{
    staggered_t staggered = {.request = request};
    mdnn_replay_result_t results[MDNN_RANKS] = {0};
    mdnn_verdict_t verdict = MDNN_VERDICT_NEEDS_MORE;
    uint64_t floor_bytes = 0;
    uint64_t *const resident =
        calloc((size_t)request->period->operation_count + 1, sizeof *resident);
    mdnn_status_t status =
        resident ? mdnn_period_floor(request->period, &floor_bytes) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK)
        status = stagger(&staggered, resident, results, &verdict);
    if (status == MDNN_STATUS_OK)
        hand_over(&staggered, verdict, results, floor_bytes, plans);
    for (uint32_t i = 0; i < MDNN_RANKS; i++)
        mdnn_schedule_fini(&staggered.schedules[i]);
    mdnn_schedule_fini(&staggered.all);
    free(staggered.layers);
    free(resident);
    return status;
}

/* ---- all ranks ---- */

/* How often each rank is planned anew beside the others. */
enum { TURNS = 2 };
/* A replay of all ranks takes as many times as long as one of a single rank, and there are as many turns. */
enum { DEFAULT_EFFORT = 200, LEAST_EFFORT = 12 };

typedef struct mdnn_plans {
    uint32_t count;
    mdnn_move_plan_t plans[MDNN_RANKS];
} mdnn_plans_t;

static void plans_fini(mdnn_plans_t *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        mdnn_move_plan_fini(&all->plans[i]);
}

static bool all_fit(const mdnn_plans_t *all)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (all->plans[i].verdict != MDNN_VERDICT_FITS)
            return false;
    return true;
}

static double time_of(const mdnn_plans_t *all)
{
    return all->plans[0].predicted.time_us;
}

/* Replays all beside each other, which sets what is predicted. */
static mdnn_status_t predict(const mdnn_move_plan_request_t *request, mdnn_plans_t *all)
{
    mdnn_replay_request_t replays[MDNN_RANKS];
    mdnn_replay_result_t results[MDNN_RANKS];
    if (!all_fit(all))
        return MDNN_STATUS_OK;
    for (uint32_t i = 0; i < all->count; i++)
        replays[i] = (mdnn_replay_request_t){.period = request->period,
                                             .schedule = &all->plans[i].schedule,
                                             .link = request->link,
                                             .budget_bytes = request->budget_bytes};
    MDNN_TRY(mdnn_ranks_replay(replays, all->count, results));
    for (uint32_t i = 0; i < all->count; i++)
        all->plans[i].predicted = results[i];
    return MDNN_STATUS_OK;
}

static mdnn_status_t copy_plan(const mdnn_move_plan_request_t *request,
                               const mdnn_move_plan_t *plan, mdnn_move_plan_t *copy)
{
    mdnn_move_plan_t made = *plan;
    MDNN_TRY(mdnn_schedule_copy(&plan->schedule, request->period->operation_count, &made.schedule));
    *copy = made;
    return MDNN_STATUS_OK;
}

/* The same plan for all, which the policy finds with `planned`. */
static mdnn_status_t plan_alike(const mdnn_move_plan_request_t *request,
                                const mdnn_move_plan_request_t *planned, mdnn_plans_t *all)
{
    mdnn_move_plan_t plan;
    all->count = 0;
    MDNN_TRY(mdnn_move_plan(planned, &plan));
    all->plans[all->count++] = plan;
    mdnn_status_t status = MDNN_STATUS_OK;
    while (status == MDNN_STATUS_OK && all->count < request->ranks.count) {
        status = copy_plan(request, &plan, &all->plans[all->count]);
        all->count += status == MDNN_STATUS_OK;
    }
    if (status == MDNN_STATUS_OK)
        status = predict(request, all);
    if (status != MDNN_STATUS_OK) {
        plans_fini(all);
        all->count = 0;
    }
    return status;
}

/* What a rank by itself would plan. */
static mdnn_move_plan_request_t by_itself(const mdnn_move_plan_request_t *request)
{
    mdnn_move_plan_request_t alone = *request;
    alone.ranks = (mdnn_plan_ranks_t){0};
    return alone;
}

static mdnn_link_t share_of(const mdnn_link_t *link, uint32_t count)
{
    mdnn_link_t share = *link;
    share.out_bytes_per_us /= count;
    share.in_bytes_per_us /= count;
    share.out_duplex_bytes_per_us /= count;
    share.in_duplex_bytes_per_us /= count;
    return share;
}

mdnn_link_t mdnn_rank_link(const mdnn_move_plan_request_t *request)
{
    const mdnn_plan_ranks_t *const ranks = &request->ranks;
    return share_of(&request->link, ranks->count > 1 ? ranks->count : ranks->others + 1);
}

/* ---- auto ---- */

/* The faster of the two; the other one is dropped. */
static void keep_faster(mdnn_plans_t *best, mdnn_plans_t *other)
{
    const bool better = other->count > 0 && all_fit(other) &&
                        (best->count == 0 || !all_fit(best) || time_of(other) < time_of(best));
    if (better || best->count == 0) {
        plans_fini(best);
        *best = *other;
    } else {
        plans_fini(other);
    }
    other->count = 0;
}

static uint32_t part_of_effort(const mdnn_move_plan_request_t *request, uint32_t parts)
{
    const uint32_t effort =
        (request->effort ? request->effort : DEFAULT_EFFORT) / parts / request->ranks.count;
    return effort < LEAST_EFFORT ? LEAST_EFFORT : effort;
}

/* One plan for all that is judged beside copies of itself. */
static mdnn_status_t plan_beside_itself(const mdnn_move_plan_request_t *request, mdnn_link_t link,
                                        mdnn_plans_t *best)
{
    const mdnn_schedule_t *const same[MDNN_RANKS] = {0};
    const mdnn_plan_beside_t beside = {
        .schedules = same, .count = request->ranks.count, .link = request->link};
    mdnn_move_plan_request_t planned = by_itself(request);
    mdnn_plans_t all;
    planned.link = link;
    planned.beside = &beside;
    planned.effort = part_of_effort(request, 2);
    MDNN_TRY(plan_alike(request, &planned, &all));
    keep_faster(best, &all);
    return MDNN_STATUS_OK;
}

/* The rank's plan beside the present ones of the others, if that is faster. */
static mdnn_status_t take_turn(const mdnn_move_plan_request_t *request, uint32_t rank,
                               mdnn_plans_t *all, bool *better)
{
    const mdnn_schedule_t *schedules[MDNN_RANKS];
    const double before_us = time_of(all);
    for (uint32_t i = 0; i < all->count; i++)
        schedules[i] = &all->plans[i].schedule;
    const mdnn_plan_beside_t beside = {
        .schedules = schedules, .count = all->count, .own = rank, .link = request->link};
    mdnn_move_plan_request_t planned = by_itself(request);
    mdnn_move_plan_t plan;
    planned.beside = &beside;
    planned.effort = part_of_effort(request, 2 * TURNS);
    *better = false;
    MDNN_TRY(mdnn_move_plan(&planned, &plan));
    if (plan.verdict != MDNN_VERDICT_FITS || plan.predicted.time_us >= before_us) {
        mdnn_move_plan_fini(&plan);
        return MDNN_STATUS_OK;
    }
    *better = true;
    mdnn_move_plan_fini(&all->plans[rank]);
    all->plans[rank] = plan;
    return predict(request, all);
}

static mdnn_status_t take_turns(const mdnn_move_plan_request_t *request, mdnn_plans_t *all)
{
    bool any = true;
    for (int turn = 0; any && turn < TURNS; turn++) {
        any = false;
        for (uint32_t rank = 0; rank < all->count; rank++) {
            bool better;
            MDNN_TRY(take_turn(request, rank, all, &better));
            any |= better;
        }
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t plan_staggered(const mdnn_move_plan_request_t *request, mdnn_plans_t *all)
{
    MDNN_TRY(policy_staggered(request, all->plans));
    all->count = request->ranks.count;
    return MDNN_STATUS_OK;
}

static mdnn_status_t plan_together(const mdnn_move_plan_request_t *request, mdnn_plans_t *best)
{
    mdnn_plans_t staggered = {0};
    mdnn_status_t status = plan_beside_itself(request, request->link, best);
    if (status == MDNN_STATUS_OK)
        status = plan_beside_itself(request, share_of(&request->link, request->ranks.count), best);
    if (status == MDNN_STATUS_OK)
        status = plan_staggered(request, &staggered);
    if (status == MDNN_STATUS_OK)
        keep_faster(best, &staggered);
    if (status == MDNN_STATUS_OK && all_fit(best))
        status = take_turns(request, best);
    return status;
}

mdnn_status_t mdnn_ranks_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plans)
{
    const mdnn_move_plan_request_t alone = by_itself(request);
    mdnn_plans_t all = {0};
    mdnn_status_t status = MDNN_STATUS_OK;
    if (request->ranks.count == 0 || request->ranks.count > MDNN_RANKS)
        return MDNN_STATUS_INVALID_ARGUMENT;
    if (request->ranks.sharing == MDNN_SHARING_STAGGERED)
        status = plan_staggered(request, &all);
    else if (request->ranks.sharing == MDNN_SHARING_AUTO && request->ranks.count > 1)
        status = plan_together(request, &all);
    else
        status = plan_alike(request, &alone, &all);
    if (status == MDNN_STATUS_OK)
        memcpy(plans, all.plans, all.count * sizeof *plans);
    else
        plans_fini(&all);
    return status;
}

mdnn_status_t mdnn_rank_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan)
{
    mdnn_move_plan_t plans[MDNN_RANKS];
    if (request->ranks.count < 2) {
        mdnn_move_plan_request_t alone = by_itself(request);
        alone.link = mdnn_rank_link(request);
        return mdnn_move_plan(&alone, plan);
    }
    MDNN_TRY(mdnn_ranks_plan(request, plans));
    for (uint32_t i = 0; i < request->ranks.count; i++)
        if (i != request->ranks.own)
            mdnn_move_plan_fini(&plans[i]);
    *plan = plans[request->ranks.own];
    return MDNN_STATUS_OK;
}
