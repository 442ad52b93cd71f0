#include "test/sim/cudnn_client.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void client_check_status(cudnnStatus_t status, cudnnStatus_t wanted, const char *call,
                         const char *file, int line)
{
    if (status == wanted)
        return;
    char text[256];
    cudnnGetLastErrorString(text, sizeof text);
    print_error("%s gives %s, wanted %s; last error: %s\n", call, cudnnGetErrorString(status),
                cudnnGetErrorString(wanted), text);
    _fail(file, line);
}

void client_check_cuda(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    print_error("%s gives CUDA error %d\n", call, (int)result);
    _fail(file, line);
}

const sim_api_t *client_sim(void)
{
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    void *const address = dlsym(library, "sim_api");
    assert_non_null(address);
    sim_api_function_t get_api;
    memcpy(&get_api, &address, sizeof get_api);
    return get_api();
}

void *client_allocate(size_t bytes, unsigned char fill)
{
    CUdeviceptr memory = 0;
    if (!bytes)
        return NULL;
    CHECK_CUDA(cuMemAlloc(&memory, bytes));
    CHECK_CUDA(cuMemsetD8(memory, fill, bytes));
    return (void *)(uintptr_t)memory;
}

void client_free(void *device)
{
    if (device)
        CHECK_CUDA(cuMemFree((CUdeviceptr)(uintptr_t)device));
}

void *client_upload(cudnnDataType_t type, const double *values, size_t count)
{
    const size_t bytes = count * reference_type_bytes((reference_type_t)type);
    void *const encoded = malloc(bytes);
    assert_non_null(encoded);
    reference_encode((reference_type_t)type, values, count, encoded);
    void *const device = client_allocate(bytes, 0);
    CHECK_CUDA(cuMemcpyHtoD((CUdeviceptr)(uintptr_t)device, encoded, bytes));
    free(encoded);
    return device;
}

void client_download(cudnnDataType_t type, const void *device, size_t count, double *out)
{
    const size_t bytes = count * reference_type_bytes((reference_type_t)type);
    void *const encoded = malloc(bytes);
    assert_non_null(encoded);
    CHECK_CUDA(cuMemcpyDtoH(encoded, (CUdeviceptr)(uintptr_t)device, bytes));
    reference_decode((reference_type_t)type, encoded, count, out);
    free(encoded);
}

void client_random(cudnnDataType_t type, unsigned long long seed, double *values, size_t count)
{
    unsigned long long state = seed * 2 + 1;
    for (size_t i = 0; i < count; i++) {
        double element;
        char encoded[8];
        element = reference_random(&state);
        reference_encode((reference_type_t)type, &element, 1, encoded);
        reference_decode((reference_type_t)type, encoded, 1, &values[i]);
    }
}
