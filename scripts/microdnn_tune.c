/* microdnn tune: fills the database before it is needed, by running a program with the library. */
#include "scripts/microdnn_tune.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/log.h"
#include "config/options_table.h"
#include "optimizer/database.h"

static const char usage[] =
    "usage: microdnn tune --net NAME... [options]             networks of train_cnn\n"
    "       microdnn tune --from-run [options] -- program...   what the program runs\n"
    "\n"
    "Measures convolutions beforehand and stores the times in the database (microdnn cache).\n"
    "\n"
    "  --net NAME               each of these six may be given several times; then\n"
    "  --batch IMAGES           every combination runs once. `train_cnn --help` lists\n"
    "  --dtype TYPE             their values\n"
    "  --layout LAYOUT\n"
    "  --api legacy|graph\n"
    "  --workspace-limit SIZE   for train_cnn and for the library\n"
    "  --devices LIST           0,1,... or all: GPUs of one model, which run combinations\n"
    "  --program FILE           this train_cnn instead of the installed one\n"
    "  --file FILE              the database, instead of the option cache.file (by default\n"
    "                           ~/.cache/microdnn/costs.db)\n"
    "  --config FILE            read this INI file as well\n"
    "  --set SECTION.KEY=VALUE  any other option of the library; general.stats=json keeps the\n"
    "                           statistics of --from-run for `microdnn plan --from-run`\n"
    "  --library FILE           the libmicrodnn.so to preload\n"
    "\n"
    "Exit status: 0 measured, 1 something did not run, 2 wrong usage or no database named.\n";

enum { VALUES_MAX = 32, COMBINATIONS_MAX = 4096, WAIT_MS = 10000 };
/* What --net and its companions were given. */
typedef enum dimension { NET, BATCH, DTYPE, LAYOUT, API, LIMIT, DIMENSIONS } dimension_t;
static const char *const dimension_options[DIMENSIONS] = {
    "--net", "--batch", "--dtype", "--layout", "--api", "--workspace-limit"};

typedef struct values {
    size_t count;
    char *text[VALUES_MAX];
} values_t;

typedef struct request {
    values_t values[DIMENSIONS];
    const char *devices, *program, *file, *library;
    bool from_run, help;
} request_t;

/* ---- the command line ---- */

enum {
    OPTION_DEVICES = DIMENSIONS + 1,
    OPTION_PROGRAM,
    OPTION_FILE,
    OPTION_CONFIG,
    OPTION_SET,
    OPTION_LIBRARY,
    OPTION_FROM_RUN,
    OPTION_HELP
};

/* Numbers up to DIMENSIONS are dimension_t and one. */
static const struct option long_options[] = {
    {"net", required_argument, NULL, NET + 1},
    {"batch", required_argument, NULL, BATCH + 1},
    {"dtype", required_argument, NULL, DTYPE + 1},
    {"layout", required_argument, NULL, LAYOUT + 1},
    {"api", required_argument, NULL, API + 1},
    {"workspace-limit", required_argument, NULL, LIMIT + 1},
    {"devices", required_argument, NULL, OPTION_DEVICES},
    {"program", required_argument, NULL, OPTION_PROGRAM},
    {"file", required_argument, NULL, OPTION_FILE},
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"set", required_argument, NULL, OPTION_SET},
    {"library", required_argument, NULL, OPTION_LIBRARY},
    {"from-run", no_argument, NULL, OPTION_FROM_RUN},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool add_value(request_t *request, dimension_t dimension, char *text)
{
    values_t *const values = &request->values[dimension];
    if (values->count == VALUES_MAX) {
        tool_complain("%s: more than %d times", dimension_options[dimension], VALUES_MAX);
        return false;
    }
    values->text[values->count++] = text;
    return true;
}

