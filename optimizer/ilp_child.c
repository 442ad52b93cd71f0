#include "optimizer/ilp_child.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "optimizer/ilp_text.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* on every architecture; headers before Linux 5.9 lack it */
#endif

enum { STACK_BYTES = 1 << 16, MOST_ANSWER_BYTES = 1 << 26, NO_FD = -1 };
static const double longest_ms = 1e9;

/* ---- the grandchild, until it is another program, and its parent ---- */

typedef struct start {
    const char *program;
    char time_limit[32]; /* seconds */
    int socket, null;    /* both above 2 */
    char *stacks;        /* two of STACK_BYTES */
    int pid_fd;          /* of the grandchild; NO_FD: there is none */
} start_t;

/* Runs in the caller's memory, while the calling thread rests: no more than system calls. */
static int become_program(void *context)
{
    start_t *const start = context;
    char *arguments[] = {(char *)(uintptr_t)start->program, (char *)(uintptr_t) "--time-limit",
                         start->time_limit, NULL};
    char *environment[] = {NULL};
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        sigaction(number, &standard, NULL); /* the host's handlers must not run here */
    if (dup2(start->socket, 0) < 0 || dup2(start->socket, 1) < 0 || dup2(start->null, 2) < 0)
        _exit(127);
    syscall(SYS_close_range, 3u, ~0u, 0u); /* older than Linux 5.9: what closes on exec does */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(start->program, arguments, environment);
    _exit(127);
}

/* Likewise. Shares the caller's descriptors, so that the grandchild's stays there. */
static int make_grandchild(void *context)
{
    start_t *const start = context;
    int pid_fd = NO_FD;
    if (clone(become_program, start->stacks + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_PIDFD,
              start, &pid_fd) > 0)
        start->pid_fd = pid_fd;
    _exit(0);
}

