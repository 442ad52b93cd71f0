/* doctor --run: runs the program with the library, and says what became of it. The loader itself writes which files it
 * loaded (LD_DEBUG), and the library writes statistics; the program sees no output of either. */
#include "scripts/microdnn_doctor.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/statistics.h"

enum { USED_MAX = 24, FILES_MAX = 16 };

/* What the statistics and the loader say of all processes of the program. */
typedef struct run {
    unsigned processes;              /* that left statistics: they called CUDA or cuDNN */
    uint64_t used[USED_MAX];         /* per counter of `hooks` */
    uint64_t operations;             /* under a budget */
    char files[FILES_MAX][PATH_MAX]; /* that the loader started, of those that matter */
    size_t file_count;
} run_t;

/* Counters that say which hooks were called. */
static const struct {
    const char *counter, *what;
} hooks[] = {
    {"calls_forward", "convolutions forward"},
    {"calls_backward_data", "backward data"},
    {"calls_backward_filter", "backward filter"},
    {"calls_bias_activation", "fused convolutions"},
    {"calls_get_algorithm", "choices of algorithms"},
    {"calls_find_algorithm", "searches for algorithms"},
    {"calls_workspace_size", "questions about workspaces"},
    {"calls_graph_execute", "executions of graphs"},
    {"graph_plans", "plans of graphs with a convolution"},
    {"graph_plans_other", "other plans of graphs"},
    {"cuda_malloc", "cudaMalloc"},
    {"cuda_mem_get_info", "cudaMemGetInfo"},
};
enum { HOOK_COUNT = sizeof hooks / sizeof *hooks, CONVOLUTION_HOOKS = 10 };

/* ---- reading ---- */

static uint64_t number_of(const char *json, const char *key)
{
    char pattern[64];
    const int length = snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *const found = strstr(json, pattern);
    return found != NULL ? strtoull(found + length, NULL, 10) : 0;
}

static void read_statistics(const char *path, run_t *run)
{
    char *json = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&json, &bytes);
    const mdnn_status_t status = out == NULL
                                     ? MDNN_STATUS_OUT_OF_MEMORY
                                     : mdnn_statistics_print_file(path, MDNN_STATISTICS_JSON, out);
    if (out != NULL && fclose(out) == 0 && status == MDNN_STATUS_OK) {
        run->processes++;
        for (int i = 0; i < HOOK_COUNT; i++)
            run->used[i] += number_of(json, hooks[i].counter);
        run->operations += number_of(json, "operations");
    }
    free(json);
}

static void remember_file(const char *path, run_t *run)
{
    static const char *const names[] = {"/libmicrodnn.so", "/libcuda.so.1", "/libcudart.so.",
                                        "/libcudnn.so."};
    bool wanted = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        wanted = wanted || strstr(path, names[i]) != NULL;
    for (size_t i = 0; i < run->file_count; i++)
        wanted = wanted && strcmp(run->files[i], path) != 0;
    if (wanted && run->file_count < FILES_MAX)
        snprintf(run->files[run->file_count++], PATH_MAX, "%s", path);
}

/* "     4711:	calling init: /path" */
static void read_loader(const char *path, run_t *run)
{
    static const char mark[] = "calling init: ";
    char line[2 * PATH_MAX];
    FILE *const file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *const found = strstr(line, mark);
        line[strcspn(line, "\n")] = '\0';
        if (found != NULL)
            remember_file(found + sizeof mark - 1, run);
    }
    if (file != NULL)
        fclose(file);
}

static void collect(const char *path, run_t *run)
{
    DIR *const directory = opendir(path);
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        char file[PATH_MAX + 256];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (strncmp(entry->d_name, "loader", 6) == 0)
            read_loader(file, run);
        else
            read_statistics(file, run);
        unlink(file);
    }
    if (directory != NULL)
        closedir(directory);
    rmdir(path);
}

/* ---- running ---- */

