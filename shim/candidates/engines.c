#include "shim/candidates/engines.h"

#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "shim/candidates/backend.h"
#include "shim/candidates/engine_recipe.h"
#include "shim/candidates/engines_internal.h"
#include "shim/candidates/graph_build.h"

enum { UID_COUNT = 5 };

static const mdnn_graph_uids_t own_uids = {'x', 'w', 'y', 'z', 'b'};

mdnn_status_t mdnn_engines_create(const mdnn_cudnn_t *cudnn, const mdnn_problem_t *problem,
                                  const mdnn_graph_uids_t *uids, mdnn_engines_t **engines)
{
    mdnn_engines_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->cudnn = cudnn;
    made->problem = problem;
    made->uids = uids ? *uids : own_uids;
    *engines = made;
    return MDNN_STATUS_OK;
}

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines)
{
    return &engines->uids;
}

static void destroy_graph(const mdnn_cudnn_t *cudnn, mdnn_sized_graph_t *graph)
{
    while (graph->plans) {
        mdnn_kept_plan_t *const next = graph->plans->next;
        mdnn_backend_destroy(cudnn, graph->plans->made.plan);
        free(graph->plans);
        graph->plans = next;
    }
    mdnn_backend_destroy(cudnn, graph->graph);
    free(graph);
}

void mdnn_engines_destroy(mdnn_engines_t *engines)
{
    if (!engines)
        return;
    while (engines->graphs) {
        mdnn_sized_graph_t *const next = engines->graphs->next;
        destroy_graph(engines->cudnn, engines->graphs);
        engines->graphs = next;
    }
    while (engines->judged) {
        mdnn_judged_engine_t *const next = engines->judged->next;
        free(engines->judged);
        engines->judged = next;
    }
    free(engines);
}

