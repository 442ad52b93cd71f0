#include "test/clients/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_THREADS = 64 };

typedef struct loop {
    void (*piece)(void *context, int index);
    void *context;
    int pieces;
    atomic_int next;
} loop_t;

static void *work(void *argument)
{
    loop_t *const loop = argument;
    for (int i = atomic_fetch_add(&loop->next, 1); i < loop->pieces;
         i = atomic_fetch_add(&loop->next, 1))
        loop->piece(loop->context, i);
    return NULL;
}

static int threads_for(int pieces)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int processors = online < 1 ? 1 : online > MOST_THREADS ? MOST_THREADS : (int)online;
    return pieces < processors ? pieces : processors;
}

void parallel_for(int pieces, void (*piece)(void *context, int index), void *context)
{
    loop_t loop = {.piece = piece, .context = context, .pieces = pieces};
    pthread_t others[MOST_THREADS];
    const int wanted = threads_for(pieces) - 1;
    int started = 0;
    while (started < wanted && pthread_create(&others[started], NULL, work, &loop) == 0)
        started++;
    work(&loop);
    for (int i = 0; i < started; i++)
        pthread_join(others[i], NULL);
}
