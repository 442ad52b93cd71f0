/* The demand path: chunks for an allocation or for ranges that an operation names, now.
 *
 * Why every demand ends (I4). A demand goes round: take every move a step further; if that changed
 * nothing, wait for one thing that is under way; if nothing is, fail. What it waits for is a ticket
 * of work that is enqueued already, or a host slot that is being made, and neither depends on what
 * the waiting thread would do next. What leaves for a demand does not return before its end, unless
 * it cannot leave, and then it is not sent again (area->demand); planned returns get no chunks
 * meanwhile (memory->demanding), and nothing else begins to move. So the number of copies,
 * unmappings and mappings that can still happen is finite and falls with every change, and a round
 * without a change ends one of finitely many tickets. A device call that fails is no change, so a
 * device that fails for good ends the demand with its status.
 *
 * There is one demand at a time, and only what it wants holds chunks while it waits for more: what
 * a planned return has taken can be taken back, and so can what a demand had taken that failed. So
 * no two demands and returns can block each other. */
#include "offload/memory_internal.h"

#include <math.h>

/* BUSY after `seconds`; INFINITY: as long as it takes. */
static mdnn_status_t wait_counted(mdnn_memory_t *memory, mdnn_ticket_t ticket, double seconds)
{
    if (ticket.moment == 0 || memory->device.is_done(memory->context, ticket))
        return MDNN_STATUS_OK;
    const double begin_us = memory->device.now_us(memory->context);
    const mdnn_status_t status = seconds < INFINITY
                                     ? memory->device.wait_a_while(memory->context, ticket, seconds)
                                     : memory->device.wait_on_host(memory->context, ticket);
    if (status != MDNN_STATUS_OK && status != MDNN_STATUS_BUSY)
        return status;
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_STALL,
                                       .stream = ticket.stream,
                                       .time_us =
                                           memory->device.now_us(memory->context) - begin_us};
    memory->report.host_waits++;
    memory->report.host_wait_us += event.time_us;
    mdnn_memory_tell(memory, &event);
    return status;
}

mdnn_status_t mdnn_memory_wait(mdnn_memory_t *memory, mdnn_ticket_t ticket)
{
    return wait_counted(memory, ticket, INFINITY);
}

mdnn_status_t mdnn_memory_wait_a_while(mdnn_memory_t *memory, mdnn_ticket_t ticket, double seconds)
{
    return wait_counted(memory, ticket, seconds);
}

static mdnn_status_t wait_for_slot(mdnn_memory_t *memory)
{
    const double begin_us = memory->device.now_us(memory->context);
    MDNN_TRY(memory->device.wait_for_slot(memory->context));
    const mdnn_memory_event_t event = {
        .kind = MDNN_MEMORY_STALL, .time_us = memory->device.now_us(memory->context) - begin_us};
    memory->report.host_waits++;
    memory->report.host_wait_us += event.time_us;
    mdnn_memory_tell(memory, &event);
    return MDNN_STATUS_OK;
}

/* The first use of a list's ranges that nobody has seen over; NULL: there is none. */
static mdnn_ticket_t *find_use(const mdnn_area_list_t *list)
{
    for (mdnn_area_t *area = list->first; area; area = area->next_move)
        for (uint32_t i = 0; i < area->use_count; i++)
            if (area->uses[i].moment != 0)
                return &area->uses[i];
    return NULL;
}

/* Each use is waited for once, even where that helps nothing (a release that lacks memory). */
static mdnn_status_t wait_for_use(mdnn_memory_t *memory, mdnn_ticket_t *use, double seconds)
{
    MDNN_TRY(wait_counted(memory, *use, seconds));
    use->moment = 0;
    return MDNN_STATUS_OK;
}

static const mdnn_ticket_t *next_landing(const mdnn_memory_t *memory)
{
    for (int out = 1; out >= 0; out--)
        if (memory->flights[out].count > 0)
            return &memory->flights[out].ring[memory->flights[out].first].end;
    return NULL;
}