/* A descriptor that closes on exec and is none of the standard three. Takes `fd`. */
static int above_standard(int fd)
{
    if (fd < 0 || fd > 2)
        return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

/* exec would make SIGCHLD the child's last signal, whatever clone asked for, so the child in
 * between never calls it. __WALL reaps the child without a signal, and no other child of the
 * program. */
static void clone_twice(start_t *start)
{
    sigset_t all, before;
    start->stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (start->stacks == MAP_FAILED)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t between = clone(make_grandchild, start->stacks + 2 * STACK_BYTES,
                                CLONE_VM | CLONE_VFORK | CLONE_FILES, start);
    while (between > 0 && waitpid(between, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    munmap(start->stacks, 2 * STACK_BYTES);
}

/* ---- the conversation ---- */

typedef struct child {
    int pid_fd, socket;
} child_t;

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void write_seconds(double time_limit_ms, char *text, size_t bytes)
{
    const unsigned long ms = (unsigned long)fmin(fmax(time_limit_ms, 1), longest_ms);
    snprintf(text, bytes, "%lu.%03lu", ms / 1000, ms % 1000);
}

static mdnn_status_t start_child(const char *program, double time_limit_ms, child_t *child)
{
    start_t start = {.program = program, .pid_fd = NO_FD};
    int ends[2];
    if (access(program, X_OK) != 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return MDNN_STATUS_IO;
    write_seconds(time_limit_ms, start.time_limit, sizeof start.time_limit);
    start.socket = above_standard(ends[1]);
    start.null = above_standard(open("/dev/null", O_RDWR | O_CLOEXEC));
    if (start.socket >= 0 && start.null >= 0)
        clone_twice(&start);
    close_if_open(start.socket);
    close_if_open(start.null);
    if (start.pid_fd < 0) {
        close(ends[0]);
        return MDNN_STATUS_IO;
    }
    *child = (child_t){start.pid_fd, ends[0]};
    return MDNN_STATUS_OK;
}

/* Its number may be another process's by now, its descriptor is its own. Reaped here only where the
 * host has become its parent. */
static void end_child(const child_t *child)
{
    enum { P_PIDFD_ID = 3 }; /* P_PIDFD, which older headers lack */
    siginfo_t unused;
    close(child->socket);
    syscall(SYS_pidfd_send_signal, child->pid_fd, SIGKILL, NULL, 0);
    poll(&(struct pollfd){.fd = child->pid_fd, .events = POLLIN}, 1, MDNN_ILP_GRACE_MS);
    waitid((idtype_t)P_PIDFD_ID, (id_t)child->pid_fd, &unused, WEXITED | WNOHANG | __WALL);
    close(child->pid_fd);
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Sends what it can; closes the way there once all is gone or nobody reads. */
static bool send_some(int socket, const mdnn_text_t *question, size_t *sent)
{
    const ssize_t bytes =
        send(socket, question->bytes + *sent, question->used - *sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0)
        *sent += (size_t)bytes;
    const bool over = *sent == question->used || (bytes < 0 && !would_block());
    if (over)
        shutdown(socket, SHUT_WR);
    return over;
}

/* OK at the end of the answer (a reset: it ended without reading all of the question), BUSY if
 * there may be more. */
static mdnn_status_t receive_some(int socket, mdnn_text_t *answer)
{
    if (answer->used == answer->capacity) {
        const size_t capacity = answer->capacity ? 2 * answer->capacity : 1 << 14;
        char *const grown = capacity <= MOST_ANSWER_BYTES ? realloc(answer->bytes, capacity) : NULL;
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        answer->bytes = grown;
        answer->capacity = capacity;
    }
    const ssize_t bytes =
        recv(socket, answer->bytes + answer->used, answer->capacity - answer->used, MSG_DONTWAIT);
    if (bytes > 0)
        answer->used += (size_t)bytes;
    if (bytes > 0 || (bytes < 0 && would_block()))
        return MDNN_STATUS_BUSY;
    return bytes == 0 || errno == ECONNRESET ? MDNN_STATUS_OK : MDNN_STATUS_IO;
}

static mdnn_status_t converse(int socket, const mdnn_text_t *question, double end_ms,
                              mdnn_text_t *answer)
{
    size_t sent = 0;
    bool asked = false;
    for (;;) {
        struct pollfd wait = {.fd = socket, .events = (short)(POLLIN | (asked ? 0 : POLLOUT))};
        const double left_ms = end_ms - now_ms();
        if (left_ms <= 0)
            return MDNN_STATUS_BUSY;
        if (poll(&wait, 1, (int)fmin(ceil(left_ms), 1000)) < 0 && errno != EINTR)
            return MDNN_STATUS_IO;
        if (!asked && (wait.revents & (POLLOUT | POLLERR | POLLHUP)))
            asked = send_some(socket, question, &sent);
        if (wait.revents & (POLLIN | POLLHUP | POLLERR)) {
            const mdnn_status_t status = receive_some(socket, answer);
            if (status != MDNN_STATUS_BUSY)
                return status;
        }
    }
}

/* ---- the answer ---- */

/* Only what the problem itself says of the choices is believed, and the bound. */
static mdnn_status_t take_solution(const mdnn_wd_problem_t *problem,
                                   const mdnn_ilp_solution_t *solution, size_t *choices,
                                   mdnn_wd_result_t *result)
{
    mdnn_wd_result_t found;
    if (solution->state == MDNN_ILP_INFEASIBLE)
        return MDNN_STATUS_NOT_FOUND;
    if (solution->state == MDNN_ILP_FAILED)
        return MDNN_STATUS_BUSY;
    if (solution->choice_count != problem->kernel_count)
        return MDNN_STATUS_BAD_FORMAT;
    const mdnn_status_t status =
        mdnn_wd_evaluate(problem, solution->choices, &found.time_ms, &found.workspace_bytes, NULL);
    if (status != MDNN_STATUS_OK)
        return status == MDNN_STATUS_OUT_OF_MEMORY ? status : MDNN_STATUS_BAD_FORMAT;
    found.optimal = solution->state == MDNN_ILP_OPTIMAL;
    found.bound_ms = found.optimal ? found.time_ms : fmin(solution->bound_ms, found.time_ms);
    if (solution->choice_count > 0)
        memcpy(choices, solution->choices, solution->choice_count * sizeof *choices);
    *result = found;
    return MDNN_STATUS_OK;
}

static mdnn_status_t take_answer(const mdnn_text_t *answer, const mdnn_wd_problem_t *problem,
                                 size_t *choices, mdnn_wd_result_t *result)
{
    mdnn_ilp_solution_t solution;
    if (answer->used == 0)
        return MDNN_STATUS_IO;
    mdnn_ilp_cursor_t cursor = {answer->bytes, answer->bytes + answer->used, 1};
    MDNN_TRY(mdnn_ilp_read_solution(&cursor, &solution));
    const mdnn_status_t status = cursor.next == cursor.end
                                     ? take_solution(problem, &solution, choices, result)
                                     : MDNN_STATUS_BAD_FORMAT;
    mdnn_ilp_solution_fini(&solution);
    return status;
}

mdnn_status_t mdnn_ilp_ask(const char *program, const mdnn_wd_problem_t *problem,
                           double time_limit_ms, size_t *choices, mdnn_wd_result_t *result)
{
    mdnn_text_t question = {0}, answer = {0};
    child_t child;
    if (!(time_limit_ms > 0))
        return MDNN_STATUS_INVALID_ARGUMENT;
    const double end_ms = now_ms() + fmin(time_limit_ms, longest_ms) + MDNN_ILP_GRACE_MS;
    mdnn_status_t status = mdnn_ilp_write_problem(&question, problem);
    if (status == MDNN_STATUS_OK)
        status = start_child(program, time_limit_ms, &child);
    if (status == MDNN_STATUS_OK) {
        status = converse(child.socket, &question, end_ms, &answer);
        end_child(&child);
        if (status == MDNN_STATUS_OK)
            status = take_answer(&answer, problem, choices, result);
    }
    free(question.bytes);
    free(answer.bytes);
    return status;
}

mdnn_status_t mdnn_ilp_improve(const char *program, const mdnn_wd_problem_t *problem,
                               double time_limit_ms, size_t *choices, mdnn_wd_result_t *result,
                               bool *improved)
{
    size_t *const others = calloc(problem->kernel_count + 1, sizeof *others);
    mdnn_wd_result_t other;
    if (!others)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const mdnn_status_t status = mdnn_ilp_ask(program, problem, time_limit_ms, others, &other);
    if (status == MDNN_STATUS_OK) {
        *improved = other.time_ms < result->time_ms ||
                    (other.time_ms == result->time_ms && other.optimal && !result->optimal);
        if (*improved) {
            memcpy(choices, others, problem->kernel_count * sizeof *choices);
            *result = other;
        }
    }
    free(others);
    return status;
}
