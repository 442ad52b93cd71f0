/* microdnn run: set the environment, then become the program. */
#include "scripts/microdnn.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/option_checks.h"
#include "config/options_table.h"
#include "config/paths.h"
#include "config/sizes.h"

enum { OPTION_HELP = 1000, OPTION_CONFIG, OPTION_SET, OPTION_LIBRARY, OPTION_ALLOCATOR };

/* The options of `run`. Numbers below OPTION_HELP are mdnn_option_id_t. */
static const struct {
    const char *name, *argument, *help;
    int id;
} run_options[] = {
    {"workspace-limit", "SIZE", "largest workspace of a convolution: 64m, 1.5GiB",
     MDNN_OPTION_convolution_workspace_limit},
    {"batch-sizes", "WHICH", "undivided, powerOfTwo or all", MDNN_OPTION_convolution_batch_sizes},
    {"policy", "POLICY", "off, wr or wd", MDNN_OPTION_convolution_policy},
    {"memory", "SIZE", "device memory of the program on each GPU: 12GiB or 80%",
     MDNN_OPTION_memory_budget},
    {"memory-policy", "POLICY", "what leaves early: none, conv, all, dynamic, modnn, auto",
     MDNN_OPTION_memory_policy},
    {"allocator", "NAME", "PyTorch's, with a budget: async, native, uncached, expandable (async)",
     OPTION_ALLOCATOR},
    {"trace", "FILE", "write a Chrome trace of what moved, for Perfetto", MDNN_OPTION_memory_trace},
    {"record", "FILE", "write what repeats, for `microdnn advise` and `microdnn report`",
     MDNN_OPTION_memory_record},
    {"stats", "FORMAT", "text, brief or json: what was done, when the program ends",
     MDNN_OPTION_general_stats},
    {"stats-file", "FILE", "where; %p is the process id, %h the host, %r the rank",
     MDNN_OPTION_general_stats_file},
    {"log", "LEVEL", "off, error, warn, info, debug or trace", MDNN_OPTION_general_log},
    {"log-file", "FILE", "where", MDNN_OPTION_general_log_file},
    {"config", "FILE", "read this INI file as well", OPTION_CONFIG},
    {"set", "SECTION.KEY=VALUE", "any other option; see `microdnn config`", OPTION_SET},
    {"library", "FILE", "the libmicrodnn.so to preload (the installed one)", OPTION_LIBRARY},
};
enum { RUN_OPTION_COUNT = sizeof run_options / sizeof *run_options };

/* An option of the library is followed by its default. */
static void print_option(int index)
{
    static mdnn_options_t defaults;
    char form[64], value[MDNN_OPTION_STRING_BYTES] = "";
    snprintf(form, sizeof form, "--%s %s", run_options[index].name, run_options[index].argument);
    if (run_options[index].id < OPTION_HELP) {
        mdnn_options_set_defaults(&defaults);
        mdnn_options_format(&defaults, (mdnn_option_id_t)run_options[index].id, value,
                            sizeof value);
    }
    const bool shown = *value != '\0';
    printf("  %-25s  %s%s%s%s\n", form, run_options[index].help, shown ? " (" : "", value,
           shown ? ")" : "");
}

static void print_usage(void)
{
    puts("usage: microdnn run [options] [--] program [arguments]\n"
         "\n"
         "Runs a program with libmicrodnn preloaded. Defaults are in parentheses.\n");
    for (int i = 0; i < RUN_OPTION_COUNT; i++)
        print_option(i);
    puts("\nEach option but --set can be given in the environment, too: MICRODNN_MEMORY=80%.\n"
         "Exit status: the program's; 127 it was not found, 126 it could not be run, 125 a mistake "
         "above.");
}

static bool export_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return true;
    tool_complain("cannot set %s: %s", name, strerror(errno));
    return false;
}

