/* Programs under a budget that end, fork or give up in the middle of their work, while memory is on
 * its way. Run by test/endings.sh; they know nothing of the library under test.
 *
 *   endings HOW [MIB]    one of the list at the end; exit status 7 where the program ends by itself, 0
 * where it goes on and all is right in the end. MIB: of each of 16 buffers, 4 if it is not given. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cudnn.h>

#include "test/clients/mix.h"

enum { BUFFERS = 16, MODEL_WORDS = 16, ROUNDS = 5, STATUS = 7, SECONDS = 600 };

static uint32_t words = 1 << 20; /* of each buffer */
static uint32_t *buffers[BUFFERS];
static uint32_t model[BUFFERS][MODEL_WORDS];

static void allocate_all(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        CUDA(cudaMalloc((void **)&buffers[i], words * sizeof(uint32_t)));
        CUDA(cudaMemsetAsync(buffers[i], i, words * sizeof(uint32_t), NULL));
        memset(model[i], i, sizeof model[i]);
    }
}

static void free_all(void)
{
    for (int i = BUFFERS; i-- > 0;)
        CUDA(cudaFree(buffers[i]));
}

static void work_on(int i)
{
    const int j = (i + 7) % BUFFERS;
    uint32_t k = (uint32_t)i;
    void *parameters[] = {&buffers[i], &buffers[j], &words, &k};
    CHECK(cuLaunchKernel(mix, words / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL) ==
          CUDA_SUCCESS);
    for (int w = 0; w < MODEL_WORDS; w++)
        model[i][w] = 3 * model[i][w] + model[j][w] + k;
}

/* What repeats, as training does. */
static void work(int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < BUFFERS; i++)
            work_on(i);
}

static void work_half_way(void)
{
    allocate_all();
    work(ROUNDS);
    for (int i = 0; i < BUFFERS / 2; i++)
        work_on(i);
}

static void check_all(void)
{
    uint32_t found[MODEL_WORDS];
    for (int i = 0; i < BUFFERS; i++) {
        CUDA(cudaMemcpy(found, buffers[i] + words - MODEL_WORDS, sizeof found,
                        cudaMemcpyDeviceToHost));
        CHECK(memcmp(found, model[i], sizeof found) == 0);
    }
}

static void go_on(void)
{
    work(ROUNDS / 2);
    check_all();
    free_all();
}

/* ---- ends ---- */

static void returns(void)
{
    work_half_way();
}

static void exits(void)
{
    work_half_way();
    exit(STATUS);
}

static void exits_at_once(void)
{
    work_half_way();
    _exit(STATUS);
}

static void aborts(void)
{
    work_half_way();
    abort();
}

static void is_killed(void)
{
    work_half_way();
    (void)raise(SIGKILL);
}

static void is_interrupted(void)
{
    work_half_way();
    (void)raise(SIGINT);
}

static void *exit_here(void *unused)
{
    (void)unused;
    exit(STATUS);
}

/* Another thread ends the process while this one goes on. */
static void exits_beside(void)
{
    pthread_t other;
    work_half_way();
    CHECK(pthread_create(&other, NULL, exit_here, NULL) == 0);
    for (;;)
        work(1);
}

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* As Python does: the handler takes note, and the program unwinds at the next chance. */
static void handles_an_interrupt(void)
{
    (void)signal(SIGINT, note_interrupt);
    work_half_way();
    (void)raise(SIGINT);
    while (!interrupted)
        work(1);
    free_all();
    exit(STATUS);
}

/* An exception in the middle of a round: all is dropped while work is enqueued; then again. */
static void gives_up_and_begins_anew(void)
{
    for (int i = 0; i < 3; i++) {
        work_half_way();
        free_all();
    }
    allocate_all();
    go_on();
}

/* ---- what goes on while exit handlers and destructors run, after the library's own ---- */

static size_t used_bytes(void)
{
    size_t free_bytes, total_bytes;
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    return total_bytes - free_bytes;
}

