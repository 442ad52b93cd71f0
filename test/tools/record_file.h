/* Reads a file of `microdnn run --record`, for programs that study it. */
#ifndef MDNN_TEST_RECORD_FILE_H
#define MDNN_TEST_RECORD_FILE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/run_record.h"

enum { RECORD_BYTES_MAX = 1 << 28 };

/* False: stderr has a line that says why. The caller frees record->period. */
static inline bool record_file_read(const char *program, const char *path,
                                    mdnn_run_record_t *record)
{
    FILE *const in = fopen(path, "re");
    char *const text = in ? malloc(RECORD_BYTES_MAX) : NULL;
    const size_t bytes = text ? fread(text, 1, RECORD_BYTES_MAX, in) : 0;
    size_t line = 0;
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (!in)
        fprintf(stderr, "%s: %s: %s\n", program, path, strerror(errno));
    else
        fclose(in);
    if (text)
        status = mdnn_run_record_read(text, bytes, record, &line);
    if (in && status != MDNN_STATUS_OK)
        fprintf(stderr, "%s: %s:%zu: %s\n", program, path, line, mdnn_status_string(status));
    free(text);
    return in && status == MDNN_STATUS_OK;
}

#endif
