/* The simulated driver's inside. One mutex guards everything below; sim_enter takes it and
 * sim_leave gives it back, so every function here expects it held unless it says otherwise.
 *
 * An operation has two independent progresses: the clock (clock.c) finds when it starts and ends in
 * virtual time, the schedule (schedule.c) runs its body, as late as it may. Both obey the same
 * dependencies. It is retired when both are through. */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include <pthread.h>

#include "test/sim/sim.h"

enum { SIM_MAX_DEVICES = 16 };

/* The units of a device that do one operation at a time; marks and host calls need none. */
typedef enum sim_unit {
    SIM_UNIT_NONE,
    SIM_UNIT_COMPUTE,
    SIM_UNIT_H2D,
    SIM_UNIT_D2H,
    SIM_UNITS
} sim_unit_t;

typedef enum sim_work_kind {
    SIM_MARK, /* an event's record or wait: only its place in the order counts */
    SIM_KERNEL,
    SIM_COPY,
    SIM_FILL,
    SIM_HOST_CALL,
    SIM_WAIT_VALUE,
    SIM_SUSPEND, /* the end of memory of a graph, until it is allocated there again */
    SIM_ACQUIRE, /* cuMemAllocAsync: from then on the memory may be touched */
    SIM_RELEASE  /* cuMemFreeAsync */
} sim_work_kind_t;

typedef struct sim_graph_memory sim_graph_memory_t;

/* What a copy or a fill touches: rows of bytes, in slices. The pitches of one row do not matter. */
typedef struct sim_shape {
    uint64_t row_bytes, rows, slices;
    uint64_t destination_pitch, destination_slice, source_pitch, source_slice; /* bytes apart */
} sim_shape_t;

/* What an operation does; also the content of a graph's node. Owns `parameters` and `snapshot`. */
/* Of a peer copy: the devices that reach its sides, each for its own context. */
typedef struct sim_owners {
    bool given; /* else the device that copies reaches both */
    int destination, source;
} sim_owners_t;

typedef struct sim_work {
    sim_work_kind_t kind;
    sim_unit_t unit;
    double amount; /* microseconds of SIM_UNIT_COMPUTE, bytes of a copy unit */
    const sim_kernel_t *kernel;
    void *parameters;
    uint64_t destination, source;
    uint64_t bytes; /* all of `shape`, or what is released */
    sim_shape_t shape;
    sim_owners_t owners;
    void *snapshot; /* the rows of a pageable source at the call, packed, or NULL */
    uint64_t
        pattern; /* of a fill, or what a wait compares with; of an acquisition: range.pending */
    uint32_t pattern_bytes; /* 1, 2, 4 or 8 */
    unsigned comparison;    /* of a wait: CU_STREAM_WAIT_VALUE_... */
    CUhostFn function;
    void *user_data;
    sim_graph_memory_t *graph_memory; /* counted reference, or NULL */
} sim_work_t;

typedef struct sim_op {
    unsigned refs;
    uint64_t sequence; /* order of enqueueing */
    uint64_t mark;     /* of the wait that needs it, schedule.c */
    struct sim_lane *lane;
    sim_work_t work;
    struct sim_op **needs; /* other than the predecessor in the lane; counted references */
    unsigned need_count;
    struct sim_op *previous, *next; /* in the lane */
    double enqueued_us, ready_us, end_us;
    double remaining, rate, since_us; /* of a running copy: bytes, bytes a us, when that was true */
    bool ready, running, timed;       /* the clock's */
    bool executing, executed;         /* the schedule's */
    unsigned denials;                 /* queries answered NOT_READY */
} sim_op_t;

/* A FIFO of operations: a stream's, or one of a graph's branches. Lives while it has an owner or
 * operations. */
typedef struct sim_lane {
    unsigned refs;
    CUcontext context;
    sim_op_t *first, *last; /* not retired */
    sim_op_t *time_head;    /* first that the clock has not finished */
    sim_op_t *run_head;     /* first whose body has not run */
    sim_op_t *tail;         /* last ever enqueued, counted reference, or NULL */
    double time_us;         /* end of the last operation that the clock finished */
    unsigned length;
    struct sim_lane *previous_active, *next_active;
} sim_lane_t;

typedef struct sim_capture sim_capture_t;

/* Nodes, by index, that a stream's next captured operation, or an event's waiter, follows. */
typedef struct sim_frontier {
    unsigned *nodes;
    unsigned count;
} sim_frontier_t;

