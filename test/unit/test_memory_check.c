/* What must hold of allocations: each rule is broken by hand, and the check names it. */
#include "test/unit/broken_rule.h"

#include "memory_model.h"

#include "offload/memory/memory_check.c"

/* One in each state; LEAVING, RETURNING and ENDING with copies under way. */
enum { RESIDENT, PINNED, STAYS, BLOCK, AWAY, LEAVING, RETURNING, ENDING, KINDS };
static const uint64_t bytes_of[KINDS] = {
    [RESIDENT] = 2 * MODEL_CHUNK,
    [PINNED] = 2 * MODEL_CHUNK,
    [STAYS] = 2000,
    [BLOCK] = 512,
    [AWAY] = 2 * MODEL_CHUNK,
    [LEAVING] = 3 * MODEL_CHUNK,
    [RETURNING] = 2 * MODEL_CHUNK,
    [ENDING] = 2 * MODEL_CHUNK,
};
static uint64_t at[KINDS];
static model_t model;

static mdnn_allocation_t *find(const mdnn_memory_t *memory, int i)
{
    return mdnn_ranges_owner(memory->ranges, at[i]);
}

static mdnn_range_t *range_of(const mdnn_memory_t *memory, int i)
{
    return find(memory, i)->range;
}

static mdnn_memory_t *new_memory(void)
{
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, 1024, 0},
        .budget_bytes = 16 * MODEL_CHUNK,
        .min_bytes = MODEL_CHUNK,
        .follower.host_limit_bytes = MODEL_SLOTS * MODEL_CHUNK,
    };
    mdnn_memory_t *memory;
    memset(&model, 0, sizeof model);
    model.budget = 16;
    model.budget_bytes = config.budget_bytes;
    model.slot_limit = MODEL_SLOTS;
    assert_int_equal(mdnn_memory_create(&config, &model_device, &model, &memory), MDNN_STATUS_OK);
    for (int i = 0; i < KINDS; i++)
        assert_int_equal(mdnn_memory_allocate(memory, bytes_of[i], 0, &at[i]), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_pin(memory, at[PINNED], &(uint64_t){0}), MDNN_STATUS_OK);
    mdnn_allocation_leave(memory, find(memory, AWAY), 0);
    mdnn_allocation_leave(memory, find(memory, RETURNING), 0);
    do
        run_all(&model);
    while (mdnn_memory_progress(memory));
    mdnn_allocation_leave(memory, find(memory, LEAVING), 1);
    mdnn_allocation_leave(memory, find(memory, ENDING), 0);
    mdnn_allocation_return(memory, find(memory, RETURNING), 2);
    mdnn_memory_progress(memory);
    assert_int_equal(mdnn_memory_free(memory, at[ENDING], 0), MDNN_STATUS_OK);
    return memory;
}

static void end_memory(mdnn_memory_t *memory)
{
    do
        run_all(&model);
    while (mdnn_memory_progress(memory));
    mdnn_memory_destroy(memory);
}

static const char *first_broken(const void *memory)
{
    const char *broken = NULL;
    uint64_t looks = 0;
    return mdnn_memory_is_valid(memory, &broken, &looks) ? NULL : broken;
}

/* BREAKS(name, what is done to `memory`) */
#define BREAKS(name, ...)                                                                          \
    static void name(void *structure)                                                              \
    {                                                                                              \
        mdnn_memory_t *const memory = structure;                                                   \
        __VA_ARGS__;                                                                               \
    }

BREAKS(count_differs, find(memory, AWAY)->count++; find(memory, AWAY)->room += MODEL_CHUNK)
BREAKS(mapped_without_content, find(memory, LEAVING)->filled = 0)
BREAKS(filled_without_chunks, find(memory, AWAY)->filled++)
BREAKS(content_in_no_place, find(memory, AWAY)->clean = 1)
BREAKS(copy_in_not_counted, find(memory, RETURNING)->in_sent = 0)
BREAKS(copy_to_no_chunk, find(memory, RETURNING)->in_sent++;
       find(memory, RETURNING)->in_flight[0]++)
