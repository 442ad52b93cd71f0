/* Virtual memory of one device: allocations whose content is in device memory or, under a budget, in pinned host memory
 * while nothing uses it. This is the mechanism: before an operation is enqueued, every range that it names is made
 * resident, and other ranges may have to leave for it. That alone is correct for any program; the plan follower's
 * advice (offload/follow/follower.h) only moves the same work to an earlier time. docs/glossary.md has the terms;
 * docs/design/README.md states the invariants I1 to I4, which this code keeps.
 *
 * A range is the addresses of one allocation. Behind them lie chunks, pieces of device memory that all have the same
 * size; a step is the place of one chunk in the range (offload/ranges/ranges.h). Each chunk is also mapped at a second
 * address, its alias, which only the library's copies use. A copy goes to or from a slot, a piece of pinned host memory
 * of that size. A live range is in one of five states:
 *   - RESIDENT: mapped.
 *   - LEAVING: still mapped. Once all work enqueued on it has ended, it is unmapped chunk by chunk; each chunk is
 *     copied to the host through its alias, and serves other ranges when its copy has ended. If an operation names the
 *     range, it stops leaving, and chunks that are already gone come back.
 *   - AWAY: unmapped, with its content on the host. Its first chunks may be mapped, if the plan follower kept them or
 *     brought them back before the rest. A new range may also be AWAY and blank: it has addresses but no content, and
 *     takes its memory only when an operation names it.
 *   - RETURNING: it waits for chunks. Those that it has already are filled through their aliases, and each is mapped
 *     when its copy has ended.
 *   - SPLIT: its first chunks are mapped, and behind them its host copy is mapped at the range's own addresses.
 *     Operations that name more than the budget holds use ranges in this state (offload/memory/memory_tail.c).
 * A range that is freed while it moves is ENDING until the move is over. Blocks of slabs (small allocations) are always
 * RESIDENT. While a chunk is being copied (unless the copy has been called off), it is not mapped in its range, so an
 * operation that touches it without naming the range faults. A host copy is valid only for chunks that are not mapped:
 * anyone may write to a mapped chunk, so all of it is copied when it leaves again. With MDNN_SAFETY_HOST this is
 * different (offload/memory/memory_quiet.c): no unnamed access faults, and none is lost.
 *
 * Everything moves in mdnn_memory_progress, which never waits. begin and allocate call it, and wait on the host only if
 * there is nothing else to do; these waits are counted. A wait is always for a point of work that is already enqueued,
 * so it ends (I4), unless that work waits for what the program does next. Because of that exception, the lock is
 * released during a wait, so that the calls of other threads are served in the meantime.
 *
 * The mechanism calls CUDA functions only through mdnn_memory_device_t. The caller holds a lock around every call, and
 * may release it between begin and end of an operation. The device's functions that wait release the lock while they
 * wait, so other threads may then be inside other calls. */
#ifndef MDNN_MEMORY_H
#define MDNN_MEMORY_H

#include "config/choices.h"
#include "offload/memory/host_time.h"
#include "offload/follow/follower.h"
#include "offload/ranges/ranges.h"

typedef struct mdnn_memory_event mdnn_memory_event_t;

/* What the library's own threads have done for a device. */
typedef struct mdnn_background {
    uint64_t chunks; /* mapped or unmapped */
    double time_us;
} mdnn_background_t;

/* The functions of the device that the mechanism needs. `context` is passed on to them. A function that fails has
 * changed nothing. Chunks and host slots have the size config.ranges.chunk_bytes. */
