/* Follows what a program builds, from tensors to execution plans, for a cuDNN whose plans' JSON cannot be read. What
 * such a plan computes is known from what the program has set, if every step from these settings to the plan was seen.
 * Any gap makes the plan unknown, and the plan passes.
 *
 * Following is off, and nothing is kept, until the first such plan. That plan passes, and so do plans that are made
 * from older descriptors. From then on following stays on. Any thread may call these functions. */
#ifndef MDNN_GRAPH_FOLLOW_H
#define MDNN_GRAPH_FOLLOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

#include "shim/graph/graph_chain.h"

/* Only for mdnn_follow_is_on, which every hook of the graph API calls. */
extern _Atomic bool mdnn_follow_flag;
static inline bool mdnn_follow_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&mdnn_follow_flag, memory_order_relaxed), false);
}
void mdnn_follow_begin(void);

/* ---- what programs do; called after cuDNN has done it (a destruction: before), and only while following is on ---- */

void mdnn_follow_create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type);
void mdnn_follow_destroy(cudnnBackendDescriptor_t descriptor);
void mdnn_follow_renew(cudnnBackendDescriptor_t descriptor); /* initialized */
void mdnn_follow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count, const void *elements);
void mdnn_follow_finalize(cudnnBackendDescriptor_t descriptor);
/* An attribute of `from` was read into `count` descriptors of the program; -1 if cuDNN did not say
 * how many of the `room` it has filled. */
void mdnn_follow_fill(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name, int64_t room,
                      int64_t count, const cudnnBackendDescriptor_t *filled);

/* What a finalized plan computes; UNKNOWN also while following is off. *graph is untouched unless the result is
 * RECOGNISED. */
mdnn_graph_kind_t mdnn_follow_plan(cudnnBackendDescriptor_t plan, mdnn_graph_t *graph);

#endif
