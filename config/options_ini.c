/* Options from INI text, through inih.
 *
 * inih gives its handler no line number, cuts lines at 197 characters and section names at 49,
 * takes an indented line for a continuation and keeps quiet about most mistakes. So its line source
 * is ours: it counts, trims, drops comments, says what is wrong with a line, and hands on only
 * headers of known sections and lines that are "key = value". What is wrong reaches inih as an
 * empty line. */
#include "config/options_reader.h"

#include <fcntl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <ini.h>

#include "config/safe_path.h"

enum { FILE_BYTES_MAX = 1 << 20, SHOWN_BYTES = 64 };

typedef struct ini_source {
    mdnn_options_reader_t reader;
    const char *text; /* what is not read yet */
    size_t bytes;
    bool in_section; /* the last header named a known section */
    bool headless;   /* no header yet: keys belong to no section, which is said once */
    bool binary;
    unsigned set_in_line[MDNN_OPTION_COUNT]; /* 0: not in this file */
} ini_source_t;

typedef struct span {
    const char *start;
    size_t bytes;
} span_t;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static span_t trimmed(span_t span)
{
    while (span.bytes > 0 && is_blank(*span.start)) {
        span.start++;
        span.bytes--;
    }
    while (span.bytes > 0 && is_blank(span.start[span.bytes - 1]))
        span.bytes--;
    return span;
}

/* A comment starts with ; or # at the beginning of a line or after white space. */
static span_t without_comment(span_t line)
{
    for (size_t i = 0; i < line.bytes; i++) {
        const bool marker = line.start[i] == ';' || line.start[i] == '#';
        if (marker && (i == 0 || is_blank(line.start[i - 1]))) {
            line.bytes = i;
            break;
        }
    }
    return trimmed(line);
}

static span_t next_raw_line(ini_source_t *source)
{
    const char *const newline = memchr(source->text, '\n', source->bytes);
    span_t line = {source->text,
                   newline != NULL ? (size_t)(newline - source->text) : source->bytes};
    const size_t consumed = line.bytes + (newline != NULL);
    source->text += consumed;
    source->bytes -= consumed;
    source->reader.line++;
    if (line.bytes > 0 && line.start[line.bytes - 1] == '\r')
        line.bytes--;
    if (source->reader.line == 1 && line.bytes >= 3 && memcmp(line.start, "\xef\xbb\xbf", 3) == 0)
        line = (span_t){line.start + 3, line.bytes - 3};
    return line;
}

static bool has_control_characters(span_t line)
{
    for (size_t i = 0; i < line.bytes; i++) {
        const unsigned char c = (unsigned char)line.start[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return true;
    }
    return false;
}

static void list_sections(char *buffer, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < MDNN_SECTION_COUNT && used < bytes; i++)
        used += (size_t)snprintf(buffer + used, bytes - used, "%s[%s]", i > 0 ? " " : "",
                                 mdnn_section_table[i].name);
}

static void say_unknown_section(ini_source_t *source, span_t name)
{
    char wanted[SHOWN_BYTES + 1];
    snprintf(wanted, sizeof wanted, "%.*s",
             (int)(name.bytes < SHOWN_BYTES ? name.bytes : SHOWN_BYTES), name.start);
    mdnn_nearest_t nearest = {.wanted = wanted};
    for (int i = 0; i < MDNN_SECTION_COUNT; i++)
        mdnn_nearest_offer(&nearest, mdnn_section_table[i].name);
    char sections[MDNN_ACCEPTED_BYTES];
    list_sections(sections, sizeof sections);
    mdnn_reader_say(
        &source->reader, "unknown section [%s]%s%s%s; accepted: %s; its keys are ignored", wanted,
        nearest.best != NULL ? ", did you mean [" : "", nearest.best != NULL ? nearest.best : "",
        nearest.best != NULL ? "]?" : "", sections);
}

/* Whether the line is the header of a known section. What follows any other header is ignored: its
 * keys must not land in the section before. */
static bool accept_header(ini_source_t *source, span_t line)
{
    source->in_section = false;
    source->headless = false;
    const char *const end = memchr(line.start, ']', line.bytes);
    if (end == NULL || end != line.start + line.bytes - 1 || line.bytes == 2) {
        char sections[MDNN_ACCEPTED_BYTES];
        list_sections(sections, sizeof sections);
        mdnn_reader_say(&source->reader,
                        "broken section line '%.*s': %s; accepted: %s; its keys are ignored",
                        (int)(line.bytes < SHOWN_BYTES ? line.bytes : SHOWN_BYTES), line.start,
                        end == NULL       ? "']' is missing"
                        : line.bytes == 2 ? "the name is missing"
                                          : "there is text after ']'",
                        sections);
        return false;
    }
    const span_t name = {line.start + 1, line.bytes - 2};
    for (int i = 0; i < MDNN_SECTION_COUNT; i++) {
        const char *const known = mdnn_section_table[i].name;
        if (strlen(known) == name.bytes && memcmp(known, name.start, name.bytes) == 0)
            return source->in_section = true;
    }
    say_unknown_section(source, name);
    return false;
}