typedef struct mdnn_memory_device {
    /* Makes a chunk, which has an alias for as long as it lives. OUT_OF_DEVICE_MEMORY also if the budget is used up:
     * the device itself keeps to the budget, too. */
    mdnn_status_t (*create_chunk)(void *context, uint64_t *chunk);
    mdnn_status_t (*destroy_chunk)(void *context,
                                   uint64_t chunk); /* neither in use nor mapped by `map` */
    mdnn_status_t (*map)(void *context, uint64_t address, uint64_t chunk); /* read and write */
    mdnn_status_t (*unmap)(void *context, uint64_t address, uint64_t chunk);

    /* The point after everything that is enqueued in `stream` so far. Must be cheap: it is called for each operation.
     */
    mdnn_stream_point_t (*mark)(void *context, uint64_t stream);
    /* Never waits; true once wait_on_host has returned OK. Never called with position 0, which means that nothing was
     * enqueued. */
    bool (*is_done)(void *context, mdnn_stream_point_t point);
    mdnn_status_t (*wait_on_host)(void *context, mdnn_stream_point_t point); /* for copies */
    /* The same, but returns BUSY after `seconds`: for the program's own work. `quiet`: for a quiet time of
     * `safety = host`, in which memory moves even if the point has not passed. */
    mdnn_status_t (*wait_a_while)(void *context, mdnn_stream_point_t point, double seconds,
                                  bool quiet);
    /* Waits until another thread has changed something, or `seconds` have passed. NULL: calls never overlap. */
    void (*wait_for_change)(void *context, double seconds);
    /* A number that grows whenever the device has completed something since the last call. NULL:
     * unknown. */
    uint64_t (*completions)(void *context);
    /* The number of operations of any kind that the calling thread has between begin and end.
     * NULL: all that are between begin and end are the calling thread's. */
    uint32_t (*opened_here)(void *context);
    /* Makes sure that a point from `mark` passes as soon as the work before it has ended; without this call the point
     * may seem not to pass until later work has ended, too. NULL: not needed. */
    void (*fix)(void *context, mdnn_stream_point_t point);
    mdnn_status_t (*wait_in_stream)(void *context, uint64_t stream, mdnn_stream_point_t point);
    /* How many more bytes the chunks may take on the device now, whatever the budget is: others hold memory, too, and
     * some is left for the driver. NULL: only the budget limits them. */
    uint64_t (*room)(void *context);

    /* Takes pinned host memory. BUSY: it is being allocated, so ask again; OUT_OF_MEMORY: there is no more. */
    mdnn_status_t (*take_slot)(void *context, uint64_t *slot);
    void (*give_slot)(void *context, uint64_t slot);
    /* Waits (on the host) until take_slot would not answer BUSY. */
    mdnn_status_t (*wait_for_slot)(void *context);
    /* Map or unmap chunks in the background, one after the other, at most MDNN_REMAP_CHUNKS of them per call of begin.
     * begin copies *remap and returns a token, which is valid until end; BUSY or UNSUPPORTED: the device cannot do it,
     * or not now. done returns how many chunks have been mapped or unmapped; *over says that there will be no more. end
     * ends the job: with `all` the calling thread does the rest of it; otherwise chunks whose turn has not come are
     * left as they are. It sets *done to what remap_done would return; its own result says why not all chunks are done.
     * If remap_begin is NULL, the device never does this. */
    mdnn_status_t (*remap_begin)(void *context, const mdnn_remap_t *remap, uint64_t *token);
    uint64_t (*remap_done)(void *context, uint64_t token, bool *over);
    mdnn_status_t (*remap_end)(void *context, uint64_t token, bool all, uint64_t *done);
    /* How many chunks the background has mapped or unmapped, and how long that took; what calling threads did in
     * remap_end does not count. NULL if remap_begin is. */
    mdnn_background_t (*background)(void *context);
    /* Only for the safety level HOST and for tails (operands that stay on the host; see `safety` and `tail` below).
     * cover maps a slot, for reading and writing, at a step of a range where nothing is mapped; uncover unmaps it. */
    mdnn_status_t (*cover)(void *context, uint64_t address, uint64_t slot);
    mdnn_status_t (*uncover)(void *context, uint64_t address, uint64_t slot);

    /* Enqueues a copy of `bytes` between a chunk's alias and a slot in the direction's own stream. The copy waits for
     * no other stream, since the mechanism calls this only when the chunk is idle. *end: the point after the copy.
     * Copies in one direction end in the order of the calls. */
    mdnn_status_t (*copy)(void *context, bool out, uint64_t chunk, uint64_t slot, uint64_t bytes,
                          mdnn_stream_point_t *end);

    /* Measure the time of the work that is enqueued in `stream` between the two calls. `operation`: this is a single
     * operation; the time that a launch takes to reach an idle device is left out. Token 0: not timed. */
    uint64_t (*time_begin)(void *context, uint64_t stream, bool operation);
    void (*time_end)(void *context, uint64_t stream, uint64_t token);
    /* Called once per token. BUSY: not over yet. */
    mdnn_status_t (*time_read)(void *context, uint64_t token, double *time_us);
    double (*now_us)(void *context); /* host clock, for counting stalls */

    /* Receives events for a trace; may be NULL. */
    void (*event)(void *context, const mdnn_memory_event_t *event);
} mdnn_memory_device_t;