static void renew(int i)
{
    CUDA(cudaFree(buffers[i]));
    CUDA(cudaMalloc((void **)&buffers[i], words * sizeof(uint32_t)));
    CUDA(cudaMemsetAsync(buffers[i], i, words * sizeof(uint32_t), NULL));
    memset(model[i], i, sizeof model[i]);
}

/* What is freed is free. */
static void end_late(void)
{
    const size_t held_bytes = (size_t)BUFFERS * words * sizeof(uint32_t);
    const size_t before_bytes = used_bytes();
    free_all();
    CHECK(used_bytes() + held_bytes <= before_bytes);
    for (int i = 0; i < 2 * BUFFERS; i++) {
        void *one;
        CUDA(cudaMalloc(&one, held_bytes / 2));
        CUDA(cudaMemset(one, i, held_bytes / 2));
        CUDA(cudaFree(one));
    }
}

static void go_on_late(void)
{
    work(ROUNDS);
    for (int i = 0; i < BUFFERS; i++) {
        renew(i);
        work(1);
    }
    check_all();
    end_late();
}

static void reset_late(void)
{
    CUDA(cudaDeviceReset());
    load_mix();
    allocate_all();
    go_on_late();
}

static pthread_t worker;

static void *work_late(void *unused)
{
    for (int i = 0; i < 4 * BUFFERS; i++) {
        renew(i % BUFFERS);
        work(1);
    }
    check_all();
    end_late();
    return unused;
}

/* As pools of threads do, which finish what they have been given. */
static void join_late(void)
{
    CHECK(pthread_join(worker, NULL) == 0);
}

static void leaves_work_to_a_thread(void)
{
    work_half_way();
    CHECK(pthread_create(&worker, NULL, work_late, NULL) == 0);
    exit(STATUS);
}

/* A driver that has shut down takes no calls any more. */
static void free_late(void)
{
    for (int i = 0; i < BUFFERS; i++) {
        const cudaError_t error = cudaFree(buffers[i]);
        CHECK(error == cudaSuccess || error == cudaErrorCudartUnloading);
    }
}

static void (*at_destruction)(void);

__attribute__((destructor)) static void destroy(void)
{
    if (at_destruction)
        at_destruction();
}

static void goes_on_in_a_destructor(void)
{
    at_destruction = go_on_late;
    exits();
}

/* ---- children, which never use the GPU ---- */

/* The leak checker of a sanitizer build stops all threads, and complains of those that a child does not have. The
 * parent is checked. */
static bool is_child;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return is_child;
}

typedef enum child_end {
    CHILD_EXIT,
    CHILD_EXIT_AT_ONCE,
    CHILD_EXEC,
    CHILD_ABORT,
    CHILD_ENDS
} child_end_t;

static void end_child(child_end_t how)
{
    is_child = true;
    (void)alarm(SECONDS);
    switch (how) {
    case CHILD_EXIT:
        exit(STATUS);
    case CHILD_EXIT_AT_ONCE:
        _exit(STATUS);
    case CHILD_EXEC:
        (void)execlp("sh", "sh", "-c", "exit 7", (char *)NULL);
        break;
    default:
        abort();
    }
}

