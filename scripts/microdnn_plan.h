/* Parts of `microdnn plan`. */
#ifndef MICRODNN_PLAN_H
#define MICRODNN_PLAN_H

#include "optimizer/desirable.h"
#include "scripts/microdnn.h"

/* A problem with costs in the database. */
typedef struct tool_known {
    mdnn_problem_t problem;
    char *key, *title, *device; /* owned */
} tool_known_t;

typedef struct tool_known_list {
    tool_known_t *at;
    size_t count, capacity;
} tool_known_list_t;

/* A convolution in one direction. */
typedef struct tool_kernel {
    char name[64]; /* "conv2 forward", "layer 2 forward" */
    int layer;     /* kernels of one layer follow each other and have one number */
    mdnn_direction_t direction;
    uint32_t group; /* the same for all kernels of one stream, which follow each other */
    const tool_known_t *known;
    const mdnn_desirable_set_t *set;
} tool_kernel_t;

typedef struct tool_kernels {
    tool_kernel_t *at;
    size_t count, capacity;
    uint32_t group_count;
} tool_kernels_t;

/* false after a complaint; what was added is the caller's to free. */
bool tool_kernels_add(tool_kernels_t *kernels, const tool_kernel_t *kernel);

typedef struct tool_network {
    const char *name;   /* of train_cnn */
    long long batch;    /* 0: the network's own */
    const char *dtype;  /* fp32, tf32, fp16 */
    const char *device; /* only problems of this device model; NULL: any */
} tool_network_t;

/* The kernels of a network in the order of its forward pass, with what is known of each. false
 * after a complaint: no such network, not in the database, or several times. */
bool tool_network_kernels(const tool_network_t *network, const tool_known_list_t *known,
                          tool_kernels_t *kernels);

/* A problem that a run posed. Texts belong to the trace. */
typedef struct tool_trace_problem {
    const char *key, *title;
    int device; /* ordinal */
} tool_trace_problem_t;

/* A convolution that ran. Equal numbers are equal streams and addresses. */
typedef struct tool_trace_execution {
    uint32_t problem; /* < problem_count */
    uint32_t stream, x, w, y;
} tool_trace_execution_t;

/* What statistics say of a run. */
typedef struct tool_trace {
    char *record;
    const char *program;
    tool_trace_problem_t *problems;
    size_t problem_count;
    tool_trace_execution_t *executions; /* in their order */
    size_t execution_count;             /* >= 1 */
} tool_trace_t;

/* false after a complaint; then there is nothing to free. */
bool tool_trace_read(const char *path, tool_trace_t *trace);
void tool_trace_fini(tool_trace_t *trace);

/* The problem of a database key, in which the device is always 0. false if the key is none of this version. */
bool tool_parse_problem(const char *key, mdnn_problem_t *problem);

/* The kernels of one iteration of a run, by layers in the order of their first use; `title` gets the name of the run.
 * false after a complaint: no such statistics, nothing repeats, or a problem is not in the database. */
bool tool_run_kernels(const char *path, const tool_known_list_t *known, tool_kernels_t *kernels,
                      char *title, size_t title_bytes);

/* The result of a plan. */
typedef struct tool_plan {
    const char *title, *device, *policy, *solver;
    const tool_kernels_t *kernels;
    mdnn_wd_model_t model;
    uint64_t total_bytes;
    const size_t *choices;
    mdnn_wd_result_t result;
    uint64_t wr_limit_bytes; /* an equal share of the total for one kernel */
    double wr_ms;            /* WR within it; INFINITY if something does not fit */
} tool_plan_t;

void tool_plan_print_table(const tool_plan_t *plan);
void tool_plan_print_json(const tool_plan_t *plan);
/* The division by layer and direction, as figure 14 of Oyama 2018. */
void tool_plan_draw_division(const tool_plan_t *plan, FILE *out);
/* The desirable set of a kernel, as figure 8. */
void tool_plan_draw_set(const tool_plan_t *plan, size_t kernel, FILE *out);

#endif
