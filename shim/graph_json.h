/* The JSON of a cuDNN execution plan (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, schema 4) as a
 * convolution problem, if it is one that we know how to run otherwise.
 *
 * Recognised: one convolution in any direction; or a forward convolution and behind it, in any
 * order and through virtual tensors, at most one bias, one residual and one activation. Everything
 * else passes: better not to touch a graph than to misread it, so whatever is not known here, down
 * to a field of a tensor, makes the graph unknown. */
#ifndef MDNN_GRAPH_JSON_H
#define MDNN_GRAPH_JSON_H

#include "config/status.h"
#include "optimizer/problem.h"

typedef enum mdnn_graph_kind { /* why a graph passes; counted by kind */
                               MDNN_GRAPH_RECOGNISED,
                               MDNN_GRAPH_NO_CONVOLUTION,
                               MDNN_GRAPH_MANY_OPERATIONS, /* others than understood, or not a chain
                                                            */
                               MDNN_GRAPH_TYPES,
                               MDNN_GRAPH_LAYOUT,  /* batch not outermost, vectorised, reordered,
                                                      strides 0 or negative */
                               MDNN_GRAPH_UNKNOWN, /* schema version, field, value or enumerator
                                                      that we do not know */
                               MDNN_GRAPH_KIND_COUNT
} mdnn_graph_kind_t;

/* The problem as mdnn_problem_t says, and besides:
 * - x, w and y name the convolution's tensors in every direction; behind a chain, y is what the
 * last operation writes. z is the residual, bias has the dims 1 k 1 1 (1).
 * - strides are positive: that of one element, which may be anything, lies behind what the later
 *   dimensions reach, where it is not.
 * - w has its strides always, and a format if the legacy API can say it too, else -1. Where both
 *   formats fit (one input channel a group, or one element a plane), it is that of x.
 * - spatial_dims is 1 for tensors of three dims.
 * - alignment_bytes is what the graph demands of each tensor's address.
 * - alpha1 of a pointwise operation scales what the operation before wrote, alpha2 the operand,
 * however the graph had named the inputs.
 * - activation parameters that the plan does not name have cuDNN's defaults: clips 0 and the
 * largest double, slope 0; 1 for elu, softplus and swish. They are zero in operations without them.
 * - interfaces has LEGACY unless the padding is asymmetric, w has no format, there are three dims
 * or a chain.
 * - device, math_type, in_place, reorder and weak_notes stay as mdnn_problem_init sets them: they
 * are not in the plan. */
typedef struct mdnn_graph {
    mdnn_problem_t problem;
    int64_t x_uid, w_uid, y_uid, z_uid, bias_uid; /* valid where problem has that tensor */
} mdnn_graph_t;

/* *kind is always set. OK only for RECOGNISED, else *graph is untouched: UNSUPPORTED for other
 * kinds, BAD_FORMAT (kind UNKNOWN) for what is not JSON, OUT_OF_MEMORY (kind UNKNOWN). The text
 * need not be terminated. Any thread. */
mdnn_status_t mdnn_graph_read(const char *json, size_t bytes, mdnn_graph_t *graph,
                              mdnn_graph_kind_t *kind);

#endif
