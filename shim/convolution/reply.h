/* What Get...Algorithm_v7, Find...Algorithm(Ex) and Get...WorkspaceSize tell the host: the truth about
 * what will run. A call with any of the answered algorithms and the answered memory runs a
 * configuration with the answered time, determinism and math type. */
#ifndef MDNN_REPLY_H
#define MDNN_REPLY_H

#include "shim/candidates/call.h"

/* Rewrites stock's answer in place. `call` asks for the problem (data pointers may be NULL); `results`
 * has room for `requested`, of which stock filled *returned. `limit_bytes` is the largest workspace
 * that the host offers; UINT64_MAX if it said nothing. Leaves everything as it is when the problem
 * is not ours. May measure. */
void mdnn_reply_algorithms(const mdnn_call_t *call, uint64_t limit_bytes, int requested,
                           int *returned, mdnn_algo_perf_t *results);

/* The workspace for call->algo: that of the configuration that will run if the host passes it.
 * `stock_bytes` is what cuDNN says, UINT64_MAX if cuDNN does not support the algorithm for the whole
 * batch. False if the host must get stock's own answer. */
bool mdnn_reply_workspace(const mdnn_call_t *call, uint64_t stock_bytes, uint64_t *bytes);

#endif
