/* Prints what five allocations return; see test/memory_check.sh. */
#include <stddef.h>
#include <stdio.h>

int cudaMallocAsync(void **memory, size_t size, void *stream);

int main(void)
{
    const size_t sizes[] = {10, 500, 20, 500, 600};
    void *memory;
    for (int i = 0; i < 5; i++)
        printf("%d", cudaMallocAsync(&memory, sizes[i], NULL));
    return 0;
}
