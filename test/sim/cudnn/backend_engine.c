/* The engines of engines.def. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend_engine.h"

enum engine_trait {
    LISTED = 1,
    FALLBACK = 2,
    FUSES = 4,
    GENERIC = 8,
    SPLITS = 16,
    NO_BETA = 32,
    SMALL_BATCH = 64,
    EVEN_BATCH = 128,
    COMPILED = 256
};

typedef struct engine {
    bool exists;
    sim_conv_algorithm_t algorithm;
    uint32_t notes; /* bits of cudnnBackendNumericalNote_t */
    unsigned traits;
    int tiles;
} engine_t;

#define FORWARD SIM_FORWARD
#define BACKWARD_DATA SIM_BACKWARD_DATA
#define BACKWARD_FILTER SIM_BACKWARD_FILTER
#define NOTE(name) (1u << CUDNN_NUMERICAL_NOTE_##name)

static const engine_t engines[SIM_DIRECTIONS][SIM_ENGINE_COUNT] = {
#define ENGINE(direction, index, kind, order, block, flags, efficiency, tensor_efficiency, passes, \
               kernels, half_waves, half_terms, beta_factor, notes, traits, tiles)                 \
    [direction][index] = {true,                                                                    \
                          {"engine " #index, KIND_##kind, ORDER_##order, block, flags, efficiency, \
                           tensor_efficiency, passes, kernels, half_waves, half_terms,             \
                           beta_factor},                                                           \
                          notes,                                                                   \
                          traits,                                                                  \
                          tiles},
#include "test/sim/cudnn/engines.def"
#undef ENGINE
};

/* Chains of pointwise operations and matrix products have one engine, compiled for them. */
static const engine_t generic_engine = {.exists = true, .traits = LISTED | GENERIC};

static bool is_convolution(const sim_graph_t *graph)
{
    return graph->pattern <= PATTERN_CONV_FUSION;
}

static const engine_t *find(const sim_graph_t *graph, int64_t index)
{
    if (index < 0 || index >= SIM_ENGINE_COUNT || graph->pattern == PATTERN_NONE)
        return NULL;
    if (!is_convolution(graph))
        return index == 0 ? &generic_engine : NULL;
    const engine_t *const engine = &engines[graph->problem.direction][index];
    return engine->exists ? engine : NULL;
}

/* The problem in the arithmetic of an engine: with tensor cores or without, for ever. */
static sim_conv_t problem_of(const sim_graph_t *graph, const engine_t *engine)
{
    sim_conv_t problem = graph->problem;
    problem.math_type = engine->notes & NOTE(TENSOR_CORE) ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
    return problem;
}

