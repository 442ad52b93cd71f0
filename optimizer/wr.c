/* Dynamic program of Oyama 2018, III-B, with three additions: the first part has a cost
 * of its own, parts before the last are multiples of the granularity, and the program is repeated
 * under falling workspace thresholds to give the whole Pareto set.
 *
 * Suffixes of the batch are covered by parts in the role REST. Every suffix that can be left over
 * has remainder + j * granularity images, so states are numbered by j below `state_count`. */
#include "optimizer/wr.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "config/extremes.h"
#include "optimizer/costs.h"
#include "optimizer/front.h"

/* The best cover of one suffix: least time, then fewest parts, then least workspace. */
typedef struct wr_cover {
    double time_ms; /* INFINITY: none */
    uint64_t workspace_bytes;
    uint32_t parts;
    uint32_t size; /* index of the leading part's size in the table */
} wr_cover_t;

/* A size that may lead a suffix without being its last part, with its cost at the threshold. */
typedef struct wr_step {
    double time_ms; /* with the overhead of one part */
    uint64_t workspace_bytes;
    uint32_t states; /* images / granularity */
    uint32_t size;
} wr_step_t;

typedef struct wr_program {
    const mdnn_wr_request_t *request;
    mdnn_costs_by_size_t table;
    int64_t remainder;  /* of the batch by the granularity */
    size_t state_count; /* proper suffixes: those that leave room for a first part */
    uint64_t threshold_bytes;
    wr_cover_t *covers; /* of each state; the inner loop reads time_ms through `times` */
    double *times;      /* covers[j].time_ms, dense */
    wr_step_t *steps;   /* states ascending */
    size_t step_count;
    mdnn_front_t *front;
} wr_program_t;

static const wr_cover_t NO_COVER = {INFINITY, UINT64_MAX, UINT32_MAX, UINT32_MAX};

static bool is_better(const wr_cover_t *a, const wr_cover_t *b)
{
    if (a->time_ms != b->time_ms)
        return a->time_ms < b->time_ms;
    if (a->parts != b->parts)
        return a->parts < b->parts;
    return a->workspace_bytes < b->workspace_bytes;
}

static const mdnn_cost_t *cost_at(const wr_program_t *program, size_t size, mdnn_part_role_t role)
{
    return mdnn_cost_list_best(&program->table.sizes[size].role[role], program->threshold_bytes);
}

static size_t state_of(const wr_program_t *program, int64_t suffix_images)
{
    return (size_t)((suffix_images - program->remainder) / program->request->granularity);
}

/* Puts the costs at the threshold where the recurrence wants them: a size that can stand last
 * covers its own suffix alone, a multiple of the granularity can lead a longer one. The table is in
 * descending order, so the steps come out ascending when it is read backwards. */
static void load_costs(wr_program_t *program)
{
    const mdnn_wr_request_t *const request = program->request;

    for (size_t j = 0; j < program->state_count; j++)
        program->covers[j] = NO_COVER;
    program->step_count = 0;
    for (size_t i = program->table.count; i-- > 0;) {
        const int64_t images = program->table.sizes[i].images;
        const mdnn_cost_t *const cost = cost_at(program, i, MDNN_PART_REST);
        if (!cost)
            continue;
        const double time_ms = cost->time_ms + request->part_overhead_ms;
        if (images % request->granularity == program->remainder)
            program->covers[state_of(program, images)] =
                (wr_cover_t){time_ms, cost->workspace_bytes, 1, (uint32_t)i};
        if (images % request->granularity == 0)
            program->steps[program->step_count++] =
                (wr_step_t){time_ms, cost->workspace_bytes,
                            (uint32_t)(images / request->granularity), (uint32_t)i};
    }
}

static wr_cover_t lead_with(const wr_step_t *step, const wr_cover_t *rest)
{
    return (wr_cover_t){step->time_ms + rest->time_ms,
                        mdnn_max(step->workspace_bytes, rest->workspace_bytes), rest->parts + 1,
                        step->size};
}

static void cover_state(wr_program_t *program, size_t j)
{
    const double *const times = program->times;
    wr_cover_t best = program->covers[j];

    for (size_t i = 0; i < program->step_count; i++) {
        const wr_step_t *const step = &program->steps[i];
        if (step->states > j)
            break;
        const double time_ms = step->time_ms + times[j - step->states];
        if (time_ms > best.time_ms || isinf(time_ms))
            continue;
        const wr_cover_t cover = lead_with(step, &program->covers[j - step->states]);
        if (is_better(&cover, &best))
            best = cover;
    }
    program->covers[j] = best;
    program->times[j] = best.time_ms;
}

/* The best configuration of the whole batch at the threshold; its `size` is that of the part which
 * runs first. The whole batch, one part, is among the candidates. */
