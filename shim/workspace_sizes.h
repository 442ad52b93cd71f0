/* Sizes of workspaces that a thread was told of: an allocation of such a size is a workspace, most
 * likely, and one that is refused can be smaller, since cuDNN has plans for a convolution that need
 * less. Only for what people are told: nothing is decided by it. */
#ifndef MDNN_WORKSPACE_SIZES_H
#define MDNN_WORKSPACE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/answer.h"

/* An answer of ours or cuDNN's to the calling thread: a convolution wants so much, 0 is no news. */
void mdnn_workspace_note(uint64_t bytes);
/* The same of each algorithm that can run. `returned` and `results` may be NULL. */
void mdnn_workspace_note_algorithms(const int *returned, const mdnn_algo_perf_t *results);
/* Whether `bytes` is one of the last sizes that the calling thread was told of, or what an
 * allocator makes of it: multiples of 512 bytes, or of 2 MiB. */
bool mdnn_workspace_is_size(uint64_t bytes);

#endif