static bool is_file_pattern(mdnn_option_id_t id)
{
    return id == MDNN_OPTION_general_log_file || id == MDNN_OPTION_general_stats_file ||
           id == MDNN_OPTION_cache_file || id == MDNN_OPTION_cache_import ||
           id == MDNN_OPTION_memory_trace || id == MDNN_OPTION_memory_record;
}

/* A word of the option, not a name of a file. */
static bool is_word(mdnn_option_id_t id, const char *value)
{
    return *value == '\0' ||
           (id == MDNN_OPTION_cache_file ? strcmp(value, "auto") == 0 || strcmp(value, "none") == 0
                                         : strcmp(value, "stderr") == 0);
}

static bool is_plausible(const mdnn_options_t *options, mdnn_option_id_t id, const char *shown,
                         const char *value)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    char why[MDNN_TROUBLE_BYTES];
    if (info->type != MDNN_OPTION_SIZE)
        return true;
    const uint64_t bytes = *(const uint64_t *)((const char *)options + info->offset);
    if (mdnn_size_is_plausible(id, value, bytes, why, sizeof why))
        return true;
    tool_complain("%s: %s", shown, why);
    return false;
}

/* A file of the user's choice; the database and what is only read need none yet. */
static bool can_be_written(mdnn_option_id_t id, const char *shown, const char *value)
{
    char path[PATH_MAX];
    const bool output = id != MDNN_OPTION_cache_file && id != MDNN_OPTION_cache_import;
    const char *const why = output ? tool_file_trouble(value, path, sizeof path) : NULL;
    if (why != NULL)
        tool_complain("%s: %s cannot be written: %s", shown, path, why);
    return why == NULL;
}

/* Checks `value` as the library will, then hands it over by the full name, which beats any file and
 * any short name that is set already. */
bool tool_export_option(mdnn_option_id_t id, const char *shown, const char *value)
{
    static mdnn_options_t scratch;
    const mdnn_status_t status = mdnn_option_set(&scratch, id, value, "command line");
    if (status != MDNN_STATUS_OK) {
        char accepted[MDNN_ACCEPTED_BYTES];
        mdnn_option_accepted(id, accepted, sizeof accepted);
        const bool out_of_range = status == MDNN_STATUS_OVERFLOW;
        tool_complain("%s: '%s' is %s%s; accepted: %s", shown, value,
                      out_of_range ? "out of range" : "not ",
                      out_of_range ? "" : mdnn_option_kind(id), accepted);
        return false;
    }
    if (!is_plausible(&scratch, id, shown, value))
        return false;
    char name[MDNN_ENVIRONMENT_NAME_BYTES], absolute[MDNN_OPTION_STRING_BYTES];
    mdnn_option_environment_name(id, name, sizeof name);
    if (is_file_pattern(id) && !is_word(id, value)) {
        if (!can_be_written(id, shown, value))
            return false;
        mdnn_absolute_pattern(value, absolute, sizeof absolute);
        value = absolute;
    }
    return export_variable(name, value);
}

/* SECTION.KEY=VALUE */
bool tool_export_setting(const char *setting)
{
    const char *const dot = strchr(setting, '.');
    const char *const equals = dot != NULL ? strchr(dot, '=') : NULL;
    if (equals == NULL) {
        tool_complain("--set %s: accepted: SECTION.KEY=VALUE", setting);
        return false;
    }
    char shown[128];
    snprintf(shown, sizeof shown, "--set %.*s", (int)(equals - setting), setting);
    mdnn_option_id_t id;
    if (mdnn_option_find(setting, (size_t)(dot - setting), dot + 1, (size_t)(equals - dot - 1),
                         &id) == MDNN_STATUS_OK)
        return tool_export_option(id, shown, equals + 1);
    char names[MDNN_OPTION_COUNT][64];
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)(equals - setting), setting);
    mdnn_nearest_t nearest = {.wanted = wanted};
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%s.%s", mdnn_option_table[i].section,
                 mdnn_option_table[i].key);
        mdnn_nearest_offer(&nearest, names[i]);
    }
    tool_complain("%s: there is no such option%s%s%s", shown,
                  nearest.best != NULL ? ", did you mean " : "",
                  nearest.best != NULL ? nearest.best : "", nearest.best != NULL ? "?" : "");
    return false;
}