static wr_cover_t cover_batch(const wr_program_t *program)
{
    wr_cover_t best = NO_COVER;

    for (size_t i = 0; i < program->table.count; i++) {
        const mdnn_cost_t *const cost = cost_at(program, i, MDNN_PART_FIRST);
        if (!cost)
            continue;
        wr_cover_t cover = {cost->time_ms, cost->workspace_bytes, 1, (uint32_t)i};
        const int64_t left = program->request->batch - program->table.sizes[i].images;
        if (left > 0) {
            const wr_cover_t *const rest = &program->covers[state_of(program, left)];
            if (isinf(rest->time_ms))
                continue;
            cover.time_ms += rest->time_ms;
            cover.workspace_bytes = mdnn_max(cover.workspace_bytes, rest->workspace_bytes);
            cover.parts += rest->parts;
        }
        if (is_better(&cover, &best))
            best = cover;
    }
    return best;
}

static int compare_parts_descending(const void *left, const void *right)
{
    const mdnn_micro_config_t *const a = left;
    const mdnn_micro_config_t *const b = right;
    return (a->images < b->images) - (a->images > b->images);
}

/* Larger parts first. What must stay in place does: the part with the costs of the role FIRST, and
 * the part at the end that is no multiple of the granularity. */
static void order_parts(const wr_program_t *program, mdnn_micro_config_t *parts, size_t count)
{
    const size_t begin = program->request->roles_differ ? 1 : 0;
    const size_t end = program->remainder ? count - 1 : count;
    if (end > begin)
        qsort(parts + begin, end - begin, sizeof *parts, compare_parts_descending);
}

static mdnn_status_t add_split(wr_program_t *program, const wr_cover_t *cover)
{
    mdnn_micro_config_t *const parts = calloc(cover->parts, sizeof *parts);
    if (!parts)
        return MDNN_STATUS_OUT_OF_MEMORY;

    int64_t left = program->request->batch;
    size_t size = cover->size;
    for (size_t i = 0; i < cover->parts; i++) {
        const int64_t images = program->table.sizes[size].images;
        parts[i].images = images;
        parts[i].cost = *cost_at(program, size, i ? MDNN_PART_REST : MDNN_PART_FIRST);
        left -= images;
        if (left > 0)
            size = program->covers[state_of(program, left)].size;
    }
    order_parts(program, parts, cover->parts);

    const mdnn_configuration_t split = {cover->time_ms, cover->workspace_bytes, cover->parts,
                                        parts};
    const mdnn_status_t status = mdnn_front_add_split(program->front, &split);
    if (status != MDNN_STATUS_OK)
        free(parts);
    return status;
}

/* Each round finds the fastest configuration below the workspace of the one before, so together
 * they are the Pareto set of all configurations (and, at equal times, some that it dominates). */
static mdnn_status_t descend(wr_program_t *program)
{
    program->threshold_bytes = program->request->workspace_limit_bytes;
    for (;;) {
        load_costs(program);
        for (size_t j = 0; j < program->state_count; j++)
            cover_state(program, j);
        const wr_cover_t best = cover_batch(program);
        if (isinf(best.time_ms))
            return MDNN_STATUS_OK;
        if (best.parts > 1 && mdnn_front_admits(program->front, best.time_ms, best.workspace_bytes))
            MDNN_TRY(add_split(program, &best));
        if (best.workspace_bytes == 0)
            return MDNN_STATUS_OK;
        program->threshold_bytes = best.workspace_bytes - 1;
    }
}

static mdnn_status_t optimize(wr_program_t *program)
{
    const mdnn_wr_request_t *const request = program->request;

    program->remainder = request->batch % request->granularity;
    program->state_count = (size_t)(request->batch / request->granularity);
    program->covers = calloc(program->state_count + 1, sizeof *program->covers);
    program->times = calloc(program->state_count + 1, sizeof *program->times);
    program->steps = calloc(program->table.count, sizeof *program->steps);
    if (!program->covers || !program->times || !program->steps)
        return MDNN_STATUS_OUT_OF_MEMORY;

    MDNN_TRY(mdnn_front_create(request->batch, &program->table.sizes[0].role[MDNN_PART_FIRST],
                               request->adoption_margin, &program->front));
    MDNN_TRY(descend(program));
    MDNN_TRY(mdnn_front_finish(program->front));
    return mdnn_front_count(program->front) ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

/* cuDNN's dimensions are ints; within that no sum or index below overflows. */
static bool is_valid(const mdnn_wr_request_t *request)
{
    return request->batch >= 1 && request->batch <= INT_MAX && request->granularity >= 1 &&
           isfinite(request->part_overhead_ms) && request->part_overhead_ms >= 0 &&
           request->adoption_margin >= 0 && (unsigned)request->sizes <= MDNN_SIZES_ALL;
}

mdnn_status_t mdnn_wr_optimize(const mdnn_wr_request_t *request, const mdnn_cost_source_t *source,
                               mdnn_front_t **front)
{
    if (!is_valid(request))
        return MDNN_STATUS_INVALID_ARGUMENT;

    wr_program_t program = {.request = request};
    MDNN_TRY(mdnn_costs_by_size_init(&program.table, request, source));
    const mdnn_status_t status = optimize(&program);
    if (status == MDNN_STATUS_OK)
        *front = program.front;
    else
        mdnn_front_destroy(program.front);
    free(program.covers);
    free(program.times);
    free(program.steps);
    mdnn_costs_by_size_fini(&program.table);
    return status;
}
