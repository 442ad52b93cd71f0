/* microdnn plan: divides one workspace among the convolutions of a network, of train_cnn or found
 * in what a program ran, from measured costs in a database, without a GPU. */
#include "scripts/microdnn_plan.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "config/numbers.h"
#include "optimizer/database.h"
#include "optimizer/ilp_child.h"

static const char usage[] =
    "usage: microdnn plan --net NAME --total SIZE [options]         a network of train_cnn\n"
    "       microdnn plan --from-run FILE --total SIZE [options]    what any program ran\n"
    "\n"
    "Divides SIZE bytes of workspace among the convolutions of a network, so that they take the "
    "least\n"
    "time (WD). No GPU: the times come from a database (microdnn tune). FILE are statistics of a\n"
    "run (general.stats = json), in which one iteration is found.\n"
    "\n"
    "  --device-db FILE     the database, instead of the option cache.file (by default\n"
    "                       ~/.cache/microdnn/costs.db)\n"
    "  --batch IMAGES       with --net; the default is the network's own\n"
    "  --dtype TYPE         with --net: fp32, tf32 or fp16 (fp32)\n"
    "  --device NAME        with --net: one of several GPU models in the database\n"
    "  --model MODEL        sum: one segment per kernel; shared: one region for all kernels, or\n"
    "                       one per stream of the run (shared)\n"
    "  --policy SIZES       undivided, powerOfTwo or all, as they were measured (powerOfTwo)\n"
    "  --solver SOLVER      glpk, internal, or auto: GLPK if microdnn-ilp is there (auto)\n"
    "  --json               instead of a table\n"
    "  --svg FILE           draws the division\n"
    "  --set-svg FILE       draws the desirable set of a kernel,\n"
    "  --kernel NAME        this one (\"conv2 forward\", of a run \"layer 2 forward\")\n"
    "\n"
    "Exit status: 0 divided, 1 not divided, 2 wrong usage or no database named.\n";

enum { WAIT_MS = 10000 };
static const double solver_time_ms = 10000;

typedef struct request {
    tool_network_t network;
    char path[MDNN_DATABASE_PATH_BYTES];
    const char *from_run, *database, *total, *model, *policy, *solver, *svg, *set_svg, *kernel;
    bool json, help;
    uint64_t total_bytes;
    mdnn_wd_model_t wd_model;
    mdnn_batch_sizes_t sizes;
} request_t;

/* ---- the command line ---- */

static bool is_one_of(const char *option, const char *value, const char *const *words, int count,
                      int *which)
{
    for (int i = 0; i < count; i++)
        if (strcmp(value, words[i]) == 0) {
            *which = i;
            return true;
        }
    tool_complain("%s: there is no '%s'; see microdnn plan --help", option, value);
    return false;
}

/* One of --net and --from-run, and what goes with it. */
static bool check_subject(request_t *request)
{
    const tool_network_t *const network = &request->network;
    if ((network->name == NULL) == (request->from_run == NULL) || request->total == NULL) {
        tool_complain("plan: --net NAME or --from-run FILE, and --total SIZE are needed");
        return false;
    }
    if (request->from_run != NULL &&
        (network->batch != 0 || network->dtype != NULL || network->device != NULL)) {
        tool_complain("plan: --batch, --dtype and --device are for --net; a run says them itself");
        return false;
    }
    if (network->dtype == NULL)
        request->network.dtype = "fp32";
    return true;
}

static bool check_request(request_t *request)
{
    static const char *const dtypes[] = {"fp32", "tf32", "fp16"};
    int model = 0, sizes = 0, unused;
    if (!check_subject(request))
        return false;
    if (mdnn_parse_size(request->total, &request->total_bytes) != MDNN_STATUS_OK) {
        tool_complain("--total: '%s' is not a size", request->total);
        return false;
    }
    if ((request->set_svg == NULL) != (request->kernel == NULL)) {
        tool_complain("plan: --set-svg and --kernel go together");
        return false;
    }
    if (!is_one_of("--model", request->model, mdnn_choices_convolution_wd_model,
                   MDNN_WD_MODEL_COUNT, &model) ||
        !is_one_of("--dtype", request->network.dtype, dtypes, 3, &unused) ||
        !is_one_of("--policy", request->policy, mdnn_choices_convolution_batch_sizes,
                   MDNN_SIZES_COUNT, &sizes) ||
        !is_one_of("--solver", request->solver, mdnn_choices_convolution_solver, MDNN_SOLVER_COUNT,
                   &unused))
        return false;
    request->wd_model = (mdnn_wd_model_t)model;
    request->sizes = (mdnn_batch_sizes_t)sizes;
    if (request->database == NULL)
        return tool_default_database("--device-db", request->path, false);
    snprintf(request->path, sizeof request->path, "%s", request->database);
    return true;
}

