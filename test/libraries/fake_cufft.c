/* A libcufft.so.12 whose kernels use memory that no parameter of theirs names: tables that the library allocates for
 * itself when a plan is made, the work area of the plan, and what a transform reads and writes, which a queue on the host
 * tells the kernel. Numbers are words: a transform of `count` of them is
 *
 *   work[j] = 3 in[j];   out[j] = work[j] + table[j % PERIOD],   table[k] = 11 k + 5
 *
 * cufftFakeAdd is told by its parameter where its words are: in place word + table. */
#include <stdbool.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "test/libraries/kernels.h"

enum { SUCCESS = 0, INVALID_PLAN = 1, ALLOC_FAILED = 2, EXEC_FAILED = 6 };
enum { PLANS = 64, JOBS = 4096, PERIOD = 64 };

typedef struct plan {
    bool made;
    uint32_t *tables; /* of table_bytes */
    uint64_t table_bytes, work;
    uint32_t count;
    cudaStream_t stream;
} plan_t;

typedef struct job {
    uint64_t in, out, work, tables, table_bytes;
    uint32_t count;
} job_t;

static plan_t plans[PLANS];
static job_t jobs[JOBS];
static uint32_t job_count;
static CUfunction transform_function, add_function;

static void transform(void *const *parameters)
{
    const job_t *const job = &jobs[*(uint32_t *)parameters[0] % JOBS];
    const uint64_t bytes = (uint64_t)job->count * sizeof(uint32_t);
    const uint32_t *const in = simulator->memory(job->in, bytes);
    const uint32_t *const tables = simulator->memory(job->tables, job->table_bytes);
    uint32_t *const out = simulator->memory(job->out, bytes);
    uint32_t *const work = simulator->memory(job->work, bytes);
    if (!in || !tables || !out || !work)
        return;
    for (uint32_t j = 0; j < job->count; j++)
        work[j] = 3 * in[j];
    for (uint32_t j = 0; j < job->count; j++)
        out[j] = work[j] + tables[j % PERIOD];
}

static void add(void *const *parameters)
{
    const job_t *const job = &jobs[*(uint32_t *)parameters[1] % JOBS];
    uint32_t *const words =
        simulator->memory(*(uint64_t *)parameters[0], job->count * sizeof(uint32_t));
    const uint32_t *const tables = simulator->memory(job->tables, job->table_bytes);
    for (uint32_t j = 0; words && tables && j < job->count; j++)
        words[j] += tables[j % PERIOD];
}

static const sim_kernel_parameter_t one_number[] = {{0, 4}},
                                    address_and_number[] = {{0, 8}, {8, 4}};
static const sim_kernel_t kernels[] = {{"regular_fft", 1, one_number, transform},
                                       {"fake_add", 2, address_and_number, add}};

int cufftFakePlan(int *handle, uint32_t count, size_t table_bytes);
int cufftFakeAdd(int handle, void *words);
int cufftSetWorkArea(int handle, void *work);
int cufftSetStream(int handle, cudaStream_t stream);
int cufftDestroy(int handle);
int cufftExecC2C(int handle, void *in, void *out, int direction);
int cufftExecR2C(int handle, void *in, void *out);
int cufftXtExec(int handle, void *in, void *out, int direction);

static plan_t *plan_of(int handle)
{
    return handle > 0 && handle < PLANS && plans[handle].made ? &plans[handle] : NULL;
}

static bool fill_tables(const plan_t *plan)
{
    uint32_t words[PERIOD];
    for (uint32_t k = 0; k < PERIOD; k++)
        words[k] = 11 * k + 5;
    return cudaMemset(plan->tables, 0, plan->table_bytes) == cudaSuccess &&
           cudaMemcpy(plan->tables, words, sizeof words, cudaMemcpyHostToDevice) == cudaSuccess &&
           cudaStreamSynchronize(NULL) == cudaSuccess;
}

/* In the place of cufftPlan1d and its like. */
int cufftFakePlan(int *handle, uint32_t count, size_t table_bytes)
{
    int at = 1;
    while (at < PLANS && plans[at].made)
        at++;
    if (at == PLANS)
        return ALLOC_FAILED;
    if (!transform_function) {
        transform_function = find_kernel(&kernels[0]);
        add_function = find_kernel(&kernels[1]);
    }
    plans[at] = (plan_t){.made = true, .table_bytes = table_bytes, .count = count};
    if (cudaMalloc((void **)&plans[at].tables, table_bytes) != cudaSuccess ||
        !fill_tables(&plans[at]))
        return ALLOC_FAILED;
    *handle = at;
    return SUCCESS;
}

int cufftSetWorkArea(int handle, void *work)
{
    plan_t *const plan = plan_of(handle);
    if (!plan)
        return INVALID_PLAN;
    plan->work = (uint64_t)(uintptr_t)work;
    return SUCCESS;
}

int cufftSetStream(int handle, cudaStream_t stream)
{
    plan_t *const plan = plan_of(handle);
    if (!plan)
        return INVALID_PLAN;
    plan->stream = stream;
    return SUCCESS;
}

int cufftDestroy(int handle)
{
    plan_t *const plan = plan_of(handle);
    if (!plan)
        return INVALID_PLAN;
    plan->made = false;
    return cudaFree(plan->tables) == cudaSuccess ? SUCCESS : EXEC_FAILED;
}

static uint32_t new_job(const plan_t *plan, const void *in, void *out)
{
    jobs[job_count % JOBS] = (job_t){.in = (uint64_t)(uintptr_t)in,
                                     .out = (uint64_t)(uintptr_t)out,
                                     .work = plan->work,
                                     .tables = (uint64_t)(uintptr_t)plan->tables,
                                     .table_bytes = plan->table_bytes,
                                     .count = plan->count};
    return job_count++;
}

static int execute(int handle, const void *in, void *out)
{
    const plan_t *const plan = plan_of(handle);
    if (!plan)
        return INVALID_PLAN;
    uint32_t job = new_job(plan, in, out);
    void *parameters[] = {&job};
    return launch_kernel(transform_function, (CUstream)plan->stream, parameters) ? EXEC_FAILED
                                                                                 : SUCCESS;
}

int cufftExecC2C(int handle, void *in, void *out, int direction)
{
    (void)direction;
    return execute(handle, in, out);
}

int cufftExecR2C(int handle, void *in, void *out)
{
    return execute(handle, in, out);
}

int cufftXtExec(int handle, void *in, void *out, int direction)
{
    (void)direction;
    return execute(handle, in, out);
}

int cufftFakeAdd(int handle, void *words)
{
    const plan_t *const plan = plan_of(handle);
    if (!plan)
        return INVALID_PLAN;
    uint32_t job = new_job(plan, NULL, NULL);
    uint64_t address = (uint64_t)(uintptr_t)words;
    void *parameters[] = {&address, &job};
    return launch_kernel(add_function, (CUstream)plan->stream, parameters) ? EXEC_FAILED : SUCCESS;
}
