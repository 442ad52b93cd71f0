/* What must hold of the address space: each rule is broken by hand, and the check names it. */
#include "test/unit/broken_rule.h"

#include "offload/ranges/ranges_check.c"
#include "offload/ranges/slabs_check.c"

#define CHUNK ((uint64_t)1 << 20)
#define BASE ((uint64_t)1 << 40)
enum { STEPS = 40 };

/* Ranges of some steps: A in use, B and C released, D in use with one chunk of two, which another has given
 * to nobody. Behind them slabs: of ordinary blocks, where one reaches from a slab into the next and
 * others are released, and of tiny ones. */
enum { A, B, C, D, RANGES };
static uint64_t chunks, at[RANGES], block_at[4], tiny_at;

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    (void)context;
    *chunk = ++chunks;
    return MDNN_STATUS_OK;
}

static mdnn_status_t change_mapping(void *context, uint64_t address, uint64_t chunk)
{
    (void)context;
    (void)address;
    (void)chunk;
    return MDNN_STATUS_OK;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context;
    (void)point;
    return false;
}

static uint64_t acquire(mdnn_ranges_t *ranges, uint64_t bytes)
{
    mdnn_acquired_t got;
    assert_int_equal(mdnn_ranges_acquire(ranges, bytes, 1, &got), MDNN_STATUS_OK);
    return got.address;
}

static void release(mdnn_ranges_t *ranges, uint64_t address)
{
    static uint64_t now;
    const mdnn_stream_point_t point = {1, ++now};
    assert_int_equal(mdnn_ranges_release(ranges, address, 1, &point, 1), MDNN_STATUS_OK);
}

static mdnn_ranges_t *new_ranges(void)
{
    static const mdnn_ranges_device_t device = {create_chunk, change_mapping, change_mapping,
                                                is_done,      NULL,           NULL};
    const mdnn_ranges_config_t config = {BASE, STEPS * CHUNK, CHUNK, CHUNK / 2, 0};
    mdnn_ranges_t *ranges;
    assert_int_equal(mdnn_ranges_create(&config, &device, NULL, &ranges), MDNN_STATUS_OK);
    for (int i = A; i < RANGES; i++)
        at[i] = acquire(ranges, 2 * CHUNK);
    for (int i = 0; i < 4; i++)
        block_at[i] = acquire(ranges, CHUNK / 2 - CHUNK / 16);
    tiny_at = acquire(ranges, 1000);
    release(ranges, at[B]);
    release(ranges, at[C]);
    release(ranges, block_at[1]);
    mdnn_range_t *const range = mdnn_ranges_at(ranges, at[D]);
    assert_int_equal(mdnn_range_hide(ranges, range, 0), MDNN_STATUS_OK);
    mdnn_range_give(ranges, range, 1);
    return ranges;
}

static const char *first_broken(const void *ranges)
{
    const char *broken = NULL;
    uint64_t looks = 0;
    return mdnn_ranges_is_valid(ranges, &broken, &looks) ? NULL : broken;
}

static mdnn_range_t *range_at(mdnn_ranges_t *ranges, int i)
{
    return ranges->at[(at[i] - BASE) / CHUNK];
}

static mdnn_range_t *slab_of(mdnn_ranges_t *ranges, uint64_t address)
{
    return ranges->at[(address - BASE) / CHUNK];
}

static mdnn_block_t *block(mdnn_ranges_t *ranges, int i)
{
    return mdnn_slab_block(ranges, block_at[i]);
}

/* BREAKS(name, what is done to `ranges`) */
#define BREAKS(name, ...)                                                                          \
    static void name(void *structure)                                                              \
    {                                                                                              \
        mdnn_ranges_t *const ranges = structure;                                                   \
        __VA_ARGS__;                                                                               \
    }

