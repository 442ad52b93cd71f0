/* Kernels: modules and libraries, which only name them, function handles, and launches. Code for a
 * GPU cannot run here: a module's entry is the registered simulated kernel of the same name. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct CUmod_st {
    char *ptx;
    uint64_t context_id; /* that it ends with; 0: none */
    CUmodule next;
};

static CUmodule modules; /* of contexts */

static CUfunction functions; /* two handles for each registered kernel */

static CUfunction find_function(const sim_kernel_t *kernel, const char *name, bool kernel_handle,
                                uint64_t context_id)
{
    for (CUfunction each = functions; each; each = each->next)
        if (each->is_kernel_handle == kernel_handle && each->context_id == context_id &&
            (kernel ? each->kernel == kernel : !strcmp(each->kernel->name, name)))
            return each;
    return NULL;
}

static CUfunction add_function(const sim_kernel_t *kernel, bool kernel_handle, uint64_t context_id)
{
    CUfunction function = sim_allocate(sizeof *function);
    *function = (struct CUfunc_st){kernel, kernel_handle, context_id, functions};
    return functions = function;
}

/* As most launched handles of real programs, it is a CUkernel passed as a CUfunction. */
CUfunction sim_function(const sim_kernel_t *kernel)
{
    CUfunction function = find_function(kernel, NULL, true, 0);
    if (function)
        return function;
    add_function(kernel, false, 0);
    return add_function(kernel, true, 0);
}

/* Whether PTX text has a kernel of that name: ".entry name(". */
static bool has_entry(const char *ptx, const char *name)
{
    size_t length = strlen(name);
    while ((ptx = strstr(ptx, ".entry"))) {
        ptx += strlen(".entry");
        while (isspace((unsigned char)*ptx))
            ptx++;
        if (!strncmp(ptx, name, length) && !isalnum((unsigned char)ptx[length]) &&
            !strchr("_$", ptx[length] ? ptx[length] : ' '))
            return true;
    }
    return false;
}

static CUresult module_load(CUmodule *out, const void *image, uint64_t context_id)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = image;
    if (memcmp(text,
               "\x7f"
               "ELF",
               4) == 0 ||
        memcmp(text, "\x50\xed\x55\xba", 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!strstr(text, ".version"))
        return CUDA_ERROR_INVALID_PTX;
    CUmodule module = sim_allocate(sizeof *module);
    module->ptx = strcpy(sim_allocate(strlen(text) + 1), text);
    module->context_id = context_id;
    if (context_id) {
        module->next = modules;
        modules = module;
    }
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult module_unload(CUmodule module)
{
    CUmodule *at = &modules;
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    while (*at && *at != module)
        at = &(*at)->next;
    if (*at)
        *at = module->next;
    free(module->ptx);
    free(module);
    return CUDA_SUCCESS;
}

void sim_modules_end(uint64_t context_id)
{
    CUmodule *at = &modules;
    while (*at)
        if ((*at)->context_id == context_id)
            module_unload(*at);
        else
            at = &(*at)->next;
}

/* Code of a module ends with its context. */
static CUfunction function_here(CUfunction function)
{
    const uint64_t id = sim_current()->id;
    CUfunction here = find_function(function->kernel, NULL, false, id);
    return here ? here : add_function(function->kernel, false, id);
}

static CUresult module_function(CUfunction *out, CUmodule module, const char *name,
                                bool kernel_handle)
{
    if (!out || !module || !name)
        return CUDA_ERROR_INVALID_VALUE;
    CUfunction function =
        has_entry(module->ptx, name) ? find_function(NULL, name, kernel_handle, 0) : NULL;
    if (!function)
        return CUDA_ERROR_NOT_FOUND;
    *out = kernel_handle ? function : function_here(function);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuModuleLoadData, (CUmodule * module, const void *image),
          module_load(module, image, sim_current()->id))

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned option_count,
                            CUjit_option *options, void **values)
{
    (void)option_count, (void)options, (void)values; /* nothing is compiled */
    SIM_CALL(SIM_NEED_CONTEXT, module_load(module, image, sim_current()->id));
}

