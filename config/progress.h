/* One line on the user's terminal while the library searches or plans, which the next one replaces and the end erases.
 *
 * It is shown only if statistics for people go to standard error and that is the terminal that the program was started
 * on: never in a file, a pipe or a terminal that another program has in the foreground, and never if the terminal takes
 * no more text, so nothing waits for it. Thread-safe. errno stays. */
#ifndef MDNN_PROGRESS_H
#define MDNN_PROGRESS_H

#include "config/options.h"

/* Called once, when the options are known. */
void mdnn_progress_configure(const mdnn_options_t *options);

void mdnn_progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Erases what is shown. */
void mdnn_progress_end(void);
/* The same for good: no thread shows anything after it. Waits for a thread that is writing, 10 ms at most. */
void mdnn_progress_finish(void);

#endif
