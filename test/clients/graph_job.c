#include "test/clients/graph_job.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { GUARD = 512 };

const backend_api_t *backend_linked(void)
{
#define LINKED(name) .name = &name,
    static const backend_api_t api = {BACKEND_FUNCTIONS(LINKED)};
#undef LINKED
    return &api;
}

/* dlvsym is what nobody hooks. */
static void find_stock(void *handle, const char *name, void *member)
{
    void *const found = handle ? dlvsym(handle, name, "libcudnn_graph.so.9") : NULL;
    if (!found)
        BAIL(name);
    memcpy(member, &found, sizeof found);
}

const backend_api_t *backend_stock(void)
{
    static backend_api_t api;
    if (!api.cudnnBackendUpdateCudaGraph) {
        void *const handle = dlopen("libcudnn_graph.so.9", RTLD_NOW);
#define FIND(name) find_stock(handle, #name, &api.name);
        BACKEND_FUNCTIONS(FIND)
#undef FIND
    }
    return &api;
}

graph_case_t small_case(graph_direction_t direction, case_type_t type, int n)
{
    const bool narrow = type == CASE_FP16 || type == CASE_BF16;
    graph_case_t test = {.direction = direction,
                         .type = type,
                         .layout = narrow ? CASE_NHWC : CASE_NCHW,
                         .n = n,
                         .c = narrow ? 8 : 4,
                         .k = narrow ? 8 : 4,
                         .groups = 1,
                         .spatial = 2,
                         .side = {1, 6, 6},
                         .kernel = {1, 3, 3},
                         .pre = {0, 1, 1},
                         .post = {0, 1, 1},
                         .stride = {1, 1, 1},
                         .dilation = {1, 1, 1},
                         .alpha = 1,
                         .alpha2 = 1,
                         .activation = CUDNN_POINTWISE_IDENTITY};
    return test;
}

/* `job` has its problem already. */
static void make_configs(job_t *job, cudnnBackendDescriptor_t device)
{
    graph_t graph;
    problem_solve(&job->problem);
    CUDNN(problem_build(&job->problem, &graph, job->handle));
    (void)graph_add_configs(&graph, CUDNN_HEUR_MODE_INSTANT, device, job->configs, GRAPH_CONFIGS,
                            &job->count);
    (void)graph_add_configs(&graph, CUDNN_HEUR_MODE_FALLBACK, device, job->configs, GRAPH_CONFIGS,
                            &job->count);
    graph_fini(&graph);
    job->count = graph_filter_configs(
        job->configs, job->count,
        graph_refused_notes(graph_case_data_type(&job->test), job->test.type == CASE_TF32, false));
    job->values = calloc(problem_elements(&job->problem), sizeof *job->values);
    if (!job->values || job->count == 0)
        BAIL("no engine");
}

static void begin(job_t *job, const graph_case_t *test, cudnnHandle_t handle)
{
    memset(job, 0, sizeof *job);
    job->test = *test;
    job->handle = handle;
    problem_init(&job->problem, &job->test);
}

void job_open(job_t *job, const graph_case_t *test, cudnnHandle_t handle,
              cudnnBackendDescriptor_t device)
{
    begin(job, test, handle);
    make_configs(job, device);
}

void job_open_renamed(job_t *job, const graph_case_t *test, cudnnHandle_t handle)
{
    begin(job, test, handle);
    operand_t *const operands = job->problem.operands;
    const int64_t x_uid = operands[OPERAND_X].uid;
    operands[OPERAND_X].uid = operands[OPERAND_W].uid;
    operands[OPERAND_W].uid = operands[OPERAND_Y].uid;
    operands[OPERAND_Y].uid = x_uid;
    make_configs(job, NULL);
}

void job_close(job_t *job)
{
    graph_free_configs(job->configs, job->count);
    problem_fini(&job->problem);
    free(job->values);
}

