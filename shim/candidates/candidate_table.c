#include "shim/candidates/candidate_table.h"

#include <stdlib.h>
#include <string.h>

#include <cudnn.h>

#include "shim/candidates/candidate_foresight.h"
#include "shim/candidates/candidate_table_check.h"
#include "shim/candidates/candidate_table_internal.h"

/* A run that a program waits for may seem longer than it is by the gaps between its kernels. */
static const double launch_ms = 0.05;

/* Best time where nothing ran. */
static const double nothing_ms = 1e300;

mdnn_status_t mdnn_candidate_table_create(mdnn_candidate_table_t **table)
{
    mdnn_candidate_table_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    *table = made;
    return MDNN_STATUS_OK;
}

void mdnn_candidate_table_destroy(mdnn_candidate_table_t *table)
{
    if (!table)
        return;
    while (table->rows) {
        mdnn_cost_row_t *const next = table->rows->next;
        free(table->rows->candidates);
        free(table->rows);
        table->rows = next;
    }
    free(table);
}

uint64_t mdnn_candidate_table_next_limit(const mdnn_candidate_table_t *table, uint64_t limit_bytes)
{
    uint64_t smallest = UINT64_MAX;
    for (const mdnn_cost_row_t *row = table->rows; row; row = row->next)
        for (int i = 0; i < row->capacity; i++) {
            const uint64_t bytes = row->candidates[i].cost.workspace_bytes;
            if (row->candidates[i].state == MDNN_CANDIDATE_EXCLUDED && bytes > limit_bytes &&
                bytes < smallest)
                smallest = bytes;
        }
    return smallest;
}

const mdnn_cost_row_t *mdnn_candidate_table_find(const mdnn_candidate_table_t *table,
                                                 int64_t images, mdnn_part_role_t role)
{
    const mdnn_cost_row_t *row = table->rows;
    while (row && (row->images != images || row->role != role))
        row = row->next;
    return row;
}

mdnn_cost_row_t *mdnn_candidate_table_row(mdnn_candidate_table_t *table, int64_t images,
                                          mdnn_part_role_t role)
{
    mdnn_cost_row_t *row = table->rows;
    while (row && (row->images != images || row->role != role))
        row = row->next;
    if (row || !(row = calloc(1, sizeof *row)))
        return row;
    row->images = images;
    row->role = role;
    row->changed = true;
    row->next = table->rows;
    table->rows = row;
    mdnn_candidate_table_check(table);
    return row;
}

mdnn_candidate_t *mdnn_cost_row_candidate(mdnn_cost_row_t *row, int index)
{
    if (index >= row->capacity) {
        const int capacity = (index / MDNN_CANDIDATE_LEGACY + 1) * MDNN_CANDIDATE_LEGACY;
        mdnn_candidate_t *const grown =
            realloc(row->candidates, (size_t)capacity * sizeof *row->candidates);
        if (!grown)
            return NULL;
        memset(grown + row->capacity, 0, (size_t)(capacity - row->capacity) * sizeof *grown);
        row->candidates = grown;
        row->capacity = capacity;
    }
    return &row->candidates[index];
}

const mdnn_candidate_t *mdnn_cost_row_look(const mdnn_cost_row_t *row, int index)
{
    static const mdnn_candidate_t unknown = {.state = MDNN_CANDIDATE_UNKNOWN};
    return index < row->capacity ? &row->candidates[index] : &unknown;
}

const mdnn_engine_offer_t *mdnn_candidate_engine(const mdnn_candidate_table_t *table, int index)
{
    const int engine = index - MDNN_CANDIDATE_LEGACY;
    return engine >= 0 && engine < table->engine_count ? &table->engines[engine] : NULL;
}

int mdnn_candidate_table_candidates(const mdnn_candidate_table_t *table)
{
    return MDNN_CANDIDATE_LEGACY + table->engine_count;
}

