/* microdnn advise: what a recorded program would cost with other budgets and on other GPUs, without a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/numbers.h"
#include "scripts/microdnn.h"
#include "scripts/microdnn_advice.h"

static const char usage[] =
    "usage: microdnn advise RECORD [options]\n"
    "\n"
    "Predicts how long an iteration of a program takes with other budgets and on other GPUs. "
    "RECORD\n"
    "is a file of `microdnn run --memory SIZE --record RECORD -- program`. No GPU is needed.\n"
    "\n"
    "  --budget SIZE        this budget; may be given several times (from all that the program\n"
    "                       asks for down to the least)\n"
    "  --gpu NAME           this GPU; may be given several times; all: every one that is known "
    "(the\n"
    "                       default if the record's own is known); none: no other GPU\n"
    "  --arithmetic KIND    what scales times between GPUs: fp32, tf32 or fp16 (fp32)\n"
    "  --batch IMAGES       the batch of the recorded run: also says which batches fit\n"
    "  --measured MS        how long an iteration of the recorded run took; predictions are\n"
    "                       corrected so that they agree with it\n"
    "  --json               instead of a table\n"
    "  --iteration          with --json: memory and moves of one iteration in the run's budget\n"
    "  --plot FILE          also draws time against budget, as .svg, .png or .pdf; needs Python "
    "3.8 and\n"
    "                       its package matplotlib 3.6, or newer ones\n"
    "\n"
    "Exit status: 0 done, 1 the record cannot be read or drawn, 2 wrong usage.\n";

enum { BUDGETS_MAX = 64, GPUS_MAX = 64, RECORD_BYTES_MAX = 1 << 30 };

typedef struct request {
    const char *path, *plot;
    uint64_t budgets[BUDGETS_MAX];
    size_t budget_count;
    const tool_gpu_t *gpus[GPUS_MAX];
    size_t gpu_count;
    bool all_gpus, no_gpus, json, iteration, help;
    tool_arithmetic_t arithmetic;
    uint32_t batch;
    double measured_ms; /* 0: not said */
} request_t;

/* ---- the command line ---- */

static bool take_budget(request_t *request, const char *text)
{
    uint64_t bytes;
    if (mdnn_parse_size(text, &bytes) != MDNN_STATUS_OK || bytes == 0 || bytes == UINT64_MAX) {
        tool_complain("--budget: '%s' is not a size; accepted: 6GiB, 800m", text);
        return false;
    }
    if (request->budget_count == BUDGETS_MAX) {
        tool_complain("--budget: these are too many");
        return false;
    }
    request->budgets[request->budget_count++] = bytes;
    return true;
}

static bool take_gpu(request_t *request, const char *name)
{
    if (strcmp(name, "all") == 0 || strcmp(name, "none") == 0) {
        request->all_gpus = strcmp(name, "all") == 0;
        request->no_gpus = !request->all_gpus;
        return true;
    }
    const tool_gpu_t *gpu = NULL;
    const size_t found = tool_gpus_like(name, &gpu);
    if (found != 1) {
        tool_complain("--gpu: '%s' is %s; known are:", name,
                      found == 0 ? "not known" : "not one of them only");
        for (size_t i = 0; tool_gpu_at(i); i++)
            fprintf(stderr, "  %s\n", tool_gpu_at(i)->name);
        return false;
    }
    if (request->gpu_count < GPUS_MAX)
        request->gpus[request->gpu_count++] = gpu;
    return true;
}

static bool take_arithmetic(request_t *request, const char *name)
{
    static const char *const names[TOOL_ARITHMETIC_COUNT] = {"fp32", "tf32", "fp16"};
    for (int i = 0; i < TOOL_ARITHMETIC_COUNT; i++)
        if (strcmp(name, names[i]) == 0) {
            request->arithmetic = (tool_arithmetic_t)i;
            return true;
        }
    tool_complain("--arithmetic: there is no '%s'; accepted: fp32, tf32, fp16", name);
    return false;
}