BREAKS(copy_out_of_what_is_away, find(memory, LEAVING)->out_sent = 4)
BREAKS(copy_out_not_counted, find(memory, LEAVING)->in_flight[true] = 0)
BREAKS(slots_behind_its_end, find(memory, RESIDENT)->slots_from = 3)
BREAKS(slots_of_nothing, find(memory, RESIDENT)->slots_from = 1)
BREAKS(content_without_a_slot, find(memory, AWAY)->slots_from = 1)
BREAKS(blank_with_slots, find(memory, AWAY)->blank = true)
BREAKS(covers_too_much, find(memory, AWAY)->covered_from = 3)
BREAKS(covers_without_host, find(memory, AWAY)->covered_from = 1)
BREAKS(covers_what_is_mapped, memory->config.safety = MDNN_SAFETY_HOST;
       find(memory, LEAVING)->covered_from = 0)
BREAKS(covers_without_slots, memory->config.safety = MDNN_SAFETY_HOST;
       (void)mdnn_range_hide(memory->ranges, range_of(memory, RESIDENT), 0);
       find(memory, RESIDENT)->covered_from = 0)
BREAKS(split_and_not_covered, memory->config.tail = true;
       find(memory, AWAY)->state = MDNN_ALLOCATION_SPLIT)
BREAKS(split_without_tails, find(memory, AWAY)->state = MDNN_ALLOCATION_SPLIT;
       find(memory, AWAY)->covered_from = 0)
BREAKS(covers_what_stays_away, find(memory, AWAY)->covers = true)
BREAKS(resident_in_part, mdnn_allocation_t *const resident = find(memory, RESIDENT);
       resident->clean = resident->out_sent = 1; resident->slots_from = 1; resident->slots = &at[0])
BREAKS(resident_but_unmapped, (void)mdnn_range_hide(memory->ranges, range_of(memory, RESIDENT), 0))
BREAKS(away_but_whole, find(memory, RESIDENT)->state = MDNN_ALLOCATION_AWAY)
BREAKS(leaves_with_nothing, find(memory, LEAVING)->target = 3)
BREAKS(returns_more_than_it_can, find(memory, RETURNING)->target = 3)
BREAKS(copied_out_and_mapped, mdnn_allocation_t *const leaving = find(memory, LEAVING);
       leaving->clean = leaving->out_sent = leaving->slots_from = 0)
BREAKS(remapped_at_rest, find(memory, RESIDENT)->remap = 1)
BREAKS(mapped_while_leaving, mdnn_allocation_t *const leaving = find(memory, LEAVING);
       leaving->remap = 1; leaving->remap_upto = 3)
BREAKS(unmapped_while_returning, find(memory, RETURNING)->remap = 1)
BREAKS(remaps_miscounted, memory->remaps++)
BREAKS(owned_and_unmapped_ahead, memory->ahead[1].range = range_of(memory, RESIDENT))
BREAKS(mapped_ahead_of_the_thread, memory->ahead[1].range = range_of(memory, RESIDENT);
       memory->ahead[1].map = true)
BREAKS(unmapped_ahead_and_still_there, memory->ahead[1].range = range_of(memory, RESIDENT);
       memory->ahead[1].done = 1)
BREAKS(cut_off_and_away, find(memory, AWAY)->cut = true)
BREAKS(uses_without_room, find(memory, RESIDENT)->use_count = 3)
BREAKS(uses_elsewhere, find(memory, RESIDENT)->use_room = 4)
BREAKS(stream_twice, mdnn_allocation_t *const resident = find(memory, RESIDENT);
       resident->uses[1] = resident->uses[0]; resident->use_count = 2)
