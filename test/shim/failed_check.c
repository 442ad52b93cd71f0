/* failed_check LIBRARY string|text MESSAGE: as Python does, loads a library for itself alone, in which a check of PyTorch
 * fails. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    void (*fail)(const char *what, int as_string) = NULL;
    void *const library = argc == 4 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *const found = library ? dlsym(library, "fail_check") : NULL;
    memcpy(&fail, &found, sizeof fail);
    if (!fail)
        return 2;
    fail(argv[3], strcmp(argv[2], "string") == 0);
    return 1;
}