static bool take_batch(request_t *request, const char *text)
{
    int64_t images;
    if (mdnn_parse_integer(text, &images) != MDNN_STATUS_OK || images < 1 || images > 1 << 20) {
        tool_complain("--batch: '%s' is not a number of images", text);
        return false;
    }
    request->batch = (uint32_t)images;
    return true;
}

static bool take_measured(request_t *request, const char *text)
{
    if (mdnn_parse_decimal(text, &request->measured_ms) == MDNN_STATUS_OK &&
        request->measured_ms > 0)
        return true;
    tool_complain("--measured: '%s' is not a time in milliseconds", text);
    return false;
}

static bool take_option(request_t *request, int choice, const char *value)
{
    switch (choice) {
    case 'b':
        return take_budget(request, value);
    case 'g':
        return take_gpu(request, value);
    case 'a':
        return take_arithmetic(request, value);
    case 'n':
        return take_batch(request, value);
    case 'm':
        return take_measured(request, value);
    case 'j':
        request->json = true;
        return true;
    case 'i':
        request->iteration = true;
        return true;
    case 'p':
        request->plot = value;
        return true;
    case 'h':
        request->help = true;
        return true;
    default:
        return false; /* getopt has complained */
    }
}

static bool take_request(int argc, char **argv, request_t *request)
{
    static const struct option long_options[] = {{"budget", required_argument, NULL, 'b'},
                                                 {"gpu", required_argument, NULL, 'g'},
                                                 {"arithmetic", required_argument, NULL, 'a'},
                                                 {"batch", required_argument, NULL, 'n'},
                                                 {"measured", required_argument, NULL, 'm'},
                                                 {"json", no_argument, NULL, 'j'},
                                                 {"iteration", no_argument, NULL, 'i'},
                                                 {"plot", required_argument, NULL, 'p'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    for (int choice; (choice = tool_next_option(argc, argv, "h", long_options)) != -1;)
        if (!take_option(request, choice, optarg))
            return false;
    if (request->help)
        return true;
    if (optind + 1 != argc) {
        tool_complain(optind == argc ? "advise: which record?"
                                     : "advise: '%s' is one argument too many",
                      argv[argc - 1]);
        return false;
    }
    if (request->iteration && !request->json) {
        tool_complain("advise: --iteration goes with --json");
        return false;
    }
    request->path = argv[optind];
    return true;
}

/* ---- the record ---- */

/* The text need not end with a NUL. */
static void complain_of_format(const char *path, const char *text, size_t bytes, size_t line)
{
    static const char head[] = "microdnn-record ";
    char version[8] = "";
    if (bytes < sizeof head || memcmp(text, head, sizeof head - 1) != 0) {
        tool_complain("%s: this is not a record; `microdnn run --memory SIZE --record FILE -- "
                      "program` writes one",
                      path);
        return;
    }
    for (size_t i = 0; i < sizeof version - 1 && sizeof head - 1 + i < bytes; i++)
        version[i] = text[sizeof head - 1 + i];
    version[strspn(version, "0123456789")] = '\0';
    if (*version != '\0' && strcmp(version, MDNN_RECORD_VERSION) != 0)
        tool_complain("%s: version %s of a record; this microdnn reads version %s", path, version,
                      MDNN_RECORD_VERSION);
    else
        tool_complain("%s:%zu: the record is damaged", path, line);
}

static bool read_record(const char *path, mdnn_run_record_t *record)
{
    struct stat information;
    size_t line = 0;
    FILE *const in = fopen(path, "re");
    if (!in || fstat(fileno(in), &information) != 0 || !S_ISREG(information.st_mode)) {
        tool_complain("%s: %s", path, tool_why_unreadable(path, MDNN_STATUS_IO));
        if (in)
            fclose(in);
        return false;
    }
    const size_t room = information.st_size <= RECORD_BYTES_MAX ? (size_t)information.st_size : 0;
    char *const text = malloc(room + 1);
    const size_t bytes = text ? fread(text, 1, room, in) : 0;
    fclose(in);
    mdnn_status_t status =
        text ? mdnn_run_record_read(text, bytes, record, &line) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_BAD_FORMAT)
        complain_of_format(path, text, bytes, line);
    else if (status != MDNN_STATUS_OK)
        tool_complain("%s: %s", path, mdnn_status_string(status));
    free(text);
    return status == MDNN_STATUS_OK;
}

/* ---- advice ---- */

static mdnn_status_t add_gpus(const request_t *request, tool_advice_t *advice)
{
    enum { CARD_GIB_MAX = 24 };
    const tool_gpu_t *const own = tool_gpu_named(advice->record->device_name);
    const bool all = request->all_gpus || (request->gpu_count == 0 && own);
    if (request->no_gpus)
        return MDNN_STATUS_OK;
    if (!own && (all || request->gpu_count > 0))
        tool_complain("nothing is known of '%s', so there is no comparison with other GPUs",
                      advice->record->device_name);
    if (!own)
        return MDNN_STATUS_OK;
    for (size_t i = 0; all && tool_gpu_at(i); i++)
        if (tool_gpu_at(i)->bytes <= (uint64_t)CARD_GIB_MAX << 30)
            MDNN_TRY(tool_advice_add_gpu(advice, own, tool_gpu_at(i)));
    for (size_t i = 0; !all && i < request->gpu_count; i++)
        MDNN_TRY(tool_advice_add_gpu(advice, own, request->gpus[i]));
    return MDNN_STATUS_OK;
}

static mdnn_status_t add_rows(const request_t *request, tool_advice_t *advice)
{
    advice->batch = request->batch;
    advice->arithmetic = request->arithmetic;
    if (request->budget_count == 0)
        MDNN_TRY(tool_advice_add_budgets(advice));
    for (size_t i = 0; i < request->budget_count; i++)
        MDNN_TRY(tool_advice_add_budget(advice, request->budgets[i]));
    return add_gpus(request, advice);
}

static bool plot(const tool_advice_t *advice, const char *file)
{
    pid_t process;
    FILE *const to_script = tool_draw_advice(file, &process);
    if (!to_script)
        return false;
    const mdnn_status_t status = tool_advice_print_json(advice, false, to_script);
    return tool_end_drawing(to_script, process) && status == MDNN_STATUS_OK;
}

/* Without a factor the recorded times stay. */
static mdnn_status_t fit(const request_t *request, mdnn_run_record_t *record, double *scale)
{
    const mdnn_status_t status = request->measured_ms > 0
                                     ? tool_advice_fit(record, request->measured_ms, scale)
                                     : MDNN_STATUS_OK;
    if (status != MDNN_STATUS_NOT_FOUND)
        return status;
    tool_complain("--measured: the run cannot have taken that long, as its record has it; the "
                  "recorded times are used");
    *scale = 1;
    return MDNN_STATUS_OK;
}

static int show(const request_t *request, mdnn_run_record_t *record)
{
    tool_advice_t advice = {0};
    double scale = 1;
    mdnn_status_t status = fit(request, record, &scale);
    if (status == MDNN_STATUS_OK)
        status = tool_advice_init(&advice, record);
    advice.scale = scale;
    if (status == MDNN_STATUS_OK)
        status = add_rows(request, &advice);
    if (status == MDNN_STATUS_OK && request->json)
        status = tool_advice_print_json(&advice, request->iteration, stdout);
    else if (status == MDNN_STATUS_OK)
        tool_advice_print_table(&advice, stdout);
    if (status != MDNN_STATUS_OK)
        tool_complain("advise: %s", mdnn_status_string(status));
    const bool drawn =
        status != MDNN_STATUS_OK || request->plot == NULL || plot(&advice, request->plot);
    tool_advice_fini(&advice);
    return tool_finish_output(status == MDNN_STATUS_OK && drawn ? TOOL_OK : TOOL_TROUBLE);
}

int tool_advise(int argc, char **argv)
{
    static request_t request;
    mdnn_run_record_t record = {0};
    if (!take_request(argc, argv, &request)) {
        fputs("Try `microdnn advise --help`.\n", stderr);
        return TOOL_USAGE;
    }
    if (request.help) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    if (!read_record(request.path, &record))
        return TOOL_TROUBLE;
    const int status = show(&request, &record);
    mdnn_period_fini(&record.period);
    return status;
}
