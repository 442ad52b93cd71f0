/* What the files of the mechanism share; memory.h introduces its terms.
 *   memory_accounts.c questions and notes that all files need
 *   memory.c        the device, allocations by address, the report
 *   memory_allocate.c how an allocation begins
 *   memory_free.c   how an allocation ends
 *   memory_pins.c   what never leaves
 *   memory_moves.c  requests to a range to leave or to come back; never waits
 *   memory_steps.c  how a range leaves and comes back, step by step; never waits
 *   memory_remaps.c a range's mappings that change in the background
 *   memory_acquire.c chunks or addresses for an allocation
 *   memory_room.c   the demand path: chunks for what is named
 *   memory_victims.c what leaves for a demand (the request of an operation or allocation that needs memory now)
 *   memory_tail.c   the part of an operation's memory that is on the host, where chunks are missing
 *   memory_turns.c  the queue of demands
 *   memory_waits.c  waits of the host
 *   memory_quiet.c  safety = host
 *   memory_promises.c memory and addresses of the program's own handles and reservations
 *   memory_names.c  begin and end of operations; the plan follower's advice
 *   memory_iterations.c how long an iteration of what repeats takes
 *   memory_untracked.c work whose memory nobody knows
 *   memory_aside.c  the part of the budget that other memory has
 *   memory_stuck.c  how much memory may be of a kind that never leaves
 *   memory_makings.c how contents can be made again, and hashes of what leaves
 *   memory_drops.c  what was dropped is made again before anything could miss it
 *
 * Content of a range. Copies out begin with the last chunk; copies in and mapping begin with the first. So five numbers
 * say where everything is:
 *
 *     chunk 0 ... mapped ... filled ... owned ... count        mapped <= filled <= owned
 *             ... clean ....................... count          clean <= filled
 *             ... covered_from ................ count          mapped <= covered_from
 *
 * Chunks below `filled` have the content; from `clean` on the host has it. Since clean <= filled, the content of each
 * chunk is always in at least one place, even if a move is cancelled or fails half-way. Chunks from `clean` on may be
 * given away, and those below `filled` may be mapped. Debug builds check that (offload/memory/memory_check.h).
 *
 * If a plan says that a new allocation needs no chunk yet, it gets only addresses: it is AWAY and blank. It takes
 * chunks when an operation names it. */
#ifndef MDNN_MEMORY_INTERNAL_H
#define MDNN_MEMORY_INTERNAL_H

#include "offload/memory/memory.h"

enum {
    MDNN_FLIGHTS = 64,    /* the most copies that are enqueued at the same time in one direction */
    MDNN_TIMINGS = 256,   /* the most timed operations whose time is not known yet */
    MDNN_UNDONE = 8,      /* streams with a known unfinished point: `undone`, below */
    MDNN_INLINE_USES = 2, /* streams of an allocation that need no extra memory */
};
/* The most bytes that are enqueued at the same time in one direction, since a demand may have to wait for them. One
 * chunk is always allowed. */
#define MDNN_FLIGHT_BYTES ((uint64_t)256 << 20)

typedef enum mdnn_allocation_state {
    MDNN_ALLOCATION_RESIDENT,
    MDNN_ALLOCATION_LEAVING,
    MDNN_ALLOCATION_AWAY,
    MDNN_ALLOCATION_RETURNING,
    MDNN_ALLOCATION_SPLIT, /* offload/memory/memory_tail.c */
    MDNN_ALLOCATION_ENDING /* freed; something of it is still under way */
} mdnn_allocation_state_t;

