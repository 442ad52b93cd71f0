/* The demand path: chunks for an allocation or for ranges that an operation names, now.
 *
 * Every wait of the host lets the lock of the caller go, so anything may have changed when it ends:
 * what is not held may be gone, and other threads begin and end operations, allocate and free. So
 * nothing is kept over a wait but what the demand holds, and each round looks at everything anew.
 *
 * Demands take turns. One of them has the turn, holds what it names and goes round: take every move
 * a step further; if that changed nothing, wait for one thing that is under way; if nothing is,
 * fail. Copies end by themselves: they wait for no work of the program. Only the end of a use may
 * depend on what the program does next, and is waited for a stretch at a time. When a stretch ends
 * without it, the demand stalls:
 *   - It looks for ranges whose uses have ended already, though they are wanted sooner. If those are
 *     enough, it is served: nothing else can take them, and copies end.
 *   - If they are not, and others wait for the turn, it lets go of all that it holds, has collected
 *     or sent away, and goes to the end of the line: one on which it depends is served before that.
 *   - It waits on, for as long as the device completes anything (mdnn_memory_config_t.patience_s).
 * What other threads hold between begin and end is waited for likewise.
 *
 * Why a demand ends that nobody disturbs (I4). What leaves for a demand does not return before its
 * end, unless it cannot leave, and then it is not sent again (allocation->demand); planned returns get no
 * chunks meanwhile (memory->demanding), and nothing else begins to move. So the number of copies,
 * unmappings and mappings that can still happen is finite and falls with every change, and an iteration
 * without a change ends one of finitely many points. A device call that fails is no change, so a
 * device that fails for good ends the demand with its status.
 *
 * Only the demand that has the turn holds chunks while it waits for more; what a planned return has
 * taken can be taken back, and so can what a demand had taken that failed or stalled. So no two
 * demands and returns can block each other. */
#include "offload/memory/memory_check.h"
#include "offload/memory/memory_internal.h"

#include <math.h>

/* ---- waits ---- */

static void count_wait(mdnn_memory_t *memory, uint64_t stream, double begin_us)
{
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_STALL,
                                       .stream = stream,
                                       .time_us =
                                           memory->device.now_us(memory->context) - begin_us};
    memory->report.host_waits++;
    memory->report.host_wait_us += event.time_us;
    mdnn_memory_announce(memory, &event);
}

/* NOT_FOUND: the memory was closed meanwhile. */
static mdnn_status_t end_wait(const mdnn_memory_t *memory, mdnn_status_t status)
{
    return memory->closed ? MDNN_STATUS_NOT_FOUND : status;
}

/* BUSY after `seconds`; INFINITY: as long as it takes, for copies. */
static mdnn_status_t wait_counted(mdnn_memory_t *memory, mdnn_stream_point_t point, double seconds)
{
    if (memory->closed)
        return MDNN_STATUS_NOT_FOUND;
    if (point.position == 0 || memory->device.is_done(memory->context, point))
        return MDNN_STATUS_OK;
    mdnn_memory_check(memory);
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = seconds < INFINITY
                                     ? memory->device.wait_a_while(memory->context, point, seconds)
                                     : memory->device.wait_on_host(memory->context, point);
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_BUSY)
        count_wait(memory, point.stream, begin_us);
    return end_wait(memory, status);
}

mdnn_status_t mdnn_memory_wait_for_copy(mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    return wait_counted(memory, point, INFINITY);
}

/* A wait for what the program does is cut into such stretches. */
static const double stretch_s = 0.02;

mdnn_patience_t mdnn_memory_patience(const mdnn_memory_t *memory)
{
    return (mdnn_patience_t){.since_us = memory->device.now_us(memory->context)};
}

bool mdnn_memory_is_patient(mdnn_memory_t *memory, mdnn_patience_t *patience)
{
    const double now_us = memory->device.now_us(memory->context);
    const uint64_t completions =
        memory->device.completions ? memory->device.completions(memory->context) : 0;
    if (completions != patience->completions) {
        patience->since_us = now_us;
        patience->completions = completions;
    }
    return memory->config.patience_s <= 0 ||
           now_us - patience->since_us < memory->config.patience_s * 1e6;
}

