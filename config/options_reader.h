/* What the readers of options (files and environment) share: the place that they are reading, and
 * their messages. Private to config/ and its tests. */
#ifndef MDNN_OPTIONS_READER_H
#define MDNN_OPTIONS_READER_H

#include "config/options_table.h"

typedef struct mdnn_options_reader {
    mdnn_options_t *options;
    mdnn_options_report_t report; /* may be NULL */
    void *context;
    const char *place; /* file name or "environment MICRODNN_..." */
    unsigned line;     /* 0: the place has no lines */
    unsigned messages; /* of this reader so far */
} mdnn_options_reader_t;

/* A file with more messages than this is not an INI file; further messages are dropped. */
enum { MDNN_READER_MESSAGES_MAX = 20 };

/* Longest line of a file without its comment: what inih takes in one piece. */
enum { MDNN_INI_LINE_BYTES_MAX = 197 };

/* One message "place:line: ...". Unprintable bytes are shown as '?'. */
void mdnn_reader_say(mdnn_options_reader_t *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets one option from `text`, or says why not. */
mdnn_status_t mdnn_reader_apply(mdnn_options_reader_t *reader, mdnn_option_id_t id,
                                const char *text);

/* The place seems to set a memory.budget whose value cannot be read. */
void mdnn_reader_note_unread_budget(mdnn_options_reader_t *reader);

/* The value so far and its origin, for messages: "warn (default)". */
void mdnn_reader_kept(const mdnn_options_reader_t *reader, mdnn_option_id_t id, char *buffer,
                      size_t bytes);

/* mdnn_options_load with another path in place of /etc/microdnn.ini; for tests. */
void mdnn_options_load_from(mdnn_options_t *options, const char *system_path,
                            mdnn_options_report_t report, void *context);

/* The environment over `options`. */
void mdnn_options_load_environment(mdnn_options_t *options, mdnn_options_report_t report,
                                   void *context);

#endif