/* An allocation. */
typedef struct mdnn_allocation {
    uint64_t address, bytes;
    uint64_t room;       /* memory that it takes, in chunks or granules */
    mdnn_range_t *range; /* NULL: a block of a slab */
    mdnn_allocation_state_t state;
    bool freed;
    bool stays;           /* a block, or too small to leave */
    bool keeps_addresses; /* its addresses are the program's, and outlive it */
    uint32_t held;        /* operations between begin and end that name it */
    uint32_t pins;        /* mdnn_memory_pin */
    uint32_t live_pins;   /* how many of the pins end when it is freed */
    uint64_t number;      /* which no other allocation ever has */
    /* waiters, and lists that contain it; these do not keep it from leaving */
    uint32_t idlers;
    uint64_t born, gone; /* operations that began in between can name it */

    /* In chunks; see above for the first three (`owned` and `mapped` are the range's). Copies in are enqueued for
     * chunks below `in_sent`, and copies out for those from `out_sent` on. */
    uint64_t count, filled, clean, in_sent, out_sent;
    bool blank; /* nobody has named it yet, so from `clean` on there is no content, nor a slot */
    bool
        is_question; /* it may only ask how much memory there is: blank, and not in the peak of what is live */
    /* LEAVING, RETURNING: how many of its first chunks are to be there in the end */
    uint64_t target;
    uint64_t *slots,
        slots_from; /* chunks from here on have host slots; <= clean. Blank: no chunk has one */
    bool cut;       /* LEAVING: nothing works on it, and it is unmapped from `target` on */
    uint64_t
        covered_from; /* at its steps from here on slots are mapped: AWAY with HOST, and SPLIT */
    uint64_t remap;   /* its mappings change in the background (memory_remaps.c); 0: they do not */
    uint64_t remap_upto; /* what `mapped` will be in the end */
    uint64_t remapped;   /* how many of the changes have been noted */
    /* RETURNING: its steps from `target` on are to be covered, which makes it SPLIT */
    bool covers;
    bool demanded;  /* the demand that has the turn names it */
    uint64_t whole; /* `demanded`: how many of its first chunks must be device memory for that */
    uint32_t in_flight[2]; /* copies under way; [true]: out */
    uint32_t discarded;    /* copies out with an earlier number do not count */

    uint64_t freed_in;         /* the stream in whose order it was freed; MDNN_NO_ORDER */
    mdnn_stream_point_t *uses; /* last of each stream; position 0: reserved, or over */
    uint32_t use_count, use_room;
    mdnn_stream_point_t first_uses[MDNN_INLINE_USES];

    const char *why, *whose; /* of its last move, for a trace: memory_event's */
    uint32_t follower_range;
    uint64_t last_use; /* number of the operation */
    uint64_t demand;   /* number of the demand that last sent it away */
    uint64_t keeps;    /* how many of its first chunks that demand left it */
    bool sent_away;    /* it left on demand the last time */
    uint64_t pass;     /* number of the last walk over names that met it (`passes`) */
    uint32_t use;      /* of that walk: index in memory->uses */

    /* memory_makings.c */
    struct mdnn_making *making;           /* how its content can be made again; NULL: it cannot */
    struct mdnn_making_input *dependents; /* makings that read it */
    bool dropped;  /* its content is lost until it is made again, whatever the state */
    bool dropping; /* LEAVING: it can be dropped when it is cut, */
    bool judged;   /* LEAVING: which is known, or need not be */
    bool sealed;   /* the hash of its content is `seal`, since nothing may have written it */
    mdnn_memory_hash_t seal;
    mdnn_stream_point_t
        remade; /* the last launch that made it or read it again; position 0: none */
    uint64_t departures;

    struct mdnn_allocation *next, *previous;         /* all */
    struct mdnn_allocation *next_move, *before_move; /* in one of the lists of moves */
} mdnn_allocation_t;

typedef struct mdnn_making mdnn_making_t;

/* A content that can be made again: a link from each input to it. */
typedef struct mdnn_making_input {
    mdnn_allocation_t *allocation;
    struct mdnn_making *making;
    struct mdnn_making_input *next, *previous; /* of the makings that read the allocation */
} mdnn_making_input_t;
struct mdnn_making {
    mdnn_allocation_t *result;
    void *launch; /* the remaker's */
    uint32_t input_count;
    mdnn_making_input_t inputs[];
};

/* Hashes of an allocation that leaves, and of inputs of its making, on their way. */
enum { MDNN_HASH_JOBS = 32 };
typedef struct mdnn_hash_job {
    void *job;                     /* the remaker's; NULL: the place is empty */
    mdnn_allocation_t *allocation; /* NULL: nobody wants the result */
    mdnn_stream_point_t end;
    bool of_inputs; /* the inputs of its making are hashed, too, */
    mdnn_allocation_t
        *hashed[1 + MDNN_MAKING_INPUTS]; /* of which the last ones may be left out: NULL */
    size_t count;
} mdnn_hash_job_t;

