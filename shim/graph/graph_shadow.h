/* Shadows: what we must know about the program's backend descriptors and cannot read back from cuDNN. That is the
 * contents of variant packs, the handle of an execution plan, and the workspace sizes that were reported to the
 * program. A shadow is found by the descriptor's address from creation to destruction; a reused address begins with a
 * new shadow.
 *
 * A shadow belongs to its descriptor: like cuDNN's descriptor it must not be used by two threads at
 * once while one of them writes. The table itself is thread-safe. */
#ifndef MDNN_GRAPH_SHADOW_H
#define MDNN_GRAPH_SHADOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

enum { MDNN_PACK_POINTERS = 16 };

/* The values of the last cudnnBackendSetAttribute, in `few` or, if that is too small, on the heap. */
typedef struct mdnn_pack_values {
    uint64_t few[MDNN_PACK_POINTERS];
    uint64_t *many;      /* owned; NULL: none yet */
    int64_t count, room; /* values, and how many `many` holds; count -1: memory was short */
} mdnn_pack_values_t;

typedef struct mdnn_pack_shadow {
    mdnn_pack_values_t uids, pointers;
    void *workspace;
    bool overridden; /* the pack gives shapes or strides other than the plan's */
    bool finalized;
} mdnn_pack_shadow_t;

struct mdnn_graph_record;

/* The shadow of an execution plan. Its members are atomic, since several threads may execute one plan. */
typedef struct mdnn_plan_shadow {
    cudnnHandle_t handle; /* the plan's own or its graph's; NULL: unknown */
    bool deviceless;      /* the plan was made for a described device, not for one that is there */
    /* The number of the plan's engine configuration (mdnn_configuration_shadow_t); 0: the program has no descriptor of
     * one that it could ask. */
    _Atomic uint64_t configuration;
    /* The least workspace that any query of the program got; UINT64_MAX: it has not asked. */
    _Atomic uint64_t reported_bytes;
    /* More was reported than the plan itself takes, and the plan has not run yet. */
    _Atomic bool generous;
    _Atomic bool finalized;
    _Atomic bool looked_at;           /* `record` is final */
    struct mdnn_graph_record *record; /* owned; NULL: the plan goes to cuDNN unchanged */
} mdnn_plan_shadow_t;

/* The shadow of an engine configuration. Its members are atomic, since one thread may make a plan from it while another
 * thread asks for its workspace. */
typedef struct mdnn_configuration_shadow {
    /* As in mdnn_plan_shadow_t. */
    _Atomic uint64_t reported_bytes;
    /* All descriptors of one plan's configuration have the same number; 0: no plan was made from it. */
    _Atomic uint64_t number;
} mdnn_configuration_shadow_t;

typedef struct mdnn_shadow {
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptorType_t type; /* VARIANT_PACK, EXECUTION_PLAN or ENGINECFG */
    union {
        mdnn_pack_shadow_t pack;
        mdnn_plan_shadow_t plan;
        mdnn_configuration_shadow_t configuration;
    };
} mdnn_shadow_t;

/* True for the types that are shadowed. */
bool mdnn_shadow_wanted(cudnnBackendDescriptorType_t type);

/* Makes a shadow for a descriptor that was just created, in place of an older one at that address. If memory is short
 * there is no shadow, and calls with the descriptor pass. */
void mdnn_shadow_create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
void mdnn_shadow_destroy(cudnnBackendDescriptor_t descriptor);
/* Called when the descriptor was initialized again: it is as when it was created. */
void mdnn_shadow_renew(cudnnBackendDescriptor_t descriptor);
/* Called when cuDNN has finalized the descriptor. */
void mdnn_shadow_finalize(cudnnBackendDescriptor_t descriptor);

/* NULL for a descriptor without a shadow or of another type. Valid until the descriptor is destroyed. */
mdnn_shadow_t *mdnn_shadow_find(cudnnBackendDescriptor_t descriptor,
                                cudnnBackendDescriptorType_t type);

/* Returns the workspace size that a query of the plan gets if `bytes` are needed, and notes it. It is never larger than
 * an earlier one, which the program may have kept. */
uint64_t mdnn_shadow_report(mdnn_plan_shadow_t *plan, uint64_t bytes);
/* Notes that `plan` was made from this configuration: a size that was reported for one counts for the other, too. */
void mdnn_shadow_join(mdnn_plan_shadow_t *plan, mdnn_configuration_shadow_t *configuration);
/* The same for a descriptor that the program had filled with the configuration of `plan`; sizes that were reported for
 * the descriptor earlier do not count. */
void mdnn_shadow_fill(mdnn_plan_shadow_t *plan, mdnn_configuration_shadow_t *configuration);
/* Notes that `bytes` were reported to the program for the configuration, and thereby for its plans. */
void mdnn_shadow_report_configuration(mdnn_configuration_shadow_t *configuration, uint64_t bytes);

/* Keeps `count` elements of eight bytes. */
void mdnn_pack_keep(mdnn_pack_values_t *values, int64_t count, const void *elements);
/* Whether there is a pointer for every uid, and the pack overrides nothing in the plan. */
bool mdnn_pack_is_plain(const mdnn_pack_shadow_t *pack);
/* The data pointer of a tensor in a plain pack; NULL if the pack does not name the tensor, or names it with two
 * different pointers. */
void *mdnn_pack_pointer(const mdnn_pack_shadow_t *pack, int64_t uid);

#endif
