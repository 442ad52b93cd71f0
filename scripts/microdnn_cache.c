/* microdnn cache: looks into the database of measured costs and moves it about. */
#include "scripts/microdnn.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "optimizer/database.h"
#include "optimizer/database_place.h"

static const char usage[] =
    "usage: microdnn cache list [--json]          shows what is in the database\n"
    "       microdnn cache export TO              copies it into a new file\n"
    "       microdnn cache import FROM            adds what the database lacks from FROM\n"
    "       microdnn cache merge INTO FROM...     does the same with any files\n"
    "       microdnn cache clear [--yes]          deletes everything\n"
    "\n"
    "The option cache.file names the database (~/.cache/microdnn/costs.db), unless --file does:\n"
    "  --file FILE      use this one\n"
    "  --wait SECONDS   how long to wait for programs that use it (10)\n"
    "\n"
    "Exit status: 0 done, 1 not done, 2 wrong usage or no database named.\n";

typedef struct request {
    char path[MDNN_DATABASE_PATH_BYTES]; /* not of merge */
    unsigned wait_ms;
    bool json, yes;
    char **files;
    size_t file_count;
} request_t;

/* ---- for tune too ---- */

const char *tool_database_trouble(mdnn_status_t status)
{
    switch (status) {
    case MDNN_STATUS_NOT_FOUND:
        return "there is no database yet; it is made by the first run that measures";
    case MDNN_STATUS_BUSY:
        return "busy: other programs are using it; try again, or wait longer";
    case MDNN_STATUS_UNSUPPORTED:
        return "written by a newer version of microdnn than this one; nothing was changed";
    case MDNN_STATUS_BAD_FORMAT:
        return "not a database of microdnn, or damaged; it was not changed";
    case MDNN_STATUS_INVALID_ARGUMENT:
        return "both files are the same";
    case MDNN_STATUS_IO:
        return "cannot be opened, read or written";
    default:
        return mdnn_status_string(status);
    }
}

bool tool_default_database(const char *option, char *path, bool make)
{
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_database_t database;
    mdnn_options_load(&options, tool_report, &messages);
    const mdnn_status_t status = mdnn_database_init_place(&database, options.cache_file, NULL);
    if (status != MDNN_STATUS_OK)
        tool_complain("cache.file (%s): %s", options.origin[MDNN_OPTION_cache_file],
                      mdnn_status_string(status));
    else if (*database.path == '\0')
        tool_complain("%s; give %s",
                      database.automatic
                          ? "there is no place for the database: neither XDG_CACHE_HOME nor HOME "
                            "names a folder of this user"
                          : "no database is named: set the option cache.file (see microdnn.ini(5))",
                      option);
    else if (make && database.automatic && !mdnn_database_make_folders(database.path))
        tool_complain("%s cannot be made: %s", database.path, strerror(errno));
    else {
        memcpy(path, database.path, sizeof database.path);
        return true;
    }
    return false;
}

static void add_size(void *context, const mdnn_database_row_t *row)
{
    tool_database_size_t *const size = context;
    size->problems++;
    size->sizes += row->sizes;
    size->configurations += row->configurations;
}

mdnn_status_t tool_measure_database(const char *path, unsigned wait_ms, tool_database_size_t *size)
{
    *size = (tool_database_size_t){0};
    return mdnn_database_list(path, wait_ms, add_size, size);
}

/* ---- list ---- */

typedef struct entry {
    char *device, *driver, *tf32_override, *problem;
    int64_t cuda_version, cudnn_version, sizes, configurations;
} entry_t;

typedef struct listing {
    entry_t *entries;
    size_t count, room;
    bool failed;
} listing_t;

static char *copy_of(const char *text, listing_t *listing)
{
    char *const copy = strdup(text != NULL ? text : "");
    listing->failed = listing->failed || copy == NULL;
    return copy;
}

