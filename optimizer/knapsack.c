/* After Pisinger, "A minimal algorithm for the multiple-choice knapsack problem" (1995).
 *
 * 1. Items that another one beats are dropped; the lower convex hull of the rest gives the linear
 *    relaxation by one sort of its edges. Applying the edges, steepest first, up to the first that
 *    does not fit gives the base choice of each class, a solution, and `slope`, the price of a
 * byte.
 * 2. A dynamic program goes through the classes, those whose choice is least settled first. Its
 *    states are whole solutions: classes not reached yet keep their base choice, so every state
 * that fits is a candidate, and states above the capacity may still come back.
 * 3. A state is dropped if another needs no more workspace and no more time, or if its bound is no
 *    better than the best solution. Of the classes still to come, none saves more than `up` per
 *    byte that it takes, and none costs less than `down` per byte that it gives back. */
#include "optimizer/knapsack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_STATES = 1 << 16, NODES_PER_STATE = 32, NO_NODE = -1 };
static const uint64_t most_bytes = (uint64_t)1 << 62;
static const double tolerance = 1e-12; /* relative: sums of doubles are no better */

typedef struct point {
    double time_ms;
    int64_t bytes;
    size_t item;
} point_t;

/* `points`: bytes ascending, time strictly descending. */
typedef struct group {
    point_t *points;
    size_t count, base;
    double up, down; /* slopes of the hull after and before the base; 0 and INFINITY at its ends */
} group_t;

/* An edge from one vertex of a class's hull to the next. */
typedef struct edge {
    double slope; /* time saved per byte */
    size_t group, from, to;
} edge_t;

/* A choice other than the base; a chain of them makes a state. */
typedef struct node {
    int32_t parent;
    uint32_t group, point;
} node_t;

typedef struct state {
    double time_ms;
    int64_t bytes;
    int32_t node;
    int32_t point; /* of the class at hand, until it gets a node; NO_NODE: the base */
} state_t;

typedef struct states {
    state_t *at;
    size_t count, capacity;
} states_t;

typedef struct solver {
    group_t *groups;
    size_t group_count;
    point_t *points; /* of all groups */
    int64_t capacity_bytes;
    edge_t *edges;
    size_t edge_count;
    double slope; /* of the first edge that did not fit; 0: all did */
    double base_ms;
    int64_t base_bytes;
    size_t *order;     /* groups as the program takes them */
    double *up, *down; /* of order[i] and all after it */
    states_t now, next, merged;
    node_t *nodes;
    size_t node_count, node_capacity, most_nodes, most_states;
    size_t *best; /* points, by group */
    double best_ms;
    int32_t best_node;
    bool best_is_node, cut_short;
    struct timespec end;
    bool has_end;
} solver_t;

/* ---- classes ---- */

static int compare_points(const void *left, const void *right)
{
    const point_t *const a = left;
    const point_t *const b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->time_ms != b->time_ms)
        return a->time_ms < b->time_ms ? -1 : 1;
    return (a->item > b->item) - (a->item < b->item);
}

/* What does not fit alone is left out. */
static void fill_group(group_t *group, const mdnn_knapsack_class_t *class, int64_t capacity_bytes)
{
    size_t count = 0;
    for (size_t i = 0; i < class->count; i++)
        if (class->items[i].workspace_bytes <= (uint64_t)capacity_bytes)
            group->points[count++] =
                (point_t){class->items[i].time_ms, (int64_t) class->items[i].workspace_bytes, i};
    qsort(group->points, count, sizeof *group->points, compare_points);
    group->count = 0;
    for (size_t i = 0; i < count; i++)
        if (group->count == 0 || group->points[i].time_ms < group->points[group->count - 1].time_ms)
            group->points[group->count++] = group->points[i];
}

/* Sums of all workspaces stay below most_bytes, so that no difference overflows. */
static mdnn_status_t check_classes(const mdnn_knapsack_class_t *classes, size_t count,
                                   uint64_t capacity_bytes, size_t *item_count)
{
    uint64_t sum = 0;
    *item_count = 0;
    for (size_t k = 0; k < count; k++) {
        uint64_t largest = 0;
        if (classes[k].count == 0)
            return MDNN_STATUS_INVALID_ARGUMENT;
        for (size_t i = 0; i < classes[k].count; i++) {
            const mdnn_knapsack_item_t *const item = &classes[k].items[i];
            if (!isfinite(item->time_ms) || item->time_ms < 0)
                return MDNN_STATUS_INVALID_ARGUMENT;
            if (item->workspace_bytes > largest && item->workspace_bytes <= capacity_bytes)
                largest = item->workspace_bytes;
        }
        if (__builtin_add_overflow(sum, largest, &sum) || sum >= most_bytes)
            return MDNN_STATUS_OVERFLOW;
        *item_count += classes[k].count;
    }
    return count < INT32_MAX && *item_count < INT32_MAX ? MDNN_STATUS_OK : MDNN_STATUS_OVERFLOW;
}

