/* microdnn stats: statistics of a finished, running or killed program, as text or as one JSON document. */
#include "scripts/microdnn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#include <jsmn.h>

#include "config/numbers.h"
#include "config/statistics.h"
#include "config/statistics_file.h"

static const char usage[] =
    "usage: microdnn stats [--json] file...\n"
    "\n"
    "Shows statistics as text. A file is the one that --stats-file of `microdnn run` named, as "
    "text\n"
    "or JSON, or, while the program runs or after it was killed, that name with .live added.\n"
    "\n"
    "  --json       one JSON document instead of text: of several files, a list\n"
    "\n"
    "Exit status: 0 shown, 1 a file could not be shown, 2 wrong usage.\n";

/* ---- JSON; nothing in it is trusted ---- */

typedef struct document {
    const char *text;
    jsmntok_t *tokens;
    int count;
} document_t;

/* The token behind `token` and all that it holds. */
static int after(const document_t *document, int token)
{
    const int end = document->tokens[token].end;
    do
        token++;
    while (token < document->count && document->tokens[token].start < end);
    return token;
}

static bool is_text(const document_t *document, int token, const char *text)
{
    const jsmntok_t *const found = &document->tokens[token];
    const size_t bytes = (size_t)(found->end - found->start);
    return strlen(text) == bytes && memcmp(document->text + found->start, text, bytes) == 0;
}

/* The value of a member of an object; -1: there is none. */
static int member(const document_t *document, int object, const char *name)
{
    if (object < 0 || document->tokens[object].type != JSMN_OBJECT)
        return -1;
    int key = object + 1;
    for (int i = 0; i < document->tokens[object].size && key + 1 < document->count; i++) {
        if (is_text(document, key, name))
            return key + 1;
        key = after(document, key + 1);
    }
    return -1;
}

/* Escapes stay as they are, so nothing unprintable is printed. */
static void print_value(const document_t *document, int token)
{
    if (token >= 0)
        printf("%.*s", document->tokens[token].end - document->tokens[token].start,
               document->text + document->tokens[token].start);
}

/* As JSON writes nothing: no text, no list, zero or false. */
static bool is_nothing(const document_t *document, int token)
{
    const jsmntok_t *const found = &document->tokens[token];
    return found->start == found->end || is_text(document, token, "0") ||
           is_text(document, token, "0.0") || is_text(document, token, "false") ||
           is_text(document, token, "null") ||
           ((found->type == JSMN_OBJECT || found->type == JSMN_ARRAY) && found->size == 0);
}

/* ---- text ---- */

static const char *meaning_of(const document_t *document, int key)
{
    static const struct {
        const char *name, *meaning;
    } counters[] = {
#define COUNTER(name, meaning) {#name, meaning},
#include "config/counters.def"
#undef COUNTER
    };
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        if (is_text(document, key, counters[i].name))
            return counters[i].meaning;
    return NULL;
}

static bool ends_with(const document_t *document, int key, const char *ending)
{
    const jsmntok_t *const found = &document->tokens[key];
    const size_t bytes = (size_t)(found->end - found->start), length = strlen(ending);
    return bytes > length && memcmp(document->text + found->end - length, ending, length) == 0;
}

static void print_number(const document_t *document, int key, int value)
{
    char size[MDNN_NUMBER_BYTES];
    if (!ends_with(document, key, "_bytes") || document->tokens[value].type != JSMN_PRIMITIVE) {
        print_value(document, value);
        return;
    }
    mdnn_format_size_rounded(strtoull(document->text + document->tokens[value].start, NULL, 10),
                             size, sizeof size);
    fputs(size, stdout);
}

static void print_counters(const document_t *document, int counters)
{
    int key = counters + 1;
    for (int i = 0; counters >= 0 && i < document->tokens[counters].size; i++) {
        if (!is_nothing(document, key + 1)) {
            const char *const meaning = meaning_of(document, key);
            if (meaning != NULL)
                mdnn_statistics_print_counter(
                    strtoull(document->text + document->tokens[key + 1].start, NULL, 10), meaning,
                    stdout);
            else
                printf("%20.*s  %.*s\n",
                       document->tokens[key + 1].end - document->tokens[key + 1].start,
                       document->text + document->tokens[key + 1].start,
                       document->tokens[key].end - document->tokens[key].start,
                       document->text + document->tokens[key].start);
        }
        key = after(document, key + 1);
    }
}

/* Members of an object that are numbers or texts, a line each. */
static void print_members(const document_t *document, int object)
{
    int key = object + 1;
    for (int i = 0; i < document->tokens[object].size; i++) {
        const jsmntok_t *const name = &document->tokens[key], *const value = name + 1;
        if (value->type != JSMN_OBJECT && value->type != JSMN_ARRAY &&
            !is_nothing(document, key + 1)) {
            printf("  %-32.*s ", name->end - name->start, document->text + name->start);
            print_number(document, key, key + 1);
            putchar('\n');
        }
        key = after(document, key + 1);
    }
}

static void print_devices(const document_t *document, int devices)
{
    int device = devices + 1;
    for (int i = 0; devices >= 0 && i < document->tokens[devices].size; i++) {
        if (document->tokens[device].type == JSMN_OBJECT) {
            fputs("virtual memory of device ", stdout);
            print_value(document, member(document, device, "device"));
            puts(":");
            print_members(document, device);
        }
        device = after(document, device);
    }
}

