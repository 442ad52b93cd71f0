/* A runtime that refuses what is larger than $MOST; see test/memory_check.sh. */
#include <stddef.h>
#include <stdlib.h>

int cudaMallocAsync(void **memory, size_t size, void *stream);

int cudaMallocAsync(void **memory, size_t size, void *stream)
{
    const char *most = getenv("MOST");
    (void)stream;
    *memory = NULL;
    return most && size > (size_t)atol(most) ? 2 : 0;
}
