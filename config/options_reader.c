#include "config/options_reader.h"

#include <stdarg.h>
#include <string.h>

enum { MESSAGE_BYTES = 1536, SHOWN_VALUE_BYTES = 96 };

/* Messages and origins end up on terminals and in comments: one line, no control characters. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
    }
}

/* "place:line", keeping the end of a long place: the end of a path says more than its beginning. */
static int format_place(const mdnn_options_reader_t *reader, char *buffer, size_t bytes)
{
    const size_t length = strlen(reader->place);
    const size_t room = MDNN_ORIGIN_BYTES - 20;
    const char *const shown = length > room ? reader->place + length - room : reader->place;
    const char *const cut = length > room ? "..." : "";
    if (reader->line == 0)
        return snprintf(buffer, bytes, "%s%s", cut, shown);
    return snprintf(buffer, bytes, "%s%s:%u", cut, shown, reader->line);
}

void mdnn_reader_say(mdnn_options_reader_t *reader, const char *format, ...)
{
    if (reader->report == NULL || reader->messages > MDNN_READER_MESSAGES_MAX)
        return;
    char message[MESSAGE_BYTES];
    const int used = format_place(reader, message, sizeof message);
    if (reader->messages++ == MDNN_READER_MESSAGES_MAX) {
        snprintf(message + used, sizeof message - (size_t)used, ": more messages are not shown");
    } else {
        const int colon = snprintf(message + used, sizeof message - (size_t)used, ": ");
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(message + used + colon, sizeof message - (size_t)(used + colon), format,
                  arguments);
        va_end(arguments);
    }
    make_printable(message);
    reader->report(reader->context, message);
}

void mdnn_reader_note_unread_budget(mdnn_options_reader_t *reader)
{
    char *const place = reader->options->unread_budget;
    format_place(reader, place, MDNN_ORIGIN_BYTES);
    make_printable(place);
}

void mdnn_reader_kept(const mdnn_options_reader_t *reader, mdnn_option_id_t id, char *buffer,
                      size_t bytes)
{
    char value[SHOWN_VALUE_BYTES];
    mdnn_options_format(reader->options, id, value, sizeof value);
    snprintf(buffer, bytes, "%s (%s)", value[0] != '\0' ? value : "the empty text",
             reader->options->origin[id]);
}

/* Instead of a value that is refused. A budget that cannot be read is no reason to run without one. */
static void say_what_counts(const mdnn_options_reader_t *reader, mdnn_option_id_t id, char *buffer,
                            size_t bytes)
{
    const int used = snprintf(buffer, bytes, "kept ");
    if (id == MDNN_OPTION_memory_budget)
        snprintf(buffer, bytes,
                 "if nothing else sets it, memory is refused, unless memory.strict = no");
    else
        mdnn_reader_kept(reader, id, buffer + used, bytes - (size_t)used);
}

mdnn_status_t mdnn_reader_apply(mdnn_options_reader_t *reader, mdnn_option_id_t id,
                                const char *text)
{
    char origin[MDNN_ORIGIN_BYTES];
    format_place(reader, origin, sizeof origin);
    make_printable(origin);
    const mdnn_status_t status = mdnn_option_set(reader->options, id, text, origin);
    if (id == MDNN_OPTION_memory_budget)
        snprintf(reader->options->unread_budget, MDNN_ORIGIN_BYTES, "%s",
                 status == MDNN_STATUS_OK ? "" : origin);
    if (status == MDNN_STATUS_OK)
        return status;
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    char accepted[MDNN_ACCEPTED_BYTES];
    mdnn_option_accepted(id, accepted, sizeof accepted);
    char kept[SHOWN_VALUE_BYTES + MDNN_ORIGIN_BYTES + 8];
    say_what_counts(reader, id, kept, sizeof kept);
    const bool out_of_range = status == MDNN_STATUS_OVERFLOW;
    mdnn_reader_say(reader, "%s.%s = '%.*s%s' is %s%s; accepted: %s; %s", info->section, info->key,
                    SHOWN_VALUE_BYTES, text, strlen(text) > SHOWN_VALUE_BYTES ? "..." : "",
                    out_of_range ? "out of range" : "not ",
                    out_of_range ? "" : mdnn_option_kind(id), accepted, kept);
    return status;
}
