/* cuGetProcAddress and cudaGetDriverEntryPoint: the real one answers, and what it answered decides
 * which entry of ours replaces that. So versions, families and statuses are the driver's own, and
 * nothing is there that it lacks. */
#include "shim/interpose/hooks.h"
#include "shim/interpose/driver.h"

CUresult mdnn_hook_cuGetProcAddress_v2(CUresult (*real)(const char *, void **, int, cuuint64_t,
                                                        CUdriverProcAddressQueryResult *),
                                       bool own_stream, const char *name, void **function,
                                       int version, cuuint64_t flags,
                                       CUdriverProcAddressQueryResult *status)
{
    (void)own_stream;
    const CUresult result = real(name, function, version, flags, status);
    if (result == CUDA_SUCCESS && function)
        *function = mdnn_driver_route(name, *function, version,
                                      flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    return result;
}

CUresult mdnn_hook_cuGetProcAddress(CUresult (*real)(const char *, void **, int, cuuint64_t),
                                    bool own_stream, const char *name, void **function, int version,
                                    cuuint64_t flags)
{
    (void)own_stream;
    const CUresult result = real(name, function, version, flags);
    if (result == CUDA_SUCCESS && function)
        *function = mdnn_driver_route(name, *function, version,
                                      flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    return result;
}

/* cudart asks the driver, through us, as a rule; then there is nothing left to replace. */
static cudaError_t routed(cudaError_t error, const char *name, void **function, unsigned version,
                          bool own_stream)
{
    if (error == cudaSuccess && function && mdnn_driver_enter()) {
        *function = mdnn_driver_route(name, *function, (int)version, own_stream);
        mdnn_driver_leave();
    }
    return error;
}

#define ENTRY_POINT(symbol, own)                                                                   \
    cudaError_t mdnn_hook_##symbol(const char *name, void **function, unsigned long long flags,    \
                                   enum cudaDriverEntryPointQueryResult *status)                   \
    {                                                                                              \
        const mdnn_cudart_t *const real = mdnn_real_cudart();                                      \
        if (!real || !real->symbol)                                                                \
            return cudaErrorInitializationError;                                                   \
        return routed(real->symbol(name, function, flags, status), name, function, CUDA_VERSION,   \
                      (own) || (flags & cudaEnablePerThreadDefaultStream));                        \
    }
ENTRY_POINT(cudaGetDriverEntryPoint, false)
ENTRY_POINT(cudaGetDriverEntryPoint_ptsz, true)

#define ENTRY_POINT_BY_VERSION(symbol, own)                                                        \
    cudaError_t mdnn_hook_##symbol(const char *name, void **function, unsigned version,            \
                                   unsigned long long flags,                                       \
                                   enum cudaDriverEntryPointQueryResult *status)                   \
    {                                                                                              \
        const mdnn_cudart_t *const real = mdnn_real_cudart();                                      \
        if (!real || !real->symbol)                                                                \
            return cudaErrorInitializationError;                                                   \
        return routed(real->symbol(name, function, version, flags, status), name, function,        \
                      version, (own) || (flags & cudaEnablePerThreadDefaultStream));               \
    }
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion, false)
ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz, true)
