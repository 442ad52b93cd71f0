/* The table of kernels' layouts, with a driver of the test's own. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "shim/interpose/driver.h"
#include "shim/real/kernel_layout.h"
#include "test/unit/cases.h"

/* Handles are numbers times 16; even ones are kernels, odd ones functions. A handle has as many
 * parameters as its number modulo 8, plus what `changed` says; all of 8 bytes. */
static size_t changed;
static _Atomic unsigned long asked;
static bool tells = true;

static CUresult tell(size_t number, bool kernel, size_t index, size_t *bytes)
{
    asked++;
    if (!tells)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (kernel != (number % 2 == 0))
        return CUDA_ERROR_INVALID_HANDLE;
    if (index >= number % 8 + changed)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = 8;
    return CUDA_SUCCESS;
}

static CUresult tell_kernel(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
    (void)offset;
    return tell((uintptr_t)kernel / 16, true, index, bytes);
}

static CUresult tell_function(CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    (void)offset;
    return tell((uintptr_t)function / 16, false, index, bytes);
}

static CUresult name_function(const char **name, CUfunction function)
{
    *name = (uintptr_t)function / 16 % 4 == 1 ? "one" : "three";
    return CUDA_SUCCESS;
}

const mdnn_driver_queries_t *mdnn_driver_queries(void)
{
    static const mdnn_driver_queries_t queries = {.cuKernelGetParamInfo = tell_kernel,
                                                  .cuFuncGetParamInfo = tell_function,
                                                  .cuFuncGetName = name_function};
    return &queries;
}

static CUfunction handle(size_t number)
{
    return (CUfunction)(number * 16);
}

static void check(size_t number)
{
    const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout(handle(number));
    assert_non_null(layout);
    assert_ptr_equal(layout->function, handle(number));
    assert_true(layout->known);
    assert_int_equal(layout->count, number % 8 + changed);
    for (uint32_t i = 0; i < layout->count; i++)
        assert_int_equal(layout->parameter_bytes[i], 8);
}

CASE(both_kinds_of_handles_are_known)
{
    for (size_t number = 1; number < 5000; number++) /* the table grows meanwhile */
        check(number);
    const unsigned long before = asked;
    for (size_t number = 1; number < 5000; number++)
        check(number);
    assert_int_equal(asked, before);
}

CASE(names_tell_kernels_apart)
{
    const uint64_t one = mdnn_kernel_layout(handle(1))->name_hash;
    assert_true(one == mdnn_kernel_layout(handle(5))->name_hash);
    assert_true(one != mdnn_kernel_layout(handle(3))->name_hash);
}

CASE(what_is_forgotten_is_asked_again)
{
    const mdnn_kernel_layout_t *const before = mdnn_kernel_layout(handle(10));
    mdnn_kernel_layouts_forget();
    const unsigned long asked_before = asked;
    assert_ptr_equal(mdnn_kernel_layout(handle(10)), before); /* the same again */
    assert_true(asked > asked_before);
    mdnn_kernel_layouts_forget();
    changed = 1; /* a handle that came back */
    for (size_t number = 1; number < 5000; number++)
        check(number);
    for (size_t number = 1; number < 5000; number++)
        check(number);
    mdnn_kernel_layouts_forget();
    changed = 0;
    for (size_t number = 1; number < 5000; number++)
        check(number);
}

CASE(an_untold_layout_is_unknown)
{
    tells = false;
    const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout(handle(6001));
    assert_non_null(layout);
    assert_false(layout->known);
    tells = true;
}

static void *look(void *context)
{
    size_t *const wrong = context;
    for (int round = 0; round < 20; round++) {
        for (size_t number = 7000; number < 9000; number++) {
            const mdnn_kernel_layout_t *const layout = mdnn_kernel_layout(handle(number));
            if (!layout || layout->function != handle(number) || layout->count != number % 8)
                ++*wrong;
        }
        mdnn_kernel_layouts_forget();
    }
    return NULL;
}

CASE(threads_may_look_at_once)
{
    pthread_t threads[4];
    size_t wrong[4] = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(wrong[i], 0);
    }
}

int main(void)
{
    return run_cases("kernel_layout");
}
