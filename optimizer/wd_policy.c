#include "optimizer/wd_policy.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "optimizer/ilp_child.h"

static uint64_t round_down(uint64_t bytes)
{
    return bytes - bytes % MDNN_WD_ALIGNMENT_BYTES;
}

static uint64_t round_up(uint64_t bytes)
{
    return round_down(bytes + MDNN_WD_ALIGNMENT_BYTES - 1);
}

/* ---- the problem ---- */

/* A network's kernels: group by group, layer by layer. */
typedef struct division {
    const mdnn_wd_settings_t *settings;
    mdnn_wd_group_t *groups;
    size_t group_count;
    mdnn_wd_problem_t problem;
    mdnn_wd_kernel_t *kernels;
    const mdnn_network_call_t **calls; /* of each kernel */
    double *times;                     /* how often it runs in an iteration */
    mdnn_knapsack_item_t *items;       /* of all kernels */
    size_t *choices;
    uint64_t *sizes; /* of the regions (optimizer/wd.h) */
} division_t;

static void division_fini(division_t *division)
{
    free(division->kernels);
    free(division->calls);
    free(division->times);
    free(division->items);
    free(division->choices);
    free(division->sizes);
}

static mdnn_status_t allocate_kernels(division_t *division)
{
    size_t count = 0;
    for (size_t g = 0; g < division->group_count; g++)
        count += division->groups[g].network->layer_count;
    division->problem.kernel_count = count;
    division->kernels = calloc(count, sizeof *division->kernels);
    division->calls = calloc(count, sizeof *division->calls);
    division->times = calloc(count, sizeof *division->times);
    division->choices = calloc(count, sizeof *division->choices);
    division->sizes = calloc(count + division->group_count, sizeof *division->sizes);
    return division->kernels && division->calls && division->times && division->choices &&
                   division->sizes
               ? MDNN_STATUS_OK
               : MDNN_STATUS_OUT_OF_MEMORY;
}

static void list_calls(division_t *division)
{
    size_t begin = 0;
    for (size_t g = 0; g < division->group_count; g++) {
        const mdnn_network_t *const network = division->groups[g].network;
        for (size_t i = 0; i < network->count; i++) {
            const size_t k = begin + network->layer_of[i];
            division->calls[k] = &network->calls[i];
            division->times[k] += 1;
            division->kernels[k].group = (uint32_t)g;
        }
        begin += network->layer_count;
    }
}

/* The kernel before `k` that has the same items; `k` if there is none. */
static size_t first_alike(const division_t *division, size_t k)
{
    size_t i = 0;
    while (i < k && (division->calls[i]->problem != division->calls[k]->problem ||
                     division->calls[i]->demand != division->calls[k]->demand ||
                     division->times[i] != division->times[k]))
        i++;
    return i;
}

/* Workspaces are rounded up, so that whatever adds up stays aligned. */
static mdnn_status_t list_items(division_t *division, mdnn_wd_items_t items)
{
    size_t total = 0;
    for (size_t k = 0; k < division->problem.kernel_count; k++)
        if (first_alike(division, k) == k)
            total += items(division->calls[k], NULL, 0);
    mdnn_knapsack_item_t *next = division->items = calloc(total + 1, sizeof *next);
    if (!next)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t k = 0; k < division->problem.kernel_count; k++) {
        mdnn_wd_kernel_t *const kernel = &division->kernels[k];
        const size_t alike = first_alike(division, k);
        if (alike < k) {
            kernel->items = division->kernels[alike].items;
            kernel->item_count = division->kernels[alike].item_count;
            continue;
        }
        const size_t room = total - (size_t)(next - division->items);
        const size_t count = items(division->calls[k], next, room);
        if (count < 1 || count > room)
            return MDNN_STATUS_NOT_FOUND;
        kernel->items = next;
        kernel->item_count = count;
        for (; next < kernel->items + count; next++) {
            next->time_ms *= division->times[k];
            next->workspace_bytes = round_up(next->workspace_bytes);
        }
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t request(division_t *division, mdnn_wd_items_t items, uint64_t bytes)
{
    MDNN_TRY(allocate_kernels(division));
    list_calls(division);
    MDNN_TRY(list_items(division, items));
    division->problem.model = division->settings->model;
    division->problem.kernels = division->kernels;
    division->problem.group_count = (uint32_t)division->group_count;
    division->problem.total_bytes = bytes;
    return MDNN_STATUS_OK;
}

/* ---- solving ---- */

static void ask_glpk(division_t *division, mdnn_wd_result_t *result)
{
    char found[PATH_MAX];
    const char *program = division->settings->glpk_program;
    if (!program && (!division->settings->find_program ||
                     !division->settings->find_program("microdnn-ilp", found, sizeof found))) {
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "wd",
                      "no microdnn-ilp that only its owner can write is installed with this "
                      "library: the library's own solver is used");
        return;
    }
    program = program ? program : found;
    bool improved = false;
    const mdnn_status_t status =
        mdnn_ilp_improve(program, &division->problem, division->settings->solver_ms,
                         division->choices, result, &improved);
    if (status != MDNN_STATUS_OK)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "wd",
                      "%s gave no division (%s): the library's own solver is used", program,
                      mdnn_status_string(status));
    if (improved)
        mdnn_count(MDNN_COUNTER_divisions_glpk, 1);
}

