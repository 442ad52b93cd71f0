/* For the simulator's tests. Each test runs in a child process of its own, with its own
 * environment, as the simulator reads that once; so nothing here may touch CUDA in the parent. */
#ifndef TEST_SIM_H
#define TEST_SIM_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "test/sim/sim.h"

const sim_api_t *sim_api(void);

static bool failure_expected; /* then it is not reported */

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            if (!failure_expected)                                                                 \
                fprintf(stderr, "# %s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call) CHECK((int)(call) == 0)

/* Events of this process, for destroy_events: a leak checker sees those that nobody destroys. */
static cudaEvent_t events[64];
static size_t event_count;

static inline cudaEvent_t new_event(void)
{
    CHECK(event_count < sizeof events / sizeof events[0]);
    cudaEvent_t *event = &events[event_count++];
    OK(cudaEventCreate(event));
    return *event;
}

static inline void destroy_events(void)
{
    while (event_count > 0)
        OK(cudaEventDestroy(events[--event_count]));
}

/* The wait status of a child that runs `body` with "NAME=value ..." set. */
static inline int run_child(void (*body)(void), const char *environment)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char text[512], *rest = text;
        snprintf(text, sizeof text, "%s", environment);
        for (char *item; (item = strsep(&rest, " "));) {
            char *equals = strchr(item, '=');
            if (equals) {
                *equals = '\0';
                setenv(item, equals + 1, 1);
            }
        }
        static const int caught[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}; /* by cmocka */
        for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++)
            signal(caught[i], SIG_DFL);
        body();
        destroy_events();
        exit(0); /* so that a leak checker speaks */
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static inline void expect_success(void (*body)(void), const char *environment)
{
    assert_int_equal(run_child(body, environment), 0);
}

/* floats[i] += value, for i < count. */
static inline void add_body(void *const *p)
{
    uint64_t address, count;
    float value;
    memcpy(&address, p[0], sizeof address);
    memcpy(&value, p[1], sizeof value);
    memcpy(&count, p[2], sizeof count);
    float *floats = sim_api()->memory(address, count * sizeof *floats);
    for (uint64_t i = 0; floats && i < count; i++)
        floats[i] += value;
}

static const sim_kernel_parameter_t add_parameters[] = {{0, 8}, {8, 4}, {16, 8}};
static const sim_kernel_t add_kernel = {"test_add", 3, add_parameters, add_body};

static inline CUresult launch_add(void *address, float value, uint64_t count, double cost_us,
                                  CUstream stream)
{
    void *parameters[] = {&address, &value, &count};
    sim_api()->set_next_cost_us(cost_us);
    return cuLaunchKernel(sim_api()->function(&add_kernel), 1, 1, 1, 32, 1, 1, 0, stream,
                          parameters, NULL);
}

static inline cudaStream_t new_stream(void)
{
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline void *new_device(size_t bytes)
{
    void *memory;
    OK(cudaMalloc(&memory, bytes));
    return memory;
}

static inline void *new_pinned(size_t bytes)
{
    void *memory;
    OK(cudaMallocHost(&memory, bytes));
    return memory;
}

#endif
