/* Weight gradients of any magnitude: what cuDNN computes without overflow must come out of a program
 * that has the library under it as well, whatever the type, the interface, alpha and beta are. Each result is
 * compared with cuDNN's own in the same process, past every preloaded library, and is held to its error in fp64
 * but for the order of summation.
 *
 *   magnitudes legacy|graph fp32|tf32|fp16|bf16|fp64   TAP
 */
#include <dlfcn.h>
#include <math.h>
#include <string.h>

#include "test/clients/graph_job.h"

enum { IMAGES = 32, TURNS = 2 };
static const size_t stock_bytes = (size_t)1 << 22;

/* The images of one half of the batch have what those of the other half cancel. */
typedef struct pattern {
    const char *name;
    double x, y;    /* of each element, but for sign and a small factor */
    bool cancels;   /* the second half of the batch is the first one with the other sign */
    double residue; /* that an element of the last image has more */
} pattern_t;

static const pattern_t patterns[] = {
    {"plain", 1, 1, false, 0},
    {"sums above 65504", 64, 128, false, 0},
    {"sums above 65504 that cancel", 64, 128, true, 0},
    {"sums above 65504 that nearly cancel", 64, 128, true, 4096},
    {"huge", 0x1p60, 0x1p40, false, 0},
    {"huge, and cancels", 0x1p60, 0x1p40, true, 0},
    {"next to the end of the range", 0x1p60, 0x1p55, true, 0},
    {"tiny", 0x1p-60, 0x1p-40, false, 0},
    {"below what is normal", 0x1p-70, 0x1p-64, false, 0},
};
static const double alphas[] = {1, -0.5, 1e-4, 3, 1e-30, 1e30};
static const double betas[] = {0, 1, -1e-3, 1e30, NAN};
static const char *const type_names[] = {"fp32", "tf32", "fp16", "bf16", "fp64"};

/* Largest number, spacing of numbers at 1, smallest number above 0. */
static const struct {
    double largest, spacing, smallest;
} types[] = {[CASE_FP32] = {0x1.fffffep127, 0x1p-23, 0x1p-149},
             [CASE_TF32] = {0x1.fffffep127, 0x1p-23, 0x1p-149},
             [CASE_FP16] = {65504, 0x1p-10, 0x1p-24},
             [CASE_BF16] = {0x1.fep127, 0x1p-7, 0x1p-133},
             [CASE_FP64] = {0x1.fffffffffffffp1023, 0x1p-52, 0x1p-1074}};

static int failures; /* of one type with one alpha */

/* ---- data ---- */

static double sign_of(int64_t index)
{
    return index * 2654435761 >> 7 & 1 ? -1 : 1;
}

static void fill(operand_t *operand, double scale, bool cancels, double residue, bool has_images)
{
    const reference_tensor_t *const packed = &operand->packed;
    int64_t count = 1;
    for (int i = has_images ? 1 : 0; i < REFERENCE_DIMS; i++)
        count *= packed->dims[i];
    for (int64_t image = 0; image < (has_images ? packed->dims[0] : 1); image++)
        for (int64_t i = 0; i < count; i++) {
            const int64_t like = cancels ? image % (IMAGES / 2) : image;
            const double value = scale * sign_of(i + 7 * like) * (double)(1 + (i + like) % 3);
            operand->values[image * count + i] = cancels && image >= IMAGES / 2 ? -value : value;
        }
    if (residue != 0)
        operand->values[(packed->dims[0] - 1) * count] += residue;
}

static void shape_data(job_t *job, const pattern_t *pattern)
{
    operand_t *const operands = job->problem.operands;
    fill(&operands[OPERAND_X], pattern->x, false, 0, true);
    /* The halves have the same x. */
    if (pattern->cancels)
        memcpy(operands[OPERAND_X].values + reference_span(&operands[OPERAND_X].packed) / 2,
               operands[OPERAND_X].values,
               reference_span(&operands[OPERAND_X].packed) / 2 * sizeof(double));
    fill(&operands[OPERAND_Y], pattern->y, pattern->cancels, pattern->residue, true);
    fill(&operands[OPERAND_W], pattern->x, false, 0, false);
}

