/* What shells complete: scripts/completion.bash asks the tool for its own tables. */
#include "scripts/microdnn.h"

#include <stdlib.h>
#include <string.h>

#include "config/options_table.h"

bool tool_wants_list(int argc, char **argv)
{
    return argc == 2 && strcmp(argv[1], "--list-options") == 0;
}

void tool_list_option(const char *name, bool takes_value, const char *const *choices)
{
    printf("--%s%s", name, takes_value ? "=" : "");
    for (size_t i = 0; choices != NULL && choices[i] != NULL; i++)
        printf("%s%s", i > 0 ? "," : "", choices[i]);
    putchar('\n');
}

int tool_next_option(int argc, char **argv, const char *letters, const struct option *options)
{
    if (!tool_wants_list(argc, argv)) {
        char shown[64], *const name = argv[0];
        snprintf(shown, sizeof shown, "microdnn %s", name);
        argv[0] = shown; /* with which getopt's messages begin */
        const int choice = getopt_long(argc, argv, letters, options, NULL);
        argv[0] = name;
        return choice;
    }
    for (; options->name != NULL; options++)
        tool_list_option(options->name, options->has_arg == required_argument, NULL);
    exit(tool_finish_output(TOOL_OK));
}
