/* The measurements of earlier runs, from the database. They are read once per problem and written before the first use
 * of the chosen configuration, so that runs repeat. An error of the file never changes what runs; the first one is
 * logged. */
#ifndef MDNN_COST_CACHE_H
#define MDNN_COST_CACHE_H

#include "optimizer/database.h"
#include "shim/candidates/call.h"

/* One problem's place in the database. Zeroed: nothing is kept. */
typedef struct mdnn_cost_cache {
    bool active;
    mdnn_database_key_t *key;  /* owned */
    mdnn_cost_memory_t memory; /* what the file holds, and what is to be written */
} mdnn_cost_cache_t;

/* Finds the problem in the database that the options name, and puts everything known about it into
 * cache->memory. The result is always valid. Only the planner calls it (planning.h). */
void mdnn_cost_cache_open(mdnn_cost_cache_t *cache, const mdnn_call_t *call,
                          const mdnn_problem_t *problem);
/* Writes what is new in cache->memory, and the configuration that was chosen under `request` (NULL:
 * none fits). */
void mdnn_cost_cache_store(mdnn_cost_cache_t *cache, const mdnn_wr_request_t *request,
                           const mdnn_configuration_t *configuration,
                           mdnn_database_conflict_t conflict);
void mdnn_cost_cache_fini(mdnn_cost_cache_t *cache);

/* The problem's key, whether there is a database or not; "" if the problem has no key or its key is too long. Only the
 * planner calls it (planning.h). */
void mdnn_cost_cache_key(const mdnn_cost_cache_t *cache, const mdnn_call_t *call,
                         const mdnn_problem_t *problem, char *text, size_t bytes);

#endif
