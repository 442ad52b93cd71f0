/* A random program that is hard to serve, valid and free of races: its results do not depend on
 * time. Everything it does follows from a seed and the switches of features.def; operation i of
 * thread t draws its choices from (seed, phase, t, i), so that leaving others out changes little.
 *
 * main.c reads the command line, plan.c draws the program's choices and its budget, thread.c runs a
 * thread's operations; each other file is a kind of operation. */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda.h>

#include "test/sim/sim.h"

#define MEBIBYTE (UINT64_C(1) << 20)
#define CHUNK (2 * MEBIBYTE) /* what the library moves under the budgets that are tried here */

enum {
    MOST_THREADS = 8,
    MOST_TENSORS = 40, /* of one thread */
    MOST_STREAMS = 4,
    MOST_GRAPHS = 3,
    MOST_DEVICES = 2,
    MOST_OPERANDS = 4,
    MOST_PIECES = 2,
    MOST_PHASES = 3,
    GATE_WORDS = 1024,
    TABLE_WORDS = 1024,
    SOURCE_BYTES = 256 << 10 /* of what is copied to devices */
};

typedef enum feature {
#define FEATURE(name, percent, what) FEATURE_##name,
#include "test/hostile/features.def"
#undef FEATURE
    FEATURES
} feature_t;

/* How the program finds the driver's functions. */
typedef enum way { WAY_LINKED, WAY_DLSYM, WAY_PROC_ADDRESS, WAY_OWN_STREAMS, WAYS } way_t;

/* Bytes of device memory, in whole chunks, that each thread may need at one moment. */
typedef struct caps {
    uint64_t operation; /* one operation's operands */
    uint64_t gated;     /* what work names that waits for the host */
    uint64_t graphs;    /* what living graphs hold */
    uint64_t pool, handles, small;
} caps_t;

typedef struct plan {
    uint64_t seed;
    bool has[FEATURES];
    way_t way;
    unsigned threads, devices, phases, operations; /* of a thread in a phase */
    uint64_t largest;                              /* bytes of a tensor */
    caps_t caps;
    uint64_t live;        /* bytes of a thread's tensors at once */
    uint64_t floor;       /* of one device, all threads */
    uint64_t budget;      /* 0: none */
    bool tight;           /* the budget is below the floor */
    unsigned first, last; /* operations that are run; others are left out */
} plan_t;

extern plan_t plan;
extern const sim_api_t *simulator;

/* ---- plan.c ---- */
void plan_draw(uint64_t seed, const int switches[FEATURES]);
void plan_set_environment(void); /* the library's options; nothing reads them without it */
void plan_print(void);

/* ---- random.c ---- */
typedef struct draw {
    uint64_t state;
} draw_t;
draw_t draw_of(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);
uint32_t draw(draw_t *d, uint32_t count); /* 0 to count - 1 */
bool chance(draw_t *d, uint32_t percent);

/* ---- api.c ---- */
typedef struct driver {
#define DRIVER(name) __typeof__(&name) name;
#include "test/hostile/api.def"
#undef DRIVER
} driver_t;
extern driver_t api;
void api_find(way_t way);

/* ---- kernels.c ---- */
enum kernel { KERNEL_TWO, KERNEL_FOUR, KERNEL_FILL, KERNEL_TABLE, KERNELS };
void kernels_register(void);
CUfunction kernel_function(enum kernel kernel);
extern const char kernels_ptx[];
/* What they do, for models: a = 3 a + b + k; a += 5 b + 7 c + d + k, d += k; a[i] = k + i / 256;
 * of each that a table leads to: a = 3 a + k. */
void mix_two(uint32_t *a, const uint32_t *b, uint32_t n, uint32_t stride, uint32_t k);
void mix_four(uint32_t *const of[4], uint32_t n, uint32_t stride, uint32_t k);
void fill_words(uint32_t *a, uint32_t n, uint32_t k);
void scale_words(uint32_t *a, uint32_t n, uint32_t stride, uint32_t k);

/* ---- thread.c ---- */
typedef enum tensor_kind { PLAIN, ORDERED, POOLED, MAPPED, PITCHED, IN_GRAPH } tensor_kind_t;

/* A reservation of addresses. */
typedef struct addresses {
    CUdeviceptr start; /* 0: none */
    uint64_t bytes;
} addresses_t;

typedef struct tensor {
    CUdeviceptr address; /* 0: none */
    uint64_t bytes;      /* a multiple of 16 */
    tensor_kind_t kind;
    int stream;      /* of the last work there */
    bool gated;      /* work there waits for the host */
    uint32_t graphs; /* that name it, a bit each */
    uint32_t *model; /* what it must hold, if the budget is too small, else NULL */
    /* MAPPED: */
    unsigned pieces;                                   /* handles side by side */
    CUmemGenericAllocationHandle handles[MOST_PIECES]; /* 0: released */
    CUdeviceptr alias;                                 /* where they are mapped, too; or 0 */
    addresses_t addresses, alias_addresses;
} tensor_t;

typedef struct graph {
    CUgraphExec exec;  /* NULL: none */
    int stream, other; /* it was captured in; other: -1 or a second one */
    unsigned tensor_count;
    int tensors[MOST_OPERANDS];
    bool stale; /* what it names is freed: it is not launched again */
    uint64_t bytes;
} graph_t;

