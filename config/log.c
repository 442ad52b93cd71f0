#include "config/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/options.h"
#include "config/paths.h"
#include "config/quiet_write.h"
#include "config/safe_path.h"
#include "config/standard_error.h"

/* A line fits what a pipe takes in one piece (PIPE_BUF), and a small thread's stack. */
enum { LINE_BYTES = 2048, HOST_BYTES = 256 };

_Atomic int mdnn_log_threshold = MDNN_LOG_WARN;

/* NULL is stderr. Points to log_file; published after the text is complete. */
static _Atomic(const char *) log_target;
static char log_file[MDNN_OPTION_STRING_BYTES];

/* What `microdnn doctor` looks for in the library's file, without loading it. */
__attribute__((used)) static const char what_string[] = "@(#)libmicrodnn " MDNN_VERSION;

void mdnn_log_configure(mdnn_log_level_t level, const char *file)
{
    atomic_store_explicit(&log_target, NULL, memory_order_release);
    if (file != NULL && !mdnn_standard_error_is_meant(file)) {
        mdnn_absolute_pattern(file, log_file, sizeof log_file);
        atomic_store_explicit(&log_target, log_file, memory_order_release);
    }
    atomic_store_explicit(&mdnn_log_threshold, (int)level, memory_order_relaxed);
}

/* The process's rank in its job, as its launcher says; without one, its number, which no other process's file has. */
static long rank_of_process(void)
{
    static const char *const variables[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                            "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *const text = secure_getenv(variables[i]);
        char *end = NULL;
        const long rank = text ? strtol(text, &end, 10) : -1;
        if (rank >= 0 && end != text && *end == '\0')
            return rank;
    }
    return (long)getpid();
}

void mdnn_expand_pattern(const char *pattern, char *out, unsigned long bytes)
{
    unsigned long used = 0;
    for (; *pattern != '\0' && used + 1 < bytes; pattern++) {
        char host[HOST_BYTES] = "localhost";
        int written = 0;
        if (pattern[0] == '%' && pattern[1] == 'p') {
            written = snprintf(out + used, bytes - used, "%ld", (long)getpid());
        } else if (pattern[0] == '%' && pattern[1] == 'r') {
            written = snprintf(out + used, bytes - used, "%ld", rank_of_process());
        } else if (pattern[0] == '%' && pattern[1] == 'h') {
            (void)gethostname(host, sizeof host - 1);
            written = snprintf(out + used, bytes - used, "%s", host);
        } else {
            /* "%%" is one, any other '%' stays. */
            out[used++] = *pattern;
            pattern += pattern[0] == '%' && pattern[1] == '%';
            continue;
        }
        pattern++;
        used += (unsigned long)written;
        if (used >= bytes)
            used = bytes - 1;
    }
    out[used] = '\0';
}

/* Once per process: the lines that a file should hold are on standard error. */
static void say_unwritable(const char *path, int error)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char line[MDNN_OPTION_STRING_BYTES + 128];
    if (atomic_flag_test_and_set(&said))
        return;
    const int bytes = snprintf(line, sizeof line,
                               "microdnn: %ld:%ld config: the log file %s cannot be opened (%s): "
                               "the log goes to standard error\n",
                               (long)getpid(), (long)gettid(), path, strerrordesc_np(error));
    (void)mdnn_standard_error_write(line, (size_t)bytes, true);
}

/* -1 if the log is stderr or its file cannot be opened. */
static int open_target(void)
{
    const char *const pattern = atomic_load_explicit(&log_target, memory_order_acquire);
    if (pattern == NULL)
        return -1;
    char path[MDNN_OPTION_STRING_BYTES];
    mdnn_expand_pattern(pattern, path, sizeof path);
    const int file = mdnn_safe_open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0)
        say_unwritable(path, errno);
    return file;
}

/* Ends the line of `length` bytes, of which the buffer holds at most LINE_BYTES - 1. */
static size_t finish_line(char *line, size_t length)
{
    static const char cut[] = "...";
    if (length > LINE_BYTES - 2) {
        length = LINE_BYTES - 2;
        memcpy(line + length - (sizeof cut - 1), cut, sizeof cut - 1);
    }
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
            line[i] = ' ';
    }
    line[length] = '\n';
    return length + 1;
}

static void write_line(const char *subsystem, const char *format, va_list arguments)
{
    const int saved = errno;
    char line[LINE_BYTES];
    const int prefix = snprintf(line, sizeof line, "microdnn: %ld:%ld %.32s: ", (long)getpid(),
                                (long)gettid(), subsystem);
    errno = saved;
    const int text = vsnprintf(line + prefix, sizeof line - (size_t)prefix, format, arguments);
    const size_t bytes = finish_line(line, (size_t)prefix + (size_t)(text > 0 ? text : 0));
    const int file = open_target();
    if (file >= 0) {
        (void)mdnn_quiet_write_once(file, line, bytes);
        close(file);
    } else {
        (void)mdnn_standard_error_write(line, bytes, true);
    }
    errno = saved;
}

void mdnn_log_write(mdnn_log_level_t level, const char *subsystem, const char *format, ...)
{
    if ((int)level > atomic_load_explicit(&mdnn_log_threshold, memory_order_relaxed))
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(subsystem, format, arguments);
    va_end(arguments);
}

void mdnn_log_say(const char *subsystem, const char *format, ...)
{
    if (atomic_load_explicit(&mdnn_log_threshold, memory_order_relaxed) == MDNN_LOG_OFF)
        return;
    va_list arguments;
    va_start(arguments, format);
    write_line(subsystem, format, arguments);
    va_end(arguments);
}
