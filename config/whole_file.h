/* Files that are written as a whole, so that a reader sees either the old or the new content. */
#ifndef MDNN_WHOLE_FILE_H
#define MDNN_WHOLE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/status.h"

/* Whether the file can be replaced: there is none, or it is a regular one. A device or a FIFO is written in place. A
 * link is neither followed nor replaced: it is opened in place, which fails. */
bool mdnn_is_replaceable(const char *path);

/* Replaces the content of `path`, or writes in place what cannot be replaced. IO with errno set. */
mdnn_status_t mdnn_write_whole_file(const char *path, const char *text, size_t bytes);

#endif