enum { MDNN_REMAP_CHUNKS = 64 };

typedef struct mdnn_memory_config {
    mdnn_ranges_config_t ranges;
    /* The limit on all chunks, which are those of ranges and of slabs; checked at every create. */
    uint64_t budget_bytes;
    uint64_t min_bytes; /* smaller ranges never leave */
    /* FAST: a range that is away is not mapped. VERIFY: before each operation all ranges that it does not name are
     * unmapped, and the host waits for the operation's end, so an unnamed access faults immediately. Slabs stay mapped;
     * with ranges.small_bytes 0 there are none. HOST: a range that is away is mapped to its host copy, and ranges move
     * only while nothing runs (offload/memory/memory_quiet.c). */
    mdnn_safety_t safety;
    /* If an operation names more than the budget holds, the rest (its tail) is mapped to its host copies while the
     * operation runs. The device's `cover` must work. Not with VERIFY. */
    bool tail;
    /* A wait for the program's work fails after the device has completed nothing for this time; 0:
     * never. */
    double patience_s;
    /* Each operation is timed, as far as there are timers, and reported by an event MDNN_MEMORY_RAN. */
    bool traces;
    mdnn_follower_config_t follower;
} mdnn_memory_config_t;

typedef enum mdnn_memory_event_kind {
    MDNN_MEMORY_OPERATION, /* enqueued: key, stream */
    MDNN_MEMORY_LEAVE,     /* a copy out begins; reported in the order of the host's calls */
    MDNN_MEMORY_LEFT,
    MDNN_MEMORY_RETURN,
    MDNN_MEMORY_RETURNED,
    MDNN_MEMORY_STALL,     /* the host waited: time_us long */
    MDNN_MEMORY_RAN,       /* a timed operation has ended; reported in the order of enqueuing */
    MDNN_MEMORY_ITERATION, /* another iteration begins */
    MDNN_MEMORY_EVENT_COUNT
} mdnn_memory_event_kind_t;

struct mdnn_memory_event {
    mdnn_memory_event_kind_t kind;
    uint64_t address, bytes; /* of the range */
    uint64_t key, stream;    /* of the operation */
    const char *name; /* the operation's, for people; STALL: what was waited for; may be NULL */
    const char *why;  /* LEAVE, RETURN: the reason of the move; may be NULL */
    /* LEAVE, RETURN, STALL: the name of the request that needed it; NULL: none did. */
    const char *whose;
    uint64_t resident_bytes; /* chunks of live ranges and slabs, after the event */
    uint64_t planned_bytes;  /* OPERATION: resident_bytes by the plan; 0: no plan is followed */
    /* STALL: of the wait; RAN: on the device; ITERATION: mean of an iteration, 0: unknown. */
    double time_us;
    double planned_us;  /* ITERATION: of one iteration by the plan; 0: unknown */
    double enqueued_us; /* RAN: when it was enqueued, by now_us */
};

typedef struct mdnn_memory mdnn_memory_t;

mdnn_status_t mdnn_memory_create(const mdnn_memory_config_t *config,
                                 const mdnn_memory_device_t *device, void *context,
                                 mdnn_memory_t **memory);
/* Forgets everything, but unmaps and frees nothing. Accepts NULL. No other thread may be inside a
 * call. */
void mdnn_memory_destroy(mdnn_memory_t *memory);
/* Ends calls that wait: they return NOT_FOUND as soon as they have the lock again. After that the
 * object can be destroyed. */
void mdnn_memory_close(mdnn_memory_t *memory);

/* Allocates `bytes` > 0 for use in `stream`, whose order the memory follows. The range may be blank. Waits on the
 * host, if needed, for memory that is on its way. OUT_OF_DEVICE_MEMORY: nothing more can leave. STUCK: something
 * could leave, but the device completes nothing. NOT_FOUND: the object was closed. With HOST, BUSY while something
 * would have to move and an operation is between begin and end. mdnn_memory_begin and mdnn_memory_pin return the
 * same four statuses. */
