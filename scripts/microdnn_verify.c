/* microdnn verify: run a program with memory.safety = verify, and say what the library found. */
#include "scripts/microdnn.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/statistics.h"

static const char usage[] =
    "usage: microdnn verify [options of run] [--] program [arguments]\n"
    "\n"
    "Runs a program with libmicrodnn. Before each operation on the GPU, all memory that it does\n"
    "not name is unmapped, and the host waits for its end. An access that the library does not\n"
    "foresee faults at once. This is slow; contents do not change. Without --memory the budget\n"
    "is all of the GPU's memory. The last line on stderr says what was found.\n"
    "\n"
    "Exit status: 0 clean, 1 an unnamed access or nothing was checked, 125 a mistake above; else\n"
    "the program's own, 128 + N if signal N ended it.\n";

/* What the statistics of all its processes say. */
typedef struct findings {
    uint64_t operations, unnamed;
    int unread; /* statistics that are there and say nothing */
    char first[256];
} findings_t;

/* ---- statistics ---- */

/* Where the value begins that follows `key` at or behind `json`, or NULL. Quotes within texts are
 * escaped there, so this finds no other. */
static const char *value_of(const char *json, const char *key)
{
    char pattern[64];
    const int length = snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *const found = strstr(json, pattern);
    return found != NULL ? found + length : NULL;
}

static uint64_t number_of(const char *json, const char *key)
{
    const char *const value = value_of(json, key);
    return value != NULL ? strtoull(value, NULL, 10) : 0;
}

/* A JSON text that begins at its quote; escapes of control characters become '?'. */
static void copy_text(const char *json, char *out, size_t bytes)
{
    size_t used = 0;
    for (const char *c = json + 1; *json == '"' && *c != '"' && *c != '\0'; c++) {
        char copied = *c;
        if (*c == '\\') {
            c++;
            copied = *c == 'u' ? '?' : *c;
            c += *c == 'u' && strlen(c) > 4 ? 4 : 0;
        }
        if (used + 1 < bytes)
            out[used++] = copied;
    }
    out[used] = '\0';
}

static void add_findings(const char *json, findings_t *findings)
{
    const char *device = strstr(json, "{\"device\": ");
    for (; device != NULL; device = strstr(device + 1, "{\"device\": ")) {
        const char *const first = value_of(device, "first_unnamed");
        const uint64_t unnamed = number_of(device, "unnamed_accesses");
        findings->operations += number_of(device, "operations");
        findings->unnamed += unnamed;
        if (unnamed > 0 && findings->first[0] == '\0' && first != NULL)
            copy_text(first, findings->first, sizeof findings->first);
    }
}

static void read_statistics(const char *path, findings_t *findings)
{
    char *json = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&json, &bytes);
    const mdnn_status_t status = out == NULL
                                     ? MDNN_STATUS_OUT_OF_MEMORY
                                     : mdnn_statistics_print_file(path, MDNN_STATISTICS_JSON, out);
    if (out != NULL && fclose(out) == 0 && status == MDNN_STATUS_OK)
        add_findings(json, findings);
    else
        findings->unread++;
    free(json);
}

/* One file for each process that used CUDA; of a killed one it is the live file. */
static void collect(const char *path, findings_t *findings)
{
    DIR *const directory = opendir(path);
    if (directory == NULL) {
        findings->unread++;
        return;
    }
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char file[PATH_MAX + 256];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        read_statistics(file, findings);
        unlink(file);
    }
    closedir(directory);
    rmdir(path);
}

/* ---- the run ---- */

