/* Which part sizes to ask for, and what to keep of the answers. */
#include "optimizer/costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_power_of_two(int64_t value)
{
    return value > 0 && (value & (value - 1)) == 0;
}

static bool is_part_size(const mdnn_wr_request_t *request, int64_t images)
{
    if (images < 1 || images >= request->batch)
        return false;
    return request->sizes == MDNN_SIZES_ALL ||
           (request->sizes == MDNN_SIZES_POWER_OF_TWO && is_power_of_two(images));
}

static int64_t next_smaller_size(const mdnn_wr_request_t *request, int64_t images)
{
    if (request->sizes == MDNN_SIZES_UNDIVIDED)
        return 0;
    if (request->sizes == MDNN_SIZES_ALL)
        return images - 1;
    int64_t power = 1;
    while (power < images)
        power *= 2;
    return power / 2;
}

/* The smallest last part of a split; 0 if nothing can be split. Every part before the last is a
 * multiple of the granularity, so the last is congruent to the batch; and as both kinds of sizes
 * contain the granularity itself or none of its multiples, it fills every gap that is left. */
static int64_t smallest_last_part(const mdnn_wr_request_t *request)
{
    const int64_t granularity = request->granularity;
    const int64_t remainder = request->batch % granularity;
    const int64_t last = remainder ? remainder : granularity;

    if (!is_part_size(request, granularity) || !is_part_size(request, last))
        return 0;
    return last <= request->batch - granularity ? last : 0;
}

static void roles_of_size(const mdnn_wr_request_t *request, int64_t images,
                          bool roles[MDNN_PART_ROLE_COUNT])
{
    const int64_t granularity = request->granularity;
    const int64_t last = smallest_last_part(request);
    const int64_t left = request->batch - images;
    const bool splits = last > 0 && left > 0;
    const bool multiple = images % granularity == 0;

    roles[MDNN_PART_FIRST] = left == 0 || (splits && multiple && left >= last);
    roles[MDNN_PART_REST] = splits && ((multiple && left >= last + granularity) ||
                                       (left % granularity == 0 && left >= granularity));
}

static bool is_admissible(const mdnn_cost_t *cost, const mdnn_wr_request_t *request)
{
    return isfinite(cost->time_ms) && cost->time_ms > 0 &&
           cost->workspace_bytes <= request->workspace_limit_bytes &&
           (cost->deterministic || !request->deterministic_only) &&
           (cost->direct || !request->direct_only) && (cost->strict || !request->strict_only);
}

/* A total order, so that the result does not depend on the order in which a source answers. */
static int compare_costs(const void *left, const void *right)
{
    const mdnn_cost_t *const a = left;
    const mdnn_cost_t *const b = right;

    if (a->workspace_bytes != b->workspace_bytes)
        return a->workspace_bytes < b->workspace_bytes ? -1 : 1;
    if (a->time_ms != b->time_ms)
        return a->time_ms < b->time_ms ? -1 : 1;
    if (a->algo != b->algo)
        return a->algo < b->algo ? -1 : 1;
    if (a->math_type != b->math_type)
        return a->math_type < b->math_type ? -1 : 1;
    return memcmp(&a->engine, &b->engine, sizeof a->engine);
}

size_t mdnn_costs_prune(mdnn_cost_t *costs, size_t count, const mdnn_wr_request_t *request)
{
    size_t admitted = 0;
    for (size_t i = 0; i < count; i++)
        if (is_admissible(&costs[i], request))
            costs[admitted++] = costs[i];
    if (admitted == 0)
        return 0;
    qsort(costs, admitted, sizeof *costs, compare_costs);

    size_t kept = 1;
    for (size_t i = 1; i < admitted; i++)
        if (costs[i].time_ms < costs[kept - 1].time_ms)
            costs[kept++] = costs[i];
    return kept;
}

