/* Names of kernels as people read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/memory/short_names.h"
#include "test/unit/random.h"

static void check(const char *name, const char *expected)
{
    char text[MDNN_SHORT_NAME_BYTES];
    mdnn_short_name(name, text, sizeof text);
    assert_string_equal(text, expected);
}

static void scopes_and_the_function_stay(void **state)
{
    (void)state;
    check("_Z5saxpyfPfS_", "saxpy");
    check("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_"
          "11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
          "at::native::vectorized_elementwise_kernel<FillFunctor>");
    check("_ZN2at6native54_GLOBAL__N__a28f2d46_21_DistributionNormal_cu_0c5b6e8543distribution_"
          "elementwise_grid_"
          "stride_kernelIfLi4EEEvlNS_15PhiloxCudaStateE",
          "at::native::distribution_elementwise_grid_stride_kernel");
    check("_ZN12_GLOBAL__N_16kernelEi", "kernel");
    check("_ZN5outerIiLb1ELi0EN1a1bEE5innerIfE4workEv", "outer::inner::work");
    check("_ZN7cutlass6KernelI45cutlass_80_tensorop_s1688gemm_128x128_16x4_nnEEvNT_6ParamsE",
          "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn>");
    check("_ZN2at6native18elementwise_kernelILi128ENS0_13BinaryFunctorIfffNS0_3AddEEEEEvT0_",
          "at::native::elementwise_kernel<BinaryFunctor>");
    check("_Z6kernelI5modelEvT_", "kernel<model>");
    check("_ZL4helpv", "help");
    check("_ZNSt6vectorIiE4growEv", "std::vector::grow");
}

static void other_names_stay_as_they_are(void **state)
{
    (void)state;
    check("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn");
    check("a \"b\"\\\n", "a ?b???");
    check("_Z", "_Z");
    check("_Z999short", "_Z999short");
    check("", "");
}

static void what_is_too_long_is_cut(void **state)
{
    char text[8];
    (void)state;
    mdnn_short_name("_ZN2at6nativeEv", text, sizeof text);
    assert_string_equal(text, "at::nat");
}

/* Nothing is read behind the end, whatever the name is (sanitizers would say so). */
static void any_name_is_survived(void **state)
{
    static const char letters[] = "_ZNILESTAD0123456789ivk";
    uint64_t seed = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        const size_t length = random_next(&seed) % 40;
        char *const name = malloc(length + 3);
        char text[16];
        assert_non_null(name);
        memcpy(name, "_Z", 3);
        for (size_t c = 0; c < length; c++)
            name[2 + c] = letters[random_next(&seed) % (sizeof letters - 1)];
        name[2 + length] = '\0';
        mdnn_short_name(name, text, sizeof text);
        assert_true(strlen(text) < sizeof text);
        free(name);
    }
}

static void names_are_remembered(void **state)
{
    static mdnn_short_names_t names;
    static const char one[] = "_Z3onev", two[] = "_Z3twov";
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_string_equal(mdnn_short_names_get(&names, one), "one");
        assert_string_equal(mdnn_short_names_get(&names, two), "two");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes_and_the_function_stay),
        cmocka_unit_test(other_names_stay_as_they_are),
        cmocka_unit_test(what_is_too_long_is_cut),
        cmocka_unit_test(any_name_is_survived),
        cmocka_unit_test(names_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
