/* How callers find the driver's functions: cuGetProcAddress in both forms, and the entry points for
 * per-thread default streams. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

#include <cudaTypedefs.h>
#include <string.h>

/* Of these there are two. */
#undef cuMemcpyBatchAsync
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
#undef cuDevicePrimaryCtxReset
CUresult cuDevicePrimaryCtxReset(CUdevice device);
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;
#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags);

#define ENTRY(name, version, symbol)
#define OWN(name, version, suffix, symbol, parameters, call)                                       \
    CUresult symbol parameters;                                                                    \
    CUresult symbol parameters                                                                     \
    {                                                                                              \
        sim_use_own_stream(true);                                                                  \
        CUresult result = call;                                                                    \
        sim_use_own_stream(false);                                                                 \
        return result;                                                                             \
    }
#include "test/sim/entries.def"
#undef ENTRY
#undef OWN

typedef void (*function_t)(void);

typedef struct entry {
    const char *name;
    int version;
    bool own_stream;
    function_t function;
} entry_t;

/* The cast to the header's type would warn if the prototype were another one. */
static const entry_t entries[] = {
#define ENTRY(name, version, symbol)                                                               \
    {#name, version, false, (function_t)(1 ? symbol : (PFN_##name##_v##version)NULL)},
#define OWN(name, version, suffix, symbol, parameters, call)                                       \
    {#name, version, true, (function_t)(1 ? symbol : (PFN_##name##_v##version##_##suffix)NULL)},
#include "test/sim/entries.def"
#undef ENTRY
#undef OWN
};

/* The newest form that the caller's version knows, with its own default stream if asked for and
 * there is one; NULL if there is none. *named: the name exists, in whatever version. */
static const entry_t *find_entry(const char *name, int version, bool own_stream, bool *named)
{
    const entry_t *best = NULL;
    *named = false;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        const entry_t *each = &entries[i];
        if (strcmp(each->name, name) != 0)
            continue;
        *named = true;
        if (each->version > version || (each->own_stream && !own_stream))
            continue;
        if (!best || each->own_stream > best->own_stream ||
            (each->own_stream == best->own_stream && each->version > best->version))
            best = each;
    }
    return best;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    if (!symbol || !function || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    bool named;
    bool own_stream = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const entry_t *entry = find_entry(symbol, version, own_stream, &named);
    *function = NULL;
    if (entry)
        memcpy(function, &entry->function, sizeof *function);
    if (!status)
        return entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    *status = entry   ? CU_GET_PROC_ADDRESS_SUCCESS
              : named ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, cuuint64_t flags)
{
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
