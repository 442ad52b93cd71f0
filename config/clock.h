/* Host time for durations. */
#ifndef MDNN_CLOCK_H
#define MDNN_CLOCK_H

#include <time.h>

static inline double mdnn_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

#endif
