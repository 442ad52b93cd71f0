/* For tests and benches of single hooks: virtual memory that owns one stretch of addresses and a
 * driver that tells layouts. Included once in a program. */
#ifndef ONE_DRIVER_H
#define ONE_DRIVER_H

#include <stdarg.h>
#include <stdlib.h>

#include "shim/interpose/driver.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/graph_memory.h"
#include "shim/vmem/kernel_tables.h"

#define OWNED UINT64_C(0x700000000000)
#define OWNED_BYTES ((uint64_t)1 << 30)

static uint64_t named[64];
static size_t operand_count;
static mdnn_node_owner_t named_owner, child_owner;
static CUgraph child_graph, joined_part;
static CUresult name_result = CUDA_SUCCESS;

bool mdnn_virtual_on(void)
{
    return true;
}

bool mdnn_virtual_owns(uint64_t address)
{
    return address - OWNED < OWNED_BYTES;
}

void mdnn_virtual_name(mdnn_virtual_operation_t *operation, uint64_t address, mdnn_use_role_t role)
{
    if (operation->name_count < MDNN_VIRTUAL_NAMES)
        operation->names[operation->name_count++] = (mdnn_memory_operand_t){address, role};
}

CUresult mdnn_virtual_begin(mdnn_virtual_operation_t *operation, uint64_t key)
{
    (void)key;
    return operation->overflowed ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

void mdnn_virtual_end(mdnn_virtual_operation_t *operation, bool enqueued)
{
    (void)operation, (void)enqueued;
}

CUresult mdnn_virtual_node_operands(mdnn_node_owner_t owner, uint64_t address)
{
    named_owner = owner;
    named[operand_count++ % 64] = address;
    return name_result;
}

/* No pointers are followed here. */
void mdnn_transfer(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer)
{
    (void)transfers, (void)transfer;
}

/* No graph here allocates. */
void mdnn_graph_memory_seen(void)
{
}

bool mdnn_graph_memory_instantiated(CUgraph graph, CUgraphExec executable)
{
    (void)graph, (void)executable;
    return true;
}

void mdnn_graph_memory_executable_ends(CUgraphExec executable)
{
    (void)executable;
}

CUresult mdnn_graph_memory_begin(CUgraphExec executable, mdnn_graph_growth_t *growth)
{
    (void)executable;
    growth->count = 0;
    return CUDA_SUCCESS;
}

void mdnn_graph_memory_end(mdnn_graph_growth_t *growth, bool success)
{
    (void)growth, (void)success;
}

void mdnn_graph_memory_trimmed(CUdevice device)
{
    (void)device;
}

void mdnn_virtual_node_made(mdnn_node_owner_t owner, bool made)
{
    (void)owner, (void)made;
}

void mdnn_virtual_node_child(mdnn_node_owner_t owner, CUgraph child)
{
    child_owner = owner;
    child_graph = child;
}

void mdnn_virtual_graph_joined(CUgraph whole, CUgraph part)
{
    (void)whole;
    joined_part = part;
}

void mdnn_virtual_graph_cloned(CUgraph graph, CUgraph clone)
{
    (void)graph, (void)clone;
}

void mdnn_virtual_executable_updated(CUgraph graph, CUgraphExec executable, bool whole)
{
    (void)graph, (void)executable, (void)whole;
}

_Atomic uint64_t mdnn_host_memory_low, mdnn_host_memory_high; /* none is pinned */

const mdnn_options_t *mdnn_process_options(void)
{
    static const mdnn_options_t options = {.memory_safety = MDNN_SAFETY_AUTO};
    return &options;
}

bool mdnn_kernel_tables_unknown(const mdnn_kernel_layout_t *layout, void **parameters, void **extra)
{
    (void)layout, (void)parameters, (void)extra;
    return false;
}

void mdnn_kernel_tables_written(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                                bool captured)
{
    (void)layout, (void)parameters, (void)extra, (void)captured;
}

void mdnn_virtual_name_table(mdnn_virtual_operation_t *operation, uint64_t address)
{
    (void)operation, (void)address;
}

CUresult mdnn_virtual_name_graph(mdnn_virtual_operation_t *operation, CUgraphExec executable)
{
    (void)operation, (void)executable;
    return CUDA_SUCCESS;
}

void mdnn_virtual_capture_begins(void)
{
}

void mdnn_virtual_capture_began(CUstream stream, bool per_thread, CUgraph graph, bool began)
{
    (void)stream, (void)per_thread, (void)graph, (void)began;
}

unsigned long long mdnn_virtual_capture(CUstream stream, bool per_thread)
{
    (void)stream, (void)per_thread;
    return 0;
}

void mdnn_virtual_capture_ended(CUstream stream, bool per_thread, unsigned long long capture,
                                CUgraph graph)
{
    (void)stream, (void)per_thread, (void)capture, (void)graph;
}

void mdnn_virtual_graph_launched(CUgraphExec executable, CUstream stream, bool per_thread)
{
    (void)executable, (void)stream, (void)per_thread;
}

void mdnn_virtual_graph_instantiated(CUgraph graph, CUgraphExec executable,
                                     unsigned long long flags)
{
    (void)flags;
    (void)graph, (void)executable;
}

uint64_t mdnn_virtual_graph_ends(CUgraph graph)
{
    (void)graph;
    return 0;
}

void mdnn_virtual_graph_ended(CUgraph graph, uint64_t number, bool ended)
{
    (void)graph, (void)number, (void)ended;
}

uint64_t mdnn_virtual_executable_ends(CUgraphExec executable)
{
    (void)executable;
    return 0;
}

void mdnn_virtual_executable_ended(CUgraphExec executable, uint64_t number, bool ended)
{
    (void)executable, (void)number, (void)ended;
}

/* Kernels 16, 32, ... have four parameters of 64 bytes; handle 8 tells nothing. */
enum { PARAMETERS_OF_KERNELS = 4, PARAMETER_BYTES = 64 };
static size_t parameters_told = PARAMETERS_OF_KERNELS;

static CUresult tell_parameters(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    *offset = index * PARAMETER_BYTES;
    *bytes = PARAMETER_BYTES;
    if ((uintptr_t)kernel % 16 != 0)
        return CUDA_ERROR_INVALID_HANDLE;
    return index < parameters_told ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

const mdnn_driver_queries_t *mdnn_driver_queries(void)
{
    static const mdnn_driver_queries_t queries = {.cuKernelGetParamInfo = tell_parameters};
    return &queries;
}

#endif
