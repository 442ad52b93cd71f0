/* The standard error stream that the program was started with, as far as it still has it.
 *
 * A program that closes descriptor 2 gives its number to whatever it opens next: a database, a
 * socket. Nothing of ours may land there. So what 2 was at the start is remembered, and what is there
 * now is compared before each line. A program that puts another file on 2 itself loses our lines. */
#ifndef MDNN_STANDARD_ERROR_H
#define MDNN_STANDARD_ERROR_H

#include <stdbool.h>
#include <stddef.h>

#include "config/status.h"

/* Looks at descriptor 2, once; later calls do nothing. As early as possible: before the program
 * runs. */
void mdnn_standard_error_remember(void);

/* The stream's name in options: "stderr", "/dev/stderr" or "". */
bool mdnn_standard_error_is_meant(const char *file);

/* One write(2), as mdnn_quiet_write_once, or as many as it takes, as mdnn_quiet_write_all. NOT_FOUND
 * if descriptor 2 is not what it was. */
mdnn_status_t mdnn_standard_error_write(const void *data, size_t bytes, bool once);

#endif