mdnn_status_t mdnn_memory_wait(mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_status_t status;
    while ((status = wait_counted(memory, point, stretch_s)) == MDNN_STATUS_BUSY &&
           mdnn_memory_is_patient(memory, &patience))
        mdnn_memory_progress(memory);
    return status;
}

mdnn_status_t mdnn_memory_wait_a_while(mdnn_memory_t *memory, mdnn_stream_point_t point,
                                       double seconds)
{
    return wait_counted(memory, point, seconds);
}

mdnn_status_t mdnn_memory_wait_for_change(mdnn_memory_t *memory)
{
    if (!memory->device.wait_for_change)
        return MDNN_STATUS_NOT_FOUND; /* there is nobody else */
    if (memory->closed)
        return MDNN_STATUS_NOT_FOUND;
    mdnn_memory_check(memory);
    memory->device.wait_for_change(memory->context, stretch_s);
    return end_wait(memory, MDNN_STATUS_OK);
}

void mdnn_memory_close(mdnn_memory_t *memory)
{
    memory->closed = true;
}

/* ---- turns ---- */

mdnn_status_t mdnn_memory_take_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    turn->next = NULL;
    *(memory->last_turn ? &memory->last_turn->next : &memory->first_turn) = turn;
    memory->last_turn = turn;
    while (memory->first_turn != turn) {
        const mdnn_status_t status = mdnn_memory_wait_for_change(memory);
        if (status != MDNN_STATUS_OK) {
            mdnn_memory_end_turn(memory, turn);
            return status;
        }
    }
    return MDNN_STATUS_OK;
}

void mdnn_memory_end_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    mdnn_turn_t **link = &memory->first_turn, *previous = NULL;
    while (*link != turn) {
        previous = *link;
        link = &previous->next;
    }
    *link = turn->next;
    if (memory->last_turn == turn)
        memory->last_turn = previous;
}

mdnn_status_t mdnn_memory_pass_turn(mdnn_memory_t *memory, mdnn_turn_t *turn)
{
    mdnn_memory_end_turn(memory, turn);
    return mdnn_memory_take_turn(memory, turn);
}

static bool is_alone(const mdnn_memory_t *memory)
{
    return memory->first_turn == memory->last_turn;
}

/* Operations that other threads have begun, and what they hold ends when their calls return. */
static bool others_hold(const mdnn_memory_t *memory)
{
    return memory->device.opened_here &&
           memory->open + memory->untracked_open > memory->device.opened_here(memory->context);
}

/* ---- waiting for moves ---- */

static mdnn_status_t wait_for_slot(mdnn_memory_t *memory)
{
    const double begin_us = memory->device.now_us(memory->context);
    MDNN_TRY(memory->device.wait_for_slot(memory->context));
    count_wait(memory, 0, begin_us);
    return end_wait(memory, MDNN_STATUS_OK);
}

/* The first use of a list's ranges that nobody has seen over; position 0: there is none. */
static mdnn_stream_point_t find_use(const mdnn_allocation_list_t *list)
{
    for (const mdnn_allocation_t *allocation = list->first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0)
                return allocation->uses[i];
    return (mdnn_stream_point_t){0};
}

static void note_over(const mdnn_allocation_list_t *list, mdnn_stream_point_t use)
{
    for (const mdnn_allocation_t *allocation = list->first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].stream == use.stream &&
                allocation->uses[i].position == use.position)
                allocation->uses[i].position = 0;
}

/* Each use is waited for once, even where that helps nothing (a release that lacks memory). */
static mdnn_status_t wait_for_use(mdnn_memory_t *memory, mdnn_stream_point_t use, double seconds)
{
    MDNN_TRY(wait_counted(memory, use, seconds));
    note_over(&memory->leaving, use);
    note_over(&memory->endings, use);
    mdnn_memory_note_untracked_over(memory, use);
    return MDNN_STATUS_OK;
}

/* The copy that ends next; its position may be 0, of what is no copy. NULL: none is under way. */
static const mdnn_stream_point_t *next_landing(const mdnn_memory_t *memory)
{
    for (int out = 1; out >= 0; out--)
        if (memory->flights[out].count > 0)
            return &memory->flights[out].ring[memory->flights[out].first].end;
    return NULL;
}

