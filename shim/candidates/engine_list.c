#include "shim/candidates/engine_list.h"

#include <stdlib.h>
#include <string.h>

#include "shim/candidates/backend.h"
#include "shim/candidates/engine_knobs.h"
#include "shim/candidates/engine_recipe.h"
#include "shim/candidates/engines_internal.h"

enum { CONFIGURATIONS = 128 };
/* So many neighbours in a row that are refused or known already end the search for more. */
enum { FRUITLESS = 128 };

void mdnn_engines_offer_first(mdnn_engines_t *engines)
{
    engines->first_only = true;
}

void mdnn_engines_offer_all(mdnn_engines_t *engines)
{
    engines->all = true;
}

static bool is_listed(const mdnn_engine_offer_t *offers, size_t count, const mdnn_engine_t *engine)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(&offers[i].engine, engine, sizeof *engine) == 0)
            return true;
    return false;
}

static void take_offer(const mdnn_engines_t *engines, cudnnBackendDescriptor_t configuration,
                       mdnn_engine_offer_t *offers, size_t capacity, size_t *count)
{
    mdnn_engine_offer_t offer;
    uint32_t notes, behaviour;
    bool notes_known;
    memset(&offer, 0, sizeof offer);
    if (*count == capacity ||
        mdnn_engine_read(engines->cudnn, configuration, &offer.engine, &notes, &behaviour,
                         &notes_known) != MDNN_STATUS_OK ||
        !mdnn_engine_is_admissible(engines->problem, notes, behaviour) ||
        is_listed(offers, *count, &offer.engine))
        return;
    mdnn_engine_judge(engines->problem, notes, behaviour, &offer);
    offers[(*count)++] = offer;
}

static void read_results(const mdnn_engines_t *engines, cudnnBackendDescriptor_t heuristics,
                         mdnn_engine_offer_t *offers, size_t capacity, size_t *count)
{
    const mdnn_cudnn_t *const cudnn = engines->cudnn;
    cudnnBackendDescriptor_t configurations[CONFIGURATIONS];
    int64_t wanted = 0, found = 0;
    if (cudnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &wanted,
                                        NULL) != CUDNN_STATUS_SUCCESS ||
        wanted <= 0)
        return;
    const size_t made =
        mdnn_backend_create_many(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, configurations,
                                 wanted < CONFIGURATIONS ? (size_t)wanted : CONFIGURATIONS);
    if (cudnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)made, &found,
                                        configurations) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < found && i < (int64_t)made; i++)
            take_offer(engines, configurations[i], offers, capacity, count);
    mdnn_backend_destroy_many(cudnn, configurations, made);
}

static void ask_heuristics(const mdnn_engines_t *engines, cudnnBackendDescriptor_t graph,
                           cudnnBackendHeurMode_t mode, mdnn_engine_offer_t *offers,
                           size_t capacity, size_t *count)
{
    const mdnn_cudnn_t *const cudnn = engines->cudnn;
    const cudnnBackendDescriptor_t heuristics =
        mdnn_backend_create(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    if (!heuristics)
        return;
    if (cudnn->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &graph) == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                        CUDNN_TYPE_HEUR_MODE, 1, &mode) == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendFinalize(heuristics) == CUDNN_STATUS_SUCCESS)
        read_results(engines, heuristics, offers, capacity, count);
    mdnn_backend_destroy(cudnn, heuristics);
}

/* A list of offers that grows beyond what the heuristics say. */
typedef struct offer_list {
    mdnn_engines_t *engines;
    cudnnHandle_t handle;
    const mdnn_sized_graph_t *graph;
    mdnn_engine_offer_t *offers;
    size_t capacity, *count;
    int fruitless; /* attempts since the last that was taken */
} offer_list_t;

/* Offers `engine` under the identity that its configuration has, if it can be planned. */
static void try_engine(offer_list_t *list, const mdnn_engine_t *engine)
{
    const mdnn_cudnn_t *const cudnn = list->engines->cudnn;
    const size_t before = *list->count;
    const mdnn_engine_plan_t *plan;
    mdnn_engine_recipe_t recipe = {.cudnn = cudnn};
    if (mdnn_engine_recipe_make(&recipe, list->graph->graph, engine))
        take_offer(list->engines, recipe.configuration, list->offers, list->capacity, list->count);
    mdnn_engine_recipe_destroy(&recipe);
    if (*list->count > before &&
        mdnn_engines_plan(list->engines, list->handle, list->graph->images, list->graph->scaling,
                          &list->offers[before].engine, &plan) != MDNN_STATUS_OK)
        *list->count = before;
    list->fruitless = *list->count > before ? 0 : list->fruitless + 1;
}

