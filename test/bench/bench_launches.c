/* What the hook of launches costs before virtual memory does anything: finding the layout and
 * scanning four parameters of 64 bytes, with two addresses of ours among them. Medians; exit status
 * 1 if the limit is missed. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "test/bench/samples.h"
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
    const double took_ns = median(samples, SAMPLES);
    printf("a launch's parameters are scanned in %.0f ns (limit %.0f)\n", took_ns, limit_ns);
    return took_ns > limit_ns;
}
