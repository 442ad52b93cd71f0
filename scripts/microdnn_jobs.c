/* Programs that run with the library, several at a time, and their statistics. */
#include "scripts/microdnn_tune.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/log.h"
#include "config/options_table.h"
#include "config/statistics.h"

/* Who runs where. */
typedef struct run {
    tool_job_t *jobs;
    size_t job_count, next;
    const tool_devices_t *devices;
    const char *directory;
    bool failed, interrupted;
    struct {
        pid_t process; /* 0: idle */
        size_t job;
    } slots[TOOL_DEVICES_MAX];
    size_t slot_count;
    struct sigaction interrupt_before, quit_before;
} run_t;

/* ---- in the child ---- */

static void set_option(mdnn_option_id_t id, const char *value)
{
    char name[MDNN_ENVIRONMENT_NAME_BYTES];
    mdnn_option_environment_name(id, name, sizeof name);
    if (setenv(name, value, 1) != 0)
        _exit(TOOL_RUN_FAILED);
}

_Noreturn static void become(const run_t *run, size_t slot, size_t number)
{
    const tool_job_t *const job = &run->jobs[number];
    char file[PATH_MAX];
    sigaction(SIGINT, &run->interrupt_before, NULL);
    sigaction(SIGQUIT, &run->quit_before, NULL);
    /* Without the tool nobody would read what is measured; the database has it all the same. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    snprintf(file, sizeof file, "%s/%zu.%%p", run->directory, number);
    set_option(MDNN_OPTION_general_stats, "json");
    set_option(MDNN_OPTION_general_stats_file, file);
    if (*job->workspace_limit != '\0')
        set_option(MDNN_OPTION_convolution_workspace_limit, job->workspace_limit);
    if (run->devices->count > 0 &&
        setenv("CUDA_VISIBLE_DEVICES", run->devices->visible[slot], 1) != 0)
        _exit(TOOL_RUN_FAILED);
    execvp(job->arguments[0], job->arguments);
    const int error = errno;
    tool_complain("cannot run %s: %s", job->arguments[0], strerror(error));
    _exit(error == ENOENT || error == ENOTDIR ? TOOL_RUN_NOT_FOUND : TOOL_RUN_CANNOT_EXECUTE);
}

/* ---- statistics ---- */

/* A counter in statistics as JSON. Quotes within texts are escaped there, so this finds no other.
 */
static uint64_t counter_in(const char *json, const char *name)
{
    char pattern[64];
    const int length = snprintf(pattern, sizeof pattern, "\"%s\": ", name);
    const char *const found = strstr(json, pattern);
    return found != NULL ? strtoull(found + length, NULL, 10) : 0;
}

/* The pattern with `process` for %p. */
static void expand_pattern(const char *pattern, const char *process, char *path, size_t bytes)
{
    char halfway[PATH_MAX];
    size_t used = 0;
    for (; *pattern != '\0' && used + strlen(process) + 2 < sizeof halfway; pattern++) {
        const bool mark = pattern[0] == '%' && pattern[1] != '\0';
        if (mark && pattern[1] == 'p') {
            used += (size_t)snprintf(halfway + used, sizeof halfway - used, "%s", process);
            pattern++;
            continue;
        }
        halfway[used++] = *pattern;
        if (mark)
            halfway[used++] = *++pattern;
    }
    halfway[used] = '\0';
    mdnn_expand_pattern(halfway, path, bytes);
}

/* To where the library would have written, had it not been told to write for us. */
static bool pass_on(const tool_job_t *job, const char *statistics, const char *name)
{
    const char *const pattern = job->statistics_file;
    char path[PATH_MAX], process[32];
    if (*pattern == '\0' || strcmp(pattern, "stderr") == 0)
        return mdnn_statistics_print_file(statistics, MDNN_STATISTICS_JSON, stderr) ==
               MDNN_STATUS_OK;
    snprintf(process, sizeof process, "%.*s", (int)strspn(name, "0123456789"), name);
    expand_pattern(pattern, process, path, sizeof path);
    FILE *const out = fopen(path, "we");
    if (out == NULL) {
        tool_complain("general.stats_file: cannot make %s: %s", path, strerror(errno));
        return false;
    }
    const mdnn_status_t status = mdnn_statistics_print_file(statistics, MDNN_STATISTICS_JSON, out);
    if (fclose(out) == 0 && status == MDNN_STATUS_OK)
        return true;
    tool_complain("general.stats_file: cannot write %s", path);
    return false;
}

static void add_statistics(tool_job_t *job, const char *path)
{
    static const char *const calls[] = {"calls_forward",         "calls_backward_data",
                                        "calls_backward_filter", "calls_bias_activation",
                                        "calls_get_algorithm",   "calls_find_algorithm",
                                        "calls_workspace_size",  "calls_graph_execute"};
    char *json = NULL;
    size_t bytes = 0;
    FILE *const out = open_memstream(&json, &bytes);
    if (out == NULL)
        return;
    const mdnn_status_t status = mdnn_statistics_print_file(path, MDNN_STATISTICS_JSON, out);
    if (fclose(out) == 0 && status == MDNN_STATUS_OK) {
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            job->calls += counter_in(json, calls[i]);
        job->problems += counter_in(json, "problems");
        job->measure_microseconds += counter_in(json, "measure_microseconds");
    }
    free(json);
}

/* One file for each process of the job that used cuDNN; of a killed one it is the live file. */
static void collect_statistics(run_t *run, size_t number)
{
    tool_job_t *const job = &run->jobs[number];
    char prefix[32];
    const int length = snprintf(prefix, sizeof prefix, "%zu.", number);
    DIR *const directory = opendir(run->directory);
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[PATH_MAX];
        if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", run->directory, entry->d_name);
        add_statistics(job, path);
        if (job->statistics_file != NULL && !pass_on(job, path, entry->d_name + length))
            run->failed = true;
        unlink(path);
    }
    closedir(directory);
}