/* Without our own expansion marks: `file` is a path, not a pattern. */
static bool export_file(const char *file)
{
    char pattern[MDNN_OPTION_STRING_BYTES];
    size_t used = 0;
    if (*file != '/' && *file != '\0') { /* a word is a file here, too */
        memcpy(pattern, "./", 2);
        used = 2;
    }
    for (; *file != '\0' && used + 3 < sizeof pattern; file++) {
        if (*file == '%')
            pattern[used++] = '%';
        pattern[used++] = *file;
    }
    pattern[used] = '\0';
    if (*file == '\0' && used > 0)
        return tool_export_option(MDNN_OPTION_cache_file, "--file", pattern);
    tool_complain("--file: that is not a path that a database can have");
    return false;
}

static bool take_option(request_t *request, int choice)
{
    switch (choice) {
    case OPTION_DEVICES:
        request->devices = optarg;
        return true;
    case OPTION_PROGRAM:
        request->program = optarg;
        return true;
    case OPTION_LIBRARY:
        request->library = optarg;
        return true;
    case OPTION_FILE:
        request->file = optarg;
        return export_file(optarg);
    case OPTION_CONFIG:
        return tool_export_config(optarg);
    case OPTION_SET:
        return tool_export_setting(optarg);
    case OPTION_FROM_RUN:
        return request->from_run = true;
    case 'h':
    case OPTION_HELP:
        return request->help = true;
    case '?':
        return false;
    default:
        return add_value(request, (dimension_t)(choice - 1), optarg);
    }
}

static bool is_contradictory(const request_t *request, int rest)
{
    size_t values = 0;
    for (int i = 0; i < DIMENSIONS; i++)
        values += request->values[i].count;
    if (request->from_run && (values > 0 || request->program != NULL))
        tool_complain("tune: --from-run measures what its program runs; --net and what goes with "
                      "it are for train_cnn");
    else if (request->from_run && rest == 0)
        tool_complain("tune: which program?");
    else if (!request->from_run && request->values[NET].count == 0)
        tool_complain("tune: --net NAME, or --from-run -- program");
    else if (!request->from_run && rest > 0)
        tool_complain("tune: a program needs --from-run");
    else
        return false;
    return true;
}

/* ---- train_cnn and its lines ---- */

static bool find_program(const request_t *request, char *path)
{
    const char *const given = request->program;
    if (given != NULL ? realpath(given, path) != NULL : tool_find_helper("train_cnn", path))
        return true;
    if (given != NULL)
        tool_complain("--program: cannot find %s: %s", given, strerror(errno));
    else
        tool_complain("there is no train_cnn with the library; name it with --program");
    return false;
}

/* The digits that its small network learns: in the build tree, and where they are installed. */
static const char *find_data(char *path)
{
    static const char *const places[] = {"../docs/examples/data",
                                         "../share/doc/microdnn/docs/examples/data"};
    char self[PATH_MAX], candidate[PATH_MAX + 64];
    if (realpath("/proc/self/exe", self) == NULL)
        return NULL;
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(candidate, sizeof candidate, "%s/%s/digits.txt", self, places[i]);
        if (access(candidate, R_OK) == 0 && realpath(candidate, path) != NULL) {
            *strrchr(path, '/') = '\0';
            return path;
        }
    }
    return NULL;
}

/* `limit` as both train_cnn and the library read it. */
static bool write_limit(const char *limit, char *out)
{
    static mdnn_options_t scratch;
    const mdnn_option_id_t id = MDNN_OPTION_convolution_workspace_limit;
    if (mdnn_option_set(&scratch, id, limit, "command line") != MDNN_STATUS_OK) {
        char accepted[MDNN_ACCEPTED_BYTES];
        mdnn_option_accepted(id, accepted, sizeof accepted);
        tool_complain("--workspace-limit: '%s' is not a size; accepted: %s", limit, accepted);
        return false;
    }
    const uint64_t bytes = scratch.convolution_workspace_limit;
    if (bytes == MDNN_SIZE_NONE)
        snprintf(out, TOOL_JOB_LIMIT_BYTES, "none");
    else
        snprintf(out, TOOL_JOB_LIMIT_BYTES, "%" PRIu64, bytes);
    return true;
}

typedef struct plan {
    tool_job_t *jobs;
    size_t count;
    char **arguments; /* of all jobs, TOOL_JOB_ARGUMENTS each; of --from-run one line */
    char program[PATH_MAX], data_path[PATH_MAX];
    const char *data;
} plan_t;

