#include "shim/candidates/engines.h"

#include <stdlib.h>
#include <string.h>

#include "config/clock.h"
#include "config/log.h"
#include "shim/candidates/engine_knobs.h"
#include "shim/candidates/graph_build.h"

enum { CONFIGURATIONS = 128, NOTES = 32, UID_COUNT = 5 };
/* So many neighbours in a row that are refused or known already end the search for more. */
enum { FRUITLESS = 128 };

/* The numerical notes that make results weaker than those of the plain algorithms. */
enum {
    NOTE_TENSOR_CORE = 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    NOTES_INDIRECT = 1 << CUDNN_NUMERICAL_NOTE_FFT | 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
    /* Data that such engines read must have been reordered before. */
    BEHAVIOUR_REORDERED = 1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER |
                          1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER
};

typedef struct kept_plan {
    mdnn_engine_t engine;
    bool supported;
    mdnn_engine_plan_t made;
    struct kept_plan *next;
} kept_plan_t;

/* The graph of one part size, and its plans. */
typedef struct sized_graph {
    int64_t images;
    mdnn_graph_scaling_t scaling;
    cudnnBackendDescriptor_t graph; /* NULL: cuDNN has none */
    kept_plan_t *plans;
    struct sized_graph *next;
} sized_graph_t;

/* Notes belong to the engine, whatever its knobs and the size. */
typedef struct judged_engine {
    int32_t id;
    bool admissible;
    mdnn_engine_offer_t offer;
    struct judged_engine *next;
} judged_engine_t;

struct mdnn_engines {
    const mdnn_cudnn_t *cudnn;
    const mdnn_problem_t *problem;
    mdnn_graph_uids_t uids;
    bool all;
    bool first_only; /* short lists */
    sized_graph_t *graphs;
    judged_engine_t *judged;
};

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

void mdnn_engines_offer_first(mdnn_engines_t *engines)
{
    engines->first_only = true;
}

void mdnn_engines_offer_all(mdnn_engines_t *engines)
{
    engines->all = true;
}

const mdnn_graph_uids_t *mdnn_engines_uids(const mdnn_engines_t *engines)
{
    return &engines->uids;
}

static void destroy(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t descriptor)
{
    if (descriptor)
        (void)cudnn->cudnnBackendDestroyDescriptor(descriptor);
}

static void destroy_graph(const mdnn_cudnn_t *cudnn, sized_graph_t *graph)
{
    while (graph->plans) {
        kept_plan_t *const next = graph->plans->next;
        destroy(cudnn, graph->plans->made.plan);
        free(graph->plans);
        graph->plans = next;
    }
    destroy(cudnn, graph->graph);
    free(graph);
}

void mdnn_engines_destroy(mdnn_engines_t *engines)
{
    if (!engines)
        return;
    while (engines->graphs) {
        sized_graph_t *const next = engines->graphs->next;
        destroy_graph(engines->cudnn, engines->graphs);
        engines->graphs = next;
    }
    while (engines->judged) {
        judged_engine_t *const next = engines->judged->next;
        free(engines->judged);
        engines->judged = next;
    }
    free(engines);
}

static mdnn_status_t graph_for(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                               mdnn_graph_scaling_t scaling, sized_graph_t **found)
{
    sized_graph_t *graph = engines->graphs;
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

static cudnnBackendDescriptor_t create(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    return cudnn->cudnnBackendCreateDescriptor(type, &made) == CUDNN_STATUS_SUCCESS ? made : NULL;
}

/* ---- reading what cuDNN offers ---- */

static bool get_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t from,
                    cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, void *value)
{
    int64_t count = 0;
    return cudnn->cudnnBackendGetAttribute(from, name, type, 1, &count, value) ==
               CUDNN_STATUS_SUCCESS &&
           count == 1;
}

/* An array of enums as bits; a value that does not fit counts as bit 31, which nothing admits. */
static bool get_bits(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t from,
                     cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     uint32_t *bits)
{
    int32_t values[NOTES];
    int64_t count = 0;
    *bits = 0;
    if (cudnn->cudnnBackendGetAttribute(from, name, type, NOTES, &count, values) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < count && i < NOTES; i++)
        *bits |= 1U << (values[i] >= 0 && values[i] < 31 ? values[i] : 31);
    return true;
}

static bool read_knob(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t choice,
                      struct mdnn_knob *knob)
{
    cudnnBackendKnobType_t type;
    int64_t value;
    if (!get_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, &type) ||
        !get_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value) ||
        value != (int32_t)value)
        return false;
    knob->type = (int32_t)type;
    knob->value = (int32_t)value;
    return true;
}

