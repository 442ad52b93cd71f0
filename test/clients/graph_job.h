/* A graph of graph_problem with its engine configurations, its plans' workspaces between guards,
 * and cuDNN itself past every preloaded library, to compare with. What must work bails out. */
#ifndef GRAPH_JOB_H
#define GRAPH_JOB_H

#include "test/clients/bail.h"
#include "test/clients/graph_problem.h"

typedef struct job {
    graph_case_t test;
    problem_t problem;
    cudnnHandle_t handle;
    graph_config_t configs[GRAPH_CONFIGS];
    int count;
    double *values; /* of the output, after job_run */
} job_t;

/* The functions of one cuDNN. */
typedef struct backend_api {
#define BACKEND_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(cudnnBackendCreateDescriptor)                                                         \
    FUNCTION(cudnnBackendDestroyDescriptor)                                                        \
    FUNCTION(cudnnBackendInitialize)                                                               \
    FUNCTION(cudnnBackendFinalize)                                                                 \
    FUNCTION(cudnnBackendSetAttribute)                                                             \
    FUNCTION(cudnnBackendGetAttribute)                                                             \
    FUNCTION(cudnnBackendExecute)                                                                  \
    FUNCTION(cudnnBackendPopulateCudaGraph)                                                        \
    FUNCTION(cudnnBackendUpdateCudaGraph)
#define MEMBER(name) __typeof__(&name) name;
    BACKEND_FUNCTIONS(MEMBER)
#undef MEMBER
} backend_api_t;

/* As this program is linked, and straight from libcudnn_graph.so.9. */
const backend_api_t *backend_linked(void);
const backend_api_t *backend_stock(void);

/* A small convolution: 3x3, padded by 1, `n` images of 4 channels. */
graph_case_t small_case(graph_direction_t direction, case_type_t type, int n);

/* With the configurations that PyTorch would consider. `handle` is borrowed; NULL with a `device`.
 */
void job_open(job_t *job, const graph_case_t *test, cudnnHandle_t handle,
              cudnnBackendDescriptor_t device);
/* The same graph with x, w and y called by each other's names. */
void job_open_renamed(job_t *job, const graph_case_t *test, cudnnHandle_t handle);
void job_close(job_t *job);

/* NULL if the engine refuses. The caller destroys it. */
cudnnBackendDescriptor_t job_plan(const job_t *job, int config);
/* Workspace that cuDNN itself says, and what this program is told. */
size_t own_bytes(cudnnBackendDescriptor_t plan);
size_t reported_bytes(cudnnBackendDescriptor_t plan);
/* A configuration with the most workspace. */
int job_hungriest(const job_t *job);

/* A finalized variant pack with the job's data at `workspace`. Caller destroys. Initialized before
 * anything is set, if that is wanted. */
extern bool initializes_packs;
cudnnBackendDescriptor_t job_pack(const backend_api_t *api, const job_t *job, void *workspace);

/* Stores new operands and executes within exactly `bytes`. NULL if the result is right and nothing
 * else was written, else what is wrong. */
const char *job_run(job_t *job, cudnnHandle_t handle, cudnnBackendDescriptor_t plan, size_t bytes);
/* The same in its steps. Streams that wait for nothing may use what was uploaded. */
void job_upload(job_t *job);
const char *job_judge(job_t *job);
char *workspace_open(size_t bytes);
void *workspace_at(char *block, size_t bytes);   /* NULL if there are none */
bool workspace_close(char *block, size_t bytes); /* false if a guard was written to */

#endif