SIM_ENTRY(CONTEXT, cuModuleUnload, (CUmodule module), module_unload(module))
SIM_ENTRY(CONTEXT, cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name),
          module_function(function, module, name, false))

/* A CUlibrary here is a module that needs no context. */
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit_options,
                           void **jit_values, unsigned jit_count, CUlibraryOption *options,
                           void **values, unsigned count)
{
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    SIM_CALL(SIM_NEED_INIT, module_load((CUmodule *)(void *)library, code, 0));
}

SIM_ENTRY(INIT, cuLibraryUnload, (CUlibrary library), module_unload((CUmodule)(void *)library))
SIM_ENTRY(INIT, cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char *name),
          module_function((CUfunction *)(void *)kernel, (CUmodule)(void *)library, name, true))

static CUresult kernel_function(CUfunction *out, CUkernel kernel)
{
    CUfunction handle = (CUfunction)(void *)kernel;
    if (!out || !handle || !handle->is_kernel_handle)
        return out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *out = find_function(handle->kernel, NULL, false, 0);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuKernelGetFunction, (CUfunction * function, CUkernel kernel),
          kernel_function(function, kernel))

static CUresult parameter_info(CUfunction function, bool kernel_handle, size_t index,
                               size_t *offset, size_t *bytes)
{
    if (!function || !offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (function->is_kernel_handle != kernel_handle)
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= function->kernel->parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = function->kernel->parameters[index].offset_bytes;
    if (bytes)
        *bytes = function->kernel->parameters[index].size_bytes;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuFuncGetParamInfo,
          (CUfunction function, size_t index, size_t *offset, size_t *bytes),
          parameter_info(function, false, index, offset, bytes))
SIM_ENTRY(INIT, cuKernelGetParamInfo,
          (CUkernel kernel, size_t index, size_t *offset, size_t *bytes),
          parameter_info((CUfunction)(void *)kernel, true, index, offset, bytes))

static CUresult function_name(const char **out, CUfunction function)
{
    if (!out || !function)
        return CUDA_ERROR_INVALID_VALUE;
    *out = function->kernel->name;
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuFuncGetName, (const char **name, CUfunction function),
          function_name(name, function))
SIM_ENTRY(INIT, cuKernelGetName, (const char **name, CUkernel kernel),
          function_name(name, (CUfunction)(void *)kernel))

static CUresult launch(CUfunction function, uint64_t blocks, uint64_t threads, CUstream handle,
                       void **parameters, void **extra)
{
    CUstream stream;
    if (!function || (function->context_id && function->context_id != sim_current()->id))
        return CUDA_ERROR_INVALID_HANDLE;
    if (blocks == 0 || threads == 0 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = sim_stream_resolve(handle, &stream);
    sim_work_t work;
    if (result == CUDA_SUCCESS)
        result = sim_work_kernel(&work, function->kernel, parameters, extra);
    if (result != CUDA_SUCCESS)
        return result;
    return sim_stream_add(stream, &work, sim_device(stream->context->device)->profile.launch_us,
                          NULL);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void **parameters, void **extra)
{
    (void)shared_bytes;
    SIM_CALL(SIM_NEED_CONTEXT,
             launch(function, (uint64_t)grid_x * grid_y * grid_z,
                    (uint64_t)block_x * block_y * block_z, stream, parameters, extra));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void **parameters)
{
    (void)shared_bytes;
    SIM_CALL(SIM_NEED_CONTEXT,
             launch(function, (uint64_t)grid_x * grid_y * grid_z,
                    (uint64_t)block_x * block_y * block_z, stream, parameters, NULL));
}

static CUresult launch_ex(const CUlaunchConfig *config, CUfunction function, void **parameters,
                          void **extra)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function, (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ,
                  (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ,
                  config->hStream, parameters, extra);
}

SIM_ENTRY(CONTEXT, cuLaunchKernelEx,
          (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
          launch_ex(config, function, parameters, extra))