BREAKS(step_lacks_range, ranges->at[1] = NULL)
BREAKS(step_has_other_range, ranges->at[0] = range_at(ranges, D))
BREAKS(end_is_bare, ranges->end++)
BREAKS(end_beyond_slabs, ranges->end = ranges->top + 1)
BREAKS(top_is_bare, ranges->top--)
BREAKS(chunks_elsewhere, range_at(ranges, A)->chunks++)
BREAKS(maps_more_than_it_has, range_at(ranges, D)->mapped = 2)
BREAKS(has_more_than_it_can, range_at(ranges, D)->owned = 3)
BREAKS(longer_than_asked_for, range_at(ranges, A)->bytes = CHUNK)
BREAKS(user_twice, mdnn_users_t *const users = &range_at(ranges, B)->users;
       (void)mdnn_users_reserve(users, 1); users->all[users->count++] = users->all[0])
BREAKS(users_without_room, range_at(ranges, A)->users.count = 1000)
BREAKS(run_too_long, range_at(ranges, B)->run_count++)
BREAKS(last_knows_no_run, range_at(ranges, C)->run_first = NULL)
BREAKS(run_not_listed, ranges->runs[range_at(ranges, B)->run_count] = NULL)
BREAKS(no_bit_for_runs, ranges->some_runs[0] = 0)
BREAKS(bit_for_no_run, ranges->some_runs[0] |= 2)
BREAKS(list_is_cut, ranges->oldest->newer->older = NULL)
BREAKS(list_ends_early, ranges->newest = ranges->oldest)
BREAKS(one_not_listed, ranges->oldest = ranges->oldest->newer; ranges->oldest->older = NULL)
BREAKS(newer_listed_first, ranges->oldest->released = ++ranges->releases)
BREAKS(released_later_than_now, ranges->releases = 0)
BREAKS(in_use_in_list, ranges->oldest = range_at(ranges, A))
BREAKS(free_miscounted, ranges->counts.chunks_free++)
BREAKS(used_miscounted, ranges->used++)
BREAKS(live_miscounted, ranges->counts.chunks_live++)
BREAKS(hidden_miscounted, ranges->counts.chunks_hidden++)
BREAKS(chunk_lost, ranges->counts.chunks_spare--)
BREAKS(mapping_lost, ranges->counts.mapped++)
BREAKS(no_room_for_spare, ranges->spare_room = 3)
BREAKS(waits_without_room, ranges->wait_count = ranges->wait_room + 1)
BREAKS(chunk_twice, ranges->chunks[0] = ranges->chunks[1])
BREAKS(spare_in_use, ranges->spare[0] = ranges->chunks[0])
BREAKS(bytes_lost, ranges->counts.live_bytes = 0)
BREAKS(bytes_miscounted, ranges->counts.live_bytes++)

BREAKS(slab_of_two_steps, slab_of(ranges, tiny_at)->count = 2)
BREAKS(slab_without_chunk, slab_of(ranges, tiny_at)->mapped = 0)
BREAKS(slab_of_no_kind, slab_of(ranges, tiny_at)->slab->kind = 2)
BREAKS(block_overlaps, block(ranges, 2)->address += MDNN_GRANULE)
BREAKS(block_leaves_a_gap, block(ranges, 2)->room -= MDNN_GRANULE;
       block(ranges, 2)->bytes -= MDNN_GRANULE)
BREAKS(last_block_too_short, block(ranges, 0)->room -= MDNN_GRANULE;
       block(ranges, 0)->bytes -= MDNN_GRANULE)
BREAKS(block_of_half_a_granule, block(ranges, 0)->room--)
BREAKS(block_too_large, block(ranges, 0)->bytes = 1)
BREAKS(released_with_owner, block(ranges, 1)->owner = ranges)
BREAKS(block_user_twice, mdnn_users_t *const users = &block(ranges, 1)->users;
       (void)mdnn_users_reserve(users, 1); users->all[users->count++] = users->all[0])
BREAKS(neighbour_unknown, block(ranges, 2)->after = NULL)
BREAKS(neighbour_unknown_back, block(ranges, 0)->before = NULL)
BREAKS(start_not_noted, slab_of(ranges, tiny_at)->slab->starts[0] = 0)
BREAKS(start_noted_in_no_word, slab_of(ranges, tiny_at)->slab->some[0] = 0)
BREAKS(slab_use_miscounted, slab_of(ranges, tiny_at)->slab->used++)
BREAKS(slabs_miscounted, ranges->counts.chunks_slab--; ranges->counts.chunks_live--;
       ranges->counts.created--; ranges->counts.mapped--)
