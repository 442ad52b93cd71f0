/* What the tests of the simulated cuDNN share: device memory filled from doubles, and checks of
 * status codes. Uses the driver API alone, so that it needs no CUDA runtime. Any trouble fails the
 * running cmocka test. */
#ifndef CUDNN_CLIENT_H
#define CUDNN_CLIENT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <cuda.h>
#include <cudnn.h>

#include "test/reference_convolution.h"
#include "test/sim/sim.h"

#define CHECK_CUDNN(call)                                                                          \
    client_check_status((call), CUDNN_STATUS_SUCCESS, #call, __FILE__, __LINE__)
#define CHECK_STATUS(call, status) client_check_status((call), (status), #call, __FILE__, __LINE__)
#define CHECK_CUDA(call) client_check_cuda((call), #call, __FILE__, __LINE__)

void client_check_status(cudnnStatus_t status, cudnnStatus_t wanted, const char *call,
                         const char *file, int line);
void client_check_cuda(CUresult result, const char *call, const char *file, int line);

/* What the simulated driver offers beyond the driver API. */
const sim_api_t *client_sim(void);

/* `count` elements of `type`; freed with client_free. */
void *client_upload(cudnnDataType_t type, const double *values, size_t count);
void client_download(cudnnDataType_t type, const void *device, size_t count, double *out);
/* `bytes` bytes of the value `fill`; NULL for none. */
void *client_allocate(size_t bytes, unsigned char fill);
void client_free(void *device);

/* Random values in [-1, 1), rounded to `type`. */
void client_random(cudnnDataType_t type, unsigned long long seed, double *values, size_t count);

#endif