static void append(char **arguments, size_t *used, const char *text)
{
    arguments[(*used)++] = (char *)(uintptr_t)text;
}

/* The combination with this number; the limits change first, so that what networks share is
 * measured once. */
static bool fill_job(const request_t *request, const plan_t *plan, size_t number, tool_job_t *job)
{
    char **const arguments = plan->arguments + number * TOOL_JOB_ARGUMENTS;
    static const char *const fixed[] = {"--iterations",   "1", "--warmup", "0",
                                        "--find-repeats", "1", "--quiet"};
    size_t used = 0, title = 0;
    append(arguments, &used, plan->program);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        append(arguments, &used, fixed[i]);
    if (plan->data != NULL) {
        append(arguments, &used, "--data");
        append(arguments, &used, plan->data);
    }
    for (int i = DIMENSIONS - 1; i >= 0; i--) {
        const values_t *const values = &request->values[i];
        if (values->count == 0)
            continue;
        const char *const text = values->text[number % values->count];
        number /= values->count;
        append(arguments, &used, dimension_options[i]);
        append(arguments, &used, i == LIMIT ? job->workspace_limit : text);
        if (i == LIMIT && !write_limit(text, job->workspace_limit))
            return false;
    }
    append(arguments, &used, NULL);
    job->arguments = arguments;
    for (size_t i = 0; i < DIMENSIONS; i++)
        for (size_t k = 1; k + 1 < used && title < sizeof job->title; k++)
            if (strcmp(arguments[k], dimension_options[i]) == 0)
                title += (size_t)snprintf(job->title + title, sizeof job->title - title, "%s%s %s",
                                          title > 0 ? ", " : "", dimension_options[i] + 2,
                                          arguments[k + 1]);
    return true;
}

static bool plan_networks(const request_t *request, plan_t *plan)
{
    plan->count = 1;
    for (int i = 0; i < DIMENSIONS; i++)
        if (request->values[i].count > 0)
            plan->count *= request->values[i].count;
    if (plan->count > COMBINATIONS_MAX) {
        tool_complain("tune: %zu combinations; at most %d are possible", plan->count,
                      COMBINATIONS_MAX);
        return false;
    }
    if (!find_program(request, plan->program))
        return false;
    plan->data = find_data(plan->data_path);
    plan->jobs = calloc(plan->count, sizeof *plan->jobs);
    plan->arguments = calloc(plan->count * TOOL_JOB_ARGUMENTS, sizeof *plan->arguments);
    bool good = plan->jobs != NULL && plan->arguments != NULL;
    if (!good)
        tool_complain("out of memory");
    for (size_t i = 0; good && i < plan->count; i++)
        good = fill_job(request, plan, i, &plan->jobs[i]);
    return good;
}

static bool plan_run(char **arguments, plan_t *plan)
{
    plan->count = 1;
    plan->jobs = calloc(1, sizeof *plan->jobs);
    if (plan->jobs == NULL) {
        tool_complain("out of memory");
        return false;
    }
    const mdnn_options_t *const options = tool_exported_options();
    plan->jobs->arguments = arguments;
    plan->jobs->statistics_file =
        options->general_stats == MDNN_STATISTICS_JSON ? options->general_stats_file : NULL;
    snprintf(plan->jobs->title, sizeof plan->jobs->title, "%s", arguments[0]);
    return true;
}

/* ---- the database ---- */

/* %p in cache.file: every process would keep its own. */
static bool is_per_process(const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p')
            return true;
        pattern += pattern[0] == '%' && pattern[1] != '\0';
    }
    return false;
}

static bool can_be_made(const char *path)
{
    char directory[MDNN_DATABASE_PATH_BYTES];
    snprintf(directory, sizeof directory, "%s", path);
    char *const name = dirname(directory);
    if (access(name, W_OK | X_OK) == 0)
        return true;
    tool_complain("%s cannot be made: %s: %s", path, name, strerror(errno));
    return false;
}

