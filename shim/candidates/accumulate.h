/* Sums of bf16 weight gradients. Each part of a split writes its gradient, scaled with the caller's alpha, to bf16
 * scratch memory. A small kernel of ours adds the part to a sum in fp32. With the last part, the sum and the share that
 * beta keeps are rounded once. Scratch memory and accumulator lie at the head of the convolution's own workspace.
 *
 * fp16 has no accumulator and is not split, since no scale keeps every part of a finite sum in its range. bf16 has the
 * range of fp32, in which cuDNN itself adds up. */
#ifndef MDNN_ACCUMULATE_H
#define MDNN_ACCUMULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/status.h"
#include "optimizer/problem.h"
#include "shim/real/real.h"

typedef enum mdnn_accumulate_mode {
    MDNN_ACCUMULATE_FIRST, /* same numbers as in kernels.cu */
    MDNN_ACCUMULATE_ADD,
    MDNN_ACCUMULATE_FINISH,
    MDNN_ACCUMULATE_NONE
} mdnn_accumulate_mode_t;

/* The kernel for one problem; immutable. */
typedef struct mdnn_accumulator {
    CUfunction function;
    uint64_t elements;       /* of the weight gradient */
    uint64_t sums_bytes;     /* fp32 accumulator, rounded up for alignment */
    uint64_t overhead_bytes; /* accumulator and scratch together */
} mdnn_accumulator_t;

/* True if a split of `problem` needs an accumulator: without it bf16 would round the sum after every part. */
bool mdnn_accumulator_needed(const mdnn_problem_t *problem);

/* Loads the kernel into the current context (once per context). DEVICE if that fails, OVERFLOW for
 * absurd sizes. Must not run during stream capture. Only the planner calls it (planning.h). */
mdnn_status_t mdnn_accumulator_init(mdnn_accumulator_t *accumulator, const mdnn_problem_t *problem);

/* Enqueues the kernel. The workspace holds the sums and, after them, the part's gradient; `out` is the caller's tensor.
 * beta is read only at FINISH. */
cudnnStatus_t mdnn_accumulator_run(const mdnn_accumulator_t *accumulator, CUstream stream,
                                   mdnn_accumulate_mode_t mode, void *workspace, void *out,
                                   const void *beta);

#endif