BREAKS(block_run_too_short, block(ranges, 1)->run_bytes--)
BREAKS(block_run_without_end, block(ranges, 1)->run_last = NULL)
BREAKS(no_bit_for_bin, memset(ranges->slab_runs[0].some, 0, sizeof ranges->slab_runs[0].some))
BREAKS(block_run_not_listed, const unsigned bin = mdnn_run_bin(block(ranges, 1)->run_bytes);
       ranges->slab_runs[0].bins[bin] = NULL)

static const broken_rule_t rules[] = {
    {"ranges->at[step] == range", step_lacks_range},
    {"range->first == step", step_has_other_range},
    {"ranges->at[ranges->end - 1]", end_is_bare},
    {"ranges->end <= ranges->top", end_beyond_slabs},
    {"ranges->at[ranges->top]", top_is_bare},
    {"range->chunks ==", chunks_elsewhere},
    {"range->mapped <= range->owned", maps_more_than_it_has},
    {"range->owned <= range->count", has_more_than_it_can},
    {"mdnn_ranges_chunks_for", longer_than_asked_for},
    {"users->all[i].point.stream != users->all[other]", user_twice},
    {"users->count <= users->room", users_without_room},
    {"first->run_count == count", run_too_long},
    {"last->run_first == first", last_knows_no_run},
    {"ranges->runs[count]) == first", run_not_listed},
    {"listed == census->runs", no_bit_for_runs},
    {"ranges->runs[count]", bit_for_no_run},
    {"range->older == before", list_is_cut},
    {"ranges->newest == before", list_ends_early},
    {"listed == census->free_ranges", one_not_listed},
    {"before->released <= range->released", newer_listed_first},
    {"range->released <= ranges->releases", released_later_than_now},
    {"range->is_free && ranges->at", in_use_in_list},
    {"counts.chunks_free ==", free_miscounted},
    {"ranges->used ==", used_miscounted},
    {"counts->chunks_live ==", live_miscounted},
    {"counts->chunks_hidden ==", hidden_miscounted},
    {"counts->chunks_spare == there", chunk_lost},
    {"counts->mapped - counts->unmapped", mapping_lost},
    {"there <= ranges->spare_room", no_room_for_spare},
    {"wait_count <= ranges->wait_room", waits_without_room},
    {"ranges->chunks[other] !=", chunk_twice},
    {"!is_spare", spare_in_use},
    {"counts->live_bytes >=", bytes_lost},
    {"counts.live_bytes ==", bytes_miscounted},
    {"range->count == 1", slab_of_two_steps},
    {"range->mapped == 1", slab_without_chunk},
    {"kind < MDNN_SLAB_KINDS", slab_of_no_kind},
    {"block->address ==", block_overlaps},
    {"block->address == start", block_leaves_a_gap},
    {"start >= end", last_block_too_short},
    {"% MDNN_GRANULE == 0", block_of_half_a_granule},
    {"< MDNN_GRANULE", block_too_large},
    {"!block->owner", released_with_owner},
    {"block->users.all[i].point.stream !=", block_user_twice},
    {"before->after == block", neighbour_unknown},
    {"block->before == before", neighbour_unknown_back},
    {"!slab->starts[word]", start_not_noted},
    {"!slab->starts[word]", start_noted_in_no_word},
    {"slab->used == used", slab_use_miscounted},
    {"chunks_slab ==", slabs_miscounted},
    {"first->run_bytes ==", block_run_too_short},
    {"first->run_last == last", block_run_without_end},
    {"!runs->bins[bin] ==", no_bit_for_bin},
    {"bins[mdnn_run_bin(first->run_bytes)]) == first", block_run_not_listed},
};

static void each_broken_rule_is_named(void **state)
{
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        mdnn_ranges_t *const ranges = new_ranges();
        missed += !finds(first_broken, ranges, &rules[i]);
        mdnn_ranges_destroy(ranges);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_broken_rule_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