int mdnn_candidate_table_engine(mdnn_candidate_table_t *table, const mdnn_engine_offer_t *offer)
{
    for (int i = 0; i < table->engine_count; i++)
        if (memcmp(&table->engines[i].engine, &offer->engine, sizeof offer->engine) == 0) {
            table->engines[i].fallback |= offer->fallback;
            return MDNN_CANDIDATE_LEGACY + i;
        }
    if (table->engine_count == MDNN_CANDIDATE_ENGINES)
        return -1;
    table->engines[table->engine_count++] = *offer;
    mdnn_candidate_table_check(table);
    return MDNN_CANDIDATE_LEGACY + table->engine_count - 1;
}

/* FMA never rounds inputs, so it is admissible wherever the caller allows more; it is no new
 * candidate where the caller asked for it, or where there are no tensor cores to avoid. */
int mdnn_candidate_math_type(const mdnn_problem_t *problem, int index)
{
    if (index < MDNN_CANDIDATE_ALGOS)
        return problem->math_type;
    return problem->math_type != CUDNN_FMA_MATH && problem->x.type == CUDNN_DATA_FLOAT
               ? CUDNN_FMA_MATH
               : -1;
}

bool mdnn_candidate_is_strict(const mdnn_problem_t *problem, int index)
{
    return problem->x.type != CUDNN_DATA_FLOAT ||
           mdnn_candidate_math_type(problem, index) == CUDNN_FMA_MATH;
}

/* Where a remembered cost belongs; -1 for an algorithm or math type that is no candidate here. */
static int index_of(mdnn_candidate_table_t *table, const mdnn_problem_t *problem,
                    const mdnn_cost_t *cost)
{
    if (cost->algo >= MDNN_ALGO_ENGINE) {
        const mdnn_engine_offer_t offer = {.engine = cost->engine,
                                           .deterministic = cost->deterministic,
                                           .direct = cost->direct,
                                           .strict = cost->strict};
        return mdnn_candidate_table_engine(table, &offer);
    }
    for (int index = 0; index < MDNN_CANDIDATE_LEGACY; index++)
        if (index % MDNN_CANDIDATE_ALGOS == cost->algo &&
            mdnn_candidate_math_type(problem, index) == cost->math_type)
            return index;
    return -1;
}

/* What was left out for its workspace needs some; what was not tried is remembered with none. The
 * whole batch postpones nothing, so there an untried engine was deferred to a search, also where an older
 * version of ours did not say so. */
static mdnn_candidate_state_t recalled_state(const mdnn_cost_t *cost, bool is_whole)
{
    if (!cost->untimed)
        return MDNN_CANDIDATE_TIMED;
    if (cost->workspace_bytes > 0)
        return MDNN_CANDIDATE_EXCLUDED;
    return cost->deferred || is_whole ? MDNN_CANDIDATE_DEFERRED : MDNN_CANDIDATE_POSTPONED;
}

/* One remembered size: what it does not name cannot run there. */
static mdnn_status_t recall_row(mdnn_candidate_table_t *table, const mdnn_problem_t *problem,
                                const mdnn_cost_entry_t *entry, mdnn_cost_row_t *row)
{
    for (int index = 0; index < MDNN_CANDIDATE_LEGACY; index++) {
        mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
        if (!candidate)
            return MDNN_STATUS_OUT_OF_MEMORY;
        candidate->state = MDNN_CANDIDATE_UNSUPPORTED;
    }
    for (size_t j = 0; j < entry->count; j++) {
        const int index = index_of(table, problem, &entry->costs[j]);
        if (index < 0)
            continue;
        mdnn_candidate_t *const candidate = mdnn_cost_row_candidate(row, index);
        if (!candidate)
            return MDNN_STATUS_OUT_OF_MEMORY;
        candidate->cost = entry->costs[j];
        candidate->cost.deferred = false; /* the state says it */
        candidate->state = recalled_state(&entry->costs[j], entry->images == problem->x.dims[0]);
        if (index >= MDNN_CANDIDATE_LEGACY)
            row->offered[index - MDNN_CANDIDATE_LEGACY] = true;
    }
    row->changed = false;
    row->listed = mdnn_cost_row_has_engines(row);
    row->partly = mdnn_cost_row_has_deferred(row);
    for (size_t j = 0; j < entry->count; j++)
        row->partly = row->partly || entry->costs[j].deferred;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_candidate_table_load(mdnn_candidate_table_t *table,
                                        const mdnn_problem_t *problem,
                                        const mdnn_cost_memory_t *memory)
{
    for (size_t i = 0; i < memory->count; i++) {
        const mdnn_cost_entry_t *const entry = &memory->entries[i];
        mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, entry->images, entry->role);
        if (!row)
            return MDNN_STATUS_OUT_OF_MEMORY;
        MDNN_TRY(recall_row(table, problem, entry, row));
    }
    mdnn_candidate_table_check(table);
    return MDNN_STATUS_OK;
}

