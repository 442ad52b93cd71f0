/* Virtual memory of one device: allocations whose content is in device memory or, under a budget,
 * in pinned host memory while nothing uses it. This is the mechanism: before an operation is
 * enqueued every range that it names is made resident; finding memory for one may send others away.
 * That alone is right for any program; the plan follower's advice only moves the same work earlier.
 *
 * A range is in one of four states (for invariants I1 and I2 of docs/design/README.md):
 *   - RESIDENT: mapped.
 *   - LEAVING: mapped still; once all work enqueued on it has ended it is unmapped, chunk by chunk,
 *     and each is copied to the host through its alias, and serves others when its copy has ended.
 *     Naming it calls that off; what is already gone comes back.
 *   - AWAY: unmapped, its content is on the host; but for its first chunks, if the plan follower had those
 *     stay or brought them back before the rest: they are mapped.
 *   - RETURNING: waits for chunks, has them, copies to them run through their aliases; each is
 *     mapped when its copy has ended.
 * Blocks of slabs (small ones) are always RESIDENT. No chunk is mapped at its range's own address
 * while a copy of it runs that will be used: whoever touches it without being named faults. A host
 * copy counts only for what is not mapped: what is may be written by anyone, and is copied whole
 * when it leaves again. With MDNN_SAFETY_HOST all that is otherwise (offload/memory/memory_quiet.c): no
 * unnamed touch faults, and none is lost.
 *
 * Everything moves in mdnn_memory_progress, which never waits; begin and allocate call it and wait
 * on the host only where there is nothing else to do (counted). A wait is always for a point of
 * work that is enqueued already, so it ends (I4), unless that work waits for what the program does
 * next: so no wait keeps other threads out, and what they do is served meanwhile.
 *
 * Calls no CUDA function but through mdnn_memory_device_t. The caller holds a lock around every
 * call; between begin and end of an operation it may let it go. The functions of the device that
 * wait let it go meanwhile, so other threads may be within other calls then. */
#ifndef MDNN_MEMORY_H
#define MDNN_MEMORY_H

#include "config/choices.h"
#include "offload/plan/follower.h"
#include "offload/ranges/ranges.h"

typedef struct mdnn_memory_event mdnn_memory_event_t;

/* What the mechanism needs of the device. `context` is passed on. A function that fails has changed
 * nothing. Chunks and host slots are of config.chunk_bytes. */
typedef struct mdnn_memory_device {
    /* A chunk is mapped in a window of aliases for as long as it lives. OUT_OF_DEVICE_MEMORY also
     * when the budget is used up: the caller of the library asks only within the budget. */
    mdnn_status_t (*create_chunk)(void *context, uint64_t *chunk);
    mdnn_status_t (*destroy_chunk)(void *context,
                                   uint64_t chunk); /* nothing uses it, or is mapped */
    mdnn_status_t (*map)(void *context, uint64_t address, uint64_t chunk); /* read and write */
    mdnn_status_t (*unmap)(void *context, uint64_t address, uint64_t chunk);

    /* The point behind everything enqueued in `stream` so far. Cheap: called for each operation.
     */
    mdnn_stream_point_t (*mark)(void *context, uint64_t stream);
    /* Never waits; true once wait_on_host has returned OK. Position 0 is never asked for: nothing
     * was enqueued before it. */
    bool (*is_done)(void *context, mdnn_stream_point_t point);
    mdnn_status_t (*wait_on_host)(void *context, mdnn_stream_point_t point); /* for copies */
    /* The same, but BUSY if it takes longer: for work of the program's. */
    mdnn_status_t (*wait_a_while)(void *context, mdnn_stream_point_t point, double seconds);
    /* Until another thread has changed something, or so many seconds. NULL: no call overlaps with
     * another. */
    void (*wait_for_change)(void *context, double seconds);
    /* Grows whenever the device has completed something since the last question. NULL: unknown. */
    uint64_t (*completions)(void *context);
    /* Operations that the calling thread has between begin and end, of any kind. NULL: all of them
     * are its own. */
    uint32_t (*opened_here)(void *context);
    /* Has the point of a mark pass with the work before it; else it may seem not to pass until work has
     * ended that is enqueued later. NULL: it never does. */
    void (*fix)(void *context, mdnn_stream_point_t point);
    mdnn_status_t (*wait_in_stream)(void *context, uint64_t stream, mdnn_stream_point_t point);

    /* Pinned host memory. BUSY: being made, ask again; OUT_OF_MEMORY: no more than this. */
    mdnn_status_t (*take_slot)(void *context, uint64_t *slot);
    void (*give_slot)(void *context, uint64_t slot);
    /* Waits (on the host) until take_slot would not answer BUSY. */
    mdnn_status_t (*wait_for_slot)(void *context);
    /* HOST only: maps a slot at a step of a range that has nothing mapped there, for reading and
     * writing, and unmaps it. */
    mdnn_status_t (*cover)(void *context, uint64_t address, uint64_t slot);
    mdnn_status_t (*uncover)(void *context, uint64_t address, uint64_t slot);

    /* Enqueues a copy of `bytes` between a chunk's alias and a slot in the direction's own stream,
     * behind nothing else (the mechanism asks only when the chunk is idle). *end: the point behind it.
     * Copies of one direction end in the order in which they were asked for. */
    mdnn_status_t (*copy)(void *context, bool out, uint64_t chunk, uint64_t slot, uint64_t bytes,
                          mdnn_stream_point_t *end);

    /* Time of what is enqueued in `stream` between the two. Token 0: not timed. */
    uint64_t (*time_begin)(void *context, uint64_t stream);
    void (*time_end)(void *context, uint64_t stream, uint64_t token);
    /* Once for each token. BUSY: not yet over. */
    mdnn_status_t (*time_read)(void *context, uint64_t token, double *time_us);
    double (*now_us)(void *context); /* host clock, for counting stalls */

    /* What happens, for a trace; may be NULL. */
    void (*event)(void *context, const mdnn_memory_event_t *event);
} mdnn_memory_device_t;