static void add_entry(void *context, const mdnn_database_row_t *row)
{
    listing_t *const listing = context;
    if (listing->count == listing->room) {
        const size_t room = 2 * listing->room + 64;
        entry_t *const entries = reallocarray(listing->entries, room, sizeof *entries);
        listing->failed = listing->failed || entries == NULL;
        if (entries == NULL)
            return;
        listing->entries = entries;
        listing->room = room;
    }
    const mdnn_database_environment_t *const environment = &row->environment;
    listing->entries[listing->count++] = (entry_t){
        .device = copy_of(environment->device_model, listing),
        .driver = copy_of(environment->driver, listing),
        .tf32_override = copy_of(environment->tf32_override, listing),
        .problem = copy_of(row->problem, listing),
        .cuda_version = environment->cuda_version,
        .cudnn_version = environment->cudnn_version,
        .sizes = row->sizes,
        .configurations = row->configurations,
    };
}

static void listing_fini(listing_t *listing)
{
    for (size_t i = 0; i < listing->count; i++) {
        free(listing->entries[i].device);
        free(listing->entries[i].driver);
        free(listing->entries[i].tf32_override);
        free(listing->entries[i].problem);
    }
    free(listing->entries);
}

/* 0 if what was measured holds for the same device, versions and settings. */
static int compare_environments(const entry_t *a, const entry_t *b)
{
    int order = strcmp(a->device, b->device);
    if (order == 0)
        order = strcmp(a->driver, b->driver);
    if (order == 0)
        order = (a->cuda_version > b->cuda_version) - (a->cuda_version < b->cuda_version);
    if (order == 0)
        order = (a->cudnn_version > b->cudnn_version) - (a->cudnn_version < b->cudnn_version);
    return order != 0 ? order : strcmp(a->tf32_override, b->tf32_override);
}

static int compare_entries(const void *left, const void *right)
{
    const entry_t *const a = left, *const b = right;
    const int order = compare_environments(a, b);
    return order != 0 ? order : strcmp(a->problem, b->problem);
}

