/* What one run showed of a device: the iteration that the program repeats, with measured times, and on what it ran.
 * The library writes it (option memory.record), and `microdnn advise` plans it again for other budgets and devices.
 *
 * As text it is lines of a name and a value, and then the period (offload/plan/period_text.h):
 *
 *     microdnn-record 1
 *     program python3            cut to fit, without control characters
 *     device 0 NVIDIA H200
 *     simulated no               or yes
 *     total 150754820096         bytes of the device
 *     budget 12884901888         of the run; the whole device, if that is less
 *     ranges 12800000000         of the budget, what the plan could use: without slabs and what is set aside
 *     chunk 8388608
 *     link 53000 55000 41000 42000 100   out and in, alone and both at once: bytes per us; then the latency in us
 *     microdnn-period 1
 *     ... */
#ifndef MDNN_RUN_RECORD_H
#define MDNN_RUN_RECORD_H

#include "offload/plan/replay.h"

#define MDNN_RECORD_VERSION "1"
enum { MDNN_RECORD_NAME_BYTES = 96 };

typedef struct mdnn_run_record {
    char program[MDNN_RECORD_NAME_BYTES], device_name[MDNN_RECORD_NAME_BYTES];
    int device; /* ordinal */
    bool simulated;
    uint64_t total_bytes, budget_bytes, ranges_bytes, chunk_bytes;
    mdnn_link_t link; /* rates are written without decimals, as numbers of at least 1 */
    mdnn_period_t period;
} mdnn_run_record_t;

/* Text in memory of its own; the caller frees *text. OUT_OF_MEMORY, INVALID_ARGUMENT for times or rates above 1e12. */
mdnn_status_t mdnn_run_record_write(const mdnn_run_record_t *record, char **text, size_t *bytes);

/* Reads a text that need not end with a NUL. BAD_FORMAT, and then *line is the line at fault, from 1; OUT_OF_MEMORY.
 * The caller frees record->period. `line` may be NULL. */
mdnn_status_t mdnn_run_record_read(const char *text, size_t bytes, mdnn_run_record_t *record,
                                   size_t *line);

#endif