typedef struct mdnn_memory_config {
    mdnn_ranges_config_t ranges;
    /* For chunks, that is for all ranges and slabs; held at every create. */
    uint64_t budget_bytes;
    uint64_t min_bytes; /* smaller ranges never leave */
    /* VERIFY: before each operation all ranges that it does not name are unmapped, and the host
     * waits for it: an unnamed access faults there and then. Slabs stay mapped: with
     * ranges.small_bytes 0 there are none. HOST: what is away is mapped to its host copy, and
     * ranges move only while nothing runs (offload/memory/memory_quiet.c). */
    mdnn_safety_t safety;
    /* A wait for the program's work fails once the device has completed nothing for so long; 0:
     * never. */
    double patience_s;
    mdnn_follower_config_t follower;
} mdnn_memory_config_t;

typedef enum mdnn_memory_event_kind {
    MDNN_MEMORY_OPERATION, /* enqueued: key, stream */
    MDNN_MEMORY_LEAVE,     /* copy out begins, in host order */
    MDNN_MEMORY_LEFT,
    MDNN_MEMORY_RETURN,
    MDNN_MEMORY_RETURNED,
    MDNN_MEMORY_STALL, /* the host waited: time_us long */
    MDNN_MEMORY_EVENT_COUNT
} mdnn_memory_event_kind_t;

struct mdnn_memory_event {
    mdnn_memory_event_kind_t kind;
    uint64_t address, bytes; /* of the range */
    uint64_t key, stream;    /* of the operation, */
    const char *name;        /* and what people call it; may be NULL */
    uint64_t resident_bytes; /* chunks of live ranges and slabs, after the event */
    double time_us;          /* STALL: how long; else 0 */
};

typedef struct mdnn_memory mdnn_memory_t;

mdnn_status_t mdnn_memory_create(const mdnn_memory_config_t *config,
                                 const mdnn_memory_device_t *device, void *context,
                                 mdnn_memory_t **memory);
/* Forgets everything; unmaps and frees nothing. Accepts NULL. No thread is in a call. */
void mdnn_memory_destroy(mdnn_memory_t *memory);
/* Calls that wait end with NOT_FOUND as soon as they have the lock again; then it can be destroyed. */
void mdnn_memory_close(mdnn_memory_t *memory);

/* `bytes` > 0 for use in `stream` (whose order the memory follows). Waits on the host, if needed,
 * for memory that is on its way. OUT_OF_DEVICE_MEMORY: nothing more can leave. STUCK: something
 * could, but the device completes nothing. NOT_FOUND: it was closed. HOST: BUSY while something would
 * have to move and an operation is between begin and end. The same four in begin and pin. */
mdnn_status_t mdnn_memory_allocate(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                   uint64_t *address);
/* After an allocation of that size, or a pin of it, was refused: whether the program can do without
 * (a workspace), so that the refusal says nothing of the least budget. */
void mdnn_memory_judge_refusal(mdnn_memory_t *memory, uint64_t bytes, bool optional);
/* Whether one operation can ever name the live allocations at these addresses together, beside what
 * never leaves. Unknown addresses are passed over. */