/* Whether the line is "key = value" inside a known section. */
static bool accept_assignment(ini_source_t *source, span_t line)
{
    size_t separator = 0;
    while (separator < line.bytes && line.start[separator] != '=' && line.start[separator] != ':')
        separator++;
    if (source->headless) {
        mdnn_reader_say(&source->reader, "line before the first section; accepted: a section line "
                                         "such as [general]; lines up to it are ignored");
        source->headless = false;
        return false;
    }
    if (!source->in_section)
        return false;
    if (separator == 0 || separator == line.bytes) {
        mdnn_reader_say(&source->reader, "'%.*s' has no %s; accepted: key = value; line ignored",
                        (int)(line.bytes < SHOWN_BYTES ? line.bytes : SHOWN_BYTES), line.start,
                        separator == 0 ? "key" : "'='");
        return false;
    }
    return true;
}

static bool accept_line(ini_source_t *source, span_t raw, span_t line)
{
    if (memchr(raw.start, '\0', raw.bytes) != NULL) {
        mdnn_reader_say(&source->reader, "NUL byte; accepted: text; the rest is ignored");
        source->binary = true;
        return false;
    }
    if (line.bytes == 0)
        return false;
    if (has_control_characters(line)) {
        mdnn_reader_say(&source->reader, "control character; accepted: text; line ignored");
        return false;
    }
    if (line.bytes > MDNN_INI_LINE_BYTES_MAX) {
        mdnn_reader_say(&source->reader,
                        "line of %zu bytes; accepted: up to %d without comment; line ignored",
                        line.bytes, MDNN_INI_LINE_BYTES_MAX);
        /* A header too long to be one of ours still ends the section before. */
        source->in_section = source->in_section && *line.start != '[';
        return false;
    }
    return *line.start == '[' ? accept_header(source, line) : accept_assignment(source, line);
}

static bool is_word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether the first word is the key of the budget, or is meant to be. */
static bool asks_for_budget(span_t line)
{
    char word[SHOWN_BYTES + 1];
    size_t bytes = 0;
    while (bytes < line.bytes && bytes < SHOWN_BYTES && is_word_byte(line.start[bytes]))
        bytes++;
    snprintf(word, sizeof word, "%.*s", (int)bytes, line.start);
    mdnn_nearest_t nearest = {.wanted = word};
    for (int i = 0; i < MDNN_OPTION_COUNT; i++)
        mdnn_nearest_offer(&nearest, mdnn_option_table[i].key);
    return nearest.best != NULL && strcmp(nearest.best, "budget") == 0;
}

/* inih's fgets. */
static char *read_line(char *buffer, int bytes, void *stream)
{
    ini_source_t *const source = stream;
    if (source->bytes == 0 || source->binary)
        return NULL;
    const span_t raw = next_raw_line(source);
    span_t line = without_comment(raw);
    if (!accept_line(source, raw, line) || line.bytes >= (size_t)bytes) {
        if (asks_for_budget(line))
            mdnn_reader_note_unread_budget(&source->reader);
        line.bytes = 0;
    }
    memcpy(buffer, line.start, line.bytes);
    buffer[line.bytes] = '\0';
    return buffer;
}

static void say_unknown_key(ini_source_t *source, const char *section, const char *key)
{
    mdnn_nearest_t nearest = {.wanted = key};
    const char *elsewhere = NULL;
    char keys[MDNN_ACCEPTED_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        const mdnn_option_info_t *const info = &mdnn_option_table[i];
        if (strcmp(info->section, section) != 0) {
            elsewhere = strcmp(info->key, key) == 0 ? info->section : elsewhere;
            continue;
        }
        mdnn_nearest_offer(&nearest, info->key);
        if (used < sizeof keys)
            used += (size_t)snprintf(keys + used, sizeof keys - used, "%s%s", used > 0 ? ", " : "",
                                     info->key);
    }
    char hint[SHOWN_BYTES + 32] = "";
    if (elsewhere != NULL)
        snprintf(hint, sizeof hint, ", it belongs to [%s]", elsewhere);
    else if (nearest.best != NULL)
        snprintf(hint, sizeof hint, ", did you mean %s?", nearest.best);
    mdnn_reader_say(&source->reader, "unknown key %.*s in [%s]%s; accepted: %s; line ignored",
                    SHOWN_BYTES, key, section, hint, keys);
}

