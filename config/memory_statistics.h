/* Statistics of virtual memory, one set of numbers for each device under a budget: the struct, its
 * way into the statistics of the process, and its text and JSON.
 *
 * Whoever has the numbers registers a source; it is asked once when the process ends. So that a
 * killed process loses little, the numbers should also be published now and then (each takes a
 * microsecond); the last ones count. */
#ifndef MDNN_MEMORY_STATISTICS_H
#define MDNN_MEMORY_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mdnn_memory_statistics {
#define MEMORY_COUNT(name) uint64_t name;
#define MEMORY_BYTES MEMORY_COUNT
#define MEMORY_MS(name) double name;
#include "config/memory_statistics.def"
#undef MEMORY_COUNT
#undef MEMORY_BYTES
#undef MEMORY_MS
    char policy[16];         /* that the last plan uses; "": there was none */
    char safety[16];         /* as the option has it */
    char first_unnamed[192]; /* the first unnamed access, for people; "": none */
} mdnn_memory_statistics_t;

/* Fills *numbers (all zero before) for the device; false: there is none under a budget by that
 * ordinal. Called in the exit handler: must make no CUDA call, and must not wait for a lock that a
 * thread that was stopped may hold (try it, and answer false: what was published last counts). */
typedef bool (*mdnn_memory_statistics_source_t)(int device, mdnn_memory_statistics_t *numbers);

/* Once a process, at the first use of virtual memory. Thread-safe. */
void mdnn_memory_statistics_register(mdnn_memory_statistics_source_t source);

/* The numbers of the device so far. Does nothing when statistics are off, in a forked child, or for
 * devices beyond the table. One caller at a time for each device. */
void mdnn_memory_statistics_publish(int device, const mdnn_memory_statistics_t *numbers);

#endif
