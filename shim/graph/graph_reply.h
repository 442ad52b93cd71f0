/* Replies to programs that ask a plan for its workspace: they get the workspace of the configuration that will run.
 *
 * The workspace rule: Execute gets a pointer without a size, so a plan uses at most the smallest
 * size that any query ever returned for it. A plan that reported less than it takes never runs
 * itself; a configuration that fits was finalised before the answer. */
#ifndef MDNN_GRAPH_REPLY_H
#define MDNN_GRAPH_REPLY_H

#include "shim/real/real.h"

/* Whether an attribute concerns us. */
bool mdnn_graph_reply_concerns(cudnnBackendAttributeName_t name);

/* Called after cuDNN has answered; the program may get another answer. The first question about a problem may measure,
 * and waits for another thread that measures, since programs keep the answer for long (MDNN_CONV_PLAN_MAY_WAIT). */
void mdnn_graph_reply(const mdnn_cudnn_t *real, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, void *elements);

#endif