static int take_assignment(void *user, const char *section, const char *key, const char *value)
{
    ini_source_t *const source = user;
    mdnn_option_id_t id;
    if (mdnn_option_find(section, strlen(section), key, strlen(key), &id) != MDNN_STATUS_OK) {
        say_unknown_key(source, section, key);
        if (asks_for_budget((span_t){key, strlen(key)}))
            mdnn_reader_note_unread_budget(&source->reader);
        return 1;
    }
    if (source->set_in_line[id] != 0) {
        char kept[MDNN_ACCEPTED_BYTES + MDNN_ORIGIN_BYTES];
        mdnn_reader_kept(&source->reader, id, kept, sizeof kept);
        mdnn_reader_say(&source->reader,
                        "%s.%s is already set in line %u; accepted: one line per key; kept %s",
                        section, key, source->set_in_line[id], kept);
        return 1;
    }
    if (mdnn_reader_apply(&source->reader, id, value) == MDNN_STATUS_OK)
        source->set_in_line[id] = source->reader.line;
    return 1;
}

mdnn_status_t mdnn_options_load_text(mdnn_options_t *options, const char *name, const char *text,
                                     size_t bytes, mdnn_options_report_t report, void *context)
{
    ini_source_t source = {
        .reader = {.options = options, .report = report, .context = context, .place = name},
        .text = text,
        .bytes = bytes,
        .headless = true,
    };
    /* Its result is the line of a mistake, and mistakes do not reach it. */
    (void)ini_parse_stream(read_line, &source, take_assignment, &source);
    return source.binary ? MDNN_STATUS_BAD_FORMAT : MDNN_STATUS_OK;
}

static mdnn_status_t cannot_read(mdnn_options_t *options, const char *path, const char *why,
                                 mdnn_options_report_t report, void *context)
{
    mdnn_options_reader_t reader = {
        .options = options, .report = report, .context = context, .place = path};
    mdnn_reader_say(&reader, "cannot be read: %s; accepted: a text file of up to 1 MiB; ignored",
                    why);
    return MDNN_STATUS_IO;
}

/* /dev/null is the usual way to say "no file". A pipe or a device could block the host for ever. */
static const char *unfit_to_read(const struct stat *information)
{
    if (S_ISCHR(information->st_mode) && information->st_rdev == makedev(1, 3))
        return NULL;
    if (!mdnn_safe_is_trusted(information))
        return "other users than root and this one may write it";
    if (S_ISDIR(information->st_mode))
        return "it is a directory";
    if (!S_ISREG(information->st_mode))
        return "it is not a regular file";
    return information->st_size > FILE_BYTES_MAX ? "it is too large" : NULL;
}

/* Reads to the end or `capacity`; false with errno set on an error. */
static bool read_all(int descriptor, char *buffer, size_t capacity, size_t *bytes)
{
    size_t used = 0;
    while (used < capacity) {
        const ssize_t got = read(descriptor, buffer + used, capacity - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    *bytes = used;
    return true;
}

/* Options name files that are written: whoever decides what they are writes as the user. Links are
 * followed where the user or root made them (a home directory that is kept elsewhere). */
static int open_readable(const char *path)
{
    mdnn_safe_path_t place;
    if (!mdnn_safe_path_open(path, true, &place))
        return -1;
    place.shared = false; /* whose it is, is said of the file itself */
    const int descriptor = mdnn_safe_file_open(&place, O_RDONLY, 0);
    const int error = errno;
    mdnn_safe_path_close(&place);
    errno = error;
    return descriptor;
}

mdnn_status_t mdnn_options_load_file(mdnn_options_t *options, const char *path,
                                     mdnn_options_report_t report, void *context)
{
    const int descriptor = open_readable(path);
    if (descriptor < 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? MDNN_STATUS_NOT_FOUND
                   : cannot_read(options, path, strerrordesc_np(errno), report, context);
    mdnn_status_t status = MDNN_STATUS_OK;
    char *text = NULL;
    size_t bytes = 0;
    struct stat information;
    const char *trouble =
        fstat(descriptor, &information) != 0 ? strerrordesc_np(errno) : unfit_to_read(&information);
    if (trouble == NULL && (text = malloc(FILE_BYTES_MAX)) == NULL)
        trouble = "out of memory";
    if (trouble == NULL && !read_all(descriptor, text, FILE_BYTES_MAX, &bytes))
        trouble = strerrordesc_np(errno);
    close(descriptor);
    status = trouble != NULL ? cannot_read(options, path, trouble, report, context)
                             : mdnn_options_load_text(options, path, text, bytes, report, context);
    free(text);
    return status;
}