/* What ends before the point does, as far as is known, and lets something move then. It is not
 * over yet, or will be taken note of: each wait is for something else. */
static mdnn_stream_point_t next_before(const mdnn_memory_t *memory, mdnn_stream_point_t point)
{
    const mdnn_stream_point_t *const landing = next_landing(memory);
    if (landing)
        return *landing;
    for (const mdnn_allocation_t *allocation = memory->leaving.first; allocation;
         allocation = allocation->next_move)
        for (uint32_t i = 0; i < allocation->use_count; i++)
            if (allocation->uses[i].position != 0 && allocation->uses[i].stream == point.stream &&
                allocation->uses[i].position < point.position &&
                !memory->device.is_done(memory->context, allocation->uses[i]))
                point.position = allocation->uses[i].position;
    return point;
}

/* What a copy may take where a use may take so long: it ends by itself, so it is no reason to stall. */
static double for_copy(double seconds)
{
    return seconds > stretch_s ? seconds : INFINITY;
}

/* Moves go on meanwhile: they are not to stand still for as long as an operation takes. */
static mdnn_status_t wait_and_move(mdnn_memory_t *memory, mdnn_stream_point_t point, double seconds)
{
    while (point.position != 0 && !memory->device.is_done(memory->context, point)) {
        const double most_s = next_landing(memory) ? for_copy(seconds) : seconds;
        MDNN_TRY(wait_counted(memory, next_before(memory, point), most_s));
        mdnn_memory_progress(memory);
    }
    return MDNN_STATUS_OK;
}

/* The device is a few iterations behind the host at most. What takes longer may wait for what this
 * thread does next, or for another process. */
static double patience(const mdnn_memory_t *memory)
{
    static const double least_s = 1, most_s = 10, iterations = 3;
    const double seconds =
        least_s + iterations * mdnn_follower_report(memory->follower).predicted_us / 1e6;
    return seconds < most_s ? seconds : most_s;
}

static bool is_hasty(const mdnn_memory_t *memory)
{
    return memory->hasty_until_us > 0 &&
           memory->device.now_us(memory->context) < memory->hasty_until_us;
}

/* Waits that are given up again and again cost a hundredth of the time. */
static void be_hasty(mdnn_memory_t *memory, double waited_s)
{
    memory->hasty_until_us = memory->device.now_us(memory->context) + 100 * waited_s * 1e6;
}

void mdnn_memory_slow_down(mdnn_memory_t *memory, mdnn_stream_point_t end)
{
    while (memory->wanted.position != 0 && memory->wanted.stream == end.stream &&
           memory->wanted.position < end.position && !is_hasty(memory)) {
        const uint64_t before = memory->steps;
        const double seconds = patience(memory);
        const mdnn_status_t status = wait_and_move(memory, memory->wanted, seconds);
        if (status == MDNN_STATUS_BUSY)
            be_hasty(memory, seconds);
        mdnn_memory_progress(memory);
        if (status != MDNN_STATUS_OK || memory->steps == before)
            return;
    }
}

