/* Programs of many small allocations, which no rule of the library may make fail where the memory
 * would do. Run by test/small_allocations.sh, with and without the library; they know nothing of
 * it.
 *
 *   small_allocations phases BYTES    phases of so many bytes, each of tensors of another size
 *   small_allocations lengths BYTES   sequences of random length, of about so many bytes at the
 * most small_allocations need BYTES      says what `lengths` has at its peak; needs no GPU
 *   small_allocations beside BYTES    a large buffer of so many bytes beside small ones
 *   small_allocations alone BYTES     nothing but tensors of a size, of so many bytes together
 *
 * Exit status 0 if all was right. */
#include <stdbool.h>
#include <string.h>

#include "test/clients/mix.h"

enum { ITERATIONS = 12, LAYERS = 1200, KEPT = ITERATIONS * LAYERS / 8, SMALL = 4000 };

static uint64_t random_state = 7;

static uint32_t pick(uint32_t count)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % count);
}

static void mix_into(void *a, void *b, uint32_t words)
{
    uint32_t k = 1;
    void *parameters[] = {&a, &b, &words, &k};
    CHECK(cuLaunchKernel(mix, (words + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) ==
          CUDA_SUCCESS);
}

/* ---- phases ---- */

static void phase(size_t bytes, size_t each)
{
    const size_t count = bytes / each;
    void **const tensors = calloc(count, sizeof *tensors);
    CHECK(tensors);
    for (size_t i = 0; i < count; i++) {
        const cudaError_t error = cudaMalloc(&tensors[i], each);
        if (error != cudaSuccess) {
            printf("%s at %zu of %zu tensors of %zu bytes\n", cudaGetErrorString(error), i, count,
                   each);
            exit(1);
        }
        CUDA(cudaMemsetAsync(tensors[i], 1, each, NULL));
    }
    for (size_t i = 0; i < count; i++)
        CUDA(cudaFree(tensors[i]));
    free(tensors);
}

static void phases(size_t bytes)
{
    static const size_t sizes[] = {7 << 20, 3 << 19, 3 << 20, 700000, 9 << 20, 5 << 20, 1100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        phase(bytes, sizes[i]);
}

/* ---- lengths ---- */

typedef struct tensor {
    void *address;
    size_t bytes;
} tensor_t;

static size_t live, peak;

static void begin(tensor_t *tensor, size_t bytes, bool real)
{
    tensor->bytes = bytes;
    live += bytes;
    peak = live > peak ? live : peak;
    if (real)
        CUDA(cudaMalloc(&tensor->address, bytes));
}

static void end(tensor_t *tensor, bool real)
{
    live -= tensor->bytes;
    if (real)
        CUDA(cudaFree(tensor->address));
}

/* Activations from tens of kilobytes to a few megabytes that live until the backward pass, and what
 * is kept of each iteration: tiny. */
static void lengths(size_t bytes, bool real)
{
    static tensor_t layers[LAYERS], kept[KEPT];
    size_t kept_count = 0;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        const size_t length = 64 + pick(448);
        for (size_t i = 0; i < LAYERS; i++) {
            const size_t width = 1 + i * 37 % 23;
            begin(&layers[i], length * width * (bytes / 512 / 12 / LAYERS) + 4, real);
            if (real)
                mix_into(layers[i].address, layers[i > 0 ? i - 1 : 0].address, 64);
            if (i % 8 == 0)
                begin(&kept[kept_count++], 4 + pick(3000), real);
        }
        for (size_t i = LAYERS; i-- > 0;) {
            if (real)
                mix_into(layers[i].address, layers[i > 0 ? i - 1 : 0].address, 64);
            end(&layers[i], real);
        }
    }
    for (size_t i = 0; i < kept_count; i++)
        end(&kept[i], real);
}

/* ---- beside ---- */

static void read_back(const void *device, const uint32_t *model, size_t bytes)
{
    uint32_t *const host = malloc(bytes);
    CHECK(host);
    CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    CHECK(memcmp(host, model, bytes) == 0);
    free(host);
}

static void check_large(void *large, uint32_t *model, size_t bytes)
{
    mix_into(large, large, (uint32_t)(bytes / 4));
    for (size_t i = 0; i < bytes / 4; i++)
        model[i] = 4 * model[i] + 1;
    read_back(large, model, bytes);
}

/* Small ones come until one is refused, or there are many; the large one is there all the same. */
static void beside(size_t bytes)
{
    static tensor_t small[SMALL];
    void *large;
    size_t count = 0;
    uint32_t *const model = malloc(bytes);
    CHECK(model);
    memset(model, 5, bytes);
    CUDA(cudaMalloc(&large, bytes));
    CUDA(cudaMemset(large, 5, bytes));
    for (; count < SMALL; count++) {
        small[count].bytes = 1 + pick(600000);
        if (cudaMalloc(&small[count].address, small[count].bytes) != cudaSuccess)
            break;
        CUDA(cudaMemset(small[count].address, (int)count % 256, small[count].bytes));
        if (live += small[count].bytes, live > 2 * bytes)
            break;
    }
    (void)cudaGetLastError();
    printf("# %zu small ones, %.1f MiB\n", count, (double)live / (1 << 20));
    check_large(large, model, bytes);
    for (size_t i = 0; i < count; i++) {
        memset(model, (int)i % 256, small[i].bytes);
        read_back(small[i].address, model, small[i].bytes);
        CUDA(cudaFree(small[i].address));
    }
    CUDA(cudaMemcpy(model, large, bytes, cudaMemcpyDeviceToHost));
    check_large(large, model, bytes);
    CUDA(cudaFree(large));
    free(model);
}

/* ---- alone ---- */

static void alone(size_t bytes)
{
    static tensor_t tensors[SMALL];
    const size_t each = (700 << 10) + pick(300 << 10), count = bytes / each;
    uint32_t *const model = malloc(each);
    CHECK(model && count <= SMALL);
    for (size_t i = 0; i < count; i++) {
        CUDA(cudaMalloc(&tensors[i].address, each));
        CUDA(cudaMemset(tensors[i].address, (int)i % 256, each));
    }
    for (size_t i = 0; i < 2 * count; i++) {
        memset(model, (int)(i % count) % 256, each);
        read_back(tensors[i % count].address, model, each);
    }
    for (size_t i = 0; i < count; i++)
        CUDA(cudaFree(tensors[i].address));
    free(model);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const size_t bytes = (size_t)strtoull(argv[2], NULL, 10);
    if (strcmp(argv[1], "need") == 0) {
        lengths(bytes, false);
        printf("%zu\n", peak);
        return 0;
    }
    load_mix();
    if (strcmp(argv[1], "phases") == 0)
        phases(bytes);
    else if (strcmp(argv[1], "lengths") == 0)
        lengths(bytes, true);
    else if (strcmp(argv[1], "beside") == 0)
        beside(bytes);
    else if (strcmp(argv[1], "alone") == 0)
        alone(bytes);
    else
        CHECK(!"a program");
    CUDA(cudaDeviceSynchronize());
    return 0;
}
