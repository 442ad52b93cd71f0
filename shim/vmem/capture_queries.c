#include "shim/vmem/capture_queries.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "shim/real/real.h"

/* Looked for here, since old drivers lack it and headers differ. */
typedef CUresult (*get_info_t)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                               const CUgraphNode **, size_t *);

static get_info_t find_get_info(void)
{
    static _Atomic(get_info_t) known;
    get_info_t get = atomic_load_explicit(&known, memory_order_relaxed);
    if (get)
        return get;
    void *const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *const symbol = library ? mdnn_real_dlsym()(library, "cuStreamGetCaptureInfo_v2") : NULL;
    memcpy(&get, &symbol, sizeof get);
    if (library)
        dlclose(library);
    if (!get)
        (void)dlerror(); /* not the host's */
    else
        atomic_store_explicit(&known, get, memory_order_relaxed);
    return get;
}

/* A failure that may pass is asked about again: what is not known to be captured is not kept for
 * its graph, and an end that is not known lets go of nothing. */
static CUstreamCaptureStatus ask(CUstream stream, cuuint64_t *id, CUgraph *graph)
{
    const get_info_t get = find_get_info();
    CUstreamCaptureStatus status;
    for (int tries = 0; get && tries < 2; tries++)
        if (get(stream, &status, id, graph, NULL, NULL) == CUDA_SUCCESS)
            return status;
    return CU_STREAM_CAPTURE_STATUS_NONE;
}

bool mdnn_capture_of(CUstream stream, unsigned long long *id)
{
    return mdnn_capture_asked(stream, id, NULL);
}

bool mdnn_capture_asked(CUstream stream, unsigned long long *id, CUgraph *graph)
{
    cuuint64_t found;
    CUgraph making = NULL;
    if (ask(stream, &found, graph ? &making : NULL) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return false;
    *id = found;
    if (graph)
        *graph = making;
    return true;
}

bool mdnn_capture_goes_on(CUstream stream)
{
    return ask(stream, NULL, NULL) != CU_STREAM_CAPTURE_STATUS_NONE;
}
