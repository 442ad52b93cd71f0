/* Tails. What an operation names may be more than the budget holds. Then a part of it, the tail, is mapped to its host
 * copies at its own addresses, and the kernel reads and writes it over the link. Such a range is SPLIT: its first chunks
 * are device memory, and its other steps show slots of pinned memory, which are the content.
 *
 * What is missing is known by arithmetic, and exactly so much becomes the tail: what never leaves and what is named,
 * less what the budget allows. It is taken from few ranges, so that there are few borders, and from those first of which
 * each byte is probably touched once: what is only written, then the largest. A convolution reads its operands many
 * times, so they come later, and its workspace comes last.
 *
 * A range becomes SPLIT, or another again, by the ways that there are (offload/memory/memory_moves.c): it leaves down to
 * its first chunks, or returns to them, and then the rest is covered. Its mappings change only when its uses are over,
 * and while no other operation is between begin and end that names it. */
#include "config/extremes.h"
#include "config/fault.h"
#include "offload/memory/memory_tail.h"

/* ---- the division ---- */

/* The later a range is chosen for the tail, the higher. */
enum { WRITTEN, STREAMED, READ_AGAIN, WORKSPACE, RANKS };

static bool can_be_split(const mdnn_allocation_t *allocation)
{
    const bool pinned = allocation->pins > 0 && !MDNN_FAULT(SPLITS_WHAT_IS_PINNED);
    return allocation->range && !allocation->stays && !pinned;
}

static uint64_t rank_of_name(const mdnn_memory_operation_t *operation, size_t i)
{
    const mdnn_use_role_t role = operation->operands[i].role;
    const bool convolves =
        operation->kind != MDNN_OPERATION_OTHER && !MDNN_FAULT(CONVOLUTIONS_READ_TAILS_AGAIN);
    if (role == MDNN_USE_WRITE && !MDNN_FAULT(WHAT_IS_READ_IS_SPLIT_FIRST))
        return WRITTEN;
    return convolves && (i == 0 || role == MDNN_USE_READ) ? READ_AGAIN : STREAMED;
}

/* By all the names that it has in the operation. */
static uint64_t rank_of(const mdnn_memory_operation_t *operation,
                        const mdnn_allocation_t *allocation)
{
    uint64_t rank = WRITTEN;
    if (operation->workspace - allocation->address < allocation->bytes &&
        !MDNN_FAULT(WORKSPACE_IS_SPLIT_FIRST))
        return WORKSPACE;
    for (size_t i = 0; i < operation->operand_count; i++)
        if (operation->operands[i].address - allocation->address < allocation->bytes)
            rank = mdnn_max(rank, rank_of_name(operation, i));
    return rank;
}

/* Its mappings cannot change now. */
static bool is_fixed(const mdnn_allocation_t *allocation)
{
    return mdnn_allocation_used_by_others(allocation);
}

static uint64_t tail_of(const mdnn_allocation_t *allocation)
{
    return allocation->count - mdnn_allocation_owned(allocation);
}

/* Returns what is still missing. */
static uint64_t keep_tail(mdnn_allocation_t *allocation, uint64_t missing)
{
    const uint64_t tail = tail_of(allocation);
    allocation->whole = mdnn_allocation_owned(allocation);
    return missing - mdnn_min(missing, tail);
}

static bool is_better(const mdnn_allocation_t *allocation, const mdnn_allocation_t *best)
{
    return allocation->count > best->count && !MDNN_FAULT(ANY_IS_SPLIT_FIRST);
}

/* The largest that has anything left to give; of equal ones the first. */
static mdnn_allocation_t *largest(const mdnn_demand_t *demand, uint64_t rank)
{
    mdnn_allocation_t *best = NULL;
    for (size_t i = 0; i < demand->count; i++) {
        mdnn_allocation_t *const allocation = demand->allocations[i];
        if (allocation && can_be_split(allocation) && !is_fixed(allocation) &&
            allocation->whole > 0 && (!best || is_better(allocation, best)) &&
            rank_of(demand->operation, allocation) == rank)
            best = allocation;
    }
    return best;
}

