#include "offload/memory/memory_check.h"

#ifdef MDNN_DEBUG

#include "config/rule.h"
#include "offload/memory/memory_internal.h"

/* What a walk over all allocations has met. */
typedef struct sums {
    uint64_t live_bytes, live_room_bytes, question_bytes, loose_bytes, stuck_bytes, host_bytes,
        movable;
    uint64_t states[MDNN_ALLOCATION_ENDING + 1], in_flight[2];
    uint64_t remaps, looks;
} sums_t;

/* ---- one allocation ---- */

static bool content_holds(const mdnn_allocation_t *allocation, const char **broken)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    MDNN_RULE(allocation->count == chunks.count);
    MDNN_RULE(chunks.mapped <= allocation->filled && allocation->filled <= chunks.owned);
    MDNN_RULE(chunks.owned <= allocation->count);
    MDNN_RULE(allocation->clean <= allocation->filled);
    MDNN_RULE(allocation->in_sent == allocation->filled + allocation->in_flight[false]);
    MDNN_RULE(allocation->in_sent <= chunks.owned);
    MDNN_RULE(allocation->out_sent <= allocation->clean);
    MDNN_RULE(allocation->clean - allocation->out_sent <= allocation->in_flight[true]);
    MDNN_RULE(allocation->slots_from <= allocation->count);
    MDNN_RULE(allocation->slots_from == allocation->count || allocation->slots);
    if (!allocation->blank)
        MDNN_RULE(allocation->slots_from <= allocation->clean);
    else if (allocation->state != MDNN_ALLOCATION_LEAVING &&
             allocation->state != MDNN_ALLOCATION_ENDING && !allocation->covers)
        MDNN_RULE(allocation->slots_from == allocation->count);
    return true;
}

static bool may_be_covered(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const mdnn_allocation_state_t state = allocation->state;
    return memory->config.safety == MDNN_SAFETY_HOST || state == MDNN_ALLOCATION_SPLIT ||
           state == MDNN_ALLOCATION_LEAVING || state == MDNN_ALLOCATION_RETURNING ||
           state == MDNN_ALLOCATION_ENDING;
}

static bool covers_hold(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                        const char **broken)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    MDNN_RULE(allocation->covered_from <= allocation->count);
    MDNN_RULE(allocation->covered_from == allocation->count || may_be_covered(memory, allocation));
    MDNN_RULE(chunks.mapped <= allocation->covered_from);
    MDNN_RULE(allocation->covered_from == allocation->count ||
              allocation->slots_from <= allocation->covered_from);
    return true;
}

static bool is_split(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    return mdnn_memory_has_tails(memory) && chunks.owned < chunks.count &&
           chunks.mapped == chunks.owned && allocation->filled == chunks.owned &&
           allocation->clean == chunks.owned && allocation->slots_from == chunks.owned &&
           allocation->covered_from == chunks.owned && !allocation->blank &&
           allocation->in_flight[false] + allocation->in_flight[true] == 0;
}

static bool is_whole(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    return chunks.owned == chunks.count && allocation->filled == chunks.count &&
           allocation->clean == chunks.count && !allocation->blank &&
           (chunks.mapped == chunks.count || memory->config.safety == MDNN_SAFETY_VERIFY);
}

static bool state_holds(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                        const char **broken)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    const mdnn_allocation_state_t state = allocation->state;
    if (state == MDNN_ALLOCATION_RESIDENT)
        MDNN_RULE(is_whole(memory, allocation));
    if (state == MDNN_ALLOCATION_SPLIT)
        MDNN_RULE(is_split(memory, allocation));
    MDNN_RULE(!allocation->covers || state == MDNN_ALLOCATION_RETURNING);
    if (state == MDNN_ALLOCATION_AWAY)
        MDNN_RULE(allocation->filled == chunks.owned && allocation->in_flight[false] == 0 &&
                  chunks.owned < chunks.count);
    if (state == MDNN_ALLOCATION_LEAVING)
        MDNN_RULE(allocation->target < allocation->count);
    if (state == MDNN_ALLOCATION_RETURNING)
        MDNN_RULE(allocation->target <= allocation->count);
    MDNN_RULE(!allocation->cut ||
              (state == MDNN_ALLOCATION_LEAVING && chunks.mapped <= allocation->out_sent));
    return true;
}

static bool remap_holds(const mdnn_allocation_t *allocation, const char **broken)
{
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    const mdnn_allocation_state_t state = allocation->state;
    if (allocation->remap == 0)
        return true;
    MDNN_RULE(state == MDNN_ALLOCATION_LEAVING || state == MDNN_ALLOCATION_RETURNING);
    if (state == MDNN_ALLOCATION_LEAVING)
        MDNN_RULE(allocation->remap_upto < chunks.mapped);
    else
        MDNN_RULE(chunks.mapped < allocation->remap_upto &&
                  allocation->remap_upto <= allocation->clean);
    return true;
}

