/* Takes device memory until it is refused, says how much that is, and holds it. Run by
 * test/host_limit.sh, several at once; knows nothing of the library under test.
 *
 *   host_share FILE GO    writes the bytes and its process to FILE, and ends when GO is there */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

enum { BUFFERS_MOST = 1024, BUFFER_BYTES = 2 << 20, PROBE_BYTES = 4, SLACK = 2 };

static void *buffers[BUFFERS_MOST];

/* Each byte that is held is the number of its buffer. */
static int check(int count)
{
    unsigned char bytes[PROBE_BYTES];
    for (int i = 0; i < count; i++) {
        if (cudaMemcpy(bytes, buffers[i], sizeof bytes, cudaMemcpyDeviceToHost) != cudaSuccess) {
            fprintf(stderr, "host_share: cannot read buffer %d of %d\n", i, count);
            return 1;
        }
        for (int j = 0; j < PROBE_BYTES; j++)
            if (bytes[j] != (unsigned char)i) {
                fprintf(stderr, "host_share: buffer %d has lost its content\n", i);
                return 1;
            }
    }
    return 0;
}

int main(int argument_count, char **arguments)
{
    int count = 0;
    if (argument_count != 3)
        return 2;
    while (count < BUFFERS_MOST && cudaMalloc(&buffers[count], BUFFER_BYTES) == cudaSuccess) {
        if (cudaMemset(buffers[count], count & 0xff, BUFFER_BYTES) != cudaSuccess ||
            cudaDeviceSynchronize() != cudaSuccess)
            break;
        count++;
    }
    char temporary[4096];
    snprintf(temporary, sizeof temporary, "%s.part", arguments[1]);
    FILE *const file = fopen(temporary, "w");
    if (!file || fprintf(file, "%lld %ld\n", (long long)count * BUFFER_BYTES, (long)getpid()) < 0 ||
        fclose(file) != 0 || rename(temporary, arguments[1]) != 0)
        return 2;
    while (access(arguments[2], F_OK) != 0)
        usleep(10000);
    /* What comes back changes places with what leaves, which needs a place to go to. */
    for (int i = 0; i < SLACK && count > 0; i++)
        if (cudaFree(buffers[--count]) != cudaSuccess)
            return 1;
    return check(count);
}