static mdnn_status_t load_classes(solver_t *solver, const mdnn_knapsack_class_t *classes,
                                  size_t count)
{
    size_t item_count;
    MDNN_TRY(check_classes(classes, count, (uint64_t)solver->capacity_bytes, &item_count));
    solver->group_count = count;
    solver->groups = calloc(count + 1, sizeof *solver->groups);
    solver->points = calloc(item_count + 1, sizeof *solver->points);
    solver->edges = calloc(item_count + 1, sizeof *solver->edges);
    solver->order = calloc(count + 1, sizeof *solver->order);
    solver->up = calloc(count + 1, sizeof *solver->up);
    solver->down = calloc(count + 1, sizeof *solver->down);
    solver->best = calloc(count + 1, sizeof *solver->best);
    if (!solver->groups || !solver->points || !solver->edges || !solver->order || !solver->up ||
        !solver->down || !solver->best)
        return MDNN_STATUS_OUT_OF_MEMORY;
    point_t *next = solver->points;
    for (size_t k = 0; k < count; k++) {
        solver->groups[k].points = next;
        fill_group(&solver->groups[k], &classes[k], solver->capacity_bytes);
        if (solver->groups[k].count == 0)
            return MDNN_STATUS_NOT_FOUND;
        solver->groups[k].down = INFINITY;
        next += classes[k].count;
    }
    return MDNN_STATUS_OK;
}

/* ---- the linear relaxation ---- */

static double slope_between(const point_t *from, const point_t *to)
{
    return (from->time_ms - to->time_ms) / (double)(to->bytes - from->bytes);
}

/* Appends the edges of one lower convex hull, slopes strictly descending. */
static void add_edges(solver_t *solver, size_t k)
{
    const group_t *const group = &solver->groups[k];
    const size_t first = solver->edge_count;
    for (size_t to = 1; to < group->count; to++) {
        size_t from = to - 1;
        double slope = slope_between(&group->points[from], &group->points[to]);
        while (solver->edge_count > first && solver->edges[solver->edge_count - 1].slope <= slope) {
            from = solver->edges[--solver->edge_count].from;
            slope = slope_between(&group->points[from], &group->points[to]);
        }
        solver->edges[solver->edge_count++] = (edge_t){slope, k, from, to};
    }
}

/* Within a group in the order of its hull, also where rounding made slopes equal. */
static int compare_edges(const void *left, const void *right)
{
    const edge_t *const a = left;
    const edge_t *const b = right;
    if (a->slope != b->slope)
        return a->slope > b->slope ? -1 : 1;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->from > b->from) - (a->from < b->from);
}

static mdnn_status_t relax(solver_t *solver)
{
    for (size_t k = 0; k < solver->group_count; k++) {
        solver->base_bytes += solver->groups[k].points[0].bytes;
        add_edges(solver, k);
    }
    if (solver->base_bytes > solver->capacity_bytes)
        return MDNN_STATUS_NOT_FOUND;
    qsort(solver->edges, solver->edge_count, sizeof *solver->edges, compare_edges);

    size_t i = 0;
    for (; i < solver->edge_count; i++) {
        const edge_t *const edge = &solver->edges[i];
        group_t *const group = &solver->groups[edge->group];
        const int64_t more = group->points[edge->to].bytes - group->points[edge->from].bytes;
        if (solver->base_bytes + more > solver->capacity_bytes)
            break;
        solver->base_bytes += more;
        group->base = edge->to;
        group->down = edge->slope;
    }
    solver->slope = i < solver->edge_count ? solver->edges[i].slope : 0;
    for (; i < solver->edge_count; i++) {
        group_t *const group = &solver->groups[solver->edges[i].group];
        if (solver->edges[i].from == group->base)
            group->up = solver->edges[i].slope;
    }
    for (size_t k = 0; k < solver->group_count; k++)
        solver->base_ms += solver->groups[k].points[solver->groups[k].base].time_ms;
    return MDNN_STATUS_OK;
}