static bool uses_hold(const mdnn_allocation_t *allocation, const char **broken)
{
    MDNN_RULE(allocation->use_count <= allocation->use_room);
    MDNN_RULE((allocation->uses == allocation->first_uses) ==
              (allocation->use_room == MDNN_INLINE_USES));
    for (uint32_t i = 0; i < allocation->use_count; i++)
        for (uint32_t other = 0; other < i; other++)
            MDNN_RULE(allocation->uses[i].stream != allocation->uses[other].stream);
    return true;
}

static bool life_holds(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                       const char **broken)
{
    const mdnn_allocation_state_t state = allocation->state;
    const bool is_ending = state == MDNN_ALLOCATION_ENDING;
    const uint32_t keepers = allocation->held + allocation->pins + allocation->idlers;
    MDNN_RULE(mdnn_ranges_owner(memory->ranges, allocation->address) == allocation);
    MDNN_RULE(mdnn_ranges_at(memory->ranges, allocation->address) == allocation->range);
    MDNN_RULE(allocation->bytes > 0 && allocation->bytes <= allocation->room);
    MDNN_RULE(!allocation->range || allocation->room == allocation->count * memory->chunk_bytes);
    MDNN_RULE(allocation->range || (allocation->stays && allocation->count == 0));
    MDNN_RULE(!allocation->stays || state == MDNN_ALLOCATION_RESIDENT || is_ending);
    MDNN_RULE(allocation->pins == 0 || state == MDNN_ALLOCATION_RESIDENT);
    MDNN_RULE(allocation->live_pins <= allocation->pins);
    MDNN_RULE(allocation->born <= memory->began && allocation->born <= allocation->gone);
    MDNN_RULE(allocation->freed || allocation->gone == UINT64_MAX);
    MDNN_RULE(!allocation->freed || allocation->follower_range == MDNN_NO_POSITION);
    MDNN_RULE(!allocation->freed || allocation->live_pins == 0);
    MDNN_RULE(!allocation->freed || keepers > 0 || is_ending);
    MDNN_RULE(allocation->freed || !is_ending);
    return true;
}

static bool allocation_holds(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                             const char **broken)
{
    return life_holds(memory, allocation, broken) && uses_hold(allocation, broken) &&
           (!allocation->range ||
            (content_holds(allocation, broken) && covers_hold(memory, allocation, broken) &&
             state_holds(memory, allocation, broken) && remap_holds(allocation, broken)));
}

/* ---- all of them ---- */

static void add(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation, sums_t *sums)
{
    const bool is_stuck =
        allocation->stays ? allocation->state != MDNN_ALLOCATION_ENDING : allocation->pins > 0;
    sums->looks += 8 + allocation->use_count;
    sums->states[allocation->state]++;
    sums->in_flight[0] += allocation->in_flight[0];
    sums->in_flight[1] += allocation->in_flight[1];
    sums->remaps += allocation->remap != 0;
    if (allocation->range)
        sums->host_bytes += (allocation->count - allocation->slots_from) * memory->chunk_bytes;
    if (allocation->range && is_stuck)
        sums->stuck_bytes += allocation->room;
    if (allocation->freed)
        return;
    sums->live_bytes += allocation->bytes;
    sums->live_room_bytes += allocation->room;
    sums->question_bytes += allocation->is_question ? allocation->bytes : 0;
    sums->loose_bytes += mdnn_allocation_loose_bytes(memory, allocation);
    if (allocation->range && !is_stuck && sums->movable < allocation->room)
        sums->movable = allocation->room;
}

static bool all_hold(const mdnn_memory_t *memory, sums_t *sums, const char **broken)
{
    const mdnn_allocation_t *before = NULL;
    for (const mdnn_allocation_t *allocation = memory->allocations; allocation;
         before = allocation, allocation = allocation->next) {
        MDNN_RULE(allocation->previous == before);
        MDNN_RULE(!before || before->number > allocation->number);
        if (!allocation_holds(memory, allocation, broken))
            return false;
        add(memory, allocation, sums);
    }
    return true;
}

static bool list_holds(const mdnn_allocation_list_t *list, mdnn_allocation_state_t state,
                       uint64_t count, const char **broken)
{
    const mdnn_allocation_t *before = NULL;
    uint64_t listed = 0;
    for (const mdnn_allocation_t *allocation = list->first; allocation;
         before = allocation, allocation = allocation->next_move) {
        MDNN_RULE(allocation->state == state && allocation->before_move == before);
        listed++;
    }
    MDNN_RULE(list->last == before);
    MDNN_RULE(listed == count);
    return true;
}

static bool flights_hold(const mdnn_memory_t *memory, const sums_t *sums, bool out,
                         const char **broken)
{
    const mdnn_flights_t *const flights = &memory->flights[out];
    MDNN_RULE(flights->count <= MDNN_FLIGHTS);
    MDNN_RULE(flights->count == sums->in_flight[out]);
    for (size_t i = 0; i < flights->count; i++) {
        const mdnn_flight_t *const flight = &flights->ring[(flights->first + i) % MDNN_FLIGHTS];
        MDNN_RULE(flight->allocation->in_flight[out] > 0);
        MDNN_RULE(flight->discarded <= flight->allocation->discarded);
    }
    return true;
}