typedef struct mdnn_allocation_list {
    mdnn_allocation_t *first, *last;
} mdnn_allocation_list_t;

typedef struct mdnn_flight {
    mdnn_allocation_t *allocation;
    mdnn_stream_point_t end;
    uint32_t discarded; /* the allocation's `discarded` at the time when the copy was enqueued */
} mdnn_flight_t;

/* Memory without an owner whose mappings change in the background (memory_ahead.h). */
enum { MDNN_AHEAD = 8 };
typedef struct mdnn_ahead {
    mdnn_range_t *range; /* NULL: none */
    bool map;            /* it is prepared; else it is reclaimed */
    uint64_t token;      /* of the device's change */
    uint64_t done;       /* chunks of it that are noted */
} mdnn_ahead_t;

typedef struct mdnn_flights { /* copies in one direction, in order */
    mdnn_flight_t ring[MDNN_FLIGHTS];
    size_t first, count;
} mdnn_flights_t;

typedef struct mdnn_timing {
    uint64_t token, sequence; /* sequence UINT64_MAX: the plan follower does not want it */
    bool traced;              /* it is to be announced, too, with the operation's */
    uint64_t key, stream;
    const char *name;
    double enqueued_us;
} mdnn_timing_t;

/* A demand in the queue; on the stack of its thread. */
typedef struct mdnn_turn {
    struct mdnn_turn *next;
} mdnn_turn_t;

/* When the device was last seen to complete something. */
typedef struct mdnn_patience {
    double since_us;
    uint64_t completions;
    bool stalled; /* so from now on the demand also takes what is idle */
} mdnn_patience_t;

/* An iteration that was timed: what it took on the device, and where the host's time went meanwhile. */
enum { MDNN_WATCHED = 9 };
typedef struct mdnn_watched {
    double time_us, background_us;
    mdnn_host_time_t host;
} mdnn_watched_t;

/* The iterations of one period. */
typedef struct mdnn_watched_period {
    uint64_t number; /* the plan follower's; 0: none */
    /* so many were timed, of which the last are kept: one at its number, modulo the room */
    uint64_t taken;
    uint64_t since;  /* the number of the operation at which the last one began */
    bool is_planned; /* they ran under a plan */
    mdnn_watched_t last[MDNN_WATCHED];
} mdnn_watched_period_t;

enum { MDNN_WATCHED_PERIODS = 4 };
typedef struct mdnn_iteration_watch {
    uint64_t token, stream; /* token 0: none */
    uint64_t next;          /* number of the operation at which there is something to do next */
    uint64_t period;        /* of the iteration that is timed */
    uint32_t operations;    /* of that iteration */
    uint64_t read_token;    /* of a stretch that has ended and is to be read; 0: none */
    bool read_counts;       /* it was a whole iteration */
    uint64_t read_period;   /* of that iteration, */
    uint32_t read_together; /* or so many of them */
    uint64_t plan;      /* that was followed during all of the iteration that is timed; 0: none */
    uint64_t read_plan; /* the same for the iteration that is to be read */
    mdnn_host_time_t host_began; /* at the beginning of the iteration that is timed */
    mdnn_host_time_t host_read;  /* of the iteration to be read */
    double background_began_us,
        background_read_us; /* likewise, of the thread that changes mappings */
    mdnn_watched_period_t periods[MDNN_WATCHED_PERIODS];
} mdnn_iteration_watch_t;

/* The largest value over one iteration, if an iteration is known to be at most a few thousand operations long;
 * otherwise over at most twice that many operations. */
typedef struct mdnn_recent {
    uint64_t most, before; /* most since operation `since`; most in the stretch before it */
    uint64_t since;
} mdnn_recent_t;

