/* graph_witness.so, preloaded behind whatever else is preloaded, stands right before cuDNN: it sees
 * which engines and algorithms really run, and can make any call of the backend API fail. What it
 * knows is exported as `witness`. */
#ifndef GRAPH_WITNESS_H
#define GRAPH_WITNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

typedef enum witness_function {
    WITNESS_CREATE,
    WITNESS_SET,
    WITNESS_GET,
    WITNESS_FINALIZE,
    WITNESS_EXECUTE,
    WITNESS_POPULATE,
    WITNESS_UPDATE,
    WITNESS_FUNCTIONS
} witness_function_t;

enum { WITNESS_JOURNAL = 4096 };

/* Any thread. Clients write zeros where they want to begin anew. */
typedef struct witness {
    _Atomic uint64_t calls[WITNESS_FUNCTIONS];
    /* What each of the first calls was about: the type that is created, the attribute that is set or got, or was set
     * before a descriptor is finalized. */
    _Atomic int kinds[WITNESS_FUNCTIONS][WITNESS_JOURNAL];
    _Atomic int fail_function;      /* WITNESS_FUNCTIONS: none */
    _Atomic int64_t fail_countdown; /* at 1 the next call of fail_function fails and does nothing */
    _Atomic(void *) failed; /* descriptor of the call that failed; for Create where it goes */
    _Atomic unsigned notes; /* bit n: an engine with cudnnBackendNumericalNote_t n ran */
    _Atomic unsigned algorithms[3]; /* bit n: a legacy call with algorithm n, by direction */
    _Atomic unsigned math;          /* bit n: ... in cudnnMathType_t n */
    _Atomic(void *) plan;           /* whose executions are counted in plan_runs */
    _Atomic uint64_t plan_runs;     /* Execute, PopulateCudaGraph, UpdateCudaGraph */
} witness_t;

extern witness_t witness;

/* What a failing call returns; cuDNN has no other reason to. */
#define WITNESS_FAILURE CUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED

#endif