static void keep_line(void *context, const char *line)
{
    snprintf(context, MDNN_TROUBLE_BYTES, "%s", line);
}

/* Mistakes in the file are said by the library, once, however the file is named, and stop no program. That it cannot be
 * read at all is a mistake in the command. */
bool tool_export_config(const char *file)
{
    static mdnn_options_t scratch;
    char absolute[PATH_MAX], why[MDNN_TROUBLE_BYTES] = "";
    if (realpath(file, absolute) == NULL) {
        tool_complain("--config: cannot read %s: %s", file, strerror(errno));
        return false;
    }
    mdnn_options_set_defaults(&scratch);
    const mdnn_status_t status = mdnn_options_load_file(&scratch, absolute, keep_line, why);
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_BAD_FORMAT)
        return export_variable("MICRODNN_CONFIG", absolute);
    tool_complain("%s", *why != '\0' ? why : mdnn_status_string(status));
    return false;
}

/* `id` of run_options. */
static bool take_option(int id, const char *shown, const char *value, const char **library)
{
    switch (id) {
    case OPTION_LIBRARY:
        *library = value;
        return true;
    case OPTION_ALLOCATOR:
        return tool_choose_allocator(shown, value);
    case OPTION_CONFIG:
        return tool_export_config(value);
    case OPTION_SET:
        return tool_export_setting(value);
    default:
        return tool_export_option((mdnn_option_id_t)id, shown, value);
    }
}

/* What only this tool reads of the environment. */
static bool take_environment(const char **library)
{
    const char *const allocator = getenv("MICRODNN_ALLOCATOR"), *const file =
                                                                    getenv("MICRODNN_LIBRARY");
    if (file != NULL && *file != '\0')
        *library = file;
    return allocator == NULL || *allocator == '\0' ||
           tool_choose_allocator("MICRODNN_ALLOCATOR", allocator);
}

/* With the words that each of them accepts. */
static void list_options(void)
{
    for (int i = 0; i < RUN_OPTION_COUNT; i++)
        tool_list_option(
            run_options[i].name, true,
            run_options[i].id < OPTION_HELP ? mdnn_option_table[run_options[i].id].choices : NULL);
    tool_list_option("help", false, NULL);
    exit(tool_finish_output(TOOL_OK));
}

static bool take_options(int argc, char **argv, const char **library, bool *help)
{
    struct option long_options[RUN_OPTION_COUNT + 2] = {{"help", no_argument, NULL, OPTION_HELP}};
    for (int i = 0; i < RUN_OPTION_COUNT; i++)
        long_options[i + 1] = (struct option){run_options[i].name, required_argument, NULL, i};
    if (tool_wants_list(argc, argv))
        list_options();
    int choice;
    /* "+": options end at the program's name. */
    while ((choice = tool_next_option(argc, argv, "+h", long_options)) != -1) {
        char shown[64];
        if (choice == '?')
            return false;
        if (choice == 'h' || choice == OPTION_HELP) {
            *help = true;
            continue;
        }
        snprintf(shown, sizeof shown, "--%s", run_options[choice].name);
        if (!take_option(run_options[choice].id, shown, optarg, library))
            return false;
    }
    return true;
}

bool tool_export_preload(const char *given_library)
{
    char library[PATH_MAX], why[2 * PATH_MAX + 128], replaced[PATH_MAX];
    if (!tool_find_library(given_library, library, sizeof library, why, sizeof why)) {
        tool_complain("%s", why);
        return false;
    }
    char *const preload =
        tool_preload_with(library, getenv("LD_PRELOAD"), replaced, sizeof replaced);
    if (preload == NULL) {
        tool_complain("out of memory");
        return false;
    }
    if (*replaced != '\0')
        tool_complain("LD_PRELOAD named another copy, %s; using %s", replaced, library);
    const bool good = export_variable("LD_PRELOAD", preload);
    free(preload);
    return good;
}

