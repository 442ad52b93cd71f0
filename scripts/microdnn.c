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
    "       microdnn top [--once] [--json]\n"
    "       microdnn doctor [--json] [--library FILE] [--run] [-- program]\n"
    "       microdnn cache list | export | import | merge | clear ...\n"
    "       microdnn tune --net NAME ... | --from-run -- program [arguments]\n"
    "       microdnn plan --net NAME --total SIZE ...\n"
    "       microdnn advise RECORD ...\n"
    "       microdnn report STATISTICS... -o FILE ...\n"
    "       microdnn help [command] | --help | --version\n"
    "\n"
    "  run      runs a program with libmicrodnn preloaded; `microdnn help run` has the options\n"
    "  verify   runs a program so that any access to memory that no operation names faults\n"
    "  config   shows every option, its value and where that came from, as an INI file\n"
    "  stats    shows statistics of a finished, running or killed program (FILE or FILE.live)\n"
    "  top      shows the programs that run under the library, and what they hold and move\n"
    "  doctor   looks for what would keep the library from working: exit 0 fine, 1 warnings, 2 "
    "broken\n"
    "  cache    shows and moves the database of measured costs\n"
    "  tune     fills that database before it is needed\n"
    "  plan     divides one workspace among the convolutions of a network\n"
    "  advise   predicts what other budgets and GPUs would cost\n"
    "  report   makes a page of what a run did\n"
    "\n"
    "Example:  microdnn run --workspace-limit 64m --stats text -- python3 train.py\n";

static const char config_usage[] =
    "usage: microdnn config [--markdown]\n"
    "\n"
    "Shows every option with its value and where that came from, as an INI file. The files\n"
    "/etc/microdnn.ini, $XDG_CONFIG_HOME/microdnn/microdnn.ini (~/.config without the variable)\n"
    "and $MICRODNN_CONFIG are read in this order, then the environment.\n"
    "\n"
    "  --markdown   print the reference page of all options instead (docs/configuration.md)\n"
    "\n"
    "Exit status: 0 no mistakes, 1 mistakes, 2 wrong usage.\n";

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
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;) {
        if (choice == '?')
            return wrong_usage();
        if (choice == 'h') {
            fputs(config_usage, stdout);
            return tool_finish_output(TOOL_OK);
        }
        markdown = true;
    }
    if (optind != argc) {
        tool_complain("config: '%s' is one argument too many", argv[optind]);
        return wrong_usage();
    }
    if (markdown) {
        tool_print_options_page(stdout);
        return tool_finish_output(TOOL_OK);
    }
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_options_load(&options, tool_report, &messages);
    mdnn_options_print(&options, stdout);
    return tool_finish_output(messages == 0 ? TOOL_OK : TOOL_TROUBLE);
}

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command_t;

static const command_t commands[] = {
    {"run", tool_run},       {"verify", tool_verify},      {"config", show_config},
    {"stats", tool_stats},   {"doctor", tool_doctor},      {"cache", tool_cache},
    {"tune", tool_tune},     {"plan", tool_plan},          {"top", tool_top},
    {"advise", tool_advise}, {"report", tool_make_report},
};

/* NULL: there is none. */
static const command_t *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int list_commands(void)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        puts(commands[i].name);
    return tool_finish_output(TOOL_OK);
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

static int unknown_command(const char *name)
{
    if (*name != '\0') {
        tool_complain("there is no command '%s'", name);
        return wrong_usage();
    }
    fputs(usage, stderr);
    return TOOL_USAGE;
}

/* `microdnn help [command]`; `name` is NULL without a command. */
static int show_help(const char *name)
{
    const command_t *const command = name != NULL ? find_command(name) : NULL;
    if (command != NULL)
        return command->run(2, (char *[]){(char *)(uintptr_t)name, (char[]){"--help"}, NULL});
    if (name != NULL && strcmp(name, "help") != 0)
        return unknown_command(name);
    fputs(usage, stdout);
    return tool_finish_output(TOOL_OK);
}

int main(int argc, char **argv)
{
    const char *const name = argc > 1 ? argv[1] : "";
    const command_t *const command = find_command(name);
    if (command != NULL)
        return command->run(argc - 1, argv + 1);
    if (is_one_of(name, (const char *const[]){"--version", "-V", NULL})) {
        puts("microdnn " MDNN_VERSION);
        return tool_finish_output(TOOL_OK);
    }
    if (is_one_of(name, (const char *const[]){"--help", "-h", "help", NULL}))
        return show_help(argc > 2 ? argv[2] : NULL);
    if (tool_wants_list(argc, argv))
        return list_commands();
    return unknown_command(name);
}