/* Sum of what is added up for each element, without signs. */
static void sum_magnitudes(const job_t *job, double *sums)
{
    const operand_t *const operands = job->problem.operands;
    double *values[3];
    for (int i = 0; i < 3; i++) {
        const size_t count = reference_span(&operands[i].packed);
        values[i] = malloc(count * sizeof **values);
        if (!values[i])
            BAIL("out of memory");
        for (size_t j = 0; j < count; j++)
            values[i][j] = fabs(operands[i].values[j]);
    }
    reference_convolution(&job->problem.convolution, fabs(job->test.alpha), fabs(job->test.beta),
                          values[OPERAND_X], values[OPERAND_W], values[OPERAND_Y]);
    memcpy(sums, values[OPERAND_W], problem_elements(&job->problem) * sizeof *sums);
    for (int i = 0; i < 3; i++)
        free(values[i]);
}

/* ---- judgement ---- */

/* A split adds up in fp32 what each part gives; a part of a bf16 gradient is a bf16 number. */
static double allowed(case_type_t type, double sum, double stock)
{
    const double order = type == CASE_FP64 ? 0x1p-46 : type == CASE_BF16 ? 0x1p-8 : 0x1p-17;
    return order * sum + 2 * types[type].spacing * fabs(stock) + IMAGES * types[type].smallest;
}

static bool is_right(case_type_t type, double own, double stock, double truth, double sum)
{
    if (isfinite(stock))
        return isfinite(own) && fabs(own - stock) <= allowed(type, sum, stock);
    return !isfinite(own) || fabs(truth) <= types[type].largest;
}

static void judge(const char *interface, const job_t *job, const pattern_t *pattern,
                  const double *stock, const double *sums)
{
    const size_t count = problem_elements(&job->problem);
    char name[200];
    snprintf(name, sizeof name, "%s %s, alpha %g, beta %g: %s", interface,
             type_names[job->test.type], job->test.alpha, job->test.beta, pattern->name);
    size_t at = 0;
    while (at < count &&
           is_right(job->test.type, job->values[at], stock[at], job->problem.truth[at], sums[at]))
        at++;
    if (at < count && failures++ < 5)
        printf("# %s: element %zu is %g; cuDNN %g, fp64 %g, terms %g\n", name, at, job->values[at],
               stock[at], job->problem.truth[at], sums[at]);
}

static void download(job_t *job, double *values)
{
    CUDA(cudaDeviceSynchronize());
    if (!problem_download(&job->problem, values))
        BAIL("something else than the output was written");
}

/* ---- the legacy interface ---- */

typedef cudnnStatus_t gradient_function(cudnnHandle_t, const void *, const cudnnTensorDescriptor_t,
                                        const void *, const cudnnTensorDescriptor_t, const void *,
                                        const cudnnConvolutionDescriptor_t,
                                        cudnnConvolutionBwdFilterAlgo_t, void *, size_t,
                                        const void *, const cudnnFilterDescriptor_t, void *);

/* cuDNN's own: dlvsym is what nobody hooks. */
static gradient_function *stock_gradient(void)
{
    void *const library = dlopen("libcudnn_cnn.so.9", RTLD_NOW);
    void *const found =
        library ? dlvsym(library, "cudnnConvolutionBackwardFilter", "libcudnn_cnn.so.9") : NULL;
    gradient_function *function;
    if (!found)
        BAIL("libcudnn_cnn.so.9 has no cudnnConvolutionBackwardFilter");
    memcpy(&function, &found, sizeof function);
    return function;
}

typedef struct legacy {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    cudnnConvolutionBwdFilterAlgo_t algo;
    size_t bytes;
} legacy_t;

