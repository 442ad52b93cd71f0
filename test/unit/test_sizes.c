/* How large a chunk of memory is under a budget. */
#include "cases.h"
#include "config/sizes.h"

static const uint64_t mib = (uint64_t)1 << 20, gib = (uint64_t)1 << 30;

CASE(a_chunk_is_8_mib_where_the_budget_has_many_of_them)
{
    assert_int_equal(mdnn_chunk_bytes(2 * gib, 0), 8 * mib);
    assert_int_equal(mdnn_chunk_bytes(3 * gib, 0), 8 * mib);
    assert_int_equal(mdnn_chunk_bytes(8 * gib, 0), 8 * mib);
}

CASE(smaller_budgets_have_256_chunks_at_least)
{
    assert_int_equal(mdnn_chunk_bytes(2 * gib - 1, 0), 4 * mib);
    assert_int_equal(mdnn_chunk_bytes(gib, 0), 4 * mib);
    assert_int_equal(mdnn_chunk_bytes(gib - 1, 0), 2 * mib);
    assert_int_equal(mdnn_chunk_bytes(mib, 0), 2 * mib); /* no smaller one is possible */
}

/* Smaller allocations are blocks of slabs, which leave only where there is too much of them. */
CASE(half_a_chunk_is_at_most_4_mib_below_8_gib)
{
    for (uint64_t budget = mib; budget <= 8 * gib; budget += 64 * mib)
        assert_true(mdnn_chunk_bytes(budget, 0) / 2 <= 4 * mib);
}

CASE(larger_budgets_have_1024_chunks_at_most_until_chunks_are_32_mib)
{
    assert_int_equal(mdnn_chunk_bytes(8 * gib + 1024, 0), 16 * mib);
    assert_int_equal(mdnn_chunk_bytes(32 * gib, 0), 32 * mib);
    assert_int_equal(mdnn_chunk_bytes(500 * gib, 0), 32 * mib);
}

CASE(the_option_is_rounded_up_to_a_power_of_two)
{
    assert_int_equal(mdnn_chunk_bytes(3 * gib, 2 * mib), 2 * mib);
    assert_int_equal(mdnn_chunk_bytes(3 * gib, 5 * mib), 8 * mib);
    assert_int_equal(mdnn_chunk_bytes(3 * gib, 64 * mib), 64 * mib);
}

int main(void)
{
    return run_cases("sizes");
}
