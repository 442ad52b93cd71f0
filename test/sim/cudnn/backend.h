/* Descriptors of the backend API: one structure, of which each type uses a part. What a descriptor
 * was finalized from is copied, so that nothing need outlive it. */
#ifndef SIM_CUDNN_BACKEND_H
#define SIM_CUDNN_BACKEND_H

#include "test/sim/cudnn/backend_engine.h"

#define SIM_BACKEND_MAGIC UINT32_C(0x53424b44)

enum { SIM_LINKS = 4, SIM_PACK_MAX = 64, SIM_DEVICE_NAME_BYTES = 96 };

typedef struct sim_backend sim_backend_t;

/* The `links` are other descriptors as they were set; they are followed at Finalize only. */
enum sim_link {
    LINK_IN,         /* operations: x, or a */
    LINK_OTHER,      /* w, or b */
    LINK_OUT,        /* y, or c */
    LINK_HOW,        /* convolution, pointwise, matmul */
    LINK_GRAPH = 0,  /* heuristics, engine */
    LINK_ENGINE = 0, /* configuration */
    LINK_CONFIG = 0, /* plan */
    LINK_DEVICE = 1  /* heuristics, engine, plan */
};

typedef struct sim_backend_operation {
    sim_graph_node_t node;
    bool has_other;
    sim_graph_tensor_t tensors[3]; /* in, other, out; after Finalize */
} sim_backend_operation_t;

typedef struct sim_backend_pack {
    int64_t uid_count, uids[SIM_PACK_MAX], pointer_count;
    void *pointers[SIM_PACK_MAX];
    void *workspace;
} sim_backend_pack_t;

struct sim_backend {
    uint32_t magic;
    int32_t type; /* cudnnBackendDescriptorType_t */
    bool finalized;
    bool index_set;        /* engine */
    bool engine_was_final; /* configuration: when it was set, which is when the real one looks */
    sim_backend_t *links[SIM_LINKS];
    int64_t many_count;
    sim_backend_t
        *many[SIM_CONFIGS_MAX]; /* operations of a graph, knob choices of a configuration */
    /* What a type needs; the others' stay empty. */
    sim_graph_tensor_t tensor;
    sim_graph_convolution_t convolution;
    sim_graph_pointwise_t pointwise;
    int32_t matmul_precision;
    sim_backend_operation_t operation;
    sim_graph_t *graph; /* graph, heuristics, engine, configuration, plan */
    cudnnHandle_t handle;
    const sim_profile_t *profile; /* of the device that the plan is for */
    int32_t heuristics_mode;
    int64_t index; /* of the engine */
    int32_t sm_count;
    sim_engine_config_t config;
    uint64_t workspace_bytes;
    sim_knob_t knob;
    int64_t knob_maximum, knob_minimum, knob_stride;
    sim_backend_pack_t pack;
    char *json; /* device properties or plan */
    int64_t json_bytes;
    int64_t device;
};

/* backend_attributes.c: Set before Finalize and Get after it, of one valid descriptor. */
cudnnStatus_t sim_backend_set(sim_backend_t *descriptor, int32_t attribute, int32_t type,
                              int64_t count, const void *values);
cudnnStatus_t sim_backend_get(sim_backend_t *descriptor, int32_t attribute, int32_t type,
                              int64_t requested, int64_t *count, void *values);

/* backend_finalize.c */
cudnnStatus_t sim_backend_finalize(sim_backend_t *descriptor);
/* The device that a descriptor without one is for: the graph's handle's, or the current one. NULL:
 * none. */
const sim_profile_t *sim_backend_profile(const sim_backend_t *device, const sim_graph_t *graph);
bool sim_backend_valid(const sim_backend_t *descriptor);
/* Is `descriptor` one of `type` and finalized? */
bool sim_backend_ready(const sim_backend_t *descriptor, int32_t type);

/* backend_json.c. Texts are on the heap, their length excludes the final 0. */
/* The schema that plans' JSON says and is read by: MICRODNN_SIM_PLAN_SCHEMA, else 4. 0: plans do not
 * give theirs. */
int sim_plan_schema(void);
char *sim_plan_json(const sim_backend_t *plan, int64_t *bytes);
char *sim_device_json(const sim_profile_t *profile, int device, int64_t *bytes);

/* backend_parse.c */
/* Fills graph, config and (unless it has one) profile of a plan from its JSON text. BAD_PARAM,
 * SERIALIZATION_VERSION_MISMATCH, or what analysis and engine say. */
cudnnStatus_t sim_plan_parse(sim_backend_t *plan);
/* The profile that device properties in JSON name; NULL: not valid, or a device that is not
 * simulated. */
const sim_profile_t *sim_device_parse(const char *json, int64_t bytes);

/* backend_execute.c */
cudnnStatus_t sim_plan_execute(cudnnHandle_t handle, const sim_backend_t *plan,
                               const sim_backend_pack_t *pack);

#endif
