#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "optimizer/deterministic.h"

static bool asks_with(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
    const bool asks = mdnn_environment_is_deterministic();
    assert_int_equal(unsetenv(name), 0);
    return asks;
}

static int without_any(void **state)
{
    static const char *const names[] = {"CUBLAS_WORKSPACE_CONFIG",   "TF_DETERMINISTIC_OPS",
                                        "TF_CUDNN_DETERMINISTIC",    "FLAGS_cudnn_deterministic",
                                        "MXNET_ENFORCE_DETERMINISM", "XLA_FLAGS"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (unsetenv(names[i]))
            return -1;
    return 0;
}

static void an_environment_without_such_variables_asks_for_nothing(void **state)
{
    (void)state;
    assert_false(mdnn_environment_is_deterministic());
}

static void buffers_of_one_size_ask(void **state)
{
    (void)state;
    assert_true(asks_with("CUBLAS_WORKSPACE_CONFIG", ":4096:8"));
    assert_true(asks_with("CUBLAS_WORKSPACE_CONFIG", ":16:8"));
    assert_false(asks_with("CUBLAS_WORKSPACE_CONFIG", ":4096:2:16:8"));
    assert_false(asks_with("CUBLAS_WORKSPACE_CONFIG", ""));
}

static void switches_of_frameworks_ask(void **state)
{
    (void)state;
    assert_true(asks_with("TF_DETERMINISTIC_OPS", "1"));
    assert_true(asks_with("TF_CUDNN_DETERMINISTIC", "true"));
    assert_true(asks_with("FLAGS_cudnn_deterministic", "True"));
    assert_true(asks_with("MXNET_ENFORCE_DETERMINISM", "1"));
    assert_false(asks_with("TF_DETERMINISTIC_OPS", "0"));
    assert_false(asks_with("FLAGS_cudnn_deterministic", "false"));
}

static void flags_of_xla_ask(void **state)
{
    (void)state;
    assert_true(asks_with("XLA_FLAGS", "--xla_gpu_deterministic_ops"));
    assert_true(asks_with("XLA_FLAGS", "--a=1 --xla_gpu_exclude_nondeterministic_ops=true --b"));
    assert_true(asks_with("XLA_FLAGS", "--xla_gpu_deterministic_ops=1"));
    assert_false(asks_with("XLA_FLAGS", "--xla_gpu_deterministic_ops=false"));
    assert_false(asks_with("XLA_FLAGS", "--xla_gpu_deterministic_ops_of_others"));
    assert_false(asks_with("XLA_FLAGS", "--xla_gpu_autotune_level=0"));
}

/* The last one counts, as in XLA. */
static void a_later_flag_takes_the_earlier_one_back(void **state)
{
    (void)state;
    assert_false(
        asks_with("XLA_FLAGS", "--xla_gpu_deterministic_ops --xla_gpu_deterministic_ops=false"));
    assert_true(asks_with("XLA_FLAGS",
                          "--xla_gpu_deterministic_ops=false --xla_gpu_deterministic_ops=true"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_environment_without_such_variables_asks_for_nothing),
        cmocka_unit_test(buffers_of_one_size_ask),
        cmocka_unit_test(switches_of_frameworks_ask),
        cmocka_unit_test(flags_of_xla_ask),
        cmocka_unit_test(a_later_flag_takes_the_earlier_one_back),
    };
    return cmocka_run_group_tests(tests, without_any, NULL);
}
