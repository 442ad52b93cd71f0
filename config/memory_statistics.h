/* Statistics of virtual memory, one set of numbers for each device under a budget: the struct, its
 * way into the statistics of the process, and its text and JSON.
 *
 * The owner of the numbers registers a source, which is called once when the process ends. The
 * owner should also publish the numbers now and then (each time takes a microsecond), so that a
 * killed process loses little; the last ones count. */
#ifndef MDNN_MEMORY_STATISTICS_H
#define MDNN_MEMORY_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

/* What an iteration would take with another budget. */
enum { MDNN_MEMORY_FORECASTS = 6 };
typedef struct mdnn_memory_forecast {
    uint64_t budget_bytes;
    double predicted_ms;  /* by the replay; 0: none */
    uint64_t moved_bytes; /* out and in, planned */
} mdnn_memory_forecast_t;

typedef struct mdnn_memory_statistics {
#define MEMORY_COUNT(name) uint64_t name;
#define MEMORY_BYTES MEMORY_COUNT
#define MEMORY_MS(name) double name;
#include "config/memory_statistics.def"
#undef MEMORY_COUNT
#undef MEMORY_BYTES
#undef MEMORY_MS
    mdnn_memory_forecast_t forecast[MDNN_MEMORY_FORECASTS]; /* the largest budget first */
    char policy[16];     /* the policy of the last plan; "": there was no plan */
    char safety[16];     /* as the option has it */
    char plan_state[24]; /* where the program and its plan are: "searching", "followed", ... */
    char device_name[64];
    char first_unnamed[192]; /* the first unnamed access, for people; "": none */
    char tails[256];         /* operations with the largest tails, for people; "": none */
} mdnn_memory_statistics_t;

/* Fills *numbers, which are all zero, for the device; false: no device with that ordinal has a budget. It is called in
 * the exit handler, so it must make no CUDA call and must not wait for a lock that a stopped thread may hold: if the
 * lock is not free, it returns false, and then the numbers that were published last count. */
typedef bool (*mdnn_memory_statistics_source_t)(int device, mdnn_memory_statistics_t *numbers);

/* Called once per process, at the first use of virtual memory. Thread-safe. */
void mdnn_memory_statistics_register(mdnn_memory_statistics_source_t source);

/* Publishes the current numbers of the device. Nothing happens if statistics are off, in a forked
 * child, or for devices beyond the table. One caller at a time per device. */
void mdnn_memory_statistics_publish(int device, const mdnn_memory_statistics_t *numbers);

#endif
