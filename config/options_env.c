/* Options from the environment: MICRODNN_<SECTION>_<KEY> and a few short names. */
#include "config/options_reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const struct {
    const char *name;
    mdnn_option_id_t id;
} aliases[] = {
    {"MICRODNN_DISABLE", MDNN_OPTION_general_disable},
    {"MICRODNN_LOG", MDNN_OPTION_general_log},
    {"MICRODNN_LOG_FILE", MDNN_OPTION_general_log_file},
    {"MICRODNN_STATS", MDNN_OPTION_general_stats},
    {"MICRODNN_STATS_FILE", MDNN_OPTION_general_stats_file},
    {"MICRODNN_POLICY", MDNN_OPTION_convolution_policy},
    {"MICRODNN_MEMORY", MDNN_OPTION_memory_budget},
    {"MICRODNN_WORKSPACE_LIMIT", MDNN_OPTION_convolution_workspace_limit},
    {"MICRODNN_BATCH_SIZES", MDNN_OPTION_convolution_batch_sizes},
    {"MICRODNN_TRACE", MDNN_OPTION_memory_trace},
    {"MICRODNN_RECORD", MDNN_OPTION_memory_record},
};
enum { ALIAS_COUNT = sizeof aliases / sizeof *aliases };

static const char prefix[] = "MICRODNN_";

const char *mdnn_option_alias(mdnn_option_id_t id)
{
    for (int i = 0; i < ALIAS_COUNT; i++) {
        if (aliases[i].id == id)
            return aliases[i].name;
    }
    return NULL;
}

void mdnn_option_environment_name(mdnn_option_id_t id, char *buffer, size_t bytes)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    snprintf(buffer, bytes, "%s%s_%s", prefix, info->section, info->key);
    for (; *buffer != '\0'; buffer++) {
        if (*buffer >= 'a' && *buffer <= 'z')
            *buffer = (char)(*buffer - 32);
    }
}

static void apply_variable(mdnn_options_reader_t *reader, mdnn_option_id_t id, const char *name)
{
    const char *const value = secure_getenv(name);
    /* Shells switch a variable off by emptying it; only for a text is that a value. */
    if (value == NULL || (*value == '\0' && mdnn_option_table[id].type != MDNN_OPTION_STRING))
        return;
    char place[MDNN_ORIGIN_BYTES];
    snprintf(place, sizeof place, "environment %s", name);
    reader->place = place;
    (void)mdnn_reader_apply(reader, id, value);
    reader->place = NULL;
}

/* Names that other parts of the project read: the files' reader, `microdnn run`, the simulated GPU. */
static bool is_foreign_name(const char *name)
{
    static const char *const names[] = {"MICRODNN_CONFIG", "MICRODNN_ALLOCATOR",
                                        "MICRODNN_LIBRARY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, "MICRODNN_SIM_", 13) == 0;
}

/* True if `name` is one of our variables; otherwise `best` becomes the one that is probably meant,
 * or "". */
static bool is_known_name(const char *name, char best[MDNN_ENVIRONMENT_NAME_BYTES])
{
    mdnn_nearest_t nearest = {.wanted = name};
    char full[MDNN_OPTION_COUNT][MDNN_ENVIRONMENT_NAME_BYTES];
    if (is_foreign_name(name))
        return true;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        mdnn_option_environment_name((mdnn_option_id_t)i, full[i], sizeof full[i]);
        if (strcmp(full[i], name) == 0)
            return true;
    }
    for (int i = 0; i < ALIAS_COUNT; i++) {
        if (strcmp(aliases[i].name, name) == 0)
            return true;
    }
    for (int i = 0; i < MDNN_OPTION_COUNT; i++)
        mdnn_nearest_offer(&nearest, full[i]);
    for (int i = 0; i < ALIAS_COUNT; i++)
        mdnn_nearest_offer(&nearest, aliases[i].name);
    /* The common prefix is no sign of likeness. */
    const bool alike = nearest.best != NULL && nearest.distance <= 3;
    snprintf(best, MDNN_ENVIRONMENT_NAME_BYTES, "%s", alike ? nearest.best : "");
    return false;
}

static bool is_from_environment(const mdnn_options_reader_t *reader)
{
    static const char environment[] = "environment ";
    return strncmp(reader->options->origin[MDNN_OPTION_memory_budget], environment,
                   sizeof environment - 1) == 0;
}

static void warn_unknown_names(mdnn_options_reader_t *reader)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, prefix, sizeof prefix - 1) != 0)
            continue;
        char place[MDNN_ORIGIN_BYTES], name[MDNN_ENVIRONMENT_NAME_BYTES];
        char best[MDNN_ENVIRONMENT_NAME_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)length, *entry);
        if (is_known_name(name, best))
            continue;
        snprintf(place, sizeof place, "environment %s", name);
        reader->place = place;
        mdnn_reader_say(reader,
                        "unknown variable%s%s%s; accepted: MICRODNN_<SECTION>_<KEY> as `microdnn "
                        "config --markdown` lists them; ignored",
                        *best != '\0' ? ", did you mean " : "", best, *best != '\0' ? "?" : "");
        if ((strcmp(best, "MICRODNN_MEMORY_BUDGET") == 0 || strcmp(best, "MICRODNN_MEMORY") == 0) &&
            !is_from_environment(reader))
            mdnn_reader_note_unread_budget(reader);
        reader->place = NULL;
    }
}

void mdnn_options_load_environment(mdnn_options_t *options, mdnn_options_report_t report,
                                   void *context)
{
    if (getauxval(AT_SECURE) != 0)
        return;
    mdnn_options_reader_t reader = {.options = options, .report = report, .context = context};
    for (int i = 0; i < ALIAS_COUNT; i++)
        apply_variable(&reader, aliases[i].id, aliases[i].name);
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        char name[MDNN_ENVIRONMENT_NAME_BYTES];
        mdnn_option_environment_name((mdnn_option_id_t)i, name, sizeof name);
        apply_variable(&reader, (mdnn_option_id_t)i, name);
    }
    warn_unknown_names(&reader);
}
