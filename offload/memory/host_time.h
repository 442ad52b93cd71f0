/* Where the host's time goes inside the library (config/host_time.def), summed over threads. */
#ifndef MDNN_HOST_TIME_H
#define MDNN_HOST_TIME_H

#include <stdint.h>

typedef enum mdnn_host_time_kind {
#define HOST_TIME(name, words) MDNN_HOST_TIME_##name,
#include "config/host_time.def"
    MDNN_HOST_TIME_COUNT
} mdnn_host_time_kind_t;

typedef enum mdnn_late_return {
#define LATE_RETURN(name, words) MDNN_LATE_RETURN_##name,
#include "config/host_time.def"
    MDNN_LATE_RETURN_COUNT
} mdnn_late_return_t;

typedef struct mdnn_host_time {
    double us[MDNN_HOST_TIME_COUNT];
} mdnn_host_time_t;

/* Counts `us` as `kind` instead of as the library's own work, within which it was measured. */
static inline void mdnn_host_time_take(mdnn_host_time_t *time, mdnn_host_time_kind_t kind,
                                       double us)
{
    time->us[MDNN_HOST_TIME_library] -= us;
    time->us[kind] += us;
}

/* *sum += scale * (late - early) */
static inline void mdnn_host_time_add(mdnn_host_time_t *sum, double scale,
                                      const mdnn_host_time_t *late, const mdnn_host_time_t *early)
{
    for (int kind = 0; kind < MDNN_HOST_TIME_COUNT; kind++)
        sum->us[kind] += scale * (late->us[kind] - early->us[kind]);
}

#endif
