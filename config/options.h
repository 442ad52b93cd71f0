/* Options of the library: struct, sources and origin of every value.
 *
 * Sources, of which the last one wins: default, /etc/microdnn.ini, $XDG_CONFIG_HOME/microdnn/microdnn.ini (or
 * ~/.config/microdnn/microdnn.ini), $MICRODNN_CONFIG, in the environment the short aliases, such as MICRODNN_TRACE
 * (config/options_table.h), and MICRODNN_<SECTION>_<KEY>. A bad line has one effect: a message names its place and the
 * accepted values; the option keeps its value. A memory budget that could not be read is remembered, since a user who
 * asked for a budget does not want to run without one. */
#ifndef MDNN_OPTIONS_H
#define MDNN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/choices.h"
#include "config/status.h"

enum { MDNN_OPTION_STRING_BYTES = 1024 };
#define MDNN_SIZE_NONE UINT64_MAX

typedef enum mdnn_option_id {
#define OPTION_BOOL(section, key, ...) MDNN_OPTION_##section##_##key,
#define OPTION_INT OPTION_BOOL
#define OPTION_DOUBLE OPTION_BOOL
#define OPTION_SIZE OPTION_BOOL
#define OPTION_SPACE OPTION_BOOL
#define OPTION_ENUM OPTION_BOOL
#define OPTION_STRING OPTION_BOOL
#include "config/options.def"
#undef OPTION_BOOL
#undef OPTION_INT
#undef OPTION_DOUBLE
#undef OPTION_SIZE
#undef OPTION_SPACE
#undef OPTION_ENUM
#undef OPTION_STRING
    MDNN_OPTION_COUNT
} mdnn_option_id_t;

/* Where a value came from: "default", "environment MICRODNN_..." or "file:line". */
enum { MDNN_ORIGIN_BYTES = 320 };

/* A member of OPTION_SPACE is a size as mdnn_size_on_device (config/numbers.h) takes it: bytes, or a share. */
typedef struct mdnn_options {
#define OPTION_BOOL(section, key, ...) bool section##_##key;
#define OPTION_INT(section, key, ...) int64_t section##_##key;
#define OPTION_DOUBLE(section, key, ...) double section##_##key;
#define OPTION_SIZE(section, key, ...) uint64_t section##_##key; /* bytes */
#define OPTION_SPACE(section, key, ...) uint64_t section##_##key;
#define OPTION_ENUM(section, key, ...) int section##_##key; /* of config/choices.h */
#define OPTION_STRING(section, key, ...) char section##_##key[MDNN_OPTION_STRING_BYTES];
#include "config/options.def"
#undef OPTION_BOOL
#undef OPTION_INT
#undef OPTION_DOUBLE
#undef OPTION_SIZE
#undef OPTION_SPACE
#undef OPTION_ENUM
#undef OPTION_STRING
    char origin[MDNN_OPTION_COUNT][MDNN_ORIGIN_BYTES];
    /* The place of a memory.budget that could not be read and that no later one replaced; "" if
     * there is none. */
    char unread_budget[MDNN_ORIGIN_BYTES];
} mdnn_options_t;

/* Called once for every message of a load: one finished line without newline. */
typedef void (*mdnn_options_report_t)(void *context, const char *line);

/* Sets every option to its default. */
void mdnn_options_set_defaults(mdnn_options_t *options);

/* Defaults, then files, then environment, in the order above. A missing file gives no message,
 * unless $MICRODNN_CONFIG names it. It opens, reads and closes files within the call and uses
 * secure_getenv. Never fails: what cannot be read is reported and skipped. */
void mdnn_options_load(mdnn_options_t *options, mdnn_options_report_t report, void *context);

/* Reads one INI file into `options`. NOT_FOUND or IO if it cannot be read; messages for bad
 * lines. */
mdnn_status_t mdnn_options_load_file(mdnn_options_t *options, const char *path,
                                     mdnn_options_report_t report, void *context);
/* The same from memory; `name` is the file's name in messages. For tests and fuzzers. */
mdnn_status_t mdnn_options_load_text(mdnn_options_t *options, const char *name, const char *text,
                                     size_t bytes, mdnn_options_report_t report, void *context);

/* One value as `microdnn config` shows it and as the INI reader takes it back. */
void mdnn_options_format(const mdnn_options_t *options, mdnn_option_id_t id, char *buffer,
                         size_t bytes);

/* The whole set as an INI file, each line with its origin as a comment. */
void mdnn_options_print(const mdnn_options_t *options, FILE *out);

#endif