/* Waits for one thing that is under way. NOT_FOUND: nothing is. BUSY after `seconds`. */
static mdnn_status_t wait_for_a_move(mdnn_memory_t *memory, double seconds)
{
    const uint64_t before = memory->steps;
    const mdnn_stream_point_t *const landing = next_landing(memory);
    mdnn_stream_point_t use = find_use(&memory->leaving);
    if (use.position == 0)
        use = find_use(&memory->endings);
    if (use.position == 0 && (memory->leaving.first || memory->endings.first)) {
        const mdnn_stream_point_t *const untracked = mdnn_memory_untracked_use(memory);
        use = untracked ? *untracked : use;
    }
    /* Copies end soon, and more can follow then. */
    if (landing)
        return wait_counted(memory, *landing, for_copy(seconds));
    if (memory->slot_busy && memory->stalled) /* that ends, too, and what is idle waits for it */
        return wait_for_slot(memory);
    if (memory->wanted.position != 0)
        return wait_and_move(memory, memory->wanted, seconds);
    if (use.position != 0)
        return wait_for_use(memory, use, seconds);
    if (memory->slot_busy)
        return wait_for_slot(memory);
    /* What there was to wait for may have ended while it was looked for. */
    return memory->steps != before ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

void mdnn_memory_join(mdnn_memory_t *memory)
{
    const double seconds = patience(memory);
    mdnn_status_t status = is_hasty(memory) ? MDNN_STATUS_BUSY : MDNN_STATUS_OK;
    while (status == MDNN_STATUS_OK) {
        const uint64_t before = memory->steps;
        mdnn_memory_progress(memory);
        if (memory->steps != before)
            continue;
        status = wait_for_a_move(memory, seconds);
        if (status == MDNN_STATUS_BUSY)
            be_hasty(memory, seconds);
    }
}

/* ---- victims ---- */

void mdnn_memory_begin_demand(mdnn_memory_t *memory, const mdnn_patience_t *patience,
                              uint64_t least)
{
    memory->demanding = true;
    memory->stalled = patience->stalled;
    memory->least_chunks = least;
    memory->demands++;
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
}

/* How well it would be if the range left: operations until it is used again, as far as is known;
 * else it is taken to be unused for as long again as it has been. */
static uint64_t distance(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const uint32_t known = mdnn_follower_distance(memory->follower, allocation->follower_range);
    return known > 0 ? known : memory->report.operations - allocation->last_use;
}

/* Chunks that it has and that nothing has sent away. */
static uint64_t kept_by(const mdnn_allocation_t *allocation)
{
    const uint64_t owned = mdnn_allocation_owned(allocation);
    if (allocation->state == MDNN_ALLOCATION_ENDING)
        return 0;
    return allocation->state == MDNN_ALLOCATION_LEAVING && allocation->target < owned
               ? allocation->target
               : owned;
}

static bool is_victim(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const bool sent = allocation->demand == memory->demands; /* a part of it, perhaps, which went */
    return mdnn_allocation_can_leave(allocation) && kept_by(allocation) > 0 &&
           (!sent || kept_by(allocation) <= allocation->keeps);
}

/* `idle`: one that nothing uses any more. */
static mdnn_allocation_t *choose_victim(mdnn_memory_t *memory, bool idle)
{
    mdnn_allocation_t *best = NULL;
    uint64_t best_distance = 0;
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next) {
        if (!is_victim(memory, allocation) ||
            (idle && !mdnn_allocation_uses_over(memory, allocation)))
            continue;
        const uint64_t away = distance(memory, allocation);
        if (!best || away > best_distance) {
            best = allocation;
            best_distance = away;
        }
    }
    return best;
}

/* What it gives comes without anybody's having to end a use. */
static bool ends_by_itself(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    return allocation->cut || mdnn_allocation_uses_over(memory, allocation);
}

/* What it gives will come, and after a stall without anybody's having to end a use. */
static bool will_come(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    return !memory->stalled || ends_by_itself(memory, allocation);
}

/* Chunks that nobody uses or that are about to be free; with `victims`, those that could be, too. */
static uint64_t chunks_in_sight(mdnn_memory_t *memory, bool victims)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    /* Of what was released, something is in use still if a taker was told to wait. */
    const bool kept = !memory->stalled || memory->wanted.position == 0 || victims;
    uint64_t chunks = counts.chunks_spare + (kept ? counts.chunks_free : 0);
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    if (memory->chunk_limit > there)
        chunks += memory->chunk_limit - there;
    for (mdnn_allocation_t *allocation = memory->leaving.first; allocation;
         allocation = allocation->next_move)
        if (victims || will_come(memory, allocation))
            chunks += mdnn_allocation_owned(allocation) - kept_by(allocation);
    for (mdnn_allocation_t *allocation = memory->endings.first; allocation;
         allocation = allocation->next_move)
        if (victims || will_come(memory, allocation))
            chunks += mdnn_allocation_owned(allocation);
    for (const mdnn_allocation_t *allocation = memory->allocations; victims && allocation;
         allocation = allocation->next)
        chunks += is_victim(memory, allocation) ? kept_by(allocation) : 0;
    return chunks;
}

