/* Prints PyTorch's variables; with an argument, after it looked up the driver's resolver as the
 * CUDA runtime does. Knows nothing of microdnn. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
                                        "PYTORCH_NO_CUDA_MEMORY_CACHING"};
    (void)argv;
    if (argc > 1) {
        void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (!driver || !dlsym(driver, "cuGetProcAddress_v2"))
            return 1;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            printf("%s=%s\n", names[i], getenv(names[i]));
    return 0;
}
