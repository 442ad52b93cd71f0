#include "test/sim/calibration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sim_profile_t profiles[] = {
#define PROFILE(profile, ...) {#profile, __VA_ARGS__},
#include "test/sim/profiles.def"
#undef PROFILE
};

/* The library that keeps error texts for cuDNN's callers is not linked here. */
cudnnStatus_t sim_cudnn_fail(cudnnStatus_t status, const char *text)
{
    (void)text;
    return status;
}

const sim_profile_t *calibration_profile(const char *name)
{
    for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
        if (strcmp(profiles[i].name, name) == 0)
            return &profiles[i];
    return NULL;
}

static int word_index(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static sim_conv_tensor_t tensor(int32_t type, int32_t n, int32_t c, int32_t hw)
{
    return (sim_conv_tensor_t){.type = type, .dims = {n, c, 1, hw, hw}};
}

/* Columns as the head of the file names them. False if the line has others. */
static bool parse(char *line, calibration_row_t *row)
{
    static const char *const directions[] = {"forward", "backward_data", "backward_filter"};
    static const char *const math[] = {"default", "tensor_op", "conversion", "fma"};
    char direction[16], type[8], layout[8], math_type[16];
    int n, c, hw, k, rs, stride, pad;
    if (sscanf(line, "%15s %15s %15s %7s %7s %15s %d %d %d %d %d %d %d %d %d %lf %lf", row->net,
               row->layer, direction, type, layout, math_type, &row->algo, &n, &row->parts, &c, &hw,
               &k, &rs, &stride, &pad, &row->workspace_bytes, &row->ms) != 17)
        return false;
    const int32_t data = strcmp(type, "half") == 0 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
    row->problem =
        (sim_conv_t){.direction = word_index(direction, directions, 3),
                     .spatial_dims = 2,
                     .layout = strcmp(layout, "nhwc") == 0 ? SIM_LAYOUT_NHWC : SIM_LAYOUT_NCHW,
                     .math_type = word_index(math_type, math, 4),
                     .groups = 1,
                     .pad = {0, pad, pad},
                     .stride = {1, stride, stride},
                     .dilation = {1, 1, 1},
                     .x = tensor(data, n, c, hw),
                     .w = tensor(data, k, c, rs),
                     .y = tensor(data, n, k, (hw + 2 * pad - rs) / stride + 1)};
    return row->problem.direction >= 0 && row->problem.math_type >= 0 &&
           sim_conv_algorithm((sim_conv_direction_t)row->problem.direction, row->algo);
}

calibration_t calibration_read(const char *path)
{
    calibration_t read = {0};
    char line[512];
    FILE *const file = fopen(path, "r");
    for (int number = 1; file && fgets(line, sizeof line, file); number++) {
        if (line[0] == '#')
            continue;
        read.rows = reallocarray(read.rows, read.count + 1, sizeof *read.rows);
        if (!read.rows || !parse(line, &read.rows[read.count++])) {
            fprintf(stderr, "%s:%d: not a row\n", path, number);
            exit(1);
        }
    }
    if (!file || read.count == 0) {
        fprintf(stderr, "%s: no rows\n", path);
        exit(1);
    }
    fclose(file);
    return read;
}

double calibration_ms(const sim_profile_t *profile, const calibration_row_t *row,
                      const sim_conv_algorithm_t *algorithm)
{
    const bool adds = row->problem.direction == SIM_BACKWARD_FILTER;
    const double first = sim_conv_cost_us(profile, &row->problem, algorithm, false);
    const double other = sim_conv_cost_us(profile, &row->problem, algorithm, adds);
    return (first + (row->parts - 1) * other) / 1e3;
}
