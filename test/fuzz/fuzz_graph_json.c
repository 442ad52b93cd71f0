/* libFuzzer: any bytes as the JSON of a plan. Build and run with `make fuzz-graph_json`. The corpus
 * is what cuDNN wrote (test/data/plan-json) and the changes of it that the fuzzer finds. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/graph/graph_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_tensor(const mdnn_problem_tensor_t *tensor)
{
    if (tensor->dim_count < 3 || tensor->dim_count > MDNN_PROBLEM_DIMS)
        abort();
    for (int i = 0; i < tensor->dim_count; i++)
        if (tensor->dims[i] < 1 || (tensor->dims[i] > 1 && tensor->strides[i] < 1))
            abort();
}

/* What those who run a problem rely on. */
static void check(const mdnn_problem_t *problem)
{
    check_tensor(&problem->x);
    check_tensor(&problem->w);
    check_tensor(&problem->y);
    if (problem->groups < 1 || problem->x.dims[0] != problem->y.dims[0] ||
        problem->pointwise_count < 0 || problem->pointwise_count > MDNN_PROBLEM_POINTWISE ||
        !(problem->interfaces & MDNN_INTERFACE_GRAPH))
        abort();
    for (int i = 0; i < problem->pointwise_count; i++) {
        if (problem->pointwise[i].operand == MDNN_OPERAND_Z)
            check_tensor(&problem->z);
        if (problem->pointwise[i].operand == MDNN_OPERAND_BIAS)
            check_tensor(&problem->bias);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    mdnn_graph_t graph;
    mdnn_graph_kind_t kind = MDNN_GRAPH_KIND_COUNT;
    /* An exact heap copy lets the sanitizer see one byte too far. */
    char *const copy = malloc(bytes ? bytes : 1);
    memcpy(copy, data, bytes);
    const mdnn_status_t status = mdnn_graph_read(copy, bytes, &graph, &kind);
    free(copy);
    if (kind >= MDNN_GRAPH_KIND_COUNT ||
        (status == MDNN_STATUS_OK) != (kind == MDNN_GRAPH_RECOGNISED))
        abort();
    if (status == MDNN_STATUS_OK)
        check(&graph.problem);
    return 0;
}