mdnn_status_t mdnn_memory_allocate(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                   uint64_t *address);
/* The same for a workspace. One that can never be in device memory as a whole is refused, since the caller can do with
 * a smaller one. */
mdnn_status_t mdnn_memory_allocate_workspace(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                             uint64_t *address);
/* The same for a workspace that the next operation names, and that plans know only as that operation's workspace. It
 * gets memory now, even if a plan has no room for it; if possible, that is the memory of an earlier workspace of its
 * size. */
mdnn_status_t mdnn_memory_lend(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                               uint64_t *address);
/* Called after an allocation of `bytes`, or a pin of such an allocation, was refused. `optional`: it is a workspace
 * that the program can do without; the refusal then says nothing about the smallest budget. */
void mdnn_memory_judge_refusal(mdnn_memory_t *memory, uint64_t bytes, bool optional);
/* Whether one operation can ever name the live allocations at these addresses together, beside what never leaves.
 * Unknown addresses are ignored. */
bool mdnn_memory_fit_together(mdnn_memory_t *memory, const uint64_t *addresses, size_t count);
/* Whether one could name them together with a new allocation of `bytes`, without a tail. */
bool mdnn_memory_has_room_with(mdnn_memory_t *memory, uint64_t bytes, const uint64_t *addresses,
                               size_t count);
/* Whether a live allocation is around `address`, and is RESIDENT. */
bool mdnn_memory_is_resident(const mdnn_memory_t *memory, uint64_t address);
/* Whether the budget holds an allocation of `bytes` beside all that lives, so that nothing has to leave for it. */
bool mdnn_memory_has_room_beside_all(const mdnn_memory_t *memory, uint64_t bytes);
/* Whether an operation that names more than fits, and is not captured, runs with a part of its operands on the host. */
bool mdnn_memory_has_tails(const mdnn_memory_t *memory);
/* The size of the largest allocation that an operation can name together with operands of these sizes and still run.
 * The function guesses which allocations are the operands, in such a way that the result is never too small. */
uint64_t mdnn_memory_room_beside(const mdnn_memory_t *memory, const uint64_t *sizes, size_t count);
/* Whether a workspace of `bytes` can ever be used beside operands of these sizes. Also true if a live allocation has
 * the size `bytes`: the caller then seems to ask for another such tensor, not for a workspace. On false the workspace
 * counts as refused, and mdnn_memory_judge_refusal must follow. */
bool mdnn_memory_workspace_fits(mdnn_memory_t *memory, uint64_t bytes, const uint64_t *sizes,
                                size_t count);
/* Gives back the allocation that starts at `address`, in the order of `stream`: work that was enqueued before in any
 * stream may still use it. NOT_FOUND. */
mdnn_status_t mdnn_memory_free(mdnn_memory_t *memory, uint64_t address, uint64_t stream);

/* Reserve addresses for allocations that the program will make there itself, and give them back. The addresses outlive
 * the allocations. reserve returns OVERFLOW, OUT_OF_MEMORY, or INVALID_ARGUMENT for a size that would be a block of a
 * slab or takes more than a quarter of all addresses. An allocation that lives there when the addresses are given back
 * goes on until it is freed, and its addresses end with it. */
mdnn_status_t mdnn_memory_reserve_addresses(mdnn_memory_t *memory, uint64_t bytes,
                                            uint64_t *address);
void mdnn_memory_give_addresses(mdnn_memory_t *memory, uint64_t address);
/* Waits on the host until the allocation that was freed at such addresses has ended, so that nothing is mapped there.
 * BUSY: the allocation has not been freed, or is pinned, or does not end. */
mdnn_status_t mdnn_memory_await_addresses(mdnn_memory_t *memory, uint64_t address);
/* Promises memory to the program, which will place it at such addresses later. A promise counts as an allocation of
 * that size does. OUT_OF_DEVICE_MEMORY: it could never be kept; NOT_FOUND: allocations of this size cannot exist
 * without memory, so nothing can be promised. */