/* What the programs would only say on a log, and at the end of a long run. */
static int check_options(char *path, tool_database_size_t *before)
{
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_options_load(&options, tool_report, &messages);
    if (is_per_process(options.cache_file)) {
        tool_complain("cache.file = %s (%s) names one file per process; give --file",
                      options.cache_file, options.origin[MDNN_OPTION_cache_file]);
        return TOOL_USAGE;
    }
    if (!tool_default_database("--file", path, true))
        return TOOL_USAGE;
    if (options.general_disable || options.convolution_policy == MDNN_CONVOLUTION_OFF) {
        const mdnn_option_id_t id =
            options.general_disable ? MDNN_OPTION_general_disable : MDNN_OPTION_convolution_policy;
        tool_complain("nothing would be measured: the library is switched off (%s)",
                      options.origin[id]);
        return TOOL_TROUBLE;
    }
    const mdnn_status_t status = tool_measure_database(path, WAIT_MS, before);
    if (status == MDNN_STATUS_NOT_FOUND)
        return can_be_made(path) ? TOOL_OK : TOOL_TROUBLE;
    if (status != MDNN_STATUS_OK)
        tool_complain("%s: %s", path, tool_database_trouble(status));
    return status == MDNN_STATUS_OK ? TOOL_OK : TOOL_TROUBLE;
}

static bool tell_total(const char *path, const tool_database_size_t *before, const plan_t *plan)
{
    tool_database_size_t after;
    uint64_t microseconds = 0;
    for (size_t i = 0; i < plan->count; i++)
        microseconds += plan->jobs[i].measure_microseconds;
    const mdnn_status_t status = tool_measure_database(path, WAIT_MS, &after);
    if (status != MDNN_STATUS_OK) {
        tool_complain("%s: %s", path, tool_database_trouble(status));
        return false;
    }
    printf("%s: %" PRId64 " problems and %" PRId64 " sizes added, now %" PRId64 " and %" PRId64
           "; %.1f s measuring\n",
           path, after.problems - before->problems, after.sizes - before->sizes, after.problems,
           after.sizes, (double)microseconds / 1e6);
    return true;
}

/* ---- all of it ---- */

static int run_plan(plan_t *plan, const tool_devices_t *devices, const char *path,
                    const tool_database_size_t *before)
{
    char directory[PATH_MAX];
    const char *const temporary = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/microdnn-tune.XXXXXX",
             temporary != NULL && *temporary == '/' ? temporary : "/tmp");
    if (mkdtemp(directory) == NULL) {
        tool_complain("cannot make %s: %s", directory, strerror(errno));
        return TOOL_TROUBLE;
    }
    const bool good = tool_jobs_run(plan->jobs, plan->count, devices, directory);
    rmdir(directory);
    return tool_finish_output(tell_total(path, before, plan) && good ? TOOL_OK : TOOL_TROUBLE);
}

static int tune(const request_t *request, char **rest, plan_t *plan)
{
    char path[MDNN_DATABASE_PATH_BYTES];
    tool_devices_t devices = {0};
    tool_database_size_t before;
    if (!(request->from_run ? plan_run(rest, plan) : plan_networks(request, plan)))
        return TOOL_USAGE;
    const int status = check_options(path, &before);
    if (status != TOOL_OK)
        return status;
    if (request->devices != NULL && !tool_devices_choose(request->devices, &devices))
        return TOOL_USAGE;
    if (request->from_run && devices.count > 1) {
        tool_complain("--devices: one program runs on one device; give one, or tune --net");
        return TOOL_USAGE;
    }
    return tool_export_preload(request->library) ? run_plan(plan, &devices, path, &before)
                                                 : TOOL_TROUBLE;
}

int tool_tune(int argc, char **argv)
{
    static request_t request;
    static plan_t plan;
    bool good = true;
    for (int choice; good && (choice = tool_next_option(argc, argv, "+h", long_options)) != -1;)
        good = take_option(&request, choice);
    if (good && request.help) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    if (!good || is_contradictory(&request, argc - optind)) {
        fputs("Try `microdnn tune --help`.\n", stderr);
        return TOOL_USAGE;
    }
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    const int status = tune(&request, argv + optind, &plan);
    free(plan.jobs);
    free(plan.arguments);
    return status;
}