/* Time of equal shares: of the groups, or of the layers. */
static double equal_ms(const division_t *division)
{
    const mdnn_wd_problem_t *const problem = &division->problem;
    const uint64_t share = round_down(problem->total_bytes / mdnn_wd_region_count(problem));
    double sum = 0;
    for (size_t k = 0; k < problem->kernel_count; k++) {
        double best = INFINITY;
        for (size_t i = 0; i < problem->kernels[k].item_count; i++) {
            const mdnn_knapsack_item_t *const item = &problem->kernels[k].items[i];
            if (item->workspace_bytes <= share && item->time_ms < best)
                best = item->time_ms;
        }
        sum += best;
    }
    return sum;
}

/* NOT_FOUND also if what was found is no better than equal shares and not proven either. */
static mdnn_status_t solve(division_t *division)
{
    const mdnn_knapsack_limits_t limits = {.time_ms = division->settings->solver_ms};
    mdnn_wd_result_t result;
    MDNN_TRY(mdnn_wd_solve(&division->problem, &limits, division->choices, &result));
    if (division->settings->solver == MDNN_SOLVER_GLPK)
        ask_glpk(division, &result);
    mdnn_count(MDNN_COUNTER_divisions_solved, 1);
    if (!result.optimal) {
        const double equal = equal_ms(division);
        const bool better = result.time_ms < equal;
        mdnn_count(MDNN_COUNTER_divisions_unproven, 1);
        MDNN_LOG(
            MDNN_LOG_WARN, "wd",
            "a division that is not proven to be the best is %s: %.3f ms, bound %.3f ms, equal "
            "shares %.3f ms",
            better ? "used" : "not used", result.time_ms, result.bound_ms, equal);
        if (!better)
            return MDNN_STATUS_NOT_FOUND;
    }
    MDNN_LOG(MDNN_LOG_INFO, "wd", "%zu layers of %zu streams: %.3f ms in %llu of %llu bytes",
             division->problem.kernel_count, division->group_count, result.time_ms,
             (unsigned long long)result.workspace_bytes,
             (unsigned long long)division->problem.total_bytes);
    double ms;
    uint64_t used;
    return mdnn_wd_evaluate(&division->problem, division->choices, &ms, &used, division->sizes);
}

/* ---- regions ---- */

static void divide_equally(mdnn_wd_group_t *groups, size_t count, uint64_t bytes)
{
    const uint64_t share = round_down(bytes / count);
    for (size_t g = 0; g < count; g++)
        groups[g].region = MDNN_FAULT(ARENA_REGIONS_OVERLAP)
                               ? (mdnn_wd_segment_t){0, bytes}
                               : (mdnn_wd_segment_t){g * share, share};
}

/* The group's segments from `offset` on; returns where they end. */
static uint64_t lay_segments(mdnn_wd_group_t *group, const uint64_t *sizes, uint64_t offset)
{
    for (size_t layer = 0; layer < group->network->layer_count; layer++) {
        group->segments[layer] = (mdnn_wd_segment_t){offset, sizes[layer]};
        offset += sizes[layer];
    }
    return offset;
}

static void free_segments(mdnn_wd_group_t *groups, size_t count)
{
    for (size_t g = 0; g < count; g++) {
        free(groups[g].segments);
        groups[g].segments = NULL;
    }
}

static mdnn_status_t allocate_segments(mdnn_wd_group_t *groups, size_t count)
{
    for (size_t g = 0; g < count; g++) {
        groups[g].segments = calloc(groups[g].network->layer_count, sizeof *groups[g].segments);
        if (!groups[g].segments)
            return MDNN_STATUS_OUT_OF_MEMORY;
    }
    return MDNN_STATUS_OK;
}

/* What nobody wants goes to all regions alike. */
static mdnn_status_t lay_out(division_t *division)
{
    const bool sum = division->problem.model == MDNN_WD_SUM;
    const size_t regions = mdnn_wd_region_count(&division->problem);
    uint64_t spare = division->problem.total_bytes, offset = 0;
    size_t begin = 0;
    if (sum)
        MDNN_TRY(allocate_segments(division->groups, division->group_count));
    for (size_t i = 0; i < regions; i++)
        spare -= division->sizes[i];
    spare = round_down(spare / division->group_count);
    for (size_t g = 0; g < division->group_count; g++) {
        mdnn_wd_group_t *const group = &division->groups[g];
        const uint64_t end = sum ? lay_segments(group, &division->sizes[begin], offset)
                                 : offset + division->sizes[g];
        begin += group->network->layer_count;
        group->region = (mdnn_wd_segment_t){offset, end + spare - offset};
        offset = end + spare;
    }
    return MDNN_STATUS_OK;
}

static bool all_known(const mdnn_wd_group_t *groups, size_t count)
{
    for (size_t g = 0; g < count; g++)
        if (!groups[g].network)
            return false;
    return true;
}

void mdnn_wd_divide(const mdnn_wd_settings_t *settings, mdnn_wd_items_t items, uint64_t bytes,
                    mdnn_wd_group_t *groups, size_t count)
{
    division_t division = {.settings = settings, .groups = groups, .group_count = count};
    bytes = round_down(bytes);
    divide_equally(groups, count, bytes);
    if (!all_known(groups, count) || (count == 1 && settings->model == MDNN_WD_SHARED))
        return;
    mdnn_status_t status = request(&division, items, bytes);
    if (status == MDNN_STATUS_OK)
        status = solve(&division);
    if (status == MDNN_STATUS_OK)
        status = lay_out(&division);
    if (status != MDNN_STATUS_OK) {
        MDNN_LOG(MDNN_LOG_INFO, "wd", "the workspace is divided equally: %s",
                 mdnn_status_string(status));
        free_segments(groups, count);
        divide_equally(groups, count, bytes);
    }
    division_fini(&division);
}
