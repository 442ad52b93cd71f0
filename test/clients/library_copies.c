/* Uses copies of cuBLAS, in the order of the arguments and again, when all are there:
 *
 *   library_copies WAY:PATH...
 *
 * WAY: `local` or `global`, a library that calls cuBLAS (test/libraries/user_of_cublas.c);
 * `symbol`, a cuBLAS whose functions are looked up; `gone`, one that is closed again after that.
 * Exit status 0 if every call reached the copy that made its handle, and none but the first of each
 * looked for libraries. Holds device memory meanwhile. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "test/clients/check.h"

enum { MOST = 8, PASSES = 3 };

static _Atomic int opened;

/* Everybody's, as the program comes first. */
void *dlopen(const char *path, int flags)
{
    void *(*real)(const char *, int);
    *(void **)(void *)&real = dlsym(RTLD_NEXT, "dlopen");
    opened++;
    return real(path, flags);
}

typedef struct copy {
    int (*use)(void); /* by a library that calls it, or */
    int (*create)(void **handle);
    int (*getrf)(void *handle, int n, void *const *a, int lda, int *pivots, int *info, int batch);
} copy_t;

static void *find(void *library, const char *symbol)
{
    void *const found = dlsym(library, symbol);
    CHECK(found);
    return found;
}

static copy_t open_copy(const char *way, const char *path)
{
    copy_t copy = {NULL, NULL, NULL};
    void *const library =
        dlopen(path, RTLD_NOW | (strcmp(way, "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library)
        puts(dlerror());
    CHECK(library);
    if (strcmp(way, "local") == 0 || strcmp(way, "global") == 0) {
        *(void **)(void *)&copy.use = find(library, "use_cublas");
        return copy;
    }
    *(void **)(void *)&copy.create = find(library, "cublasCreate_v2");
    *(void **)(void *)&copy.getrf = find(library, "cublasSgetrfBatched");
    if (strcmp(way, "gone") == 0) {
        CHECK(dlclose(library) == 0);
        copy = (copy_t){NULL, NULL, NULL};
    }
    return copy;
}

static int use(const copy_t *copy)
{
    void *handle;
    if (copy->use)
        return copy->use();
    return copy->create && copy->create(&handle) == 0
               ? copy->getrf(handle, 1, NULL, 1, NULL, NULL, 0)
               : 0;
}

int main(int argc, char **argv)
{
    copy_t copies[MOST];
    void *memory;
    int wrong = 0, opened_first = 0;
    CHECK(argc > 1 && argc <= MOST);
    CUDA(cudaMalloc(&memory, 4 << 20));
    for (int i = 1; i < argc; i++) {
        char *const path = strchr(argv[i], ':');
        CHECK(path);
        *path = 0;
        copies[i - 1] = open_copy(argv[i], path + 1);
    }
    for (int i = 0; i < PASSES * (argc - 1); i++) {
        const int result = use(&copies[i % (argc - 1)]);
        if (i == argc - 2)
            opened_first = opened;
        if (result != 0)
            printf("use %d, of argument %d: status %d\n", i, i % (argc - 1) + 1, result);
        wrong += result != 0;
    }
    if (opened != opened_first)
        printf("%d calls of dlopen, %d of them later\n", opened, opened - opened_first);
    wrong += opened != opened_first;
    CUDA(cudaFree(memory));
    return wrong > 0;
}
