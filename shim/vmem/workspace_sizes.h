/* Remembers the sizes of workspaces that were reported to a thread or that convolutions used. An allocation of such a
 * size is probably a workspace. If it is refused, the program can use a smaller one, since cuDNN also has plans for the
 * convolution that need less. So an allocation is also refused if it would fit, but not beside the operands of its
 * convolution: otherwise the launch would be refused, when the program cannot take a smaller plan any more.
 *
 * An ordinary allocation may have such a size by accident. Therefore only two kinds of requests are refused: those that
 * a thread makes between such a report and its next convolution, and those for sizes that convolutions have used as
 * workspaces. A size that one of the convolution's operands also has is never refused, and no size is refused twice. */
#ifndef MDNN_WORKSPACE_SIZES_H
#define MDNN_WORKSPACE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizer/problem.h"
#include "shim/real/real.h"

enum { MDNN_WORKSPACE_OPERANDS = 3 }; /* x, w and y; a residual does not count, as it may be y */

/* The sizes of the convolution's operands. */
void mdnn_workspace_operand_sizes(const mdnn_problem_t *problem,
                                  uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);

/* Notes that we or cuDNN reported to the calling thread that the convolution needs a workspace of `bytes`; 0 is
 * ignored. `problem` NULL: its operands are not known. */
void mdnn_workspace_note(uint64_t bytes, const mdnn_problem_t *problem);
/* Does the same for each algorithm in `results` that can run. `returned` and `results` may be NULL. */
void mdnn_workspace_note_algorithms(const int *returned, const mdnn_algo_perf_t *results,
                                    const mdnn_problem_t *problem);
/* Whether `bytes` is one of the sizes that were last reported to the calling thread, or such a size
 * rounded by an allocator to a multiple of 512 bytes or 2 MiB. */
bool mdnn_workspace_is_size(uint64_t bytes);
/* Whether a request of the calling thread for `bytes` is probably for a workspace. *sizes: those of the operands of the
 * convolution. */
bool mdnn_workspace_is_wanted(uint64_t bytes, uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
/* Notes that a workspace was refused to the calling thread. Frameworks then try another plan that
 * they know, or half the size (PyTorch). */
void mdnn_workspace_refused(uint64_t bytes);
/* Notes that the calling thread runs a convolution: workspaces whose sizes were reported earlier are allocated by now,
 * or not needed. */
void mdnn_workspace_over(void);

/* The workspaces that convolutions used. Programs that search for a plan once allocate its workspace in each iteration
 * without asking again. The caller locks. Starts as zeros. */
enum { MDNN_WORKSPACES_USED = 128 };
typedef struct mdnn_used_workspaces {
    struct mdnn_used_workspace {
        uint64_t bytes, operands[MDNN_WORKSPACE_OPERANDS]; /* of allocations; bytes 0: none */
    } used[MDNN_WORKSPACES_USED];
    uint32_t next;
} mdnn_used_workspaces_t;

/* Notes that a convolution used an allocation of `bytes` while its operands lay in allocations of
 * these sizes. */
void mdnn_workspace_learn(mdnn_used_workspaces_t *all, uint64_t bytes,
                          const uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
bool mdnn_workspace_was_used(const mdnn_used_workspaces_t *all, uint64_t bytes,
                             uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
void mdnn_workspace_forget(mdnn_used_workspaces_t *all, uint64_t bytes);

#endif