static void open_legacy(legacy_t *legacy, const job_t *job)
{
    const graph_case_t *const test = &job->test;
    const cudnnDataType_t type = graph_case_data_type(test);
    const cudnnTensorFormat_t format =
        test->layout == CASE_NHWC ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    CUDNN(cudnnCreateTensorDescriptor(&legacy->x));
    CUDNN(cudnnCreateTensorDescriptor(&legacy->y));
    CUDNN(cudnnCreateFilterDescriptor(&legacy->w));
    CUDNN(cudnnCreateConvolutionDescriptor(&legacy->convolution));
    CUDNN(cudnnSetTensor4dDescriptor(legacy->x, format, type, test->n, test->c, test->side[1],
                                     test->side[2]));
    CUDNN(cudnnSetTensor4dDescriptor(legacy->y, format, type, test->n, test->k, test->side[1],
                                     test->side[2]));
    CUDNN(cudnnSetFilter4dDescriptor(legacy->w, type, format, test->k, test->c, test->kernel[1],
                                     test->kernel[2]));
    CUDNN(cudnnSetConvolution2dDescriptor(
        legacy->convolution, test->pre[1], test->pre[2], 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
        test->type == CASE_FP64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(legacy->convolution,
                                      test->type == CASE_TF32 ? CUDNN_DEFAULT_MATH
                                      : test->type == CASE_FP16 || test->type == CASE_BF16
                                          ? CUDNN_TENSOR_OP_MATH
                                          : CUDNN_FMA_MATH));
}

static void close_legacy(legacy_t *legacy)
{
    CUDNN(cudnnDestroyTensorDescriptor(legacy->x));
    CUDNN(cudnnDestroyTensorDescriptor(legacy->y));
    CUDNN(cudnnDestroyFilterDescriptor(legacy->w));
    CUDNN(cudnnDestroyConvolutionDescriptor(legacy->convolution));
}

static void choose_legacy(legacy_t *legacy, const job_t *job)
{
    cudnnConvolutionBwdFilterAlgoPerf_t results[24];
    int count = 0;
    CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(
        job->handle, legacy->x, legacy->y, legacy->convolution, legacy->w, 24, &count, results));
    if (count == 0 || results[0].status != CUDNN_STATUS_SUCCESS)
        BAIL("no algorithm");
    legacy->algo = results[0].algo;
    CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(job->handle, legacy->x, legacy->y,
                                                         legacy->convolution, legacy->w,
                                                         legacy->algo, &legacy->bytes));
}

static void run_legacy(const legacy_t *legacy, job_t *job, gradient_function *gradient,
                       cudnnConvolutionBwdFilterAlgo_t algo, size_t bytes, double *values)
{
    const double wide[] = {job->test.alpha, job->test.beta};
    const float narrow[] = {(float)job->test.alpha, (float)job->test.beta};
    const bool is_wide = job->test.type == CASE_FP64;
    operand_t *const operands = job->problem.operands;
    char *const block = workspace_open(bytes);
    job_upload(job);
    CUDNN(gradient(job->handle, is_wide ? (const void *)&wide[0] : &narrow[0], legacy->x,
                   operands[OPERAND_X].device, legacy->y, operands[OPERAND_Y].device,
                   legacy->convolution, algo, workspace_at(block, bytes), bytes,
                   is_wide ? (const void *)&wide[1] : &narrow[1], legacy->w,
                   operands[OPERAND_W].device));
    download(job, values);
    if (!workspace_close(block, bytes))
        BAIL("written outside of the workspace");
}

static void test_legacy(job_t *job, const pattern_t *pattern, double *stock, const double *sums)
{
    legacy_t legacy;
    open_legacy(&legacy, job);
    choose_legacy(&legacy, job);
    static gradient_function *real;
    if (!real)
        real = stock_gradient();
    run_legacy(&legacy, job, real, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, stock_bytes, stock);
    for (int i = 0; i < TURNS; i++) {
        run_legacy(&legacy, job, cudnnConvolutionBackwardFilter, legacy.algo, legacy.bytes,
                   job->values);
        judge("legacy", job, pattern, stock, sums);
    }
    close_legacy(&legacy);
}

/* ---- the graph interface ---- */

