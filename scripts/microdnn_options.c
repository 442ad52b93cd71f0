/* docs/configuration.md, made from options.def. */
#include "scripts/microdnn.h"

#include <string.h>

#include "config/options_table.h"

static const char introduction[] =
    "# Configuration\n"
    "\n"
    "This page is made by `make docs` from `config/options.def`; do not edit it.\n"
    "\n"
    "Every option has a section and a key. Its value comes from the last of these that names it:\n"
    "\n"
    "1. the default below;\n"
    "2. `/etc/microdnn.ini`;\n"
    "3. `$XDG_CONFIG_HOME/microdnn/microdnn.ini`, or `~/.config/microdnn/microdnn.ini`;\n"
    "4. the file that `$MICRODNN_CONFIG` names;\n"
    "5. the environment: the short name if there is one (that of the option of `microdnn run`), "
    "then "
    "`MICRODNN_<SECTION>_<KEY>`;\n"
    "6. the options of `microdnn run`.\n"
    "\n"
    "`microdnn run` sets the environment for one program; `microdnn config` shows every value and "
    "where it came from. A mistake does not stop the program: one line names its place and the "
    "accepted values, and the option keeps the value that it had. The one exception is "
    "`memory.budget`: if a budget cannot be read or kept, the first allocation fails as out of "
    "memory, unless `memory.strict = no`. Set-uid programs read no environment.\n"
    "\n"
    "## Files\n"
    "\n"
    "```ini\n"
    "[convolution]\n"
    "workspace_limit = 64MiB   ; a comment\n"
    "```\n"
    "\n"
    "- A comment starts with `;` or `#`, at the beginning of a line or after white space.\n"
    "- A line sets one key and has at most 197 bytes without its comment; white space around the "
    "key and the value means nothing.\n"
    "- If several lines of a file set the same key, the first one with a valid value counts.\n"
    "- **Sizes** are bytes, or a number with `k`, `m`, `g`, `t` (also `KB`, `KiB`, ...; in any "
    "case; all are powers of 1024). A number with a unit may have a fraction: `1.5g`. `none` means "
    "no limit. `memory.budget` is also taken as a share of the device's memory: `80%`.\n"
    "- **Truth values** are `true`, `yes`, `on`, `1`, `false`, `no`, `off`, `0`.\n"
    "- **Choices** are accepted in any case.\n"
    "- **File names** may hold `%p` (process id), `%h` (host name) and `%%`.\n"
    "\n"
    "An empty variable in the environment counts as not set, unless the option is a text.\n";

/* A bar would end the cell of a table. */
static void print_cell(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void print_row(const mdnn_options_t *defaults, mdnn_option_id_t id, FILE *out)
{
    char value[MDNN_OPTION_STRING_BYTES], accepted[MDNN_ACCEPTED_BYTES];
    char name[MDNN_ENVIRONMENT_NAME_BYTES];
    mdnn_options_format(defaults, id, value, sizeof value);
    mdnn_option_accepted(id, accepted, sizeof accepted);
    mdnn_option_environment_name(id, name, sizeof name);
    fprintf(out, "| `%s` | %s%s%s | ", mdnn_option_table[id].key, *value != '\0' ? "`" : "",
            *value != '\0' ? value : "empty", *value != '\0' ? "`" : "");
    print_cell(accepted, out);
    fputs(" | ", out);
    print_cell(mdnn_option_table[id].help, out);
    const char *const alias = mdnn_option_alias(id);
    fprintf(out, " | %s%s%s`%s` |\n", alias != NULL ? "`" : "", alias != NULL ? alias : "",
            alias != NULL ? "`, " : "", name);
}

void tool_print_options_page(FILE *out)
{
    mdnn_options_t defaults;
    mdnn_options_set_defaults(&defaults);
    fputs(introduction, out);
    for (int section = 0; section < MDNN_SECTION_COUNT; section++) {
        const mdnn_section_info_t *const about = &mdnn_section_table[section];
        fprintf(out, "\n## [%s]\n\n%s\n", about->name, about->help);
        bool first = true;
        for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
            if (strcmp(mdnn_option_table[i].section, about->name) != 0)
                continue;
            if (first)
                fputs("\n| key | default | accepted | meaning | environment |\n"
                      "|---|---|---|---|---|\n",
                      out);
            first = false;
            print_row(&defaults, (mdnn_option_id_t)i, out);
        }
    }
}
