/* A libcublas.so.13 of a few functions, whose kernels get arrays of pointers. Numbers are words:
 *   gemm    c[i][j] = 3 a[i][j] + b[i][j], j < m * n, then c[i][j] += 1 by a second kernel
 *   getrf   a[i][j] = 5 a[i][j] + 1, j < n * n
 * What the second kernel of gemm is given is the array of c only, as it is at its own time. */
#include "test/libraries/kernels.h"

enum { SUCCESS = 0, NOT_INITIALIZED = 1, EXECUTION_FAILED = 13 };

typedef struct handle {
    CUstream stream;
    CUfunction multiply, increment, factor;
} handle_t;

static uint32_t *row(uint64_t array, uint32_t index, uint32_t words)
{
    const uint64_t *const at = simulator->memory(array + index * sizeof *at, sizeof *at);
    return at ? simulator->memory(*at, words * sizeof(uint32_t)) : NULL;
}

static void multiply(void *const *parameters)
{
    const uint64_t a = *(uint64_t *)parameters[0], b = *(uint64_t *)parameters[1];
    const uint64_t c = *(uint64_t *)parameters[2];
    const uint32_t words = *(uint32_t *)parameters[3], batch = *(uint32_t *)parameters[4];
    for (uint32_t i = 0; i < batch; i++) {
        const uint32_t *const left = row(a, i, words), *const right = row(b, i, words);
        uint32_t *const to = row(c, i, words);
        for (uint32_t j = 0; left && right && to && j < words; j++)
            to[j] = 3 * left[j] + right[j];
    }
}

static void scale(void *const *parameters, uint32_t factor)
{
    const uint32_t words = *(uint32_t *)parameters[1], batch = *(uint32_t *)parameters[2];
    for (uint32_t i = 0; i < batch; i++) {
        uint32_t *const at = row(*(uint64_t *)parameters[0], i, words);
        for (uint32_t j = 0; at && j < words; j++)
            at[j] = factor * at[j] + 1;
    }
}

static void increment(void *const *parameters)
{
    scale(parameters, 1);
}

static void factor(void *const *parameters)
{
    scale(parameters, 5);
}

static const sim_kernel_parameter_t three_arrays[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}};
static const sim_kernel_parameter_t one_array[] = {{0, 8}, {8, 4}, {12, 4}};
static const sim_kernel_t kernels[] = {{"cublas_multiply", 5, three_arrays, multiply},
                                       {"cublas_increment", 3, one_array, increment},
                                       {"cublas_factor", 3, one_array, factor}};

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, CUstream stream);
int cublasGetStream_v2(void *handle, CUstream *stream);
int cublasSgemmBatched(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                       const void *alpha, const void *const *a, int lda, const void *const *b,
                       int ldb, const void *beta, void *const *c, int ldc, int batch);
int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch);

int cublasCreate_v2(void **handle)
{
    handle_t *const made = calloc(1, sizeof *made);
    if (!made)
        return NOT_INITIALIZED;
    made->multiply = find_kernel(&kernels[0]);
    made->increment = find_kernel(&kernels[1]);
    made->factor = find_kernel(&kernels[2]);
    *handle = made;
    return SUCCESS;
}

int cublasDestroy_v2(void *handle)
{
    free(handle);
    return SUCCESS;
}

int cublasSetStream_v2(void *handle, CUstream stream)
{
    ((handle_t *)handle)->stream = stream;
    return SUCCESS;
}

int cublasGetStream_v2(void *handle, CUstream *stream)
{
    *stream = ((handle_t *)handle)->stream;
    return SUCCESS;
}

int cublasSgemmBatched(void *handle, int transpose_a, int transpose_b, int m, int n, int k,
                       const void *alpha, const void *const *a, int lda, const void *const *b,
                       int ldb, const void *beta, void *const *c, int ldc, int batch)
{
    const handle_t *const own = handle;
    uint32_t words = (uint32_t)(m * n), count = (uint32_t)batch;
    void *first[] = {&a, &b, &c, &words, &count}, *second[] = {&c, &words, &count};
    (void)transpose_a, (void)transpose_b, (void)k, (void)alpha, (void)beta;
    (void)lda, (void)ldb, (void)ldc;
    return launch_kernel(own->multiply, own->stream, first) ||
                   launch_kernel(own->increment, own->stream, second)
               ? EXECUTION_FAILED
               : SUCCESS;
}

int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch)
{
    const handle_t *const own = handle;
    uint32_t words = (uint32_t)(n * n), count = (uint32_t)batch;
    void *parameters[] = {&a, &words, &count};
    (void)lda, (void)pivots, (void)info;
    return launch_kernel(own->factor, own->stream, parameters) ? EXECUTION_FAILED : SUCCESS;
}
