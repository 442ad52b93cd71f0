#include "shim/candidates/candidate_foresight.h"

#include <string.h>

#include "shim/candidates/candidate_table_internal.h"

/* Sizes this near identify a hopeless candidate; farther ones only an absurd one. */
static const double near_factor = 1.25;

/* Halves must run faster an image by this much to make quarters worth a look. */
static const double worthwhile_factor = 0.99;
/* Within this of each other two engines may change places from one measurement to the next. */
static const double clearly_faster_factor = 0.95;

/* The next larger size of the same role at which the candidate has a time of its own (`measured`)
 * or any time; NULL if there is none. */
static const mdnn_cost_row_t *larger_row(const mdnn_cost_row_t *rows, const mdnn_cost_row_t *row,
                                         int index, bool measured)
{
    const mdnn_cost_row_t *nearest = NULL;
    for (const mdnn_cost_row_t *each = rows; each; each = each->next) {
        const mdnn_candidate_t *const candidate = mdnn_cost_row_look(each, index);
        if (each->role == row->role && each->images > row->images &&
            candidate->state == MDNN_CANDIDATE_TIMED &&
            !(measured && candidate->cost.extrapolated) &&
            (!nearest || each->images < nearest->images))
            nearest = each;
    }
    return nearest;
}

/* The least time for an image among all sizes of the role: what a part competes with in a split. */
static double best_rate_ms(const mdnn_candidate_table_t *table, mdnn_part_role_t role)
{
    double best = 1e300;
    for (const mdnn_cost_row_t *row = table->rows; row; row = row->next) {
        const double rate = mdnn_cost_row_best_ms(row) / (double)row->images;
        if (row->role == role && rate < best)
            best = rate;
    }
    return best;
}

bool mdnn_candidate_table_foresee(const mdnn_candidate_table_t *table, const mdnn_cost_row_t *row,
                                  int index, double *expected_ms, double *ms)
{
    const mdnn_cost_row_t *const any = larger_row(table->rows, row, index, false);
    const mdnn_cost_row_t *const measured = larger_row(table->rows, row, index, true);
    const double scale = any ? (double)row->images / (double)any->images : 0;
    *expected_ms = 0;
    const double absurd = table->engine_count > 0 ? MDNN_ABSURD_FACTOR_MANY : MDNN_ABSURD_FACTOR;
    if (any && scale >= 0.5 &&
        any->candidates[index].cost.time_ms > absurd * mdnn_cost_row_best_ms(any)) {
        *ms = any->candidates[index].cost.time_ms * scale;
        return true;
    }
    if (!measured || (double)measured->images > near_factor * (double)row->images)
        return false;
    *expected_ms =
        measured->candidates[index].cost.time_ms * (double)row->images / (double)measured->images;
    *ms = *expected_ms;
    return *expected_ms >
           MDNN_HOPELESS_FACTOR * best_rate_ms(table, row->role) * (double)row->images;
}

static bool dominates(const mdnn_cost_t *cost, const mdnn_engine_offer_t *offer,
                      const mdnn_cost_t *own)
{
    return cost->time_ms < clearly_faster_factor * own->time_ms &&
           cost->workspace_bytes <= own->workspace_bytes &&
           (cost->deterministic || !offer->deterministic) && (cost->direct || !offer->direct) &&
           (cost->strict || !offer->strict);
}

bool mdnn_candidate_table_engine_is_dominated(const mdnn_candidate_table_t *table,
                                              const mdnn_engine_offer_t *offer, int64_t images)
{
    const mdnn_cost_row_t *const row = mdnn_candidate_table_find(table, images, MDNN_PART_FIRST);
    const mdnn_cost_t *own = NULL;
    for (int i = 0; row && i < table->engine_count; i++)
        if (memcmp(&table->engines[i].engine, &offer->engine, sizeof offer->engine) == 0 &&
            mdnn_cost_row_look(row, MDNN_CANDIDATE_LEGACY + i)->state == MDNN_CANDIDATE_TIMED)
            own = &mdnn_cost_row_look(row, MDNN_CANDIDATE_LEGACY + i)->cost;
    for (int i = 0; own && i < table->engine_count; i++) {
        const mdnn_candidate_t *const candidate =
            mdnn_cost_row_look(row, MDNN_CANDIDATE_LEGACY + i);
        if (candidate->state == MDNN_CANDIDATE_TIMED && dominates(&candidate->cost, offer, own))
            return true;
    }
    return false;
}