/* What ends before the ticket does, as far as is known, and lets something move then. It is not
 * over yet, or will be taken note of: each wait is for something else. */
static mdnn_ticket_t next_before(const mdnn_memory_t *memory, mdnn_ticket_t ticket)
{
    const mdnn_ticket_t *const landing = next_landing(memory);
    if (landing)
        return *landing;
    for (const mdnn_area_t *area = memory->leaving.first; area; area = area->next_move)
        for (uint32_t i = 0; i < area->use_count; i++)
            if (area->uses[i].moment != 0 && area->uses[i].stream == ticket.stream &&
                area->uses[i].moment < ticket.moment &&
                !memory->device.is_done(memory->context, area->uses[i]))
                ticket.moment = area->uses[i].moment;
    return ticket;
}

/* Moves go on meanwhile: they are not to stand still for as long as an operation takes. */
static mdnn_status_t wait_and_move(mdnn_memory_t *memory, mdnn_ticket_t ticket, double seconds)
{
    while (ticket.moment != 0 && !memory->device.is_done(memory->context, ticket)) {
        MDNN_TRY(wait_counted(memory, next_before(memory, ticket), seconds));
        mdnn_memory_progress(memory);
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_memory_wait_and_move(mdnn_memory_t *memory, mdnn_ticket_t ticket)
{
    return wait_and_move(memory, ticket, INFINITY);
}

/* The device is a few rounds behind the host at most. What takes longer may wait for what this
 * thread does next, or for another process. */
static double patience(const mdnn_memory_t *memory)
{
    static const double least_s = 1, most_s = 10, rounds = 3;
    const double seconds = least_s + rounds * mdnn_pilot_report(memory->pilot).predicted_us / 1e6;
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

void mdnn_memory_slow_down(mdnn_memory_t *memory, mdnn_ticket_t end)
{
    while (memory->wanted.moment != 0 && memory->wanted.stream == end.stream &&
           memory->wanted.moment < end.moment && !is_hasty(memory)) {
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
    const mdnn_ticket_t *const landing = next_landing(memory);
    mdnn_ticket_t *use = find_use(&memory->leaving);
    if (!use)
        use = find_use(&memory->endings);
    if (!use && (memory->leaving.first || memory->endings.first))
        use = mdnn_memory_unseen_use(memory);
    /* Copies end soon, and more can follow then. */
    if (landing)
        return wait_counted(memory, *landing, seconds);
    if (memory->wanted.moment != 0)
        return wait_and_move(memory, memory->wanted, seconds);
    if (use)
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

void mdnn_memory_begin_demand(mdnn_memory_t *memory)
{
    memory->demanding = true;
    memory->demands++;
    memory->chunk_limit = mdnn_memory_chunks_allowed(memory);
}

/* How well it would be if the range left: operations until it is used again, as far as is known;
 * else it is taken to be unused for as long again as it has been. */
static uint64_t distance(const mdnn_memory_t *memory, const mdnn_area_t *area)
{
    const uint32_t known = mdnn_pilot_distance(memory->pilot, area->pilot_range);
    return known > 0 ? known : memory->report.operations - area->last_use;
}

/* Chunks that it has and that nothing has sent away. */
static uint64_t kept_by(const mdnn_area_t *area)
{
    const uint64_t owned = mdnn_area_owned(area);
    if (area->state == MDNN_AREA_ENDING)
        return 0;
    return area->state == MDNN_AREA_LEAVING && area->target < owned ? area->target : owned;
}

static bool is_victim(const mdnn_memory_t *memory, const mdnn_area_t *area)
{
    const bool sent = area->demand == memory->demands; /* a part of it, perhaps, which went */
    return mdnn_area_can_leave(area) && kept_by(area) > 0 &&
           (!sent || kept_by(area) <= area->keeps);
}

static mdnn_area_t *choose_victim(const mdnn_memory_t *memory)
{
    mdnn_area_t *best = NULL;
    uint64_t best_distance = 0;
    for (mdnn_area_t *area = memory->areas; area; area = area->next) {
        if (!is_victim(memory, area))
            continue;
        const uint64_t away = distance(memory, area);
        if (!best || away > best_distance) {
            best = area;
            best_distance = away;
        }
    }
    return best;
}

/* Chunks that nobody uses or that are about to be free; with `victims`, those that could be, too.
 */
static uint64_t chunks_in_sight(const mdnn_memory_t *memory, bool victims)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    uint64_t chunks = counts.chunks_spare + counts.chunks_kept;
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    if (memory->chunk_limit > there)
        chunks += memory->chunk_limit - there;
    for (const mdnn_area_t *area = memory->leaving.first; area; area = area->next_move)
        chunks += mdnn_area_owned(area) - kept_by(area);
    for (const mdnn_area_t *area = memory->endings.first; area; area = area->next_move)
        chunks += mdnn_area_owned(area);
    for (const mdnn_area_t *area = memory->areas; victims && area; area = area->next)
        chunks += is_victim(memory, area) ? kept_by(area) : 0;
    return chunks;
}

/* How many of its first chunks a victim keeps. Without a plan more will be wanted soon, and what
 * goes beside work meanwhile need not be waited for then. */
static uint64_t may_keep(const mdnn_memory_t *memory, const mdnn_area_t *victim, uint64_t missing)
{
    const uint64_t kept = kept_by(victim);
    const bool planned = mdnn_pilot_followed_plan(memory->pilot) != 0;
    return planned && !mdnn_memory_serves_all(memory) && missing < kept ? kept - missing : 0;
}

/* Sends ranges away until `wanted` chunks are in sight; none, if there are not so many. */
static mdnn_status_t send_away(mdnn_memory_t *memory, uint64_t wanted)
{
    uint64_t in_sight = chunks_in_sight(memory, false);
    if (in_sight >= wanted)
        return memory->leaving.first ? mdnn_memory_quieten(memory) : MDNN_STATUS_OK;
    if (chunks_in_sight(memory, true) < wanted)
        return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    MDNN_TRY(mdnn_memory_quieten(memory));
    mdnn_pilot_short(memory->pilot, (wanted - in_sight) * memory->chunk_bytes);
    while (in_sight < wanted) {
        mdnn_area_t *const victim = choose_victim(memory);
        if (!victim)
            return MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
        const uint64_t keep = may_keep(memory, victim, wanted - in_sight);
        in_sight += kept_by(victim) - keep;
        victim->demand = memory->demands;
        victim->keeps = keep;
        memory->report.demand_leaves++;
        mdnn_area_leave(memory, victim, keep);
    }
    return MDNN_STATUS_OK;
}

/* One round for `wanted` chunks. OK: go on. */
mdnn_status_t mdnn_memory_make_room(mdnn_memory_t *memory, uint64_t wanted)
{
    const uint64_t before = memory->steps;
    memory->trouble = MDNN_STATUS_OK;
    MDNN_TRY(send_away(memory, wanted));
    mdnn_memory_progress(memory);
    if (memory->steps != before)
        return MDNN_STATUS_OK;
    const mdnn_status_t status = wait_for_a_move(memory, INFINITY);
    if (status != MDNN_STATUS_NOT_FOUND)
        return status;
    return memory->trouble != MDNN_STATUS_OK ? memory->trouble : MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
}

/* Whether a demand could have so many chunks some day: then all that lives beside them must find
 * room on the host. What is refused is refused here, where programs expect it, and not when the
 * memory is named. */
static bool may_have(const mdnn_memory_t *memory, uint64_t wanted)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory);
    const uint64_t stuck = mdnn_memory_stuck_bytes(memory) / memory->chunk_bytes;
    const uint64_t room = allowed * memory->chunk_bytes,
                   host = memory->config.pilot.host_limit_bytes;
    if (stuck > allowed || wanted > allowed - stuck)
        return false;
    return host > UINT64_MAX - room ||
           memory->live_room_bytes + wanted * memory->chunk_bytes <= room + host;
}

/* Addresses alone. NOT_FOUND: it may never have chunks. */
static mdnn_status_t reserve(mdnn_memory_t *memory, uint64_t bytes, uint64_t wanted,
                             mdnn_allocation_t *allocation)
{
    if (!may_have(memory, wanted))
        return MDNN_STATUS_NOT_FOUND;
    allocation->wait_count = 0;
    return mdnn_ranges_reserve(memory->ranges, bytes, &allocation->address);
}

mdnn_status_t mdnn_memory_acquire(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                  mdnn_first_use_t first_use, mdnn_allocation_t *allocation)
{
    const uint64_t wanted = mdnn_ranges_chunks_for(memory->ranges, bytes);
    mdnn_status_t status;
    if (first_use == MDNN_FIRST_USE_LATER &&
        reserve(memory, bytes, wanted, allocation) == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    mdnn_memory_begin_demand(memory);
    do {
        mdnn_memory_progress(memory);
        status = mdnn_ranges_acquire(memory->ranges, bytes, stream, allocation);
        if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && first_use != MDNN_FIRST_USE_UNKNOWN &&
            reserve(memory, bytes, wanted, allocation) == MDNN_STATUS_OK)
            status = MDNN_STATUS_OK;
        if (status == MDNN_STATUS_OK)
            break;
        if (status == MDNN_STATUS_BUSY) /* without waits: over meanwhile */
            status = allocation->wait_count > 0
                         ? wait_and_move(memory, allocation->waits[0], INFINITY)
                         : MDNN_STATUS_OK;
        else if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY)
            status = mdnn_memory_make_room(memory, wanted);
    } while (status == MDNN_STATUS_OK);
    memory->demanding = false;
    mdnn_memory_end_quiet(memory);
    return status;
}

/* Has them all on their way. *lacking: chunks that they do not have. false: all are RESIDENT. */
static bool bring(mdnn_memory_t *memory, mdnn_area_t *const *areas, size_t count, uint64_t *lacking)
{
    bool any = false;
    *lacking = 0;
    for (size_t i = 0; i < count; i++) {
        mdnn_area_t *const area = areas[i];
        if (!area || area->state == MDNN_AREA_RESIDENT)
            continue;
        mdnn_area_return(memory, area, area->count);
        any = any || area->state != MDNN_AREA_RESIDENT;
        *lacking += area->count - mdnn_area_owned(area);
    }
    return any;
}

/* Something must move for them. */
static bool is_lacking(mdnn_area_t *const *areas, size_t count)
{
    size_t i = 0;
    while (i < count && (!areas[i] || areas[i]->state == MDNN_AREA_RESIDENT))
        i++;
    return i < count;
}

mdnn_status_t mdnn_memory_demand(mdnn_memory_t *memory, mdnn_area_t *const *areas, size_t count)
{
    uint64_t lacking;
    mdnn_status_t status = MDNN_STATUS_OK;
    if (is_lacking(areas, count))
        MDNN_TRY(mdnn_memory_quieten(memory));
    mdnn_memory_begin_demand(memory);
    for (size_t i = 0; i < count; i++) {
        const mdnn_area_t *const area = areas[i];
        if (!area || mdnn_area_owned(area) == area->count)
            continue;
        if (area->blank && area->filled == 0)
            continue; /* it has never been anywhere else */
        if (area->state == MDNN_AREA_AWAY ||
            (area->state == MDNN_AREA_RETURNING && area->target < area->count))
            memory->report.demand_returns++;
        else if (area->state == MDNN_AREA_RETURNING) /* there was no memory for it yet */
            memory->report.planned_returns++;
    }
    while (status == MDNN_STATUS_OK && bring(memory, areas, count, &lacking))
        status = mdnn_memory_make_room(memory, lacking);
    memory->demanding = false;
    for (size_t i = 0; i < count && status != MDNN_STATUS_OK; i++)
        if (areas[i] && areas[i]->state == MDNN_AREA_RETURNING &&
            mdnn_area_owned(areas[i]) < areas[i]->count)
            mdnn_area_give_up(memory, areas[i]);
    mdnn_memory_end_quiet(memory);
    return status;
}