/* How many of its first chunks a victim keeps. Without a plan more will be wanted soon, and what
 * goes beside work meanwhile need not be waited for then. */
static uint64_t may_keep(const mdnn_memory_t *memory, const mdnn_allocation_t *victim,
                         uint64_t missing)
{
    const uint64_t kept = kept_by(victim);
    const bool planned = mdnn_follower_followed_plan(memory->follower) != 0;
    return planned && !mdnn_memory_serves_all(memory) && missing < kept ? kept - missing : 0;
}

/* After a stall the next victims are those that can go now, however soon they are wanted. */
static mdnn_allocation_t *next_victim(mdnn_memory_t *memory)
{
    mdnn_allocation_t *const idle = memory->stalled ? choose_victim(memory, true) : NULL;
    return idle ? idle : choose_victim(memory, false);
}

/* Sends ranges away until `wanted` chunks are in sight; none, if there are not so many. */
static mdnn_status_t send_away(mdnn_memory_t *memory, uint64_t wanted)
{
    uint64_t in_sight = chunks_in_sight(memory, false);
    if (in_sight >= wanted)
        return memory->leaving.first ? mdnn_memory_quieten(memory) : MDNN_STATUS_OK;
    if (chunks_in_sight(memory, true) < wanted)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (mdnn_memory_serves_all(memory) && !memory->quiet) {
        MDNN_TRY(mdnn_memory_quieten(memory));
        return send_away(memory, wanted); /* after a wait */
    }
    mdnn_follower_short(memory->follower, (wanted - in_sight) * memory->chunk_bytes);
    while (in_sight < wanted) {
        mdnn_allocation_t *const victim = next_victim(memory);
        if (!victim) /* after a stall: what is in use still gives the rest */
            return memory->stalled ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
        const uint64_t keep = may_keep(memory, victim, wanted - in_sight);
        in_sight += kept_by(victim) - keep;
        victim->demand = memory->demands;
        victim->keeps = keep;
        memory->report.demand_leaves++;
        mdnn_allocation_leave(memory, victim, keep);
    }
    return MDNN_STATUS_OK;
}

/* What was sent away, and is in use still, stays, and may be sent away again. */
static void keep_what_is_in_use(mdnn_memory_t *memory)
{
    mdnn_allocation_t *next;
    for (mdnn_allocation_t *allocation = memory->leaving.first; allocation; allocation = next) {
        next = allocation->next_move;
        if (allocation->cut || allocation->demand != memory->demands ||
            mdnn_allocation_uses_over(memory, allocation))
            continue;
        allocation->demand = 0;
        mdnn_allocation_return(memory, allocation, mdnn_allocation_owned(allocation));
    }
}

/* After a stall more may have been sent away than it took. */
void mdnn_memory_end_demand(mdnn_memory_t *memory)
{
    if (memory->stalled)
        keep_what_is_in_use(memory);
    memory->demanding = memory->stalled = false;
}

/* OK: go on, with what nothing uses. BUSY: that was not enough, and another demand may be what this
 * one depends on. STUCK: the device does nothing any more. */
static mdnn_status_t stall(mdnn_memory_t *memory, mdnn_patience_t *patience)
{
    const bool first = !memory->stalled;
    if (!mdnn_memory_is_patient(memory, patience))
        return MDNN_STATUS_STUCK;
    memory->stalled = patience->stalled = true;
    if (first)
        keep_what_is_in_use(memory);
    return first || is_alone(memory) ? MDNN_STATUS_OK : MDNN_STATUS_BUSY;
}

/* Nothing is under way, and nothing can leave. What other threads hold can once their calls return,
 * and may be enough then. */
static mdnn_status_t wait_for_others(mdnn_memory_t *memory, mdnn_patience_t *patience,
                                     mdnn_status_t otherwise)
{
    if (!others_hold(memory) || memory->least_chunks > mdnn_memory_chunks_allowed(memory))
        return otherwise;
    MDNN_TRY(mdnn_memory_wait_for_change(memory));
    return stall(memory, patience);
}

