/* Two threads make a program's first calls. What one of them must read or say first takes a second: its
 * standard error is a full pipe, which is emptied then. The other allocates meanwhile.
 *
 *   slow_start MIB
 *
 * Exit status 0 if so many MiB were allocated, 2 if they were refused. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "test/clients/bail.h"

static const char pipe_variable[] = "SLOW_START_PIPE";

static void sleep_ms(long milliseconds)
{
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

/* The library knows standard error as it was when the program began, so the program begins anew. */
static void begin_with_a_full_pipe(char **arguments)
{
    static char block[4096];
    char number[16];
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        BAIL("no pipe");
    while (write(ends[1], block, sizeof block) > 0)
        continue;
    while (write(ends[1], block, 1) > 0)
        continue;
    if (fcntl(ends[1], F_SETFL, 0) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        BAIL("no standard error");
    snprintf(number, sizeof number, "%d", ends[0]);
    setenv(pipe_variable, number, 1);
    execv("/proc/self/exe", arguments);
    BAIL("no exec");
}

static void *call_first(void *unused)
{
    (void)cudaFree(NULL);
    return unused;
}

static void *empty_pipe(void *end)
{
    static char block[4096];
    sleep_ms(1000);
    while (read(*(int *)end, block, sizeof block) > 0)
        continue;
    return NULL;
}

int main(int count, char **arguments)
{
    const char *const number = getenv(pipe_variable);
    pthread_t first, reader;
    void *memory;
    if (count < 2)
        return 1;
    if (!number)
        begin_with_a_full_pipe(arguments);
    int end = atoi(number);
    if (pthread_create(&first, NULL, call_first, NULL) != 0)
        return 1;
    sleep_ms(200);
    if (pthread_create(&reader, NULL, empty_pipe, &end) != 0 || pthread_detach(reader) != 0)
        return 1;
    const cudaError_t error = cudaMalloc(&memory, (size_t)atoi(arguments[1]) << 20);
    pthread_join(first, NULL);
    return error == cudaSuccess ? 0 : error == cudaErrorMemoryAllocation ? 2 : 1;
}