/* ---- in the tool ---- */

static bool start(run_t *run, size_t slot)
{
    const size_t number = run->next++;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        become(run, slot, number);
    if (child < 0) {
        tool_complain("cannot start %s: %s", run->jobs[number].title, strerror(errno));
        return false;
    }
    run->slots[slot].process = child;
    run->slots[slot].job = number;
    return true;
}

static void tell(const run_t *run, size_t slot, int status)
{
    const tool_job_t *const job = &run->jobs[run->slots[slot].job];
    const char *const on = run->devices->count > 0 ? " on device " : "";
    const char *const device = run->devices->count > 0 ? run->devices->visible[slot] : "";
    if (WIFSIGNALED(status))
        tool_complain("%s%s%s: ended by signal %d (%s)", job->title, on, device, WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0)
        tool_complain("%s%s%s: exited with %d", job->title, on, device, WEXITSTATUS(status));
    else if (job->calls == 0)
        tool_complain("%s%s%s: the library saw no convolution; see `microdnn doctor -- PROGRAM`",
                      job->title, on, device);
    printf("%s%s%s: %" PRIu64 " problems, %.1f s measuring\n", job->title, on, device,
           job->problems, (double)job->measure_microseconds / 1e6);
}

static void finish(run_t *run, pid_t child, int status)
{
    for (size_t slot = 0; slot < run->slot_count; slot++) {
        if (run->slots[slot].process != child)
            continue;
        tool_job_t *const job = &run->jobs[run->slots[slot].job];
        collect_statistics(run, run->slots[slot].job);
        job->done = WIFEXITED(status) && WEXITSTATUS(status) == 0 && job->calls > 0;
        run->failed = run->failed || !job->done;
        run->interrupted =
            run->interrupted ||
            (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT));
        tell(run, slot, status);
        run->slots[slot].process = 0;
    }
}

static size_t fill_slots(run_t *run)
{
    size_t busy = 0;
    for (size_t slot = 0; slot < run->slot_count; slot++) {
        while (run->slots[slot].process == 0 && run->next < run->job_count && !run->interrupted)
            run->failed = !start(run, slot) || run->failed;
        busy += run->slots[slot].process != 0;
    }
    return busy;
}

bool tool_jobs_run(tool_job_t *jobs, size_t job_count, const tool_devices_t *devices,
                   const char *directory)
{
    /* What interrupts the programs must not keep the tool from telling what they did. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    run_t run = {.jobs = jobs,
                 .job_count = job_count,
                 .devices = devices,
                 .directory = directory,
                 .slot_count = devices->count > 0 ? devices->count : 1};
    sigaction(SIGINT, &ignore, &run.interrupt_before);
    sigaction(SIGQUIT, &ignore, &run.quit_before);
    while (fill_slots(&run) > 0) {
        int status;
        const pid_t child = waitpid(-1, &status, 0);
        if (child > 0)
            finish(&run, child, status);
        else if (errno != EINTR)
            break;
    }
    sigaction(SIGINT, &run.interrupt_before, NULL);
    sigaction(SIGQUIT, &run.quit_before, NULL);
    return !run.failed && !run.interrupted;
}