cudnnBackendDescriptor_t job_plan(const job_t *job, int config)
{
    cudnnBackendDescriptor_t plan;
    (void)graph_create_plan(job->handle, &job->configs[config], &plan);
    return plan;
}

size_t own_bytes(cudnnBackendDescriptor_t plan)
{
    int64_t count = 0, bytes = -1;
    CUDNN(backend_stock()->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                    CUDNN_TYPE_INT64, 1, &count, &bytes));
    return (size_t)bytes;
}

size_t reported_bytes(cudnnBackendDescriptor_t plan)
{
    size_t bytes;
    CUDNN(graph_plan_workspace(plan, &bytes));
    return bytes;
}

int job_hungriest(const job_t *job)
{
    size_t most = 0;
    int hungriest = 0;
    for (int i = 0; i < job->count; i++) {
        cudnnBackendDescriptor_t plan = job_plan(job, i);
        const size_t bytes = plan ? own_bytes(plan) : 0;
        if (bytes > most) {
            most = bytes;
            hungriest = i;
        }
        if (plan)
            CUDNN(cudnnBackendDestroyDescriptor(plan));
    }
    return hungriest;
}

bool initializes_packs;

cudnnBackendDescriptor_t job_pack(const backend_api_t *api, const job_t *job, void *workspace)
{
    cudnnBackendDescriptor_t pack;
    graph_pack_t bound = {.workspace = workspace};
    problem_bind(&job->problem, &bound);
    CUDNN(api->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack));
    if (initializes_packs)
        CUDNN(api->cudnnBackendInitialize(pack));
    CUDNN(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                        CUDNN_TYPE_VOID_PTR, bound.count, bound.pointers));
    CUDNN(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                        bound.count, bound.uids));
    CUDNN(api->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                        CUDNN_TYPE_VOID_PTR, 1, &workspace));
    CUDNN(api->cudnnBackendFinalize(pack));
    return pack;
}

char *workspace_open(size_t bytes)
{
    char *block;
    CUDA(cudaMalloc((void **)&block, bytes + 2 * GUARD));
    CUDA(cudaMemset(block, 0xFF, bytes + 2 * GUARD));
    CUDA(cudaDeviceSynchronize());
    return block;
}

void *workspace_at(char *block, size_t bytes)
{
    return bytes ? block + GUARD : NULL;
}

bool workspace_close(char *block, size_t bytes)
{
    unsigned char guards[2 * GUARD];
    bool intact = true;
    CUDA(cudaMemcpy(guards, block, GUARD, cudaMemcpyDeviceToHost));
    CUDA(cudaMemcpy(guards + GUARD, block + GUARD + bytes, GUARD, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 2 * GUARD; i++)
        intact = intact && guards[i] == 0xFF;
    CUDA(cudaFree(block));
    return intact;
}

void job_upload(job_t *job)
{
    problem_upload(&job->problem, 0);
    CUDA(cudaDeviceSynchronize());
}

const char *job_judge(job_t *job)
{
    static const double floors[] = {1e-5, 1e-3, 2e-3, 1e-2, 1e-12};
    CUDA(cudaDeviceSynchronize());
    if (!problem_download(&job->problem, job->values))
        return "wrote outside its output";
    return problem_error(&job->problem, job->values) <= floors[job->test.type] ? NULL
                                                                               : "a wrong result";
}

const char *job_run(job_t *job, cudnnHandle_t handle, cudnnBackendDescriptor_t plan, size_t bytes)
{
    char *const block = workspace_open(bytes);
    job_upload(job);
    cudnnBackendDescriptor_t pack = job_pack(backend_linked(), job, workspace_at(block, bytes));
    const cudnnStatus_t status = cudnnBackendExecute(handle, plan, pack);
    CUDNN(cudnnBackendDestroyDescriptor(pack));
    CUDA(cudaDeviceSynchronize());
    const bool intact = workspace_close(block, bytes);
    if (status != CUDNN_STATUS_SUCCESS)
        return cudnnGetErrorString(status);
    return intact ? job_judge(job) : "wrote outside its workspace";
}
