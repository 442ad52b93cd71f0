/* microdnn top: the processes that run under the library, from their live statistics. */
#include "scripts/microdnn.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/live_files.h"
#include "config/numbers.h"
#include "config/statistics_file.h"
#include "config/memory_statistics_print.h"
#include "config/text_output.h"

static const char usage[] =
    "usage: microdnn top [--once] [--every SECONDS] [--json] [--clean]\n"
    "\n"
    "Shows the user's programs that run under the library with a memory budget or statistics:\n"
    "for each GPU the budget, what is in device memory and what the program has, what was copied\n"
    "to the host and back, the time of an iteration, and the state of the plan. A program that "
    "was\n"
    "killed is shown as ended, until --clean forgets it; `microdnn stats FILE` shows all of it.\n"
    "\n"
    "  --once            show it once (on a terminal it is shown again and again)\n"
    "  --every SECONDS   how often (2)\n"
    "  --json            JSON, once\n"
    "  --clean           forget programs that have ended\n"
    "\n"
    "Exit status: 0 shown, also if nothing runs, 1 trouble, 2 wrong usage.\n";

typedef struct top_options {
    bool once, json, clean, help;
    int64_t seconds;
} top_options_t;

/* One process. */
typedef struct seen {
    mdnn_statistics_header_t header;
    mdnn_memory_statistics_t memory[MDNN_DEVICES];
    bool has_memory[MDNN_DEVICES];
    bool runs;
} seen_t;

static bool see(const mdnn_live_file_t *file, seen_t *seen)
{
    if (mdnn_statistics_read_memory(file->path, &seen->header, seen->memory, seen->has_memory) !=
        MDNN_STATUS_OK)
        return false;
    seen->runs = mdnn_live_process_runs(file->process, seen->header.process_start);
    return true;
}

typedef struct cell {
    char text[MDNN_NUMBER_BYTES];
} cell_t;

static cell_t size_of(uint64_t bytes)
{
    cell_t cell;
    mdnn_format_size_rounded(bytes, cell.text, sizeof cell.text);
    return cell;
}

static cell_t ms_of(double ms)
{
    cell_t cell = {"-"};
    if (ms > 0)
        mdnn_format_decimal(ms, 1, false, cell.text, sizeof cell.text);
    return cell;
}

static void print_row(const char *process, const char *program, const char *gpu,
                      const mdnn_memory_statistics_t *numbers, const char *state)
{
    printf("%8s %-15.15s %3s %10s %10s %10s %10s %10s %9s  %s\n", process, program, gpu,
           numbers ? size_of(numbers->budget_bytes).text : "-",
           numbers ? size_of(numbers->resident_bytes).text : "-",
           numbers ? size_of(numbers->live_bytes).text : "-",
           numbers ? size_of(numbers->out_bytes).text : "-",
           numbers ? size_of(numbers->in_bytes).text : "-",
           numbers ? ms_of(numbers->round_ms).text : "-", state);
}

static void print_text(const mdnn_live_file_t *file, const seen_t *seen)
{
    char process[24], gpu[8];
    bool any = false;
    snprintf(process, sizeof process, "%ld", (long)file->process);
    for (int device = 0; device < MDNN_DEVICES; device++) {
        const mdnn_memory_statistics_t *const numbers = &seen->memory[device];
        if (!seen->has_memory[device])
            continue;
        snprintf(gpu, sizeof gpu, "%d", device);
        print_row(any ? "" : process, any ? "" : seen->header.program, gpu, numbers,
                  seen->runs ? numbers->plan_state : "ended");
        any = true;
    }
    if (!any)
        print_row(process, seen->header.program, "-", NULL, seen->runs ? "no budget" : "ended");
    if (!seen->runs)
        printf("%8s microdnn stats %s\n", "", file->path);
}

static void print_json(const mdnn_live_file_t *file, const seen_t *seen, bool first)
{
    const char *before = "";
    printf("%s\n {\"process\": %ld, \"program\": ", first ? "" : ",", (long)file->process);
    mdnn_print_json_text(seen->header.program, stdout);
    printf(", \"runs\": %s, \"started\": %" PRId64 ", \"published\": %" PRId64 ", \"file\": ",
           seen->runs ? "true" : "false", seen->header.started, seen->header.published);
    mdnn_print_json_text(file->path, stdout);
    fputs(", \"memory\": [", stdout);
    for (int device = 0; device < MDNN_DEVICES; device++) {
        if (!seen->has_memory[device])
            continue;
        fputs(before, stdout);
        mdnn_memory_statistics_print_json(&seen->memory[device], device, stdout);
        before = ", ";
    }
    fputs("]}", stdout);
}

static void show_all(const char *folder, const top_options_t *options)
{
    static seen_t seen; /* large */
    mdnn_live_file_t *files;
    const size_t count = mdnn_live_files_list(folder, &files);
    size_t shown = 0;
    if (options->json)
        fputs("{\"microdnn_top\": 1, \"processes\": [", stdout);
    else
        printf("%8s %-15s %3s %10s %10s %10s %10s %10s %9s  %s\n", "PROCESS", "PROGRAM", "GPU",
               "BUDGET", "RESIDENT", "HAS", "OUT", "IN", "MS/ITER", "PLAN");
    for (size_t i = 0; i < count; i++) {
        if (!see(&files[i], &seen))
            continue;
        if (options->clean && !seen.runs) {
            mdnn_live_file_remove(&files[i]);
            continue;
        }
        if (options->json)
            print_json(&files[i], &seen, shown == 0);
        else
            print_text(&files[i], &seen);
        shown++;
    }
    if (options->json)
        puts("]}");
    else if (shown == 0)
        puts("nothing runs under the library with a memory budget or statistics");
    free(files);
}

static bool take_options(int argc, char **argv, top_options_t *options)
{
    static const struct option long_options[] = {
        {"once", no_argument, NULL, 'o'}, {"every", required_argument, NULL, 'e'},
        {"json", no_argument, NULL, 'j'}, {"clean", no_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;) {
        if (choice == '?')
            return false;
        options->once = options->once || choice == 'o';
        options->json = options->json || choice == 'j';
        options->clean = options->clean || choice == 'c';
        options->help = options->help || choice == 'h';
        if (choice == 'e' && (mdnn_parse_integer(optarg, &options->seconds) != MDNN_STATUS_OK ||
                              options->seconds < 1 || options->seconds > 86400)) {
            tool_complain("--every: '%s' is not a number of seconds from 1 to 86400", optarg);
            return false;
        }
    }
    if (optind != argc)
        tool_complain("top: '%s' is one argument too many", argv[optind]);
    return optind == argc;
}

int tool_top(int argc, char **argv)
{
    top_options_t options = {.seconds = 2};
    if (!take_options(argc, argv, &options)) {
        fputs("Try `microdnn top --help`.\n", stderr);
        return TOOL_USAGE;
    }
    if (options.help) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    const char *const folder = tool_exported_options()->memory_registry;
    const bool repeats = !options.once && !options.json && isatty(STDOUT_FILENO);
    if (*folder == '\0') {
        tool_complain("top: [memory] registry is empty, so programs cannot be found");
        return TOOL_TROUBLE;
    }
    do {
        if (repeats)
            fputs("\033[H\033[J", stdout);
        show_all(folder, &options);
        if (tool_finish_output(TOOL_OK) != TOOL_OK)
            return TOOL_TROUBLE;
        if (repeats)
            (void)sleep((unsigned)options.seconds);
    } while (repeats);
    return TOOL_OK;
}