static void say_nothing(void *context, const char *line)
{
    (void)context;
    (void)line;
}

const mdnn_options_t *tool_exported_options(void)
{
    static mdnn_options_t options;
    mdnn_options_load(&options, say_nothing, NULL);
    return &options;
}

int tool_become(char **arguments)
{
    execvp(arguments[0], arguments);
    const int error = errno;
    tool_complain("cannot run %s: %s", arguments[0], strerror(error));
    return error == ENOENT || error == ENOTDIR ? TOOL_RUN_NOT_FOUND : TOOL_RUN_CANNOT_EXECUTE;
}

/* What the library would end the program for at its first allocation, wherever it was said. */
static bool budget_can_be_kept(void)
{
    const mdnn_options_t *const options = tool_exported_options();
    char why[MDNN_TROUBLE_BYTES];
    if (!options->memory_strict || options->general_disable ||
        mdnn_budget_can_be_kept(options, 0, why, sizeof why))
        return true;
    tool_complain("%s", why);
    return false;
}

/* An option without effect is said here, and not once more by the library. */
static void say_what_is_idle(void)
{
    unsigned lines = 0;
    const mdnn_options_t *const options = tool_exported_options();
    mdnn_options_report_idle(options, true, tool_report, &lines);
    for (int id = 0; id < MDNN_OPTION_COUNT; id++) {
        char name[MDNN_ENVIRONMENT_NAME_BYTES];
        if (!mdnn_option_is_from_environment(options, (mdnn_option_id_t)id) ||
            mdnn_option_lacks(options, (mdnn_option_id_t)id) == MDNN_OPTION_COUNT)
            continue;
        mdnn_option_environment_name((mdnn_option_id_t)id, name, sizeof name);
        unsetenv(name);
        if (mdnn_option_alias((mdnn_option_id_t)id) != NULL)
            unsetenv(mdnn_option_alias((mdnn_option_id_t)id));
    }
}

int tool_take_run_options(int argc, char **argv, bool *help)
{
    const char *library = NULL;
    *help = false;
    if (!take_environment(&library) || !take_options(argc, argv, &library, help)) {
        fprintf(stderr, "Try `microdnn %s --help`.\n", argv[0]);
        return TOOL_RUN_FAILED;
    }
    if (*help)
        return TOOL_OK;
    if (optind == argc) {
        tool_complain("%s: which program?", argv[0]);
        fprintf(stderr, "Try `microdnn %s --help`.\n", argv[0]);
        return TOOL_RUN_FAILED;
    }
    if (!budget_can_be_kept() || !tool_export_preload(library))
        return TOOL_RUN_FAILED;
    return TOOL_OK;
}

/* Somebody watches: the verdict is worth a few lines, unless statistics were asked for, or refused. */
static bool export_terminal_defaults(void)
{
    const mdnn_options_t *const options = tool_exported_options();
    const bool chosen = strcmp(options->origin[MDNN_OPTION_general_stats], "default") != 0 ||
                        strcmp(options->origin[MDNN_OPTION_general_stats_file], "default") != 0;
    return chosen || !isatty(STDERR_FILENO) ||
           tool_export_option(MDNN_OPTION_general_stats, "stats", "brief");
}

int tool_run(int argc, char **argv)
{
    bool help;
    const int status = tool_take_run_options(argc, argv, &help);
    if (status != TOOL_OK)
        return status;
    if (help) {
        print_usage();
        return tool_finish_output(TOOL_OK);
    }
    say_what_is_idle();
    return export_terminal_defaults() && tool_export_framework_variables(argv + optind)
               ? tool_become(argv + optind)
               : TOOL_RUN_FAILED;
}
