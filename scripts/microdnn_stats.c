/* microdnn stats: statistics of a finished, running or killed program, as text or as one JSON document. */
#include "scripts/microdnn.h"

#include <stdlib.h>

#include "scripts/microdnn_statistics.h"

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

/* As the library prints them, so that what statistics say does not depend on how they were kept. */
static bool show_json_as_text(const char *path, char *json, size_t bytes)
{
    tool_statistics_t statistics;
    if (!tool_statistics_parse(path, json, bytes, &statistics))
        return false;
    const mdnn_status_t status = mdnn_statistics_print_record(
        statistics.record, statistics.record_bytes, MDNN_STATISTICS_TEXT, stdout);
    if (status != MDNN_STATUS_OK)
        tool_complain("%s: %s", path, mdnn_status_string(status));
    tool_statistics_fini(&statistics);
    return status == MDNN_STATUS_OK;
}

/* JSON stays as it is, fields of other versions of the library included. `shown`: how many files were, before. */
static bool show_json(const char *path, char *json, size_t bytes, unsigned shown)
{
    tool_statistics_t statistics;
    if (!tool_statistics_parse(path, json, bytes, &statistics))
        return false;
    if (shown > 0)
        fputs(",\n", stdout);
    fwrite(statistics.json, 1, statistics.json_bytes, stdout);
    tool_statistics_fini(&statistics);
    return true;
}

static bool show(const char *path, mdnn_statistics_format_t format, unsigned shown)
{
    size_t bytes = 0;
    char *const text = tool_statistics_text(path, format, &bytes);
    if (text == NULL)
        return false;
    if (format == MDNN_STATISTICS_JSON)
        return show_json(path, text, bytes, shown);
    if (tool_statistics_are_json(text))
        return show_json_as_text(path, text, bytes);
    fwrite(text, 1, bytes, stdout);
    free(text);
    return true;
}

int tool_stats(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    mdnn_statistics_format_t format = MDNN_STATISTICS_TEXT;
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;) {
        if (choice != 'j') {
            fputs(choice == 'h' ? usage : "Try `microdnn stats --help`.\n",
                  choice == 'h' ? stdout : stderr);
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