typedef enum gate_kind { NO_GATE, VALUE_GATE, WRITE_GATE, CALL_GATE, LOCK_GATE } gate_kind_t;

typedef struct thread {
    unsigned number, phase, index; /* of the operation */
    int device;
    bool ended; /* by a refusal */
    tensor_t tensors[MOST_TENSORS];
    tensor_t parked; /* mapped nowhere; of 0 bytes: none */
    uint64_t live_bytes, gated_bytes, graph_bytes, pool_bytes, small_bytes;
    CUstream streams[MOST_STREAMS];
    bool own_made[MOST_STREAMS]; /* created here, non-blocking or not */
    bool blocking[MOST_STREAMS]; /* ordered with the legacy stream */
    bool gated[MOST_STREAMS];
    int stream_count;
    CUevent event;
    graph_t graphs[MOST_GRAPHS];
    CUmemoryPool pool;
    gate_kind_t gate;
    uint32_t *words;       /* pinned */
    uint32_t gate_word;    /* the last one that was waited for */
    uint64_t *table_words; /* pinned: each table once */
    uint32_t table_word;
    sem_t gate_signal;
    pthread_mutex_t gate_lock;
    uint64_t calls_asked;
    _Atomic uint64_t calls_made;
    unsigned char *pinned, *pageable, *back; /* constant, constant, for results */
    uint64_t digest;
    draw_t draw;          /* of the present operation */
    struct thread *giver; /* whose gifts it takes */
    sem_t gift_is_there;
    tensor_t gift;
    CUevent gift_event;
    int gift_device;
} thread_t;

void *thread_run(void *thread);
void thread_note(thread_t *t, uint64_t value); /* into the digest */
void thread_note_bytes(thread_t *t, const void *bytes, uint64_t count);
extern volatile uint64_t *progress; /* counts operations, for who watches */

/* Ends the process, naming operation and call, unless the budget is too small and it was refused:
 * then the thread ends. false: it was refused. */
bool succeeded(thread_t *t, CUresult result, const char *call, const char *file, int line);
#define OK(t, call) succeeded(t, call, #call, __FILE__, __LINE__)
void fail(const thread_t *t, const char *what, const char *file, int line);
#define MUST(t, condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(t, #condition, __FILE__, __LINE__);                                               \
    } while (0)

/* Calls that a capture in global mode forbids to other threads. */
void guard_enter(thread_t *t);
void guard_leave(thread_t *t);
void guard_capture(void); /* alone, for such a capture */
void guard_capture_ends(void);

/* ---- tensors.c ---- */
uint64_t footprint(uint64_t bytes); /* in whole chunks; small ones count elsewhere */
bool is_small(uint64_t bytes);
uint64_t most_bytes(void);           /* of a tensor */
tensor_t *tensor_any(thread_t *t);   /* live, or NULL */
tensor_t *tensor_place(thread_t *t); /* free, or NULL */
void tensor_allocate(thread_t *t);
void tensor_release(thread_t *t, tensor_t *tensor, bool in_flight);
void tensor_free_some(thread_t *t);
void tensor_fill(thread_t *t, tensor_t *tensor); /* all of it, after allocation */
void tensor_read(thread_t *t, tensor_t *tensor); /* into the digest */
void tensor_forget(thread_t *t, tensor_t *tensor);
void tensor_allocated(thread_t *t, tensor_t *tensor, tensor_kind_t kind, uint64_t bytes,
                      int stream);
/* Stream `stream` may work on all of them next. false: it may not, nothing was done. */
bool streams_follow(thread_t *t, int stream, tensor_t *const *tensors, unsigned count);
int stream_any(thread_t *t);
void stream_wait(thread_t *t, int stream);
void streams_make(thread_t *t);
void streams_end(thread_t *t);
void stream_replace(thread_t *t);

/* ---- work.c ---- */
void work_launch(thread_t *t);
void work_copy(thread_t *t);
void work_upload(thread_t *t);
void work_set(thread_t *t);
void work_table(thread_t *t);
void work_rows(thread_t *t);
void work_blocking(thread_t *t);
void work_ask(thread_t *t);
void work_attributes(thread_t *t);
/* A launch in stream `stream` on the first `count` of these, which follow it already. */
bool launch_on(thread_t *t, CUstream stream, tensor_t *const *tensors, unsigned count);

/* ---- gates.c ---- */
void gate_close(thread_t *t);
void gate_open(thread_t *t); /* if one is closed */
void host_call(thread_t *t);
void host_memory(thread_t *t);

/* ---- graphs.c ---- */
void graph_capture(thread_t *t);
void graph_launch(thread_t *t);
void graph_allocating(thread_t *t);
void graphs_end(thread_t *t);
void graph_drop(thread_t *t, graph_t *graph);

/* ---- pools.c ---- */
void pool_allocate(thread_t *t);
void pool_end(thread_t *t);

/* ---- mappings.c ---- */
void mapping_allocate(thread_t *t);
void mapping_change(thread_t *t);
void mapping_unpark(thread_t *t); /* what is mapped nowhere is mapped again */
void mapping_release(thread_t *t, tensor_t *tensor);

/* ---- gifts.c ---- */
void gift_give(thread_t *t);
void gift_take(thread_t *t);

/* ---- process.c ---- */
CUcontext process_context(int device);
void process_child(thread_t *t);
void process_module(thread_t *t);
void process_convolution(thread_t *t);

#endif
