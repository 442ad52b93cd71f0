/* microdnn report: a page of what a run did. The page is made by the helper microdnn-report (scripts/report), which is
 * Python and draws with matplotlib; here is the command line. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scripts/microdnn.h"

static const char usage[] =
    "usage: microdnn report STATISTICS... -o FILE [options]\n"
    "\n"
    "Makes one page, which needs no network and no other file, of what a run did: its verdict, "
    "memory,\n"
    "moves, where the time went, other budgets, convolutions. STATISTICS are files of --stats "
    "json, or\n"
    "live files; of several processes the page shows them side by side.\n"
    "\n"
    "  -o, --output FILE    the page, such as run.html\n"
    "  --trace FILE         adds what --trace wrote; of several processes in their order\n"
    "  --record FILE        adds what --record wrote; of several processes in their order\n"
    "  --costs FILE         adds the configurations of each convolution that are worth it, from\n"
    "                       this database of measured costs (option cache.file of the run)\n"
    "  --figures FOLDER     also writes each figure as SVG and PNG there\n"
    "\n"
    "Needs Python 3.8 and its package matplotlib 3.6, or newer ones.\n"
    "\n"
    "Exit status: 0 done, 1 something cannot be read or written, 2 wrong usage.\n";

/* `path` has room for PATH_MAX. */
static bool find_script(char *path)
{
    if (tool_find_helper("microdnn-report", path))
        return true;
    tool_complain("there is no microdnn-report beside the library; install microdnn again");
    return false;
}

static void run_script(char *script, char **arguments, size_t count)
{
    char tool[PATH_MAX], **const all = calloc(count + 3, sizeof *all);
    const ssize_t length = readlink("/proc/self/exe", tool, sizeof tool - 1);
    if (all == NULL || length < 0)
        return;
    tool[length] = '\0';
    all[0] = (char *)(uintptr_t) "python3";
    all[1] = script;
    memcpy(all + 2, arguments, count * sizeof *all);
    if (setenv("MICRODNN_TOOL", tool, 1) == 0)
        execvp(all[0], all);
    tool_complain("cannot run python3: %s", strerror(errno));
    free(all);
}

FILE *tool_draw_advice(const char *file, pid_t *process)
{
    char script[PATH_MAX];
    int ends[2];
    if (!find_script(script) || pipe(ends) != 0)
        return NULL;
    *process = fork();
    if (*process == 0) {
        char *arguments[] = {(char *)(uintptr_t) "advice", (char *)(uintptr_t)file};
        if (dup2(ends[0], STDIN_FILENO) >= 0 && close(ends[0]) == 0 && close(ends[1]) == 0)
            run_script(script, arguments, 2);
        _exit(TOOL_TROUBLE);
    }
    close(ends[0]);
    FILE *const to_script = *process > 0 ? fdopen(ends[1], "w") : NULL;
    if (to_script == NULL)
        close(ends[1]);
    return to_script;
}

bool tool_end_drawing(FILE *to_script, pid_t process)
{
    int status = 0;
    const bool written = fclose(to_script) == 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 && written;
}

/* The script's arguments; `--` keeps names of files apart from options. */
typedef struct arguments {
    char **at;
    size_t count;
} arguments_t;

static void add(arguments_t *arguments, const char *text)
{
    arguments->at[arguments->count++] = (char *)(uintptr_t)text;
}

static void add_option(arguments_t *arguments, const char *option, const char *value)
{
    add(arguments, option);
    add(arguments, value);
}

/* TOOL_OK, or the exit status after a complaint; with `help` wanted, neither. */
static int take_options(int argc, char **argv, arguments_t *arguments, bool *help)
{
    static const struct option long_options[] = {{"output", required_argument, NULL, 'o'},
                                                 {"trace", required_argument, NULL, 't'},
                                                 {"record", required_argument, NULL, 'r'},
                                                 {"costs", required_argument, NULL, 'c'},
                                                 {"figures", required_argument, NULL, 'f'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    bool has_output = false;
    for (int choice; (choice = tool_next_option(argc, argv, "o:h", long_options)) != -1;) {
        if (choice == '?')
            return TOOL_USAGE;
        *help |= choice == 'h';
        has_output |= choice == 'o';
        if (choice != 'h')
            add_option(arguments,
                       choice == 'o'   ? "--output"
                       : choice == 't' ? "--trace"
                       : choice == 'r' ? "--record"
                       : choice == 'c' ? "--costs"
                                       : "--figures",
                       optarg);
    }
    if (*help || (has_output && optind < argc))
        return TOOL_OK;
    tool_complain(optind == argc ? "report: which statistics?"
                                 : "report: -o FILE says where the page goes");
    return TOOL_USAGE;
}

int tool_make_report(int argc, char **argv)
{
    char script[PATH_MAX];
    arguments_t arguments = {.at = calloc(2 * (size_t)argc + 4, sizeof(char *))};
    bool help = false;
    if (arguments.at == NULL)
        return TOOL_TROUBLE;
    add(&arguments, "report");
    const int status = take_options(argc, argv, &arguments, &help);
    if (status != TOOL_OK)
        fputs("Try `microdnn report --help`.\n", stderr);
    else if (help)
        fputs(usage, stdout);
    if (status != TOOL_OK || help) {
        free(arguments.at);
        return status != TOOL_OK ? status : tool_finish_output(TOOL_OK);
    }
    add(&arguments, "--");
    for (int i = optind; i < argc; i++)
        add(&arguments, argv[i]);
    if (find_script(script))
        run_script(script, arguments.at, arguments.count);
    free(arguments.at);
    return TOOL_TROUBLE;
}
