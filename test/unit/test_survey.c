/* What could be remade in an iteration: a small one, by hand, and training of VGG-16 and ResNet-50. */
#include "offload/remake/survey.h"
#include "test/unit/cases.h"
#include "test/unit/resnet50_period.h"
#include "test/unit/vgg16_period.h"

enum { X, W, C, Y, Z, D };

/* x comes from the host; c = f(x, w); y = g(c); z = h(w), which is large; d = i(c); w from y and x. */
typedef struct small {
    uint64_t c_bytes;
    uint32_t x_death;
    mdnn_use_role_t c_in_g;
} small_t;

static random_period_t instance;
static const double link_us_per_byte = 2.0 / 55000; /* out and back */

static const mdnn_period_t *make(small_t small)
{
    random_period_start(&instance, 1);
    random_period_range(&instance, 10, 0, small.x_death);
    random_period_range(&instance, 5, MDNN_NO_POSITION, MDNN_NO_POSITION);
    random_period_range(&instance, small.c_bytes, 1, 4);
    random_period_range(&instance, 100, 2, 5);
    random_period_range(&instance, 300, 3, 3);
    random_period_range(&instance, 1, 4, 4);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 0.5, 0);
    random_period_use(&instance, X, MDNN_USE_UNKNOWN);
    random_period_operation(&instance, MDNN_OPERATION_FORWARD, 3, 7);
    random_period_use(&instance, X, MDNN_USE_READ);
    random_period_use(&instance, W, MDNN_USE_READ);
    random_period_use(&instance, C, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 1, 0);
    random_period_use(&instance, C, small.c_in_g);
    random_period_use(&instance, Y, MDNN_USE_UNKNOWN);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 2, 0);
    random_period_use(&instance, W, MDNN_USE_READ);
    random_period_use(&instance, Z, MDNN_USE_UNKNOWN);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 2, 0);
    random_period_use(&instance, C, MDNN_USE_READ);
    random_period_use(&instance, D, MDNN_USE_WRITE);
    random_period_operation(&instance, MDNN_OPERATION_OTHER, 2, 0);
    random_period_use(&instance, W, MDNN_USE_UNKNOWN);
    random_period_use(&instance, Y, MDNN_USE_READ);
    if (small.x_death == 5)
        random_period_use(&instance, X, MDNN_USE_READ);
    assert_int_equal(mdnn_period_check(&instance.period), MDNN_STATUS_OK);
    return &instance.period;
}

static double price(const mdnn_survey_t *survey, uint32_t range)
{
    for (size_t i = 0; i < survey->count; i++)
        if (survey->gaps[i].gap.range == range)
            return survey->gaps[i].time_us;
    fail_msg("no gap of %u", range);
    return 0;
}

static mdnn_survey_run_t run_within(const mdnn_period_t *period, const mdnn_survey_t *survey,
                                    uint64_t budget)
{
    mdnn_survey_run_t run;
    assert_int_equal(mdnn_survey_run(period, MDNN_SURVEY_GUESS, survey, budget, 1, &run),
                     MDNN_STATUS_OK);
    return run;
}

static void survey_of(const mdnn_period_t *period, mdnn_survey_roles_t roles, uint64_t least,
                      mdnn_survey_t *survey)
{
    assert_int_equal(mdnn_survey(period, roles, least, survey), MDNN_STATUS_OK);
}

CASE(gaps_have_the_price_of_their_recipes)
{
    mdnn_survey_t survey;
    survey_of(make((small_t){100, 5, MDNN_USE_READ}), MDNN_SURVEY_GUESS, 6, &survey);
    assert_int_equal(survey.count, 3);
    assert_float_equal(price(&survey, Y), 1, 0);
    assert_float_equal(price(&survey, C), 3, 0);
    assert_float_equal(price(&survey, X), -1, 0); /* from the host */
    assert_int_equal(survey.gaps[0].gap.range, Y);
    assert_int_equal(survey.gaps[2].gap.range, X);
    assert_int_equal(survey.peak_bytes, 515);
    assert_int_equal(survey.peak, 3);
    assert_float_equal(survey.compute_us, 10.5, 1e-9);
    mdnn_survey_fini(&survey);
    survey_of(&instance.period, MDNN_SURVEY_GUESS, 11, &survey);
    assert_int_equal(survey.count, 2);
    mdnn_survey_fini(&survey);
}

CASE(unknown_uses_may_write_or_are_guessed)
{
    mdnn_survey_t survey;
    const mdnn_period_t *const period = make((small_t){100, 5, MDNN_USE_UNKNOWN});
    survey_of(period, MDNN_SURVEY_CAUTIOUS, 11, &survey);
    assert_float_equal(price(&survey, Y), -1, 0); /* what c was is gone */
    assert_float_equal(price(&survey, C), 4, 0);
    mdnn_survey_fini(&survey);
    survey_of(period, MDNN_SURVEY_GUESS, 11, &survey);
    assert_float_equal(price(&survey, Y), 1, 0);
    assert_float_equal(price(&survey, C), 3, 0);
    mdnn_survey_fini(&survey);
}