static int compare_knobs(const void *a, const void *b)
{
    const int32_t x = ((const struct mdnn_knob *)a)->type, y = ((const struct mdnn_knob *)b)->type;
    return (x > y) - (x < y);
}

/* Descriptors that Get fills must be there, of the right type, before. */
static size_t create_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptorType_t type,
                          cudnnBackendDescriptor_t *made, size_t wanted)
{
    size_t count = 0;
    while (count < wanted && (made[count] = create(cudnn, type)) != NULL)
        count++;
    return count;
}

static void destroy_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t *descriptors,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        destroy(cudnn, descriptors[i]);
}

/* cuDNN does not say how many knobs there are before it is given room for them (it says 0), so
 * there is room for one too many. */
static bool read_knobs(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                       mdnn_engine_t *engine)
{
    enum { ROOM = MDNN_ENGINE_KNOBS + 1 };
    cudnnBackendDescriptor_t choices[ROOM];
    int64_t count = -1;
    const size_t made = create_many(cudnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, choices, ROOM);
    bool good = made == ROOM &&
                cudnn->cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, ROOM, &count,
                                                choices) == CUDNN_STATUS_SUCCESS &&
                count >= 0 && count <= MDNN_ENGINE_KNOBS;
    for (int64_t i = 0; good && i < count; i++)
        good = read_knob(cudnn, choices[i], &engine->knobs[i]);
    destroy_many(cudnn, choices, made);
    if (!good)
        return false;
    engine->knob_count = (int32_t)count;
    qsort(engine->knobs, (size_t)count, sizeof *engine->knobs, compare_knobs);
    return true;
}

/* An engine whose notes cannot be read is not one without notes. */
static bool read_notes(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine, uint32_t *notes,
                       uint32_t *behaviour)
{
    if (get_bits(cudnn, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 notes) &&
        get_bits(cudnn, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                 behaviour))
        return true;
    *notes = *behaviour = 0;
    return false;
}

mdnn_status_t mdnn_engine_read(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                               mdnn_engine_t *engine, uint32_t *notes, uint32_t *behaviour,
                               bool *notes_known)
{
    int64_t index = -1;
    memset(engine, 0, sizeof *engine);
    *notes = *behaviour = 0;
    *notes_known = false;
    const cudnnBackendDescriptor_t made = create(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t of_configuration = made;
    bool good = made && get_one(cudnn, configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, &of_configuration);
    if (good) {
        *notes_known = read_notes(cudnn, made, notes, behaviour);
        good = *notes_known &&
               get_one(cudnn, made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, &index) &&
               index >= 0 && index <= INT16_MAX;
        engine->id = (int32_t)index;
    }
    destroy(cudnn, made);
    return good && read_knobs(cudnn, configuration, engine) ? MDNN_STATUS_OK
                                                            : MDNN_STATUS_UNSUPPORTED;
}

/* Never weaker than the caller: rounded inputs and reduced precision only where it accepted them.
 */
static bool is_admissible(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour)
{
    const bool rounds =
        problem->math_type != CUDNN_FMA_MATH || problem->x.type == CUDNN_DATA_DOUBLE;
    const uint32_t weak = notes & MDNN_NOTES_WEAK;
    return notes < 1U << 31 && (weak & ~(uint32_t)problem->weak_notes) == 0 &&
           (rounds || !(notes & NOTE_TENSOR_CORE)) && !(behaviour & BEHAVIOUR_REORDERED);
}

void mdnn_engine_judge(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour,
                       mdnn_engine_offer_t *offer)
{
    offer->compiled = behaviour & 1U << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    offer->deterministic = !(notes & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    offer->direct = !(notes & NOTES_INDIRECT);
    offer->strict = !(notes & MDNN_NOTES_WEAK) &&
                    !(notes & NOTE_TENSOR_CORE && problem->x.type == CUDNN_DATA_FLOAT);
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
        !is_admissible(engines->problem, notes, behaviour) ||
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
    const size_t made = create_many(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, configurations,
                                    wanted < CONFIGURATIONS ? (size_t)wanted : CONFIGURATIONS);
    if (cudnn->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)made, &found,
                                        configurations) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < found && i < (int64_t)made; i++)
            take_offer(engines, configurations[i], offers, capacity, count);
    destroy_many(cudnn, configurations, made);
}

