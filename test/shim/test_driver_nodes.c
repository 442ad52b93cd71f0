/* What nodes of graphs that are made by hand name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/interpose/driver_nodes.h"
#include "shim/real/kernel_layout.h"
#include "shim/remake/remake.h"
#include "test/shim/one_driver.h"

void mdnn_remake_note_launch(mdnn_virtual_operation_t *operation, mdnn_launch_t *launch,
                             const void *caller)
{
    (void)operation, (void)launch, (void)caller;
}

void mdnn_remake_code_ends(void)
{
}

const void *mdnn_driver_caller(void)
{
    return NULL;
}

static const mdnn_node_owner_t graph = {.graph = (CUgraph)(uintptr_t)0x1230};
static const mdnn_node_owner_t unknown;

static int forget(void **state)
{
    (void)state;
    operand_count = 0;
    named_owner = child_owner = unknown;
    child_graph = joined_part = NULL;
    name_result = CUDA_SUCCESS;
    return 0;
}

/* In the graph, in this order. */
static void check_named(size_t count, const uint64_t *expected)
{
    assert_int_equal(operand_count, count);
    assert_memory_equal(named, expected, count * sizeof *named);
    assert_ptr_equal(named_owner.graph, count > 0 ? graph.graph : NULL);
}

static uint64_t values[PARAMETERS_OF_KERNELS][PARAMETER_BYTES / 8];
static void *parameters[] = {values[0], values[1], values[2], values[3]};

static void kernels_name_what_is_in_their_parameters(void **state)
{
    (void)state;
    memset(values, 0, sizeof values);
    values[1][7] = OWNED + 100;
    values[3][0] = OWNED + 200;
    values[3][1] = 5;
    const uint64_t expected[] = {OWNED + 100, OWNED + 200};
    CUDA_KERNEL_NODE_PARAMS_v2 uses = {.kern = (CUkernel)(uintptr_t)16, .kernelParams = parameters};
    assert_int_equal(mdnn_node_kernel_v2(graph, &uses), CUDA_SUCCESS);
    check_named(2, expected);
    forget(NULL);
    const CUDA_KERNEL_NODE_PARAMS_v1 old = {.func = (CUfunction)(uintptr_t)16,
                                            .kernelParams = parameters};
    assert_int_equal(mdnn_node_kernel_v1(graph, &old), CUDA_SUCCESS);
    check_named(2, expected);
    forget(NULL);
    const CUgraphNodeParams any = {
        .type = CU_GRAPH_NODE_TYPE_KERNEL,
        .kernel = {.kern = (CUkernel)(uintptr_t)16, .kernelParams = parameters}};
    assert_int_equal(mdnn_node_any(graph, &any), CUDA_SUCCESS);
    check_named(2, expected);
}

static void an_unknown_kernel_is_refused(void **state)
{
    (void)state;
    const CUDA_KERNEL_NODE_PARAMS_v2 uses = {.func = (CUfunction)(uintptr_t)8,
                                             .kernelParams = parameters};
    assert_int_equal(mdnn_node_kernel_v2(graph, &uses), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(mdnn_node_kernel_v2(graph, NULL), CUDA_SUCCESS);
    check_named(0, NULL);
}

static void copies_and_memsets_name_both_sides(void **state)
{
    (void)state;
    const uint64_t expected[] = {OWNED + 64, OWNED + 4096 + 8};
    const CUDA_MEMCPY3D box = {.dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = OWNED,
                               .dstPitch = 64,
                               .dstY = 1,
                               .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                               .srcDevice = OWNED + 4096,
                               .srcXInBytes = 8};
    assert_int_equal(mdnn_node_copy(graph, &box), CUDA_SUCCESS);
    check_named(2, expected);
    forget(NULL);
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy = {.copyParams = box}};
    assert_int_equal(mdnn_node_any(graph, &any), CUDA_SUCCESS);
    check_named(2, expected);
    forget(NULL);
    const CUDA_MEMSET_NODE_PARAMS fill = {.dst = OWNED + 64};
    assert_int_equal(mdnn_node_memset(graph, &fill), CUDA_SUCCESS);
    check_named(1, expected);
    forget(NULL);
    any = (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_MEMSET, .memset = {.dst = OWNED + 64}};
    assert_int_equal(mdnn_node_any(graph, &any), CUDA_SUCCESS);
    check_named(1, expected);
}

static void values_are_named(void **state)
{
    (void)state;
    const uint64_t expected[] = {OWNED + 8, OWNED + 16};
    CUstreamBatchMemOpParams list[3] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64, .address = OWNED + 8}},
        {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = OWNED + 16}}};
    const CUDA_BATCH_MEM_OP_NODE_PARAMS uses = {.count = 3, .paramArray = list};
    assert_int_equal(mdnn_node_values(graph, &uses), CUDA_SUCCESS);
    check_named(2, expected);
    forget(NULL);
    const CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                   .memOp = {.count = 3, .paramArray = list}};
    assert_int_equal(mdnn_node_any(graph, &any), CUDA_SUCCESS);
    check_named(2, expected);
}

