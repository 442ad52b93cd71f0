/* What copies, on a driver of our own whose copies and mappings take as long as they are told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shim/device/copy_ways.h"
#include "shim/real/kernels.h"

enum { IN, OUT, BYTES = 1 << 20 };
static CUstream const streams[2] = {(CUstream)8, (CUstream)16};
static CUfunction const kernel = (CUfunction)24;

static struct {
    double now_us, engine_us, kernel_us; /* of a copy */
    double beside_engine_us[2], beside_kernel_us, beside_nothing_us;
    bool has_kernels, launch_fails, change_fails;
    int under_way; /* the direction of copies, or -1; */
    bool by_kernel;
    int engine_copies[2], launches;
    CUdeviceptr to, from; /* of the last launch */
    uint64_t count;
} gpu;

mdnn_status_t mdnn_kernels_get(const mdnn_kernels_t **kernels)
{
    static const mdnn_kernels_t loaded = {.copy = (CUfunction)24};
    *kernels = &loaded;
    return gpu.has_kernels ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

static CUresult copied(int direction, bool by_kernel, CUstream stream)
{
    assert_ptr_equal(stream, streams[direction]);
    gpu.under_way = direction;
    gpu.by_kernel = by_kernel;
    gpu.now_us += by_kernel ? gpu.kernel_us : gpu.engine_us;
    *(by_kernel ? &gpu.launches : &gpu.engine_copies[direction]) += 1;
    return CUDA_SUCCESS;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    (void)to, (void)from, (void)bytes;
    return copied(IN, false, stream);
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    (void)to, (void)from, (void)bytes;
    return copied(OUT, false, stream);
}

static CUresult launch(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x,
                       unsigned block_y, unsigned block_z, unsigned shared, CUstream stream,
                       void **parameters, void **extra)
{
    assert_ptr_equal(function, kernel);
    assert_true(x > 0 && y * z * block_y * block_z == 1 && block_x > 0 && shared == 0 && !extra);
    memcpy(&gpu.to, parameters[0], sizeof gpu.to);
    memcpy(&gpu.from, parameters[1], sizeof gpu.from);
    memcpy(&gpu.count, parameters[2], sizeof gpu.count);
    return gpu.launch_fails ? CUDA_ERROR_LAUNCH_FAILED
                            : copied(stream == streams[OUT], true, stream);
}

static CUresult query(CUstream stream)
{
    return gpu.under_way >= 0 && stream == streams[gpu.under_way] ? CUDA_ERROR_NOT_READY
                                                                  : CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
    (void)stream;
    gpu.under_way = -1;
    return CUDA_SUCCESS;
}

static double change_us(void *context)
{
    (void)context;
    if (gpu.change_fails)
        return -1;
    if (gpu.under_way < 0)
        return gpu.beside_nothing_us;
    return gpu.by_kernel ? gpu.beside_kernel_us : gpu.beside_engine_us[gpu.under_way];
}

static double now_us(void *context)
{
    (void)context;
    return gpu.now_us;
}

static const mdnn_driver_t driver = {.cuMemcpyHtoDAsync = copy_in,
                                     .cuMemcpyDtoHAsync = copy_out,
                                     .cuLaunchKernel = launch,
                                     .cuStreamQuery = query,
                                     .cuStreamSynchronize = synchronize};

/* As on an H100 on which copies to the host delay mappings. */
static int reset(void **state)
{
    (void)state;
    memset(&gpu, 0, sizeof gpu);
    gpu.has_kernels = true;
    gpu.under_way = -1;
    gpu.engine_us = 19;
    gpu.kernel_us = 21;
    gpu.beside_nothing_us = gpu.beside_engine_us[IN] = 30;
    gpu.beside_engine_us[OUT] = 620;
    gpu.beside_kernel_us = 35;
    return 0;
}

static mdnn_copy_ways_t chosen(void)
{
    const mdnn_copy_trial_t trial = {.streams = {streams[IN], streams[OUT]},
                                     .device = 1 << 20,
                                     .host = 1 << 30,
                                     .bytes = BYTES,
                                     .change_us = change_us,
                                     .now_us = now_us};
    mdnn_copy_ways_t ways;
    mdnn_copy_ways_init(&driver, MDNN_COPIES_AUTO, &ways);
    assert_false(ways.by_kernel[IN] || ways.by_kernel[OUT]);
    mdnn_copy_ways_choose(&trial, &ways);
    assert_int_equal(gpu.under_way, -1);
    return ways;
}

static void a_kernel_copies_where_mappings_would_wait(void **state)
{
    (void)state;
    assert_false(chosen().by_kernel[IN]);
    assert_true(chosen().by_kernel[OUT]);
    gpu.beside_engine_us[IN] = 620;
    gpu.beside_engine_us[OUT] = 33;
    assert_true(chosen().by_kernel[IN]);
    assert_false(chosen().by_kernel[OUT]);
}

static void engines_copy_where_a_kernel_is_no_better(void **state)
{
    (void)state;
    gpu.kernel_us = 40; /* too slow */
    assert_false(chosen().by_kernel[OUT]);
    gpu.kernel_us = 21;
    gpu.beside_kernel_us = 400; /* mappings wait as well */
    assert_false(chosen().by_kernel[OUT]);
    gpu.beside_kernel_us = 35;
    gpu.has_kernels = false;
    assert_false(chosen().by_kernel[OUT]);
    gpu.has_kernels = true;
    gpu.change_fails = true;
    assert_false(chosen().by_kernel[OUT]);
}

static void what_the_kernel_cannot_copy_the_engine_does(void **state)
{
    mdnn_copy_ways_t ways;
    (void)state;
    mdnn_copy_ways_init(&driver, MDNN_COPIES_KERNEL, &ways);
    assert_int_equal(mdnn_copy_enqueue(&ways, true, 512, 1 << 30, 4096, streams[OUT]),
                     CUDA_SUCCESS);
    assert_true(gpu.launches == 1 && gpu.to == 1 << 30 && gpu.from == 512 && gpu.count == 256);
    assert_int_equal(mdnn_copy_enqueue(&ways, false, 512, 1 << 30, 32, streams[IN]), CUDA_SUCCESS);
    assert_true(gpu.launches == 2 && gpu.to == 512 && gpu.from == 1 << 30 && gpu.count == 2);
    assert_int_equal(mdnn_copy_enqueue(&ways, false, 512, 1 << 30, 40, streams[IN]), CUDA_SUCCESS);
    assert_true(gpu.launches == 2 && gpu.engine_copies[IN] == 1);
    gpu.launch_fails = true;
    assert_int_equal(mdnn_copy_enqueue(&ways, true, 512, 1 << 30, 4096, streams[OUT]),
                     CUDA_SUCCESS);
    assert_int_equal(gpu.engine_copies[OUT], 1);
    mdnn_copy_ways_init(&driver, MDNN_COPIES_ENGINE, &ways);
    assert_int_equal(mdnn_copy_enqueue(&ways, true, 512, 1 << 30, 4096, streams[OUT]),
                     CUDA_SUCCESS);
    assert_int_equal(gpu.engine_copies[OUT], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_kernel_copies_where_mappings_would_wait, reset),
        cmocka_unit_test_setup(engines_copy_where_a_kernel_is_no_better, reset),
        cmocka_unit_test_setup(what_the_kernel_cannot_copy_the_engine_does, reset),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
