/* Graphs, lists of engines and plans that shim/ makes, asked of a whole cuDNN that plans without a
 * GPU: whichever libcudnn.so.9 the library path names, the simulated one or the real one
 * (test_engines_real.sh). A layer between counts calls and descriptors, fails calls, and adds the
 * device that a program with a GPU has by its handle. Run in the repository's root.
 *
 *   test_engines [PACE]   visits every PACE-th of the kept plans only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/candidates/candidate_table.h"
#include "shim/candidates/engine_knobs.h"
#include "shim/candidates/engine_list.h"
#include "shim/candidates/graph_build.h"
#include "shim/graph/graph_json.h"

#define FOLDER "test/data/plan-json/"
enum { TEXT_BYTES = 1 << 18, CAPACITY = MDNN_CANDIDATE_ENGINES, LIVE_MAX = 8192, TYPES = 64 };

/* ---- the layer ---- */

/* libcudnn itself. */
static mdnn_cudnn_t library;
static cudnnBackendDescriptor_t device;

static struct {
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptorType_t type;
} live[LIVE_MAX];
static int live_count;
static int created[TYPES], destroyed[TYPES];
static int unknown_destroyed; /* neither live nor ours: destroyed twice */
static int64_t calls;
static int64_t fail_at;                        /* number of the call that fails; 0: none */
static cudnnBackendAttributeName_t unreadable; /* attribute that cannot be got; 0: none */

static bool fails(void)
{
    return ++calls == fail_at;
}

static int find_live(cudnnBackendDescriptor_t descriptor)
{
    int at = live_count - 1;
    while (at >= 0 && live[at].descriptor != descriptor)
        at--;
    return at;
}

static cudnnStatus_t layer_create(cudnnBackendDescriptorType_t type,
                                  cudnnBackendDescriptor_t *descriptor)
{
    if (fails())
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    const cudnnStatus_t status = library.cudnnBackendCreateDescriptor(type, descriptor);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    assert_in_range(live_count, 0, LIVE_MAX - 1);
    live[live_count].descriptor = *descriptor;
    live[live_count++].type = type;
    created[type]++;
    return status;
}

/* A failing destruction destroys all the same: nobody could do it again. */
static cudnnStatus_t layer_destroy(cudnnBackendDescriptor_t descriptor)
{
    const bool failing = fails();
    const int at = find_live(descriptor);
    if (at < 0) {
        unknown_destroyed++;
        return CUDNN_STATUS_BAD_PARAM;
    }
    destroyed[live[at].type]++;
    live[at] = live[--live_count];
    const cudnnStatus_t status = library.cudnnBackendDestroyDescriptor(descriptor);
    return failing ? CUDNN_STATUS_INTERNAL_ERROR : status;
}

static cudnnStatus_t layer_set(cudnnBackendDescriptor_t descriptor,
                               cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count, const void *elements)
{
    if (fails())
        return CUDNN_STATUS_NOT_SUPPORTED;
    if (type == CUDNN_TYPE_HANDLE)
        return CUDNN_STATUS_SUCCESS; /* there is none */
    return library.cudnnBackendSetAttribute(descriptor, name, type, count, elements);
}

static cudnnStatus_t layer_get(cudnnBackendDescriptor_t const descriptor,
                               cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t requested, int64_t *count, void *elements)
{
    if (fails() || (unreadable && name == unreadable))
        return CUDNN_STATUS_NOT_SUPPORTED;
    return library.cudnnBackendGetAttribute(descriptor, name, type, requested, count, elements);
}

static cudnnStatus_t layer_finalize(cudnnBackendDescriptor_t descriptor)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t device;
    } deviceless[] = {
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_DEVICEPROP},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP}};
    if (fails())
        return CUDNN_STATUS_NOT_SUPPORTED;
    const int at = find_live(descriptor);
    assert_true(at >= 0);
    for (size_t i = 0; i < sizeof deviceless / sizeof *deviceless; i++)
        if (live[at].type == deviceless[i].type)
            assert_int_equal(library.cudnnBackendSetAttribute(descriptor, deviceless[i].device,
                                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                                              &device),
                             CUDNN_STATUS_SUCCESS);
    return library.cudnnBackendFinalize(descriptor);
}

static const mdnn_cudnn_t layer = {.cudnnBackendCreateDescriptor = layer_create,
                                   .cudnnBackendDestroyDescriptor = layer_destroy,
                                   .cudnnBackendSetAttribute = layer_set,
                                   .cudnnBackendGetAttribute = layer_get,
                                   .cudnnBackendFinalize = layer_finalize,
                                   .has_graph = true};
/* Not NULL, and not looked at. */
#define HANDLE ((cudnnHandle_t)(uintptr_t)64)

