/* Predicts candidates from others, so that few need to be planned and timed: smaller sizes from larger ones, and
 * engines from each other. It only reads the table. Only the planner calls it (shim/convolution/planning.h). */
#ifndef MDNN_CANDIDATE_FORESIGHT_H
#define MDNN_CANDIDATE_FORESIGHT_H

#include "shim/candidates/candidate_table.h"

/* A candidate this many times slower than the best of its size is not worth a second look ... */
#define MDNN_HOPELESS_FACTOR 3.0
/* ... and one this many times slower is not tried at half the size. */
#define MDNN_ABSURD_FACTOR 10.0
/* The same if there are engines of the graph API as well: with several times as many candidates,
 * fewer second looks fit into the time that a program's own search takes. */
#define MDNN_HOPELESS_FACTOR_MANY 1.25
#define MDNN_ABSURD_FACTOR_MANY 1.3

/* True if another engine that is as repeatable, direct and strict as `offer` was clearly faster at
 * this size with no more workspace. */
bool mdnn_candidate_table_engine_is_dominated(const mdnn_candidate_table_t *table,
                                              const mdnn_engine_offer_t *offer, int64_t images);

/* True if parts of this size cannot pay off: at the next larger size no candidate was left out for its workspace, and,
 * unless `brief`, halves ran no faster per image. Only for graph problems, since these have many candidates. */
bool mdnn_candidate_table_is_settled(const mdnn_candidate_table_t *table,
                                     const mdnn_cost_row_t *row, uint64_t limit_bytes, bool brief);

/* Whether engines are worth listing for parts of this size: not if every offered engine ran within
 * the limit at the next larger size, since smaller parts then gain nothing. Planning an engine may
 * mean compiling it, which takes tenths of a second; legacy algorithms cost nothing to plan. */
bool mdnn_candidate_table_engines_may_pay(const mdnn_candidate_table_t *table,
                                          const mdnn_cost_row_t *row, uint64_t limit_bytes);
/* The same for one engine: false if a larger size ran it within the limit. */
bool mdnn_candidate_table_engine_may_pay(const mdnn_candidate_table_t *table,
                                         const mdnn_cost_row_t *row, int index,
                                         uint64_t limit_bytes);
/* Offers `part` cuDNN's fallback engines for the whole batch: they hardly depend on the size, and cuDNN takes long to
 * list them. False if they are not known for that size. */
bool mdnn_candidate_table_offer_fallback(const mdnn_candidate_table_t *table, int64_t images,
                                         mdnn_cost_row_t *part);

/* Predicts a candidate from larger sizes before it runs. True, with *ms set, if it is too slow to be tried. Otherwise
 * *expected_ms is > 0 if a near size was timed, so that a first look is unnecessary. */
bool mdnn_candidate_table_foresee(const mdnn_candidate_table_t *table, const mdnn_cost_row_t *row,
                                  int index, double *expected_ms, double *ms);

#endif