bool mdnn_memory_fit_together(mdnn_memory_t *memory, const uint64_t *addresses, size_t count);
/* Most that an allocation may take for an operation that names it beside operands of these sizes, and
 * can ever run. Which allocations the operands are is guessed, so that it is never too little. */
uint64_t mdnn_memory_room_beside(const mdnn_memory_t *memory, const uint64_t *sizes, size_t count);
/* Whether a workspace of `bytes` can ever be used beside operands of these sizes. If not, and nothing
 * lives that has that size, too, it counts as refused, and mdnn_memory_judge_refusal follows. */
bool mdnn_memory_workspace_fits(mdnn_memory_t *memory, uint64_t bytes, const uint64_t *sizes,
                                size_t count);
/* Gives back the allocation that starts at `address`, in the order of `stream`: work enqueued
 * before, in whatever stream, may still use it. NOT_FOUND. */
mdnn_status_t mdnn_memory_free(mdnn_memory_t *memory, uint64_t address, uint64_t stream);

/* The live allocation around `address`. O(1). */
bool mdnn_memory_find(const mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                      uint64_t *bytes);
/* Another number for each allocation that the process makes; 0: none lives there. */
uint64_t mdnn_memory_number(const mdnn_memory_t *memory, uint64_t address);
/* Host wait until nothing enqueued uses the allocation any more (cudaFree's promise). */
mdnn_status_t mdnn_memory_wait_idle(mdnn_memory_t *memory, uint64_t address);

typedef struct mdnn_memory_operand {
    uint64_t address; /* anywhere in the allocation; unknown ones are passed over */
    mdnn_use_role_t role;
} mdnn_memory_operand_t;

typedef struct mdnn_memory_operation {
    uint64_t key;     /* what it is, without addresses */
    const char *name; /* for people: of a kernel; may be NULL; valid until the process ends */
    uint64_t stream;
    mdnn_operation_kind_t kind;
    uint64_t workspace_bytes; /* begin sets 0 if the workspace is named */
    uint64_t workspace;       /* an address in it, 0: none; named, if it is ours */
    const mdnn_memory_operand_t
        *operands; /* borrowed until end; an allocation may be named several times */
    size_t operand_count;
    /* Nothing runs now: each allocation that it names is made resident and pinned, once, until
     * mdnn_memory_unpin; not marked, not recorded. */
    bool capturing;
    uint64_t time_token, began; /* the mechanism's */
} mdnn_memory_operation_t;

/* Makes all that it names resident; copies that it needs have ended on return, so nothing is
 * enqueued in `stream`. From then until end none of it leaves. OUT_OF_DEVICE_MEMORY: the named ones
 * do not fit together, beside what never leaves and what operations of this thread hold between begin
 * and end; what those of others hold is waited for.
 * After any failure nothing is held, and the operation must not be enqueued. */
mdnn_status_t mdnn_memory_begin(mdnn_memory_t *memory, mdnn_memory_operation_t *operation);
/* After the operation was enqueued. `enqueued` false: it was not, after all. Records it and follows
 * the plan follower's advice. */
void mdnn_memory_end(mdnn_memory_t *memory, mdnn_memory_operation_t *operation, bool enqueued);

/* Where the allocation starts that name `i` of the operation led to when it began; what a captured
 * one pinned. false: there was none. */
bool mdnn_memory_operand_start(const mdnn_memory_t *memory,
                               const mdnn_memory_operation_t *operation, size_t i, uint64_t *start);

/* HOST: from now on nothing waits for operations between begin and end, for good or until it is
 * taken back: unnamed touches by them may fault. */
void mdnn_memory_hurry(mdnn_memory_t *memory, bool hurried);

/* Around an operation that may use any allocation, nobody knows which, beside those named within.
 * false: something is away, or memory is short: then it must be named. From begin on nothing is
 * unmapped, and from end on not before all is over that is enqueued in `stream` then. */
bool mdnn_memory_untracked_begin(mdnn_memory_t *memory);
void mdnn_memory_untracked_end(mdnn_memory_t *memory, uint64_t stream);

/* Starts of all live allocations, `capacity` at most; returns how many there are. *fits: all can be
 * RESIDENT at once. */
size_t mdnn_memory_live(const mdnn_memory_t *memory, uint64_t *starts, size_t capacity, bool *fits);

/* Takes every move a step further that can be. Never waits. true: something is under way that goes
 * on without the program. */
bool mdnn_memory_progress(mdnn_memory_t *memory);

