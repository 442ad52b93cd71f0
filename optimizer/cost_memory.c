/* A sorted array: sources are asked from the largest size down, so entries arrive in order. */
#include "optimizer/cost_memory.h"

#include <stdlib.h>
#include <string.h>

void mdnn_cost_memory_fini(mdnn_cost_memory_t *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        free(memory->entries[i].costs);
    free(memory->entries);
    *memory = (mdnn_cost_memory_t){NULL, 0, 0};
}

/* Index of the first entry that does not come before (images, role). */
static size_t position_of(const mdnn_cost_memory_t *memory, int64_t images, mdnn_part_role_t role)
{
    size_t low = 0, high = memory->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const mdnn_cost_entry_t *const entry = &memory->entries[middle];
        if (entry->images > images || (entry->images == images && entry->role < role))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const mdnn_cost_memory_t *memory, size_t index, int64_t images,
                  mdnn_part_role_t role)
{
    return index < memory->count && memory->entries[index].images == images &&
           memory->entries[index].role == role;
}

const mdnn_cost_entry_t *mdnn_cost_memory_find(const mdnn_cost_memory_t *memory, int64_t images,
                                               mdnn_part_role_t role)
{
    const size_t index = position_of(memory, images, role);
    return is_at(memory, index, images, role) ? &memory->entries[index] : NULL;
}

static mdnn_status_t make_room(mdnn_cost_memory_t *memory, size_t index)
{
    if (memory->count == memory->capacity) {
        const size_t capacity = memory->capacity ? 2 * memory->capacity : 16;
        mdnn_cost_entry_t *const grown =
            reallocarray(memory->entries, capacity, sizeof *memory->entries);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        memory->entries = grown;
        memory->capacity = capacity;
    }
    memmove(memory->entries + index + 1, memory->entries + index,
            (memory->count - index) * sizeof *memory->entries);
    memory->entries[index].costs = NULL;
    memory->count++;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_cost_memory_put(mdnn_cost_memory_t *memory, int64_t images,
                                   mdnn_part_role_t role, const mdnn_cost_t *costs, size_t count,
                                   bool is_new)
{
    mdnn_cost_t *copy = NULL;
    if (count > MDNN_COSTS_PER_SIZE)
        return MDNN_STATUS_INVALID_ARGUMENT;
    if (count > 0) {
        copy = malloc(count * sizeof *copy);
        if (!copy)
            return MDNN_STATUS_OUT_OF_MEMORY;
        memcpy(copy, costs, count * sizeof *copy);
    }
    const size_t index = position_of(memory, images, role);
    if (!is_at(memory, index, images, role)) {
        const mdnn_status_t status = make_room(memory, index);
        if (status != MDNN_STATUS_OK) {
            free(copy);
            return status;
        }
    }
    free(memory->entries[index].costs);
    memory->entries[index] = (mdnn_cost_entry_t){images, role, is_new, count, copy};
    return MDNN_STATUS_OK;
}

/* False if the memory knows nothing of this size. */
static bool answer(const mdnn_cost_memory_t *memory, int64_t images, mdnn_part_role_t role,
                   mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    const mdnn_cost_entry_t *const entry = mdnn_cost_memory_find(memory, images, role);
    if (!entry)
        return false;
    *count = entry->count < capacity ? entry->count : capacity;
    if (*count > 0)
        memcpy(costs, entry->costs, *count * sizeof *costs);
    return true;
}

static mdnn_status_t find_in_memory(void *context, int64_t images, mdnn_part_role_t role,
                                    mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    if (!answer(context, images, role, costs, capacity, count))
        *count = 0;
    return MDNN_STATUS_OK;
}

static mdnn_status_t find_in_chain(void *context, int64_t images, mdnn_part_role_t role,
                                   mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    const mdnn_cost_chain_t *const chain = context;
    if (answer(chain->memory, images, role, costs, capacity, count))
        return MDNN_STATUS_OK;
    MDNN_TRY(chain->next.find(chain->next.context, images, role, costs, capacity, count));
    return mdnn_cost_memory_put(chain->memory, images, role, costs, *count, true);
}

mdnn_cost_source_t mdnn_cost_memory_source(mdnn_cost_memory_t *memory)
{
    return (mdnn_cost_source_t){memory, find_in_memory};
}

mdnn_cost_source_t mdnn_cost_chain_source(mdnn_cost_chain_t *chain)
{
    return (mdnn_cost_source_t){chain, find_in_chain};
}
