#include "shim/graph/shadow_attributes.h"

#include <string.h>

#include "shim/graph/graph_shadow.h"

/* The handle of the operation graph that this thread made last. Plans need none of their own. */
static _Thread_local cudnnHandle_t graph_handle __attribute__((tls_model("initial-exec")));

static void copy_into_pack(mdnn_pack_shadow_t *pack, cudnnBackendAttributeName_t name,
                           int64_t count, const void *elements)
{
    switch (name) {
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
        mdnn_pack_keep(&pack->uids, count, elements);
        break;
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
        mdnn_pack_keep(&pack->pointers, count, elements);
        break;
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
        memcpy(&pack->workspace, elements, sizeof pack->workspace);
        break;
    default: /* intermediates, other shapes: nothing that we would understand */
        pack->overridden = true;
        break;
    }
}

static void shadow_plan_attribute(mdnn_plan_shadow_t *plan, cudnnBackendAttributeName_t name,
                                  const void *elements)
{
    cudnnBackendDescriptor_t configuration;
    if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) {
        memcpy(&plan->handle, elements, sizeof plan->handle);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG) {
        /* The host may allocate what it heard of the configuration, before any plan was there. */
        memcpy(&configuration, elements, sizeof configuration);
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(configuration, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        atomic_store(&plan->configuration, 0);
        atomic_store(&plan->reported_bytes, UINT64_MAX); /* of another configuration, if anything */
        if (shadow)
            mdnn_shadow_join(plan, &shadow->configuration);
        if (!plan->deviceless && !plan->handle)
            plan->handle = graph_handle;
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) {
        plan->deviceless = true; /* maybe there is no device at all */
        plan->handle = NULL;
    }
}

bool mdnn_shadow_is_of_pack(cudnnBackendAttributeName_t name)
{
    return name >= CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS &&
           name <= CUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES;
}

void mdnn_shadow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     int64_t count, const void *elements)
{
    if (!elements || count < 1)
        return;
    if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
        memcpy(&graph_handle, elements, sizeof graph_handle);
    if (mdnn_shadow_is_of_pack(name)) {
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(descriptor, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        if (shadow)
            copy_into_pack(&shadow->pack, name, count, elements);
    } else if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE ||
               name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG ||
               name == CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP) {
        mdnn_shadow_t *const shadow =
            mdnn_shadow_find(descriptor, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (shadow)
            shadow_plan_attribute(&shadow->plan, name, elements);
    }
}