struct mdnn_memory {
    mdnn_memory_config_t config;
    mdnn_memory_device_t device;
    void *context;
    mdnn_ranges_t *ranges;
    mdnn_follower_t *follower;
    uint64_t chunk_bytes;
    uint64_t chunk_limit;   /* chunks that the budget allows, or the device has */
    uint64_t aside_bytes;   /* part of the budget that is for memory other than chunks */
    uint64_t claimed_bytes; /* part of the budget that such memory will have once there is room */
    uint64_t foreign_bytes; /* part of the budget that the device could not give at the last look */
    uint64_t chunks_known;  /* as many chunks the device can give without another look */
    uint64_t live_room_bytes; /* room of all that is not freed, wherever its content is */
    /* Promises (mdnn_memory_promise) that have no allocation yet: their bytes, and their part of live_room_bytes. */
    uint64_t promised_bytes, promised_room_bytes;
    uint64_t reserved_bytes; /* addresses that the program has reserved */
    uint64_t
        told_bytes; /* the answer of mdnn_memory_available, until an allocation follows it; else 0 */
    uint64_t question_bytes; /* of live allocations that are questions */
    uint64_t peak_resident_bytes;
    uint64_t
        movable_bytes; /* most that one operation named of what can leave, without workspaces */
    /* Refused requests without which the program may not be able to go on: the budget that they need, how many there
     * are, and the number of operations before the last of them. */
    struct {
        uint64_t bytes, count, since;
    } wanting;

    mdnn_allocation_t *allocations;                     /* all; newest first */
    mdnn_allocation_list_t leaving, returning, endings; /* in the order of the requests */
    mdnn_flights_t flights[2];                          /* [true]: out */
    uint64_t remaps; /* allocations whose mappings change in the background */
    mdnn_ahead_t ahead[MDNN_AHEAD];
    /* `began` + 1 when a change in the background failed: none begins until `began` has grown. */
    uint64_t remap_failed;
    bool demanding;                      /* planned returns get no chunks meanwhile */
    bool stalled;                        /* the demand that has the turn waited for a use in vain */
    bool closed;                         /* every wait ends immediately */
    uint64_t least_chunks;               /* that this demand needs even if all else leaves */
    mdnn_turn_t *first_turn, *last_turn; /* the first has the turn */
    uint64_t demands;                    /* how many demands there were */
    uint64_t passes;                     /* how many walks over the names of an operation */
    uint64_t began;                      /* how many operations have begun */
    /* While `looking`: a point of a stream that was found unfinished, so that the device is not asked about later ones;
     * position 0: none. */
    mdnn_stream_point_t undone[MDNN_UNDONE];
    bool looking;               /* mdnn_memory_progress looks at all moves, and fills `undone` */
    uint64_t steps;             /* grows whenever anything changes */
    bool slot_busy;             /* a host slot is being made */
    double hasty_until_us;      /* a wait was too long: until then slow_down and join do nothing */
    mdnn_stream_point_t wanted; /* of released memory; position 0: none */
    mdnn_status_t trouble;      /* last failure of the device */
    uint64_t host_short_before; /* report.host_short when the turn was taken */

    /* Stands for no real allocation: all operations hold it, and with HOST and VERIFY its uses are their ends. */
    mdnn_allocation_t all;
    uint32_t open; /* operations between begin and end */
    bool quiet, hurried;

    mdnn_use_t *uses; /* of the operation that ends */
    size_t use_room;
    uint64_t *streams; /* index: the number that the history knows it by */
    uint32_t stream_count, stream_room, last_stream;
    const char *serving; /* for a trace: the operation whose demand is served; or NULL */
    uint64_t rounds;     /* how often a period has begun */
    bool time_next;      /* the next operation is to be timed */
    mdnn_timing_t timings[MDNN_TIMINGS];
    size_t first_timing, timing_count, timings_open;

    mdnn_iteration_watch_t watch;
    uint64_t resident_sum;        /* chunks of live ranges and slabs, once for each operation */
    uint64_t stuck_bytes;         /* of ranges that cannot leave, without slabs */
    uint64_t movable_range_bytes; /* no live range that can leave takes more */
    /* Most that one operation named of what can leave, with its workspace and without, unless it had a tail in any case. */
    uint64_t largest_whole_bytes, largest_beside_bytes;
    uint64_t whole_workspace_address,
        whole_workspace_number;            /* of the former; number 0: it has none */
    mdnn_recent_t movable_operation_bytes; /* what one operation names of ranges that can leave */
    mdnn_recent_t slab_chunks;             /* slabs in use */
    uint64_t loose_bytes;    /* that ranges of small allocations take beyond what was asked for */
    uint32_t untracked_open; /* between mdnn_memory_untracked_begin and its end */
    mdnn_stream_point_t *untracked; /* last of each stream; position 0: none */
    uint32_t untracked_count, untracked_room;
    mdnn_memory_tails_t tails;
    const mdnn_memory_remaker_t *remaker; /* NULL: nothing is dropped */
    uint64_t dropped;                     /* allocations that are */
    mdnn_stream_point_t remade;           /* the last launch that was made again */
    uint32_t jobs_open;
    mdnn_hash_job_t jobs[MDNN_HASH_JOBS];
    mdnn_memory_report_t report;
};

