/* What a run measured, and how it is told: lines on standard output, a JSON file. */
#ifndef TRAIN_CNN_REPORT_H
#define TRAIN_CNN_REPORT_H

#include "network.h"

typedef struct epoch_result {
    double loss;     /* mean over its training images */
    double accuracy; /* of the test images, 0 to 1 */
    double images_per_second;
    double convolution_ms; /* mean of its iterations */
} epoch_result_t;

/* All times are the device's (events). Rows are iterations, warm-up ones included. */
typedef struct results {
    int iterations, iterations_capacity;
    double *losses;
    float *iteration_ms, *convolution_ms, *fc_ms;
    float *timer_ms; /* iterations_capacity rows of network.timers.count */
    int timer_count;
    epoch_result_t *epochs;
    int epoch_count, epoch_capacity;
} results_t;

void results_init(results_t *results, int iterations, int epochs, int timer_count);
void results_fini(results_t *results);
/* Adds an iteration that the stream has finished; reads the network's timers. */
void results_add_iteration(results_t *results, network_t *network, double loss);

void report_start(const network_t *network);
void report_algorithms(const network_t *network);
void report_epoch(const results_t *results);
void report_end(const results_t *results, const network_t *network);
/* Writes options->json_file; ends the program if it cannot. */
void report_json(const results_t *results, const network_t *network);

#endif
