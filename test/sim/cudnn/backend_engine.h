/* Engines: which can run a graph, with which knobs, how much workspace and how fast. */
#ifndef SIM_CUDNN_BACKEND_ENGINE_H
#define SIM_CUDNN_BACKEND_ENGINE_H

#include "test/sim/cudnn/backend_graph.h"

enum {
    SIM_ENGINE_COUNT = 17, /* global count of every graph; most indices refuse most graphs */
    SIM_KNOBS = 2,
    SIM_CONFIGS_MAX = 40
};

typedef struct sim_knob {
    int32_t type;  /* cudnnBackendKnobType_t */
    int64_t value; /* -1: the engine's own choice */
} sim_knob_t;

/* An engine with its knobs set; what a plan is made of. */
typedef struct sim_engine_config {
    int32_t engine;
    int32_t knob_count;
    sim_knob_t knobs[SIM_KNOBS];
} sim_engine_config_t;

/* SUCCESS, or why engine `index` is no engine for this graph. */
cudnnStatus_t sim_engine_supported(const sim_profile_t *profile, const sim_graph_t *graph,
                                   int64_t index);

/* `most` = 0 asks for the count; otherwise up to that many are written. Both return the count there
 * is. Notes are of cudnnBackendNumericalNote_t and cudnnBackendBehaviorNote_t. */
int sim_engine_numerical_notes(const sim_graph_t *graph, int64_t index, int32_t notes[16]);
int sim_engine_behavior_notes(const sim_graph_t *graph, int64_t index, int32_t notes[16]);
/* The knobs that the engine has, each with its greatest value; the least is 0, the step 1. */
int sim_engine_knobs(const sim_graph_t *graph, int64_t index, sim_knob_t greatest[SIM_KNOBS]);

/* The engine's own configuration: every knob -1. */
sim_engine_config_t sim_engine_default(const sim_graph_t *graph, int64_t index);
/* NOT_SUPPORTED for a knob that the engine lacks or a value beyond its range. */
cudnnStatus_t sim_engine_set_knob(const sim_graph_t *graph, sim_engine_config_t *config,
                                  int32_t type, int64_t value);

uint64_t sim_engine_workspace_bytes(const sim_profile_t *profile, const sim_graph_t *graph,
                                    const sim_engine_config_t *config);
double sim_engine_cost_us(const sim_profile_t *profile, const sim_graph_t *graph,
                          const sim_engine_config_t *config);
/* The arithmetic of a convolution pattern: the problem as this engine takes it, and the algorithm.
 */
void sim_engine_algorithm(const sim_graph_t *graph, const sim_engine_config_t *config,
                          sim_conv_t *problem, sim_conv_algorithm_t *algorithm);

/* The list that a heuristics mode gives, best guess first. Returns how many. */
int sim_engine_list(const sim_profile_t *profile, const sim_graph_t *graph, int32_t mode,
                    sim_engine_config_t configs[SIM_CONFIGS_MAX]);

#endif
