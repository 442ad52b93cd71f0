#include "shim/candidates/cost_cache_check.h"

#include <stdlib.h>
#include <string.h>

#include "shim/candidates/candidate_table.h"
#include "shim/candidates/slices.h"

typedef struct check {
    const mdnn_call_t *call;
    const mdnn_problem_t *problem;
    mdnn_engines_t *engines;
} check_t;

static bool is_math_type(const check_t *check, const mdnn_cost_t *cost, int *index)
{
    for (*index = cost->algo; *index < MDNN_CANDIDATE_LEGACY; *index += MDNN_CANDIDATE_ALGOS)
        if (mdnn_candidate_math_type(check->problem, *index) == cost->math_type)
            return true;
    return false;
}

static bool restrict_algorithm(const check_t *check, mdnn_cost_t *cost)
{
    static const mdnn_engine_t none;
    const mdnn_direction_t direction = (mdnn_direction_t)check->problem->direction;
    int index;
    if (!(check->problem->interfaces & MDNN_INTERFACE_LEGACY) || cost->algo < 0 ||
        cost->algo >= mdnn_algo_count(direction) || !is_math_type(check, cost, &index) ||
        memcmp(&cost->engine, &none, sizeof none) != 0)
        return false;
    cost->deterministic = cost->deterministic && mdnn_algo_is_deterministic(direction, cost->algo);
    cost->direct = cost->direct && mdnn_algo_is_direct(direction, cost->algo);
    cost->strict = cost->strict && mdnn_candidate_is_strict(check->problem, index);
    return true;
}

static bool is_callers_own(const check_t *check, const mdnn_engine_t *engine)
{
    const mdnn_engine_offer_t *const own = check->call->caller_engine;
    return own && memcmp(&own->engine, engine, sizeof *engine) == 0;
}

/* As list_engines of measure.c offers them. */
static bool restrict_engine(const check_t *check, int64_t images, mdnn_cost_t *cost)
{
    mdnn_engine_offer_t offer;
    if (!check->engines || cost->algo != MDNN_ALGO_ENGINE + cost->engine.id ||
        (mdnn_tensor_has_gaps(mdnn_problem_output(check->problem)) &&
         !is_callers_own(check, &cost->engine)) ||
        mdnn_engines_judge(check->engines, check->call->handle, images, cost->engine.id, &offer) !=
            MDNN_STATUS_OK)
        return false;
    cost->deterministic = cost->deterministic && offer.deterministic;
    cost->direct = cost->direct && offer.direct;
    cost->strict = cost->strict && offer.strict;
    return true;
}

static void restrict_entry(const check_t *check, mdnn_cost_entry_t *entry)
{
    size_t kept = 0;
    for (size_t i = 0; i < entry->count; i++) {
        mdnn_cost_t *const cost = &entry->costs[i];
        if (cost->algo >= MDNN_ALGO_ENGINE ? restrict_engine(check, entry->images, cost)
                                           : restrict_algorithm(check, cost))
            entry->costs[kept++] = *cost;
    }
    entry->count = kept;
}

/* A size of which nothing is left is as good as unknown: else one row could keep all from running. */
void mdnn_cost_cache_restrict(mdnn_cost_memory_t *memory, const mdnn_call_t *call,
                              const mdnn_problem_t *problem, mdnn_engines_t *engines)
{
    const check_t check = {.call = call, .problem = problem, .engines = engines};
    size_t kept = 0;
    for (size_t i = 0; i < memory->count; i++) {
        mdnn_cost_entry_t *const entry = &memory->entries[i];
        const size_t before = entry->count;
        if (entry->images <= mdnn_problem_batch(problem))
            restrict_entry(&check, entry);
        if (entry->images > mdnn_problem_batch(problem) || (entry->count == 0 && before > 0))
            free(entry->costs);
        else
            memory->entries[kept++] = *entry;
    }
    memory->count = kept;
}
