/* Fits the costs of the simulated cuDNN to measured convolutions and prints them, for a person to
 * put into conv_costs.def: for each algorithm and arithmetic the efficiency, the half-way point and
 * how often the workspace passes through memory (and so on) that make the mean of
 * |log(model / measured)| smallest.
 *
 *     calibrate PROFILE ROWS.tsv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "test/sim/calibration.h"

enum { FREE_COSTS = 5 };

typedef struct fit {
    const sim_profile_t *profile;
    const calibration_t *rows;
    int direction, number;
    bool tensor;
    sim_conv_algorithm_t algorithm; /* with the costs tried now */
} fit_t;

static bool belongs(const fit_t *fit, const calibration_row_t *row)
{
    return row->problem.direction == fit->direction && row->algo == fit->number &&
           sim_conv_uses_tensor_cores(fit->profile, &row->problem, &fit->algorithm) == fit->tensor;
}

/* Mean of |log(model / measured)|, which a few odd rows do not rule; *count rows. */
static double error_of(const fit_t *fit, int *count)
{
    double sum = 0.0;
    *count = 0;
    for (size_t i = 0; i < fit->rows->count; i++) {
        const calibration_row_t *const row = &fit->rows->rows[i];
        if (!belongs(fit, row))
            continue;
        const double difference = log(calibration_ms(fit->profile, row, &fit->algorithm) / row->ms);
        sum += fabs(difference);
        ++*count;
    }
    return *count ? sum / *count : 0.0;
}

/* One cost at a time, by ever smaller factors, until none helps. */
static double descend(fit_t *fit)
{
    sim_conv_algorithm_t *const a = &fit->algorithm;
    double *const costs[FREE_COSTS] = {fit->tensor ? &a->tensor_efficiency : &a->efficiency,
                                       &a->half_waves, &a->workspace_passes, &a->beta_factor,
                                       &a->half_terms};
    const double most[FREE_COSTS] = {1.0, 8.0, 4.0, 2.0, 1000.0};
    const double least[FREE_COSTS] = {0.01, 0.05, 0.2, 1.0, 0.0};
    int count;
    a->half_terms = fit->tensor && fit->direction != SIM_BACKWARD_FILTER ? 100.0 : 0.0;
    double best = error_of(fit, &count);
    for (double step = 0.3; step > 1e-3;) {
        bool better = false;
        for (int cost = 0; cost < FREE_COSTS; cost++)
            for (int sign = -1; sign <= 1; sign += 2) {
                const double kept = *costs[cost];
                *costs[cost] = fmin(most[cost], fmax(least[cost], kept * exp(sign * step)));
                const double error = error_of(fit, &count);
                if (error < best - 1e-9) {
                    best = error;
                    better = true;
                } else {
                    *costs[cost] = kept;
                }
            }
        if (!better)
            step /= 2.0;
    }
    return best;
}

int main(int argc, char **argv)
{
    const sim_profile_t *const profile = argc == 3 ? calibration_profile(argv[1]) : NULL;
    if (!profile) {
        fprintf(stderr, "usage: calibrate PROFILE ROWS.tsv\n");
        return 2;
    }
    const calibration_t rows = calibration_read(argv[2]);
    for (int direction = 0; direction < SIM_DIRECTIONS; direction++)
        for (int number = 0; number < sim_conv_algorithm_count((sim_conv_direction_t)direction);
             number++)
            for (int tensor = 0; tensor < 2; tensor++) {
                fit_t fit = {.profile = profile,
                             .rows = &rows,
                             .direction = direction,
                             .number = number,
                             .tensor = tensor};
                fit.algorithm = *sim_conv_algorithm((sim_conv_direction_t)direction, number);
                int count;
                const double before = error_of(&fit, &count);
                if (!count)
                    continue;
                const double after = descend(&fit);
                const sim_conv_algorithm_t *const a = &fit.algorithm;
                printf("direction %d algo %d %-24s %-6s %3d rows  error %.2f -> %.2f  efficiency "
                       "%.3f  half_waves %.2f  passes %.2f  beta %.2f  half_terms %.0f\n",
                       direction, number, a->name, tensor ? "tensor" : "fma", count, before, after,
                       tensor ? a->tensor_efficiency : a->efficiency, a->half_waves,
                       a->workspace_passes, a->beta_factor, a->half_terms);
            }
    free(rows.rows);
    return 0;
}