mdnn_status_t mdnn_engines_graph(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 mdnn_graph_scaling_t scaling, mdnn_sized_graph_t **found)
{
    mdnn_sized_graph_t *graph = engines->graphs;
    while (graph && (graph->images != images || graph->scaling != scaling))
        graph = graph->next;
    if (!graph) {
        graph = calloc(1, sizeof *graph);
        if (!graph)
            return MDNN_STATUS_OUT_OF_MEMORY;
        graph->images = images;
        graph->scaling = scaling;
        if (mdnn_graph_build(engines->cudnn, handle, engines->problem, &engines->uids, images,
                             scaling, &graph->graph) != MDNN_STATUS_OK)
            graph->graph = NULL;
        graph->next = engines->graphs;
        engines->graphs = graph;
    }
    *found = graph;
    return graph->graph ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

/* False if cuDNN has no such engine for the graph. */
static bool read_engine(const mdnn_engines_t *engines, const mdnn_sized_graph_t *graph,
                        mdnn_judged_engine_t *judged)
{
    mdnn_engine_recipe_t recipe = {.cudnn = engines->cudnn};
    uint32_t notes, behaviour;
    const bool read = mdnn_engine_recipe_name(&recipe, graph->graph, judged->id) &&
                      mdnn_engine_read_notes(engines->cudnn, recipe.engine, &notes, &behaviour);
    mdnn_engine_recipe_destroy(&recipe);
    if (!read)
        return false;
    judged->admissible = mdnn_engine_is_admissible(engines->problem, notes, behaviour);
    mdnn_engine_judge(engines->problem, notes, behaviour, &judged->offer);
    return true;
}

static mdnn_status_t judge_anew(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                int32_t id, const mdnn_judged_engine_t **judged)
{
    mdnn_sized_graph_t *graph;
    MDNN_TRY(mdnn_engines_graph(engines, handle, images, MDNN_SCALING_CALLER, &graph));
    mdnn_judged_engine_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->id = id;
    if (!read_engine(engines, graph, made)) {
        free(made);
        return MDNN_STATUS_UNSUPPORTED;
    }
    made->next = engines->judged;
    engines->judged = made;
    *judged = made;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_engines_judge(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 int32_t id, mdnn_engine_offer_t *offer)
{
    const mdnn_judged_engine_t *judged = engines->judged;
    while (judged && judged->id != id)
        judged = judged->next;
    if (!judged)
        MDNN_TRY(judge_anew(engines, handle, images, id, &judged));
    *offer = judged->offer;
    return judged->admissible ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

/* Says how long it took: some engines are compiled for each shape, and then planning is what a
 * program's start costs. */
static void plan_once(const mdnn_engines_t *engines, cudnnHandle_t handle,
                      const mdnn_sized_graph_t *graph, mdnn_kept_plan_t *kept)
{
    const double begin_us = mdnn_now_us();
    kept->supported =
        mdnn_engine_recipe_plan(engines->cudnn, handle, graph->graph, &kept->engine, &kept->made);
    MDNN_LOG(MDNN_LOG_DEBUG, "engines", "planned engine %d for %lld images in %.1f ms%s",
             kept->engine.id, (long long)graph->images, (mdnn_now_us() - begin_us) / 1e3,
             kept->supported ? "" : ": not supported");
}

mdnn_status_t mdnn_engines_plan(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, const mdnn_engine_t *engine,
                                const mdnn_engine_plan_t **plan)
{
    mdnn_sized_graph_t *graph;
    MDNN_TRY(mdnn_engines_graph(engines, handle, images, scaling, &graph));
    mdnn_kept_plan_t *kept = graph->plans;
    while (kept && memcmp(&kept->engine, engine, sizeof *engine) != 0)
        kept = kept->next;
    if (!kept) {
        kept = calloc(1, sizeof *kept);
        if (!kept)
            return MDNN_STATUS_OUT_OF_MEMORY;
        kept->engine = *engine;
        plan_once(engines, handle, graph, kept);
        kept->next = graph->plans;
        graph->plans = kept;
    }
    *plan = &kept->made;
    return kept->supported ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

void mdnn_engines_keep(const mdnn_engine_plan_t *plan)
{
    /* Ours, given out as const: only this function writes, and the planner alone (planning.h). */
    ((mdnn_engine_plan_t *)(uintptr_t)plan)->kept = true;
}

void mdnn_engines_sweep(mdnn_engines_t *engines)
{
    for (mdnn_sized_graph_t *graph = engines->graphs; graph; graph = graph->next)
        for (mdnn_kept_plan_t **at = &graph->plans; *at;) {
            mdnn_kept_plan_t *const each = *at;
            if (each->made.kept) {
                at = &each->next;
                continue;
            }
            *at = each->next;
            mdnn_backend_destroy(engines->cudnn, each->made.plan);
            free(each);
        }
}

cudnnStatus_t mdnn_engine_execute(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                                  cudnnBackendDescriptor_t plan, const mdnn_graph_uids_t *uids,
                                  const mdnn_engine_operands_t *operands)
{
    const int64_t all_uids[UID_COUNT] = {uids->x, uids->w, uids->y, uids->z, uids->bias};
    void *const all_data[UID_COUNT] = {operands->x, operands->w, operands->y, operands->z,
                                       operands->bias};
    int64_t named[UID_COUNT];
    void *data[UID_COUNT];
    int64_t count = 0;
    for (int i = 0; i < UID_COUNT; i++)
        if (all_data[i]) {
            named[count] = all_uids[i];
            data[count++] = all_data[i];
        }
    cudnnBackendDescriptor_t pack;
    cudnnStatus_t status =
        cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if ((status = cudnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                  CUDNN_TYPE_VOID_PTR, count, data)) ==
            CUDNN_STATUS_SUCCESS &&
        (status = cudnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                  CUDNN_TYPE_INT64, count, named)) ==
            CUDNN_STATUS_SUCCESS &&
        (status = cudnn->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                                  CUDNN_TYPE_VOID_PTR, 1, &operands->workspace)) ==
            CUDNN_STATUS_SUCCESS &&
        (status = cudnn->cudnnBackendFinalize(pack)) == CUDNN_STATUS_SUCCESS)
        status = cudnn->cudnnBackendExecute(handle, plan, pack);
    (void)cudnn->cudnnBackendDestroyDescriptor(pack);
    return status;
}
