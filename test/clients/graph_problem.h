/* One case of graph_cases with its numbers: the graph, device memory between guards, the result in
 * fp64. One thread; what fails bails out, except that cuDNN may refuse the graph. */
#ifndef GRAPH_PROBLEM_H
#define GRAPH_PROBLEM_H

#include <stdint.h>

#include "test/clients/graph_cases.h"

enum { OPERAND_X, OPERAND_W, OPERAND_Y, OPERAND_Z, OPERAND_BIAS, OPERANDS };

typedef struct operand {
    int64_t uid;
    bool used;
    reference_tensor_t packed; /* of `values` */
    reference_tensor_t stored; /* the same dimensions as they lie on the device */
    double *values;
    size_t *places; /* of each element in storage */
    char *image;    /* what is stored, gaps poisoned; NULL before it is needed */
    char *block;    /* device memory with guards; `device` is the first element in it */
    char *uploaded; /* all of the block as it was uploaded */
    size_t block_bytes;
    void *device;
} operand_t;

typedef struct problem {
    const graph_case_t *test;
    operand_t operands[OPERANDS];
    operand_t *output;
    reference_convolution_t convolution; /* its y is what the convolution gives */
    double *truth;                       /* of the output, packed; NULL before problem_solve */
} problem_t;

/* Host memory only; random values that the case's type has exactly. */
void problem_init(problem_t *problem, const graph_case_t *test);
void problem_fini(problem_t *problem);
/* Computes `truth`. */
void problem_solve(problem_t *problem);
/* To be called when `values` were changed after an upload; `truth` is to be computed anew, too. */
void problem_forget(problem_t *problem);

/* Builds the graph; `handle` may be NULL. The caller calls graph_fini in any case. */
cudnnStatus_t problem_build(const problem_t *problem, graph_t *graph, cudnnHandle_t handle);

/* Stores the operands, everything else around and between being poison (NaN in every type), and
 * poison alone where nothing may be read. Another `turn` is another place. Waits for the device. */
void problem_upload(problem_t *problem, int turn);
void problem_bind(const problem_t *problem, graph_pack_t *pack);
/* The output after an execution, packed. False if anything was written but the output. */
bool problem_download(const problem_t *problem, double *values);

size_t problem_elements(const problem_t *problem); /* of the output */
/* Relative L2 error of `values`; infinite if one is not finite. */
double problem_error(const problem_t *problem, const double *values);

#endif