/* ---- memory.c ---- */
/* The allocation around `address` that an operation can name if it began with the number `began`. */
mdnn_allocation_t *mdnn_allocation_find(const mdnn_memory_t *memory, uint64_t address,
                                        uint64_t began);
/* Room for one more stream in `uses`. OUT_OF_MEMORY. */
mdnn_status_t mdnn_allocation_reserve_use(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                          uint64_t stream);
/* The point becomes the last use in its stream. There must be room for it. */
void mdnn_allocation_note_use(mdnn_allocation_t *allocation, mdnn_stream_point_t point);
/* The allocation around `address` that is not freed. */
mdnn_allocation_t *mdnn_allocation_find_live(const mdnn_memory_t *memory, uint64_t address);
/* The same, but also one that was freed and is still pinned: no other allocation can have its addresses. */
mdnn_allocation_t *mdnn_allocation_find_kept(const mdnn_memory_t *memory, uint64_t address);
/* The allocation is held. Waits on the host until no known work uses it. BUSY: not within
 * `seconds`; 0: wait as long as the device makes progress. */
mdnn_status_t mdnn_allocation_wait_for_uses(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                            double seconds);
/* ---- memory_accounts.c ---- */
/* Counts the time that has passed since `begin_us` as the library's own work of that kind. */
void mdnn_memory_note_part(mdnn_memory_t *memory, mdnn_host_time_kind_t kind, double begin_us);
bool mdnn_memory_serves_all(const mdnn_memory_t *memory); /* HOST */
/* Counts that many of the chunks that the allocation has taken as mapped now. */
void mdnn_memory_count_mapped(mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                              uint64_t chunks);
/* Whether another operation that has begun may be using the allocation's mappings. */
bool mdnn_allocation_used_by_others(const mdnn_allocation_t *allocation);
/* How many chunks exist; how many may exist beside the memory that is set aside. */
uint64_t mdnn_memory_chunks_there(const mdnn_memory_t *memory);
/* Chunks that are neither spare nor released, but about to be (memory_ahead.h). */
uint64_t mdnn_memory_chunks_ahead(const mdnn_memory_t *memory);
/* Chunks that are spare or released, or about to be. */
uint64_t mdnn_memory_chunks_not_in_use(const mdnn_memory_t *memory);
/* Ends a change of mappings in the background, after the chunk that has begun or after `all`; *done: so many chunks. */
mdnn_status_t mdnn_memory_end_change(mdnn_memory_t *memory, uint64_t token, bool all,
                                     uint64_t *done);
/* A change of mappings in the background failed: until the next operation begins there are none. */
void mdnn_memory_note_failed_remap(mdnn_memory_t *memory, mdnn_status_t status);
uint64_t mdnn_memory_chunks_allowed(const mdnn_memory_t *memory);
/* The budget, less memory that cannot leave, and less room for operations on what is alive: the largest so far, with its
 * workspace. */
uint64_t mdnn_memory_room_left(const mdnn_memory_t *memory);
/* Asks the device how much of the budget it can give, unless it is known that it can give `chunks`. */
void mdnn_memory_look_for_room(mdnn_memory_t *memory, uint64_t chunks);
void mdnn_memory_note_resident(mdnn_memory_t *memory);
/* Notes the peak of what is live, in which questions do not count. */
void mdnn_memory_note_live(mdnn_memory_t *memory);
/* Notes that an allocation or an operation failed for which this budget would have been enough.
 * `needed`: the program may not be able to go on without it; otherwise mdnn_memory_judge_refusal
 * decides that. */
