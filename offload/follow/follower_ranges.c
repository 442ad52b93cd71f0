/* The ranges that the history knows, and which of the followed period each is. */
#include "config/fault.h"
#include "offload/follow/follower_check.h"
#include "offload/follow/follower_internal.h"

#include <stdlib.h>

bool follower_lives(const mdnn_follower_t *follower, uint32_t range)
{
    return range < follower->range_capacity && follower->ranges[range].touched_at != follower_never;
}

static bool make_room(mdnn_follower_t *follower, uint32_t range)
{
    uint32_t capacity = follower->range_capacity ? follower->range_capacity : 256;
    if (range < follower->range_capacity)
        return true;
    while (capacity <= range)
        capacity = capacity > UINT32_MAX / 2 ? UINT32_MAX : 2 * capacity;
    follower_range_t *const grown = reallocarray(follower->ranges, capacity, sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = follower->range_capacity; i < capacity; i++)
        grown[i] = (follower_range_t){.touched_at = follower_never, .slot = MDNN_NO_POSITION};
    follower->ranges = grown;
    follower->range_capacity = capacity;
    return true;
}

uint32_t mdnn_follower_begin_range(mdnn_follower_t *follower, uint64_t bytes, bool stays,
                                   void *owner)
{
    const uint32_t range = mdnn_history_begin_range(follower->history, bytes, stays);
    if (range == MDNN_NO_POSITION)
        return range;
    if (!make_room(follower, range)) {
        mdnn_history_end_range(follower->history, range);
        return MDNN_NO_POSITION;
    }
    follower->ranges[range] = (follower_range_t){.owner = owner,
                                                 .bytes = bytes,
                                                 .touched_at = follower->sequence,
                                                 .slot = MDNN_NO_POSITION,
                                                 .stays = stays};
    if (!stays) /* nobody asks when those are used */
        follower->begun[follower->begun_count++ % FOLLOWER_BEGUN] = range;
    mdnn_follower_check(follower);
    return range;
}

void follower_assign(mdnn_follower_t *follower, uint32_t range, uint32_t slot)
{
    uint32_t *const handles = follower->active->handles;
    follower_range_t *const known = &follower->ranges[range];
    if (known->slot == slot)
        return;
    if (known->slot != MDNN_NO_POSITION)
        handles[known->slot] = MDNN_NO_POSITION;
    if (slot != MDNN_NO_POSITION && handles[slot] != MDNN_NO_POSITION)
        follower->ranges[handles[slot]].slot = MDNN_NO_POSITION;
    known->slot = slot;
    if (slot != MDNN_NO_POSITION)
        handles[slot] = range;
}

void mdnn_follower_set_padding(mdnn_follower_t *follower, uint32_t range, uint64_t padding_bytes)
{
    if (!MDNN_FAULT(PLANS_COPY_PADDING))
        mdnn_history_set_padding(follower->history, range, padding_bytes);
}

void mdnn_follower_end_range(mdnn_follower_t *follower, uint32_t range)
{
    if (!follower_lives(follower, range))
        return;
    mdnn_history_end_range(follower->history, range);
    if (follower->active)
        follower_assign(follower, range, MDNN_NO_POSITION);
    follower->ranges[range] =
        (follower_range_t){.touched_at = follower_never, .slot = MDNN_NO_POSITION};
    mdnn_follower_check(follower);
}

void follower_find_ranges(mdnn_follower_t *follower)
{
    follower_plan_t *const plan = follower->active;
    for (uint32_t r = 0; r < plan->period.range_count; r++)
        plan->handles[r] = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < follower->range_capacity; i++)
        follower->ranges[i].slot = MDNN_NO_POSITION;
    for (uint32_t i = 0; i < follower->range_capacity; i++) {
        const uint32_t slot = follower_lives(follower, i)
                                  ? mdnn_history_next_use(follower->history, i).range
                                  : MDNN_NO_POSITION;
        if (slot == MDNN_NO_POSITION)
            continue;
        const uint32_t other = plan->handles[slot];
        if (other == MDNN_NO_POSITION ||
            follower->ranges[other].touched_at < follower->ranges[i].touched_at)
            follower_assign(follower, i, slot);
    }
}

void follower_learn_ranges(mdnn_follower_t *follower, const mdnn_history_operation_t *operation)
{
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = operation->uses[u].range;
        if (!follower_lives(follower, range))
            continue;
        const uint32_t slot = mdnn_history_next_use(follower->history, range).range;
        if (slot != MDNN_NO_POSITION)
            follower_assign(follower, range, slot);
    }
}

bool follower_is_unused(const mdnn_follower_t *follower, uint32_t range)
{
    return follower_lives(follower, range) && follower->followed_for >= follower->iteration &&
           follower->sequence - follower->ranges[range].touched_at >= follower->iteration;
}

/* Whether a range among those that began last, at that place of the ring, is not used yet. */
static bool is_begun_and_unused(const mdnn_follower_t *follower, uint32_t place)
{
    const uint32_t range = follower->begun[place];
    for (uint32_t before = 0; before < place; before++)
        if (follower->begun[before] == range) /* it ended, and another began */
            return false;
    return follower_lives(follower, range) && !follower->ranges[range].used;
}

static uint32_t begun_count(const mdnn_follower_t *follower)
{
    return follower->begun_count < FOLLOWER_BEGUN ? follower->begun_count : FOLLOWER_BEGUN;
}

uint32_t follower_unused_of(const mdnn_follower_t *follower, uint64_t bytes)
{
    uint32_t unused = 0;
    for (uint32_t i = 0; i < begun_count(follower); i++)
        unused +=
            is_begun_and_unused(follower, i) && follower->ranges[follower->begun[i]].bytes == bytes;
    return unused;
}

uint64_t follower_unused_bytes(const mdnn_follower_t *follower)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < begun_count(follower); i++)
        bytes += is_begun_and_unused(follower, i) ? follower->ranges[follower->begun[i]].bytes : 0;
    return bytes;
}
