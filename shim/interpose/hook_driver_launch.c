/* Launches. What a kernel touches is named by its parameters: pointers, structs with pointers in
 * them, tensor maps. That is measured for six networks, cuDNN's and cuBLAS's kernels included. */
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "shim/interpose/driver.h"
#include "shim/interpose/last_kernels.h"
#include "shim/remake/remake.h"
#include "shim/real/failure.h"
#include "shim/real/host_memory.h"
#include "shim/real/process.h"
#include "shim/vmem/indirect_operands.h"
#include "shim/vmem/kernel_tables.h"
#include "shim/vmem/launch_scan.h"
#include "shim/real/tensor_maps.h"

/* Structs are packed at four bytes at the least where kernels take them by value. */
static void scan_bytes(const char *bytes, size_t count, mdnn_launch_visit_t visit, void *context)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= count; at += 4) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        if (mdnn_virtual_owns(word) || mdnn_host_memory_may_hold(word))
            visit(context, word);
    }
    for (size_t at = 0; at + sizeof(CUtensorMap) <= count; at += 64) {
        const uint64_t hidden = mdnn_tensor_map_address(bytes + at);
        if (hidden && mdnn_virtual_owns(hidden))
            visit(context, hidden);
    }
}

static bool scan_extra(void **extra, mdnn_launch_visit_t visit, void *context)
{
    const char *const buffer = mdnn_launch_extra(extra, CU_LAUNCH_PARAM_BUFFER_POINTER);
    const size_t *const bytes = mdnn_launch_extra(extra, CU_LAUNCH_PARAM_BUFFER_SIZE);
    if (buffer && bytes)
        scan_bytes(buffer, *bytes, visit, context);
    return true;
}

bool mdnn_launch_scan(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                      mdnn_launch_visit_t visit, void *context)
{
    if (!parameters)
        return !extra || scan_extra(extra, visit, context);
    if (!layout || !layout->known)
        return false;
    for (uint32_t i = 0; i < layout->count; i++)
        if (parameters[i])
            scan_bytes(parameters[i], layout->parameter_bytes[i], visit, context);
    return true;
}

static void name_unknown(void *operation, uint64_t address)
{
    if (mdnn_virtual_owns(address))
        mdnn_virtual_name(operation, address, MDNN_USE_UNKNOWN);
    else
        mdnn_virtual_name_table(operation, address);
}

/* Of a kernel that is in the list, or has tables. */
static mdnn_virtual_reach_t reach_of(const mdnn_kernel_layout_t *layout, void **parameters,
                                     void **extra)
{
    const mdnn_safety_t safety = (mdnn_safety_t)mdnn_process_options()->memory_safety;
    if (safety != MDNN_SAFETY_AUTO && safety != MDNN_SAFETY_VERIFY)
        return MDNN_REACH_NAMED;
    if (layout->listed)
        return MDNN_REACH_ALL;
    const bool unknown = safety == MDNN_SAFETY_AUTO && /* verify is to find such a kernel */
                         mdnn_kernel_tables_unknown(layout, parameters, extra);
    return unknown ? MDNN_REACH_WHAT_FITS : MDNN_REACH_NAMED;
}

/* Names what the launch is given, and begins it. */
static CUresult begin(mdnn_virtual_operation_t *operation, mdnn_launch_t *launch)
{
    const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout(launch->function);
    void **const parameters = launch->parameters, **const extra = launch->extra;
    const bool read = mdnn_launch_scan(layout, parameters, extra, name_unknown, operation);
    if (!read)
        operation->overflowed = true;
    if (!read && layout && mdnn_failure_is_final(layout->error))
        return layout->error; /* the launch would fail, too */
    operation->name = layout ? layout->name : NULL;
    if (layout)
        mdnn_last_kernels_add(layout->name);
    operation->layout = layout && layout->table_count > 0 ? layout : NULL;
    operation->follows = true;
    const size_t named = operation->name_count;
    mdnn_indirect_name(operation);
    operation->may_wait = operation->name_count > named; /* for a peer's, perhaps, as NCCL's do */
    if (layout && (layout->listed || operation->layout) && !operation->may_wait)
        operation->reach = reach_of(layout, parameters, extra);
    launch->layout = layout;
    mdnn_remake_note_launch(operation, launch, mdnn_driver_caller());
    uint64_t key = layout ? layout->name_hash : MDNN_DRIVER_HASH_START;
    key = mdnn_driver_hash(key, (uint64_t)launch->grid[0] << 32 | launch->grid[1]);
    const CUresult result = mdnn_virtual_begin(operation, mdnn_driver_hash(key, launch->grid[2]));
    if (!read && result != CUDA_SUCCESS)
        MDNN_LOG_ONCE(MDNN_LOG_ERROR, "memory",
                      "the driver does not describe a kernel's parameters: it cannot run under "
                      "memory.budget");
    return result;
}

