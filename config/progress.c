#include "config/progress.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "config/standard_error.h"

enum { LINE_BYTES = 256 };
static const char erase[] = "\r\033[K";

static _Atomic bool is_wanted, is_shown;
/* A thread shows a line. Another one's would only replace it, and is not shown. */
static _Atomic bool is_writing;

/* A terminal that knows how to erase a line. */
static bool is_capable(void)
{
    const char *const kind = secure_getenv("TERM");
    return kind != NULL && *kind != '\0' && strcmp(kind, "dumb") != 0;
}

void mdnn_progress_configure(const mdnn_options_t *options)
{
    const bool for_people = options->general_stats == MDNN_STATISTICS_TEXT ||
                            options->general_stats == MDNN_STATISTICS_BRIEF;
    atomic_store(&is_wanted, for_people && options->general_log != MDNN_LOG_OFF &&
                                 mdnn_standard_error_is_meant(options->general_log_file) &&
                                 mdnn_standard_error_is_meant(options->general_stats_file) &&
                                 is_capable());
}

/* Columns of the terminal that this process may write to now; 0: there is none. */
static size_t columns_now(void)
{
    struct winsize size = {.ws_col = 0};
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (!isatty(STDERR_FILENO) || tcgetpgrp(STDERR_FILENO) != getpgrp() ||
        poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0)
        return 0;
    (void)ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    return size.ws_col > 0 ? size.ws_col : 80;
}

void mdnn_progress_show(const char *format, ...)
{
    if (!atomic_load_explicit(&is_wanted, memory_order_relaxed) ||
        atomic_exchange(&is_writing, true))
        return;
    const int saved = errno;
    const size_t columns = atomic_load(&is_wanted) ? columns_now() : 0;
    char line[LINE_BYTES];
    const int begin = snprintf(line, sizeof line, "%smicrodnn: ", erase);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + begin, sizeof line - (size_t)begin, format, arguments);
    va_end(arguments);
    const size_t length = strnlen(line, sizeof erase - 1 + columns - 1); /* no second line */
    if (columns > 1 && mdnn_standard_error_write(line, length, true) == MDNN_STATUS_OK)
        atomic_store(&is_shown, true);
    atomic_store(&is_writing, false);
    errno = saved;
}

/* Nothing waits for a terminal, so the thread has written its line in a moment. */
void mdnn_progress_finish(void)
{
    enum { MOMENTS = 1000 };
    const struct timespec moment = {.tv_nsec = 10000};
    atomic_store(&is_wanted, false);
    for (int i = 0; i < MOMENTS && atomic_load(&is_writing); i++)
        (void)nanosleep(&moment, NULL);
    mdnn_progress_end();
}

void mdnn_progress_end(void)
{
    if (!atomic_exchange(&is_shown, false))
        return;
    const int saved = errno;
    if (columns_now() > 0)
        (void)mdnn_standard_error_write(erase, sizeof erase - 1, true);
    errno = saved;
}