static double relaxed_ms(const solver_t *solver)
{
    return solver->base_ms - solver->slope * (double)(solver->capacity_bytes - solver->base_bytes);
}

/* ---- the first solution: the base, then what still fits, largest gain first ---- */

static double best_gain(const solver_t *solver, size_t k, int64_t left, size_t *point)
{
    const group_t *const group = &solver->groups[k];
    const point_t *const from = &group->points[solver->best[k]];
    size_t i = solver->best[k];
    while (i + 1 < group->count && group->points[i + 1].bytes - from->bytes <= left)
        i++;
    *point = i;
    return from->time_ms - group->points[i].time_ms;
}

static void fill_up(solver_t *solver)
{
    int64_t left = solver->capacity_bytes - solver->base_bytes;
    solver->best_ms = solver->base_ms;
    for (size_t k = 0; k < solver->group_count; k++)
        solver->best[k] = solver->groups[k].base;
    for (;;) {
        double most = 0;
        size_t at = 0, to = 0;
        for (size_t k = 0; k < solver->group_count; k++) {
            size_t point;
            const double gain = best_gain(solver, k, left, &point);
            if (gain > most) {
                most = gain;
                at = k;
                to = point;
            }
        }
        if (most <= 0)
            return;
        const point_t *const points = solver->groups[at].points;
        left -= points[to].bytes - points[solver->best[at]].bytes;
        solver->best[at] = to;
        solver->best_ms -= most;
    }
}

/* ---- the dynamic program ---- */

typedef struct unsettled {
    double distance; /* of the nearest other slope from the price of a byte */
    size_t group;
} unsettled_t;

static int compare_unsettled(const void *left, const void *right)
{
    const unsettled_t *const a = left;
    const unsettled_t *const b = right;
    if (a->distance != b->distance)
        return a->distance < b->distance ? -1 : 1;
    return (a->group > b->group) - (a->group < b->group);
}

static mdnn_status_t order_groups(solver_t *solver)
{
    const size_t count = solver->group_count;
    unsettled_t *const keys = calloc(count + 1, sizeof *keys);
    if (!keys)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t k = 0; k < count; k++) {
        const group_t *const group = &solver->groups[k];
        keys[k] = (unsettled_t){fmin(solver->slope - group->up, group->down - solver->slope), k};
    }
    qsort(keys, count, sizeof *keys, compare_unsettled);
    solver->up[count] = 0;
    solver->down[count] = INFINITY;
    for (size_t i = count; i-- > 0;) {
        solver->order[i] = keys[i].group;
        solver->up[i] = fmax(solver->up[i + 1], solver->groups[keys[i].group].up);
        solver->down[i] = fmin(solver->down[i + 1], solver->groups[keys[i].group].down);
    }
    free(keys);
    return MDNN_STATUS_OK;
}

/* No way to change the groups from order[stage] on makes the state faster than this. */
static double bound(const solver_t *solver, size_t stage, double time_ms, int64_t bytes)
{
    const int64_t left = solver->capacity_bytes - bytes;
    if (left >= 0)
        return time_ms - (double)left * solver->up[stage];
    return time_ms + (double)-left * solver->down[stage];
}

static bool is_hopeless(const solver_t *solver, double bound_ms)
{
    return bound_ms >= solver->best_ms - tolerance * solver->best_ms;
}

static mdnn_status_t reserve(states_t *states, size_t count)
{
    if (count <= states->capacity)
        return MDNN_STATUS_OK;
    const size_t capacity = count < 256 ? 512 : 2 * count;
    state_t *const grown = reallocarray(states->at, capacity, sizeof *grown);
    if (!grown)
        return MDNN_STATUS_OUT_OF_MEMORY;
    states->at = grown;
    states->capacity = capacity;
    return MDNN_STATUS_OK;
}

static void append(const solver_t *solver, states_t *states, size_t stage, const state_t *state)
{
    if (states->count > 0 && states->at[states->count - 1].time_ms <= state->time_ms)
        return;
    if (!is_hopeless(solver, bound(solver, stage, state->time_ms, state->bytes)))
        states->at[states->count++] = *state;
}

