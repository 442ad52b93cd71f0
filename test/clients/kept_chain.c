/* Iterations that allocate each tensor by itself, as frameworks do: a chain of copies forward, each of which is kept, and
 * back, where each is read and freed. Run by test/remake_look.sh. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

enum { LAYERS = 8, BYTES = 4 << 20, ITERATIONS = 10 };

static void check(cudaError_t status)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "kept_chain: %s\n", cudaGetErrorString(status));
    exit(1);
}

static void *new_tensor(void)
{
    void *tensor;
    check(cudaMalloc(&tensor, BYTES));
    return tensor;
}

static void copy(void *to, const void *from)
{
    check(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, NULL));
}

int main(void)
{
    static char image[BYTES];
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        void *kept[LAYERS];
        kept[0] = new_tensor();
        check(cudaMemcpy(kept[0], image, BYTES, cudaMemcpyHostToDevice));
        for (int layer = 1; layer < LAYERS; layer++) {
            kept[layer] = new_tensor();
            copy(kept[layer], kept[layer - 1]);
        }
        for (int layer = LAYERS; layer-- > 0;) {
            void *const gradient = new_tensor();
            copy(gradient, kept[layer]);
            check(cudaFree(kept[layer]));
            check(cudaFree(gradient));
        }
    }
    check(cudaDeviceSynchronize());
    return 0;
}
