/* The library's only log. Messages below the level are dropped. A line is formatted on the stack and
 * written with a single write(2), so lines of threads and processes do not mix and nothing is
 * allocated. A log file is opened, written and closed within the call. The log can be used before
 * mdnn_log_configure: then the level is warn, and the file is stderr. */
#ifndef MDNN_LOG_H
#define MDNN_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "config/choices.h"

extern _Atomic int mdnn_log_threshold;

/* `file`: "stderr" or a path with %p (process id), %h (host name) and %r (rank) filled in at each write. */
void mdnn_log_configure(mdnn_log_level_t level, const char *file);

void mdnn_log_write(mdnn_log_level_t level, const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the line whatever the level is, unless that is off: for messages that the user asked for. */
void mdnn_log_say(const char *subsystem, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fills %p, %h and %r (the rank of the process in its job, or its number without one) of `pattern` into `out` (always
 * terminated, cut at `bytes`). */
void mdnn_expand_pattern(const char *pattern, char *out, unsigned long bytes);

#define MDNN_LOG(level, subsystem, ...)                                                            \
    do {                                                                                           \
        if ((int)(level) <= atomic_load_explicit(&mdnn_log_threshold, memory_order_relaxed))       \
            mdnn_log_write((level), (subsystem), __VA_ARGS__);                                     \
    } while (0)

/* Logs at most once per process and place in the source: for failures in the library that may repeat at every call. */
#define MDNN_LOG_ONCE(level, subsystem, ...)                                                       \
    do {                                                                                           \
        static atomic_flag mdnn_log_said_ = ATOMIC_FLAG_INIT;                                      \
        if ((int)(level) <= atomic_load_explicit(&mdnn_log_threshold, memory_order_relaxed) &&     \
            !atomic_flag_test_and_set_explicit(&mdnn_log_said_, memory_order_relaxed))             \
            mdnn_log_write((level), (subsystem), __VA_ARGS__);                                     \
    } while (0)

#endif
