/* Options, the files that they name, and variables of others that decide what the library can do. */
#include "scripts/microdnn_doctor.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"
#include "config/option_checks.h"
#include "config/options_table.h"
#include "optimizer/database.h"
#include "optimizer/database_place.h"

static void report_idle(void *context, const char *line)
{
    (void)context;
    doctor_find(DOCTOR_WARNING, "configuration", "%s", line);
}

void doctor_look_at_configuration(doctor_t *doctor)
{
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_options_load(&options, tool_report, &messages);
    doctor->options = &options;
    doctor->budget = options.memory_budget != MDNN_SIZE_NONE && !options.general_disable;
    if (messages > 0)
        doctor_find(DOCTOR_WARNING, "configuration",
                    "%u mistakes, see above; `microdnn config` shows what counts", messages);
    else if (options.general_disable)
        doctor_find(DOCTOR_WARNING, "configuration", "the library is switched off (%s)",
                    options.origin[MDNN_OPTION_general_disable]);
    else
        doctor_find(DOCTOR_FINE, "configuration", "no mistakes");
    if (options.memory_strict && options.unread_budget[0] != '\0')
        doctor_find(DOCTOR_BROKEN, "configuration",
                    "a budget for memory cannot be read (%s): the first allocation fails",
                    options.unread_budget);
    mdnn_options_report_idle(&options, false, report_idle, NULL);
    mdnn_options_report_rounded(&options, report_idle, NULL);
}

/* ---- files ---- */

static void look_at_file(const mdnn_options_t *options, mdnn_option_id_t id, const char *pattern)
{
    char path[PATH_MAX];
    const char *const trouble = tool_file_trouble(pattern, path, sizeof path);
    if (trouble != NULL)
        doctor_find(DOCTOR_WARNING, "files", "%s.%s: %s cannot be written: %s (%s)",
                    mdnn_option_table[id].section, mdnn_option_table[id].key, path, trouble,
                    options->origin[id]);
}

void doctor_look_at_files(const doctor_t *doctor)
{
    const mdnn_options_t *const options = doctor->options;
    look_at_file(options, MDNN_OPTION_general_log_file, options->general_log_file);
    if (options->general_stats != MDNN_STATISTICS_OFF)
        look_at_file(options, MDNN_OPTION_general_stats_file, options->general_stats_file);
    if (doctor->budget)
        look_at_file(options, MDNN_OPTION_memory_trace, options->memory_trace);
}

/* ---- the database of measured costs ---- */

/* Whether a place is given; the findings say why not. */
static bool has_place(const doctor_t *doctor, mdnn_database_t *database)
{
    const mdnn_options_t *const options = doctor->options;
    if (mdnn_database_init_place(database, options->cache_file, NULL) != MDNN_STATUS_OK) {
        doctor_find(DOCTOR_WARNING, "cache", "%s is too long", options->cache_file);
        return false;
    }
    if (*database->path != '\0')
        return true;
    char path[MDNN_DATABASE_PATH_BYTES];
    const mdnn_status_t status = mdnn_database_automatic_path(path, sizeof path);
    if (!database->automatic)
        doctor_find(DOCTOR_FINE, "cache", "no measurement is kept (%s)",
                    options->origin[MDNN_OPTION_cache_file]);
    else if (status == MDNN_STATUS_UNSUPPORTED)
        doctor_find(DOCTOR_WARNING, "cache",
                    "no measurement is kept: the folder of %s belongs to another user", path);
    else
        doctor_find(DOCTOR_WARNING, "cache",
                    "no measurement is kept: neither XDG_CACHE_HOME nor HOME names a folder");
    return false;
}

/* The folder that exists of an automatic path; the others are made in it. */
static const char *folder_trouble(const char *path)
{
    char folder[MDNN_DATABASE_PATH_BYTES];
    struct stat found;
    snprintf(folder, sizeof folder, "%s", path);
    while (stat(dirname(folder), &found) != 0 && errno == ENOENT)
        continue;
    if (stat(folder, &found) != 0)
        return strerror(errno);
    return !S_ISDIR(found.st_mode)            ? strerror(ENOTDIR)
           : access(folder, W_OK | X_OK) == 0 ? NULL
                                              : strerror(errno);
}

void doctor_look_at_cache(const doctor_t *doctor)
{
    mdnn_database_t database;
    tool_database_size_t size;
    char path[PATH_MAX];
    if (!has_place(doctor, &database))
        return;
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    const mdnn_status_t status = tool_measure_database(database.path, 1000, &size);
    const char *const trouble = database.automatic && status == MDNN_STATUS_NOT_FOUND
                                    ? folder_trouble(database.path)
                                    : tool_file_trouble(database.path, path, sizeof path);
    if (trouble != NULL)
        doctor_find(DOCTOR_WARNING, "cache", "%s cannot be written: %s", database.path, trouble);
    else if (status == MDNN_STATUS_OK)
        doctor_find(DOCTOR_FINE, "cache", "%s knows %lld convolutions", database.path,
                    (long long)size.problems);
    else if (status == MDNN_STATUS_NOT_FOUND)
        doctor_find(DOCTOR_FINE, "cache", "%s: the first run that measures makes it",
                    database.path);
    else
        doctor_find(DOCTOR_WARNING, "cache", "%s: %s", database.path,
                    tool_database_trouble(status));
}
