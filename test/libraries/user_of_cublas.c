/* A library that calls cuBLAS as the linker bound it; 0: that was the copy which made the handle.
 */
int cublasCreate_v2(void **handle);
int cublasSgetrfBatched(void *handle, int n, void *const *a, int lda, int *pivots, int *info,
                        int batch);
int use_cublas(void);

int use_cublas(void)
{
    void *handle;
    const int result = cublasCreate_v2(&handle);
    const int used = result == 0 ? cublasSgetrfBatched(handle, 1, 0, 1, 0, 0, 0) : result;
    return used; /* not by a tail call, which would hide who calls */
}