BREAKS(stream_twice_for_all, memory->all.use_count = 2)
BREAKS(address_of_another, find(memory, AWAY)->address = at[RESIDENT])
BREAKS(no_owner, mdnn_ranges_set_owner(memory->ranges, at[AWAY], memory->allocations))
BREAKS(range_of_another, find(memory, AWAY)->range = range_of(memory, RESIDENT))
BREAKS(more_than_its_room, find(memory, BLOCK)->bytes = 513)
BREAKS(room_is_no_chunks, find(memory, AWAY)->room++)
BREAKS(block_leaves, find(memory, BLOCK)->stays = false)
BREAKS(stays_away, find(memory, STAYS)->state = MDNN_ALLOCATION_AWAY)
BREAKS(pinned_and_away, find(memory, AWAY)->pins = 1)
BREAKS(live_pins_beyond_pins, find(memory, PINNED)->live_pins = 2)
BREAKS(born_later, find(memory, AWAY)->born = memory->began + 1)
BREAKS(gone_and_alive, find(memory, AWAY)->gone = memory->began)
BREAKS(freed_but_followed, find(memory, ENDING)->follower_range = 0)
BREAKS(freed_with_live_pins, mdnn_allocation_t *const pinned = find(memory, PINNED);
       pinned->freed = true; pinned->live_pins = 1; pinned->follower_range = MDNN_NO_POSITION)
BREAKS(freed_and_forgotten, mdnn_allocation_t *const resident = find(memory, RESIDENT);
       resident->freed = true; resident->follower_range = MDNN_NO_POSITION)
BREAKS(ends_alive, find(memory, ENDING)->freed = false; find(memory, ENDING)->gone = UINT64_MAX)

BREAKS(list_is_cut, memory->allocations->next->previous = NULL)
BREAKS(number_twice, memory->allocations->number = memory->allocations->next->number)
BREAKS(in_list_of_another_state, find(memory, LEAVING)->state = MDNN_ALLOCATION_RETURNING;
       find(memory, LEAVING)->cut = false)
BREAKS(in_no_list, memory->returning.first = memory->returning.last = NULL)
BREAKS(list_without_last, memory->leaving.last = NULL)
BREAKS(list_without_way_back, memory->leaving.first->before_move = memory->leaving.first)
BREAKS(too_many_flights, memory->flights[1].count = MDNN_FLIGHTS + 1)
BREAKS(flight_of_nobody, memory->flights[0].count++)
BREAKS(flight_of_another,
       memory->flights[1].ring[memory->flights[1].first].allocation = find(memory, AWAY))
BREAKS(flight_discarded_in_advance,
       memory->flights[1].ring[memory->flights[1].first].discarded = 1000)
BREAKS(live_miscounted, memory->report.live_bytes++)
BREAKS(live_room_miscounted, memory->live_room_bytes++)
BREAKS(questions_miscounted, memory->question_bytes++)
BREAKS(loose_miscounted, memory->loose_bytes++)
BREAKS(stuck_miscounted, memory->stuck_bytes++)
BREAKS(host_miscounted, memory->report.host_bytes++)
BREAKS(movable_forgotten, memory->movable_range_bytes = 2 * MODEL_CHUNK)
BREAKS(peak_of_live_forgotten, memory->report.peak_live_bytes = 0)
BREAKS(created_miscounted, memory->report.created++)
BREAKS(peak_forgotten, memory->peak_resident_bytes = MODEL_CHUNK)
BREAKS(turns_without_last, static mdnn_turn_t turn; memory->first_turn = &turn)
BREAKS(stalls_without_demand, memory->stalled = true)
BREAKS(open_and_not_held, memory->open++)
BREAKS(quiet_without_host, memory->quiet = true)
BREAKS(too_many_timings, memory->timings_open = MDNN_TIMINGS + 1)
BREAKS(untracked_without_room, memory->untracked_count = 1)
BREAKS(streams_without_room, memory->stream_count = 1)

