/* What mangled names say about tables of pointers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shim/real/kernel_signature.h"
#include "test/unit/cases.h"

static void check(const char *name, uint32_t parameters, uint32_t count,
                  const mdnn_kernel_table_t *tables)
{
    const mdnn_kernel_signature_t signature = mdnn_kernel_signature(name, parameters);
    assert_int_equal(signature.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(signature.tables[i].parameter, tables[i].parameter);
        assert_int_equal(signature.tables[i].written, tables[i].written);
        assert_int_equal(signature.tables[i].values, tables[i].values);
        assert_int_equal(signature.tables[i].tables, tables[i].tables);
    }
}

/* Names of kernels of MAGMA and cuSOLVER. */
CASE(a_table_may_hold_what_other_parameters_of_its_type_are)
{
    /* (int**, int*, int, int, int, int) */
    check("_Z25magma_iset_pointer_kernelPPiS_iiii", 6, 1, (mdnn_kernel_table_t[]){{0, true, 2, 0}});
    /* (float**, float**, int, int, int) */
    check("_Z25sdisplace_pointers_kernelPPfS0_iii", 5, 2,
          (mdnn_kernel_table_t[]){{0, true, 0, 2}, {1, true, 0, 1}});
    /* (int, float**, int, int, int, int**, int*, int) */
    check("_Z27sgetf2_fused_batched_kernelILi16EEviPPfiiiPPiS2_i", 8, 2,
          (mdnn_kernel_table_t[]){{1, true, 0, 0}, {5, true, 1 << 6, 0}});
    /* (float*, long, long, long*, long, float**), of a template */
    check("_ZN6kernel27init_triangular_blocks_listIfLl512ELl64ELb1EEEvPT_llPllPS2_", 6, 1,
          (mdnn_kernel_table_t[]){{5, true, 1, 0}});
    /* (long, long const*, float**, long, float*), in an unnamed namespace */
    check("_ZN47_GLOBAL__N__e369a470_9_trevc3_cu_2d52f3d7_3267714bound_blocks_TIffLl64EEEvlPKlPPT_"
          "lPT0_",
          5, 1, (mdnn_kernel_table_t[]){{2, true, 1 << 4, 0}});
}

CASE(a_table_of_constants_is_not_written)
{
    /* (float const* const*, float**, float* const*) */
    check("_Z1kPKPKfPPfPKS3_", 3, 3,
          (mdnn_kernel_table_t[]){{0, false, 0, 6}, {1, true, 0, 5}, {2, false, 0, 3}});
}

CASE(pointers_to_bytes_may_be_of_any_type)
{
    /* (double**, void*, unsigned char const*, int*) */
    check("_Z1kPPdPvPKhPi", 4, 1, (mdnn_kernel_table_t[]){{0, true, 6, 0}});
    /* (void**, double*, int) */
    check("_Z1kPPvPdi", 3, 1, (mdnn_kernel_table_t[]){{0, true, 2, 0}});
}

CASE(tables_of_tables_hold_tables)
{
    /* (int***, int**, int*) */
    check("_Z1kPPPiPS_S_", 3, 2, (mdnn_kernel_table_t[]){{0, true, 2, 0}, {1, true, 4, 0}});
    check("_Z1kPPPiPS0_S0_", 3, 3,
          (mdnn_kernel_table_t[]){{0, true, 4, 2}, {1, true, 4, 1}, {2, true, 0, 0}});
}

CASE(types_with_commas_and_brackets_are_one_parameter)
{
    /* (std::array<char*, 3ul>, std::pair<int, void (*)(int, int)>*, float**, float*) */
    check("_Z1kSt5arrayIPcLm3EEPSt4pairIiPFviiEEPPfS7_", 4, 1,
          (mdnn_kernel_table_t[]){{2, true, 8, 0}});
}

CASE(other_qualifiers_change_nothing)
{
    check("_Z1kPVPiS_", 2, 1, (mdnn_kernel_table_t[]){{0, true, 2, 0}}); /* int* volatile* */
    check("_Z1kPrPiS_", 2, 1, (mdnn_kernel_table_t[]){{0, true, 2, 0}}); /* int* __restrict* */
    check("_Z1kPVKPiS_", 2, 1, (mdnn_kernel_table_t[]){{0, false, 2, 0}});
}

CASE(a_name_that_says_nothing_has_no_tables)
{
    char endless[40 << 10];
    memset(endless, 'P', sizeof endless);
    memcpy(endless, "_Z1k", 4);
    memcpy(endless + sizeof endless - 2, "i", 2);
    check("follow_table", 3, 0, NULL);
    check("", 1, 0, NULL);
    check("_Z", 1, 0, NULL);
    check("_Z1kv", 0, 0, NULL);
    check("_Z1k", 1, 0, NULL);    /* a variable */
    check("_Z1kPPi", 2, 0, NULL); /* it has another number of parameters */
    check(endless, 1, 0, NULL);
    memcpy(endless + 5000, "i", 2);
    check(endless, 1, 0, NULL); /* deeper than the demangler goes */
}

CASE(long_names_have_types)
{
    char name[1600];
    char part[1501];
    memset(part, 'k', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    snprintf(name, sizeof name, "_Z1500%sPPfS_", part); /* (float**, float*) */
    check(name, 2, 1, (mdnn_kernel_table_t[]){{0, true, 2, 0}});
}

CASE(no_name_is_read_past_its_end)
{
    static const char *const names[] = {
        "_ZN6kernel27init_triangular_blocks_listIfLl512ELl64ELb1EEEvPT_llPllPS2_",
        "_Z1kSt5arrayIPcLm3EEPSt4pairIiPFviiEEPPfS7_", "_Z1kPKPKfPPfPKS3_"};
    char cut[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t length = 0; length <= strlen(names[i]); length++)
            for (uint32_t parameters = 0; parameters < 8; parameters++) {
                snprintf(cut, sizeof cut, "%.*s", (int)length, names[i]);
                const mdnn_kernel_signature_t signature = mdnn_kernel_signature(cut, parameters);
                for (uint32_t table = 0; table < signature.count; table++)
                    assert_true(signature.tables[table].parameter < parameters);
            }
}

int main(void)
{
    return run_cases("kernel_signature");
}
