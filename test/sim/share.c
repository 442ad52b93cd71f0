/* Memory of handles that goes other ways than into reserved addresses: shared by file descriptors, bound to multicast
 * objects, put into arrays. All of it only within this process. What is bound or put somewhere is checked, and nothing
 * more: there is no content behind it, and any handle but 0 is taken for a multicast object. */
#include "test/sim/engine.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- file descriptors, known by the file behind them ---- */

typedef struct shared {
    ino_t file;
    CUmemGenericAllocationHandle value;
} shared_t;

static shared_t *all;
static size_t all_count;

static CUresult export(int *out, CUmemGenericAllocationHandle value, CUmemAllocationHandleType type,
                       unsigned long long flags)
{
    const sim_physical_t *const memory = sim_vmm_find(value);
    struct stat file;
    if (!out || !memory || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        memory->properties.requestedHandleTypes != type)
        return CUDA_ERROR_INVALID_VALUE;
    *out = memfd_create("simulated shared memory", MFD_CLOEXEC);
    if (*out < 0 || fstat(*out, &file) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    all = sim_resize(all, all_count + 1, sizeof *all);
    all[all_count++] = (shared_t){file.st_ino, value};
    return CUDA_SUCCESS;
}

SIM_ENTRY(INIT, cuMemExportToShareableHandle,
          (void *shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
           unsigned long long flags),
          export(shared, handle, type, flags))

static CUresult import(CUmemGenericAllocationHandle *out, int descriptor,
                       CUmemAllocationHandleType type)
{
    struct stat file;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(descriptor, &file) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < all_count; i++)
        if (all[i].file == file.st_ino && sim_vmm_hold(all[i].value)) {
            *out = all[i].value;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY(INIT, cuMemImportFromShareableHandle,
          (CUmemGenericAllocationHandle * handle, void *shared, CUmemAllocationHandleType type),
          import(handle, (int)(intptr_t)shared, type))

/* ---- multicast objects ---- */

static CUresult bind(CUmemGenericAllocationHandle multicast, const sim_physical_t *memory,
                     uint64_t offset, uint64_t bytes)
{
    return multicast != 0 && memory && offset <= memory->bytes && bytes > 0 &&
                   bytes <= memory->bytes - offset
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY(INIT, cuMulticastBindMem,
          (CUmemGenericAllocationHandle multicast, size_t at, CUmemGenericAllocationHandle handle,
           size_t offset, size_t bytes, unsigned long long flags),
          at || flags ? CUDA_ERROR_INVALID_VALUE
                      : bind(multicast, sim_vmm_find(handle), offset, bytes))

static CUresult bind_address(CUmemGenericAllocationHandle multicast, uint64_t address,
                             uint64_t bytes)
{
    const sim_range_t *const range = sim_map_find(address);
    return range ? bind(multicast, range->physical, address - range->start, bytes)
                 : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY(INIT, cuMulticastBindAddr,
          (CUmemGenericAllocationHandle multicast, size_t at, CUdeviceptr address, size_t bytes,
           unsigned long long flags),
          at || flags ? CUDA_ERROR_INVALID_VALUE : bind_address(multicast, address, bytes))

/* ---- arrays ---- */

static CUresult map_arrays(const CUarrayMapInfo *list, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
            (list[i].memHandleType != CU_MEM_HANDLE_TYPE_GENERIC ||
             !sim_vmm_find(list[i].memHandle.memHandle)))
            return CUDA_ERROR_INVALID_VALUE;
    return list && count > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY(CONTEXT, cuMemMapArrayAsync, (CUarrayMapInfo * list, unsigned count, CUstream stream),
          ((void)stream, map_arrays(list, count)))
