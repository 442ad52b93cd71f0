/* A matrix of graphs through cuDNN's backend API, as PyTorch and cudnn_frontend use it, checked
 * against fp64 on the host. Knows nothing of microdnn: it is run without the preload to record, and
 * with it to check.
 *
 *   graph_matrix record FILE [EARLIER]
 *       For each graph: the worst error of the plans that the heuristics name (INSTANT, then
 *       FALLBACK, without those that PyTorch refuses), their workspaces, hashes of their results.
 *       EARLIER is the record of another process: a plan repeats its bits if it has those there,
 *       too. Names the graphs whose plans do not, although cuDNN does not note that.
 *   graph_matrix check FILE LIMIT_BYTES close|exact [MOST_IMAGES]
 *       TAP. Runs plan after plan as a caller would that takes none above LIMIT_BYTES, each with
 *       exactly the workspace that it says, between guards. A graph passes if each result is within
 *       max(1.2 x the recorded error, floor), and nothing else was written. Graphs of uncommon
 *       kinds must give the recorded bits where those repeat. With `exact` every image of a
 *       forward or backward-data result must also equal some recorded plan's, bit for bit. Making
 *       the first plan anew must end as it did when it was recorded.
 *   graph_matrix plan DEVICEPROP_FILE
 *       TAP. Builds all plans for the device described there; needs no device. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "test/clients/bail.h"
#include "test/clients/graph_problem.h"

enum { GUARD = 512 };
static const size_t record_limit_bytes = (size_t)256 << 20;

/* How a program uses its plans; graphs take turns, at a pace that is not that of batches and betas.
 */
typedef enum usage {
    USAGE_TRY,    /* a plan at a time, destroyed before the next: PyTorch without benchmark */
    USAGE_SEARCH, /* all plans first, the graph is gone by then: PyTorch's benchmark */
    USAGE_GRAPH,  /* uids before pointers: cudnn_frontend's graph::Graph */
    USAGE_LATE,   /* the workspace size is known from before; asked after the run, or never */
    USAGES
} usage_t;

typedef struct record {
    int32_t status; /* of cuDNN when it refused the graph, or 0 */
    int32_t plans;
    double worst_error;
    int32_t images;   /* with a hash each; 0: no split of the result is expected */
    int32_t distinct; /* different results */
    int32_t rebuilt;  /* of cuDNN when the first plan was made anew at the end */
    int32_t reserved;
} record_t;

typedef struct plan_record {
    uint64_t sum; /* of the whole result; 0: cuDNN cannot run it */
    uint64_t workspace_bytes;
    int32_t repeatable; /* the same bits each time */
    int32_t reserved;
} plan_record_t;

typedef struct run {
    cudnnHandle_t handle;
    problem_t *problem;
    usage_t usage;
    size_t limit_bytes;
    graph_config_t configs[GRAPH_CONFIGS];
    int count;
    cudnnBackendDescriptor_t plans[GRAPH_CONFIGS]; /* NULL: none */
    double *values;
} run_t;

typedef struct matrix {
    cudnnHandle_t handle;
    FILE *file;
    FILE *earlier; /* the record of another process, or NULL */
    size_t limit_bytes;
    bool exact;
    cudnnBackendDescriptor_t device; /* to plan for, without a handle */
    int most_images;                 /* graphs with more are left out */
    int number, failed, executed, graphs;
} matrix_t;

static void *allocate(size_t count, size_t bytes)
{
    void *const memory = calloc(count ? count : 1, bytes);
    if (!memory)
        BAIL("out of memory");
    return memory;
}

/* ---- plans ---- */

