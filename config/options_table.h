/* The list of options as data, and functions that find an option, set it from a text and explain
 * it. The readers in config/ and the tool use it; the library itself uses the struct in
 * options.h. */
#ifndef MDNN_OPTIONS_TABLE_H
#define MDNN_OPTIONS_TABLE_H

#include <stddef.h>

#include "config/options.h"

typedef enum mdnn_option_type {
    MDNN_OPTION_BOOL,
    MDNN_OPTION_INT,
    MDNN_OPTION_DOUBLE,
    MDNN_OPTION_SIZE,
    MDNN_OPTION_ENUM,
    MDNN_OPTION_STRING
} mdnn_option_type_t;

/* The member that the type names. */
typedef union mdnn_option_value {
    bool truth;
    int64_t integer;
    double real;
    uint64_t bytes;
    int choice;
    const char *text;
} mdnn_option_value_t;

typedef struct mdnn_option_info {
    mdnn_option_type_t type;
    const char *section;
    const char *key;
    const char *help;
    const char *unit;           /* INT and DOUBLE */
    bool shares;                /* SIZE: a share of the device's memory is accepted, too */
    const char *const *choices; /* ENUM: the words, NULL at the end */
    size_t offset;              /* in mdnn_options_t */
    mdnn_option_value_t initial, min, max;
} mdnn_option_info_t;

extern const mdnn_option_info_t mdnn_option_table[MDNN_OPTION_COUNT];

typedef struct mdnn_section_info {
    const char *name;
    const char *help;
} mdnn_section_info_t;

/* In the order in which they are shown. A section may have no option yet. */
enum { MDNN_SECTION_COUNT = 4 };
extern const mdnn_section_info_t mdnn_section_table[MDNN_SECTION_COUNT];

/* Buffers for the texts below. */
enum { MDNN_ACCEPTED_BYTES = 384, MDNN_ENVIRONMENT_NAME_BYTES = 96 };

/* NOT_FOUND if there is no such option. `section` and `key` need no terminator. */
mdnn_status_t mdnn_option_find(const char *section, size_t section_bytes, const char *key,
                               size_t key_bytes, mdnn_option_id_t *id);

/* Stores `origin` and the value of `text`. BAD_FORMAT: not of the option's kind; OVERFLOW: of the kind, but out of
 * range; `options` stays untouched then. */
mdnn_status_t mdnn_option_set(mdnn_options_t *options, mdnn_option_id_t id, const char *text,
                              const char *origin);

/* What the option takes: "off, wr, wd" or "1 to 100 runs". */
void mdnn_option_accepted(mdnn_option_id_t id, char *buffer, size_t bytes);

/* What follows "is not" in a message about a bad value: "a size". */
const char *mdnn_option_kind(mdnn_option_id_t id);

/* MICRODNN_<SECTION>_<KEY>. */
void mdnn_option_environment_name(mdnn_option_id_t id, char *buffer, size_t bytes);

/* The short environment name, or NULL. */
const char *mdnn_option_alias(mdnn_option_id_t id);

/* Keeps the candidate that is closest to `wanted`; for "did you mean". Start with best NULL. */
typedef struct mdnn_nearest {
    const char *wanted;
    const char *best; /* NULL: none is close enough */
    unsigned distance;
} mdnn_nearest_t;
void mdnn_nearest_offer(mdnn_nearest_t *nearest, const char *candidate);

#endif
