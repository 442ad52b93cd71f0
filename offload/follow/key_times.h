/* How long operations with the same key take on average, for a plan before the operations of its period are timed one by
 * one. Memory is bounded: keys for which there is no room are not known. */
#ifndef MDNN_KEY_TIMES_H
#define MDNN_KEY_TIMES_H

#include <stdint.h>

#include "offload/plan/period.h"

enum { MDNN_KEY_TIMES = 1 << 12 };

typedef struct mdnn_key_times {
    struct mdnn_key_time {
        uint64_t key;
        double sum_us;
        uint32_t count; /* 0: a free place */
    } places[MDNN_KEY_TIMES];
} mdnn_key_times_t;

void mdnn_key_times_note(mdnn_key_times_t *times, uint64_t key, double time_us);
/* The average for `key`; negative: unknown. */
double mdnn_key_times_of(const mdnn_key_times_t *times, uint64_t key);
/* Writes the time of each operation of the period: that in `known`, or if it is negative the average for the key, or a
 * negative number. Returns how many operations have a time. */
uint32_t mdnn_key_times_fill(const mdnn_key_times_t *times, const mdnn_period_t *period,
                             const double *known, double *time_us);

#endif
