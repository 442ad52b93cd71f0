/* microdnn: runs programs with the library, shows its configuration and statistics, and finds out
 * why it does not work. */
#include "scripts/microdnn.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/statistics.h"

static const char usage[] =
    "usage: microdnn run [options] [--] program [arguments]\n"
    "       microdnn verify [options of run] [--] program [arguments]\n"
    "       microdnn config [--markdown]\n"
    "       microdnn stats [--json] file...\n"
    "       microdnn doctor [--json] [--library FILE] [-- program]\n"
    "       microdnn cache list | export | import | merge | clear ...\n"
    "       microdnn tune --net NAME ... | --from-run -- program [arguments]\n"
    "       microdnn plan --net NAME --total SIZE ...\n"
    "       microdnn --version | --help\n"
    "\n"
    "  run      runs a program with libmicrodnn preloaded; `microdnn run --help` has the options\n"
    "  verify   runs a program so that any access to memory that no operation names faults\n"
    "  config   shows every option, its value and where that came from, as an INI file\n"
    "  stats    shows statistics of a finished, running or killed program (FILE or FILE.live)\n"
    "  doctor   looks for what would keep the library from working: exit 0 fine, 1 warnings, 2 "
    "broken\n"
    "  cache    shows and moves the database of measured costs; `microdnn cache --help`\n"
    "  tune     fills that database before it is needed; `microdnn tune --help`\n"
    "  plan     divides one workspace among the convolutions of a network; `microdnn plan --help`\n"
    "\n"
    "Example:  microdnn run --workspace-limit 64m --stats text -- python3 train.py\n";

void tool_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("microdnn: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

void tool_report(void *context, const char *line)
{
    (*(unsigned *)context)++;
    tool_complain("%s", line);
}

void tool_print_json_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        /* Bytes above 0x7f are of a path, in whatever encoding: JSON must be UTF-8. */
        if (c < 0x20 || c >= 0x7f)
            printf("\\u%04x", c);
        else
            printf("%s%c", c == '"' || c == '\\' ? "\\" : "", c);
    }
    putchar('"');
}

static int wrong_usage(void)
{
    fputs("Try `microdnn --help`.\n", stderr);
    return TOOL_USAGE;
}

/* A full disk or a closed pipe must not look like success. */
int tool_finish_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    tool_complain("cannot write the output");
    return TOOL_TROUBLE;
}

static int show_config(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"markdown", no_argument, NULL, 'm'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool markdown = false;
    for (int choice; (choice = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        if (choice == '?')
            return wrong_usage();
        if (choice == 'h') {
            fputs(usage, stdout);
            return tool_finish_output(TOOL_OK);
        }
        markdown = true;
    }
    if (optind != argc) {
        tool_complain("config: '%s' is one argument too many", argv[optind]);
        return wrong_usage();
    }
    if (markdown) {
        mdnn_options_print_markdown(stdout);
        return tool_finish_output(TOOL_OK);
    }
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_options_load(&options, tool_report, &messages);
    mdnn_options_print(&options, stdout);
    return tool_finish_output(messages == 0 ? TOOL_OK : TOOL_TROUBLE);
}

static int show_statistics(int argc, char **argv)
{
    static const struct option long_options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    mdnn_statistics_format_t format = MDNN_STATISTICS_TEXT;
    for (int choice; (choice = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
        if (choice == '?')
            return wrong_usage();
        if (choice == 'h') {
            fputs(usage, stdout);
            return tool_finish_output(TOOL_OK);
        }
        format = MDNN_STATISTICS_JSON;
    }
    if (optind == argc) {
        tool_complain("stats: which file?");
        return wrong_usage();
    }
    int status = TOOL_OK;
    for (int i = optind; i < argc; i++) {
        const mdnn_status_t outcome = mdnn_statistics_print_file(argv[i], format, stdout);
        if (outcome == MDNN_STATUS_OK)
            continue;
        tool_complain("%s: %s", argv[i],
                      outcome != MDNN_STATUS_BAD_FORMAT ? mdnn_status_string(outcome)
                      : format == MDNN_STATISTICS_JSON  ? "not a live file, nor statistics as JSON"
                                                        : "not a statistics file");
        status = TOOL_TROUBLE;
    }
    return tool_finish_output(status);
}

int main(int argc, char **argv)
{
    const char *const command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "run") == 0)
        return tool_run(argc - 1, argv + 1);
    if (strcmp(command, "verify") == 0)
        return tool_verify(argc - 1, argv + 1);
    if (strcmp(command, "config") == 0)
        return show_config(argc - 1, argv + 1);
    if (strcmp(command, "stats") == 0)
        return show_statistics(argc - 1, argv + 1);
    if (strcmp(command, "doctor") == 0)
        return tool_doctor(argc - 1, argv + 1);
    if (strcmp(command, "cache") == 0)
        return tool_cache(argc - 1, argv + 1);
    if (strcmp(command, "tune") == 0)
        return tool_tune(argc - 1, argv + 1);
    if (strcmp(command, "plan") == 0)
        return tool_plan(argc - 1, argv + 1);
    if (strcmp(command, "--version") == 0) {
        puts("microdnn " MDNN_VERSION);
        return tool_finish_output(TOOL_OK);
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 ||
        strcmp(command, "help") == 0) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    if (*command != '\0')
        tool_complain("there is no command '%s'", command);
    fputs(usage, stderr);
    return TOOL_USAGE;
}