static void print_convolutions(const document_t *document, int rows)
{
    int row = rows + 1;
    if (rows < 0)
        return;
    printf("convolutions: %d\n", document->tokens[rows].size);
    for (int i = 0; i < document->tokens[rows].size; i++) {
        const int configuration = member(document, row, "configuration");
        fputs("  ", stdout);
        print_value(document, member(document, row, "problem"));
        fputs(": ", stdout);
        if (configuration < 0 || is_nothing(document, configuration))
            fputs("runs as the caller asked", stdout);
        else
            print_value(document, configuration);
        const int time = member(document, row, "configuration_ms");
        if (time >= 0 && !is_nothing(document, time)) {
            fputs(", ", stdout);
            print_value(document, time);
            fputs(" ms; undivided ", stdout);
            print_value(document, member(document, row, "undivided_ms"));
            fputs(" ms", stdout);
        }
        putchar('\n');
        row = after(document, row);
    }
}

static void print_document(const document_t *document)
{
    fputs("microdnn statistics: ", stdout);
    print_value(document, member(document, 0, "program"));
    fputs(", process ", stdout);
    print_value(document, member(document, 0, "process"));
    fputs(" on ", stdout);
    print_value(document, member(document, 0, "host"));
    fputs(", started ", stdout);
    print_value(document, member(document, 0, "started"));
    putchar('\n');
    print_devices(document, member(document, 0, "memory"));
    print_counters(document, member(document, 0, "counters"));
    print_convolutions(document, member(document, 0, "convolutions"));
}

static bool parse(const char *text, size_t bytes, document_t *document)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    const int count = jsmn_parse(&parser, text, bytes, NULL, 0);
    *document = (document_t){.text = text, .count = count};
    if (count < 1 || (document->tokens = calloc((size_t)count, sizeof(jsmntok_t))) == NULL)
        return false;
    jsmn_init(&parser);
    return jsmn_parse(&parser, text, bytes, document->tokens, (unsigned)count) == count &&
           document->tokens[0].type == JSMN_OBJECT;
}

/* ---- files ---- */

static const char json_beginning[] = "{\"microdnn_statistics\": ";

/* The content as JSON or text; NULL after a complaint. free() it. */
static char *read_as(const char *path, mdnn_statistics_format_t format, size_t *bytes)
{
    char *text = NULL;
    FILE *const out = open_memstream(&text, bytes);
    const mdnn_status_t status =
        out == NULL ? MDNN_STATUS_OUT_OF_MEMORY : mdnn_statistics_print_file(path, format, out);
    if (out != NULL && fclose(out) == 0 && status == MDNN_STATUS_OK)
        return text;
    free(text);
    tool_complain("%s: %s", path,
                  status != MDNN_STATUS_BAD_FORMAT ? mdnn_status_string(status)
                  : format == MDNN_STATISTICS_JSON ? "not a live file, nor statistics as JSON"
                                                   : "not a statistics file");
    return NULL;
}

/* JSON of another version may mean something else by the same names. */
static bool is_known_version(const char *path, const char *text)
{
    const long version = strtol(text + sizeof json_beginning - 1, NULL, 10);
    if (version == MDNN_STATISTICS_JSON_VERSION)
        return true;
    tool_complain("%s: version %ld of statistics; this microdnn reads version %d", path, version,
                  MDNN_STATISTICS_JSON_VERSION);
    return false;
}

static bool show_json_as_text(const char *path, const char *text, size_t bytes)
{
    document_t document;
    const bool good = parse(text, bytes, &document);
    if (good)
        print_document(&document);
    else
        tool_complain("%s: damaged: not JSON", path);
    free(document.tokens);
    return good;
}

/* `shown`: how many files were, before. */
static bool show(const char *path, mdnn_statistics_format_t format, unsigned shown)
{
    size_t bytes = 0;
    char *const text = read_as(path, format, &bytes);
    if (text == NULL)
        return false;
    const bool json = strncmp(text, json_beginning, sizeof json_beginning - 1) == 0;
    bool good = !json || is_known_version(path, text);
    if (good && format == MDNN_STATISTICS_JSON && shown > 0)
        fputs(",\n", stdout);
    if (good && json && format == MDNN_STATISTICS_TEXT)
        good = show_json_as_text(path, text, bytes);
    else if (good)
        fwrite(text, 1, bytes, stdout);
    free(text);
    return good;
}

int tool_stats(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    mdnn_statistics_format_t format = MDNN_STATISTICS_TEXT;
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;) {
        if (choice != 'j') {
            fputs(usage, choice == 'h' ? stdout : stderr);
            return choice == 'h' ? tool_finish_output(TOOL_OK) : TOOL_USAGE;
        }
        format = MDNN_STATISTICS_JSON;
    }
    if (optind == argc) {
        tool_complain("stats: which file?");
        fputs("Try `microdnn stats --help`.\n", stderr);
        return TOOL_USAGE;
    }
    unsigned shown = 0;
    const bool list = format == MDNN_STATISTICS_JSON && argc - optind > 1;
    if (list)
        puts("[");
    for (int i = optind; i < argc; i++)
        shown += show(argv[i], format, shown);
    if (list)
        puts("]");
    return tool_finish_output(shown == (unsigned)(argc - optind) ? TOOL_OK : TOOL_TROUBLE);
}
