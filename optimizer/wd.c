/* Each region becomes one class of a multiple-choice knapsack: its items are the sizes that one of
 * its kernels could use, with the time of all its kernels within that size. */
#include "optimizer/wd.h"

#include <math.h>
#include <stdlib.h>

size_t mdnn_wd_region_count(const mdnn_wd_problem_t *problem)
{
    return problem->model == MDNN_WD_SUM ? problem->kernel_count : problem->group_count;
}

static size_t region_of(const mdnn_wd_problem_t *problem, size_t kernel)
{
    return problem->model == MDNN_WD_SUM ? kernel : problem->kernels[kernel].group;
}

/* An item of some kernel, to be sorted into the order in which growing regions admit it. */
typedef struct offer {
    size_t region, kernel;
    mdnn_knapsack_item_t item;
} offer_t;

static int compare_offers(const void *left, const void *right)
{
    const offer_t *const a = left;
    const offer_t *const b = right;
    if (a->region != b->region)
        return a->region < b->region ? -1 : 1;
    if (a->item.workspace_bytes != b->item.workspace_bytes)
        return a->item.workspace_bytes < b->item.workspace_bytes ? -1 : 1;
    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

typedef struct division {
    const mdnn_wd_problem_t *problem;
    offer_t *offers;
    size_t offer_count;
    double *best_ms;    /* of each kernel, in the region size at hand; INFINITY: nothing fits yet */
    size_t *kernels_in; /* of each region */
    mdnn_knapsack_item_t *steps; /* of all regions */
    mdnn_knapsack_class_t *classes;
    size_t *sizes; /* the chosen step of each region */
} division_t;

static mdnn_status_t count_offers(division_t *division)
{
    const mdnn_wd_problem_t *const problem = division->problem;
    if ((unsigned)problem->model >= MDNN_WD_MODEL_COUNT)
        return MDNN_STATUS_INVALID_ARGUMENT;
    for (size_t k = 0; k < problem->kernel_count; k++) {
        if (problem->kernels[k].item_count == 0 ||
            region_of(problem, k) >= mdnn_wd_region_count(problem))
            return MDNN_STATUS_INVALID_ARGUMENT;
        if (__builtin_add_overflow(division->offer_count, problem->kernels[k].item_count,
                                   &division->offer_count))
            return MDNN_STATUS_OVERFLOW;
    }
    return division->offer_count < SIZE_MAX / 2 ? MDNN_STATUS_OK : MDNN_STATUS_OVERFLOW;
}

static mdnn_status_t allocate(division_t *division)
{
    const size_t regions = mdnn_wd_region_count(division->problem);
    MDNN_TRY(count_offers(division));
    division->offers = calloc(division->offer_count + 1, sizeof *division->offers);
    division->steps = calloc(division->offer_count + regions + 1, sizeof *division->steps);
    division->best_ms = calloc(division->problem->kernel_count + 1, sizeof *division->best_ms);
    division->kernels_in = calloc(regions + 1, sizeof *division->kernels_in);
    division->classes = calloc(regions + 1, sizeof *division->classes);
    division->sizes = calloc(regions + 1, sizeof *division->sizes);
    return division->offers && division->steps && division->best_ms && division->kernels_in &&
                   division->classes && division->sizes
               ? MDNN_STATUS_OK
               : MDNN_STATUS_OUT_OF_MEMORY;
}

static mdnn_status_t gather_offers(division_t *division)
{
    const mdnn_wd_problem_t *const problem = division->problem;
    size_t next = 0;
    for (size_t k = 0; k < problem->kernel_count; k++) {
        const mdnn_wd_kernel_t *const kernel = &problem->kernels[k];
        division->best_ms[k] = INFINITY;
        division->kernels_in[region_of(problem, k)]++;
        for (size_t i = 0; i < kernel->item_count; i++) {
            if (!isfinite(kernel->items[i].time_ms) || kernel->items[i].time_ms < 0)
                return MDNN_STATUS_INVALID_ARGUMENT;
            division->offers[next++] = (offer_t){region_of(problem, k), k, kernel->items[i]};
        }
    }
    qsort(division->offers, division->offer_count, sizeof *division->offers, compare_offers);
    return MDNN_STATUS_OK;
}

/* What the kernels of one region take while it grows. */
typedef struct growth {
    size_t unserved; /* kernels of which nothing fits yet */
    double sum_ms;   /* of the others */
} growth_t;

/* The kernel of the offer may use it from now on. Whether that made it faster. */
static bool admit(division_t *division, const offer_t *offer, growth_t *growth)
{
    double *const best_ms = &division->best_ms[offer->kernel];
    if (offer->item.time_ms >= *best_ms)
        return false;
    if (isinf(*best_ms))
        growth->unserved--;
    else
        growth->sum_ms -= *best_ms;
    growth->sum_ms += offer->item.time_ms;
    *best_ms = offer->item.time_ms;
    return true;
}

/* A step is a size at which the region's kernels, all of them served, get faster. Returns where the
 * next region's offers begin. */
static size_t add_steps(division_t *division, size_t region, size_t begin,
                        mdnn_knapsack_item_t *steps, size_t *step_count)
{
    const offer_t *const offers = division->offers, *const end = offers + division->offer_count;
    const offer_t *offer = offers + begin;
    growth_t growth = {division->kernels_in[region], 0};
    *step_count = 0;
    if (growth.unserved == 0)
        steps[(*step_count)++] = (mdnn_knapsack_item_t){0, 0};
    while (offer < end && offer->region == region) {
        const uint64_t bytes = offer->item.workspace_bytes;
        bool faster = false;
        for (; offer < end && offer->region == region && offer->item.workspace_bytes == bytes;
             offer++)
            faster |= admit(division, offer, &growth);
        if (growth.unserved == 0 && faster)
            steps[(*step_count)++] = (mdnn_knapsack_item_t){fmax(growth.sum_ms, 0), bytes};
    }
    return (size_t)(offer - offers);
}

static void make_classes(division_t *division)
{
    mdnn_knapsack_item_t *steps = division->steps;
    size_t begin = 0;
    for (size_t region = 0; region < mdnn_wd_region_count(division->problem); region++) {
        size_t count;
        begin = add_steps(division, region, begin, steps, &count);
        division->classes[region] = (mdnn_knapsack_class_t){steps, count};
        steps += count;
    }
}

static size_t best_within(const mdnn_wd_kernel_t *kernel, uint64_t bytes)
{
    size_t best = kernel->item_count;
    for (size_t i = 0; i < kernel->item_count; i++) {
        const mdnn_knapsack_item_t *const item = &kernel->items[i];
        if (item->workspace_bytes > bytes)
            continue;
        if (best == kernel->item_count || item->time_ms < kernel->items[best].time_ms ||
            (item->time_ms == kernel->items[best].time_ms &&
             item->workspace_bytes < kernel->items[best].workspace_bytes))
            best = i;
    }
    return best;
}

static mdnn_status_t divide(division_t *division, const mdnn_knapsack_limits_t *limits,
                            size_t *choices, mdnn_wd_result_t *result)
{
    const mdnn_wd_problem_t *const problem = division->problem;
    mdnn_wd_result_t found;

    MDNN_TRY(allocate(division));
    MDNN_TRY(gather_offers(division));
    make_classes(division);
    MDNN_TRY(mdnn_knapsack_solve(division->classes, mdnn_wd_region_count(problem),
                                 problem->total_bytes, limits, division->sizes, &found));
    for (size_t k = 0; k < problem->kernel_count; k++) {
        const size_t region = region_of(problem, k);
        const mdnn_knapsack_item_t *const step =
            &division->classes[region].items[division->sizes[region]];
        choices[k] = best_within(&problem->kernels[k], step->workspace_bytes);
    }
    MDNN_TRY(mdnn_wd_evaluate(problem, choices, &found.time_ms, &found.workspace_bytes, NULL));
    if (found.optimal || found.bound_ms > found.time_ms)
        found.bound_ms = found.time_ms;
    *result = found;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_wd_solve(const mdnn_wd_problem_t *problem, const mdnn_knapsack_limits_t *limits,
                            size_t *choices, mdnn_wd_result_t *result)
{
    division_t division = {.problem = problem};
    const mdnn_status_t status = divide(&division, limits, choices, result);
    free(division.offers);
    free(division.best_ms);
    free(division.kernels_in);
    free(division.steps);
    free(division.classes);
    free(division.sizes);
    return status;
}

static mdnn_status_t sum_regions(const mdnn_wd_problem_t *problem, const size_t *choices,
                                 uint64_t *regions, double *time_ms, uint64_t *workspace_bytes)
{
    *time_ms = 0;
    *workspace_bytes = 0;
    for (size_t k = 0; k < problem->kernel_count; k++) {
        const mdnn_wd_kernel_t *const kernel = &problem->kernels[k];
        const size_t region = region_of(problem, k);
        if (choices[k] >= kernel->item_count || region >= mdnn_wd_region_count(problem))
            return MDNN_STATUS_INVALID_ARGUMENT;
        const mdnn_knapsack_item_t *const item = &kernel->items[choices[k]];
        *time_ms += item->time_ms;
        if (item->workspace_bytes > regions[region])
            regions[region] = item->workspace_bytes;
    }
    for (size_t i = 0; i < mdnn_wd_region_count(problem); i++)
        if (__builtin_add_overflow(*workspace_bytes, regions[i], workspace_bytes))
            return MDNN_STATUS_NOT_FOUND;
    return *workspace_bytes <= problem->total_bytes ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND;
}

mdnn_status_t mdnn_wd_evaluate(const mdnn_wd_problem_t *problem, const size_t *choices,
                               double *time_ms, uint64_t *workspace_bytes, uint64_t *region_bytes)
{
    const size_t count = mdnn_wd_region_count(problem);
    uint64_t *const regions = calloc(count + 1, sizeof *regions);
    double time;
    uint64_t workspace;
    if (!regions)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const mdnn_status_t status = sum_regions(problem, choices, regions, &time, &workspace);
    if (status == MDNN_STATUS_OK) {
        *time_ms = time;
        *workspace_bytes = workspace;
        for (size_t i = 0; region_bytes && i < count; i++)
            region_bytes[i] = regions[i];
    }
    free(regions);
    return status;
}
