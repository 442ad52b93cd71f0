/* How near the cost model of the simulated cuDNN comes to a real GPU: per algorithm and network,
 * with the rows that its costs were fitted to and with rows and sums that they were not. Prints the
 * tables of docs/benchmarks/calibration.md with `test_calibration tables FITTED.tsv CHECK.tsv`. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "test/sim/calibration.h"

#define FITTED CALIBRATION_FOLDER "/calibration.tsv"
#define CHECK CALIBRATION_FOLDER "/calibration_check.tsv"

static const char *const direction_names[] = {"forward", "backward_data", "backward_filter"};

/* One group of rows: errors of times, and how many workspaces are right to within 10 %. */
typedef struct errors {
    double *ratios; /* model / measured */
    int count, workspaces_right;
    double measured_ms, model_ms;
} errors_t;

typedef bool (*filter_t)(const calibration_row_t *row, const void *context);

static const sim_conv_algorithm_t *algorithm_of(const calibration_row_t *row)
{
    return sim_conv_algorithm((sim_conv_direction_t)row->problem.direction, row->algo);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static errors_t compare(const calibration_t *rows, filter_t filter, const void *context)
{
    const sim_profile_t *const profile = calibration_profile("h200");
    errors_t errors = {.ratios = calloc(rows->count, sizeof(double))};
    for (size_t i = 0; i < rows->count; i++) {
        const calibration_row_t *const row = &rows->rows[i];
        if (!filter(row, context))
            continue;
        const double ms = calibration_ms(profile, row, algorithm_of(row));
        const double bytes =
            (double)sim_conv_workspace_bytes(profile, &row->problem, algorithm_of(row));
        errors.ratios[errors.count++] = ms / row->ms;
        errors.measured_ms += row->ms;
        errors.model_ms += ms;
        errors.workspaces_right +=
            fabs(bytes - row->workspace_bytes) <= fmax(16384.0, 0.1 * row->workspace_bytes);
    }
    qsort(errors.ratios, (size_t)errors.count, sizeof(double), compare_doubles);
    return errors;
}

static double quantile(const errors_t *errors, double part)
{
    return errors->ratios[(int)(part * (errors->count - 1) + 0.5)];
}

/* Of |log(model / measured)|, as a factor: half of the rows are nearer than this. */
static double median_factor(const errors_t *errors)
{
    double *const factors = calloc((size_t)errors->count, sizeof(double));
    for (int i = 0; i < errors->count; i++)
        factors[i] = exp(fabs(log(errors->ratios[i])));
    qsort(factors, (size_t)errors->count, sizeof(double), compare_doubles);
    const double median = factors[errors->count / 2];
    free(factors);
    return median;
}

/* Geometric mean of model / measured: the bias, which one odd row of long duration does not rule.
 */
static double bias(const errors_t *errors)
{
    double sum = 0.0;
    for (int i = 0; i < errors->count; i++)
        sum += log(errors->ratios[i]);
    return exp(sum / errors->count);
}

static bool every(const calibration_row_t *row, const void *context)
{
    (void)row, (void)context;
    return true;
}

typedef struct kind {
    int direction, algo;
    bool tensor;
} kind_t;

static bool of_kind(const calibration_row_t *row, const void *context)
{
    const kind_t *const kind = context;
    return row->problem.direction == kind->direction && row->algo == kind->algo &&
           sim_conv_uses_tensor_cores(calibration_profile("h200"), &row->problem,
                                      algorithm_of(row)) == kind->tensor;
}

static void print_errors(const char *name, const errors_t *errors)
{
    printf("| %s | %d | %.2f | %.2f to %.2f | %.2f | %.2f | %d of %d |\n", name, errors->count,
           median_factor(errors), quantile(errors, 0.1), quantile(errors, 0.9), bias(errors),
           errors->model_ms / errors->measured_ms, errors->workspaces_right, errors->count);
}

static void print_kinds(const calibration_t *rows)
{
    for (int direction = 0; direction < SIM_DIRECTIONS; direction++)
        for (int algo = 0; algo < sim_conv_algorithm_count((sim_conv_direction_t)direction); algo++)
            for (int tensor = 0; tensor < 2; tensor++) {
                const kind_t kind = {direction, algo, tensor};
                errors_t errors = compare(rows, of_kind, &kind);
                char name[80];
                snprintf(name, sizeof name, "%s %d%s", direction_names[direction], algo,
                         tensor ? ", tensor cores" : "");
                if (errors.count)
                    print_errors(name, &errors);
                free(errors.ratios);
            }
}

static int print_tables(const char *fitted_path, const char *check_path)
{
    const char *const paths[] = {fitted_path, check_path};
    const char *const names[] = {"fitted: VGG-16 and ResNet-50", "held out: AlexNet"};
    for (int i = 0; i < 2; i++) {
        calibration_t rows = calibration_read(paths[i]);
        errors_t errors = compare(&rows, every, NULL);
        printf("| %s | rows | median error, factor | model / measured, 10th to 90th percentile | "
               "geometric mean | sum / sum | workspace within 10 %% |\n"
               "| --- | --- | --- | --- | --- | --- | --- |\n",
               names[i]);
        print_kinds(&rows);
        print_errors("all", &errors);
        printf("\n");
        free(errors.ratios);
        free(rows.rows);
    }
    return 0;
}

static void assert_near(const char *path, double factor, double most_bias, double workspace_share)
{
    calibration_t rows = calibration_read(path);
    errors_t errors = compare(&rows, every, NULL);
    print_message("%s: %d rows, median error factor %.3f, bias %.3f, workspaces right %d\n", path,
                  errors.count, median_factor(&errors), bias(&errors), errors.workspaces_right);
    assert_true(median_factor(&errors) <= factor);
    assert_true(fabs(log(bias(&errors))) <= log(most_bias));
    assert_true(errors.workspaces_right >= workspace_share * errors.count);
    free(errors.ratios);
    free(rows.rows);
}

static void fitted_rows_are_near(void **state)
{
    (void)state;
    assert_near(FITTED, 1.15, 1.10, 0.9);
}

static void rows_that_nothing_was_fitted_to_are_near(void **state)
{
    (void)state;
    assert_near(CHECK, 1.20, 1.15, 0.9);
}

static void no_row_is_in_both_files(void **state)
{
    (void)state;
    calibration_t fitted = calibration_read(FITTED), check = calibration_read(CHECK);
    for (size_t i = 0; i < check.count; i++)
        for (size_t j = 0; j < fitted.count; j++)
            assert_string_not_equal(check.rows[i].net, fitted.rows[j].net);
    free(fitted.rows);
    free(check.rows);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "tables") == 0)
        return print_tables(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fitted_rows_are_near),
        cmocka_unit_test(rows_that_nothing_was_fitted_to_are_near),
        cmocka_unit_test(no_row_is_in_both_files),
    };
    return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
