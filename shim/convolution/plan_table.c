#include "shim/convolution/plan_table.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/lock.h"
#include "config/statistics.h"
#include "shim/candidates/cost_cache_check.h"
#include "shim/candidates/engine_list.h"
#include "shim/convolution/plan_check.h"
#include "shim/real/handles.h"
#include "shim/real/process.h"

static mdnn_lock_t table_lock = MDNN_LOCK_INIT(PLAN_TABLE); /* guards `table` */
static mdnn_conv_plan_t *table;

mdnn_status_t mdnn_plan_key_make(const mdnn_call_t *call, mdnn_plan_key_t *key)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    memset(key, 0, sizeof *key);
    if (!driver || !(call->problem ? call->cudnn->has_graph : call->cudnn->complete))
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_call_problem(call, &key->problem));
    if (!call->cudnn->complete)
        key->problem.interfaces &= ~MDNN_INTERFACE_LEGACY;
    CUdevice device;
    if (driver->cuCtxGetDevice(&device) != CUDA_SUCCESS ||
        !mdnn_handle_is_usable(call->handle, device))
        return MDNN_STATUS_UNSUPPORTED;
    key->problem.device = MDNN_FAULT(KEY_WITHOUT_DEVICE) ? 0 : device;
    key->library = call->cudnn->library;
    return MDNN_STATUS_OK;
}

uint32_t mdnn_plan_key_hash(const mdnn_plan_key_t *key)
{
    const uint64_t hash = mdnn_problem_hash(&key->problem) + (uint64_t)key->library;
    return (uint32_t)(hash ^ hash >> 32);
}

mdnn_conv_plan_t *mdnn_plan_table_find(const mdnn_plan_key_t *key, uint32_t hash)
{
    mdnn_conv_plan_t *plan = NULL;
    mdnn_lock(&table_lock);
    HASH_FIND_BYHASHVALUE(hh, table, key, sizeof *key, hash, plan);
    mdnn_unlock(&table_lock);
    return plan;
}

static void destroy(mdnn_conv_plan_t *plan)
{
    mdnn_cost_cache_fini(&plan->cache);
    mdnn_candidate_table_destroy(plan->costs);
    mdnn_engines_destroy(plan->engines);
    mdnn_slices_destroy(plan->slices);
    free(plan);
}

static mdnn_status_t open_engines(const mdnn_call_t *call, mdnn_conv_plan_t *plan)
{
    if (!(plan->key.problem.interfaces & MDNN_INTERFACE_GRAPH))
        return MDNN_STATUS_OK;
    MDNN_TRY(mdnn_engines_create(call->cudnn, &plan->key.problem, call->uids, &plan->engines));
    const int wanted = mdnn_process_options()->convolution_engines;
    if (wanted == MDNN_ENGINES_AUTO)
        mdnn_engines_offer_first(plan->engines);
    else if (wanted == MDNN_ENGINES_ALL)
        mdnn_engines_offer_all(plan->engines);
    return MDNN_STATUS_OK;
}

mdnn_conv_plan_t *mdnn_plan_table_insert(const mdnn_call_t *call, const mdnn_plan_key_t *key,
                                         uint32_t hash)
{
    mdnn_conv_plan_t *const plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->key = *key;
    mdnn_problem_format(&key->problem, plan->title, sizeof plan->title);
    plan->statistics_row = -1;
    atomic_init(&plan->next_limit, 0);
    if (mdnn_slices_create(call, &plan->key.problem, &plan->slices) != MDNN_STATUS_OK ||
        open_engines(call, plan) != MDNN_STATUS_OK ||
        mdnn_candidate_table_create(&plan->costs) != MDNN_STATUS_OK) {
        destroy(plan);
        return NULL;
    }
    mdnn_cost_cache_open(&plan->cache, call, &plan->key.problem);
    mdnn_cost_cache_restrict(&plan->cache.memory, call, &plan->key.problem, plan->engines);
    plan->believes_file = plan->cache.memory.count > 0;
    if (mdnn_candidate_table_load(plan->costs, &plan->key.problem, &plan->cache.memory) !=
        MDNN_STATUS_OK) {
        destroy(plan);
        return NULL;
    }
    mdnn_lock(&table_lock);
    HASH_ADD_BYHASHVALUE(hh, table, key, sizeof plan->key, hash, plan);
    const bool added = plan->hh.tbl != NULL;
    mdnn_plan_table_check(table);
    mdnn_unlock(&table_lock);
    if (!added) {
        destroy(plan);
        return NULL;
    }
    mdnn_count(MDNN_COUNTER_problems, 1);
    return plan;
}