static mdnn_status_t remember_row(mdnn_cost_row_t *row, mdnn_cost_memory_t *memory,
                                  mdnn_cost_t costs[MDNN_CANDIDATES])
{
    size_t count = 0;
    for (int index = 0; index < row->capacity; index++) {
        const mdnn_candidate_t *const candidate = &row->candidates[index];
        if (candidate->state == MDNN_CANDIDATE_UNKNOWN ||
            candidate->state == MDNN_CANDIDATE_UNSUPPORTED)
            continue;
        costs[count] = candidate->cost;
        costs[count].deferred = candidate->state == MDNN_CANDIDATE_DEFERRED ||
                                (candidate->state == MDNN_CANDIDATE_TIMED && row->partly);
        costs[count++].untimed = candidate->state != MDNN_CANDIDATE_TIMED;
    }
    MDNN_TRY(mdnn_cost_memory_put(memory, row->images, row->role, costs, count, true));
    row->changed = false;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_candidate_table_remember(mdnn_candidate_table_t *table,
                                            mdnn_cost_memory_t *memory, bool *any)
{
    mdnn_cost_t *const costs = malloc(MDNN_CANDIDATES * sizeof *costs);
    mdnn_status_t status = costs ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    *any = false;
    for (mdnn_cost_row_t *row = table->rows; row && status == MDNN_STATUS_OK; row = row->next) {
        if (!row->changed)
            continue;
        status = remember_row(row, memory, costs);
        *any = *any || status == MDNN_STATUS_OK;
    }
    free(costs);
    return status;
}

bool mdnn_cost_row_has_deferred(const mdnn_cost_row_t *row)
{
    for (int i = 0; i < row->capacity; i++)
        if (row->candidates[i].state == MDNN_CANDIDATE_DEFERRED)
            return true;
    return false;
}

bool mdnn_candidate_table_has_deferred(const mdnn_candidate_table_t *table)
{
    for (const mdnn_cost_row_t *row = table->rows; row; row = row->next)
        if (row->partly || mdnn_cost_row_has_deferred(row))
            return true;
    return false;
}

bool mdnn_cost_row_has_engines(const mdnn_cost_row_t *row)
{
    for (int i = MDNN_CANDIDATE_LEGACY; i < row->capacity; i++)
        if (row->candidates[i].state != MDNN_CANDIDATE_UNKNOWN &&
            row->candidates[i].state != MDNN_CANDIDATE_UNSUPPORTED)
            return true;
    return false;
}

/* Best time among what is already known at this size; infinity before the first. */
double mdnn_cost_row_best_ms(const mdnn_cost_row_t *row)
{
    double best = nothing_ms;
    for (int i = 0; i < row->capacity; i++)
        if (row->candidates[i].state == MDNN_CANDIDATE_TIMED &&
            row->candidates[i].cost.time_ms < best)
            best = row->candidates[i].cost.time_ms;
    return best;
}

bool mdnn_cost_row_runs(const mdnn_cost_row_t *row)
{
    return mdnn_cost_row_best_ms(row) < nothing_ms;
}

/* The engine in the role FIRST; NULL: it is not known there. */
static const mdnn_candidate_t *engine_at(const mdnn_candidate_table_t *table,
                                         const mdnn_engine_t *engine, int64_t images)
{
    const mdnn_cost_row_t *const row = mdnn_candidate_table_find(table, images, MDNN_PART_FIRST);
    for (int i = 0; row && i < table->engine_count; i++)
        if (memcmp(&table->engines[i].engine, engine, sizeof *engine) == 0)
            return mdnn_cost_row_look(row, MDNN_CANDIDATE_LEGACY + i);
    return NULL;
}

double mdnn_candidate_table_engine_ms(const mdnn_candidate_table_t *table,
                                      const mdnn_engine_t *engine, int64_t images)
{
    const mdnn_candidate_t *const candidate = engine_at(table, engine, images);
    return candidate && candidate->state == MDNN_CANDIDATE_TIMED ? candidate->cost.time_ms : 0;
}

bool mdnn_candidate_table_engine_lacks_memory(const mdnn_candidate_table_t *table,
                                              const mdnn_engine_t *engine, int64_t images,
                                              uint64_t *bytes)
{
    const mdnn_candidate_t *const candidate = engine_at(table, engine, images);
    *bytes = candidate ? candidate->cost.workspace_bytes : 0;
    return candidate && candidate->state == MDNN_CANDIDATE_EXCLUDED;
}

/* Its own time is as good as a measurement, or cannot matter. */
static bool is_settled_by(const mdnn_candidate_t *candidate, const mdnn_own_run_t *run,
                          double best_ms)
{
    if (run->chosen)
        return (1 - run->margin) * run->most_ms <= best_ms;
    return candidate->state == MDNN_CANDIDATE_DEFERRED && best_ms < nothing_ms &&
           run->device_ms > MDNN_HOPELESS_FACTOR_MANY * best_ms + launch_ms;
}

bool mdnn_candidate_table_take_run(mdnn_candidate_table_t *table, const mdnn_engine_offer_t *offer,
                                   const mdnn_own_run_t *run)
{
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, run->images, MDNN_PART_FIRST);
    const int index = mdnn_candidate_table_engine(table, offer);
    mdnn_candidate_t *const candidate =
        row && index >= 0 ? mdnn_cost_row_candidate(row, index) : NULL;
    if (!candidate || run->most_ms <= 0 || candidate->state == MDNN_CANDIDATE_TIMED ||
        !is_settled_by(candidate, run, mdnn_cost_row_best_ms(row)))
        return false;
    candidate->cost = (mdnn_cost_t){.algo = MDNN_ALGO_ENGINE + offer->engine.id,
                                    .engine = offer->engine,
                                    .workspace_bytes = run->workspace_bytes,
                                    .time_ms = run->most_ms,
                                    .deterministic = offer->deterministic,
                                    .direct = offer->direct,
                                    .strict = offer->strict};
    candidate->state = MDNN_CANDIDATE_TIMED;
    row->offered[index - MDNN_CANDIDATE_LEGACY] = true;
    row->changed = true;
    mdnn_candidate_table_check(table);
    return true;
}

static bool is_of(const mdnn_candidate_t *candidate, const mdnn_cost_t *cost)
{
    return candidate->state == MDNN_CANDIDATE_TIMED && candidate->cost.algo == cost->algo &&
           candidate->cost.math_type == cost->math_type &&
           memcmp(&candidate->cost.engine, &cost->engine, sizeof cost->engine) == 0;
}

bool mdnn_candidate_table_refuse(mdnn_candidate_table_t *table, int64_t images,
                                 const mdnn_cost_t *cost)
{
    bool any = false;
    for (mdnn_cost_row_t *row = table->rows; row; row = row->next)
        for (int i = 0; row->images == images && i < row->capacity; i++)
            if (is_of(&row->candidates[i], cost)) {
                row->candidates[i].state = MDNN_CANDIDATE_UNSUPPORTED;
                any = true;
            }
    mdnn_candidate_table_check(table);
    return any;
}