static bool take_batch(const char *text, request_t *request)
{
    int64_t batch;
    if (mdnn_parse_integer(text, &batch) != MDNN_STATUS_OK || batch < 1 || batch > INT32_MAX) {
        tool_complain("--batch: '%s' is not a number of images", text);
        return false;
    }
    request->network.batch = batch;
    return true;
}

static bool take_option(request_t *request, int choice)
{
    const char **const texts[] = {
        &request->network.name,  &request->total,          &request->database,
        &request->network.dtype, &request->network.device, &request->model,
        &request->policy,        &request->solver,         &request->svg,
        &request->set_svg,       &request->kernel,         &request->from_run};
    if (choice == 'j')
        return request->json = true;
    if (choice == 'h')
        return request->help = true;
    if (choice == 'b')
        return take_batch(optarg, request);
    if (choice == '?')
        return false;
    *texts[choice - 'A'] = optarg;
    return true;
}

static bool read_arguments(int argc, char **argv, request_t *request)
{
    static const struct option options[] = {{"net", required_argument, NULL, 'A'},
                                            {"total", required_argument, NULL, 'B'},
                                            {"device-db", required_argument, NULL, 'C'},
                                            {"dtype", required_argument, NULL, 'D'},
                                            {"device", required_argument, NULL, 'E'},
                                            {"model", required_argument, NULL, 'F'},
                                            {"policy", required_argument, NULL, 'G'},
                                            {"solver", required_argument, NULL, 'H'},
                                            {"svg", required_argument, NULL, 'I'},
                                            {"set-svg", required_argument, NULL, 'J'},
                                            {"kernel", required_argument, NULL, 'K'},
                                            {"from-run", required_argument, NULL, 'L'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int choice; (choice = tool_next_option(argc, argv, "h", options)) != -1;)
        if (!take_option(request, choice))
            return false;
    if (optind < argc) {
        tool_complain("plan: '%s' is one argument too many", argv[optind]);
        return false;
    }
    return request->help || check_request(request);
}

/* ---- what the database knows ---- */

static void add_known(void *context, const mdnn_database_row_t *row)
{
    tool_known_list_t *const list = context;
    tool_known_t known = {0};
    if (row->sizes == 0 || !tool_parse_problem(row->key, &known.problem))
        return;
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 64;
        tool_known_t *const grown = reallocarray(list->at, capacity, sizeof *grown);
        if (grown == NULL)
            return; /* the kernel is then reported as not in the database */
        list->at = grown;
        list->capacity = capacity;
    }
    known.key = strdup(row->key);
    known.title = strdup(row->problem);
    known.device = strdup(row->environment.device_model ? row->environment.device_model : "");
    list->at[list->count++] = known;
    if (known.key == NULL || known.title == NULL || known.device == NULL) {
        tool_complain("out of memory");
        exit(TOOL_TROUBLE);
    }
}

static void known_fini(tool_known_list_t *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->at[i].key);
        free(list->at[i].title);
        free(list->at[i].device);
    }
    free(list->at);
}

/* Fewest images whose slice is as aligned as the whole; as shim/candidates/slices.h has it. */
static int64_t granularity_of(const mdnn_problem_tensor_t *tensor)
{
    static const int bytes_of_type[] = {[0] = 4, [1] = 8, [2] = 2, [9] = 2};
    const bool known = tensor->type >= 0 && tensor->type <= 9 && bytes_of_type[tensor->type];
    const int64_t stride = (int64_t)tensor->strides[0] * (known ? bytes_of_type[tensor->type] : 1);
    int64_t images = 1;
    while (images < tensor->alignment_bytes && images * stride % tensor->alignment_bytes != 0)
        images *= 2;
    return images;
}