/* A file may come from anywhere: nothing in it reaches the terminal as a command. */
static void print_plain(const char *text)
{
    for (; *text != '\0'; text++)
        putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

static void print_environment(const entry_t *entry)
{
    /* 9.19.0 is 91900, 8.9.7 is 8907; CUDA writes 13.0 as 13000. */
    const int64_t cudnn = entry->cudnn_version, unit = cudnn >= 90000 ? 10000 : 1000;
    print_plain(*entry->device != '\0' ? entry->device : "unknown device");
    fputs(", driver ", stdout);
    print_plain(*entry->driver != '\0' ? entry->driver : "unknown");
    printf(", CUDA %" PRId64 ".%" PRId64 ", cuDNN %" PRId64 ".%" PRId64 ".%" PRId64,
           entry->cuda_version / 1000, entry->cuda_version % 1000 / 10, cudnn / unit,
           cudnn % unit / 100, cudnn % 100);
    if (*entry->tf32_override != '\0') {
        fputs(", NVIDIA_TF32_OVERRIDE=", stdout);
        print_plain(entry->tf32_override);
    }
    putchar('\n');
}

static void print_table(const listing_t *listing, const char *path)
{
    tool_database_size_t size = {0};
    for (size_t i = 0; i < listing->count; i++) {
        const entry_t *const entry = &listing->entries[i];
        if (i == 0 || compare_environments(entry - 1, entry) != 0) {
            fputs(i > 0 ? "\n" : "", stdout);
            print_environment(entry);
            puts("  sizes  configurations  problem");
        }
        printf("  %5" PRId64 "  %14" PRId64 "  ", entry->sizes, entry->configurations);
        print_plain(entry->problem);
        putchar('\n');
        size.problems++;
        size.sizes += entry->sizes;
        size.configurations += entry->configurations;
    }
    printf("%s%" PRId64 " problems, %" PRId64 " sizes, %" PRId64 " configurations in %s\n",
           listing->count > 0 ? "\n" : "", size.problems, size.sizes, size.configurations, path);
}

static void print_json_entry(const entry_t *entry)
{
    fputs("\n  {\"device\": ", stdout);
    tool_print_json_text(entry->device);
    fputs(", \"driver\": ", stdout);
    tool_print_json_text(entry->driver);
    printf(", \"cuda\": %" PRId64 ", \"cudnn\": %" PRId64 ", \"tf32_override\": ",
           entry->cuda_version, entry->cudnn_version);
    if (*entry->tf32_override != '\0')
        tool_print_json_text(entry->tf32_override);
    else
        fputs("null", stdout);
    fputs(", \"problem\": ", stdout);
    tool_print_json_text(entry->problem);
    printf(", \"sizes\": %" PRId64 ", \"configurations\": %" PRId64 "}", entry->sizes,
           entry->configurations);
}

static void print_json(const listing_t *listing, const char *path)
{
    fputs("{\"microdnn_cache\": 1, \"file\": ", stdout);
    tool_print_json_text(path);
    fputs(", \"problems\": [", stdout);
    for (size_t i = 0; i < listing->count; i++) {
        fputs(i > 0 ? "," : "", stdout);
        print_json_entry(&listing->entries[i]);
    }
    puts("\n]}");
}

static int cannot(const char *path, mdnn_status_t status)
{
    tool_complain("%s: %s", path, tool_database_trouble(status));
    return TOOL_TROUBLE;
}

static int list(const request_t *request)
{
    listing_t listing = {0};
    const mdnn_status_t status =
        mdnn_database_list(request->path, request->wait_ms, add_entry, &listing);
    int result = TOOL_TROUBLE;
    if (status != MDNN_STATUS_OK) {
        (void)cannot(request->path, status);
    } else if (listing.failed) {
        tool_complain("out of memory");
    } else {
        if (listing.count > 0)
            qsort(listing.entries, listing.count, sizeof *listing.entries, compare_entries);
        (request->json ? print_json : print_table)(&listing, request->path);
        result = tool_finish_output(TOOL_OK);
    }
    listing_fini(&listing);
    return result;
}

/* ---- export, import, merge ---- */

static bool merge_one(const char *into, const char *from, unsigned wait_ms)
{
    int64_t added = 0;
    tool_database_size_t size;
    /* First a look at each, so that the complaint names the right one. */
    mdnn_status_t status = tool_measure_database(from, wait_ms, &size);
    if (status == MDNN_STATUS_NOT_FOUND)
        tool_complain("%s: there is no such database, or nothing is in it", from);
    else if (status != MDNN_STATUS_OK)
        (void)cannot(from, status);
    if (status != MDNN_STATUS_OK)
        return false;
    /* From here on the log tells of a damaged file that is set aside. */
    mdnn_log_configure(MDNN_LOG_WARN, "stderr");
    status = mdnn_database_merge(into, from, wait_ms, &added);
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    if (status != MDNN_STATUS_OK) {
        tool_complain("cannot add %s to %s: %s", from, into, tool_database_trouble(status));
        return false;
    }
    printf("%s: %" PRId64 " rows added from %s (%" PRId64 " problems)\n", into, added, from,
           size.problems);
    return true;
}

static int export_to(const request_t *request)
{
    const char *const to = request->files[0];
    struct stat unused;
    if (lstat(to, &unused) == 0) {
        tool_complain("%s exists already; `microdnn cache merge` adds to a database", to);
        return TOOL_TROUBLE;
    }
    if (merge_one(to, request->path, request->wait_ms))
        return tool_finish_output(TOOL_OK);
    if (lstat(to, &unused) == 0 && unlink(to) != 0)
        tool_complain("cannot remove %s again: %s", to, strerror(errno));
    return TOOL_TROUBLE;
}

static int import_from(const request_t *request)
{
    return merge_one(request->path, request->files[0], request->wait_ms)
               ? tool_finish_output(TOOL_OK)
               : TOOL_TROUBLE;
}

static int merge(const request_t *request)
{
    int result = TOOL_OK;
    for (size_t i = 1; i < request->file_count; i++)
        if (!merge_one(request->files[0], request->files[i], request->wait_ms))
            result = TOOL_TROUBLE;
    return tool_finish_output(result);
}

/* ---- clear ---- */

static bool is_confirmed(const request_t *request, const tool_database_size_t *size)
{
    char answer[16] = "";
    if (request->yes)
        return true;
    if (!isatty(STDIN_FILENO)) {
        tool_complain("clear: %s holds %" PRId64 " problems; --yes allows their deletion",
                      request->path, size->problems);
        return false;
    }
    fprintf(stderr, "Forget %" PRId64 " problems in %s? [y/N] ", size->problems, request->path);
    return fgets(answer, sizeof answer, stdin) != NULL && (*answer == 'y' || *answer == 'Y');
}

static int clear(const request_t *request)
{
    tool_database_size_t size;
    mdnn_status_t status = tool_measure_database(request->path, request->wait_ms, &size);
    if (status != MDNN_STATUS_OK)
        return cannot(request->path, status);
    if (!is_confirmed(request, &size))
        return TOOL_TROUBLE;
    status = mdnn_database_clear(request->path, request->wait_ms);
    if (status != MDNN_STATUS_OK)
        return cannot(request->path, status);
    printf("%s: %" PRId64 " problems forgotten\n", request->path, size.problems);
    return tool_finish_output(TOOL_OK);
}

/* ---- the command line ---- */

static const struct action {
    const char *name;
    int (*act)(const request_t *request);
    size_t files_least, files_most;
    bool needs_database;
} actions[] = {
    {"list", list, 0, 0, true},          {"export", export_to, 1, 1, true},
    {"import", import_from, 1, 1, true}, {"merge", merge, 2, SIZE_MAX, false},
    {"clear", clear, 0, 0, true},
};

static int wrong_usage(void)
{
    fputs("Try `microdnn cache --help`.\n", stderr);
    return TOOL_USAGE;
}

static bool take_wait(const char *text, unsigned *wait_ms)
{
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0 && seconds <= 86400)) {
        tool_complain("--wait: '%s' is not a number of seconds; accepted: 0 to 86400", text);
        return false;
    }
    /* With no time at all, no visit could do its work. */
    *wait_ms = (unsigned)(seconds * 1000) > 50 ? (unsigned)(seconds * 1000) : 50;
    return true;
}

