#include "shim/candidates/engine_recipe.h"

#include "shim/candidates/backend.h"

bool mdnn_engine_recipe_name(mdnn_engine_recipe_t *recipe, cudnnBackendDescriptor_t graph,
                             int64_t index)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    recipe->engine = mdnn_backend_create(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    return recipe->engine &&
           mdnn_backend_set_one(cudnn, recipe->engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, &graph) &&
           mdnn_backend_set_one(cudnn, recipe->engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                CUDNN_TYPE_INT64, &index) &&
           cudnn->cudnnBackendFinalize(recipe->engine) == CUDNN_STATUS_SUCCESS;
}

static bool make_choices(mdnn_engine_recipe_t *recipe, const mdnn_engine_t *engine)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    for (int32_t i = 0; i < engine->knob_count; i++) {
        const cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)engine->knobs[i].type;
        const int64_t value = engine->knobs[i].value;
        const cudnnBackendDescriptor_t choice =
            mdnn_backend_create(cudnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        if (!choice)
            return false;
        recipe->choices[recipe->choice_count++] = choice;
        if (!mdnn_backend_set_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
                                  CUDNN_TYPE_KNOB_TYPE, &type) ||
            !mdnn_backend_set_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
                                  CUDNN_TYPE_INT64, &value) ||
            cudnn->cudnnBackendFinalize(choice) != CUDNN_STATUS_SUCCESS)
            return false;
    }
    return true;
}

static bool make_configuration(mdnn_engine_recipe_t *recipe)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    recipe->configuration = mdnn_backend_create(cudnn, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    return recipe->configuration &&
           mdnn_backend_set_one(cudnn, recipe->configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, &recipe->engine) &&
           (recipe->choice_count == 0 ||
            cudnn->cudnnBackendSetAttribute(recipe->configuration,
                                            CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, recipe->choice_count,
                                            recipe->choices) == CUDNN_STATUS_SUCCESS) &&
           cudnn->cudnnBackendFinalize(recipe->configuration) == CUDNN_STATUS_SUCCESS;
}

static bool finish_plan(mdnn_engine_recipe_t *recipe, cudnnHandle_t handle,
                        mdnn_engine_plan_t *made)
{
    const mdnn_cudnn_t *const cudnn = recipe->cudnn;
    int64_t bytes = -1;
    made->plan = mdnn_backend_create(cudnn, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (!made->plan ||
        !mdnn_backend_set_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                              CUDNN_TYPE_HANDLE, &handle) ||
        !mdnn_backend_set_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                              CUDNN_TYPE_BACKEND_DESCRIPTOR, &recipe->configuration) ||
        cudnn->cudnnBackendFinalize(made->plan) != CUDNN_STATUS_SUCCESS ||
        !mdnn_backend_get_one(cudnn, made->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                              CUDNN_TYPE_INT64, &bytes) ||
        bytes < 0)
        return false;
    made->workspace_bytes = (uint64_t)bytes;
    return true;
}

bool mdnn_engine_recipe_make(mdnn_engine_recipe_t *recipe, cudnnBackendDescriptor_t graph,
                             const mdnn_engine_t *engine)
{
    return mdnn_engine_recipe_name(recipe, graph, engine->id) && make_choices(recipe, engine) &&
           make_configuration(recipe);
}

void mdnn_engine_recipe_destroy(mdnn_engine_recipe_t *recipe)
{
    mdnn_backend_destroy(recipe->cudnn, recipe->configuration);
    mdnn_backend_destroy_many(recipe->cudnn, recipe->choices, (size_t)recipe->choice_count);
    mdnn_backend_destroy(recipe->cudnn, recipe->engine);
}

bool mdnn_engine_recipe_plan(const mdnn_cudnn_t *cudnn, cudnnHandle_t handle,
                             cudnnBackendDescriptor_t graph, const mdnn_engine_t *engine,
                             mdnn_engine_plan_t *made)
{
    mdnn_engine_recipe_t recipe = {.cudnn = cudnn};
    const bool good =
        mdnn_engine_recipe_make(&recipe, graph, engine) && finish_plan(&recipe, handle, made);
    mdnn_engine_recipe_destroy(&recipe);
    if (!good) {
        mdnn_backend_destroy(cudnn, made->plan);
        made->plan = NULL;
    }
    return good;
}