static void end(mdnn_virtual_operation_t *operation, void **parameters, void **extra, bool enqueued)
{
    if (enqueued && operation->layout)
        mdnn_kernel_tables_written(operation->layout, parameters, extra, operation->capture != 0);
    mdnn_virtual_end(operation, enqueued);
}

CUresult
mdnn_hook_cuLaunchKernel(CUresult (*real)(CUfunction, unsigned, unsigned, unsigned, unsigned,
                                          unsigned, unsigned, unsigned, CUstream, void **, void **),
                         bool own_stream, CUfunction function, unsigned grid_x, unsigned grid_y,
                         unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                         unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
    mdnn_launch_t launch = {.function = function,
                            .grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .shared_bytes = shared_bytes,
                            .parameters = parameters,
                            .extra = extra};
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, stream, own_stream);
    CUresult result = function ? begin(&operation, &launch) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result = real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                      stream, parameters, extra);
        end(&operation, parameters, extra, result == CUDA_SUCCESS);
    }
    return result;
}

CUresult mdnn_hook_cuLaunchCooperativeKernel(
    CUresult (*real)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned, CUstream, void **),
    bool own_stream, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
    void **parameters)
{
    mdnn_launch_t launch = {.function = function,
                            .grid = {grid_x, grid_y, grid_z},
                            .block = {block_x, block_y, block_z},
                            .shared_bytes = shared_bytes,
                            .cooperative = true,
                            .parameters = parameters};
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, stream, own_stream);
    CUresult result = function ? begin(&operation, &launch) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result = real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                      stream, parameters);
        end(&operation, parameters, NULL, result == CUDA_SUCCESS);
    }
    return result;
}

static mdnn_launch_t launch_of_config(const CUlaunchConfig *config, CUfunction function,
                                      void **parameters, void **extra)
{
    return (mdnn_launch_t){.function = function,
                           .grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                           .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                           .shared_bytes = config->sharedMemBytes,
                           .attributes = config->attrs,
                           .attribute_count = config->numAttrs,
                           .parameters = parameters,
                           .extra = extra};
}

CUresult mdnn_hook_cuLaunchKernelEx(CUresult (*real)(const CUlaunchConfig *, CUfunction, void **,
                                                     void **),
                                    bool own_stream, const CUlaunchConfig *config,
                                    CUfunction function, void **parameters, void **extra)
{
    mdnn_launch_t launch = {0};
    mdnn_virtual_operation_t operation;
    mdnn_virtual_operation(&operation, config ? config->hStream : NULL, own_stream);
    if (config)
        launch = launch_of_config(config, function, parameters, extra);
    CUresult result = config && function ? begin(&operation, &launch) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        result = real(config, function, parameters, extra);
        end(&operation, parameters, extra, result == CUDA_SUCCESS);
    }
    return result;
}

/* One operation for each device; none of them is enqueued if one does not fit. */
CUresult mdnn_hook_cuLaunchCooperativeKernelMultiDevice(CUresult (*real)(CUDA_LAUNCH_PARAMS *,
                                                                         unsigned, unsigned),
                                                        bool own_stream, CUDA_LAUNCH_PARAMS *list,
                                                        unsigned count, unsigned flags)
{
    if (!list || count == 0)
        return real(list, count, flags);
    mdnn_virtual_operation_t *const operations = malloc(count * sizeof *operations);
    CUresult result = operations ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    unsigned begun = 0;
    while (result == CUDA_SUCCESS && begun < count) {
        const CUDA_LAUNCH_PARAMS *const each = &list[begun];
        mdnn_virtual_operation(&operations[begun], each->hStream, own_stream);
        mdnn_launch_t launch = {.function = each->function,
                                .grid = {each->gridDimX, each->gridDimY, each->gridDimZ},
                                .block = {each->blockDimX, each->blockDimY, each->blockDimZ},
                                .shared_bytes = each->sharedMemBytes,
                                .cooperative = true,
                                .parameters = each->kernelParams};
        if (each->function)
            result = begin(&operations[begun], &launch);
        operations[begun].launch = NULL; /* it lives no longer */
        begun += result == CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS)
        result = real(list, count, flags);
    for (; begun > 0; begun--)
        end(&operations[begun - 1], list[begun - 1].kernelParams, NULL, result == CUDA_SUCCESS);
    free(operations);
    return result;
}

/* ---- handles that may come back ---- */

CUresult mdnn_hook_cuModuleUnload(CUresult (*real)(CUmodule), bool own_stream, CUmodule module)
{
    (void)own_stream;
    mdnn_remake_code_ends();
    mdnn_kernel_layouts_forget();
    return real(module);
}

CUresult mdnn_hook_cuLibraryUnload(CUresult (*real)(CUlibrary), bool own_stream, CUlibrary library)
{
    (void)own_stream;
    mdnn_remake_code_ends();
    mdnn_kernel_layouts_forget();
    return real(library);
}
