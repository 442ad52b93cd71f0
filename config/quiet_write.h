/* Writing that cannot hurt the program. If a reader went away or a file reaches its size limit, an
 * ordinary write ends the process by a signal, which the program does not expect from us; these
 * functions return an error code. */
#ifndef MDNN_QUIET_WRITE_H
#define MDNN_QUIET_WRITE_H

#include <stddef.h>
#include <sys/types.h>

#include "config/status.h"

/* One write(2), repeated only if a signal came before the first byte. Keeps errno. IO if not all
 * bytes were written. */
mdnn_status_t mdnn_quiet_write_once(int descriptor, const void *data, size_t bytes);

/* As many write(2) as it takes. IO with errno set; otherwise errno is kept. */
mdnn_status_t mdnn_quiet_write_all(int descriptor, const void *data, size_t bytes);

/* posix_fallocate(3) from the beginning of the file: 0 or the error. */
int mdnn_quiet_allocate(int descriptor, off_t bytes);

#endif