static void execute(job_t *job, const backend_api_t *api, cudnnBackendDescriptor_t plan,
                    size_t bytes, double *values)
{
    char *const block = workspace_open(bytes);
    job_upload(job);
    cudnnBackendDescriptor_t pack = job_pack(api, job, workspace_at(block, bytes));
    CUDNN(api->cudnnBackendExecute(job->handle, plan, pack));
    download(job, values);
    CUDNN(api->cudnnBackendDestroyDescriptor(pack));
    if (!workspace_close(block, bytes))
        BAIL("written outside of the workspace");
}

static void test_graph(job_t *job, const pattern_t *pattern, double *stock, const double *sums)
{
    cudnnBackendDescriptor_t plan = job_plan(job, job_hungriest(job));
    const size_t told = reported_bytes(plan);
    execute(job, backend_stock(), plan, own_bytes(plan), stock);
    for (int i = 0; i < TURNS; i++) {
        execute(job, backend_linked(), plan, told, job->values);
        judge("graph", job, pattern, stock, sums);
    }
    CUDNN(cudnnBackendDestroyDescriptor(plan));
}

/* ---- all of them ---- */

/* A number that the type of a scalar, float or double, has. */
static double scalar(case_type_t type, double value)
{
    return type == CASE_FP64 ? value : (double)(float)value;
}

/* Every value must be one of the type. */
static bool fits(case_type_t type, const pattern_t *pattern)
{
    return type != CASE_FP16 || (pattern->x >= 1 && pattern->x < 1024 && pattern->y < 16384);
}

/* Of so many combinations one is tested: all, or such that every two of alpha, beta and pattern meet. */
static size_t pace = 1;

static void test_patterns(cudnnHandle_t handle, const graph_case_t *test, bool graph, size_t first)
{
    job_t job;
    job_open(&job, test, handle, NULL);
    double *const stock = calloc(problem_elements(&job.problem), sizeof *stock);
    double *const sums = calloc(problem_elements(&job.problem), sizeof *sums);
    if (!stock || !sums)
        BAIL("out of memory");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!fits(test->type, &patterns[i]) || (first + i) % pace != 0)
            continue;
        shape_data(&job, &patterns[i]);
        problem_forget(&job.problem);
        problem_solve(&job.problem);
        sum_magnitudes(&job, sums);
        (graph ? test_graph : test_legacy)(&job, &patterns[i], stock, sums);
    }
    free(stock);
    free(sums);
    job_close(&job);
}

/* A plan of the graph interface serves one alpha and one beta, so there are fewer. */
static bool test_betas(cudnnHandle_t handle, case_type_t type, size_t alpha, bool graph)
{
    const size_t count = graph ? 2 : sizeof betas / sizeof *betas;
    pace = getenv("MDNN_THOROUGH") ? 1 : count;
    failures = 0;
    for (size_t i = 0; i < count; i++) {
        graph_case_t test = small_case(GRAPH_BACKWARD_FILTER, type, IMAGES);
        test.layout = CASE_NCHW; /* where 16-bit data need workspace */
        test.c = test.k = 4;
        test.alpha = scalar(type, alphas[alpha]);
        test.beta = scalar(type, betas[i]);
        test_patterns(handle, &test, graph, alpha + i);
    }
    return failures == 0;
}

int main(int argc, char **argv)
{
    enum { ALPHAS = sizeof alphas / sizeof *alphas };
    cudnnHandle_t handle;
    int type = 0;
    bool all_right = true;
    while (argc == 3 && type <= CASE_FP64 && strcmp(argv[2], type_names[type]) != 0)
        type++;
    if (argc != 3 || type > CASE_FP64)
        BAIL("usage: magnitudes legacy|graph TYPE");
    setvbuf(stdout, NULL, _IOLBF, 0);
    CUDNN(cudnnCreate(&handle));
    printf("1..%d\n", ALPHAS);
    for (int i = 0; i < ALPHAS; i++) {
        const bool right =
            test_betas(handle, (case_type_t)type, (size_t)i, strcmp(argv[1], "graph") == 0);
        printf("%s %d - %s, alpha %g\n", right ? "ok" : "not ok", i + 1, type_names[type],
               alphas[i]);
        all_right = all_right && right;
    }
    CUDNN(cudnnDestroy(handle));
    return all_right ? 0 : 1;
}
