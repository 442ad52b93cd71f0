/* What Get...Algorithm_v7, Find...Algorithm(Ex) and Get...WorkspaceSize reply to the program: what will really run. A
 * call with any algorithm of the reply and its memory runs a configuration with the replied time, determinism and math
 * type. */
#ifndef MDNN_REPLY_H
#define MDNN_REPLY_H

#include "shim/candidates/call.h"

/* Rewrites cuDNN's own answer in place. `call` describes the problem (data pointers may be NULL); `results` has room
 * for `requested` entries, of which cuDNN filled *returned. `limit_bytes` is the largest workspace that the program
 * offers; UINT64_MAX if it sets no limit. Changes nothing if the problem is not ours. This may measure. */
void mdnn_reply_algorithms(const mdnn_call_t *call, uint64_t limit_bytes, int requested,
                           int *returned, mdnn_algo_perf_t *results);

/* The workspace for call->algo: the workspace of the configuration that will run if the program passes that much.
 * `stock_bytes` is cuDNN's own answer, or UINT64_MAX if cuDNN does not support the algorithm for the whole batch. False
 * if the program must get cuDNN's own answer. */
bool mdnn_reply_workspace(const mdnn_call_t *call, uint64_t stock_bytes, uint64_t *bytes);

#endif