static bool take_options(int argc, char **argv, request_t *request, const char **file, bool *help)
{
    static const struct option long_options[] = {
        {"file", required_argument, NULL, 'f'}, {"wait", required_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'},       {"yes", no_argument, NULL, 'y'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;) {
        if (choice == 'f')
            *file = optarg;
        else if (choice == 'j')
            request->json = true;
        else if (choice == 'y')
            request->yes = true;
        else if (choice == 'h')
            *help = true;
        else if (choice == '?' || !take_wait(optarg, &request->wait_ms))
            return false;
    }
    return true;
}

/* --file as it is given: what can be listed must be reachable by the name under which it lies. */
static bool choose_database(const char *file, bool make, request_t *request)
{
    if (file == NULL)
        return tool_default_database("--file", request->path, make);
    const int length = snprintf(request->path, sizeof request->path, "%s", file);
    if (length > 0 && (size_t)length < sizeof request->path)
        return true;
    tool_complain("--file: '%s' is not a path that a database can have", file);
    return false;
}

static int act(const struct action *action, const char *file, request_t *request)
{
    if (request->file_count < action->files_least || request->file_count > action->files_most) {
        tool_complain("%s: %s", action->name,
                      request->file_count < action->files_least ? "which file?"
                                                                : "too many arguments");
        return wrong_usage();
    }
    if ((request->json && action->act != list) || (request->yes && action->act != clear) ||
        (file != NULL && !action->needs_database)) {
        tool_complain("%s does not take that option", action->name);
        return wrong_usage();
    }
    if (action->needs_database && !choose_database(file, action->act == import_from, request))
        return TOOL_USAGE;
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    return action->act(request);
}

int tool_cache(int argc, char **argv)
{
    static request_t request = {.wait_ms = 10000};
    const char *file = NULL;
    bool help = false;
    if (tool_wants_list(argc, argv))
        for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
            puts(actions[i].name);
    if (!take_options(argc, argv, &request, &file, &help))
        return wrong_usage();
    if (help) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    request.files = argv + optind + 1;
    request.file_count = (size_t)(argc - optind - 1);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(argv[optind], actions[i].name) == 0)
            return act(&actions[i], file, &request);
    tool_complain("cache: there is no '%s'; accepted: list, export, import, merge, clear",
                  argv[optind]);
    return wrong_usage();
}