static bool prepare(const doctor_t *doctor, const char *directory)
{
    char file[PATH_MAX + 16];
    snprintf(file, sizeof file, "%s/%%p", directory);
    if (!tool_export_option(MDNN_OPTION_general_stats, "doctor", "json") ||
        !tool_export_option(MDNN_OPTION_general_stats_file, "doctor", file) ||
        !tool_export_framework_variables(doctor->arguments) ||
        !tool_export_preload(doctor->given_library))
        return false;
    snprintf(file, sizeof file, "%s/loader", directory);
    return setenv("LD_DEBUG", "files", 1) == 0 && setenv("LD_DEBUG_OUTPUT", file, 1) == 0;
}

/* The program's output is no part of the findings: all of it goes to standard error. */
static int run_program(const doctor_t *doctor, const char *directory)
{
    int status = TOOL_RUN_FAILED << 8;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        _exit(prepare(doctor, directory) ? tool_become(doctor->arguments) : TOOL_RUN_FAILED);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

/* ---- judging ---- */

static const char *loaded(const run_t *run, const char *name)
{
    for (size_t i = 0; i < run->file_count; i++)
        if (strstr(run->files[i], name) != NULL)
            return run->files[i];
    return NULL;
}

static void tell_files(const run_t *run)
{
    unsigned ours = 0;
    for (size_t i = 0; i < run->file_count; i++) {
        ours += strstr(run->files[i], "/libmicrodnn.so") != NULL;
        doctor_find(DOCTOR_FINE, "run", "loaded %s", run->files[i]);
    }
    if (ours > 1)
        doctor_find(DOCTOR_BROKEN, "run", "two copies of the library were loaded");
}

/* Whether the library was called at all. */
static bool was_called(const run_t *run)
{
    if (loaded(run, "/libmicrodnn.so") == NULL)
        doctor_find(DOCTOR_BROKEN, "run", "the loader did not load the library into the program");
    else if (run->processes > 0)
        return true;
    else if (loaded(run, "/libcuda.so.1") != NULL)
        doctor_find(DOCTOR_BROKEN, "run", "it loaded %s, and none of its calls reached the library",
                    loaded(run, "/libcuda.so.1"));
    else
        doctor_find(DOCTOR_WARNING, "run",
                    "no CUDA call was made: the program ended before, or uses no GPU");
    return false;
}

static void tell_hooks(const doctor_t *doctor, const run_t *run)
{
    char list[512] = "";
    size_t used = 0;
    uint64_t convolutions = 0;
    for (int i = 0; i < HOOK_COUNT && used < sizeof list; i++) {
        if (i < CONVOLUTION_HOOKS)
            convolutions += run->used[i];
        if (run->used[i] > 0)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s %llu", used > 0 ? ", " : "",
                                 hooks[i].what, (unsigned long long)run->used[i]);
    }
    doctor_find(DOCTOR_FINE, "run", "%u %s called the library: %s", run->processes,
                run->processes == 1 ? "process" : "processes",
                *list != '\0' ? list : "nothing that is counted");
    if (convolutions == 0 && loaded(run, "/libcudnn.so.") != NULL)
        doctor_find(DOCTOR_WARNING, "run", "%s was loaded, and no convolution reached the library",
                    loaded(run, "/libcudnn.so."));
    if (doctor->budget)
        doctor_find(run->operations > 0 ? DOCTOR_FINE : DOCTOR_WARNING, "run",
                    "%llu operations on the GPU were followed under the budget",
                    (unsigned long long)run->operations);
}

void doctor_run(const doctor_t *doctor)
{
    static run_t run;
    char directory[PATH_MAX];
    const char *const place = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/microdnn-doctor.XXXXXX",
             place != NULL && *place == '/' ? place : "/tmp");
    if (mkdtemp(directory) == NULL) {
        doctor_find(DOCTOR_WARNING, "run", "cannot make %s: %s", directory, strerror(errno));
        return;
    }
    const int status = run_program(doctor, directory);
    collect(directory, &run);
    if (WIFSIGNALED(status))
        doctor_find(DOCTOR_WARNING, "run", "the program was ended by signal %d (%s)",
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        doctor_find(WEXITSTATUS(status) == 0 ? DOCTOR_FINE : DOCTOR_WARNING, "run",
                    "the program exited with %d", WEXITSTATUS(status));
    tell_files(&run);
    if (was_called(&run))
        tell_hooks(doctor, &run);
}