void mdnn_memory_refused(mdnn_memory_t *memory, uint64_t needed_bytes, bool needed);
/* Called after that: the request was for this many bytes in addition to all that is alive. */
void mdnn_memory_note_host_needed(mdnn_memory_t *memory, uint64_t bytes);
void mdnn_memory_announce(const mdnn_memory_t *memory, const mdnn_memory_event_t *event);
/* Whether the program has gone on since the last refusal, so that it did not need what was refused. */
bool mdnn_memory_has_gone_on(const mdnn_memory_t *memory);
/* Notes a refused request without which the program may not be able to go on, and the budget that it needed. */
void mdnn_memory_note_wanting(mdnn_memory_t *memory, uint64_t needed_bytes);
void mdnn_allocation_destroy(mdnn_allocation_t *allocation);   /* the bookkeeping only */
void mdnn_allocation_free_uses(mdnn_allocation_t *allocation); /* only `uses` */

/* ---- memory_allocate.c ---- */
/* The allocation is alive from now on: it is counted, and the plan follower knows it. */
void mdnn_allocation_begin_life(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* If it was a question it is none any more: it has memory, can have none, or is freed. */
void mdnn_allocation_end_question(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Gives an open question its memory, as any allocation has it at once. Called before anything that the program does
 * beside asking and freeing. May wait like a demand. */
void mdnn_memory_answer_question(mdnn_memory_t *memory);
/* Makes an allocation without memory, at all of the program's addresses there. OUT_OF_MEMORY. */
mdnn_status_t mdnn_allocation_begin_at(mdnn_memory_t *memory, uint64_t address, uint64_t bytes);

/* ---- memory_free.c ---- */
/* The program has freed the allocation: it is not found any more, unless it is pinned. It ends now
 * or later. */
void mdnn_allocation_forget(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* An allocation that was freed and is neither held nor pinned ends, now or later. */
void mdnn_allocation_end(mdnn_memory_t *memory, mdnn_allocation_t *allocation);

/* ---- memory_pins.c ---- */
void mdnn_allocation_pin(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
void mdnn_allocation_unpin(mdnn_memory_t *memory, mdnn_allocation_t *allocation);

/* ---- memory_stuck.c ---- */
/* Bytes that no demand can get: slabs, and ranges that stay or are pinned. */
uint64_t mdnn_memory_stuck_bytes(const mdnn_memory_t *memory);
/* Whether there may be `bytes` more of memory that never leaves, so that each live range can still be resident beside
 * all such memory. */
bool mdnn_memory_ranges_fit(mdnn_memory_t *memory, uint64_t bytes);
/* The same, and an operation that names as much as the largest recent one can also still run. */
/* Bytes that one demand could have as chunks, whatever leaves: a demand for more has a tail. */
uint64_t mdnn_memory_bytes_for_demands(const mdnn_memory_t *memory);
/* Whether room must be kept for an operation or a range of that size: not if it has a tail in any case. */
bool mdnn_memory_counts(const mdnn_memory_t *memory, uint64_t bytes);
/* The least budget. With tails nothing needs more than what never leaves and one chunk. */
uint64_t mdnn_memory_least_budget(const mdnn_memory_t *memory);
/* Whether a range of that size, which is smaller than what is to leave, may stay as long as it lives. */
bool mdnn_memory_may_always_stay(mdnn_memory_t *memory, uint64_t bytes);
/* Whether this many more chunks may be slabs in use, for a block that takes `room`. */
bool mdnn_memory_may_be_slabs(mdnn_memory_t *memory, uint64_t chunks, uint64_t room);
/* Notes that the range can leave from now on. */
void mdnn_allocation_note_movable(mdnn_memory_t *memory, const mdnn_allocation_t *allocation);
/* What a small allocation wastes by having a range of its own; 0 for other allocations. */
uint64_t mdnn_allocation_loose_bytes(const mdnn_memory_t *memory,
                                     const mdnn_allocation_t *allocation);
/* Notes the present value. */
void mdnn_recent_note(mdnn_recent_t *recent, uint64_t operation, uint64_t value);
static inline uint64_t mdnn_recent_most(const mdnn_recent_t *recent)
{
    return recent->most > recent->before ? recent->most : recent->before;
}

/* ---- memory_moves.c ---- */
bool mdnn_allocation_can_leave(const mdnn_allocation_t *allocation);
bool mdnn_allocation_uses_over(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Makes a range that can leave LEAVING, except for its first `keep` chunks. */
void mdnn_allocation_leave(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t keep);
/* Called in any state. Makes sure that at least the range's first `upto` chunks are there, or come as soon as there is
 * memory. Once all of its chunks are there, it becomes RESIDENT. */
void mdnn_allocation_return(mdnn_memory_t *memory, mdnn_allocation_t *allocation, uint64_t upto);
/* Takes the allocation out of the list of moves; the caller sets its next state. */
void mdnn_allocation_stop(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* A RETURNING range that lacks chunks becomes AWAY, if nothing of it is under way. */
void mdnn_allocation_give_up(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Notes that anyone may write to the allocation's mapped chunks from now on, so that the host's copies of these are not
 * valid. */
void mdnn_allocation_exposed(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* VERIFY: maps all of the allocation, or unmaps it. */
mdnn_status_t mdnn_allocation_show(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                   bool shown);
void mdnn_list_add(mdnn_allocation_list_t *list, mdnn_allocation_t *allocation);
void mdnn_list_remove(mdnn_allocation_list_t *list, mdnn_allocation_t *allocation);
static inline uint64_t mdnn_allocation_owned(const mdnn_allocation_t *allocation)
{
    return allocation->range ? mdnn_range_chunks(allocation->range).owned : 0;
}

/* ---- memory_untracked.c ---- */
/* Whether nothing can be using memory untracked any more. */
bool mdnn_memory_untracked_over(mdnn_memory_t *memory);
/* The next operation to end among those whose end is enqueued; NULL: none. */
mdnn_stream_point_t *mdnn_memory_untracked_use(mdnn_memory_t *memory);
void mdnn_memory_note_untracked_over(mdnn_memory_t *memory, mdnn_stream_point_t use);
mdnn_status_t mdnn_memory_wait_untracked(mdnn_memory_t *memory);

/* ---- memory_iterations.c ---- */
/* Called after an operation of `stream` was recorded. */
void mdnn_memory_watch_iteration(mdnn_memory_t *memory, uint64_t stream);
/* Of the last iterations: the median of their times on the device, and the mean of the host's; 0: none was timed. */
double mdnn_memory_iteration_us(const mdnn_memory_t *memory);
mdnn_host_time_t mdnn_memory_iteration_host_time(const mdnn_memory_t *memory);
double mdnn_memory_iteration_background_us(const mdnn_memory_t *memory);

/* ---- memory_tail.c ---- */
/* Counts an operation that has named SPLIT ranges, of which `bytes` were on the host. */
void mdnn_memory_count_tail(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                            uint64_t bytes);

/* ---- memory_quiet.c, which explains these functions; without HOST they do nothing ---- */
/* Waits until the enqueued work has ended, but only once per operation, and not too long. */
mdnn_status_t mdnn_memory_wait_for_all(mdnn_memory_t *memory);
/* VERIFY: waits until all operations have ended, if the wait at the end of one has failed (that one may touch
 * anything), or if another thread has begun one. */
mdnn_status_t mdnn_memory_wait_for_earlier(mdnn_memory_t *memory);
/* BUSY: an operation is between begin and end. OK: mdnn_memory_end_quiet follows. */
mdnn_status_t mdnn_memory_quieten(mdnn_memory_t *memory);
void mdnn_memory_end_quiet(mdnn_memory_t *memory);
/* Waits until another thread's quiet time, in which nothing may begin, is over. */
mdnn_status_t mdnn_memory_wait_for_noise(mdnn_memory_t *memory);
/* Covers an allocation that has become AWAY. */
void mdnn_allocation_cover(mdnn_memory_t *memory, mdnn_allocation_t *allocation);
/* Maps the slots of all its steps from `from` on, with HOST or without. */
mdnn_status_t mdnn_allocation_cover_from(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                                         uint64_t from);
/* Called before anything else is mapped there, with HOST or without. */
mdnn_status_t mdnn_allocation_uncover(mdnn_memory_t *memory, mdnn_allocation_t *allocation);

#endif
