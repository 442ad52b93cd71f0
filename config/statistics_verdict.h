/* What the statistics of a run mean, in at most four lines for people: what the budget cost, what another one would
 * cost, what convolutions gained, and what should be changed. */
#ifndef MDNN_STATISTICS_VERDICT_H
#define MDNN_STATISTICS_VERDICT_H

#include <stddef.h>

#include "config/memory_statistics.h"
#include "config/statistics.h"

enum { MDNN_VERDICT_LINES = 4, MDNN_VERDICT_BYTES = 400 };

/* {0} is empty. Once there are MDNN_VERDICT_LINES lines, further ones are dropped. */
typedef struct mdnn_verdict_lines {
    char lines[MDNN_VERDICT_LINES][MDNN_VERDICT_BYTES];
    size_t count;
    uint32_t devices;               /* added that have a budget */
    uint32_t problems;              /* convolutions added */
    uint32_t faster;                /* of these, faster than undivided, or fitting only divided */
    uint32_t unfit;                 /* of these, fitting in no way */
    double chosen_ms, undivided_ms; /* of those that fit both ways, each run once */
} mdnn_verdict_lines_t;

/* Milliseconds of an iteration in which nothing moves; 0: not known. */
double mdnn_memory_without_moves_ms(const mdnn_memory_statistics_t *numbers);
/* Milliseconds that an iteration would take with the budget of forecast number `index`: the time that the forecast
 * predicts, plus three quarters of the time by which present iterations exceed the prediction of their plan (less
 * if fewer bytes move, and more if more do); or the time that the host needs to enqueue an iteration, if that is
 * longer. Never less than with a larger budget. 0: not known. */
double mdnn_memory_forecast_ms(const mdnn_memory_statistics_t *numbers, int index);

/* Called in this order: for each device, for each convolution, and once at the end. */
void mdnn_verdict_add_device(mdnn_verdict_lines_t *verdict, int device,
                             const mdnn_memory_statistics_t *numbers);
void mdnn_verdict_add_convolution(mdnn_verdict_lines_t *verdict, const mdnn_statistics_row_t *row);
void mdnn_verdict_end(mdnn_verdict_lines_t *verdict);

#endif