static bool sums_hold(const mdnn_memory_t *memory, const sums_t *sums, const char **broken)
{
    const mdnn_ranges_counts_t counts = mdnn_ranges_counts(memory->ranges);
    const uint64_t there = mdnn_ranges_chunks_there(&counts);
    MDNN_RULE(memory->report.live_bytes == sums->live_bytes + memory->promised_bytes);
    MDNN_RULE(memory->live_room_bytes == sums->live_room_bytes + memory->promised_room_bytes);
    MDNN_RULE(memory->loose_bytes == sums->loose_bytes);
    MDNN_RULE(memory->stuck_bytes == sums->stuck_bytes);
    MDNN_RULE(memory->report.host_bytes == sums->host_bytes);
    MDNN_RULE(memory->movable_range_bytes >= sums->movable || mdnn_memory_has_tails(memory));
    MDNN_RULE(memory->question_bytes == sums->question_bytes);
    MDNN_RULE(memory->report.live_bytes - memory->question_bytes <= memory->report.peak_live_bytes);
    MDNN_RULE(memory->remaps == sums->remaps);
    MDNN_RULE(memory->report.created == counts.created &&
              memory->report.destroyed == counts.destroyed);
    MDNN_RULE(there * memory->chunk_bytes <= memory->peak_resident_bytes);
    return true;
}

static bool ahead_holds(const mdnn_memory_t *memory, const char **broken)
{
    for (int i = 0; i < MDNN_AHEAD; i++) {
        const mdnn_ahead_t *const ahead = &memory->ahead[i];
        if (!ahead->range)
            continue;
        const mdnn_range_chunks_t chunks = mdnn_range_chunks(ahead->range);
        if (ahead->map)
            MDNN_RULE(chunks.mapped == ahead->done && chunks.owned == chunks.count);
        else
            MDNN_RULE(chunks.mapped + ahead->done == chunks.count && chunks.owned == chunks.mapped);
        for (int other = 0; other < i; other++)
            MDNN_RULE(memory->ahead[other].range != ahead->range);
        MDNN_RULE(!mdnn_range_has_owner(ahead->range));
    }
    return true;
}

static bool late_returns_hold(const mdnn_memory_t *memory, const char **broken)
{
    uint64_t returns = 0;
    for (int why = 0; why < MDNN_LATE_RETURN_COUNT; why++)
        returns += memory->report.late_returns[why];
    MDNN_RULE(returns == memory->report.demand_returns);
    return true;
}

static bool order_holds(const mdnn_memory_t *memory, const char **broken)
{
    const mdnn_turn_t *last = NULL;
    for (const mdnn_turn_t *turn = memory->first_turn; turn; turn = turn->next)
        last = turn;
    MDNN_RULE(memory->last_turn == last);
    MDNN_RULE(memory->demanding || !memory->stalled);
    MDNN_RULE(memory->open <= memory->all.held);
    MDNN_RULE(!memory->quiet || memory->config.safety == MDNN_SAFETY_HOST);
    MDNN_RULE(memory->timing_count + memory->timings_open <= MDNN_TIMINGS);
    MDNN_RULE(memory->untracked_count <= memory->untracked_room);
    MDNN_RULE(memory->stream_count <= memory->stream_room);
    return true;
}

bool mdnn_memory_is_valid(const mdnn_memory_t *memory, const char **broken, uint64_t *looks)
{
    sums_t sums = {0};
    const bool holds = all_hold(memory, &sums, broken) && uses_hold(&memory->all, broken) &&
                       list_holds(&memory->leaving, MDNN_ALLOCATION_LEAVING,
                                  sums.states[MDNN_ALLOCATION_LEAVING], broken) &&
                       list_holds(&memory->returning, MDNN_ALLOCATION_RETURNING,
                                  sums.states[MDNN_ALLOCATION_RETURNING], broken) &&
                       list_holds(&memory->endings, MDNN_ALLOCATION_ENDING,
                                  sums.states[MDNN_ALLOCATION_ENDING], broken) &&
                       flights_hold(memory, &sums, false, broken) &&
                       flights_hold(memory, &sums, true, broken) &&
                       sums_hold(memory, &sums, broken) && ahead_holds(memory, broken) &&
                       late_returns_hold(memory, broken) && order_holds(memory, broken);
    *looks += sums.looks;
    return holds;
}

void mdnn_memory_check(const mdnn_memory_t *memory)
{
    static mdnn_rule_pace_t pace;
    const char *broken = NULL;
    uint64_t looks = 0;
    if (!mdnn_rule_is_due(&pace))
        return;
    if (!mdnn_memory_is_valid(memory, &broken, &looks))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
    mdnn_rule_took(&pace, looks);
}

#else

/* ISO C wants something in each file. */
typedef int mdnn_no_memory_check_t;

#endif
