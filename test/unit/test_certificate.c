/* The certificate and the policy auto against the best of all schedules, on small trainings whose convolutions have
 * variants; and the policies of the papers on examples that were worked out by hand. MDNN_TEST_SEED=n repeats the
 * instance that a failure named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/certificate.h"
#include "offload/plan/exhaustive.h"
#include "offload/plan/parts.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/few.h"
#include "test/unit/random_period.h"

static random_period_t instance;

static uint64_t below(uint64_t end)
{
    return random_period_below(&instance, end);
}

/* ---- small trainings ---- */

static void add_convolution(mdnn_operation_kind_t kind)
{
    const uint64_t workspace = below(9);
    const double time_us = (double)(4 + below(30)) / 4;
    random_period_operation(&instance, kind, time_us, workspace);
    if (workspace > 0 && below(2) == 0)
        random_period_variant(&instance, time_us + (double)(1 + below(24)) / 4, below(workspace));
}

static void use(uint32_t range, mdnn_use_role_t role)
{
    random_period_use(&instance, range, role);
}

/* Two or three convolutions and an activation behind each of two; a loss; all of it backwards; an update: 7 to 12
 * operations. Weights stay. */
static void fill_training(uint64_t seed)
{
    enum { MOST = 3 };
    random_period_start(&instance, seed);
    instance.pads = seed % 3 == 0;
    const uint32_t layers = 2 + (uint32_t)below(2);
    const bool acts = layers == 2 && below(2) == 0;
    const uint32_t step = acts ? 2 : 1, loss = step * layers;
    uint32_t x[MOST + 1], y[MOST], at = loss;
    const uint32_t weights =
        random_period_range(&instance, 1 + below(6), MDNN_NO_POSITION, MDNN_NO_POSITION);
    instance.ranges[weights].stays = true;
    /* Backward: of each layer its activation, the filter's gradient, and but for the first the data's. */
    uint32_t act_at[MOST] = {0}, filter_at[MOST] = {0}, end = loss + 1;
    for (uint32_t l = layers; l-- > 0;) {
        act_at[l] = end;
        end += acts;
        filter_at[l] = end;
        end += l > 0 ? 2 : 1;
    }
    x[0] = random_period_range(&instance, 1 + below(12), 0, filter_at[0]);
    for (uint32_t l = 0; l < layers; l++) {
        const uint32_t last = l + 1 < layers ? filter_at[l + 1] : loss;
        y[l] = random_period_range(&instance, 1 + below(12), step * l, acts ? act_at[l] : last);
        x[l + 1] =
            acts ? random_period_range(&instance, instance.ranges[y[l]].bytes, step * l + 1, last)
                 : y[l];
    }
    for (uint32_t l = 0; l < layers; l++) {
        add_convolution(MDNN_OPERATION_FORWARD);
        use(x[l], MDNN_USE_READ);
        use(weights, MDNN_USE_READ);
        use(y[l], MDNN_USE_WRITE);
        if (!acts)
            continue;
        random_period_operation(&instance, MDNN_OPERATION_OTHER, (double)(1 + below(4)) / 4, 0);
        use(y[l], MDNN_USE_READ);
        use(x[l + 1], MDNN_USE_WRITE);
    }
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 0.5, 0);
    use(x[layers], MDNN_USE_READ);
    uint32_t dy = random_period_range(&instance, instance.ranges[x[layers]].bytes, at,
                                      filter_at[layers - 1] + (layers > 1));
    use(dy, MDNN_USE_WRITE);
    for (uint32_t l = layers; l-- > 0;) {
        if (acts) {
            random_period_operation(&instance, MDNN_OPERATION_OTHER, 0.25, 0);
            use(y[l], MDNN_USE_READ);
            use(dy, MDNN_USE_UNKNOWN);
        }
        add_convolution(MDNN_OPERATION_BACKWARD_FILTER);
        use(x[l], MDNN_USE_READ);
        use(dy, MDNN_USE_READ);
        if (l == 0)
            break;
        add_convolution(MDNN_OPERATION_BACKWARD_DATA);
        use(dy, MDNN_USE_READ);
        use(weights, MDNN_USE_READ);
        dy = random_period_range(&instance, instance.ranges[x[l]].bytes, filter_at[l] + 1,
                                 filter_at[l - 1] + (l > 1));
        use(dy, MDNN_USE_WRITE);
    }
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 0.5, 0);
    use(weights, MDNN_USE_UNKNOWN);
}

