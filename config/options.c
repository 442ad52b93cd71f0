/* The order of the sources, and how options are shown. */
#include "config/options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config/options_reader.h"

/* $XDG_CONFIG_HOME/microdnn/microdnn.ini or ~/.config/microdnn/microdnn.ini. The XDG rules require
 * that a relative XDG_CONFIG_HOME is ignored. */
static mdnn_status_t user_path(char *path, size_t bytes)
{
    const char *const xdg = secure_getenv("XDG_CONFIG_HOME");
    const char *const home = secure_getenv("HOME");
    int length = 0;
    if (xdg != NULL && *xdg == '/')
        length = snprintf(path, bytes, "%s/microdnn/microdnn.ini", xdg);
    else if (home != NULL && *home == '/')
        length = snprintf(path, bytes, "%s/.config/microdnn/microdnn.ini", home);
    return length > 0 && (size_t)length < bytes ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

void mdnn_options_load_from(mdnn_options_t *options, const char *system_path,
                            mdnn_options_report_t report, void *context)
{
    mdnn_options_set_defaults(options);
    (void)mdnn_options_load_file(options, system_path, report, context);
    char path[PATH_MAX];
    if (user_path(path, sizeof path) == MDNN_STATUS_OK)
        (void)mdnn_options_load_file(options, path, report, context);
    const char *const named = secure_getenv("MICRODNN_CONFIG");
    if (named != NULL && *named != '\0' &&
        mdnn_options_load_file(options, named, report, context) == MDNN_STATUS_NOT_FOUND) {
        mdnn_options_reader_t reader = {.options = options,
                                        .report = report,
                                        .context = context,
                                        .place = "environment MICRODNN_CONFIG"};
        mdnn_reader_say(&reader,
                        "there is no file %.256s; accepted: the path of an INI file; "
                        "ignored",
                        named);
    }
    mdnn_options_load_environment(options, report, context);
}

void mdnn_options_load(mdnn_options_t *options, mdnn_options_report_t report, void *context)
{
    mdnn_options_load_from(options, "/etc/microdnn.ini", report, context);
}

/* Whether an INI file can hold the value: see the trimming and the comments of options_ini.c. */
static bool fits_a_file(const char *key, const char *value)
{
    const size_t length = strlen(value);
    if (strlen(key) + 1 + length > MDNN_INI_LINE_BYTES_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        const bool blank = value[i] == ' ' || value[i] == '\t';
        if (((unsigned char)value[i] < 0x20 && !blank) || value[i] == 0x7f)
            return false;
        if (blank && (i == 0 || i + 1 == length || value[i + 1] == ';' || value[i + 1] == '#'))
            return false;
    }
    return true;
}

static void print_option(const mdnn_options_t *options, mdnn_option_id_t id, FILE *out)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    char value[MDNN_OPTION_STRING_BYTES];
    mdnn_options_format(options, id, value, sizeof value);
    const bool fits = fits_a_file(info->key, value);
    /* After a blank the value would be a comment. */
    const bool roomy = strlen(info->key) + 3 + strlen(value) <= MDNN_INI_LINE_BYTES_MAX &&
                       *value != ';' && *value != '#';
    const int written = fprintf(out, "%s%s%s", fits ? "" : "; ", info->key, roomy ? " = " : "=");
    for (const char *c = value; *c != '\0'; c++)
        fputc(((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f ? '?' : *c, out);
    const int used = written + (int)strlen(value);
    fprintf(out, "%*s ; %s%s\n", used < 34 ? 34 - used : 0, "", options->origin[id],
            fits ? "" : " (not possible in a file)");
}

void mdnn_options_print(const mdnn_options_t *options, FILE *out)
{
    for (int section = 0; section < MDNN_SECTION_COUNT; section++) {
        const mdnn_section_info_t *const about = &mdnn_section_table[section];
        fprintf(out, "%s[%s] ; %s\n", section > 0 ? "\n" : "", about->name, about->help);
        for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
            if (strcmp(mdnn_option_table[i].section, about->name) == 0)
                print_option(options, (mdnn_option_id_t)i, out);
        }
    }
}
