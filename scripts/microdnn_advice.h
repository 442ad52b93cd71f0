/* Parts of `microdnn advise`: what one recorded iteration would cost with other budgets and on other GPUs. */
#ifndef MICRODNN_ADVICE_H
#define MICRODNN_ADVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "offload/plan/best_plan.h"
#include "offload/plan/run_record.h"

typedef enum tool_arithmetic {
    TOOL_ARITHMETIC_FP32,
    TOOL_ARITHMETIC_TF32,
    TOOL_ARITHMETIC_FP16,
    TOOL_ARITHMETIC_COUNT
} tool_arithmetic_t;

/* A row of scripts/gpus.def. */
typedef struct tool_gpu {
    const char *name, *source;
    uint64_t bytes;
    int generation, lanes;
    double fp32_tflops, tf32, fp16; /* of tensor cores: multiples of fp32_tflops; 0: none */
    double memory_gb_s;
} tool_gpu_t;

const tool_gpu_t *tool_gpu_at(size_t index); /* NULL behind the last one */
/* The GPU in whose device name the longest name of the table is; NULL: none. */
const tool_gpu_t *tool_gpu_named(const char *device_name);
/* How many names of the table contain the text; *gpu: the last of them. Only one if it is that name. */
size_t tool_gpus_like(const char *text, const tool_gpu_t **gpu);
double tool_gpu_tflops(const tool_gpu_t *gpu, tool_arithmetic_t arithmetic);
mdnn_link_t tool_gpu_link(const tool_gpu_t *gpu, double latency_us);
/* What is left of the card for a budget: without CUDA's context and what a display takes. */
uint64_t tool_gpu_budget(const tool_gpu_t *gpu);

/* What a budget costs. Where the plan does not fit only the first group is known. */
typedef struct tool_advice_row {
    const tool_gpu_t *gpu; /* NULL: the GPU of the record */
    uint64_t budget_bytes;
    mdnn_verdict_t verdict;
    uint64_t needed_bytes;                /* smallest budget for the period */
    double compute_ms;                    /* without any move */
    uint32_t batch_largest, batch_smooth; /* see tool_advice_batches; 0: unknown, or none */

    double ms, bound_ms, wait_ms;
    uint64_t out_bytes, in_bytes, host_bytes;
} tool_advice_row_t;

typedef struct tool_advice {
    const mdnn_run_record_t *record;
    uint64_t own_bytes;  /* of each budget, not for ranges: slabs and what is set aside */
    uint64_t peak_bytes; /* the smallest budget in which nothing moves */
    uint64_t floor_bytes;
    double compute_ms;
    double scale;   /* of the recorded times: see tool_advice_fit */
    uint32_t batch; /* of the recorded run; 0: unknown */
    tool_arithmetic_t arithmetic;
    tool_advice_row_t *rows;
    size_t count, capacity;
} tool_advice_t;

/* Fills everything but `scale`, `batch`, `arithmetic` and the rows. `record` outlives the advice. OUT_OF_MEMORY. */
mdnn_status_t tool_advice_init(tool_advice_t *advice, const mdnn_run_record_t *record);
void tool_advice_fini(tool_advice_t *advice);

/* Adds a row for the record's GPU with that budget. OUT_OF_MEMORY. */
mdnn_status_t tool_advice_add_budget(tool_advice_t *advice, uint64_t budget_bytes);
/* Adds a row for each number between the floor and the peak that is round, and for these two. OUT_OF_MEMORY. */
mdnn_status_t tool_advice_add_budgets(tool_advice_t *advice);
/* Adds a row for another GPU with all of its memory. `own` is the record's. OUT_OF_MEMORY. */
mdnn_status_t tool_advice_add_gpu(tool_advice_t *advice, const tool_gpu_t *own,
                                  const tool_gpu_t *gpu);

/* Scales the times of the record so that its run takes as long as was measured: operations and the gaps between them
 * then take as long together as the measured iteration without the waits that the plan expects. *scale: by how much.
 * NOT_FOUND: nothing fits into the budget of the run, or the waits alone take longer; OUT_OF_MEMORY. */
mdnn_status_t tool_advice_fit(mdnn_run_record_t *record, double measured_ms, double *scale);

/* The best plan of the period for a budget, of which own_bytes are not for ranges. As mdnn_best_plan. */
mdnn_status_t tool_advice_plan(const tool_advice_t *advice, const mdnn_period_t *period,
                               const mdnn_link_t *link, uint64_t budget_bytes, mdnn_parts_t *parts,
                               mdnn_move_plan_t *plan);

/* Largest numbers of images in an iteration for a budget; 0: not even one fits, or the record does not show what
 * depends on the batch. Memory that lives always, and memory of the same size as some that does (gradients of
 * weights), is taken not to depend on it; everything else, and what convolutions read going forward, is taken to grow
 * in proportion.
 *   largest  every operation can run (Chen 2019, equations 6 and 7, with each operation's own weights only)
 *   smooth   any 15 % of the operations that follow each other fit beside all weights, so that moves can hide behind
 *            computation (equation 8) */
typedef struct tool_batches {
    uint32_t largest, smooth;
} tool_batches_t;
mdnn_status_t tool_advice_batches(const tool_advice_t *advice, uint64_t budget_bytes,
                                  tool_batches_t *batches);

/* One iteration as the plan for that budget has it, as JSON: memory by kind, moves and waits over time. IO,
 * OUT_OF_MEMORY; NOT_FOUND: no plan fits. */
mdnn_status_t tool_advice_print_iteration(const tool_advice_t *advice, uint64_t budget_bytes,
                                          FILE *out);

void tool_advice_print_table(const tool_advice_t *advice, FILE *out);
/* `iteration`: with the iteration under the record's own budget. IO, OUT_OF_MEMORY. */
mdnn_status_t tool_advice_print_json(const tool_advice_t *advice, bool iteration, FILE *out);

#endif