static mdnn_move_plan_request_t random_request(void)
{
    uint64_t live[RANDOM_PERIOD_OPERATIONS], floor_bytes, peak = 0;
    const mdnn_schedule_t nothing = {0};
    CHECK(mdnn_period_check(&instance.period) == MDNN_STATUS_OK);
    CHECK(mdnn_period_floor(&instance.period, &floor_bytes) == MDNN_STATUS_OK);
    mdnn_schedule_resident_bytes(&instance.period, &nothing, live);
    for (uint32_t i = 0; i < instance.period.operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    const uint64_t above = peak > floor_bytes ? peak - floor_bytes : 0;
    return (mdnn_move_plan_request_t){.period = &instance.period,
                                      .policy = MDNN_POLICY_AUTO,
                                      .variants = MDNN_VARIANTS_FITTING,
                                      .link = random_period_link(&instance),
                                      .budget_bytes = floor_bytes + below(above + 2),
                                      .host_limit_bytes = UINT64_MAX};
}

/* ---- against the best there is ---- */

static struct {
    unsigned compared, at_optimum, certified;
    double sum_of_plans, worst_plan, sum_of_certificates, worst_certificate;
} tally;

static void compare(const mdnn_move_plan_request_t *request, double most_schedules)
{
    mdnn_move_plan_t best, plan;
    double least_us;
    const mdnn_status_t status = mdnn_move_plan_exhaustive(request, most_schedules, &best);
    if (status == MDNN_STATUS_UNSUPPORTED)
        return;
    CHECK(status == MDNN_STATUS_OK && best.verdict == MDNN_VERDICT_FITS);
    CHECK(mdnn_move_plan(request, &plan) == MDNN_STATUS_OK);
    CHECK(plan.verdict == MDNN_VERDICT_FITS);
    CHECK(mdnn_certificate(request->period, &request->link, request->budget_bytes, 0, &least_us) ==
          MDNN_STATUS_OK);
    const double best_us = best.predicted.time_us;
    CHECK(least_us <= best_us * (1 + 1e-9));
    if (best_us > 0 && best.schedule.move_count > 0) {
        const double ratio = plan.predicted.time_us / best_us, share = best_us / least_us;
        tally.compared++;
        tally.at_optimum += ratio <= 1 + 1e-9;
        tally.certified += share <= 1.25;
        tally.sum_of_plans += ratio;
        tally.worst_plan = fmax(tally.worst_plan, ratio);
        tally.sum_of_certificates += share;
        tally.worst_certificate = fmax(tally.worst_certificate, share);
    }
    mdnn_move_plan_fini(&plan);
    mdnn_move_plan_fini(&best);
}

static void compare_training(uint64_t seed)
{
    fill_training(seed);
    const mdnn_move_plan_request_t request = random_request();
    compare(&request, 20000);
}

static void compare_random(uint64_t seed)
{
    random_period_fill(&instance, seed, 3 + (uint32_t)(seed % 5), 2 + (uint32_t)(seed % 4));
    const mdnn_move_plan_request_t request = random_request();
    compare(&request, 20000);
}

/* Ranges of whole chunks move in parts of one chunk or more. */
static void compare_parts(uint64_t seed)
{
    double least_us;
    mdnn_parts_t parts;
    mdnn_move_plan_t best;
    random_period_fill(&instance, seed, 3 + (uint32_t)(seed % 3), 2 + (uint32_t)(seed % 2));
    const uint64_t chunk_bytes = 2 + below(6);
    for (uint32_t r = 0; r < instance.period.range_count; r++) {
        mdnn_period_range_t *const range = &instance.ranges[r];
        range->bytes = (range->bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
    }
    mdnn_move_plan_request_t request = random_request();
    CHECK(mdnn_certificate(request.period, &request.link, request.budget_bytes, chunk_bytes,
                           &least_us) == MDNN_STATUS_OK);
    CHECK(mdnn_parts_cut(request.period, chunk_bytes, chunk_bytes, &parts) == MDNN_STATUS_OK);
    request.period = &parts.period;
    if (mdnn_move_plan_exhaustive(&request, 2000, &best) == MDNN_STATUS_OK &&
        best.verdict == MDNN_VERDICT_FITS) {
        CHECK(least_us <= best.predicted.time_us * (1 + 1e-9));
        tally.compared += best.schedule.move_count > 0;
        mdnn_move_plan_fini(&best);
    }
    mdnn_parts_fini(&parts);
}

static void report(const char *what, double mean_plan)
{
    const double count = tally.compared;
    print_message("%s: %u where something is decided; auto: %u at the optimum, mean %.4f, worst "
                  "%.3f; optimum over certificate: mean %.3f, worst %.3f, %u within 1.25\n",
                  what, tally.compared, tally.at_optimum, tally.sum_of_plans / count,
                  tally.worst_plan, tally.sum_of_certificates / count, tally.worst_certificate,
                  tally.certified);
    if (!getenv("MDNN_TEST_SEED")) {
        assert_true(tally.compared >= few(20, 1000));
        assert_true(tally.sum_of_plans / count <= mean_plan);
        assert_true(2 * tally.certified > tally.compared);
    }
    memset(&tally, 0, sizeof tally);
}

CASE(auto_and_the_certificate_are_close_to_the_best_of_small_trainings)
{
    each_seed(compare_training, few(100, 2500));
    report("trainings with variants", 1.01);
}

CASE(no_program_beats_its_certificate)
{
    each_seed(compare_random, few(200, 3000));
    report("programs without sense", 1.01);
}

CASE(no_parts_beat_the_certificate_in_chunks)
{
    each_seed(compare_parts, few(300, 20000));
    assert_true(getenv("MDNN_TEST_SEED") || tally.compared >= few(50, 3000));
    memset(&tally, 0, sizeof tally);
}

/* Worked out by hand. Ranges of 10 bytes are away at operation 2 of 5, one used by 0 and 4, one by 1 and 3; operations take 1 us, the
 * link carries 1 byte per us. With 10 bytes beside, one must be away: the first crosses while operation 1 runs and 9 us
 * more, and the same on its way back: 5 + 18. */
CASE(a_certificate_is_what_was_worked_out)
{
    const mdnn_link_t link = {1, 1, 1, 1, 0};
    double least_us;
    random_period_start(&instance, 1);
    const uint32_t far = random_period_range(&instance, 10, 0, 4);
    const uint32_t near = random_period_range(&instance, 10, 1, 3);
    for (uint32_t i = 0; i < 5; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
        if (i != 2)
            use(i == 0 || i == 4 ? far : near, MDNN_USE_UNKNOWN);
        if (i == 2) {
            const uint32_t new = random_period_range(&instance, 10, 2, 2);
            use(new, MDNN_USE_WRITE);
        }
    }
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    assert_int_equal(mdnn_certificate(&instance.period, &link, 30, 0, &least_us), MDNN_STATUS_OK);
    assert_true(least_us == 5);
    assert_int_equal(mdnn_certificate(&instance.period, &link, 20, 0, &least_us), MDNN_STATUS_OK);
    assert_true(fabs(least_us - 23) < 1e-9);
    /* One at a time: each of the others' copies is waited for before operations 1, 2, 3 and 4. */
    assert_int_equal(mdnn_certificate(&instance.period, &link, 10, 0, &least_us), MDNN_STATUS_OK);
    assert_true(fabs(least_us - (5 + 40)) < 1e-9);
}

/* A range of 16 bytes lives while one of 4 needs room. In chunks of 4, its last one holds one byte: 1 us out and 1 us
 * back. As a whole it has 13 bytes, so a quarter of it costs a quarter of 13 us each way. */
CASE(padding_is_away_with_its_chunk)
{
    const mdnn_link_t link = {1, 1, 1, 1, 0};
    double least_us;
    random_period_start(&instance, 1);
    const uint32_t large = random_period_range(&instance, 16, 0, 2);
    const uint32_t other = random_period_range(&instance, 4, 1, 1);
    instance.ranges[large].padding_bytes = 3;
    for (uint32_t i = 0; i < 3; i++) {
        random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
        use(i == 1 ? other : large, MDNN_USE_UNKNOWN);
    }
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    assert_int_equal(mdnn_certificate(&instance.period, &link, 16, 4, &least_us), MDNN_STATUS_OK);
    assert_true(fabs(least_us - (3 + 2)) < 1e-9);
    assert_int_equal(mdnn_certificate(&instance.period, &link, 16, 0, &least_us), MDNN_STATUS_OK);
    assert_true(fabs(least_us - (3 + 2 * 3.25)) < 1e-9);
    /* Two of the last three chunks hold nothing. */
    instance.ranges[large].padding_bytes = 9;
    assert_int_equal(mdnn_certificate(&instance.period, &link, 12, 4, &least_us), MDNN_STATUS_OK);
    assert_true(fabs(least_us - 3) < 1e-9);
}

/* ---- the papers' examples ---- */

static mdnn_move_plan_t plan_of(mdnn_policy_t policy, uint64_t budget_bytes)
{
    const mdnn_move_plan_request_t request = {.period = &instance.period,
                                              .policy = policy,
                                              .variants = MDNN_VARIANTS_FITTING,
                                              .link = {1, 1, 1, 1, 0},
                                              .budget_bytes = budget_bytes,
                                              .host_limit_bytes = UINT64_MAX};
    mdnn_move_plan_t plan;
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    assert_int_equal(mdnn_move_plan(&request, &plan), MDNN_STATUS_OK);
    return plan;
}

/* Rhu 2016, 3.3, on two convolutions. Without moves the second one needs X0 + X1 + X2 + 8 = 32 bytes with its fastest
 * algorithm. If X0 leaves behind the first one (conv), that one needs most with its fastest algorithm, X0 + X1 + 8 =
 * 28. With the other algorithm backward needs most, X0 + 10 + 4 = 24: so much is needed at all. */
static void fill_two_convolutions(void)
{
    random_period_start(&instance, 1);
    const uint32_t x0 = random_period_range(&instance, 10, 0, 5);
    const uint32_t x1 = random_period_range(&instance, 10, 0, 3);
    const uint32_t x2 = random_period_range(&instance, 4, 1, 2);
    const uint32_t d2 = random_period_range(&instance, 4, 2, 4);
    const uint32_t d1 = random_period_range(&instance, 10, 4, 5);
    random_period_operation(&instance, MDNN_OPERATION_FORWARD, 1, 8);
    random_period_variant(&instance, 4, 0);
    use(x0, MDNN_USE_READ);
    use(x1, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_FORWARD, 1, 8);
    random_period_variant(&instance, 2, 0);
    use(x1, MDNN_USE_READ);
    use(x2, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
    use(x2, MDNN_USE_READ);
    use(d2, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_BACKWARD_FILTER, 1, 0);
    use(x1, MDNN_USE_READ);
    use(d2, MDNN_USE_READ);
    random_period_operation(&instance, MDNN_OPERATION_BACKWARD_DATA, 1, 0);
    use(d2, MDNN_USE_READ);
    use(d1, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_BACKWARD_FILTER, 1, 0);
    use(x0, MDNN_USE_READ);
    use(d1, MDNN_USE_READ);
}

static void expect_dynamic(uint64_t budget_bytes, mdnn_policy_t policy, mdnn_variants_t variants,
                           uint32_t first, uint32_t second)
{
    mdnn_move_plan_t plan = plan_of(MDNN_POLICY_DYNAMIC, budget_bytes);
    assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
    assert_int_equal(plan.policy, policy);
    assert_int_equal(plan.variants, variants);
    assert_int_equal(plan.schedule.choices[0], first);
    assert_int_equal(plan.schedule.choices[1], second);
    assert_int_equal(plan.schedule.move_count, policy == MDNN_POLICY_NONE ? 0 : 1);
    mdnn_move_plan_fini(&plan);
}

CASE(dynamic_takes_the_passes_of_the_paper_in_turn)
{
    fill_two_convolutions();
    expect_dynamic(32, MDNN_POLICY_NONE, MDNN_VARIANTS_FASTEST, 0, 0);
    expect_dynamic(31, MDNN_POLICY_CONV, MDNN_VARIANTS_FASTEST, 0, 0);
    expect_dynamic(28, MDNN_POLICY_CONV, MDNN_VARIANTS_FASTEST, 0, 0);
    expect_dynamic(27, MDNN_POLICY_CONV, MDNN_VARIANTS_FITTING, 1, 0);
    expect_dynamic(24, MDNN_POLICY_CONV, MDNN_VARIANTS_FITTING, 1, 0);
    mdnn_move_plan_t plan = plan_of(MDNN_POLICY_DYNAMIC, 23);
    assert_int_equal(plan.verdict, MDNN_VERDICT_NEEDS_MORE);
    assert_int_equal(plan.needed_bytes, 24);
    mdnn_move_plan_fini(&plan);
}

/* Chen 2019. A convolution takes 10 us without workspace, or 4 us with 8 bytes; 16 are in use, 12 of them not by it and
 * not again before operation 5. Between, each operation takes `between_us`. */
static void fill_one_convolution(double between_us)
{
    random_period_start(&instance, 1);
    const uint32_t kept = random_period_range(&instance, 12, 0, 5);
    const uint32_t x = random_period_range(&instance, 4, 0, 1);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
    use(kept, MDNN_USE_WRITE);
    use(x, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_FORWARD, 10, 0);
    random_period_variant(&instance, 4, 8);
    use(x, MDNN_USE_READ);
    for (uint32_t i = 2; i < 5; i++)
        random_period_operation(&instance, MDNN_OPERATION_OTHER, between_us, 0);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
    use(kept, MDNN_USE_READ);
}

/* Equation 10: T_base - T_alg - T_off = 10 - 4 - (16 + 8 - budget) us. */
CASE(modnn_takes_workspace_where_its_gain_is_positive)
{
    fill_one_convolution(20);
    for (uint64_t budget = 16; budget <= 24; budget++) {
        mdnn_move_plan_t plan = plan_of(MDNN_POLICY_MODNN, budget);
        assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
        assert_int_equal(plan.schedule.choices[1], budget >= 19);
        assert_int_equal(plan.schedule.move_count, budget >= 19 && budget < 24);
        mdnn_move_plan_fini(&plan);
    }
}

/* Equation 9: before operation 2 the copy of 12 us begins if T + between + 12 > EST = T + 3 between, so where an
 * operation takes less than 6 us; else before operation 3, where an operation takes less than 12 us; else before 4. */
CASE(modnn_begins_to_prefetch_when_it_is_time)
{
    static const struct {
        double between_us;
        int32_t return_after;
    } expected[] = {{5, 1}, {5.9, 1}, {6.1, 2}, {11.9, 2}, {12.1, 3}, {40, 3}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        fill_one_convolution(expected[i].between_us);
        mdnn_move_plan_t plan = plan_of(MDNN_POLICY_MODNN, 19);
        assert_int_equal(plan.verdict, MDNN_VERDICT_FITS);
        assert_int_equal(plan.schedule.move_count, 1);
        assert_int_equal(plan.schedule.moves[0].leave_after, 0);
        assert_int_equal(plan.schedule.moves[0].return_after, expected[i].return_after);
        mdnn_move_plan_fini(&plan);
    }
}

/* The latency is a guess, and streams may run side by side: neither is certain. */
CASE(the_link_bound_counts_only_what_is_certain)
{
    double bound_us, least_us;
    mdnn_link_t link = {2, 2, 2, 2, 5}, without = {2, 2, 2, 2, 0};
    fill_one_convolution(5);
    assert_int_equal(mdnn_link_bound(&instance.period, &link, 19, 0, &bound_us), MDNN_STATUS_OK);
    assert_int_equal(mdnn_certificate(&instance.period, &without, 19, 0, &least_us),
                     MDNN_STATUS_OK);
    assert_float_equal(bound_us, least_us, 1e-9);
    assert_int_equal(mdnn_certificate(&instance.period, &link, 19, 0, &least_us), MDNN_STATUS_OK);
    assert_true(least_us > bound_us);
    double busiest_us = 0; /* the stream without the convolution, which takes 4 us */
    for (uint32_t i = 0; i < instance.period.operation_count; i++) {
        instance.operations[i].stream = i == 1;
        busiest_us += i == 1 ? 0 : instance.variants[instance.operations[i].first_variant].time_us;
    }
    assert_int_equal(mdnn_link_bound(&instance.period, &link, 19, 0, &bound_us), MDNN_STATUS_OK);
    assert_float_equal(bound_us, busiest_us, 1e-9);
}

int main(void)
{
    return run_cases("certificate");
}