/* As the library asks (shim/convolution/front_set.c): with bf16 weights an accumulator makes all parts alike. */
static mdnn_wr_request_t wr_request(const mdnn_problem_t *problem, mdnn_batch_sizes_t sizes)
{
    const int64_t x = granularity_of(&problem->x), y = granularity_of(&problem->y);
    const int64_t z = granularity_of(&problem->z), larger = x > y ? x : y;
    const bool wide = problem->w.type <= 1;
    return (mdnn_wr_request_t){
        .batch = problem->x.dims[0],
        .sizes = mdnn_problem_parts_may_add_up(problem) ? sizes : MDNN_SIZES_UNDIVIDED,
        .granularity = z > larger ? z : larger,
        .roles_differ = problem->direction == MDNN_BACKWARD_FILTER && problem->beta_is_zero && wide,
        .workspace_limit_bytes = UINT64_MAX};
}

static bool make_set(const request_t *request, mdnn_desirable_sets_t *sets, tool_kernel_t *kernel)
{
    mdnn_database_t database = {.budget_ms = WAIT_MS};
    mdnn_database_key_t key;
    mdnn_cost_memory_t memory = {0};
    const mdnn_problem_t *const problem = &kernel->known->problem;
    snprintf(database.path, sizeof database.path, "%s", request->path);
    snprintf(key.text, sizeof key.text, "%s", kernel->known->key);
    snprintf(key.title, sizeof key.title, "%s", kernel->known->title);
    mdnn_status_t status = mdnn_database_load_costs(&database, &key, &memory);
    if (status == MDNN_STATUS_OK) {
        const mdnn_wr_request_t asked = wr_request(problem, request->sizes);
        const mdnn_cost_source_t source = mdnn_cost_memory_source(&memory);
        status = mdnn_desirable_sets_get(sets, problem, &asked, &source, &kernel->set);
    }
    mdnn_cost_memory_fini(&memory);
    if (status != MDNN_STATUS_OK)
        tool_complain("%s: costs in the database: %s", kernel->name, mdnn_status_string(status));
    return status == MDNN_STATUS_OK;
}

/* ---- solving ---- */

static bool divide(const request_t *request, const mdnn_wd_problem_t *problem, size_t *choices,
                   tool_plan_t *plan)
{
    char program[PATH_MAX];
    const mdnn_knapsack_limits_t limits = {.time_ms = solver_time_ms};
    const bool glpk =
        strcmp(request->solver, "internal") != 0 && tool_find_helper("microdnn-ilp", program);
    if (!glpk && strcmp(request->solver, "glpk") == 0) {
        tool_complain("--solver glpk: there is no microdnn-ilp with the library");
        return false;
    }
    plan->solver = glpk ? "GLPK" : "internal";
    const mdnn_status_t status =
        glpk ? mdnn_ilp_ask(program, problem, solver_time_ms, choices, &plan->result)
             : mdnn_wd_solve(problem, &limits, choices, &plan->result);
    if (status == MDNN_STATUS_NOT_FOUND)
        tool_complain("no division of %s serves every kernel", request->total);
    else if (status != MDNN_STATUS_OK)
        tool_complain("%s solver: %s", plan->solver, mdnn_status_string(status));
    return status == MDNN_STATUS_OK;
}

static void compare_with_wr(const mdnn_wd_problem_t *problem, tool_plan_t *plan)
{
    plan->wr_limit_bytes =
        problem->total_bytes / (problem->kernel_count ? problem->kernel_count : 1);
    for (size_t k = 0; k < problem->kernel_count; k++) {
        const mdnn_configuration_t *const best =
            mdnn_front_best(plan->kernels->at[k].set->front, plan->wr_limit_bytes);
        plan->wr_ms += best != NULL ? best->time_ms : INFINITY;
    }
}

/* ---- all of it ---- */