static state_t shifted(const state_t *state, const point_t *from, const point_t *to, int32_t point)
{
    return (state_t){state->time_ms + (to->time_ms - from->time_ms),
                     state->bytes + (to->bytes - from->bytes), state->node, point};
}

/* `next` becomes the union of itself and of all states of `now` with this choice, both by
 * workspace, less what is beaten or hopeless once the class at `stage` is done. */
static mdnn_status_t merge(solver_t *solver, size_t stage, size_t choice)
{
    const group_t *const group = &solver->groups[solver->order[stage]];
    const point_t *const from = &group->points[group->base], *const to = &group->points[choice];
    const states_t *const now = &solver->now, *const next = &solver->next;
    const int32_t point = choice == group->base ? NO_NODE : (int32_t)choice;
    states_t *const merged = &solver->merged;

    MDNN_TRY(reserve(merged, now->count + next->count));
    merged->count = 0;
    size_t i = 0, k = 0;
    while (i < now->count || k < next->count) {
        state_t moved = {0};
        bool take_moved = i < now->count;
        if (take_moved) {
            moved = shifted(&now->at[i], from, to, point);
            take_moved = k == next->count || moved.bytes < next->at[k].bytes ||
                         (moved.bytes == next->at[k].bytes && moved.time_ms < next->at[k].time_ms);
        }
        append(solver, merged, stage + 1, take_moved ? &moved : &next->at[k]);
        i += take_moved;
        k += !take_moved;
    }
    const states_t swap = solver->next;
    solver->next = *merged;
    *merged = swap;
    return MDNN_STATUS_OK;
}

static bool is_over(const solver_t *solver)
{
    struct timespec now;
    if (!solver->has_end)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > solver->end.tv_sec ||
           (now.tv_sec == solver->end.tv_sec && now.tv_nsec >= solver->end.tv_nsec);
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Keeps the most promising states; what is lost costs the proof. */
static mdnn_status_t thin_out(solver_t *solver, size_t stage)
{
    states_t *const states = &solver->next;
    if (states->count <= solver->most_states)
        return MDNN_STATUS_OK;
    double *const bounds = calloc(states->count, sizeof *bounds);
    if (!bounds)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < states->count; i++)
        bounds[i] = bound(solver, stage, states->at[i].time_ms, states->at[i].bytes);
    qsort(bounds, states->count, sizeof *bounds, compare_doubles);
    const double limit_ms = bounds[solver->most_states / 2];
    free(bounds);
    size_t kept = 0;
    for (size_t i = 0; i < states->count && kept < solver->most_states; i++)
        if (bound(solver, stage, states->at[i].time_ms, states->at[i].bytes) <= limit_ms)
            states->at[kept++] = states->at[i];
    states->count = kept;
    solver->cut_short = true;
    return MDNN_STATUS_OK;
}