mdnn_status_t mdnn_memory_promise(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_end_promise(mdnn_memory_t *memory, uint64_t bytes);
/* Keeps a promise of that size: makes an allocation that occupies all of the addresses. The allocation takes memory
 * when it is first named. Waits, like await_addresses, for the allocation that was there before; if that one is pinned,
 * it is revived instead. BUSY: the allocation would need memory now, or another one lives there. mdnn_memory_free ends
 * the allocation. */
mdnn_status_t mdnn_memory_allocate_at(mdnn_memory_t *memory, uint64_t address, uint64_t bytes);

/* The live allocation around `address`. false: there is none. O(1). */
bool mdnn_memory_find(const mdnn_memory_t *memory, uint64_t address, uint64_t *start,
                      uint64_t *bytes);
/* A number that is different for each allocation of the process; 0: none lives there. */
uint64_t mdnn_memory_number(const mdnn_memory_t *memory, uint64_t address);
/* Waits on the host until no enqueued work uses the allocation, as cudaFree promises. */
mdnn_status_t mdnn_memory_wait_idle(mdnn_memory_t *memory, uint64_t address);

typedef struct mdnn_memory_operand {
    uint64_t address; /* anywhere in the allocation; unknown ones are ignored */
    mdnn_use_role_t role;
} mdnn_memory_operand_t;

typedef struct mdnn_memory_operation {
    uint64_t key;     /* identity, independent of addresses */
    const char *name; /* a kernel's name, for people; may be NULL; valid until the process ends */
    uint64_t stream;
    mdnn_operation_kind_t kind;
    uint64_t workspace_bytes; /* begin sets it to 0 if it counts `workspace` as named */
    uint64_t workspace; /* an address in the workspace; 0: none; it counts as named if it is ours */
    const mdnn_memory_operand_t
        *operands; /* borrowed until end; an allocation may be named several times */
    size_t operand_count;
    /* The operation does not run now: each allocation that it names is made resident and pinned once, until
     * mdnn_memory_unpin. The operation gets no stream point and is not recorded. */
    bool capturing;
    /* It is the library's own, and may fail: what it names together says nothing of what the program needs. */
    bool optional;
    struct mdnn_memory_call *call; /* that it is a part of; NULL: of none */
    uint64_t time_token, began;    /* the mechanism's */
    /* The number of an allocation whose content this makes again; the mechanism's, too. */
    uint64_t makes;
    bool time_wanted;     /* by the plan follower */
    uint64_t named_bytes; /* the chunks of all that it names; the mechanism's, too */
} mdnn_memory_operation_t;

/* Several operations that count as one: those of a convolution, which differ from variant to variant (a variant is a
 * way to run it, offload/plan/period.h). The operands of the parts are made resident, held and marked as for other
 * operations, but only the call is recorded. Its workspace is memory that mdnn_memory_lend gave, and is not one of its
 * operands. */
typedef struct mdnn_memory_call {
    uint64_t key; /* identity, the same for all variants */
    const char *name;
    uint64_t stream;
    mdnn_operation_kind_t kind;
    const mdnn_memory_operand_t *operands; /* borrowed until the call's end */
    size_t operand_count;
    /* The ways to run it, the first as the program asks for it; borrowed. begin rounds workspaces up to the memory that
     * they take. */
    mdnn_variant_t *variants;
    uint32_t variant_count;
    uint64_t workspace_bytes;   /* that were lent; the caller sets it between begin and end */
    uint64_t time_token, began; /* the mechanism's */
    bool enqueued;              /* whether a part of it was enqueued */
    /* What runs is on trial, so its time says nothing of later calls; the caller sets it between begin and end. */
    bool is_trial;
} mdnn_memory_call_t;

/* Makes all allocations that the operation names resident, or splits them. On return the copies that it needs have
 * ended, so `stream` need not wait. Until end, none of these allocations leaves. OUT_OF_DEVICE_MEMORY: they do not fit
 * together, beside memory that never leaves and memory that operations of this thread hold between begin and end; for
 * memory that operations of other threads hold, begin waits. After any failure nothing is held, and the operation must
 * not be enqueued. */
mdnn_status_t mdnn_memory_begin(mdnn_memory_t *memory, mdnn_memory_operation_t *operation);
/* Called after the operation was enqueued, or with `enqueued` false if it was not. Records the operation and follows
 * the plan follower's advice. */
void mdnn_memory_end(mdnn_memory_t *memory, mdnn_memory_operation_t *operation, bool enqueued);

/* Called around the parts of a call. begin returns the most bytes of workspace that the plan lets the call use;
 * UINT64_MAX: as the program asks. end records the call, if a part was enqueued, and follows the plan follower's
 * advice. */
uint64_t mdnn_memory_call_begin(mdnn_memory_t *memory, mdnn_memory_call_t *call);
void mdnn_memory_call_end(mdnn_memory_t *memory, mdnn_memory_call_t *call);

/* The start of the allocation in which the address of operand `i` lay when the operation began; for a captured
 * operation, the start of the allocation that was pinned for this operand. false: there was none. */
bool mdnn_memory_operand_start(const mdnn_memory_t *memory,
                               const mdnn_memory_operation_t *operation, size_t i, uint64_t *start);

/* HOST only: while `hurried` is set, moves do not wait for operations that are between begin and end, so the unnamed
 * accesses of these may fault. */
void mdnn_memory_hurry(mdnn_memory_t *memory, bool hurried);

/* Changes the safety level to HOST for good: host memory is mapped (`cover`) where something is away, so unnamed
 * accesses are served. The device's `cover` must work. BUSY: an operation is between begin and end, or a move has not
 * ended; the level then stays as it is, unless host memory that was mapped cannot be unmapped. */
mdnn_status_t mdnn_memory_serve_all(mdnn_memory_t *memory);

/* Called before and after an operation is enqueued that may also use allocations that it does not name; nobody knows
 * which. false: something is away, or memory is short; the caller then finds out what the operation uses, or names
 * every live allocation. Nothing is unmapped between the two calls, nor after the second until all work that is then
 * enqueued in `stream` is over. */
bool mdnn_memory_untracked_begin(mdnn_memory_t *memory);
void mdnn_memory_untracked_end(mdnn_memory_t *memory, uint64_t stream);

/* Starts of all live allocations, `capacity` at most; returns how many there are. *fits: all of them together can be
 * RESIDENT. */
size_t mdnn_memory_live(const mdnn_memory_t *memory, uint64_t *starts, size_t capacity, bool *fits);

/* Takes every move a step further if possible. Never waits. true: something is under way that will end without any call
 * of the program. */
bool mdnn_memory_progress(mdnn_memory_t *memory);

/* Keeps the allocation around `address` resident, because a graph has captured it or another process shares it. Pins
 * are counted. If the allocation is away, it is made resident first. If it is freed while it is pinned, it is not found
 * any more, but it can be named, pinned again and unpinned; it stays where it is, and its memory serves others only
 * after the last unpin. *start: where the allocation starts. Fails as mdnn_memory_allocate does; NOT_FOUND also if no
 * allocation is there. */
mdnn_status_t mdnn_memory_pin(mdnn_memory_t *memory, uint64_t address, uint64_t *start);
void mdnn_memory_unpin(mdnn_memory_t *memory, uint64_t address);
/* Revives an allocation that was freed while pinned, at its address and with its content. false:
 * there is none. */
bool mdnn_memory_revive(mdnn_memory_t *memory, uint64_t address);

/* A live pin ends when its allocation is freed, if not earlier. It is for objects that refer to
 * memory without keeping it alive, such as textures. Copies of the struct mean the same pin. */
typedef struct mdnn_live_pin {
    uint64_t address, number;
} mdnn_live_pin_t;

/* Pins an allocation that has not been freed, like mdnn_memory_pin. */
mdnn_status_t mdnn_memory_pin_live(mdnn_memory_t *memory, uint64_t address, mdnn_live_pin_t *pin);
/* Called once per pin; does nothing if the allocation was freed, whatever is there now. */
void mdnn_memory_unpin_live(mdnn_memory_t *memory, mdnn_live_pin_t pin);
/* Whether the allocation at `address` has such pins: it may then be in use without being named, and the driver may hold
 * settings for it. */
bool mdnn_memory_has_live_pins(const mdnn_memory_t *memory, uint64_t address);
/* Whether the allocation has pins other than live pins. */
bool mdnn_memory_is_held(const mdnn_memory_t *memory, uint64_t address);

/* Whether operations would have as much room as they have needed so far if the allocation were
 * pinned. */
bool mdnn_memory_can_stay(const mdnn_memory_t *memory, uint64_t address);

/* Sets `bytes` of the budget aside, until they are given back, for device memory that is not managed here and that the
 * caller allocates afterwards. Ranges leave for it and chunks are destroyed, so it waits on the host like allocate.
 * OUT_OF_DEVICE_MEMORY: not enough can leave, or afterwards there would be too little room for each range to come back
 * and for operations like those so far. With HOST, BUSY as in allocate. mdnn_memory_set_aside_all_the_same is for
 * memory that exists already and cannot be refused: until ranges have left, the count may then exceed the budget. */
mdnn_status_t mdnn_memory_set_aside(mdnn_memory_t *memory, uint64_t bytes);
/* The same, but also refused if operations like those so far would then need tails: for memory without which the
 * program can go on. */
mdnn_status_t mdnn_memory_set_aside_optional(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_set_aside_all_the_same(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_give_back(mdnn_memory_t *memory, uint64_t bytes);

/* Contents that are dropped, and made again (docs/design/dropping.md). Where the caller has said how a content can be
 * made again, by a launch that reads other allocations, and both its hash and theirs are what they were when it was
 * made, the content is dropped when it leaves. It is made again before an operation that names it begins, before it
 * is pinned, and before an operation may write an input or an input is freed. So no caller can forget it.
 *
 * The functions are called like those of the device. All that they enqueue is enqueued in `stream`, of which the device
 * knows points. They wait for nothing. */
typedef struct mdnn_memory_hash {
    uint64_t words[2];
} mdnn_memory_hash_t;
typedef struct mdnn_memory_span {
    uint64_t address, bytes;
} mdnn_memory_span_t;
typedef enum mdnn_making_event {
    MDNN_MAKING_DROPPED,
    MDNN_MAKING_REFUSED, /* it was to be dropped, but a hash differs */
    MDNN_MAKING_WANTED,  /* it was made again for an operation that names it, */
    MDNN_MAKING_EARLY,   /* or because an input was to change */
    MDNN_MAKING_ENDED    /* the launch is the remaker's again */
} mdnn_making_event_t;
enum { MDNN_MAKING_INPUTS = 15 };
typedef struct mdnn_memory_remaker {
    void *context;
    uint64_t stream;
    /* Enqueues hashes of the spans; *job is valid until take_hashes. */
    mdnn_status_t (*hash)(void *context, const mdnn_memory_span_t *spans, size_t count, void **job);
    /* Called once after a job is over. false: its hashes are not known. `hashes` NULL: nobody wants them; the job may
     * go on. */
    bool (*take_hashes)(void *context, void *job, mdnn_memory_hash_t *hashes);
    /* Those of the content and of the inputs when the launch made it; called when its uses are over. false: they are not
     * known. */
    bool (*hashes_then)(void *context, void *launch, mdnn_memory_hash_t *hashes);
    /* Enqueues the launch again, and what ends the process's work if that makes another content. */
    mdnn_status_t (*make)(void *context, void *launch);
    void (*note)(void *context, void *launch, uint64_t bytes, mdnn_making_event_t what);
} mdnn_memory_remaker_t;

/* NULL: there is none any more. */
void mdnn_memory_set_remaker(mdnn_memory_t *memory, const mdnn_memory_remaker_t *remaker);
/* Says that `launch` has just made the content of the allocation around `address`, as a whole, and reads these others.
 * Takes the launch over after OK. Otherwise the content cannot be dropped. */
mdnn_status_t mdnn_memory_can_make(mdnn_memory_t *memory, uint64_t address, const uint64_t *inputs,
                                   size_t input_count, void *launch);
/* Makes all again that is dropped, and forgets how. */
mdnn_status_t mdnn_memory_make_all(mdnn_memory_t *memory);
/* How often the content of the allocation has left for the host; 0 also where none lives. */
uint64_t mdnn_memory_departures(const mdnn_memory_t *memory, uint64_t address);

typedef struct mdnn_memory_report {
    uint64_t budget_bytes, resident_bytes,
        peak_resident_bytes;                /* all chunks, in use or not, and memory set aside */
    uint64_t other_bytes, peak_other_bytes; /* the memory that is set aside */
    uint64_t average_resident_bytes; /* chunks of live ranges and slabs: mean over operations */
    uint64_t live_bytes, peak_live_bytes; /* allocated and not freed, wherever they are */
    uint64_t pinned_live_bytes;           /* cannot leave */
    uint64_t largest_operation_bytes;     /* most that one operation named, rounded to chunks */
    /* copied out and in; not copied out, because the host still had the content */
    uint64_t out_bytes, in_bytes, saved_bytes;
    uint64_t host_bytes; /* slots in use */
    /* Times that something could not leave, or be promised, for lack of host memory. */
    uint64_t host_short;
    bool is_host_short; /* whether that happened since the last call that needed memory began */
    /* Host memory that would have been needed, at least, for the last refused request and all that was
     * allocated then; and the most for a request that was refused because of that, 0: none was. */
    uint64_t host_needed_bytes, most_host_needed_bytes;
    uint64_t operations, demand_returns, planned_returns, demand_leaves, planned_leaves, called_off;
    /* `refused_optional` counts those of the refusals that were of workspaces, of our own requests, or of memory
     * without which the program went on. */
    uint64_t host_waits, refused, refused_optional;
    double host_wait_us;
    mdnn_host_time_t host_time, round_host_time; /* since the start; of one iteration, 0: unknown */
    uint64_t late_returns[MDNN_LATE_RETURN_COUNT];
    /* The smallest budget that is known to be needed. With tails: memory that never leaves, and one chunk. Without
     * tails: memory that never leaves, and the largest operation without its workspace, since a smaller workspace may
     * be enough (Chen 2019, equation 6). */
    uint64_t smallest_budget_bytes;
    uint64_t whole_budget_bytes; /* the same, as if there were no tails */
    /* The largest budget that a refused request needed; 0: none was refused. */
    uint64_t refused_budget_bytes;
    /* The same, only for refused requests that are not optional; back to 0 once the program goes on without them. */
    uint64_t wanting_bytes;
    uint64_t created, destroyed, mapped, unmapped; /* chunks, since the start */
    /* The part of `mapped` and `unmapped` that threads of the library did. */
    mdnn_background_t background;
    /* Parts of `mapped`: for ranges that were away, and for ranges without content. */
    uint64_t mapped_returned, mapped_at_first_use;
    double iteration_us; /* time of one iteration on the device, as measured; 0: unknown */
    double iteration_background_us; /* what threads of the library spent on mappings meanwhile */
    /* VERIFY: operations that the device ended with an error, and the first of them. An access to
     * unmapped memory destroys the context, so any further one has the same cause. */
    uint64_t unnamed_accesses, unnamed_key;
    const char *unnamed_name; /* or NULL */
} mdnn_memory_report_t;

/* The tails of operations: the operands, or parts of them, that they used in host memory, because not everything that
 * they named had room on the device. */
enum { MDNN_MEMORY_TAILS = 8 };
typedef struct mdnn_memory_tail {
    uint64_t key;         /* of the operation */
    uint64_t count;       /* how often it ran with a tail; 0: the entry is empty */
    uint64_t bytes;       /* its largest tail */
    uint64_t named_bytes; /* what it named then, with that tail */
    const char *name;     /* may be NULL */
} mdnn_memory_tail_t;
typedef struct mdnn_memory_tails {
    uint64_t operations, bytes; /* all of them */
    mdnn_memory_tail_t largest[MDNN_MEMORY_TAILS];
} mdnn_memory_tails_t;

/* The result belongs to `memory`, and changes with later calls. */
const mdnn_memory_tails_t *mdnn_memory_tails(const mdnn_memory_t *memory);
/* Adds the time that a thread spent in the library holding the caller's lock, and the time that it had waited for
 * that lock. */
void mdnn_memory_note_host_time(mdnn_memory_t *memory, double inside_us, double lock_us);
mdnn_memory_report_t mdnn_memory_report(const mdnn_memory_t *memory);
/* The report's live_bytes, at the cost of a load. */
uint64_t mdnn_memory_live_bytes(const mdnn_memory_t *memory);
mdnn_follower_report_t mdnn_memory_follower_report(const mdnn_memory_t *memory);

/* What cuMemGetInfo reports as free: the bytes that an allocation could get now and use beside what is alive, such as
 * the workspace of a convolution. That is the budget, less memory that cannot leave, and less the smaller of the largest
 * operation so far, without its workspace if that is freed, and all live memory. */
uint64_t mdnn_memory_available(mdnn_memory_t *memory);

#endif