static bool draw(const char *path, const tool_plan_t *plan, const size_t *kernel)
{
    FILE *const out = fopen(path, "we");
    if (out != NULL && kernel == NULL)
        tool_plan_draw_division(plan, out);
    else if (out != NULL)
        tool_plan_draw_set(plan, *kernel, out);
    if (out != NULL && fflush(out) == 0 && !ferror(out) && fclose(out) == 0)
        return true;
    tool_complain("cannot write %s: %s", path, strerror(errno));
    return false;
}

static bool draw_set(const request_t *request, const tool_plan_t *plan)
{
    for (size_t k = 0; k < plan->kernels->count; k++)
        if (strcmp(plan->kernels->at[k].name, request->kernel) == 0)
            return draw(request->set_svg, plan, &k);
    tool_complain("--kernel: %s has no '%s'", plan->title, request->kernel);
    return false;
}

static bool show(const request_t *request, const tool_plan_t *plan)
{
    if (request->json)
        tool_plan_print_json(plan);
    else
        tool_plan_print_table(plan);
    return (request->svg == NULL || draw(request->svg, plan, NULL)) &&
           (request->set_svg == NULL || draw_set(request, plan));
}

static bool plan_kernels(const request_t *request, const char *title, tool_kernels_t *kernels,
                         mdnn_desirable_sets_t *sets)
{
    mdnn_wd_kernel_t *const input = calloc(kernels->count + 1, sizeof *input);
    size_t *const choices = calloc(kernels->count + 1, sizeof *choices);
    bool good = input != NULL && choices != NULL;
    for (size_t k = 0; good && k < kernels->count; k++) {
        good = make_set(request, sets, &kernels->at[k]);
        if (good)
            input[k] = mdnn_desirable_kernel(kernels->at[k].set, kernels->at[k].group);
    }
    const mdnn_wd_problem_t problem = {request->wd_model, input, kernels->count,
                                       kernels->group_count ? kernels->group_count : 1,
                                       request->total_bytes};
    tool_plan_t plan = {.title = title,
                        .device = good && kernels->count ? kernels->at[0].known->device : "",
                        .policy = request->policy,
                        .kernels = kernels,
                        .model = request->wd_model,
                        .total_bytes = request->total_bytes,
                        .choices = choices};
    good = good && divide(request, &problem, choices, &plan);
    if (good) {
        compare_with_wr(&problem, &plan);
        good = show(request, &plan);
    }
    free(input);
    free(choices);
    return good;
}

static bool find_kernels(const request_t *request, const tool_known_list_t *known,
                         tool_kernels_t *kernels, char *title, size_t title_bytes)
{
    if (request->from_run != NULL)
        return tool_run_kernels(request->from_run, known, kernels, title, title_bytes);
    snprintf(title, title_bytes, "%s", request->network.name);
    return tool_network_kernels(&request->network, known, kernels);
}

static int make_plan(const request_t *request)
{
    tool_known_list_t known = {0};
    tool_kernels_t kernels = {0};
    char title[128];
    mdnn_desirable_sets_t *sets = NULL;
    const mdnn_status_t status = mdnn_database_list(request->path, WAIT_MS, add_known, &known);
    bool good = status == MDNN_STATUS_OK;
    if (!good)
        tool_complain("%s: %s", request->path, tool_database_trouble(status));
    good = good && mdnn_desirable_sets_create(&sets) == MDNN_STATUS_OK &&
           find_kernels(request, &known, &kernels, title, sizeof title) &&
           plan_kernels(request, title, &kernels, sets);
    mdnn_desirable_sets_destroy(sets);
    free(kernels.at);
    known_fini(&known);
    return tool_finish_output(good ? TOOL_OK : TOOL_TROUBLE);
}

int tool_plan(int argc, char **argv)
{
    static request_t request = {.model = "shared", .policy = "powerOfTwo", .solver = "auto"};
    if (!read_arguments(argc, argv, &request)) {
        fputs("Try `microdnn plan --help`.\n", stderr);
        return TOOL_USAGE;
    }
    if (request.help) {
        fputs(usage, stdout);
        return tool_finish_output(TOOL_OK);
    }
    mdnn_log_configure(MDNN_LOG_OFF, "stderr");
    return make_plan(&request);
}
