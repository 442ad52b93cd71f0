/* A libcublas of three functions that takes handles of its own only; built under several names, and
 * into a library that uses it. */
#include <stdlib.h>

#include <cuda.h>

enum { SUCCESS = 0, INTERNAL_ERROR = 14 };

int cublasCreate_v2(void **handle);
int cublasGetStream_v2(void *handle, CUstream *stream);
int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch);

static char own;

int cublasCreate_v2(void **handle)
{
    *handle = &own;
    return SUCCESS;
}

/* Nobody else may ask. */
int cublasGetStream_v2(void *handle, CUstream *stream)
{
    if (handle != &own)
        abort();
    *stream = NULL;
    return SUCCESS;
}

int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch)
{
    (void)n, (void)a, (void)lda, (void)pivots, (void)info, (void)batch;
    return handle == &own ? SUCCESS : INTERNAL_ERROR;
}
