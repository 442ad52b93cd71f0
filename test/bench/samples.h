/* What benches time, and the middle of their samples. */
#ifndef MDNN_TEST_BENCH_SAMPLES_H
#define MDNN_TEST_BENCH_SAMPLES_H

#include <stdlib.h>
#include <time.h>

static inline double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int compare_samples(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Sorts the samples. */
static inline double median(double *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare_samples);
    return samples[count / 2];
}

#endif
