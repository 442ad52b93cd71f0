/* microdnn run: set the environment, then become the program. */
#include "scripts/microdnn.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/options_table.h"
#include "config/paths.h"
#include "config/sizes.h"

static const char usage[] =
    "usage: microdnn run [options] [--] program [arguments]\n"
    "\n"
    "Runs a program with libmicrodnn preloaded.\n"
    "\n"
    "  --workspace-limit SIZE     largest workspace of a convolution: 64m, 1.5GiB, none\n"
    "  --batch-sizes WHICH        undivided, powerOfTwo or all\n"
    "  --policy POLICY            off, wr or wd\n"
    "  --memory SIZE              device memory of the program on each GPU: 12GiB\n"
    "  --memory-policy POLICY     what leaves ahead of time: none, conv, all, dynamic, modnn, "
    "auto\n"
    "  --allocator NAME           PyTorch's with a budget: async, native, uncached, expandable\n"
    "  --trace FILE               write a Chrome trace of what moved, for Perfetto\n"
    "  --record FILE              write what repeats, for `microdnn advise` and `microdnn report`\n"
    "  --stats FORMAT             text or json: write counters when the program ends\n"
    "  --stats-file FILE          the file (default stderr); %p is the process id, %h the host\n"
    "  --log LEVEL                off, error, warn, info, debug or trace\n"
    "  --log-file FILE            the file (default stderr)\n"
    "  --config FILE              read this INI file as well\n"
    "  --set SECTION.KEY=VALUE    any other option; `microdnn config --markdown` lists them\n"
    "  --library FILE             the libmicrodnn.so to preload\n"
    "\n"
    "Exit status: the program's; 127 it was not found, 126 it could not be run, 125 a mistake "
    "above.\n";

enum { OPTION_HELP = 1000, OPTION_CONFIG, OPTION_SET, OPTION_LIBRARY, OPTION_ALLOCATOR };

/* Numbers below OPTION_HELP are mdnn_option_id_t. */
static const struct option long_options[] = {
    {"workspace-limit", required_argument, NULL, MDNN_OPTION_convolution_workspace_limit},
    {"batch-sizes", required_argument, NULL, MDNN_OPTION_convolution_batch_sizes},
    {"policy", required_argument, NULL, MDNN_OPTION_convolution_policy},
    {"memory", required_argument, NULL, MDNN_OPTION_memory_budget},
    {"memory-policy", required_argument, NULL, MDNN_OPTION_memory_policy},
    {"trace", required_argument, NULL, MDNN_OPTION_memory_trace},
    {"record", required_argument, NULL, MDNN_OPTION_memory_record},
    {"stats", required_argument, NULL, MDNN_OPTION_general_stats},
    {"stats-file", required_argument, NULL, MDNN_OPTION_general_stats_file},
    {"log", required_argument, NULL, MDNN_OPTION_general_log},
    {"log-file", required_argument, NULL, MDNN_OPTION_general_log_file},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"set", required_argument, NULL, OPTION_SET},
    {"allocator", required_argument, NULL, OPTION_ALLOCATOR},
    {"library", required_argument, NULL, OPTION_LIBRARY},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

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
    if (is_file_pattern(id) && *value != '\0' && strcmp(value, "stderr") != 0) {
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

/* The file's own mistakes are said here, but the program runs, as it would without this tool. */
bool tool_export_config(const char *file)
{
    static mdnn_options_t scratch;
    unsigned messages = 0;
    char absolute[PATH_MAX];
    if (realpath(file, absolute) == NULL) {
        tool_complain("--config: cannot read %s: %s", file, strerror(errno));
        return false;
    }
    mdnn_options_set_defaults(&scratch);
    const mdnn_status_t status = mdnn_options_load_file(&scratch, absolute, tool_report, &messages);
    return status == MDNN_STATUS_OK && export_variable("MICRODNN_CONFIG", absolute);
}

static bool take_options(int argc, char **argv, const char **library, bool *help)
{
    int choice;
    /* "+": options end at the program's name. */
    while ((choice = getopt_long(argc, argv, "+h", long_options, NULL)) != -1) {
        bool good = true;
        if (choice == '?')
            good = false;
        else if (choice == 'h' || choice == OPTION_HELP)
            *help = true;
        else if (choice == OPTION_LIBRARY)
            *library = optarg;
        else if (choice == OPTION_ALLOCATOR)
            good = tool_choose_allocator(optarg);
        else if (choice == OPTION_CONFIG)
            good = tool_export_config(optarg);
        else if (choice == OPTION_SET)
            good = tool_export_setting(optarg);
        else {
            char shown[64];
            const struct option *option = long_options;
            while (option->val != choice)
                option++;
            snprintf(shown, sizeof shown, "--%s", option->name);
            good = tool_export_option((mdnn_option_id_t)choice, shown, optarg);
        }
        if (!good)
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
        mdnn_budget_can_be_kept(options, why, sizeof why))
        return true;
    tool_complain("%s", why);
    return false;
}

int tool_take_run_options(int argc, char **argv, bool *help)
{
    const char *library = NULL;
    *help = false;
    if (!take_options(argc, argv, &library, help)) {
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
    return budget_can_be_kept() && tool_export_preload(library) ? TOOL_OK : TOOL_RUN_FAILED;
}

int tool_run(int argc, char **argv)
{
    bool help;
    const int status = tool_take_run_options(argc, argv, &help);
    if (status != TOOL_OK)
        return status;
    if (help) {
        fputs(usage, stdout);
        return TOOL_OK;
    }
    return tool_export_framework_variables(argv + optind) ? tool_become(argv + optind)
                                                          : TOOL_RUN_FAILED;
}
