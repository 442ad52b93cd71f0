/* Sizes of workspaces that a thread was told of, or that convolutions used: an allocation of such a size
 * is a workspace, most likely, and one that is refused can be smaller, since cuDNN has plans for a
 * convolution that need less. So it is refused, too, where it could be had, but not beside what its
 * convolution works on: that would be refused then, and no program can take a smaller plan at a launch.
 *
 * An ordinary allocation may have such a size by accident. What is refused is therefore only what a
 * thread asks for between an answer and its next convolution, and what convolutions have used; nothing
 * of a size that an operand of theirs has, too; nor the same twice. */
#ifndef MDNN_WORKSPACE_SIZES_H
#define MDNN_WORKSPACE_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#include "optimizer/problem.h"
#include "shim/real/real.h"

enum { MDNN_WORKSPACE_OPERANDS = 3 }; /* x, w, y: a residual may be y itself */

/* Bytes of what the convolution works on. */
void mdnn_workspace_operand_sizes(const mdnn_problem_t *problem,
                                  uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);

/* An answer of ours or cuDNN's to the calling thread: the convolution wants so much, 0 is no news.
 * `problem` NULL: it is not known what it works on. */
void mdnn_workspace_note(uint64_t bytes, const mdnn_problem_t *problem);
/* The same of each algorithm that can run. `returned` and `results` may be NULL. */
void mdnn_workspace_note_algorithms(const int *returned, const mdnn_algo_perf_t *results,
                                    const mdnn_problem_t *problem);
/* Whether `bytes` is one of the last sizes that the calling thread was told of, or what an
 * allocator makes of it: multiples of 512 bytes, or of 2 MiB. */
bool mdnn_workspace_is_size(uint64_t bytes);
/* Whether the calling thread asks for a workspace now, as far as can be told, and what its convolution
 * works on. */
bool mdnn_workspace_is_wanted(uint64_t bytes, uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
/* A workspace was refused to the calling thread. Frameworks then try another plan that they know, or
 * half as much (PyTorch). */
void mdnn_workspace_refused(uint64_t bytes);
/* The calling thread runs a convolution: what it was told of before is allocated, or not wanted. */
void mdnn_workspace_over(void);

/* The workspaces that convolutions used: programs that search for a plan once allocate its workspace in
 * each round, and do not ask again. The caller locks. All zero at first. */
enum { MDNN_WORKSPACES_USED = 128 };
typedef struct mdnn_used_workspaces {
    struct mdnn_used_workspace {
        uint64_t bytes, operands[MDNN_WORKSPACE_OPERANDS]; /* of allocations; bytes 0: none */
    } used[MDNN_WORKSPACES_USED];
    uint32_t next;
} mdnn_used_workspaces_t;

/* A convolution used an allocation of `bytes`, and the operands lie in allocations of these sizes. */
void mdnn_workspace_learn(mdnn_used_workspaces_t *all, uint64_t bytes,
                          const uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
bool mdnn_workspace_was_used(const mdnn_used_workspaces_t *all, uint64_t bytes,
                             uint64_t sizes[MDNN_WORKSPACE_OPERANDS]);
void mdnn_workspace_forget(mdnn_used_workspaces_t *all, uint64_t bytes);

#endif