/* One round for `wanted` chunks. OK: go on. */
mdnn_status_t mdnn_memory_make_room(mdnn_memory_t *memory, uint64_t wanted,
                                    mdnn_patience_t *patience)
{
    const uint64_t before = memory->steps;
    memory->trouble = MDNN_STATUS_OK;
    mdnn_status_t status = send_away(memory, wanted);
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        return wait_for_others(memory, patience, status);
    MDNN_TRY(status);
    mdnn_memory_progress(memory);
    if (memory->steps != before)
        return MDNN_STATUS_OK;
    status = wait_for_a_move(memory, stretch_s);
    if (status == MDNN_STATUS_BUSY)
        return stall(memory, patience);
    if (status != MDNN_STATUS_NOT_FOUND || memory->closed)
        return status;
    status = memory->trouble != MDNN_STATUS_OK ? memory->trouble : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    return wait_for_others(memory, patience, status);
}

/* Whether a demand could have so many chunks some day: then all that lives beside them must find
 * room on the host. What is refused is refused here, where programs expect it, and not when the
 * memory is named. */
static bool may_have(const mdnn_memory_t *memory, uint64_t wanted)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory);
    const uint64_t stuck = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    const uint64_t room = allowed * memory->chunk_bytes,
                   host = memory->config.follower.host_limit_bytes;
    if (stuck > allowed || wanted > allowed - stuck)
        return false;
    return host > UINT64_MAX - room ||
           memory->live_room_bytes + wanted * memory->chunk_bytes <= room + host;
}

/* Addresses alone. NOT_FOUND: it may never have chunks. */
static mdnn_status_t reserve(mdnn_memory_t *memory, uint64_t bytes, uint64_t wanted,
                             mdnn_acquired_t *allocation)
{
    if (!may_have(memory, wanted))
        return MDNN_STATUS_NOT_FOUND;
    allocation->wait_count = 0;
    return mdnn_ranges_reserve(memory->ranges, bytes, &allocation->address);
}

mdnn_status_t mdnn_memory_reserve(mdnn_memory_t *memory, uint64_t bytes,
                                  mdnn_acquired_t *allocation)
{
    return reserve(memory, bytes, mdnn_ranges_chunks_for(memory->ranges, bytes), allocation);
}

/* Chunks that there are, or could be, beside what is released and in use still; `idle`: those for
 * which nobody has to end a use. */
static uint64_t chunks_elsewhere(mdnn_memory_t *memory, bool idle)
{
    const uint64_t there = mdnn_memory_chunks_there(memory);
    uint64_t chunks = mdnn_ranges_idle_chunks(memory->ranges);
    if (memory->chunk_limit > there)
        chunks += memory->chunk_limit - there;
    for (mdnn_allocation_t *allocation = memory->leaving.first; allocation;
         allocation = allocation->next_move)
        if (!idle || ends_by_itself(memory, allocation))
            chunks += mdnn_allocation_owned(allocation) - kept_by(allocation);
    for (mdnn_allocation_t *allocation = memory->endings.first; allocation;
         allocation = allocation->next_move)
        if (!idle || ends_by_itself(memory, allocation))
            chunks += mdnn_allocation_owned(allocation);
    for (mdnn_allocation_t *allocation = memory->allocations; allocation;
         allocation = allocation->next)
        if (is_victim(memory, allocation) &&
            (!idle || mdnn_allocation_uses_over(memory, allocation)))
            chunks += kept_by(allocation);
    return chunks;
}

bool mdnn_memory_may_be_bare(const mdnn_memory_t *memory, uint64_t bytes)
{
    return memory->config.safety == MDNN_SAFETY_FAST && memory->untracked_open == 0 &&
           bytes >= memory->config.min_bytes && bytes > memory->config.ranges.small_bytes;
}

/* An allocation. */
typedef struct request {
    uint64_t bytes, stream, chunks;
    mdnn_first_use_t first_use;
    bool behind;   /* its stream may be put behind others: there is nothing else */
    unsigned vain; /* stretches in a row in which nothing has changed */
} request_t;

/* Whether it is to have addresses alone: the plan says so, or what is idle can leave for its first
 * use, if what it could have now is still in use then. */