static mdnn_status_t add_node(solver_t *solver, state_t *state, size_t k)
{
    if (solver->node_count == solver->node_capacity) {
        const size_t capacity = solver->node_capacity ? 2 * solver->node_capacity : 1024;
        node_t *const grown = reallocarray(solver->nodes, capacity, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        solver->nodes = grown;
        solver->node_capacity = capacity;
    }
    solver->nodes[solver->node_count] = (node_t){state->node, (uint32_t)k, (uint32_t)state->point};
    state->node = (int32_t)solver->node_count++;
    state->point = NO_NODE;
    return MDNN_STATUS_OK;
}

/* Gives the new choices their nodes and takes the best solution among the states. */
static mdnn_status_t settle(solver_t *solver, size_t stage)
{
    for (size_t i = 0; i < solver->next.count; i++) {
        state_t *const state = &solver->next.at[i];
        if (state->point != NO_NODE)
            MDNN_TRY(add_node(solver, state, solver->order[stage]));
        if (state->bytes <= solver->capacity_bytes && state->time_ms < solver->best_ms) {
            solver->best_ms = state->time_ms;
            solver->best_node = state->node;
            solver->best_is_node = true;
        }
    }
    const states_t swap = solver->now;
    solver->now = solver->next;
    solver->next = swap;
    solver->next.count = 0;
    return MDNN_STATUS_OK;
}

/* No state that takes this point can beat the best: reduced costs of the relaxation only add up. */
static bool is_settled(const solver_t *solver, const group_t *group, size_t choice)
{
    const point_t *const from = &group->points[group->base], *const to = &group->points[choice];
    return is_hopeless(solver, relaxed_ms(solver) + to->time_ms - from->time_ms +
                                   solver->slope * (double)(to->bytes - from->bytes));
}

static mdnn_status_t run_program(solver_t *solver)
{
    MDNN_TRY(order_groups(solver));
    MDNN_TRY(reserve(&solver->now, 1));
    solver->now.at[0] = (state_t){solver->base_ms, solver->base_bytes, NO_NODE, NO_NODE};
    solver->now.count = 1;
    for (size_t stage = 0; stage < solver->group_count && solver->now.count > 0; stage++) {
        const group_t *const group = &solver->groups[solver->order[stage]];
        for (size_t choice = 0; choice < group->count; choice++) {
            if (choice != group->base && is_settled(solver, group, choice))
                continue;
            if (is_over(solver) || solver->node_count > solver->most_nodes) {
                solver->cut_short = true;
                return MDNN_STATUS_OK;
            }
            MDNN_TRY(merge(solver, stage, choice));
            MDNN_TRY(thin_out(solver, stage + 1));
        }
        MDNN_TRY(settle(solver, stage));
    }
    return MDNN_STATUS_OK;
}

/* ---- all of it ---- */

static void publish(solver_t *solver, size_t *choices, mdnn_knapsack_result_t *result)
{
    if (solver->best_is_node) {
        for (size_t k = 0; k < solver->group_count; k++)
            solver->best[k] = solver->groups[k].base;
        for (int32_t i = solver->best_node; i != NO_NODE; i = solver->nodes[i].parent)
            solver->best[solver->nodes[i].group] = solver->nodes[i].point;
    }
    *result = (mdnn_knapsack_result_t){.optimal = !solver->cut_short};
    for (size_t k = 0; k < solver->group_count; k++) {
        const point_t *const point = &solver->groups[k].points[solver->best[k]];
        choices[k] = point->item;
        result->time_ms += point->time_ms;
        result->workspace_bytes += (uint64_t)point->bytes;
    }
    const double relaxed = relaxed_ms(solver);
    result->bound_ms = result->optimal || relaxed > result->time_ms ? result->time_ms : relaxed;
}

static void set_limits(solver_t *solver, const mdnn_knapsack_limits_t *limits)
{
    solver->most_states = limits && limits->states ? limits->states : DEFAULT_STATES;
    if (solver->most_states > INT32_MAX / (2 * NODES_PER_STATE))
        solver->most_states = INT32_MAX / (2 * NODES_PER_STATE);
    solver->most_nodes = solver->most_states * NODES_PER_STATE;
    if (!limits || !(limits->time_ms > 0) || limits->time_ms > 1e12)
        return;
    solver->has_end = true;
    clock_gettime(CLOCK_MONOTONIC, &solver->end);
    const double seconds = floor(limits->time_ms / 1e3);
    solver->end.tv_sec += (time_t)seconds;
    solver->end.tv_nsec += (long)((limits->time_ms - seconds * 1e3) * 1e6);
    if (solver->end.tv_nsec >= 1000000000) {
        solver->end.tv_sec++;
        solver->end.tv_nsec -= 1000000000;
    }
}

static void fini(solver_t *solver)
{
    free(solver->groups);
    free(solver->points);
    free(solver->edges);
    free(solver->order);
    free(solver->up);
    free(solver->down);
    free(solver->best);
    free(solver->now.at);
    free(solver->next.at);
    free(solver->merged.at);
    free(solver->nodes);
}

static mdnn_status_t solve(solver_t *solver, const mdnn_knapsack_class_t *classes, size_t count)
{
    MDNN_TRY(load_classes(solver, classes, count));
    MDNN_TRY(relax(solver));
    fill_up(solver);
    if (solver->slope > 0 && !is_hopeless(solver, relaxed_ms(solver)))
        MDNN_TRY(run_program(solver));
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_knapsack_solve(const mdnn_knapsack_class_t *classes, size_t class_count,
                                  uint64_t capacity_bytes, const mdnn_knapsack_limits_t *limits,
                                  size_t *choices, mdnn_knapsack_result_t *result)
{
    solver_t solver = {.capacity_bytes =
                           (int64_t)(capacity_bytes < most_bytes ? capacity_bytes : most_bytes)};
    set_limits(&solver, limits);
    const mdnn_status_t status = solve(&solver, classes, class_count);
    if (status == MDNN_STATUS_OK)
        publish(&solver, choices, result);
    fini(&solver);
    return status;
}