static void try_defaults(offer_list_t *list)
{
    int64_t engine_count = 0;
    if (!mdnn_backend_get_one(list->engines->cudnn, list->graph->graph,
                              CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
                              &engine_count))
        return;
    for (int64_t id = 0; id < engine_count && id <= INT16_MAX && *list->count < list->capacity;
         id++) {
        mdnn_engine_t engine;
        memset(&engine, 0, sizeof engine);
        engine.id = (int32_t)id;
        try_engine(list, &engine);
    }
}

typedef struct base {
    mdnn_engine_t engine;
    mdnn_knob_ranges_t ranges;
} base_t;

static bool is_base(const base_t *bases, size_t count, int32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (bases[i].engine.id == id)
            return true;
    return false;
}

/* Each engine once, as it was offered first: the heuristics know good knobs. */
static size_t choose_bases(const offer_list_t *list, base_t *bases)
{
    size_t count = 0;
    for (size_t i = 0; i < *list->count; i++) {
        const mdnn_engine_t *const engine = &list->offers[i].engine;
        if (is_base(bases, count, engine->id))
            continue;
        mdnn_engine_recipe_t recipe = {.cudnn = list->engines->cudnn};
        bases[count].engine = *engine;
        if (mdnn_engine_recipe_name(&recipe, list->graph->graph, engine->id))
            mdnn_engine_knob_ranges(recipe.cudnn, recipe.engine, &bases[count++].ranges);
        mdnn_engine_recipe_destroy(&recipe);
    }
    return count;
}

/* Engines take turns, so that none takes all the room. */
static void try_neighbours(offer_list_t *list)
{
    base_t *const bases = calloc(*list->count + 1, sizeof *bases);
    const size_t base_count = bases ? choose_bases(list, bases) : 0;
    bool more = base_count > 0;
    list->fruitless = 0;
    for (int64_t turn = 0; more; turn++) {
        more = false;
        for (size_t i = 0; i < base_count; i++) {
            mdnn_engine_t neighbour;
            if (*list->count == list->capacity || list->fruitless == FRUITLESS)
                break;
            if (!mdnn_engine_neighbour(&bases[i].engine, &bases[i].ranges, turn, &neighbour))
                continue;
            more = true;
            try_engine(list, &neighbour);
        }
        more = more && *list->count < list->capacity && list->fruitless < FRUITLESS;
    }
    free(bases);
}

/* PyTorch tries 10 plans unless told otherwise (torch.backends.cudnn.benchmark_limit). */
enum { FIRST_INSTANT = 12, FIRST_FALLBACK = 4 };

/* At most `more` offers of one list, behind those that are there. */
static void add_list(const mdnn_engines_t *engines, cudnnBackendDescriptor_t graph,
                     cudnnBackendHeurMode_t mode, size_t more, mdnn_engine_offer_t *offers,
                     size_t capacity, size_t *count)
{
    const size_t room = capacity - *count;
    ask_heuristics(engines, graph, mode, offers, *count + (more < room ? more : room), count);
}

mdnn_status_t mdnn_engines_list_instant(mdnn_engines_t *engines, cudnnHandle_t handle,
                                        int64_t images, mdnn_graph_scaling_t scaling,
                                        mdnn_engine_offer_t *offers, size_t capacity, size_t *count)
{
    mdnn_sized_graph_t *graph;
    *count = 0;
    MDNN_TRY(mdnn_engines_graph(engines, handle, images, scaling, &graph));
    add_list(engines, graph->graph, CUDNN_HEUR_MODE_INSTANT,
             engines->first_only ? FIRST_INSTANT : capacity, offers, capacity, count);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_engines_list(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, mdnn_engine_offer_t *offers,
                                size_t capacity, size_t *count)
{
    mdnn_sized_graph_t *graph;
    MDNN_TRY(mdnn_engines_list_instant(engines, handle, images, scaling, offers, capacity, count));
    MDNN_TRY(mdnn_engines_graph(engines, handle, images, scaling, &graph));
    if (!engines->first_only)
        add_list(engines, graph->graph, CUDNN_HEUR_MODE_B, capacity, offers, capacity, count);
    const size_t before = *count;
    add_list(engines, graph->graph, CUDNN_HEUR_MODE_FALLBACK,
             engines->first_only ? FIRST_FALLBACK : capacity, offers, capacity, count);
    for (size_t i = before; i < *count; i++)
        offers[i].fallback = true;
    if (engines->all) {
        offer_list_t list = {engines, handle, graph, offers, capacity, count, 0};
        try_defaults(&list);
        try_neighbours(&list);
    }
    return MDNN_STATUS_OK;
}