struct CUstream_st {
    CUcontext context;
    sim_lane_t *lane;
    uint64_t id;
    unsigned flags;
    int priority;
    bool legacy;
    sim_capture_t *capture; /* NULL: not capturing */
    sim_frontier_t frontier;
    unsigned branch;          /* of the graph that is being captured */
    const void *thread;       /* whose default stream it is, or NULL */
    struct CUstream_st *next; /* in the context */
};

struct CUevent_st {
    uint64_t magic;
    unsigned flags;
    sim_op_t *op;        /* last record, counted reference, or NULL */
    uint64_t capture_id; /* of the capture in which it was recorded last, or 0 */
    sim_frontier_t frontier;
    uint64_t context_id; /* with whose end the event ends */
    struct CUevent_st *next_free;
    uintptr_t made_before; /* hidden (stream.c) */
};

struct CUctx_st {
    int device;
    uint64_t id; /* another one each time that it is made */
    unsigned retained, flags;
    CUresult sticky;
    uint32_t peers;   /* devices whose memory its kernels may reach, a bit each */
    CUstream streams; /* all, the legacy one included */
    CUstream legacy;
    CUcontext next; /* of those that cuCtxCreate made; they are never given back */
};

/* CUfunction, and CUkernel, which real programs pass as one: both lead here. */
struct CUfunc_st {
    const sim_kernel_t *kernel;
    bool is_kernel_handle;
    uint64_t context_id; /* of the context that its module was loaded into; 0: it goes with none */
    struct CUfunc_st *next;
};

typedef struct sim_device {
    sim_profile_t profile;
    struct CUctx_st context;
    bool context_exists;
    uint64_t used_bytes, most_used_bytes;
    uint64_t others_bytes; /* that other processes hold */
    sim_op_t *busy[SIM_UNITS];
} sim_device_t;

typedef struct sim_engine {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* some operation's body has run */
    bool initialised;
    pid_t pid;
    sim_mode_t mode;
    bool peer_access;     /* devices can reach each other's memory */
    bool host_handles;    /* cuMemCreate makes memory of the host */
    bool clean;           /* fresh memory is zero, not poisoned */
    double event_us;      /* how long a stream takes to record an event */
    bool unnamed_allowed; /* kernels may touch memory that no parameter of theirs names */
    int device_count;
    int switch_devices; /* devices that share one switch; at least 1 */
    sim_device_t devices[SIM_MAX_DEVICES];
    CUcontext created; /* by cuCtxCreate, the destroyed ones too */
    uint64_t random;
    uint64_t limit_bytes;  /* more of a device's memory ends the process; 0: none */
    uint64_t pinned_bytes; /* of the host, in whatever way */
    double host_us;        /* virtual time of the host; never before now_us */
    double now_us;         /* up to which the devices are simulated */
    uint64_t sequence, generation, operations_run, next_id;
    sim_lane_t *active;
} sim_engine_t;

extern sim_engine_t sim_engine;

/* ---- engine.c ---- */
typedef enum sim_need { SIM_NEED_NOTHING, SIM_NEED_INIT, SIM_NEED_CONTEXT } sim_need_t;
/* Takes the lock for the driver function `name`, or returns what it must answer without it: an
 * injected fault, not initialised, no context, or the context's sticky error. */
CUresult sim_enter(const char *name, sim_need_t need);
/* Releases the lock; returns `result`, or the sticky error that arose meanwhile. */
CUresult sim_leave(CUresult result);
/* The body of a driver function whose work is `expression`. */
#define SIM_CALL(need, expression)                                                                 \
    do {                                                                                           \
        CUresult refused_ = sim_enter(__func__, need);                                             \
        return refused_ != CUDA_SUCCESS ? refused_ : sim_leave(expression);                        \
    } while (0)
