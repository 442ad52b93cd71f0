/* The command line. */
#ifndef TRAIN_CNN_ARGUMENTS_H
#define TRAIN_CNN_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nets.h"

typedef enum data_type { TYPE_FP32, TYPE_TF32, TYPE_FP16, TYPE_BF16 } data_type_t;
typedef enum layout { LAYOUT_NCHW, LAYOUT_NHWC } layout_t;
typedef enum api { API_LEGACY, API_GRAPH } api_t; /* of cuDNN's convolutions */
typedef enum search { SEARCH_EXHAUSTIVE, SEARCH_HEURISTIC } search_t;

#define NO_LIMIT SIZE_MAX

typedef struct arguments {
    const net_info_t *net;
    int batch;      /* images */
    int iterations; /* of training; 0: as `epochs` says */
    int epochs;     /* 0: as `iterations` says */
    int warmup;     /* first iterations that the times leave out; negative: not said */
    api_t api;
    search_t search;
    int find_repeats; /* of an exhaustive search */
    data_type_t type;
    layout_t layout;
    size_t workspace_limit_bytes; /* for one convolution, or NO_LIMIT */
    bool deterministic;           /* only such algorithms */
    bool workspace_per_layer;     /* each convolution its own workspace, not one for all */
    bool branch_streams;          /* each branch of a block its own stream and workspace */
    double dropout;               /* negative: not said */
    double learning_rate, momentum;
    uint64_t seed;
    const char *data_directory;
    const char *json_file; /* NULL: none; "-": standard output */
    bool quiet, print_algorithms;
    bool step; /* one iteration for each line of standard input */
} arguments_t;

/* Ends the program with status 2 and one line on standard error if the line is wrong, with 0 after
 * --help. Strings point into argv. */
void arguments_parse(arguments_t *arguments, int argc, char **argv);

const char *type_name(data_type_t type);
const char *layout_name(layout_t layout);
const char *api_name(api_t api);
const char *search_name(search_t search);

#endif