static cudnnStatus_t check_traits(const sim_graph_t *graph, const engine_t *engine)
{
    const int32_t images = graph->problem.x.dims[0];
    const bool generic = engine->traits & GENERIC;
    SIM_CUDNN_REQUIRE(graph->pattern != PATTERN_CONV_FUSION || generic,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(graph->pattern != PATTERN_CONVOLUTION || !generic,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(graph->pattern != PATTERN_CONV_ADD_BIAS_ACT || engine->traits & FUSES,
                      CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    SIM_CUDNN_REQUIRE(!(engine->traits & NO_BETA) || graph->epilogue.beta == 0.0,
                      CUDNN_STATUS_NOT_SUPPORTED);
    SIM_CUDNN_REQUIRE(!(engine->traits & SMALL_BATCH) || images <= 64,
                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    SIM_CUDNN_REQUIRE(!(engine->traits & EVEN_BATCH) || images % 2 == 0,
                      CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    SIM_CUDNN_REQUIRE(!(engine->notes & NOTE(DOWN_CONVERT_INPUTS)) ||
                          graph->problem.x.type == CUDNN_DATA_FLOAT,
                      CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_engine_supported(const sim_profile_t *profile, const sim_graph_t *graph,
                                   int64_t index)
{
    const engine_t *const engine = find(graph, index);
    if (graph->verdict != CUDNN_STATUS_SUCCESS)
        return sim_cudnn_fail(graph->verdict, "no engine runs this graph");
    SIM_CUDNN_REQUIRE(engine, CUDNN_STATUS_NOT_SUPPORTED);
    if (!is_convolution(graph))
        return CUDNN_STATUS_SUCCESS;
    SIM_CUDNN_TRY(check_traits(graph, engine));
    const sim_conv_t problem = problem_of(graph, engine);
    SIM_CUDNN_REQUIRE(!(engine->notes & NOTE(TENSOR_CORE)) ||
                          sim_conv_uses_tensor_cores(profile, &problem, &engine->algorithm),
                      CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
    return sim_conv_supported(profile, &problem, &engine->algorithm);
}

int sim_engine_numerical_notes(const sim_graph_t *graph, int64_t index, int32_t notes[16])
{
    const engine_t *const engine = find(graph, index);
    int count = 0;
    for (int i = 0; engine && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        if (engine->notes & 1u << i)
            notes[count++] = i;
    return count;
}

int sim_engine_behavior_notes(const sim_graph_t *graph, int64_t index, int32_t notes[16])
{
    const engine_t *const engine = find(graph, index);
    if (!engine || !(engine->traits & (GENERIC | COMPILED)))
        return 0;
    notes[0] = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return 1;
}

/* Knobs ---------------------------------------------------------------------------------------- */

int sim_engine_knobs(const sim_graph_t *graph, int64_t index, sim_knob_t greatest[SIM_KNOBS])
{
    const engine_t *const engine = find(graph, index);
    int count = 0;
    if (engine && engine->tiles)
        greatest[count++] = (sim_knob_t){CUDNN_KNOB_TYPE_TILE_SIZE, engine->tiles - 1};
    if (engine && engine->traits & SPLITS)
        greatest[count++] = (sim_knob_t){CUDNN_KNOB_TYPE_SPLIT_K_BUF, 3};
    return count;
}

sim_engine_config_t sim_engine_default(const sim_graph_t *graph, int64_t index)
{
    sim_engine_config_t config = {.engine = (int32_t)index};
    config.knob_count = sim_engine_knobs(graph, index, config.knobs);
    for (int i = 0; i < config.knob_count; i++)
        config.knobs[i].value = -1;
    return config;
}

cudnnStatus_t sim_engine_set_knob(const sim_graph_t *graph, sim_engine_config_t *config,
                                  int32_t type, int64_t value)
{
    sim_knob_t greatest[SIM_KNOBS];
    const int count = sim_engine_knobs(graph, config->engine, greatest);
    for (int i = 0; i < count; i++)
        if (greatest[i].type == type && value >= -1 && value <= greatest[i].value) {
            config->knobs[i].value = value;
            return CUDNN_STATUS_SUCCESS;
        }
    return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "knob");
}

static int64_t knob(const sim_engine_config_t *config, int32_t type)
{
    for (int i = 0; i < config->knob_count; i++)
        if (config->knobs[i].type == type && config->knobs[i].value > 0)
            return config->knobs[i].value;
    return 0;
}

void sim_engine_algorithm(const sim_graph_t *graph, const sim_engine_config_t *config,
                          sim_conv_t *problem, sim_conv_algorithm_t *algorithm)
{
    const engine_t *const engine = find(graph, config->engine);
    const double smaller = pow(0.5, (double)knob(config, CUDNN_KNOB_TYPE_TILE_SIZE));
    *problem = problem_of(graph, engine);
    *algorithm = engine->algorithm;
    algorithm->half_waves *= smaller;
    algorithm->efficiency *= 0.8 + 0.2 * smaller;
    algorithm->tensor_efficiency *= 0.8 + 0.2 * smaller;
    if (algorithm->block)
        algorithm->block >>= knob(config, CUDNN_KNOB_TYPE_TILE_SIZE);
}

/* Workspace and time --------------------------------------------------------------------------- */

static double output_bytes(const sim_graph_t *graph)
{
    const sim_conv_tensor_t *const out = &graph->epilogue.addend;
    double elements = 1.0;
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        elements *= out->dims[i];
    return elements * (double)sim_type_bytes((cudnnDataType_t)out->type);
}

/* Beyond the algorithm's own: partial sums; a copy of the old 16-bit output where it is blended; a
 * few bytes that depend on the tile and round to nothing, as the real ones' do. */
static double extra_bytes(const sim_graph_t *graph, const engine_t *engine,
                          const sim_engine_config_t *config)
{
    double bytes = 0.0;
    if (engine->traits & SPLITS)
        bytes +=
            output_bytes(graph) * (double)(int64_t)(1 << knob(config, CUDNN_KNOB_TYPE_SPLIT_K_BUF));
    if (graph->epilogue.beta != 0.0 &&
        sim_type_bytes((cudnnDataType_t)graph->problem.x.type) == 2 &&
        engine->notes & NOTE(TENSOR_CORE))
        bytes += output_bytes(graph) + 16.0;
    if (engine->notes & NOTE(TENSOR_CORE) && engine->tiles)
        bytes += 131.0 + 1536.0 * (double)knob(config, CUDNN_KNOB_TYPE_TILE_SIZE);
    return bytes;
}

uint64_t sim_engine_workspace_bytes(const sim_profile_t *profile, const sim_graph_t *graph,
                                    const sim_engine_config_t *config)
{
    const engine_t *const engine = find(graph, config->engine);
    if (!is_convolution(graph))
        return 0;
    sim_conv_t problem;
    sim_conv_algorithm_t algorithm;
    sim_engine_algorithm(graph, config, &problem, &algorithm);
    return sim_conv_workspace_bytes(profile, &problem, &algorithm) +
           (uint64_t)extra_bytes(graph, engine, config);
}

/* Bytes of the tensors of a graph that are in memory. */
static double tensor_bytes(const sim_graph_t *graph)
{
    double bytes = 0.0;
    for (int i = 0; i < graph->tensor_count; i++) {
        const sim_graph_tensor_t *const tensor = &graph->tensors[i];
        double elements = tensor->is_virtual ? 0.0 : 1.0;
        for (int d = 0; d < tensor->dim_count; d++)
            elements *= (double)tensor->dims[d];
        bytes += elements * (double)sim_type_bytes((cudnnDataType_t)tensor->type);
    }
    return bytes;
}

double sim_engine_cost_us(const sim_profile_t *profile, const sim_graph_t *graph,
                          const sim_engine_config_t *config)
{
    const double memory_us = sim_cudnn_memory_cost_us(profile, tensor_bytes(graph));
    if (!is_convolution(graph)) {
        if (graph->pattern != PATTERN_MATMUL)
            return memory_us;
        const sim_graph_tensor_t *const a = &graph->tensors[graph->nodes[0].in];
        const sim_graph_tensor_t *const c = &graph->tensors[graph->nodes[0].out];
        const double work =
            2.0 * (double)a->dims[2] * (double)c->dims[0] * (double)c->dims[1] * (double)c->dims[2];
        return fmax(memory_us, work / (profile->fp32_tflops * 0.4e6));
    }
    const engine_t *const engine = find(graph, config->engine);
    sim_conv_t problem;
    sim_conv_algorithm_t algorithm;
    sim_engine_algorithm(graph, config, &problem, &algorithm);
    double cost_us = sim_conv_cost_us(profile, &problem, &algorithm, graph->epilogue.beta != 0.0);
    const double traffic = 2.0 * extra_bytes(graph, engine, config);
    for (int i = 0; i < SIM_CONV_OPERANDS; i++)
        if (graph->operands[i] >= 0 && graph->epilogue.operands[i].strides[3])
            cost_us += output_bytes(graph) / (profile->memory_gbps * 0.8e3);
    return cost_us + traffic / (profile->memory_gbps * 0.8e3);
}

/* Heuristics ----------------------------------------------------------------------------------- */

typedef struct guess {
    sim_engine_config_t config;
    double us;
} guess_t;

/* Between 0.75 and 1.5, the same for the same problem and configuration. */
static double error_of(const sim_graph_t *graph, const sim_engine_config_t *config)
{
    uint64_t mixed = (uint64_t)config->engine * 31 + (uint64_t)(config->knobs[0].value + 1) * 7 + 1;
    for (int i = 0; i < SIM_CONV_DIMS; i++)
        mixed = (mixed ^ (uint64_t)graph->problem.x.dims[i] ^
                 (uint64_t)graph->problem.w.dims[i] << 20) *
                UINT64_C(0x9e3779b97f4a7c15);
    return 0.75 + 0.75 * (double)(mixed >> 40) / (double)(1 << 24);
}

static int compare_guesses(const void *a, const void *b)
{
    const guess_t *const left = a, *const right = b;
    if (left->us != right->us)
        return left->us < right->us ? -1 : 1;
    return left->config.engine - right->config.engine;
}

/* With and without its knobs set: the instant lists name every tile, the fallback leaves them open.
 */
static int add_guesses(const sim_profile_t *profile, const sim_graph_t *graph, int index,
                       int32_t mode, guess_t *guesses)
{
    sim_knob_t greatest[SIM_KNOBS];
    sim_engine_config_t config = sim_engine_default(graph, index);
    const int knobs = sim_engine_knobs(graph, index, greatest);
    const bool fallback = mode == CUDNN_HEUR_MODE_FALLBACK;
    const int64_t tiles = !fallback && knobs ? greatest[0].value + 1 : 1;
    for (int64_t tile = 0; tile < tiles; tile++) {
        for (int i = 0; !fallback && i < knobs; i++)
            config.knobs[i].value = i == 0 ? tile : 0;
        guesses[tile].config = config;
        guesses[tile].us = sim_engine_cost_us(profile, graph, &config);
        if (mode != CUDNN_HEUR_MODE_B)
            guesses[tile].us *= error_of(graph, &config);
    }
    return (int)tiles;
}

int sim_engine_list(const sim_profile_t *profile, const sim_graph_t *graph, int32_t mode,
                    sim_engine_config_t configs[SIM_CONFIGS_MAX])
{
    const unsigned wanted = mode == CUDNN_HEUR_MODE_FALLBACK ? FALLBACK : LISTED;
    guess_t guesses[SIM_CONFIGS_MAX];
    int count = 0;
    for (int i = 0; i < SIM_ENGINE_COUNT; i++) {
        const engine_t *const engine = find(graph, i);
        if (engine && engine->traits & wanted &&
            sim_engine_supported(profile, graph, i) == CUDNN_STATUS_SUCCESS)
            count += add_guesses(profile, graph, i, mode, &guesses[count]);
    }
    qsort(guesses, (size_t)count, sizeof *guesses, compare_guesses);
    for (int i = 0; i < count; i++)
        configs[i] = guesses[i].config;
    return count;
}
