/* A table of candidates, for its own files. */
#ifndef MDNN_CANDIDATE_TABLE_INTERNAL_H
#define MDNN_CANDIDATE_TABLE_INTERNAL_H

#include "shim/candidates/candidate_table.h"

struct mdnn_candidate_table {
    mdnn_cost_row_t *rows;
    mdnn_engine_offer_t engines[MDNN_CANDIDATE_ENGINES];
    int engine_count;
};

/* The row of a size and role; NULL if there is none. */
const mdnn_cost_row_t *mdnn_candidate_table_find(const mdnn_candidate_table_t *table,
                                                 int64_t images, mdnn_part_role_t role);

#endif
