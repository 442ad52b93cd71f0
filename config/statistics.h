/* Statistics of one process: counters (config/counters.def) and a row for each convolution problem.
 *
 * Until mdnn_statistics_open the counters are plain static memory; if statistics are on and go to a file, they move
 * into a shared mapping of `<file>.live` (the descriptor is closed within the call), so that os._exit and SIGKILL lose
 * nothing: `microdnn stats <file>.live` reads that file. A normal end (mdnn_statistics_finish, from the exit handler)
 * writes <file> and removes the live file. Thread-safe. A forked child counts into private memory and writes
 * nothing. */
#ifndef MDNN_STATISTICS_H
#define MDNN_STATISTICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/choices.h"
#include "config/options.h"
#include "config/status.h"

typedef enum mdnn_counter {
#define COUNTER(name, meaning) MDNN_COUNTER_##name,
#include "config/counters.def"
#undef COUNTER
    MDNN_COUNTER_COUNT
} mdnn_counter_t;

/* Never NULL. Relaxed atomics: totals only, no ordering between counters. */
extern _Atomic(_Atomic uint64_t *) mdnn_counters;

static inline void mdnn_count(mdnn_counter_t counter, uint64_t amount)
{
    _Atomic uint64_t *const table = atomic_load_explicit(&mdnn_counters, memory_order_acquire);
    atomic_fetch_add_explicit(&table[counter], amount, memory_order_relaxed);
}

/* Raises a counter that holds a peak. */
void mdnn_count_peak(mdnn_counter_t counter, uint64_t value);

/* One convolution problem and what was chosen for it. Text is UTF-8, cut to fit. */
typedef struct mdnn_statistics_row {
    char problem[320];
    char configuration[320];  /* like "4 x 64 @ algo 4" */
    char key[2048];           /* exact, as the database has it; "": not known, or too long */
    int32_t device;           /* ordinal */
    uint64_t workspace_bytes; /* of the configuration */
    double undivided_ms;      /* best undivided under the same limit; < 0: none */
    double configuration_ms;  /* predicted */
} mdnn_statistics_row_t;

/* Adds a row, or replaces the row `*index`; `*index` < 0 asks for a new one. Rows beyond the fixed
 * capacity are dropped and counted. */
void mdnn_statistics_row(int *index, const mdnn_statistics_row_t *row);

/* What distinguishes the layers in one execution of a convolution. Addresses are only compared; the statistics show
 * small numbers instead of them. */
typedef struct mdnn_statistics_execution {
    int row;          /* of its problem; without such a row it is not recorded */
    uint64_t stream;  /* executions in one stream run in order */
    uint64_t x, w, y; /* addresses of the tensors */
} mdnn_statistics_execution_t;

/* Executions are recorded in their order until there is no room for more: the first ones show the network.
 * mdnn_statistics_wants_executions returns false once there is no room, or while nothing is recorded. Both functions
 * are lock-free. */
bool mdnn_statistics_wants_executions(void);
void mdnn_statistics_execution(const mdnn_statistics_execution_t *execution);

/* Starts recording as the options say. IO if the live file cannot be made: counters stay private. */
mdnn_status_t mdnn_statistics_open(const mdnn_options_t *options);
/* `ask` is called in the exit handler before the target is written, to record the numbers of other
 * parts. */
void mdnn_statistics_ask_at_finish(void (*ask)(void));
/* Writes the target; called once, at exit. Makes no CUDA call. */
void mdnn_statistics_finish(void);
/* Called in a forked child: counters become private zeros, and nothing will be written. */
void mdnn_statistics_after_fork(void);

/* Prints a live file, or copies the content of a finished one. BAD_FORMAT for any other file. */
mdnn_status_t mdnn_statistics_print_file(const char *path, mdnn_statistics_format_t format,
                                         FILE *out);

#endif
