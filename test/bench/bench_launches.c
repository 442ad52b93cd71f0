/* What the hook of launches costs before virtual memory does anything: finding the layout and
 * scanning four parameters of 64 bytes, with two addresses of ours among them. Medians; exit status
 * 1 if the limit is missed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/shim/one_driver.h"

enum { SAMPLES = 201, BATCH = 256, KERNELS = 50 };
static const double limit_ns = 500;

static CUresult launch_nothing(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                               unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes,
                               CUstream stream, void **parameters, void **extra)
{
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared_bytes;
    (void)stream, (void)parameters, (void)extra;
    return CUDA_SUCCESS;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void)
{
    static uint64_t values[PARAMETERS_OF_KERNELS][PARAMETER_BYTES / 8];
    void *parameters[] = {values[0], values[1], values[2], values[3]};
    double samples[SAMPLES];
    values[0][0] = OWNED + 64;
    values[2][3] = OWNED + 4096;
    for (int i = 0; i < SAMPLES; i++) {
        const double start = now_ns();
        for (int j = 0; j < BATCH; j++)
            if (mdnn_hook_cuLaunchKernel(launch_nothing, false,
                                         (CUfunction)(uintptr_t)(16 * (1 + j % KERNELS)), 8, 1, 1,
                                         256, 1, 1, 0, NULL, parameters, NULL) != CUDA_SUCCESS)
                return 1;
        samples[i] = (now_ns() - start) / BATCH;
    }
    qsort(samples, SAMPLES, sizeof *samples, compare);
    printf("a launch's parameters are scanned in %.0f ns (limit %.0f)\n", samples[SAMPLES / 2],
           limit_ns);
    return samples[SAMPLES / 2] > limit_ns;
}