/* What is SPLIT as it is now stays so if that is about what is needed: to change it costs as much as to use it. */
static uint64_t keep_tails(const mdnn_demand_t *demand, uint64_t missing)
{
    for (size_t i = 0; i < demand->count; i++) {
        mdnn_allocation_t *const allocation = demand->allocations[i];
        if (!allocation || allocation->state != MDNN_ALLOCATION_SPLIT)
            continue;
        const bool is_needed = (missing > 0 && tail_of(allocation) <= 2 * missing) ||
                               MDNN_FAULT(TAILS_NEVER_COME_BACK);
        const bool worth_it = is_needed && !MDNN_FAULT(TAILS_ARE_DIVIDED_ANEW) &&
                              rank_of(demand->operation, allocation) <= STREAMED;
        if (is_fixed(allocation) || worth_it)
            missing = keep_tail(allocation, missing);
    }
    return missing;
}

static uint64_t make_tails(const mdnn_demand_t *demand, uint64_t missing)
{
    for (uint64_t rank = WRITTEN; rank < RANKS; rank++) {
        mdnn_allocation_t *allocation;
        while (missing > 0 && (allocation = largest(demand, rank))) {
            const uint64_t tail = mdnn_min(missing, allocation->whole);
            allocation->whole -= tail;
            missing -= tail;
        }
    }
    return missing;
}

/* Slabs that come back in each iteration have their place in plans. */
static uint64_t slabs_to_come(const mdnn_memory_t *memory)
{
    const uint64_t now = mdnn_ranges_counts(memory->ranges).chunks_slab,
                   most = mdnn_recent_most(&memory->slab_chunks);
    return most > now && !MDNN_FAULT(NO_SLABS_BESIDE_TAILS) ? most - now : 0;
}

uint64_t mdnn_memory_divide(mdnn_memory_t *memory, const mdnn_demand_t *demand, uint64_t least,
                            uint64_t tail)
{
    const uint64_t allowed = mdnn_memory_chunks_allowed(memory);
    uint64_t missing = least > allowed ? least - allowed : 0;
    uint64_t left;
    for (size_t i = 0; i < demand->count; i++)
        if (demand->allocations[i])
            demand->allocations[i]->whole = demand->allocations[i]->count;
    if (!demand->operation || !mdnn_memory_has_tails(memory))
        return 0;
    missing = mdnn_max(missing, tail);
    left = make_tails(demand, keep_tails(demand, missing));
    if (missing > 0 && left == 0) /* what can be had beside, too, but it need not be */
        (void)make_tails(demand, slabs_to_come(memory));
    return left;
}

bool mdnn_allocation_is_as_divided(const mdnn_allocation_t *allocation)
{
    if (allocation->state == MDNN_ALLOCATION_SPLIT)
        return mdnn_allocation_owned(allocation) == allocation->whole;
    return allocation->state == MDNN_ALLOCATION_RESIDENT &&
           (allocation->whole == allocation->count || !allocation->range);
}

/* ---- what people see ---- */

/* The place of that name: its own, a free one, or that of the smallest. */
static mdnn_memory_tail_t *place_of(mdnn_memory_tails_t *tails, uint64_t key)
{
    mdnn_memory_tail_t *smallest = &tails->largest[0];
    for (size_t i = 0; i < MDNN_MEMORY_TAILS; i++) {
        mdnn_memory_tail_t *const tail = &tails->largest[i];
        if (tail->count > 0 && tail->key == key)
            return tail;
        if (tail->bytes < smallest->bytes)
            smallest = tail;
    }
    return smallest;
}

void mdnn_memory_count_tail(mdnn_memory_t *memory, const mdnn_memory_operation_t *operation,
                            uint64_t bytes)
{
    mdnn_memory_tails_t *const tails = &memory->tails;
    mdnn_memory_tail_t *const tail = place_of(tails, operation->key);
    tails->operations++;
    tails->bytes += bytes;
    if (tail->count > 0 && tail->key != operation->key) {
        if (tail->bytes >= bytes)
            return;
        tail->count = 0;
    }
    tail->key = operation->key;
    tail->name = operation->name;
    tail->count++;
    if (tail->bytes < bytes)
        tail->named_bytes = operation->named_bytes;
    tail->bytes = mdnn_max(tail->bytes, bytes);
}

const mdnn_memory_tails_t *mdnn_memory_tails(const mdnn_memory_t *memory)
{
    return &memory->tails;
}