static bool has_excluded(const mdnn_cost_row_t *row, uint64_t limit_bytes)
{
    for (int i = 0; i < row->capacity; i++)
        if (row->candidates[i].state == MDNN_CANDIDATE_EXCLUDED ||
            (row->candidates[i].state == MDNN_CANDIDATE_TIMED &&
             row->candidates[i].cost.workspace_bytes > limit_bytes))
            return true;
    return false;
}

/* The nearest larger size of the role FIRST that has engines; a REST part competes with it as well.
 */
static const mdnn_cost_row_t *larger_with_engines(const mdnn_candidate_table_t *table,
                                                  const mdnn_cost_row_t *row)
{
    const mdnn_cost_row_t *nearest = NULL;
    for (const mdnn_cost_row_t *each = table->rows; each; each = each->next)
        if (each->role == MDNN_PART_FIRST && each->images > row->images &&
            mdnn_cost_row_has_engines(each) && (!nearest || each->images < nearest->images))
            nearest = each;
    return nearest;
}

bool mdnn_candidate_table_engines_may_pay(const mdnn_candidate_table_t *table,
                                          const mdnn_cost_row_t *row, uint64_t limit_bytes)
{
    const mdnn_cost_row_t *const larger = larger_with_engines(table, row);
    return !larger || has_excluded(larger, limit_bytes);
}

bool mdnn_candidate_table_offer_fallback(const mdnn_candidate_table_t *table, int64_t images,
                                         mdnn_cost_row_t *part)
{
    const mdnn_cost_row_t *const row = mdnn_candidate_table_find(table, images, MDNN_PART_FIRST);
    bool any = false;
    for (int i = 0; row && row != part && i < table->engine_count; i++)
        if (table->engines[i].fallback && row->offered[i])
            part->offered[i] = any = true;
    return any;
}

bool mdnn_candidate_table_engine_may_pay(const mdnn_candidate_table_t *table,
                                         const mdnn_cost_row_t *row, int index,
                                         uint64_t limit_bytes)
{
    for (const mdnn_cost_row_t *each = table->rows; each; each = each->next) {
        const mdnn_candidate_t *const candidate = mdnn_cost_row_look(each, index);
        if (each->role == MDNN_PART_FIRST && each->images > row->images &&
            candidate->state == MDNN_CANDIDATE_TIMED &&
            candidate->cost.workspace_bytes <= limit_bytes)
            return false;
    }
    return true;
}

/* The nearest larger size of the role FIRST at which anything ran. */
static const mdnn_cost_row_t *larger_timed(const mdnn_candidate_table_t *table,
                                           const mdnn_cost_row_t *row)
{
    const mdnn_cost_row_t *nearest = NULL;
    for (const mdnn_cost_row_t *each = table->rows; each; each = each->next)
        if (each->role == MDNN_PART_FIRST && each->images > row->images &&
            mdnn_cost_row_runs(each) && (!nearest || each->images < nearest->images))
            nearest = each;
    return nearest;
}

bool mdnn_candidate_table_is_settled(const mdnn_candidate_table_t *table,
                                     const mdnn_cost_row_t *row, uint64_t limit_bytes, bool brief)
{
    const mdnn_cost_row_t *const larger = larger_timed(table, row);
    if (brief && larger)
        return !has_excluded(larger, limit_bytes);
    const mdnn_cost_row_t *const half =
        mdnn_candidate_table_find(table, 2 * row->images, row->role);
    const mdnn_cost_row_t *const whole =
        mdnn_candidate_table_find(table, 4 * row->images, row->role);
    return half && whole && !has_excluded(half, limit_bytes) && !has_excluded(whole, limit_bytes) &&
           2 * mdnn_cost_row_best_ms(half) > worthwhile_factor * mdnn_cost_row_best_ms(whole);
}