static const broken_rule_t rules[] = {
    {"allocation->count == chunks.count", count_differs},
    {"chunks.mapped <= allocation->filled", mapped_without_content},
    {"allocation->filled <= chunks.owned", filled_without_chunks},
    {"allocation->clean <= allocation->filled", content_in_no_place},
    {"allocation->in_sent ==", copy_in_not_counted},
    {"allocation->in_sent <= chunks.owned", copy_to_no_chunk},
    {"allocation->out_sent <= allocation->clean", copy_out_of_what_is_away},
    {"allocation->clean - allocation->out_sent", copy_out_not_counted},
    {"allocation->slots_from <= allocation->count", slots_behind_its_end},
    {"allocation->slots", slots_of_nothing},
    {"allocation->slots_from <= allocation->clean", content_without_a_slot},
    {"allocation->slots_from == allocation->count", blank_with_slots},
    {"allocation->covered_from <= allocation->count", covers_too_much},
    {"may_be_covered", covers_without_host},
    {"chunks.mapped <= allocation->covered_from", covers_what_is_mapped},
    {"allocation->slots_from <= allocation->covered_from", covers_without_slots},
    {"is_split", split_and_not_covered},
    {"is_split", split_without_tails},
    {"!allocation->covers", covers_what_stays_away},
    {"is_whole", resident_in_part},
    {"is_whole", resident_but_unmapped},
    {"chunks.owned < chunks.count", away_but_whole},
    {"allocation->target < allocation->count", leaves_with_nothing},
    {"allocation->target <= allocation->count", returns_more_than_it_can},
    {"!allocation->cut", copied_out_and_mapped},
    {"state == MDNN_ALLOCATION_LEAVING || state", remapped_at_rest},
    {"allocation->remap_upto < chunks.mapped", mapped_while_leaving},
    {"chunks.mapped < allocation->remap_upto", unmapped_while_returning},
    {"memory->remaps ==", remaps_miscounted},
    {"has_owner", owned_and_unmapped_ahead},
    {"chunks.mapped == ahead->done", mapped_ahead_of_the_thread},
    {"chunks.mapped + ahead->done", unmapped_ahead_and_still_there},
    {"!allocation->cut", cut_off_and_away},
    {"use_count <= allocation->use_room", uses_without_room},
    {"MDNN_INLINE_USES", uses_elsewhere},
    {"allocation->uses[i].stream != ", stream_twice},
    {"allocation->uses[i].stream != ", stream_twice_for_all},
    {"mdnn_ranges_owner", address_of_another},
    {"mdnn_ranges_owner", no_owner},
    {"mdnn_ranges_at", range_of_another},
    {"allocation->bytes <= allocation->room", more_than_its_room},
    {"allocation->count * memory->chunk_bytes", room_is_no_chunks},
    {"allocation->range || (allocation->stays", block_leaves},
    {"!allocation->stays ||", stays_away},
    {"allocation->pins == 0 ||", pinned_and_away},
    {"live_pins <= allocation->pins", live_pins_beyond_pins},
    {"allocation->born <= memory->began", born_later},
    {"allocation->gone == UINT64_MAX", gone_and_alive},
    {"allocation->follower_range ==", freed_but_followed},
    {"!allocation->freed || allocation->live_pins == 0", freed_with_live_pins},
    {"keepers > 0", freed_and_forgotten},
    {"allocation->freed || !is_ending", ends_alive},
    {"allocation->previous == before", list_is_cut},
    {"before->number > allocation->number", number_twice},
    {"allocation->state == state", in_list_of_another_state},
    {"listed == count", in_no_list},
    {"list->last == before", list_without_last},
    {"allocation->before_move == before", list_without_way_back},
    {"flights->count <= MDNN_FLIGHTS", too_many_flights},
    {"flights->count == sums", flight_of_nobody},
    {"flight->allocation->in_flight", flight_of_another},
    {"flight->discarded <=", flight_discarded_in_advance},
    {"report.live_bytes == ", live_miscounted},
    {"live_room_bytes ==", live_room_miscounted},
    {"loose_bytes ==", loose_miscounted},
    {"stuck_bytes ==", stuck_miscounted},
    {"host_bytes ==", host_miscounted},
    {"movable_range_bytes >=", movable_forgotten},
    {"question_bytes ==", questions_miscounted},
    {"question_bytes <= memory->report.peak_live_bytes", peak_of_live_forgotten},
    {"counts.created", created_miscounted},
    {"memory->peak_resident_bytes", peak_forgotten},
    {"memory->last_turn", turns_without_last},
    {"memory->demanding ||", stalls_without_demand},
    {"memory->open <=", open_and_not_held},
    {"!memory->quiet", quiet_without_host},
    {"MDNN_TIMINGS", too_many_timings},
    {"untracked_count <=", untracked_without_room},
    {"stream_count <=", streams_without_room},
};

static void each_broken_rule_is_named(void **state)
{
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        mdnn_memory_t *const memory = new_memory();
        missed += !finds(first_broken, memory, &rules[i]);
        end_memory(memory);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_broken_rule_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
