#include "timers.h"

#include <stdlib.h>

#include "gpu.h"

void timers_init(timers_t *timers, int count)
{
    *timers = (timers_t){.pairs = calloc((size_t)count, sizeof *timers->pairs), .count = count};
    if (!timers->pairs)
        fail("out of memory for %d timers", count);
    for (int i = 0; i < count; i++) {
        CUDA_CHECK(cudaEventCreate(&timers->pairs[i].begin));
        CUDA_CHECK(cudaEventCreate(&timers->pairs[i].end));
    }
}

void timers_fini(timers_t *timers)
{
    for (int i = 0; i < timers->count; i++) {
        CUDA_CHECK(cudaEventDestroy(timers->pairs[i].begin));
        CUDA_CHECK(cudaEventDestroy(timers->pairs[i].end));
    }
    free(timers->pairs);
    *timers = (timers_t){0};
}

void timers_begin(timers_t *timers, int index, cudaStream_t stream)
{
    if (timers->running)
        CUDA_CHECK(cudaEventRecord(timers->pairs[index].begin, stream));
}

void timers_end(timers_t *timers, int index, cudaStream_t stream)
{
    if (!timers->running)
        return;
    CUDA_CHECK(cudaEventRecord(timers->pairs[index].end, stream));
    timers->pairs[index].used = true;
}

void timers_read(timers_t *timers, float *ms)
{
    for (int i = 0; i < timers->count; i++) {
        event_pair_t *pair = &timers->pairs[i];
        ms[i] = 0;
        if (pair->used)
            CUDA_CHECK(cudaEventElapsedTime(&ms[i], pair->begin, pair->end));
        pair->used = false;
    }
}