/* A whole driver function: its name, its parameters, its work. */
#define SIM_ENTRY(need, name, parameters, expression)                                              \
    CUresult name parameters                                                                       \
    {                                                                                              \
        SIM_CALL(SIM_NEED_##need, expression);                                                     \
    }
/* Reads the environment, once. Takes the lock itself. */
void sim_configure(void);
CUresult sim_initialise(void);
/* The calling thread's context, or NULL. */
CUcontext sim_current(void);
/* Replaces (or pushes, or pops) the calling thread's context. false: the stack is full or empty. */
void sim_set_current(CUcontext context);
bool sim_push_current(CUcontext context);
bool sim_pop_current(void);
sim_device_t *sim_device(int device);
/* Count memory of a device. */
uint64_t sim_free_bytes(const sim_device_t *device);
void sim_memory_taken(sim_device_t *device, uint64_t bytes);
void sim_memory_given_back(sim_device_t *device, uint64_t bytes);
bool sim_context_exists(CUcontext context);
/* The first (NULL), the next; NULL behind the last. Each device's primary context is one. */
CUcontext sim_context_after(CUcontext context);
uint64_t sim_random(void);
void *sim_allocate(size_t bytes); /* zeroed; ends the process when there is none */
void *sim_resize(void *old, size_t count, size_t each);
void sim_inject(const char *name, uint64_t nth, CUresult code);
bool sim_lingers(const char *name);   /* MICRODNN_SIM_LINGER: its calls return late */
void sim_read_faults(void);           /* those of MICRODNN_SIM_FAULTS */
CUresult sim_fault(const char *name); /* the error that this call of `name` is to have */
uint64_t sim_faults_fired(void);
void sim_fail_context(CUcontext context, CUresult error);
_Noreturn void sim_panic(const char *message);

/* ---- map.c: the address map ---- */
typedef enum sim_place { SIM_PLACE_DEVICE, SIM_PLACE_PINNED } sim_place_t;

/* What a handle of cuMemCreate stands for. Lives while it has references or mappings. */
typedef struct sim_physical {
    CUmemAllocationProp properties;
    uint64_t bytes, offset; /* the second: in the file behind all of them, compute mode only */
    unsigned references, mappings;
    CUmemGenericAllocationHandle value;
} sim_physical_t;

typedef struct sim_range {
    uint64_t start, bytes; /* as the caller knows it */
    sim_place_t place;     /* SIM_PLACE_DEVICE: a device address, wherever the memory is */
    int device;
    uint64_t pages_start;             /* of the reservation behind a device range */
    uint64_t pages_bytes;             /* without its guard page */
    unsigned flags;                   /* of pinned memory */
    bool owned;                       /* pinned memory of ours, not registered */
    CUmemoryPool pool;                /* whose memory it is, or NULL */
    CUcontext context;                /* with which it ends, or NULL: the device's primary one */
    uint64_t pending;                 /* not 0: the operation that allocates it has not run */
    sim_graph_memory_t *graph_memory; /* or NULL */
    bool freed;                       /* by an operation that has not run */
    sim_physical_t *physical;         /* of a mapping, else NULL */
    uint32_t readers, writers;        /* of a mapping: devices that may, a bit each */
    bool host_access;                 /* of a mapping: the host may, at the same address */
    uint64_t number;                  /* another one for each range of the process */
} sim_range_t;
enum { SIM_PAGE = 4096, SIM_ALIGNMENT = 512, SIM_ANY_DEVICE = -1 };
#define SIM_GRANULARITY (UINT64_C(2) << 20) /* of the virtual memory API; an H200's */
CUresult sim_map_init(bool backed);
/* A device range with fresh, poisoned memory behind it. Accounts nothing. */
CUresult sim_map_add_device(int device, uint64_t bytes, sim_range_t *out);
/* Fresh host memory, poisoned as a device's; NULL: there is none. munmap ends it. */
void *sim_map_host(uint64_t bytes);
CUresult sim_map_add_pinned(void *host, uint64_t bytes, unsigned flags, bool owned);
/* Forgets the range that starts there, and unmaps it. */
void sim_map_remove(uint64_t start);
/* The live range around `address`, or NULL. Valid until the next add or remove. */
const sim_range_t *sim_map_find(uint64_t address);
sim_range_t *sim_map_edit(uint64_t address);
const sim_range_t *sim_map_at(size_t index); /* NULL past the last */
bool sim_map_is_device(uint64_t address);    /* inside the reservation, live or not */
/* Whether all of it lies in one live range of that place, or in mappings side by side that `device`
 * (or SIM_ANY_DEVICE, unasked) may read, or write. */
bool sim_map_covers(uint64_t address, uint64_t bytes, sim_place_t place, int device, bool write);
/* Where the host sees it now, or NULL if that is not all live or `device` may not. */
void *sim_map_translate(uint64_t address, uint64_t bytes, int device, bool write);
/* Whether memory at that address is the host's: pageable, pinned, or mapped from there. */
bool sim_map_on_host(uint64_t address);
/* Whose memory it is; the host's has none, which is SIM_ANY_DEVICE. */
int sim_map_device(uint64_t address);
/* Whether both lie in the same live range, or in mappings of one reservation. */
bool sim_map_same(uint64_t a, uint64_t b);
/* A free stretch of device addresses, at `hint` if that is free. false: there is none. */
bool sim_map_reserve(uint64_t bytes, uint64_t alignment, uint64_t hint, uint64_t *start);
void sim_map_unreserve(uint64_t start, uint64_t bytes);
/* Gives memory to *physical, poisoned, and takes it back. Accounts nothing. */
bool sim_map_fill_physical(sim_physical_t *physical);
void sim_map_empty_physical(const sim_physical_t *physical);
/* A mapping, without access, and its access. sim_map_remove ends it. */
void sim_map_attach(uint64_t start, sim_physical_t *physical);
void sim_map_set_access(uint64_t start, uint32_t readers, uint32_t writers, bool host);

/* ---- clock.c: virtual time ---- */
void sim_clock_spend(double host_us);
/* Host times of calls that take longer for more memory; host_times.def. */
typedef enum sim_host_time {
#define HOST_TIME(name, us, us_per_mib, most_mib) SIM_TIME_##name,
#include "test/sim/host_times.def"
#undef HOST_TIME
    SIM_TIMES
} sim_host_time_t;
void sim_clock_spend_for(sim_host_time_t call, uint64_t bytes);
void sim_clock_advance(void);      /* simulates the devices up to the host's time */
void sim_clock_wait(sim_op_t *op); /* the host waits for its end */
void sim_clock_drain(int device);  /* the host waits for all of a device; -1: of all */
bool sim_clock_wait_release(void); /* until the next SIM_RELEASE ends; false: none is pending */

/* ---- schedule.c: operations and their bodies ---- */
sim_lane_t *sim_lane_create(CUcontext context);
void sim_lane_release(sim_lane_t *lane);
/* Appends *work (moved, cleared) to the lane, to run after `needs` too. Borrowed result. */
sim_op_t *sim_lane_add(sim_lane_t *lane, sim_work_t *work, sim_op_t *const *needs, unsigned count);
bool sim_op_done(const sim_op_t *op); /* both progresses */
sim_op_t *sim_op_hold(sim_op_t *op);
void sim_op_drop(sim_op_t *op); /* NULL: nothing */
void sim_op_retire(sim_lane_t *lane);
void sim_run_timed(void);         /* timing mode: the bodies of what the clock has finished */
void sim_wait(sim_op_t *op);      /* host wait: clock and body; NULL: nothing */
bool sim_try_wait(sim_op_t *op);  /* the same, but false where the program must act first */
void sim_wait_device(int device); /* -1: all */
CUresult sim_query(sim_op_t *op); /* CUDA_SUCCESS or CUDA_ERROR_NOT_READY */

/* ---- work.c ---- */
sim_work_t sim_work_copy(const sim_work_t *work);
void sim_work_clear(sim_work_t *work);
/* Runs the body of what is no host call. */
void sim_work_run(CUcontext context, const sim_work_t *work);
/* To be called when the lock was free: the program may have written to host memory since the last body ran. */
void sim_work_forget_equal(void);
/* Runs that of a host call, without the lock. */
void sim_work_call_host(const sim_work_t *work);
CUresult sim_work_kernel(sim_work_t *out, const sim_kernel_t *kernel, void *const *values,
                         void **extra);
uint64_t sim_shape_bytes(const sim_shape_t *shape);
CUresult sim_work_transfer(sim_work_t *out, uint64_t destination, uint64_t source,
                           const sim_shape_t *shape, const sim_owners_t *owners);
/* `rows` rows of `count` patterns. */
CUresult sim_work_fill(sim_work_t *out, int device, uint64_t destination, uint64_t pitch_bytes,
                       uint64_t pattern, uint32_t pattern_bytes, uint64_t count, uint64_t rows);
void sim_set_next_cost_us(double cost_us);
void *sim_memory(uint64_t address, uint64_t bytes);
bool sim_in_host_call(void); /* on the calling thread, which may then not call the driver */

/* ---- stream.c ---- */
/* The stream that `handle` means to the calling thread: 0 and CU_STREAM_LEGACY,
 * CU_STREAM_PER_THREAD. */
CUresult sim_stream_resolve(CUstream handle, CUstream *out);
/* Whether stream 0 is the thread's own default stream, for the calling thread's present call. */
void sim_use_own_stream(bool own);
CUresult sim_stream_create(CUcontext context, unsigned flags, int priority, CUstream *out);
void sim_context_open(CUcontext context, int device);
void sim_context_close(CUcontext context);
/* Enqueues *work (moved) on the stream, or captures it. *out, if given, is the borrowed operation,
 * NULL when captured. Costs the host `host_us`. */
CUresult sim_stream_add(CUstream stream, sim_work_t *work, double host_us, sim_op_t **out);
/* The same for an operation that waits for `needs` too; never captures. */
sim_op_t *sim_stream_submit(CUstream stream, sim_work_t *work, sim_op_t *const *needs,
                            unsigned count);

/* ---- capture.c ---- */
/* May the calling thread do what is unsafe during a capture? Else those captures are void. */
CUresult sim_capture_guard(void);
/* May the host wait for this stream, or (NULL) for a whole context? Else likewise. */
CUresult sim_capture_guard_wait(CUcontext context, CUstream stream);
CUresult sim_capture_guard_legacy(CUstream legacy);
CUresult sim_capture_add(CUstream stream, sim_work_t *work);
CUresult sim_capture_record(CUstream stream, CUevent event);
CUresult sim_capture_wait(CUstream stream, CUevent event, bool *done);
bool sim_capture_holds(CUevent event); /* recorded last inside a capture that goes on */
void sim_frontier_clear(sim_frontier_t *frontier);

/* ---- pool.c ---- */
void sim_pools_trim(void);            /* after a wait of the host */
bool sim_pools_give_back(int device); /* all that is unused; false: nothing is */
void sim_pools_reset(int device);     /* forgets what the device's pools hold */
/* Frees the live memory that starts there when the stream gets there. */
CUresult sim_pool_free(uint64_t address, CUstream stream);
void sim_pool_freed(CUmemoryPool pool, uint64_t bytes); /* now */

/* ---- graph_memory.c ---- */
sim_graph_memory_t *sim_graph_memory_hold(sim_graph_memory_t *memory);
/* Arrays of a context that is closed, and if it is the device's, of the device. */
void sim_arrays_end(CUcontext context, bool device);
void sim_graph_memory_drop(sim_graph_memory_t *memory); /* NULL: nothing */
/* Its context is closed. true: memory of the device was behind it. */
bool sim_graph_memory_lose(sim_graph_memory_t *memory);
/* The memory behind what a node allocates, if it is the first time. */
CUresult sim_graph_memory_back(const sim_work_t *node);
/* A node that a program makes, after others of the graph; it takes *work. */
CUresult sim_graph_add(CUgraph graph, const CUgraphNode *after, size_t after_count,
                       sim_work_t *work, CUgraphNode *out);
/* In the capturing stream's graph. */
CUresult sim_graph_allocate(CUstream stream, uint64_t bytes, CUdeviceptr *out);
/* Memory of a graph, by a capturing stream in the graph, else by the stream itself, or at once. */
CUresult sim_graph_free(uint64_t address, CUstream stream);
CUresult sim_graph_free_now(sim_graph_memory_t *memory);
/* Of a node: was it launched and not freed since? */
bool sim_graph_memory_is_live(const sim_work_t *node);
void sim_graph_memory_launch(const sim_work_t *node);
void sim_graph_memory_run(const sim_work_t *work);

/* ---- value.c ---- */
bool sim_value_is_there(const sim_work_t *wait);

/* ---- vmm.c ---- */
bool sim_vmm_reserved(uint64_t address); /* inside a reservation of the program's, mapped or not */
bool sim_vmm_same(uint64_t a, uint64_t b); /* inside one and the same */
/* What a handle stands for that was not released; NULL: nothing. */
const sim_physical_t *sim_vmm_find(CUmemGenericAllocationHandle handle);
/* One handle more of what is there, mapped at least. */
bool sim_vmm_hold(CUmemGenericAllocationHandle handle);

/* ---- module.c ---- */
CUfunction sim_function(const sim_kernel_t *kernel);
void sim_modules_end(uint64_t context_id); /* with their context */
/* The kernels that the library under test ships as PTX. */
void sim_register_accumulate(void);
void sim_register_hold(void);
void sim_register_compare(void);
void sim_register_copy_kernel(void);
/* How long `kernel` holds its stream by what it was told; 0: it is another one. */
double sim_hold_us(const sim_kernel_t *kernel, const void *parameters);
/* The same for the kernel that copies: what the link needs, as if nothing else moved. */
double sim_copy_kernel_us(const sim_kernel_t *kernel, const void *parameters, double link_gbps);

#endif
