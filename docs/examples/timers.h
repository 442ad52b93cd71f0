/* Times on the device's clock: pairs of events, made once, around work on one stream. */
#ifndef TRAIN_CNN_TIMERS_H
#define TRAIN_CNN_TIMERS_H

#include <stdbool.h>

#include <cuda_runtime_api.h>

typedef struct event_pair {
    cudaEvent_t begin, end;
    bool used; /* since the last timers_read */
} event_pair_t;

typedef struct timers {
    event_pair_t *pairs;
    int count;
    bool running; /* timers_begin and timers_end do nothing while false */
} timers_t;

void timers_init(timers_t *timers, int count);
void timers_fini(timers_t *timers);
void timers_begin(timers_t *timers, int index, cudaStream_t stream);
void timers_end(timers_t *timers, int index, cudaStream_t stream);
/* After the stream has finished: milliseconds of each timer, 0 for one that was not used. */
void timers_read(timers_t *timers, float *ms);

#endif
