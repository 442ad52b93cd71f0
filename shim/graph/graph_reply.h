/* What hosts that ask a plan for its workspace are told: that of what will run.
 *
 * The workspace rule: Execute gets a pointer and no size, so a plan uses at most the smallest size
 * that any query ever returned for it, and a plan that was told of less than it takes never runs
 * itself; a configuration that fits was finalised before the answer. */
#ifndef MDNN_GRAPH_REPLY_H
#define MDNN_GRAPH_REPLY_H

#include "shim/real/real.h"

/* Whether an attribute is one that we have something to do with. */
bool mdnn_graph_reply_concerns(cudnnBackendAttributeName_t name);

/* cuDNN has answered; the host may get another answer. May measure, and waits behind another thread that does, since
 * the answer holds for long (MDNN_CONV_PLAN_MAY_WAIT): the first time that a problem is asked for. */
void mdnn_graph_reply(const mdnn_cudnn_t *real, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, void *elements);

#endif
