#include "shim/candidates/candidate_table_check.h"

#ifdef MDNN_DEBUG

#include <string.h>

#include "config/rule.h"
#include "shim/candidates/candidate_table_internal.h"

static bool engines_hold(const mdnn_candidate_table_t *table, const char **broken, uint64_t *looks)
{
    MDNN_RULE(table->engine_count >= 0 && table->engine_count <= MDNN_CANDIDATE_ENGINES);
    for (int i = 0; i < table->engine_count; i++)
        for (int other = 0; other < i; other++, ++*looks)
            MDNN_RULE(memcmp(&table->engines[i].engine, &table->engines[other].engine,
                             sizeof table->engines[i].engine) != 0);
    return true;
}

static bool candidate_holds(const mdnn_candidate_table_t *table, const mdnn_cost_row_t *row,
                            int index, const char **broken)
{
    const mdnn_candidate_t *const candidate = &row->candidates[index];
    const mdnn_cost_t *const cost = &candidate->cost;
    const int engine = index - MDNN_CANDIDATE_LEGACY;
    MDNN_RULE(candidate->state >= MDNN_CANDIDATE_UNKNOWN &&
              candidate->state <= MDNN_CANDIDATE_TIMED);
    if (candidate->state == MDNN_CANDIDATE_UNKNOWN ||
        candidate->state == MDNN_CANDIDATE_UNSUPPORTED)
        return true;
    if (engine < 0) {
        MDNN_RULE(cost->algo == index % MDNN_CANDIDATE_ALGOS);
    } else {
        MDNN_RULE(engine < table->engine_count && row->offered[engine]);
        MDNN_RULE(cost->algo == MDNN_ALGO_ENGINE + table->engines[engine].engine.id);
        MDNN_RULE(memcmp(&cost->engine, &table->engines[engine].engine, sizeof cost->engine) == 0);
    }
    MDNN_RULE(!cost->deferred);
    if (candidate->state == MDNN_CANDIDATE_TIMED)
        MDNN_RULE(cost->time_ms >= 0 && !cost->untimed);
    return true;
}

static bool row_holds(const mdnn_candidate_table_t *table, const mdnn_cost_row_t *row,
                      const char **broken)
{
    MDNN_RULE(row->images > 0);
    MDNN_RULE(row->role >= MDNN_PART_FIRST && row->role < MDNN_PART_ROLE_COUNT);
    MDNN_RULE(row->capacity >= 0 && row->capacity <= MDNN_CANDIDATES &&
              row->capacity % MDNN_CANDIDATE_LEGACY == 0);
    MDNN_RULE((row->capacity == 0) == !row->candidates);
    for (int i = table->engine_count; i < MDNN_CANDIDATE_ENGINES; i++)
        MDNN_RULE(!row->offered[i]);
    for (int i = 0; i < row->capacity; i++)
        if (!candidate_holds(table, row, i, broken))
            return false;
    return true;
}

bool mdnn_candidate_table_is_valid(const mdnn_candidate_table_t *table, const char **broken,
                                   uint64_t *looks)
{
    *looks = 0;
    if (!engines_hold(table, broken, looks))
        return false;
    for (const mdnn_cost_row_t *row = table->rows; row; row = row->next) {
        *looks += MDNN_CANDIDATES;
        if (!row_holds(table, row, broken))
            return false;
        for (const mdnn_cost_row_t *other = table->rows; other != row;
             other = other->next, ++*looks)
            MDNN_RULE(row->images != other->images || row->role != other->role);
    }
    return true;
}

void mdnn_candidate_table_check(const mdnn_candidate_table_t *table)
{
    static mdnn_rule_pace_t pace;
    const char *broken = "";
    uint64_t looks;
    if (!mdnn_rule_is_due(&pace))
        return;
    if (!mdnn_candidate_table_is_valid(table, &broken, &looks))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
    mdnn_rule_took(&pace, looks);
}

#endif
