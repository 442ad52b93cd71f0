/* Measured convolutions (calibration.tsv, calibration_check.tsv) beside the cost model of the
 * simulated cuDNN, for the program that fits its costs and the test that checks them. */
#ifndef SIM_CALIBRATION_H
#define SIM_CALIBRATION_H

#include "test/sim/cudnn/conv.h"

typedef struct calibration_row {
    char net[16], layer[16];
    sim_conv_t problem; /* of one part */
    int algo, parts;
    double workspace_bytes, ms; /* of one part; of all parts */
} calibration_row_t;

typedef struct calibration {
    calibration_row_t *rows;
    size_t count;
} calibration_t;

/* Ends the program, naming the line, if the file cannot be read. Release with free(rows). */
calibration_t calibration_read(const char *path);

/* The cost model's time of the row with `algorithm`, which may be a changed copy, in ms. */
double calibration_ms(const sim_profile_t *profile, const calibration_row_t *row,
                      const sim_conv_algorithm_t *algorithm);

/* NULL if there is no such profile. */
const sim_profile_t *calibration_profile(const char *name);

#endif