static bool is_to_be_bare(mdnn_memory_t *memory, const request_t *request, mdnn_status_t status)
{
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
        return request->first_use != MDNN_FIRST_USE_UNKNOWN;
    return status == MDNN_STATUS_BUSY && memory->stalled &&
           mdnn_memory_may_be_bare(memory, request->bytes) &&
           chunks_elsewhere(memory, true) >= request->chunks;
}

/* With the turn. */
static mdnn_status_t try_acquire(mdnn_memory_t *memory, const request_t *request,
                                 mdnn_acquired_t *allocation)
{
    mdnn_acquired_t bare;
    mdnn_memory_progress(memory);
    const mdnn_status_t status =
        request->behind
            ? mdnn_ranges_acquire_behind(memory->ranges, request->bytes, request->stream,
                                         allocation)
            : mdnn_ranges_acquire(memory->ranges, request->bytes, request->stream, allocation);
    if (!is_to_be_bare(memory, request, status) ||
        reserve(memory, request->bytes, request->chunks, &bare) != MDNN_STATUS_OK)
        return status;
    *allocation = bare;
    return MDNN_STATUS_OK;
}

/* What is released and in use still would be enough; what is idle serves sooner, if that does not
 * end. */
mdnn_status_t mdnn_memory_wait_for_released(mdnn_memory_t *memory, uint64_t wanted,
                                            mdnn_stream_point_t point, mdnn_patience_t *patience)
{
    mdnn_status_t status;
    memory->wanted = point;
    if (memory->stalled) {
        status = mdnn_memory_make_room(memory, wanted, patience);
        if (status != MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            return status;
    }
    status = wait_and_move(memory, point, stretch_s);
    return status == MDNN_STATUS_BUSY ? stall(memory, patience) : status;
}

/* The same for an allocation. Its stream could be put behind those who work there, but their work
 * may wait for what the program does when this stream has got on. So that is the last resort: if
 * nothing else could ever leave, or nothing that the device does changes that. */
static mdnn_status_t wait_for_users(mdnn_memory_t *memory, request_t *request,
                                    mdnn_stream_point_t point, mdnn_patience_t *patience)
{
    const unsigned most = mdnn_memory_serves_all(memory) ? 1 : 8;
    const uint64_t steps = memory->steps, completions = patience->completions;
    const bool was_behind = request->behind;
    const bool held = others_hold(memory);
    if (!was_behind && !held && chunks_elsewhere(memory, false) < request->chunks) {
        request->behind = true;
        return MDNN_STATUS_OK;
    }
    const mdnn_status_t status =
        mdnn_memory_wait_for_released(memory, request->chunks, point, patience);
    const bool changed =
        held || memory->steps != steps || patience->completions != completions || !memory->stalled;
    request->vain = changed ? 0 : request->vain + 1;
    request->behind = was_behind || request->vain > most;
    return request->behind && !was_behind && status == MDNN_STATUS_BUSY ? MDNN_STATUS_OK : status;
}

static mdnn_status_t acquire_in_turn(mdnn_memory_t *memory, request_t *request,
                                     mdnn_acquired_t *allocation, mdnn_patience_t *patience)
{
    mdnn_status_t status;
    mdnn_memory_begin_demand(
        memory, patience, request->chunks + mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes);
    do {
        status = try_acquire(memory, request, allocation);
        if (status == MDNN_STATUS_OK)
            break;
        if (status == MDNN_STATUS_BUSY) /* without waits: over meanwhile */
            status = allocation->wait_count > 0
                         ? wait_for_users(memory, request, allocation->waits[0], patience)
                         : MDNN_STATUS_OK;
        else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            status = mdnn_memory_make_room(memory, request->chunks, patience);
    } while (status == MDNN_STATUS_OK);
    mdnn_memory_end_demand(memory);
    return status;
}

mdnn_status_t mdnn_memory_acquire(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                  mdnn_first_use_t first_use, mdnn_turn_t *turn,
                                  mdnn_acquired_t *allocation)
{
    request_t request = {.bytes = bytes,
                         .stream = stream,
                         .chunks = mdnn_ranges_chunks_for(memory->ranges, bytes),
                         .first_use = first_use};
    mdnn_patience_t patience = mdnn_memory_patience(memory);
    mdnn_status_t status;
    MDNN_TRY(mdnn_memory_take_turn(memory, turn));
    if (first_use == MDNN_FIRST_USE_LATER &&
        mdnn_memory_reserve(memory, bytes, allocation) == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    for (;;) {
        status = acquire_in_turn(memory, &request, allocation, &patience);
        if (status == MDNN_STATUS_OK)
            return MDNN_STATUS_OK;
        mdnn_memory_end_quiet(memory);
        if (status != MDNN_STATUS_BUSY || mdnn_memory_serves_all(memory))
            break;
        MDNN_TRY(mdnn_memory_pass_turn(memory, turn));
    }
    mdnn_memory_end_turn(memory, turn);
    return status;
}

/* Has them all on their way. *lacking: chunks that they do not have. false: all are RESIDENT. */
static bool bring(mdnn_memory_t *memory, mdnn_allocation_t *const *allocations, size_t count,
                  uint64_t *lacking)
{
    bool any = false;
    *lacking = 0;
    for (size_t i = 0; i < count; i++) {
        mdnn_allocation_t *const allocation = allocations[i];
        if (!allocation || allocation->state == MDNN_ALLOCATION_RESIDENT)
            continue;
        mdnn_allocation_return(memory, allocation, allocation->count);
        any = any || allocation->state != MDNN_ALLOCATION_RESIDENT;
        *lacking += allocation->count - mdnn_allocation_owned(allocation);
    }
    return any;
}

/* Something must move for them. */
static bool is_lacking(mdnn_allocation_t *const *allocations, size_t count)
{
    size_t i = 0;
    while (i < count && (!allocations[i] || allocations[i]->state == MDNN_ALLOCATION_RESIDENT))
        i++;
    return i < count;
}

static void count_returns(mdnn_memory_t *memory, mdnn_allocation_t *const *allocations,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const mdnn_allocation_t *const allocation = allocations[i];
        if (!allocation || mdnn_allocation_owned(allocation) == allocation->count)
            continue;
        if (allocation->blank && allocation->filled == 0)
            continue; /* it has never been anywhere else */
        if (allocation->state == MDNN_ALLOCATION_AWAY ||
            (allocation->state == MDNN_ALLOCATION_RETURNING &&
             allocation->target < allocation->count))
            memory->report.demand_returns++;
        else if (allocation->state ==
                 MDNN_ALLOCATION_RETURNING) /* there was no memory for it yet */
            memory->report.planned_returns++;
    }
}

/* So many chunks it needs though all else has left. */
static uint64_t least_chunks(const mdnn_memory_t *memory, mdnn_allocation_t *const *allocations,
                             size_t count)
{
    uint64_t chunks = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    for (size_t i = 0; i < count; i++)
        if (allocations[i] && allocations[i]->range && !allocations[i]->stays &&
            allocations[i]->pins == 0)
            chunks += allocations[i]->count;
    return chunks;
}

mdnn_status_t mdnn_memory_demand(mdnn_memory_t *memory, mdnn_allocation_t *const *allocations,
                                 size_t count, mdnn_patience_t *patience)
{
    uint64_t lacking;
    mdnn_status_t status = MDNN_STATUS_OK;
    if (is_lacking(allocations, count))
        MDNN_TRY(mdnn_memory_quieten(memory));
    mdnn_memory_begin_demand(memory, patience, least_chunks(memory, allocations, count));
    count_returns(memory, allocations, count);
    while (status == MDNN_STATUS_OK && bring(memory, allocations, count, &lacking))
        status = mdnn_memory_make_room(memory, lacking, patience);
    mdnn_memory_end_demand(memory);
    for (size_t i = 0; i < count && status != MDNN_STATUS_OK; i++)
        if (allocations[i] && allocations[i]->state == MDNN_ALLOCATION_RETURNING &&
            mdnn_allocation_owned(allocations[i]) < allocations[i]->count)
            mdnn_allocation_give_up(memory, allocations[i]);
    mdnn_memory_end_quiet(memory);
    return status;
}
