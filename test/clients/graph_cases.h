/* The graphs of graph_matrix: a table of convolutions, alone and followed by what frameworks fuse.
 */
#ifndef GRAPH_CASES_H
#define GRAPH_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include "docs/examples/graph.h"
#include "test/reference_convolution.h"

typedef enum case_type { CASE_FP32, CASE_TF32, CASE_FP16, CASE_BF16, CASE_FP64 } case_type_t;
typedef enum case_layout {
    CASE_NCHW,
    CASE_NHWC,
    CASE_NCHW_PADDED, /* images with a gap between */
    CASE_NHWC_PADDED,
    CASE_GAPS, /* NCHW; rows with a gap, too */
    CASE_CHWN  /* images innermost */
} case_layout_t;

/* Steps that follow the convolution, in this order. */
enum { CASE_ADD = 1, CASE_BIAS = 2 };

typedef struct graph_case {
    graph_direction_t direction;
    case_type_t type;
    case_layout_t layout;
    int n, c, k, groups;
    int spatial;                                            /* 1 (as 2-D of height 1), 2 or 3 */
    int side[REFERENCE_SPATIAL], kernel[REFERENCE_SPATIAL]; /* d h w; 1 where there is none */
    int pre[REFERENCE_SPATIAL], post[REFERENCE_SPATIAL];
    int stride[REFERENCE_SPATIAL], dilation[REFERENCE_SPATIAL];
    bool flip; /* CUDNN_CONVOLUTION */
    double alpha, beta;
    int steps;                       /* CASE_ADD, CASE_BIAS: z * alpha2, a bias per channel */
    cudnnPointwiseMode_t activation; /* CUDNN_POINTWISE_IDENTITY: none */
    bool reduced;                    /* at last the sum over images and pixels */
    double alpha2;
    bool in_place;   /* the residual is in the output's memory */
    bool misaligned; /* pointers are aligned to an element only */
    bool repeats;    /* each two of its traits are those of some case that does not repeat, too */
} graph_case_t;

/* Calls `use` for every case, always in the same order. */
void graph_cases_visit(void (*use)(const graph_case_t *test, void *context), void *context);
int graph_cases_count(void);

void graph_case_name(const graph_case_t *test, char *text, size_t bytes);
/* Whether it is of a kind that a library between program and cuDNN may know: a convolution with
 * residual, bias and a common activation, images outermost. */
bool graph_case_common(const graph_case_t *test);
/* More than the convolution. */
bool graph_case_fused(const graph_case_t *test);
cudnnDataType_t graph_case_data_type(const graph_case_t *test);

#endif
