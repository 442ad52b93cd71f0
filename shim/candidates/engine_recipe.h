/* Turns an engine's identity into cuDNN's descriptors: its engine, its knobs, its configuration and their execution
 * plan. Only the planner calls it (shim/convolution/planning.h). */
#ifndef MDNN_ENGINE_RECIPE_H
#define MDNN_ENGINE_RECIPE_H

#include "shim/candidates/engine_identity.h"

/* Descriptors that live until the plan is made. */
typedef struct mdnn_engine_recipe {
    const mdnn_cudnn_t *cudnn;
    cudnnBackendDescriptor_t engine, configuration;
    cudnnBackendDescriptor_t choices[MDNN_ENGINE_KNOBS];
    int32_t choice_count;
} mdnn_engine_recipe_t;

/* The engine with number `index`, for a finalised graph. False if cuDNN has none. `recipe` must have its field `cudnn`
 * set, and must be destroyed in either case; the same holds for the next function. */
bool mdnn_engine_recipe_name(mdnn_engine_recipe_t *recipe, cudnnBackendDescriptor_t graph,
                             int64_t index);
/* The engine, its knobs as `engine` has them, and its configuration. */
bool mdnn_engine_recipe_make(mdnn_engine_recipe_t *recipe, cudnnBackendDescriptor_t graph,
                             const mdnn_engine_t *engine);
void mdnn_engine_recipe_destroy(mdnn_engine_recipe_t *recipe);

/* An execution plan of the engine, and its workspace; owned by the caller. False, with no plan in *made, if the engine
 * cannot run the graph. May take tenths of a second: some engines are compiled. */
bool mdnn_engine_recipe_plan(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                             cudnnBackendDescriptor_t graph, const mdnn_engine_t *engine,
                             mdnn_engine_plan_t *made);

#endif