/* The plans that PyTorch would consider, in its order. */
static cudnnStatus_t list_configs(const graph_case_t *test, const graph_t *graph,
                                  cudnnBackendDescriptor_t device, graph_config_t *configs,
                                  int *count)
{
    *count = 0;
    cudnnStatus_t first =
        graph_add_configs(graph, CUDNN_HEUR_MODE_INSTANT, device, configs, GRAPH_CONFIGS, count);
    cudnnStatus_t second =
        graph_add_configs(graph, CUDNN_HEUR_MODE_FALLBACK, device, configs, GRAPH_CONFIGS, count);
    const unsigned refused =
        graph_refused_notes(graph_case_data_type(test), test->type == CASE_TF32, false);
    *count = graph_filter_configs(configs, *count, refused);
    if (*count > 0)
        return CUDNN_STATUS_SUCCESS;
    return first != CUDNN_STATUS_SUCCESS    ? first
           : second != CUDNN_STATUS_SUCCESS ? second
                                            : CUDNN_STATUS_NOT_SUPPORTED;
}

static cudnnStatus_t make_plan(run_t *run, int i)
{
    return graph_create_plan(run->handle, &run->configs[i], &run->plans[i]);
}

static void drop_plan(run_t *run, int i)
{
    if (run->plans[i])
        CUDNN(cudnnBackendDestroyDescriptor(run->plans[i]));
    run->plans[i] = NULL;
}

/* A real library refuses some graphs that it compiles at run time when a plan of theirs was made
 * and destroyed before: what it says is part of the record. */
static cudnnStatus_t rebuild_plan(run_t *run, int i)
{
    drop_plan(run, i);
    return make_plan(run, i);
}

static bool all_at_once(const run_t *run)
{
    return run->usage == USAGE_SEARCH || run->usage == USAGE_GRAPH;
}

/* A real library takes about 10 ms for a plan, so on a GPU fewer of them are looked at: with
 * GRAPH_MATRIX_PLANS so many of each graph, spread over the list. */
static void thin_out(run_t *run)
{
    const char *const text = getenv("GRAPH_MATRIX_PLANS");
    const int most = text ? atoi(text) : 0;
    if (most < 1 || run->count <= most)
        return;
    for (int i = 0; i < most; i++) {
        const int pick = i * run->count / most;
        const graph_config_t chosen = run->configs[pick];
        run->configs[pick] = run->configs[i];
        run->configs[i] = chosen;
    }
    graph_free_configs(run->configs + most, run->count - most);
    run->count = most;
}

