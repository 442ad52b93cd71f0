/* The standard error stream that the program was started with, if the program still has it.
 *
 * If a program closes descriptor 2, the file that it opens next, such as a database or a socket, gets the number 2, and
 * no message may be written there. So the library remembers the file that descriptor 2 was at the start and compares it
 * before each line. A program that puts another file on descriptor 2 itself loses our messages. */
#ifndef MDNN_STANDARD_ERROR_H
#define MDNN_STANDARD_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "config/status.h"

/* Examines descriptor 2 once; later calls do nothing. It should be called as early as possible,
 * before the program runs. */
void mdnn_standard_error_remember(void);

/* The stream's name in options: "stderr", "/dev/stderr" or "". */
bool mdnn_standard_error_is_meant(const char *file);

/* One write(2), like mdnn_quiet_write_once, or as many as it takes, like mdnn_quiet_write_all. NOT_FOUND if descriptor
 * 2 is another file than at the start. */
mdnn_status_t mdnn_standard_error_write(const void *data, size_t bytes, bool once);

#endif