/* y is remade after c was freed, so c is made on the way. */
CASE(a_budget_takes_the_cheapest_gaps)
{
    mdnn_survey_t survey;
    const mdnn_period_t *const period = make((small_t){100, 5, MDNN_USE_READ});
    survey_of(period, MDNN_SURVEY_GUESS, 1, &survey);
    mdnn_survey_run_t run = run_within(period, &survey, 515);
    assert_int_equal(run.dropped, 0);
    assert_int_equal(run.peak_bytes, 515);
    assert_float_equal(run.rerun_us, 0, 0);
    run = run_within(period, &survey, 420);
    assert_int_equal(run.dropped, 1);
    assert_int_equal(run.dropped_bytes, 100);
    assert_int_equal(run.steps, 2);
    assert_float_equal(run.rerun_us, 4, 0);
    assert_int_equal(run.peak_bytes, 415);
    run = run_within(period, &survey, 320);
    assert_int_equal(run.dropped, 2);
    assert_int_equal(run.steps, 3);
    assert_float_equal(run.rerun_us, 7, 0);
    assert_int_equal(run.early, 0);
    assert_int_equal(run.kept_bytes, 0);
    assert_int_equal(run.peak_bytes, 315);
    mdnn_survey_fini(&survey);
}

/* x is gone when c is freed, so y needs c. */
CASE(a_freed_input_is_kept_where_it_is_smaller)
{
    mdnn_survey_t survey;
    const mdnn_period_t *period = make((small_t){60, 1, MDNN_USE_READ});
    survey_of(period, MDNN_SURVEY_GUESS, 1, &survey);
    mdnn_survey_run_t run = run_within(period, &survey, 400);
    assert_int_equal(run.kept_bytes, 60);
    assert_int_equal(run.early, 0);
    assert_float_equal(run.rerun_us, 1, 0);
    mdnn_survey_fini(&survey);
    period = make((small_t){120, 1, MDNN_USE_READ});
    survey_of(period, MDNN_SURVEY_GUESS, 1, &survey);
    run = run_within(period, &survey, 450);
    assert_int_equal(run.kept_bytes, 0);
    assert_int_equal(run.early, 1);
    assert_float_equal(run.rerun_us, 1, 0);
    mdnn_survey_fini(&survey);
}

/* Less room never costs less, and what is reached is not far above what was asked for. */
static void check_network(const mdnn_period_t *period, double least_share)
{
    mdnn_survey_t survey;
    double before = 0, gone = 0;
    survey_of(period, MDNN_SURVEY_CAUTIOUS, 1 << 20, &survey);
    for (uint64_t share = 100; share >= 70; share -= 10) {
        mdnn_survey_run_t run;
        const uint64_t budget = survey.peak_bytes * share / 100;
        assert_int_equal(
            mdnn_survey_run(period, MDNN_SURVEY_CAUTIOUS, &survey, budget, link_us_per_byte, &run),
            MDNN_STATUS_OK);
        assert_true(run.rerun_us >= before);
        assert_true((double)run.peak_bytes <= (double)budget * 1.1);
        before = run.rerun_us;
    }
    for (size_t i = 0; i < survey.count; i++)
        gone += survey.gaps[i].time_us >= 0 ? (double)survey.gaps[i].bytes : 0;
    assert_true(gone >= least_share * (double)survey.peak_bytes);
    assert_true(before > 0 && before < survey.compute_us / 2);
    mdnn_survey_fini(&survey);
}

/* c costs 0.03 us a byte, y 0.01. */
CASE(what_is_too_dear_stays)
{
    mdnn_survey_t survey;
    mdnn_survey_run_t run;
    const mdnn_period_t *const period = make((small_t){100, 5, MDNN_USE_READ});
    survey_of(period, MDNN_SURVEY_GUESS, 6, &survey);
    assert_int_equal(mdnn_survey_run(period, MDNN_SURVEY_GUESS, &survey, 320, 0.02, &run),
                     MDNN_STATUS_OK);
    assert_int_equal(run.dropped, 1);
    assert_int_equal(run.early, 1); /* c is freed, and as large as y */
    assert_float_equal(run.rerun_us, 1, 0);
    assert_int_equal(mdnn_survey_run(period, MDNN_SURVEY_GUESS, &survey, 320, 0.005, &run),
                     MDNN_STATUS_OK);
    assert_int_equal(run.dropped, 0);
    assert_int_equal(run.peak_bytes, 515);
    mdnn_survey_fini(&survey);
}

CASE(networks)
{
    vgg16_fill(&instance, 64, 55000, 122000);
    check_network(&instance.period, 0.5);
    resnet50_fill(&instance, 64, 150000);
    check_network(&instance.period, 0.5);
}

/* As docs/design/remaking.md has it. */
CASE(half_of_the_memory_for_a_quarter_more_time)
{
    mdnn_survey_t survey;
    mdnn_survey_run_t run;
    resnet50_fill(&instance, 256, 116000);
    survey_of(&instance.period, MDNN_SURVEY_CAUTIOUS, 1 << 20, &survey);
    assert_int_equal(mdnn_survey_run(&instance.period, MDNN_SURVEY_CAUTIOUS, &survey,
                                     survey.peak_bytes / 2, link_us_per_byte, &run),
                     MDNN_STATUS_OK);
    assert_true(run.peak_bytes <= survey.peak_bytes / 2);
    assert_true(run.rerun_us <= survey.compute_us / 4);
    mdnn_survey_fini(&survey);
}

int main(void)
{
    return run_cases("survey");
}
