/* Statistics of a run for the commands that read them: one reader, which trusts nothing, for all of them. */
#ifndef MICRODNN_STATISTICS_H
#define MICRODNN_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

#include "config/statistics_file.h"

/* Statistics as JSON, and the same as a record, as a live file has it (config/statistics_file.h). */
typedef struct tool_statistics {
    char *json;
    size_t json_bytes;
    char *record;
    size_t record_bytes;
    const mdnn_statistics_header_t *header; /* of the record, as all that follows */
    const mdnn_statistics_slot_t *rows;
    const mdnn_statistics_cell_t *cells;
    bool has_executions; /* false: the library that wrote it recorded none */
} tool_statistics_t;

/* The content of a live file in this format, or of a file in which statistics ended; NULL after a complaint, as for
 * another version of the format. free() it. */
char *tool_statistics_text(const char *path, mdnn_statistics_format_t format, size_t *bytes);

/* Whether that content is JSON. */
bool tool_statistics_are_json(const char *text);

/* Reads JSON, whose values must have the types that the library writes; a number that is missing is 0, as fields are
 * added. Takes `json`, which came from tool_statistics_text for `path`. false after a complaint; then there is nothing
 * to free. */
bool tool_statistics_parse(const char *path, char *json, size_t bytes,
                           tool_statistics_t *statistics);
void tool_statistics_fini(tool_statistics_t *statistics);

#endif