static mdnn_status_t find_costs(const mdnn_wr_request_t *request, const mdnn_cost_source_t *source,
                                int64_t images, mdnn_part_role_t role, mdnn_cost_list_t *list)
{
    mdnn_cost_t *const found = malloc(MDNN_COSTS_PER_SIZE * sizeof *found);
    size_t count = 0;
    if (!found)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_status_t status =
        source->find(source->context, images, role, found, MDNN_COSTS_PER_SIZE, &count);
    if (status == MDNN_STATUS_OK && count > MDNN_COSTS_PER_SIZE)
        status = MDNN_STATUS_INVALID_ARGUMENT;
    if (status == MDNN_STATUS_OK)
        count = mdnn_costs_prune(found, count, request);
    if (status == MDNN_STATUS_OK && count > 0) {
        list->costs = malloc(count * sizeof *found);
        if (list->costs)
            memcpy(list->costs, found, count * sizeof *found);
        list->count = list->costs ? count : 0;
        status = list->costs ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    }
    free(found);
    return status;
}

static mdnn_status_t find_size(const mdnn_wr_request_t *request, const mdnn_cost_source_t *source,
                               const bool roles[MDNN_PART_ROLE_COUNT], mdnn_size_costs_t *size)
{
    mdnn_cost_list_t *const first = &size->role[MDNN_PART_FIRST];
    mdnn_cost_list_t *const rest = &size->role[MDNN_PART_REST];

    if (request->roles_differ) {
        if (roles[MDNN_PART_FIRST])
            MDNN_TRY(find_costs(request, source, size->images, MDNN_PART_FIRST, first));
        if (roles[MDNN_PART_REST])
            MDNN_TRY(find_costs(request, source, size->images, MDNN_PART_REST, rest));
        return MDNN_STATUS_OK;
    }
    mdnn_cost_list_t both = {NULL, 0};
    MDNN_TRY(find_costs(request, source, size->images, MDNN_PART_FIRST, &both));
    if (roles[MDNN_PART_FIRST])
        *first = both;
    if (roles[MDNN_PART_REST])
        *rest = both;
    return MDNN_STATUS_OK;
}

static size_t count_sizes(const mdnn_wr_request_t *request)
{
    size_t count = 0;
    for (int64_t images = request->batch; images > 0; images = next_smaller_size(request, images)) {
        bool roles[MDNN_PART_ROLE_COUNT];
        roles_of_size(request, images, roles);
        count += roles[MDNN_PART_FIRST] || roles[MDNN_PART_REST];
    }
    return count;
}

mdnn_status_t mdnn_costs_by_size_init(mdnn_costs_by_size_t *table, const mdnn_wr_request_t *request,
                                      const mdnn_cost_source_t *source)
{
    mdnn_costs_by_size_t built = {calloc(count_sizes(request), sizeof *built.sizes), 0};
    if (!built.sizes)
        return MDNN_STATUS_OUT_OF_MEMORY;

    for (int64_t images = request->batch; images > 0; images = next_smaller_size(request, images)) {
        bool roles[MDNN_PART_ROLE_COUNT];
        roles_of_size(request, images, roles);
        if (!roles[MDNN_PART_FIRST] && !roles[MDNN_PART_REST])
            continue;
        mdnn_size_costs_t *const size = &built.sizes[built.count++];
        size->images = images;
        const mdnn_status_t status = find_size(request, source, roles, size);
        if (status != MDNN_STATUS_OK) {
            mdnn_costs_by_size_fini(&built);
            return status;
        }
    }
    *table = built;
    return MDNN_STATUS_OK;
}

void mdnn_costs_by_size_fini(mdnn_costs_by_size_t *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const mdnn_cost_list_t *const role = table->sizes[i].role;
        if (role[MDNN_PART_REST].costs != role[MDNN_PART_FIRST].costs)
            free(role[MDNN_PART_REST].costs);
        free(role[MDNN_PART_FIRST].costs);
    }
    free(table->sizes);
    *table = (mdnn_costs_by_size_t){NULL, 0};
}

const mdnn_cost_t *mdnn_cost_list_best(const mdnn_cost_list_t *list, uint64_t limit_bytes)
{
    for (size_t i = list->count; i > 0; i--)
        if (list->costs[i - 1].workspace_bytes <= limit_bytes)
            return &list->costs[i - 1];
    return NULL;
}
