/* A program that uses CUDA in threads with small stacks, under a budget. Run by test/small_stacks.sh; it knows nothing
 * of the library under test.
 *
 *   small_stacks KIB    the size of each stack, of which the C library takes a part for itself. Exit status 0 if all was
 * right. */
#include <pthread.h>
#include <string.h>

#include "test/clients/mix.h"

enum { BUFFERS = 16, WORDS = 1 << 20, MODEL_WORDS = 16, ROUNDS = 8 };

static uint32_t *buffers[BUFFERS], words = WORDS;
static uint32_t model[BUFFERS][MODEL_WORDS], found[MODEL_WORDS];

static void work_on(int i)
{
    const int j = (i + 5) % BUFFERS;
    uint32_t k = (uint32_t)i;
    void *parameters[] = {&buffers[i], &buffers[j], &words, &k};
    CHECK(cuLaunchKernel(mix, WORDS / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) ==
          CUDA_SUCCESS);
    for (int w = 0; w < MODEL_WORDS; w++)
        model[i][w] = 3 * model[i][w] + model[j][w] + k;
}

/* From the first call of all to the last. */
static void *use_the_device(void *unused)
{
    load_mix();
    for (int i = 0; i < BUFFERS; i++) {
        CUDA(cudaMalloc((void **)&buffers[i], WORDS * sizeof(uint32_t)));
        CUDA(cudaMemsetAsync(buffers[i], i, WORDS * sizeof(uint32_t), NULL));
        memset(model[i], i, sizeof model[i]);
    }
    for (int i = 0; i < ROUNDS * BUFFERS; i++)
        work_on(i % BUFFERS);
    for (int i = 0; i < BUFFERS; i++) {
        CUDA(cudaMemcpy(found, buffers[i], sizeof found, cudaMemcpyDeviceToHost));
        CHECK(memcmp(found, model[i], sizeof found) == 0);
        CUDA(cudaFree(buffers[i]));
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (argc != 2) {
        fprintf(stderr, "usage: small_stacks KIB\n");
        return 2;
    }
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, strtoul(argv[1], NULL, 10) << 10) == 0);
    CHECK(pthread_create(&thread, &attributes, use_the_device, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