/* A budget must be there for virtual memory to be on; here it is no limit. */
static bool export_budget(void)
{
    static tool_device_list_t devices;
    char why[1024], size[32];
    if (tool_exported_options()->memory_budget != MDNN_SIZE_NONE)
        return true;
    if (!tool_devices_ask(&devices, why, sizeof why)) {
        tool_complain("verify: %s", why);
        return false;
    }
    uint64_t least = devices.devices[0].total_bytes;
    for (size_t i = 1; i < devices.count; i++)
        least = devices.devices[i].total_bytes < least ? devices.devices[i].total_bytes : least;
    if (least == 0) {
        tool_complain("verify: the driver does not say how much memory there is; use --memory");
        return false;
    }
    snprintf(size, sizeof size, "%" PRIu64, least);
    return tool_export_option(MDNN_OPTION_memory_budget, "--memory", size);
}

static bool make_directory(char *directory, size_t bytes)
{
    const char *const place = getenv("TMPDIR");
    snprintf(directory, bytes, "%s/microdnn-verify.XXXXXX",
             place != NULL && *place == '/' ? place : "/tmp");
    if (mkdtemp(directory) != NULL)
        return true;
    tool_complain("verify: cannot make %s: %s", directory, strerror(errno));
    return false;
}

static bool export_all(const char *directory, char **arguments)
{
    char file[PATH_MAX + 8];
    snprintf(file, sizeof file, "%s/%%p", directory);
    return tool_export_option(MDNN_OPTION_memory_safety, "verify", "verify") &&
           tool_export_option(MDNN_OPTION_general_stats, "verify", "json") &&
           tool_export_option(MDNN_OPTION_general_stats_file, "verify", file) && export_budget() &&
           tool_export_framework_variables(arguments);
}

/* What interrupts the program must not keep the tool from telling what was found. */
static int run_program(char **arguments)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction interrupt, quit;
    int status = TOOL_RUN_FAILED << 8;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    const pid_t child = fork();
    if (child == 0) {
        sigaction(SIGINT, &interrupt, NULL);
        sigaction(SIGQUIT, &quit, NULL);
        _exit(tool_become(arguments));
    }
    if (child < 0)
        tool_complain("cannot start %s: %s", arguments[0], strerror(errno));
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* The exit status, after the last line. */
static int tell(const findings_t *findings, int status)
{
    const int own = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const char *const text = findings->first[0] != '\0' ? findings->first : "not recorded";
    if (findings->unnamed > 0)
        fprintf(stderr, "microdnn verify: %" PRIu64 " unnamed accesses, the first: %s\n",
                findings->unnamed, text);
    else if (own != 0)
        fprintf(stderr,
                "microdnn verify: the program %s %d after %" PRIu64
                " operations; no unnamed access was recorded\n",
                WIFSIGNALED(status) ? "was ended by signal" : "exited with",
                WIFSIGNALED(status) ? WTERMSIG(status) : own, findings->operations);
    else if (findings->unread > 0)
        fprintf(stderr,
                "microdnn verify: the statistics of %d processes cannot be read: nothing is known "
                "about them\n",
                findings->unread);
    else if (findings->operations == 0)
        fputs(
            "microdnn verify: nothing was checked: no operation was seen; see `microdnn doctor -- "
            "PROGRAM`\n",
            stderr);
    else
        fprintf(stderr, "microdnn verify: clean, %" PRIu64 " operations\n", findings->operations);
    if (own != 0)
        return own;
    const bool clean = findings->unnamed == 0 && findings->unread == 0 && findings->operations > 0;
    return clean ? TOOL_OK : TOOL_TROUBLE;
}

int tool_verify(int argc, char **argv)
{
    bool help;
    char directory[PATH_MAX];
    findings_t findings = {0};
    const int taken = tool_take_run_options(argc, argv, &help);
    if (taken != TOOL_OK)
        return taken;
    if (help) {
        fputs(usage, stdout);
        return TOOL_OK;
    }
    if (!make_directory(directory, sizeof directory))
        return TOOL_RUN_FAILED;
    if (!export_all(directory, argv + optind)) {
        rmdir(directory);
        return TOOL_RUN_FAILED;
    }
    const int status = run_program(argv + optind);
    collect(directory, &findings);
    return tell(&findings, status);
}