static void *function(void *opened, const char *name)
{
    void *const found = dlsym(opened, name);
    if (!found)
        fail_msg("%s is missing", name);
    return found;
}

static size_t read_text(const char *path, char *text)
{
    FILE *const file = fopen(path, "r");
    if (!file)
        fail_msg("cannot read %s", path);
    const size_t bytes = fread(text, 1, TEXT_BYTES - 1, file);
    fclose(file);
    text[bytes] = '\0';
    return bytes;
}

static int open_library(void **state)
{
    static char json[TEXT_BYTES];
    (void)state;
    void *const opened = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        fail_msg("%s", dlerror());
#define FIND(name) *(void **)&library.name = function(opened, #name)
    FIND(cudnnBackendCreateDescriptor);
    FIND(cudnnBackendDestroyDescriptor);
    FIND(cudnnBackendSetAttribute);
    FIND(cudnnBackendGetAttribute);
    FIND(cudnnBackendFinalize);
    const size_t bytes = read_text("test/data/h200-deviceprop.json", json);
    assert_int_equal(
        library.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(library.cudnnBackendSetAttribute(device,
                                                      CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                      CUDNN_TYPE_CHAR, (int64_t)bytes + 1, json),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(library.cudnnBackendFinalize(device), CUDNN_STATUS_SUCCESS);
    return 0;
}

static int close_library(void **state)
{
    (void)state;
    return library.cudnnBackendDestroyDescriptor(device) != CUDNN_STATUS_SUCCESS;
}

static int reset_layer(void **state)
{
    (void)state;
    memset(created, 0, sizeof created);
    memset(destroyed, 0, sizeof destroyed);
    live_count = unknown_destroyed = 0;
    calls = fail_at = 0;
    unreadable = (cudnnBackendAttributeName_t)0;
    return 0;
}

static void nothing_is_left(void)
{
    assert_int_equal(live_count, 0);
    assert_int_equal(unknown_destroyed, 0);
    for (int type = 0; type < TYPES; type++)
        assert_int_equal(created[type], destroyed[type]);
}

/* ---- problems ---- */

typedef struct sample {
    char name[64];
    mdnn_graph_t graph;
    mdnn_graph_uids_t uids;
} sample_t;

static mdnn_graph_uids_t uids_of(const mdnn_graph_t *graph)
{
    return (mdnn_graph_uids_t){graph->x_uid, graph->w_uid, graph->y_uid,
                               graph->problem.z.dim_count ? graph->z_uid : -1,
                               graph->problem.bias.dim_count ? graph->bias_uid : -1};
}

/* False for plans that are none of a problem of ours. */
static bool read_sample(const char *name, sample_t *sample)
{
    static char text[TEXT_BYTES];
    char path[sizeof FOLDER + sizeof sample->name + 5];
    mdnn_graph_kind_t kind;
    snprintf(sample->name, sizeof sample->name, "%s", name);
    snprintf(path, sizeof path, FOLDER "%s.json", sample->name);
    const size_t bytes = read_text(path, text);
    if (mdnn_graph_read(text, bytes, &sample->graph, &kind) != MDNN_STATUS_OK)
        return false;
    sample->uids = uids_of(&sample->graph);
    return true;
}

static int is_json(const struct dirent *entry)
{
    return strstr(entry->d_name, ".json") != NULL;
}

/* How many samples there are for one that is visited. */
static int pace = 1;

static int for_each_sample(void (*visit)(const sample_t *))
{
    int visited = 0;
    struct dirent **entries;
    const int count = scandir(FOLDER, &entries, is_json, alphasort);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        sample_t sample;
        *strstr(entries[i]->d_name, ".json") = '\0';
        if (i % pace == 0 && read_sample(entries[i]->d_name, &sample)) {
            visit(&sample);
            visited++;
        }
        free(entries[i]);
    }
    free(entries);
    return visited;
}

static void set_batch(mdnn_problem_t *problem, int64_t images)
{
    problem->x.dims[0] = problem->y.dims[0] = (int32_t)images;
    if (problem->z.dim_count)
        problem->z.dims[0] = (int32_t)images;
}

static void set_scalars(mdnn_problem_t *problem, double alpha, double beta)
{
    memcpy(&problem->alpha_bits, &alpha, sizeof alpha);
    memcpy(&problem->beta_bits, &beta, sizeof beta);
    problem->alpha_class = mdnn_alpha_class(alpha);
    problem->beta_is_zero = beta == 0;
}

/* What the plan of a part must say of itself; it says nothing of what is accepted. */
static mdnn_problem_t expected_part(const mdnn_problem_t *problem, int64_t images,
                                    mdnn_graph_scaling_t scaling)
{
    mdnn_problem_t part = *problem;
    double alpha;
    memcpy(&alpha, &problem->alpha_bits, sizeof alpha);
    set_batch(&part, images);
    if (scaling == MDNN_SCALING_ADD)
        set_scalars(&part, alpha, 1);
    if (scaling == MDNN_SCALING_APART)
        set_scalars(&part, alpha, 0);
    part.math_type = 0;
    part.weak_notes = 0;
    return part;
}

static bool is_16_bit(const mdnn_problem_t *problem)
{
    return problem->x.type == CUDNN_DATA_HALF || problem->x.type == CUDNN_DATA_BFLOAT16;
}

static bool scaling_applies(const mdnn_problem_t *problem, mdnn_graph_scaling_t scaling)
{
    return scaling == MDNN_SCALING_CALLER || (problem->direction == MDNN_BACKWARD_FILTER &&
                                              (scaling == MDNN_SCALING_ADD || is_16_bit(problem)));
}

/* ---- what a plan says of itself ---- */

typedef struct part {
    const char *name;
    const mdnn_problem_t *problem;
    const mdnn_graph_uids_t *uids;
    mdnn_engines_t *engines;
    int64_t images;
    mdnn_graph_scaling_t scaling;
} part_t;

#define FAIL(part, ...)                                                                            \
    do {                                                                                           \
        print_error("%s, %d of %d images, scaling %d: ", (part)->name, (int)(part)->images,        \
                    (int)(part)->problem->x.dims[0], (int)(part)->scaling);                        \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

/* The plan's own words: `"engine":{"engineId":38,"smVersion":900,"knobChoices":{NAME:VALUE,...`.
 * The values there are those of the knobs that were asked for; further ones are left to cuDNN. */
static void check_knobs(const part_t *part, const mdnn_engine_t *engine, const char *text)
{
    const char *at = strstr(text, "\"engineId\":");
    bool found[MDNN_ENGINE_KNOBS] = {false};
    int32_t matched = 0;
    assert_non_null(at);
    if (strtol(at + strlen("\"engineId\":"), NULL, 10) != engine->id)
        FAIL(part, "not engine %d: %.200s", (int)engine->id, at);
    at = strstr(at, "\"knobChoices\":{");
    assert_non_null(at);
    at += strlen("\"knobChoices\":{");
    for (const char *const end = strchr(at, '}'); (at = strchr(at, ':')) && at < end; at++) {
        const long value = strtol(at + 1, NULL, 10);
        int32_t i = 0;
        while (i < engine->knob_count && (found[i] || engine->knobs[i].value != value))
            i++;
        if (i < engine->knob_count)
            found[i] = ++matched;
        else if (value != -1)
            FAIL(part, "engine %d has another knob set: %.300s", (int)engine->id, at);
    }
    if (matched != engine->knob_count)
        FAIL(part, "engine %d: only %d of %d knobs set: %.300s", (int)engine->id, (int)matched,
             (int)engine->knob_count, text);
}

/* Terminated; valid until the next call. */
static const char *json_of(cudnnBackendDescriptor_t plan)
{
    static char text[TEXT_BYTES];
    int64_t count = 0;
    assert_int_equal(
        library.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, TEXT_BYTES - 1, &count, text),
        CUDNN_STATUS_SUCCESS);
    assert_in_range(count, 1, TEXT_BYTES - 1);
    text[count] = '\0';
    return text;
}

static void check_graph(const part_t *part, const mdnn_engine_t *engine,
                        cudnnBackendDescriptor_t plan)
{
    mdnn_graph_t graph;
    mdnn_graph_kind_t kind;
    const char *const text = json_of(plan);
    if (mdnn_graph_read(text, strlen(text), &graph, &kind) != MDNN_STATUS_OK)
        FAIL(part, "a plan of ours is of kind %d", (int)kind);
    const mdnn_problem_t expected = expected_part(part->problem, part->images, part->scaling);
    if (!mdnn_problem_equal(&graph.problem, &expected))
        FAIL(part, "the plan is of another problem: %.800s", text);
    const mdnn_graph_uids_t uids = uids_of(&graph);
    if (memcmp(&uids, part->uids, sizeof uids) != 0)
        FAIL(part, "the plan has other ids: %.800s", text);
    check_knobs(part, engine, text);
}

static int64_t number_of(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name)
{
    int64_t count = 0, number = -1;
    assert_int_equal(
        library.cudnnBackendGetAttribute(from, name, CUDNN_TYPE_INT64, 1, &count, &number),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(count, 1);
    return number;
}

static void check_notes(const part_t *part, const mdnn_engine_offer_t *offer, uint32_t notes,
                        uint32_t behaviour)
{
    const mdnn_problem_t *const problem = part->problem;
    const bool tensor_cores = notes & 1U << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    const uint32_t weak = notes & MDNN_NOTES_WEAK;
    mdnn_engine_offer_t judged = *offer;
    if (tensor_cores && problem->math_type == CUDNN_FMA_MATH &&
        problem->x.type != CUDNN_DATA_DOUBLE)
        FAIL(part, "engine %d rounds on tensor cores", (int)offer->engine.id);
    if (weak & ~(uint32_t)problem->weak_notes)
        FAIL(part, "engine %d is weaker than the problem allows", (int)offer->engine.id);
    if (offer->strict && (weak || (tensor_cores && problem->x.type == CUDNN_DATA_FLOAT)))
        FAIL(part, "engine %d is not strict", (int)offer->engine.id);
    mdnn_engine_judge(problem, notes, behaviour, &judged);
    assert_memory_equal(&judged, offer, sizeof judged);
}

/* The identity and the workspace that the plan's own configuration has. */
static void check_engine(const part_t *part, const mdnn_engine_offer_t *offer,
                         const mdnn_engine_plan_t *made)
{
    mdnn_engine_t engine;
    uint32_t notes, behaviour;
    bool known;
    int64_t count = 0;
    cudnnBackendDescriptor_t configuration, filled;
    assert_int_equal(layer_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration),
                     CUDNN_STATUS_SUCCESS);
    filled = configuration;
    assert_int_equal(layer_get(made->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &filled),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(mdnn_engine_read(&layer, configuration, &engine, &notes, &behaviour, &known),
                     MDNN_STATUS_OK);
    assert_true(known);
    if (memcmp(&engine, &offer->engine, sizeof engine) != 0)
        FAIL(part, "engine %d was asked with %d knobs, %d has been planned with %d",
             (int)offer->engine.id, (int)offer->engine.knob_count, (int)engine.id,
             (int)engine.knob_count);
    assert_int_equal(offer->compiled,
                     (behaviour & 1U << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != 0);
    check_notes(part, offer, notes, behaviour);
    assert_in_range(made->workspace_bytes, 0,
                    number_of(configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
    layer_destroy(configuration);
}

/* True if it could be planned. What the answer is, it stays, and costs no second planning. */
static bool check_offer(const part_t *part, const mdnn_engine_offer_t *offer)
{
    const mdnn_engine_plan_t *plan = NULL, *again = NULL;
    const mdnn_status_t status = mdnn_engines_plan(part->engines, HANDLE, part->images,
                                                   part->scaling, &offer->engine, &plan);
    const int64_t before = calls;
    assert_int_equal(mdnn_engines_plan(part->engines, HANDLE, part->images, part->scaling,
                                       &offer->engine, &again),
                     status);
    assert_int_equal(calls, before);
    assert_ptr_equal(plan, again);
    if (status != MDNN_STATUS_OK) {
        assert_int_equal(status, MDNN_STATUS_UNSUPPORTED);
        assert_null(plan->plan);
        return false;
    }
    assert_int_equal(plan->workspace_bytes,
                     number_of(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    check_graph(part, &offer->engine, plan->plan);
    check_engine(part, offer, plan);
    return true;
}

/* The short list is the head of the long one, and has nothing that cuDNN falls back to. */
static void check_order(const part_t *part, const mdnn_engine_offer_t *offers, size_t count)
{
    mdnn_engine_offer_t instant[CAPACITY];
    size_t instant_count = 99999;
    assert_int_equal(mdnn_engines_list_instant(part->engines, HANDLE, part->images, part->scaling,
                                               instant, CAPACITY, &instant_count),
                     MDNN_STATUS_OK);
    assert_in_range(instant_count, 0, count);
    for (size_t i = 0; i < instant_count; i++)
        if (memcmp(&offers[i].engine, &instant[i].engine, sizeof instant[i].engine) != 0 ||
            offers[i].fallback || instant[i].fallback)
            FAIL(part, "offer %zu is another one in the short list", i);
}

static size_t list(const part_t *part, mdnn_engine_offer_t *offers, size_t capacity)
{
    size_t count = 99999;
    const mdnn_status_t status = mdnn_engines_list(part->engines, HANDLE, part->images,
                                                   part->scaling, offers, capacity, &count);
    if (status != MDNN_STATUS_OK)
        FAIL(part, "cuDNN refuses the graph (%d)", (int)status);
    assert_in_range(count, 0, capacity);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (memcmp(&offers[i].engine, &offers[j].engine, sizeof offers[i].engine) == 0)
                FAIL(part, "offers %zu and %zu are equal", i, j);
    if (capacity == CAPACITY && part->images == part->problem->x.dims[0])
        check_order(part, offers, count);
    return count;
}

/* ---- the tests ---- */

static int64_t offered, planned;

static void check_part(const part_t *part)
{
    mdnn_engine_offer_t offers[CAPACITY];
    size_t good = 0;
    const size_t count = list(part, offers, CAPACITY);
    for (size_t i = 0; i < count; i++)
        good += check_offer(part, &offers[i]);
    if (good == 0)
        FAIL(part, "none of %zu offers can be planned", count);
    offered += (int64_t)count;
    planned += (int64_t)good;
}

/* All sizes and scalings; `uids` NULL as from a legacy caller. */
static void check_problem(const char *name, const mdnn_problem_t *problem,
                          const mdnn_graph_uids_t *uids)
{
    const int64_t batch = problem->x.dims[0];
    part_t part = {.name = name, .problem = problem};
    assert_int_equal(mdnn_engines_create(&layer, problem, uids, &part.engines), MDNN_STATUS_OK);
    mdnn_graph_uids_t expected = *mdnn_engines_uids(part.engines);
    if (uids)
        assert_memory_equal(&expected, uids, sizeof expected);
    else
        expected.z = expected.bias = -1;
    part.uids = &expected;
    const int64_t sizes[] = {batch, batch / 2, batch / 4, 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int scaling = 0; scaling < MDNN_SCALING_COUNT; scaling++) {
            part.images = sizes[i];
            part.scaling = (mdnn_graph_scaling_t)scaling;
            if (scaling_applies(problem, part.scaling) && (i == 0 || sizes[i] < sizes[i - 1]))
                check_part(&part);
        }
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

static void check_batches(const sample_t *sample, int32_t math_type)
{
    static const int64_t batches[] = {8, 256, 7};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        mdnn_problem_t problem = sample->graph.problem;
        set_batch(&problem, batches[i]);
        problem.math_type = math_type;
        check_problem(sample->name, &problem, &sample->uids);
    }
}

static void check_sample(const sample_t *sample)
{
    check_batches(sample, CUDNN_DEFAULT_MATH);
}

static void nearly_all_were_planned(void)
{
    print_message("# %lld of %lld offers planned\n", (long long)planned, (long long)offered);
    assert_true(planned >= offered - offered / 10);
    offered = planned = 0;
}

static void plans_of_parts_are_those_of_the_problem(void **state)
{
    (void)state;
    assert_in_range(for_each_sample(check_sample), 60 / pace, 1000);
    nearly_all_were_planned();
}

static void check_strict_sample(const sample_t *sample)
{
    if (sample->graph.problem.x.type == CUDNN_DATA_FLOAT)
        check_batches(sample, CUDNN_FMA_MATH);
}

static void strict_problems_get_strict_engines(void **state)
{
    (void)state;
    for_each_sample(check_strict_sample);
    nearly_all_were_planned();
}

static void open_part(const char *name, sample_t *sample, part_t *part)
{
    assert_true(read_sample(name, sample));
    *part = (part_t){.name = sample->name,
                     .problem = &sample->graph.problem,
                     .uids = &sample->uids,
                     .images = 8};
    assert_int_equal(mdnn_engines_create(&layer, part->problem, part->uids, &part->engines),
                     MDNN_STATUS_OK);
}

/* The engines of plans, in the plans' own words. */
typedef struct words {
    int count;
    char at[3 * CAPACITY][400];
} words_t;

static bool has_words(const words_t *words, const char *engine)
{
    for (int i = 0; i < words->count; i++)
        if (strncmp(words->at[i], engine, sizeof words->at[i] - 1) == 0)
            return true;
    return false;
}

static void add_words(words_t *words, cudnnBackendDescriptor_t plan)
{
    const char *const engine = strstr(json_of(plan), "\"engineId\"");
    assert_non_null(engine);
    if (has_words(words, engine))
        return;
    assert_in_range(words->count, 0, 3 * CAPACITY - 1);
    snprintf(words->at[words->count++], sizeof words->at[0], "%s", engine);
}

/* What a program gets that asks cuDNN itself: plans from the configurations as they come. */
static void add_stock_plans(cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode,
                            words_t *words)
{
    cudnnBackendDescriptor_t heuristics, configurations[CAPACITY], plan;
    int64_t count = 0;
    layer_create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics);
    layer_set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
              &graph);
    layer_set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    assert_int_equal(layer_finalize(heuristics), CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < CAPACITY; i++)
        layer_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configurations[i]);
    layer_get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CAPACITY,
              &count, configurations);
    assert_in_range(count, 1, CAPACITY - 1);
    for (int i = 0; i < CAPACITY; i++) {
        layer_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan);
        layer_set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                  &configurations[i]);
        if (i < count && layer_finalize(plan) == CUDNN_STATUS_SUCCESS)
            add_words(words, plan);
        layer_destroy(plan);
        layer_destroy(configurations[i]);
    }
    layer_destroy(heuristics);
}

/* Where everything is accepted, our plans are those that the heuristics stand for: engine by
 * engine, knob by knob. */
static void check_stock(const char *name)
{
    static words_t stock, ours;
    sample_t sample;
    part_t part;
    mdnn_engine_offer_t offers[CAPACITY];
    const mdnn_engine_plan_t *plan;
    cudnnBackendDescriptor_t graph;
    stock.count = ours.count = 0;
    open_part(name, &sample, &part);
    sample.graph.problem.weak_notes = MDNN_NOTES_WEAK;
    assert_int_equal(
        mdnn_graph_build(&layer, NULL, part.problem, part.uids, part.images, part.scaling, &graph),
        MDNN_STATUS_OK);
    add_stock_plans(graph, CUDNN_HEUR_MODE_INSTANT, &stock);
    add_stock_plans(graph, CUDNN_HEUR_MODE_B, &stock);
    add_stock_plans(graph, CUDNN_HEUR_MODE_FALLBACK, &stock);
    layer_destroy(graph);
    const size_t count = list(&part, offers, CAPACITY);
    for (size_t i = 0; i < count; i++)
        if (mdnn_engines_plan(part.engines, HANDLE, part.images, part.scaling, &offers[i].engine,
                              &plan) == MDNN_STATUS_OK)
            add_words(&ours, plan->plan);
    for (int i = 0; i < stock.count; i++)
        if (!has_words(&ours, stock.at[i]))
            FAIL(&part, "%.120s... is not offered", stock.at[i]);
    assert_int_equal(ours.count, stock.count);
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

static void every_configuration_of_the_heuristics_is_offered(void **state)
{
    (void)state;
    check_stock("fwd-f32-nchw");
    check_stock("dgrad-bf16-nhwc");
    check_stock("wgrad-f16-nhwc");
    check_stock("wgrad-f64-nchw");
    check_stock("add-bias-relu-f16-nhwc");
}

/* Filters of the legacy API have a format and no strides, and tensors no ids. */
static void check_legacy_sample(const sample_t *sample)
{
    mdnn_problem_t problem = sample->graph.problem;
    part_t part = {.name = sample->name, .problem = &sample->graph.problem, .images = 3};
    mdnn_engine_offer_t offers[4];
    if (!(problem.interfaces & MDNN_INTERFACE_LEGACY))
        return;
    memset(problem.w.strides, 0, sizeof problem.w.strides);
    assert_int_equal(mdnn_engines_create(&layer, &problem, NULL, &part.engines), MDNN_STATUS_OK);
    mdnn_graph_uids_t uids = *mdnn_engines_uids(part.engines);
    uids.z = uids.bias = -1;
    part.uids = &uids;
    const size_t count = list(&part, offers, sizeof offers / sizeof *offers);
    for (size_t i = 0; i < count; i++)
        planned += check_offer(&part, &offers[i]);
    offered += (int64_t)count;
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

static void filters_of_the_legacy_api_get_their_strides(void **state)
{
    (void)state;
    for_each_sample(check_legacy_sample);
    assert_true(offered > 100 / pace);
    nearly_all_were_planned();
}

/* Accepting more gives more, of which the strict ones are told apart. */
static void weak_engines_come_only_if_accepted(void **state)
{
    (void)state;
    sample_t sample;
    part_t part;
    mdnn_engine_offer_t strict[CAPACITY], weak[CAPACITY];
    open_part("fwd-f32-nchw", &sample, &part);
    sample.graph.problem.math_type = CUDNN_FMA_MATH;
    const size_t strict_count = list(&part, strict, CAPACITY);
    sample.graph.problem.math_type = CUDNN_DEFAULT_MATH;
    sample.graph.problem.weak_notes = MDNN_NOTES_WEAK;
    const size_t weak_count = list(&part, weak, CAPACITY);
    size_t both = 0, strict_of_weak = 0;
    for (size_t i = 0; i < weak_count; i++) {
        strict_of_weak += weak[i].strict;
        for (size_t j = 0; j < strict_count; j++)
            both += memcmp(&weak[i], &strict[j], sizeof weak[i]) == 0;
    }
    assert_true(strict_count > 0 && strict_count < weak_count);
    assert_int_equal(both, strict_count);
    assert_int_equal(strict_of_weak, strict_count);
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

/* Else an engine whose notes are not known would pass for one without any. */
static void engines_without_readable_notes_are_not_offered(void **state)
{
    (void)state;
    static const cudnnBackendAttributeName_t notes[] = {CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                        CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE};
    for (int i = 0; i < 2; i++) {
        sample_t sample;
        part_t part;
        mdnn_engine_offer_t offers[CAPACITY];
        open_part("fwd-f32-nchw", &sample, &part);
        unreadable = notes[i];
        assert_int_equal(list(&part, offers, CAPACITY), 0);
        unreadable = (cudnnBackendAttributeName_t)0;
        assert_true(list(&part, offers, CAPACITY) > 0);
        mdnn_engines_destroy(part.engines);
        nothing_is_left();
    }
}

/* Plans of two sizes, every third of which is kept. */
static void a_sweep_destroys_the_plans_that_nobody_keeps(void **state)
{
    (void)state;
    enum { PLAN = CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR };
    sample_t sample;
    part_t part;
    mdnn_engine_offer_t offers[2][CAPACITY];
    cudnnBackendDescriptor_t kept[2 * CAPACITY];
    const mdnn_engine_plan_t *plan;
    int made = 0, kept_count = 0;
    size_t counts[2];
    open_part("wgrad-f32-nchw", &sample, &part);
    for (int size = 0; size < 2; size++) {
        part.images = size ? 2 : 8;
        counts[size] = list(&part, offers[size], CAPACITY);
        for (size_t i = 0; i < counts[size]; i++)
            if (mdnn_engines_plan(part.engines, HANDLE, part.images, part.scaling,
                                  &offers[size][i].engine, &plan) == MDNN_STATUS_OK &&
                made++ % 3 == 1) {
                mdnn_engines_keep(plan);
                kept[kept_count++] = plan->plan;
            }
    }
    assert_true(kept_count > 2 && made > kept_count + 2);
    const int before = destroyed[PLAN];
    mdnn_engines_sweep(part.engines);
    assert_int_equal(destroyed[PLAN] - before, made - kept_count);
    for (int i = 0; i < kept_count; i++)
        assert_true(find_live(kept[i]) >= 0);
    mdnn_engines_sweep(part.engines);
    assert_int_equal(destroyed[PLAN] - before, made - kept_count);
    part.images = 8;
    for (size_t i = 0; i < counts[0]; i++)
        (void)check_offer(&part, &offers[0][i]);
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

/* All that is done with engines, once. */
static void work(const part_t *opened, bool all, int *plans)
{
    part_t part = *opened;
    mdnn_engine_offer_t offers[6];
    const mdnn_engine_plan_t *plan;
    size_t count = 0;
    *plans = 0;
    assert_int_equal(mdnn_engines_create(&layer, part.problem, part.uids, &part.engines),
                     MDNN_STATUS_OK);
    if (all)
        mdnn_engines_offer_all(part.engines);
    (void)mdnn_engines_list(part.engines, HANDLE, 4, MDNN_SCALING_CALLER, offers,
                            sizeof offers / sizeof *offers, &count);
    assert_in_range(count, 0, sizeof offers / sizeof *offers);
    for (size_t i = 0; i < count; i++)
        if (mdnn_engines_plan(part.engines, HANDLE, 4, MDNN_SCALING_CALLER, &offers[i].engine,
                              &plan) == MDNN_STATUS_OK) {
            assert_true(find_live(plan->plan) >= 0);
            ++*plans;
            if (i % 2)
                mdnn_engines_keep(plan);
        }
    mdnn_engines_sweep(part.engines);
    mdnn_engines_destroy(part.engines);
}

/* Every call in turn fails once; where there are too many, some of them. */
static void check_failures(const char *name, bool all)
{
    enum { FAILURES = 400 };
    sample_t sample;
    part_t part;
    int plans;
    open_part(name, &sample, &part);
    mdnn_engines_destroy(part.engines);
    calls = 0;
    work(&part, all, &plans);
    assert_in_range(plans, 2, 6);
    const int64_t all_calls = calls, step = 1 + all_calls / FAILURES;
    for (int64_t n = 1; n <= all_calls; n += step) {
        calls = 0;
        fail_at = n;
        work(&part, all, &plans);
        assert_true(calls >= n);
        nothing_is_left();
    }
    fail_at = 0;
}

static void failures_leave_nothing_behind(void **state)
{
    (void)state;
    check_failures("add-bias-relu-f32", false);
    check_failures("wgrad-f32-nchw", false);
    check_failures("fwd-f64-nchw", true);
}

/* ---- every engine ---- */

static int64_t beyond; /* offers that the heuristics do not make */

static bool has_id(const mdnn_engine_offer_t *offers, size_t count, int32_t id)
{
    for (size_t i = 0; i < count; i++)
        if (offers[i].engine.id == id)
            return true;
    return false;
}

/* -1 is what cuDNN writes for a knob that is left to it. */
static int32_t knob_of(const mdnn_engine_t *engine, int32_t type)
{
    for (int32_t i = 0; i < engine->knob_count; i++)
        if (engine->knobs[i].type == type)
            return engine->knobs[i].value;
    return -1;
}

/* Of two settings of the same engine. */
static int knobs_apart(const mdnn_engine_t *a, const mdnn_engine_t *b)
{
    int apart = 0;
    for (int32_t type = 0; type < CUDNN_KNOB_TYPE_COUNTS; type++)
        apart += knob_of(a, type) != knob_of(b, type);
    return apart;
}

/* What lies behind the heuristics' list: all can be planned; an engine's first offer there may be
 * its defaults, another is one knob away from the first in the list. */
static void check_beyond(const part_t *part, const mdnn_engine_offer_t *offers, size_t listed,
                         size_t count)
{
    size_t strangers = 0;
    for (size_t i = listed; i < count; i++) {
        if (!check_offer(part, &offers[i]))
            FAIL(part, "engine %d is offered and cannot be planned", (int)offers[i].engine.id);
        size_t first = 0;
        while (offers[first].engine.id != offers[i].engine.id)
            first++;
        if (first < i && knobs_apart(&offers[first].engine, &offers[i].engine) > 1 &&
            has_id(&offers[listed], i - listed, offers[i].engine.id))
            strangers++;
    }
    if (strangers)
        FAIL(part, "%zu offers are neither defaults nor neighbours", strangers);
    beyond += (int64_t)(count - listed);
}

static void check_all_of_sample(const sample_t *sample)
{
    mdnn_engine_offer_t listed[CAPACITY], offers[CAPACITY];
    part_t part = {.name = sample->name,
                   .problem = &sample->graph.problem,
                   .uids = &sample->uids,
                   .images = 8};
    assert_int_equal(mdnn_engines_create(&layer, part.problem, part.uids, &part.engines),
                     MDNN_STATUS_OK);
    const size_t listed_count = list(&part, listed, CAPACITY);
    mdnn_engines_offer_all(part.engines);
    const size_t count = list(&part, offers, CAPACITY);
    assert_true(count >= listed_count);
    assert_memory_equal(offers, listed, listed_count * sizeof *offers);
    check_beyond(&part, offers, listed_count, count);
    const size_t few = listed_count < count ? listed_count + 1 : listed_count;
    assert_int_equal(list(&part, listed, few), few);
    assert_memory_equal(listed, offers, few * sizeof *offers);
    mdnn_engines_destroy(part.engines);
    nothing_is_left();
}

static void all_engines_follow_those_of_the_heuristics(void **state)
{
    (void)state;
    const int samples = for_each_sample(check_all_of_sample);
    print_message("# %lld offers more in %d problems\n", (long long)beyond, samples);
    assert_true(beyond > samples);
}

static void neighbours_differ_in_one_knob(void **state)
{
    (void)state;
    const mdnn_engine_t base = {.id = 5, .knob_count = 2, .knobs = {{2, 4}, {9, -1}}};
    const mdnn_knob_ranges_t ranges = {
        3, {{9, 0, 1, 1}, {2, 0, 8, 4}, {4, 7, 8, 2}}}; /* 9: not its default; 4: not set */
    static const mdnn_engine_t expected[] = {
        {.id = 5, .knob_count = 2, .knobs = {{2, 4}, {9, 0}}},
        {.id = 5, .knob_count = 2, .knobs = {{2, 4}, {9, 1}}},
        {.id = 5, .knob_count = 2, .knobs = {{2, 0}, {9, -1}}},
        {.id = 5, .knob_count = 2, .knobs = {{2, 8}, {9, -1}}},
        {.id = 5, .knob_count = 3, .knobs = {{2, 4}, {4, 7}, {9, -1}}}};
    enum { COUNT = sizeof expected / sizeof *expected };
    mdnn_engine_t neighbour;
    for (int turn = 0; turn < COUNT; turn++) {
        assert_true(mdnn_engine_neighbour(&base, &ranges, turn, &neighbour));
        assert_memory_equal(&neighbour, &expected[turn], sizeof neighbour);
    }
    assert_false(mdnn_engine_neighbour(&base, &ranges, COUNT, &neighbour));
    mdnn_engine_t full = {.id = 5, .knob_count = MDNN_ENGINE_KNOBS};
    for (int i = 0; i < MDNN_ENGINE_KNOBS; i++)
        full.knobs[i].type = 20 + i;
    assert_false(mdnn_engine_neighbour(&full, &ranges, 0, &neighbour));
}

#define TEST(name) cmocka_unit_test_setup(name, reset_layer)

int main(int argc, char **argv)
{
    pace = argc > 1 ? atoi(argv[1]) : 1;
    const struct CMUnitTest tests[] = {
        TEST(plans_of_parts_are_those_of_the_problem),
        TEST(strict_problems_get_strict_engines),
        TEST(every_configuration_of_the_heuristics_is_offered),
        TEST(filters_of_the_legacy_api_get_their_strides),
        TEST(weak_engines_come_only_if_accepted),
        TEST(engines_without_readable_notes_are_not_offered),
        TEST(a_sweep_destroys_the_plans_that_nobody_keeps),
        TEST(failures_leave_nothing_behind),
        TEST(all_engines_follow_those_of_the_heuristics),
        TEST(neighbours_differ_in_one_knob),
    };
    return cmocka_run_group_tests(tests, open_library, close_library);
}