/* The allocation around `address` never leaves (captured in a graph, shared with another process).
 * Counted. If it is away it is made resident first. What is freed while it is pinned is not found
 * any more, but can be named, pinned again and unpinned; it stays where it is, and its memory
 * serves others only after the last unpin. *start: where it starts. NOT_FOUND;
 * OUT_OF_DEVICE_MEMORY. */
mdnn_status_t mdnn_memory_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start);
void mdnn_memory_unpin(mdnn_memory_t *memory, uint64_t address);
/* What was freed and is pinned lives again at its address, with its content. false: nothing such is
 * there. */
bool mdnn_memory_revive(mdnn_memory_t *memory, uint64_t address);
/* Whether others than live pins have it pinned. */
bool mdnn_memory_is_held(const mdnn_memory_t *memory, uint64_t address);

/* A pin that ends with its allocation's free, if not before: of what refers to memory and does not
 * keep it alive, such as a texture. Copies mean the same pin. */
typedef struct mdnn_live_pin {
    uint64_t address, number;
} mdnn_live_pin_t;

/* Pins what has not been freed, as mdnn_memory_pin does. */
mdnn_status_t mdnn_memory_pin_live(mdnn_memory_t *memory, uint64_t address, mdnn_live_pin_t *pin);
/* Once for each pin; nothing if the allocation was freed meanwhile, whatever is there now. */
void mdnn_memory_unpin_live(mdnn_memory_t *memory, mdnn_live_pin_t pin);
/* Whether the allocation at `address` has such pins: it may be in use without being named, and what the
 * driver was told of it holds. */
bool mdnn_memory_has_live_pins(const mdnn_memory_t *memory, uint64_t address);

/* Whether operations have as much room as they needed so far beside the allocation, were it pinned.
 */
bool mdnn_memory_can_stay(const mdnn_memory_t *memory, uint64_t address);

/* `bytes` of the budget are for other memory of the device than ours, which the caller takes
 * afterwards, until they are given back. Ranges leave for it, and chunks are destroyed: waits on the
 * host as allocate does. OUT_OF_DEVICE_MEMORY: not so much can leave, or not so that each range, and
 * operations like those so far, could come back. HOST: BUSY as in allocate.
 * all_the_same: for what is there already; it counts, also beyond the budget. */
mdnn_status_t mdnn_memory_set_aside(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_set_aside_all_the_same(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_give_back(mdnn_memory_t *memory, uint64_t bytes);

typedef struct mdnn_memory_report {
    uint64_t budget_bytes, resident_bytes,
        peak_resident_bytes;                /* chunks that there are, and what is set aside */
    uint64_t other_bytes, peak_other_bytes; /* the latter */
    uint64_t average_resident_bytes;        /* of them in use: the mean over the operations */
    uint64_t live_bytes, peak_live_bytes;   /* asked for and not freed, wherever they are */
    uint64_t pinned_live_bytes;             /* cannot leave */
    uint64_t largest_operation_bytes;       /* most that one operation named, rounded to chunks */
    uint64_t out_bytes, in_bytes, saved_bytes; /* copied; not copied since it had not come back */
    uint64_t host_bytes;                       /* slots in use */
    uint64_t host_short; /* times that a range could not leave since there was no slot */
    uint64_t operations, demand_returns, planned_returns, demand_leaves, planned_leaves, called_off;
    /* The last of those before: workspaces, our own, and what the program has gone on without. */
    uint64_t host_waits, refused, refused_optional;
    double host_wait_us;
    /* Least that is known to be needed: the largest operation without its workspace, for which a
     * smaller one may do, and what never leaves (Chen 2019, equation 6). */
    uint64_t smallest_budget_bytes;
    uint64_t refused_budget_bytes; /* most that a refused request would have needed; 0: none was */
    uint64_t wanting_bytes; /* the same of those that are not optional, until the program goes on */
    uint64_t created, destroyed, mapped, unmapped; /* chunks, since the start */
    double
        iteration_us; /* of one iteration of what repeats, as it ran, on the device; 0: unknown */
    /* VERIFY: operations that the device ended with an error, and the first of them. An access to
     * what is not mapped leaves no context behind, so more than one is the same. */
    uint64_t unnamed_accesses, unnamed_key;
    const char *unnamed_name; /* or NULL */
} mdnn_memory_report_t;

mdnn_memory_report_t mdnn_memory_report(const mdnn_memory_t *memory);
mdnn_follower_report_t mdnn_memory_follower_report(const mdnn_memory_t *memory);

/* Bytes that an allocation now could get and be used beside what is alive (cuMemGetInfo's answer):
 * budget less what cannot leave and the largest operation so far, as far as so much is alive. */
uint64_t mdnn_memory_available(const mdnn_memory_t *memory);

#endif