static void ask_heuristics(const mdnn_engines_t *engines, cudnnBackendDescriptor_t graph,
                           cudnnBackendHeurMode_t mode, mdnn_engine_offer_t *offers,
                           size_t capacity, size_t *count)
{
    const mdnn_cudnn_t *const cudnn = engines->cudnn;
    const cudnnBackendDescriptor_t heuristics = create(cudnn, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    if (!heuristics)
        return;
    if (cudnn->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                        &graph) == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendSetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                        CUDNN_TYPE_HEUR_MODE, 1, &mode) == CUDNN_STATUS_SUCCESS &&
        cudnn->cudnnBackendFinalize(heuristics) == CUDNN_STATUS_SUCCESS)
        read_results(engines, heuristics, offers, capacity, count);
    destroy(cudnn, heuristics);
}

/* ---- plans ---- */

/* Descriptors that live until the plan is made. */
typedef struct recipe {
    const mdnn_cudnn_t *cudnn;
    cudnnBackendDescriptor_t engine, configuration;
    cudnnBackendDescriptor_t choices[MDNN_ENGINE_KNOBS];
    int32_t choice_count;
} recipe_t;

static bool set_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t descriptor,
                    cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                    const void *value)
{
    return cudnn->cudnnBackendSetAttribute(descriptor, name, type, 1, value) ==
           CUDNN_STATUS_SUCCESS;
}

static bool make_engine(recipe_t *recipe, cudnnBackendDescriptor_t graph, int64_t index)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    recipe->engine = create(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    return recipe->engine &&
           set_one(cudnn, recipe->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, &graph) &&
           set_one(cudnn, recipe->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                   &index) &&
           cudnn->cudnnBackendFinalize(recipe->engine) == CUDNN_STATUS_SUCCESS;
}

static bool make_choices(recipe_t *recipe, const mdnn_engine_t *engine)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    for (int32_t i = 0; i < engine->knob_count; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)engine->knobs[i].type;
        const int64_t value = engine->knobs[i].value;
        const cudnnBackendDescriptor_t choice = create(cudnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        if (!choice)
            return false;
        recipe->choices[recipe->choice_count++] = choice;
        if (!set_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                     &type) ||
            !set_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, &value) ||
            cudnn->cudnnBackendFinalize(choice) != CUDNN_STATUS_SUCCESS)
            return false;
    }
    return true;
}

static bool make_configuration(recipe_t *recipe)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    recipe->configuration = create(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    return recipe->configuration &&
           set_one(cudnn, recipe->configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                   CUDNN_TYPE_BACKEND_DESCRIPTOR, &recipe->engine) &&
           (recipe->choice_count == 0 ||
            cudnn->cudnnBackendSetAttribute(recipe->configuration,
                                            CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, recipe->choice_count,
                                            recipe->choices) == CUDNN_STATUS_SUCCESS) &&
           cudnn->cudnnBackendFinalize(recipe->configuration) == CUDNN_STATUS_SUCCESS;
}

static bool finish_plan(recipe_t *recipe, cudnnHandle_t handle, mdnn_engine_plan_t *made)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    int64_t bytes = -1;
    made->plan = create(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!made->plan ||
        !set_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle) ||
        !set_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                 CUDNN_TYPE_BACKEND_DESCRIPTOR, &recipe->configuration) ||
        cudnn->cudnnBackendFinalize(made->plan) != CUDNN_STATUS_SUCCESS ||
        !get_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                 &bytes) ||
        bytes < 0)
        return false;
    made->workspace_bytes = (uint64_t)bytes;
    return true;
}

/* `recipe` is to be destroyed in either case. */
static bool make_recipe(recipe_t *recipe, cudnnBackendDescriptor_t graph,
                        const mdnn_engine_t *engine)
{
    return make_engine(recipe, graph, engine->id) && make_choices(recipe, engine) &&
           make_configuration(recipe);
}

static void destroy_recipe(recipe_t *recipe)
{
    destroy(recipe->cudnn, recipe->configuration);
    destroy_many(recipe->cudnn, recipe->choices, (size_t)recipe->choice_count);
    destroy(recipe->cudnn, recipe->engine);
}

/* False if cuDNN has no such engine for the graph. */
static bool read_engine(const mdnn_engines_t *engines, const sized_graph_t *graph,
                        judged_engine_t *judged)
{
    recipe_t recipe = {.cudnn = engines->cudnn};
    uint32_t notes, behaviour;
    const bool read = make_engine(&recipe, graph->graph, judged->id) &&
                      read_notes(engines->cudnn, recipe.engine, &notes, &behaviour);
    destroy_recipe(&recipe);
    if (!read)
        return false;
    judged->admissible = is_admissible(engines->problem, notes, behaviour);
    mdnn_engine_judge(engines->problem, notes, behaviour, &judged->offer);
    return true;
}

