/* A brief program that holds more than the budget it is given, run once for each call of the driver
 * that can fail: every allocation, mapping, copy, event and wait, the program's own among them.
 * Each time it gets right results, or an error; no other content, no endless wait, no crash.
 *
 *   every_fault NAME...   all calls of these functions, each in a process of its own; a line for
 * each every_fault NAME NTH  that one call of function NAME: the exit status is one of outcome_t */
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/clients/mix.h"

typedef enum outcome { RIGHT, TOLD = 1, WRONG, NEVER_CAME, OUTCOMES } outcome_t;

enum {
    BUFFERS = 5,
    WORDS = 400 << 10,
    ROUNDS = 2,
    STREAMS = 2,
    SECONDS = 600,
    MOST_CALLS = 100000
};

static uint32_t *device[BUFFERS], *model[BUFFERS];

/* device[a] = 3 device[a] + device[b] + k */
static void work(cudaStream_t stream, int a, int b, uint32_t k)
{
    uint32_t words = WORDS;
    void *parameters[] = {(void *)&device[a], (void *)&device[b], &words, &k};
    CHECK(cuLaunchKernel(mix, (WORDS + 255) / 256, 1, 1, 256, 1, 1, 0, (CUstream)stream, parameters,
                         NULL) == CUDA_SUCCESS);
    for (uint32_t i = 0; i < WORDS; i++)
        model[a][i] = 3 * model[a][i] + model[b][i] + k;
}

static bool content_is_right(cudaStream_t stream)
{
    static uint32_t host[WORDS];
    for (int i = 0; i < BUFFERS; i++) {
        CUDA(cudaMemcpyAsync(host, device[i], sizeof host, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        if (memcmp(host, model[i], sizeof host) != 0)
            return false;
    }
    return true;
}

static void allocate(cudaStream_t stream)
{
    for (int i = 0; i < BUFFERS; i++) {
        if (i % 2)
            CUDA(cudaMalloc((void **)&device[i], WORDS * 4));
        else
            CUDA(cudaMallocAsync((void **)&device[i], WORDS * 4, stream));
        CUDA(cudaMemsetAsync(device[i], i, WORDS * 4, stream));
        memset(model[i], i, WORDS * 4);
    }
}

static void release(cudaStream_t stream)
{
    for (int i = 0; i < BUFFERS; i++)
        if (i % 2)
            CUDA(cudaFree(device[i]));
        else
            CUDA(cudaFreeAsync(device[i], stream));
}

/* Everything is used in every round, and more than fits. */
static outcome_t program(void)
{
    cudaStream_t streams[STREAMS];
    cudaEvent_t event;
    for (int i = 0; i < STREAMS; i++)
        CUDA(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < BUFFERS; i++)
        CHECK((model[i] = malloc(WORDS * 4)));
    allocate(streams[0]);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BUFFERS; i++) {
            cudaStream_t const to = streams[i % STREAMS], from = streams[(i + 1) % STREAMS];
            CUDA(cudaEventRecord(event, from));
            CUDA(cudaStreamWaitEvent(to, event, 0));
            work(to, i, (i + 3) % BUFFERS, (uint32_t)round);
        }
        CUDA(cudaDeviceSynchronize());
    }
    if (!content_is_right(streams[0]))
        return WRONG;
    release(streams[0]);
    CUDA(cudaDeviceSynchronize());
    return RIGHT;
}

static outcome_t with_fault(const char *name, uint64_t nth)
{
    alarm(SECONDS);
    load_mix();
    CHECK(simulator);
    simulator->inject(name, nth, CUDA_ERROR_UNKNOWN);
    const outcome_t outcome = program();
    return outcome == RIGHT && simulator->faults_fired() == 0 ? NEVER_CAME : outcome;
}

/* ---- all of them ---- */

/* OUTCOMES if it crashed or did not end. */
static outcome_t run_one(const char *name, unsigned nth)
{
    char number[16];
    int status;
    snprintf(number, sizeof number, "%u", nth);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", "every_fault", name, number, (char *)NULL);
        _exit(OUTCOMES);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) < OUTCOMES ? (outcome_t)WEXITSTATUS(status)
                                                               : OUTCOMES;
}

static bool survives(const char *name)
{
    unsigned count[OUTCOMES + 1] = {0}, nth = 1;
    bool bad = false;
    for (; nth < MOST_CALLS && count[NEVER_CAME] == 0; nth++) {
        const outcome_t outcome = run_one(name, nth);
        count[outcome]++;
        if (outcome == WRONG || outcome == OUTCOMES) {
            printf("%s, call %u: %s\n", name, nth,
                   outcome == WRONG ? "wrong results" : "crashed, or hung");
            bad = true;
        }
    }
    printf("%s: %u calls, each failed once: %u times right, %u times told\n", name, nth - 2,
           count[RIGHT], count[TOLD]);
    if (count[NEVER_CAME] == 0)
        printf("%s: there are more than %d calls\n", name, (int)MOST_CALLS - 1);
    return !bad && nth > 2 && count[NEVER_CAME] > 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    const uint64_t nth = argc == 3 ? strtoull(argv[2], &end, 10) : 0;
    if (nth > 0 && *end == 0)
        return (int)with_fault(argv[1], nth);
    bool good = argc > 1;
    for (int i = 1; i < argc; i++)
        good = survives(argv[i]) && good;
    return !good;
}