/* Configurations, and plans where the usage makes all first. */
static cudnnStatus_t start_run(run_t *run)
{
    graph_t graph;
    cudnnStatus_t status = problem_build(run->problem, &graph, run->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = list_configs(run->problem->test, &graph, NULL, run->configs, &run->count);
    thin_out(run);
    for (int i = 0; all_at_once(run) && i < run->count; i++)
        make_plan(run, i);
    graph_fini(&graph);
    run->values = allocate(problem_elements(run->problem), sizeof *run->values);
    return status;
}

static void end_run(run_t *run)
{
    for (int i = 0; i < run->count; i++)
        drop_plan(run, i);
    graph_free_configs(run->configs, run->count);
    free(run->values);
}

/* ---- executions ---- */

/* Device memory of exactly `bytes`, poisoned, guards on both sides. */
static char *make_workspace(size_t bytes)
{
    char *block;
    CUDA(cudaMalloc((void **)&block, bytes + 2 * GUARD));
    CUDA(cudaMemset(block, 0xFF, bytes + 2 * GUARD));
    return block;
}

static bool guards_intact(const char *block, size_t bytes)
{
    unsigned char guards[2 * GUARD];
    CUDA(cudaMemcpy(guards, block, GUARD, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(guards + GUARD, block + GUARD + bytes, GUARD, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 2 * GUARD; i++)
        if (guards[i] != 0xFF)
            return false;
    return true;
}

/* Runs the plan once at the turn's addresses; NULL or what is wrong. */
static const char *execute(run_t *run, int i, int turn, size_t bytes)
{
    char *const block = make_workspace(bytes);
    graph_pack_t pack = {.workspace = bytes ? block + GUARD : NULL,
                         .order =
                             run->usage == USAGE_GRAPH ? GRAPH_UIDS_FIRST : GRAPH_POINTERS_FIRST};
    problem_upload(run->problem, turn);
    problem_bind(run->problem, &pack);
    const cudnnStatus_t status = graph_execute(run->handle, run->plans[i], &pack);
    CUDA(cudaDeviceSynchronize());
    const bool intact = guards_intact(block, bytes);
    CUDA(cudaFree(block));
    if (status != CUDNN_STATUS_SUCCESS)
        return cudnnGetErrorString(status);
    if (!intact)
        return "wrote outside its workspace";
    return problem_download(run->problem, run->values) ? NULL : "wrote outside its output";
}

/* ---- results ---- */

static uint64_t hash(const double *values, size_t count)
{
    uint64_t state = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        state = (state ^ bits) * UINT64_C(0x100000001B3);
    }
    return state ? state : 1;
}

/* Images of the result that do not depend on each other. */
static int independent_images(const graph_case_t *test)
{
    return test->direction == GRAPH_BACKWARD_FILTER || !graph_case_common(test) ? 0 : test->n;
}

static uint64_t hash_image(const run_t *run, int image)
{
    const size_t elements = problem_elements(run->problem) / (size_t)run->problem->test->n;
    return hash(run->values + (size_t)image * elements, elements);
}

static double gate(const graph_case_t *test, double recorded)
{
    static const double floors[] = {1e-5, 1e-3, 2e-3, 1e-2, 1e-12};
    return fmax(1.2 * recorded, floors[test->type]);
}

/* ---- recording ---- */

typedef struct recording {
    record_t record;
    plan_record_t plans[GRAPH_CONFIGS];
    uint64_t *images; /* `distinct` rows of `record.images` */
} recording_t;

static void add_images(recording_t *recording, const run_t *run)
{
    const size_t images = (size_t)recording->record.images;
    uint64_t *const row = recording->images + (size_t)recording->record.distinct * images;
    for (size_t i = 0; i < images; i++)
        row[i] = hash_image(run, (int)i);
    recording->record.distinct++;
}

static bool noted_as_repeatable(const run_t *run, int plan)
{
    return !(run->configs[plan].numerical & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

static uint64_t hash_result(const run_t *run)
{
    return hash(run->values, problem_elements(run->problem));
}

static void record_error(recording_t *recording, const run_t *run)
{
    const double error = problem_error(run->problem, run->values);
    recording->record.worst_error = fmax(recording->record.worst_error, error);
}

static void record_result(recording_t *recording, const run_t *run, int plan)
{
    plan_record_t *const mine = &recording->plans[plan];
    bool known = false;
    mine->sum = hash_result(run);
    mine->repeatable = noted_as_repeatable(run, plan);
    for (int i = 0; i < plan; i++)
        known = known || recording->plans[i].sum == mine->sum;
    if (!known)
        add_images(recording, run);
    record_error(recording, run);
}

/* Of an uncommon graph, whose bits are checked: a real library has plans, those of a sum in TF32
 * for one, that give other bits at times and have no note of it. */
enum { RUNS_RECORDED = 4 };

static const char *record_again(recording_t *recording, run_t *run, int plan, size_t bytes)
{
    plan_record_t *const mine = &recording->plans[plan];
    for (int turn = 1; turn < RUNS_RECORDED; turn++) {
        const char *const failure = execute(run, plan, turn, bytes);
        if (failure)
            return failure;
        mine->repeatable = mine->repeatable && hash_result(run) == mine->sum;
        record_error(recording, run);
    }
    return NULL;
}

static void record_plan(recording_t *recording, run_t *run, int plan)
{
    size_t bytes;
    if (!run->plans[plan])
        make_plan(run, plan);
    if (!run->plans[plan] ||
        graph_plan_workspace(run->plans[plan], &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes > run->limit_bytes)
        return;
    const char *failure = execute(run, plan, 0, bytes);
    recording->plans[plan].workspace_bytes = bytes;
    if (!failure)
        record_result(recording, run, plan);
    if (!failure && !graph_case_common(run->problem->test))
        failure = record_again(recording, run, plan, bytes);
    if (failure) {
        recording->plans[plan].sum = 0;
        fprintf(stderr, "engine %" PRId64 ": %s\n", run->configs[plan].engine, failure);
    }
    if (!all_at_once(run))
        drop_plan(run, plan);
}

static void write_or_die(FILE *file, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, file) != bytes)
        BAIL("cannot write the record");
}

static void read_or_die(FILE *file, void *data, size_t bytes)
{
    if (fread(data, 1, bytes, file) != bytes)
        BAIL("the record does not match");
}

static void write_recording(FILE *file, const recording_t *recording)
{
    const record_t *const record = &recording->record;
    write_or_die(file, record, sizeof *record);
    write_or_die(file, recording->plans, (size_t)record->plans * sizeof *recording->plans);
    write_or_die(file, recording->images,
                 (size_t)record->distinct * (size_t)record->images * sizeof *recording->images);
}

static void read_recording(FILE *file, recording_t *recording)
{
    record_t *const record = &recording->record;
    read_or_die(file, record, sizeof *record);
    if (record->plans < 0 || record->plans > GRAPH_CONFIGS)
        BAIL("the record does not match");
    read_or_die(file, recording->plans, (size_t)record->plans * sizeof *recording->plans);
    const size_t hashes = (size_t)record->distinct * (size_t)record->images;
    recording->images = allocate(hashes, sizeof *recording->images);
    read_or_die(file, recording->images, hashes * sizeof *recording->images);
}

/* Only what ran in both processes is checked, with bits that are the same in both. */
static void join_earlier(recording_t *recording, FILE *file)
{
    recording_t *const earlier = allocate(1, sizeof *earlier);
    record_t *const record = &recording->record;
    read_recording(file, earlier);
    if (earlier->record.plans != record->plans)
        BAIL("there are other plans than in the earlier record");
    for (int i = 0; i < record->plans; i++) {
        plan_record_t *const mine = &recording->plans[i];
        const plan_record_t *const theirs = &earlier->plans[i];
        mine->repeatable = mine->repeatable && theirs->repeatable && mine->sum == theirs->sum;
        mine->sum = theirs->sum ? mine->sum : 0;
    }
    record->worst_error = fmax(record->worst_error, earlier->record.worst_error);
    free(earlier->images);
    free(earlier);
}

static void report_unrepeatable(const matrix_t *matrix, const recording_t *recording,
                                const run_t *run)
{
    char name[256];
    int count = 0;
    for (int i = 0; i < run->count; i++)
        count += recording->plans[i].sum && !recording->plans[i].repeatable &&
                 noted_as_repeatable(run, i);
    graph_case_name(run->problem->test, name, sizeof name);
    if (count > 0)
        printf("# %d - %s: %d of %d plans do not repeat their bits, worst error %g\n",
               matrix->number + 1, name, count, run->count, recording->record.worst_error);
}

static usage_t usage_of(const matrix_t *matrix)
{
    return (usage_t)((matrix->number + matrix->number / 12) % USAGES);
}

static run_t *make_run(const matrix_t *matrix, problem_t *problem)
{
    run_t *const run = allocate(1, sizeof *run);
    run->handle = matrix->handle;
    run->problem = problem;
    run->usage = usage_of(matrix);
    run->limit_bytes = matrix->limit_bytes;
    return run;
}

/* With GRAPH_MATRIX_SHARE=K/N this process does every N-th graph, beginning with the K-th, from 0; with
 * GRAPH_MATRIX_SHARE=few those that do not repeat what others have. */
static bool is_ours(const matrix_t *matrix, const graph_case_t *test)
{
    const char *const text = getenv("GRAPH_MATRIX_SHARE");
    int share, shares;
    if (text && strcmp(text, "few") == 0)
        return !test->repeats;
    return !text || sscanf(text, "%d/%d", &share, &shares) != 2 || shares < 1 ||
           matrix->number % shares == share;
}

static void record_case(const graph_case_t *test, void *context)
{
    matrix_t *const matrix = context;
    if (!is_ours(matrix, test)) {
        matrix->number++;
        return;
    }
    problem_t problem;
    problem_init(&problem, test);
    problem_solve(&problem);
    run_t *const run = make_run(matrix, &problem);
    recording_t *const recording = allocate(1, sizeof *recording);
    recording->record.status = (int32_t)start_run(run);
    recording->record.plans = run->count;
    recording->record.images = independent_images(test);
    recording->images =
        allocate((size_t)run->count * (size_t)recording->record.images, sizeof(uint64_t));
    for (int plan = 0; plan < run->count; plan++)
        record_plan(recording, run, plan);
    if (run->count > 0 && recording->plans[0].sum)
        recording->record.rebuilt = (int32_t)rebuild_plan(run, 0);
    if (matrix->earlier)
        join_earlier(recording, matrix->earlier);
    report_unrepeatable(matrix, recording, run);
    write_recording(matrix->file, recording);
    matrix->number++;
    end_run(run);
    problem_fini(&problem);
    free(recording->images);
    free(recording);
    free(run);
}

/* ---- checking ---- */

/* Each image equals that of some recorded plan. */
static bool images_known(const run_t *run, const recording_t *recording)
{
    const size_t images = (size_t)recording->record.images;
    for (size_t image = 0; image < images; image++) {
        const uint64_t mine = hash_image(run, (int)image);
        bool found = false;
        for (size_t row = 0; row < (size_t)recording->record.distinct; row++)
            found = found || recording->images[row * images + image] == mine;
        if (!found)
            return false;
    }
    return true;
}

static const char *judge(const run_t *run, const recording_t *recording, int plan, bool exact,
                         double *error)
{
    const graph_case_t *const test = run->problem->test;
    const plan_record_t *const stock = &recording->plans[plan];
    *error = problem_error(run->problem, run->values);
    if (!graph_case_common(test) && stock->repeatable)
        return hash_result(run) == stock->sum ? NULL : "not the bits that were recorded";
    if (!(*error <= gate(test, recording->record.worst_error)))
        return "error above the gate";
    if (exact && stock->repeatable && !images_known(run, recording))
        return "an image equals no plan's result bit for bit";
    return NULL;
}

typedef struct verdict {
    const char *failure; /* NULL: none */
    double error;
    int plan, executed;
} verdict_t;

/* The workspace that the caller gives; false if it does not take the plan. */
static bool plan_acceptable(run_t *run, const recording_t *recording, int plan, size_t *bytes,
                            verdict_t *verdict)
{
    *bytes = (size_t)recording->plans[plan].workspace_bytes;
    if (!recording->plans[plan].sum)
        return false;
    if (!run->plans[plan])
        make_plan(run, plan);
    if (!run->plans[plan])
        verdict->failure = "a plan that was recorded cannot be made";
    else if (run->usage != USAGE_LATE &&
             graph_plan_workspace(run->plans[plan], bytes) != CUDNN_STATUS_SUCCESS)
        verdict->failure = "the workspace size is refused";
    return !verdict->failure && *bytes <= run->limit_bytes;
}

enum { PLANS_RUN_TWICE = 2 }; /* of each graph; the others find everything planned */

/* Twice, at different addresses: the second execution uses what the first one planned. */
static void check_plan(run_t *run, const recording_t *recording, int plan, bool exact,
                       verdict_t *verdict)
{
    size_t bytes, again;
    verdict->plan = plan;
    if (!plan_acceptable(run, recording, plan, &bytes, verdict))
        return;
    const int turns = plan < PLANS_RUN_TWICE ? 2 : 1;
    for (int turn = 0; turn < turns && !verdict->failure; turn++) {
        verdict->failure = execute(run, plan, turn, bytes);
        if (!verdict->failure)
            verdict->failure = judge(run, recording, plan, exact, &verdict->error);
        verdict->executed++;
    }
    if (!verdict->failure && (run->usage != USAGE_LATE || plan % 2) &&
        graph_plan_workspace(run->plans[plan], &again) != CUDNN_STATUS_SUCCESS)
        verdict->failure = "the workspace size is refused after a run";
    else if (!verdict->failure && run->usage != USAGE_LATE && again > bytes)
        verdict->failure = "the workspace grew after a run";
}

/* The first plan once more, made anew, if stock made it. */
static void check_rebuilt(run_t *run, const recording_t *recording, bool exact, verdict_t *verdict)
{
    verdict->plan = 0;
    if (!recording->plans[0].sum)
        return;
    if ((int32_t)rebuild_plan(run, 0) != recording->record.rebuilt)
        verdict->failure = recording->record.rebuilt == 0
                               ? "a plan cannot be made anew, but stock's could"
                               : "making a plan anew does not fail as stock's did";
    else if (run->plans[0])
        check_plan(run, recording, 0, exact, verdict);
}

/* Every plan, then the first once more. */
static verdict_t check_plans(run_t *run, const recording_t *recording, bool exact)
{
    verdict_t verdict = {.error = NAN};
    if (run->count != recording->record.plans)
        verdict.failure = "not as many plans as were recorded";
    for (int plan = 0; plan < run->count && !verdict.failure; plan++) {
        check_plan(run, recording, plan, exact, &verdict);
        if (!all_at_once(run))
            drop_plan(run, plan);
    }
    if (!verdict.failure && run->count > 0)
        check_rebuilt(run, recording, exact, &verdict);
    return verdict;
}

static void report(matrix_t *matrix, const graph_case_t *test, const recording_t *recording,
                   const verdict_t *verdict)
{
    char name[256];
    graph_case_name(test, name, sizeof name);
    if (recording->record.status != 0)
        printf("ok %d - %s # SKIP %s\n", matrix->number + 1, name,
               cudnnGetErrorString((cudnnStatus_t)recording->record.status));
    else if (!verdict->failure && verdict->executed == 0)
        printf("ok %d - %s # SKIP no plan within %zu bytes\n", matrix->number + 1, name,
               matrix->limit_bytes);
    else
        printf("%sok %d - %s\n", verdict->failure ? "not " : "", matrix->number + 1, name);
    if (verdict->failure)
        printf("# plan %d of %d, usage %d: %s: error %g, worst of stock %g\n", verdict->plan,
               recording->record.plans, (int)usage_of(matrix), verdict->failure, verdict->error,
               recording->record.worst_error);
    matrix->failed += verdict->failure != NULL;
    matrix->executed += verdict->executed;
    matrix->graphs += verdict->executed > 0;
}

static void check_case(const graph_case_t *test, void *context)
{
    matrix_t *const matrix = context;
    if (!is_ours(matrix, test)) {
        printf("ok %d # SKIP of another share\n", ++matrix->number);
        return;
    }
    problem_t problem;
    recording_t *const recording = allocate(1, sizeof *recording);
    read_recording(matrix->file, recording);
    if (test->n > matrix->most_images) {
        printf("ok %d - # SKIP more than %d images\n", ++matrix->number, matrix->most_images);
        free(recording->images);
        free(recording);
        return;
    }
    problem_init(&problem, test);
    run_t *const run = make_run(matrix, &problem);
    verdict_t verdict = {.error = NAN};
    const cudnnStatus_t status = start_run(run);
    if ((int32_t)status != recording->record.status) {
        verdict.failure = cudnnGetErrorString(status);
    } else if (status == CUDNN_STATUS_SUCCESS) {
        problem_solve(&problem);
        verdict = check_plans(run, recording, matrix->exact);
    }
    report(matrix, test, recording, &verdict);
    matrix->number++;
    end_run(run);
    problem_fini(&problem);
    free(recording->images);
    free(recording);
    free(run);
}

/* ---- planning without a device ---- */

typedef struct tally {
    int plans;
    size_t least_bytes, most_bytes;
} tally_t;

static tally_t plan_all(const graph_config_t *configs, int count)
{
    tally_t tally = {.least_bytes = SIZE_MAX};
    for (int i = 0; i < count; i++) {
        cudnnBackendDescriptor_t plan;
        size_t bytes;
        if (graph_create_plan(NULL, &configs[i], &plan) != CUDNN_STATUS_SUCCESS)
            continue;
        CUDNN(graph_plan_workspace(plan, &bytes));
        CUDNN(cudnnBackendDestroyDescriptor(plan));
        tally.least_bytes = bytes < tally.least_bytes ? bytes : tally.least_bytes;
        tally.most_bytes = bytes > tally.most_bytes ? bytes : tally.most_bytes;
        tally.plans++;
    }
    return tally;
}

static void plan_case(const graph_case_t *test, void *context)
{
    matrix_t *const matrix = context;
    static graph_config_t configs[GRAPH_CONFIGS];
    char name[256];
    problem_t problem;
    graph_t graph;
    int count = 0;
    graph_case_name(test, name, sizeof name);
    problem_init(&problem, test);
    cudnnStatus_t status = problem_build(&problem, &graph, NULL);
    if (status == CUDNN_STATUS_SUCCESS)
        status = list_configs(test, &graph, matrix->device, configs, &count);
    matrix->number++;
    if (status != CUDNN_STATUS_SUCCESS) {
        printf("ok %d - %s # SKIP %s%s%s\n", matrix->number, name, graph.failed ? graph.failed : "",
               graph.failed ? ": " : "", cudnnGetErrorString(status));
    } else {
        const tally_t tally = plan_all(configs, count);
        printf("%sok %d - %s: %d of %d plans, workspace %zu to %zu\n", tally.plans ? "" : "not ",
               matrix->number, name, tally.plans, count, tally.plans ? tally.least_bytes : 0,
               tally.most_bytes);
        matrix->failed += tally.plans == 0;
    }
    graph_free_configs(configs, count);
    graph_fini(&graph);
    problem_fini(&problem);
}

static void plan_without_device(matrix_t *matrix)
{
    static char json[1 << 16];
    const size_t bytes = fread(json, 1, sizeof json - 1, matrix->file);
    if (graph_create_device(json, bytes, &matrix->device) != CUDNN_STATUS_SUCCESS)
        BAIL("cuDNN refuses the device's properties");
    graph_cases_visit(plan_case, matrix);
    cudnnBackendDestroyDescriptor(matrix->device);
}

static void check(matrix_t *matrix, const char *limit, const char *how)
{
    matrix->limit_bytes = (size_t)strtoull(limit, NULL, 10);
    matrix->exact = strcmp(how, "exact") == 0;
    graph_cases_visit(check_case, matrix);
    printf("# %d executions of %d graphs\n", matrix->executed, matrix->graphs);
}

static FILE *open_or_die(const char *path, const char *mode)
{
    FILE *const file = fopen(path, mode);
    if (!file)
        BAIL("cannot open the file");
    return file;
}

int main(int argc, char **argv)
{
    const char *const mode = argc > 2 ? argv[1] : "";
    const bool recording = (argc == 3 || argc == 4) && strcmp(mode, "record") == 0;
    const bool planning = argc == 3 && strcmp(mode, "plan") == 0;
    if (!recording && !planning && !((argc == 5 || argc == 6) && strcmp(mode, "check") == 0)) {
        fprintf(stderr,
                "usage: graph_matrix record FILE [EARLIER] | "
                "check FILE LIMIT_BYTES close|exact [MOST_IMAGES] | plan DEVICEPROP_FILE\n");
        return 2;
    }
    /* A run that is cut short leaves the results that it had. */
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    matrix_t matrix = {.file = open_or_die(argv[2], recording ? "wb" : "rb"),
                       .earlier = argc == 4 ? open_or_die(argv[3], "rb") : NULL,
                       .limit_bytes = record_limit_bytes,
                       .most_images = argc == 6 ? atoi(argv[5]) : INT_MAX};
    if (!planning)
        CUDNN(cudnnCreate(&matrix.handle));
    if (!recording)
        printf("1..%d\n", graph_cases_count());
    if (recording)
        graph_cases_visit(record_case, &matrix);
    else if (planning)
        plan_without_device(&matrix);
    else
        check(&matrix, argv[3], argv[4]);
    if (!planning)
        CUDNN(cudnnDestroy(matrix.handle));
    if (matrix.earlier)
        fclose(matrix.earlier);
    if (fclose(matrix.file) != 0)
        BAIL("cannot write the record");
    return matrix.failed > 0;
}