static mdnn_status_t judge_anew(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                int32_t id, const judged_engine_t **judged)
{
    sized_graph_t *graph;
    MDNN_TRY(graph_for(engines, handle, images, MDNN_SCALING_CALLER, &graph));
    judged_engine_t *const made = calloc(1, sizeof *made);
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
    const judged_engine_t *judged = engines->judged;
    while (judged && judged->id != id)
        judged = judged->next;
    if (!judged)
        MDNN_TRY(judge_anew(engines, handle, images, id, &judged));
    *offer = judged->offer;
    return judged->admissible ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

static bool make_plan(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                      cudnnBackendDescriptor_t graph, const mdnn_engine_t *engine,
                      mdnn_engine_plan_t *made)
{
    recipe_t recipe = {.cudnn = cudnn};
    const bool good = make_recipe(&recipe, graph, engine) && finish_plan(&recipe, handle, made);
    destroy_recipe(&recipe);
    if (!good) {
        destroy(cudnn, made->plan);
        made->plan = NULL;
    }
    return good;
}

/* Says how long it took: some engines are compiled for each shape, and then planning is what a
 * program's start costs. */
static void plan_once(const mdnn_engines_t *engines, cudnnHandle_t handle,
                      const sized_graph_t *graph, kept_plan_t *kept)
{
    const double begin_us = mdnn_now_us();
    kept->supported = make_plan(engines->cudnn, handle, graph->graph, &kept->engine, &kept->made);
    MDNN_LOG(MDNN_LOG_DEBUG, "engines", "planned engine %d for %lld images in %.1f ms%s",
             kept->engine.id, (long long)graph->images, (mdnn_now_us() - begin_us) / 1e3,
             kept->supported ? "" : ": not supported");
}

mdnn_status_t mdnn_engines_plan(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, const mdnn_engine_t *engine,
                                const mdnn_engine_plan_t **plan)
{
    sized_graph_t *graph;
    MDNN_TRY(graph_for(engines, handle, images, scaling, &graph));
    kept_plan_t *kept = graph->plans;
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

/* ---- lists ---- */

/* A list of offers that grows beyond what the heuristics say. */
typedef struct offer_list {
    mdnn_engines_t *engines;
    cudnnHandle_t handle;
    const sized_graph_t *graph;
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
    recipe_t recipe = {.cudnn = cudnn};
    if (make_recipe(&recipe, list->graph->graph, engine))
        take_offer(list->engines, recipe.configuration, list->offers, list->capacity, list->count);
    destroy_recipe(&recipe);
    if (*list->count > before &&
        mdnn_engines_plan(list->engines, list->handle, list->graph->images, list->graph->scaling,
                          &list->offers[before].engine, &plan) != MDNN_STATUS_OK)
        *list->count = before;
    list->fruitless = *list->count > before ? 0 : list->fruitless + 1;
}

static void try_defaults(offer_list_t *list)
{
    int64_t engine_count = 0;
    if (!get_one(list->engines->cudnn, list->graph->graph,
                 CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, &engine_count))
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
        recipe_t recipe = {.cudnn = list->engines->cudnn};
        bases[count].engine = *engine;
        if (make_engine(&recipe, list->graph->graph, engine->id))
            mdnn_engine_knob_ranges(recipe.cudnn, recipe.engine, &bases[count++].ranges);
        destroy_recipe(&recipe);
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
    sized_graph_t *graph;
    *count = 0;
    MDNN_TRY(graph_for(engines, handle, images, scaling, &graph));
    add_list(engines, graph->graph, CUDNN_HEUR_MODE_INSTANT,
             engines->first_only ? FIRST_INSTANT : capacity, offers, capacity, count);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_engines_list(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                mdnn_graph_scaling_t scaling, mdnn_engine_offer_t *offers,
                                size_t capacity, size_t *count)
{
    sized_graph_t *graph;
    MDNN_TRY(mdnn_engines_list_instant(engines, handle, images, scaling, offers, capacity, count));
    MDNN_TRY(graph_for(engines, handle, images, scaling, &graph));
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

void mdnn_engines_keep(const mdnn_engine_plan_t *plan)
{
    /* Ours, given out as const: only this function writes, and the planner alone (planning.h). */
    ((mdnn_engine_plan_t *)(uintptr_t)plan)->kept = true;
}

void mdnn_engines_sweep(mdnn_engines_t *engines)
{
    for (sized_graph_t *graph = engines->graphs; graph; graph = graph->next)
        for (kept_plan_t **at = &graph->plans; *at;) {
            kept_plan_t *const each = *at;
            if (each->made.kept) {
                at = &each->next;
                continue;
            }
            *at = each->next;
            destroy(engines->cudnn, each->made.plan);
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