static void a_child_graph_brings_its_memory(void **state)
{
    (void)state;
    CUgraph const child = (CUgraph)(uintptr_t)0x99;
    const mdnn_node_owner_t executable = {.executable = (CUgraphExec)(uintptr_t)0x77};
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    assert_int_equal(mdnn_node_any(graph, &any), CUDA_SUCCESS);
    assert_ptr_equal(child_owner.graph, graph.graph);
    assert_ptr_equal(child_graph, child);
    assert_int_equal(mdnn_node_any(executable, &any), CUDA_SUCCESS);
    assert_ptr_equal(child_owner.executable, executable.executable);
    forget(NULL);
    assert_int_equal(mdnn_node_any(unknown, &any), CUDA_SUCCESS);
    assert_ptr_equal(child_graph, child);
}

static void what_cannot_stay_is_refused(void **state)
{
    (void)state;
    const CUDA_MEMSET_NODE_PARAMS fill = {.dst = OWNED + 64}, elsewhere = {.dst = 64};
    name_result = CUDA_ERROR_OUT_OF_MEMORY;
    assert_int_equal(mdnn_node_memset(unknown, &elsewhere), CUDA_SUCCESS);
    assert_int_equal(operand_count, 0);
    assert_int_equal(mdnn_node_memset(unknown, &fill), CUDA_ERROR_OUT_OF_MEMORY);
    memset(values, 0, sizeof values);
    values[0][0] = OWNED;
    const CUDA_KERNEL_NODE_PARAMS_v2 uses = {.func = (CUfunction)(uintptr_t)16,
                                             .kernelParams = parameters};
    assert_int_equal(mdnn_node_kernel_v2(graph, &uses), CUDA_ERROR_OUT_OF_MEMORY);
}

typedef CUresult (*add_node_t)(CUgraphNode *, CUgraph, const CUgraphNode *, size_t,
                               CUgraphNodeParams *);
CUresult mdnn_hook_cuGraphAddNode(add_node_t real, bool own_stream, CUgraphNode *node,
                                  CUgraph whole, const CUgraphNode *after, size_t after_count,
                                  CUgraphNodeParams *uses);

static CUgraph bodies[2];

static CUresult add(CUgraphNode *node, CUgraph whole, const CUgraphNode *after, size_t count,
                    CUgraphNodeParams *uses)
{
    (void)node, (void)whole, (void)after, (void)count;
    uses->conditional.phGraph_out = bodies;
    return CUDA_SUCCESS;
}

static CUresult move(CUgraphNode *node, CUgraph whole, const CUgraphNode *after, size_t count,
                     CUgraphNodeParams *uses)
{
    (void)node, (void)whole, (void)after, (void)count, (void)uses;
    return CUDA_SUCCESS;
}

static void graphs_that_live_in_a_node_are_parts(void **state)
{
    (void)state;
    bodies[0] = (CUgraph)(uintptr_t)0x50;
    bodies[1] = (CUgraph)(uintptr_t)0x60;
    CUgraphNodeParams choice = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL, .conditional = {.size = 2}};
    assert_int_equal(mdnn_hook_cuGraphAddNode(add, false, NULL, graph.graph, NULL, 0, &choice),
                     CUDA_SUCCESS);
    assert_ptr_equal(joined_part, bodies[1]);
    CUgraphNodeParams child = {
        .type = CU_GRAPH_NODE_TYPE_GRAPH,
        .graph = {.graph = bodies[0], .ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}};
    assert_int_equal(mdnn_hook_cuGraphAddNode(move, false, NULL, graph.graph, NULL, 0, &child),
                     CUDA_SUCCESS);
    assert_ptr_equal(joined_part, bodies[0]);
    assert_null(child_graph);
}

static CUresult unload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult unload_library(CUlibrary library)
{
    (void)library;
    return CUDA_SUCCESS;
}

static void check_layout(size_t count)
{
    const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout((CUfunction)(uintptr_t)16);
    assert_non_null(layout);
    assert_int_equal(layout->count, count);
}

/* A handle may come back for another kernel, whose parameters lie elsewhere. */
static void layouts_end_with_their_modules(void **state)
{
    (void)state;
    check_layout(PARAMETERS_OF_KERNELS);
    parameters_told = 2;
    check_layout(PARAMETERS_OF_KERNELS); /* it is not asked about again for nothing */
    assert_int_equal(mdnn_hook_cuModuleUnload(unload, false, NULL), CUDA_SUCCESS);
    check_layout(2);
    parameters_told = 3;
    assert_int_equal(mdnn_hook_cuLibraryUnload(unload_library, false, NULL), CUDA_SUCCESS);
    check_layout(3);
    parameters_told = PARAMETERS_OF_KERNELS;
    mdnn_kernel_layouts_forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(layouts_end_with_their_modules, forget),
        cmocka_unit_test_setup(kernels_name_what_is_in_their_parameters, forget),
        cmocka_unit_test_setup(an_unknown_kernel_is_refused, forget),
        cmocka_unit_test_setup(copies_and_memsets_name_both_sides, forget),
        cmocka_unit_test_setup(values_are_named, forget),
        cmocka_unit_test_setup(a_child_graph_brings_its_memory, forget),
        cmocka_unit_test_setup(what_cannot_stay_is_refused, forget),
        cmocka_unit_test_setup(graphs_that_live_in_a_node_are_parts, forget),
    };
    return cmocka_run_group_tests_name("driver_nodes", tests, NULL, NULL);
}