/* As programs do that want a child without fork handlers: a copy of this process. */
static pid_t clone_raw(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static void make_children(pid_t (*make)(void))
{
    work_half_way();
    for (child_end_t how = 0; how < CHILD_ENDS; how++) {
        int status;
        const pid_t child = make();
        CHECK(child >= 0);
        if (child == 0)
            end_child(how);
        work(1);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(how == CHILD_ABORT ? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT
                                 : WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
    }
    go_on();
}

static void forks(void)
{
    make_children(fork);
}

static void clones(void)
{
    make_children(clone_raw);
}

/* A child that asks about the device and ends: it is told of trouble, and waits for nothing. */
static void clones_that_ask(void)
{
    int status;
    work_half_way();
    const pid_t child = clone_raw();
    CHECK(child >= 0);
    if (child == 0) {
        size_t free_bytes, total_bytes;
        is_child = true;
        (void)alarm(SECONDS);
        (void)cudaMemGetInfo(&free_bytes, &total_bytes);
        (void)cudaFree(buffers[0]);
        exit(STATUS);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
    go_on();
}

/* ---- children of a parent that has not initialized CUDA: both may use it ---- */

static void find_a_function(void)
{
    void *found = NULL;
    CHECK(cuGetProcAddress("cuMemAlloc", &found, 12000, 0, NULL) == CUDA_SUCCESS && found);
}

static void make_a_descriptor(void)
{
    cudnnBackendDescriptor_t descriptor;
    CHECK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor) ==
          CUDNN_STATUS_SUCCESS);
}

static size_t *total_of_all; /* shared by all processes; 0: none has been told of it */

/* Within the memory that there is, as the program is told; all processes are told the same. */
static void use_the_device(void)
{
    size_t free_bytes, total_bytes;
    load_mix();
    CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(*total_of_all == 0 || *total_of_all == total_bytes);
    *total_of_all = total_bytes;
    work_half_way();
    go_on();
    CHECK(simulator->most_used_bytes(0) <= total_bytes);
}

static void work_in_a_child(pid_t (*make)(void))
{
    int status;
    const pid_t child = make();
    CHECK(child >= 0);
    if (child == 0) {
        is_child = true;
        (void)alarm(SECONDS);
        use_the_device();
        exit(STATUS);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
}

static void forks_before_cuda(void)
{
    work_in_a_child(fork);
    find_a_function();
    work_in_a_child(fork);
    make_a_descriptor();
    work_in_a_child(fork);
    use_the_device();
}

static void clones_before_cuda(void)
{
    find_a_function();
    make_a_descriptor();
    work_in_a_child(clone_raw);
    use_the_device();
}

/* The child has found functions anew when it makes a child of its own. */
static void forks_again_before_cuda(void)
{
    find_a_function();
    const pid_t child = fork();
    int status;
    CHECK(child >= 0);
    if (child == 0) {
        is_child = true;
        find_a_function();
        work_in_a_child(fork);
        use_the_device();
        exit(STATUS);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
    use_the_device();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
        void (*late)(
            void); /* in an exit handler that runs after those of CUDA and of the library */
    } programs[] = {{"returns", returns, NULL},
                    {"exits", exits, NULL},
                    {"exits_at_once", exits_at_once, NULL},
                    {"aborts", aborts, NULL},
                    {"is_killed", is_killed, NULL},
                    {"is_interrupted", is_interrupted, NULL},
                    {"exits_beside", exits_beside, NULL},
                    {"handles_an_interrupt", handles_an_interrupt, NULL},
                    {"gives_up_and_begins_anew", gives_up_and_begins_anew, NULL},
                    {"forks", forks, NULL},
                    {"clones", clones, NULL},
                    {"clones_that_ask", clones_that_ask, NULL},
                    {"forks_before_cuda", forks_before_cuda, NULL},
                    {"clones_before_cuda", clones_before_cuda, NULL},
                    {"forks_again_before_cuda", forks_again_before_cuda, NULL},
                    {"works_at_exit", exits, go_on_late},
                    {"resets_at_exit", exits, reset_late},
                    {"joins_at_exit", leaves_work_to_a_thread, join_late},
                    {"works_in_a_destructor", goes_on_in_a_destructor, NULL},
                    {"frees_when_cuda_is_gone", exits, free_late}};
    if (argc == 3)
        words = (uint32_t)strtoul(argv[2], NULL, 10) << 18;
    for (size_t i = 0; argc >= 2 && words > 0 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            if (programs[i].late == free_late)
                CHECK(setenv("MICRODNN_SIM_ENDS", "1", 1) == 0);
            if (programs[i].late)
                CHECK(atexit(programs[i].late) == 0);
            total_of_all = mmap(NULL, sizeof *total_of_all, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
            CHECK(total_of_all != MAP_FAILED);
            if (!strstr(argv[1], "before_cuda"))
                load_mix();
            programs[i].run();
            return 0;
        }
    fprintf(stderr, "usage: endings HOW [MIB]\n");
    return 2;
}
