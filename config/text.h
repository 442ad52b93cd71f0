/* Text that grows line by line. */
#ifndef MDNN_TEXT_H
#define MDNN_TEXT_H

#include <stddef.h>

#include "config/status.h"

/* {0} is empty. The caller frees `bytes`, which are not terminated until something was added. */
typedef struct mdnn_text {
    char *bytes;
    size_t used, capacity;
} mdnn_text_t;

/* Appends at most 159 bytes. OUT_OF_MEMORY, OVERFLOW for more; the text is as before then. */
__attribute__((format(printf, 2, 3))) mdnn_status_t mdnn_text_add(mdnn_text_t *text,
                                                                  const char *format, ...);

#endif
