/* What the statistics of a run mean, in at most four lines for people: what the budget cost, what another one would
 * cost, what convolutions gained, and what should be changed. */
#ifndef MDNN_STATISTICS_VERDICT_H
#define MDNN_STATISTICS_VERDICT_H

#include <stddef.h>

#include "config/memory_statistics.h"
#include "config/statistics.h"

enum { MDNN_VERDICT_LINES = 4, MDNN_VERDICT_BYTES = 400 };

/* {0} is empty. Lines beyond the last one are dropped. */
typedef struct mdnn_verdict_lines {
    char lines[MDNN_VERDICT_LINES][MDNN_VERDICT_BYTES];
    size_t count;
    uint32_t devices;  /* with a budget, that were added */
    uint32_t problems; /* convolutions that were added, */
    uint32_t
        faster; /* those that run faster than undivided, or fit only because they are divided, */
    uint32_t unfit;                 /* and those that no configuration fits */
    double chosen_ms, undivided_ms; /* of those that fit both ways, each run once */
} mdnn_verdict_lines_t;

/* Milliseconds of an iteration in which nothing moves; 0: not known. */
double mdnn_memory_without_moves_ms(const mdnn_memory_statistics_t *numbers);
/* Milliseconds of an iteration with the budget of that forecast: what the replay predicts, corrected by how far its
 * prediction for the present budget is from what was measured. 0: not known. */
double mdnn_memory_forecast_ms(const mdnn_memory_statistics_t *numbers, int index);

/* Called in this order: for each device, for each convolution, and once at the end. */
void mdnn_verdict_add_device(mdnn_verdict_lines_t *verdict, int device,
                             const mdnn_memory_statistics_t *numbers);
void mdnn_verdict_add_convolution(mdnn_verdict_lines_t *verdict, const mdnn_statistics_row_t *row);
void mdnn_verdict_end(mdnn_verdict_lines_t *verdict);

#endif
