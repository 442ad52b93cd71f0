/* The Pareto front of configurations over workspace. */
#include "optimizer/front.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mdnn_front {
    double adoption_margin;
    mdnn_configuration_t *points; /* splits own their parts; others point into undivided_parts */
    size_t count, capacity;
    mdnn_configuration_t *undivided; /* workspace ascending, time strictly descending */
    mdnn_micro_config_t *undivided_parts;
    size_t undivided_count;
};

/* Last of `points` (workspace ascending) within the limit; NULL if none. */
static const mdnn_configuration_t *last_within(const mdnn_configuration_t *points, size_t count,
                                               uint64_t limit_bytes)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (points[middle].workspace_bytes <= limit_bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &points[low - 1] : NULL;
}

mdnn_status_t mdnn_front_create(int64_t batch, const mdnn_cost_list_t *undivided,
                                double adoption_margin, mdnn_front_t **front)
{
    const size_t count = undivided->count;
    mdnn_front_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;

    made->adoption_margin = adoption_margin;
    if (count > 0) {
        made->undivided = calloc(count, sizeof *made->undivided);
        made->undivided_parts = calloc(count, sizeof *made->undivided_parts);
        if (!made->undivided || !made->undivided_parts) {
            mdnn_front_destroy(made);
            return MDNN_STATUS_OUT_OF_MEMORY;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const mdnn_cost_t *const cost = &undivided->costs[i];
        made->undivided_parts[i] = (mdnn_micro_config_t){batch, *cost};
        made->undivided[i] = (mdnn_configuration_t){cost->time_ms, cost->workspace_bytes, 1,
                                                    &made->undivided_parts[i]};
    }
    made->undivided_count = count;
    *front = made;
    return MDNN_STATUS_OK;
}

void mdnn_front_destroy(mdnn_front_t *front)
{
    if (!front)
        return;
    for (size_t i = 0; i < front->count; i++)
        if (front->points[i].part_count > 1)
            free(front->points[i].parts);
    free(front->points);
    free(front->undivided);
    free(front->undivided_parts);
    free(front);
}

bool mdnn_front_admits(const mdnn_front_t *front, double time_ms, uint64_t workspace_bytes)
{
    const mdnn_configuration_t *const whole =
        last_within(front->undivided, front->undivided_count, workspace_bytes);
    return !whole || time_ms < (1 - front->adoption_margin) * whole->time_ms;
}

static mdnn_status_t add_point(mdnn_front_t *front, const mdnn_configuration_t *point)
{
    if (front->count == front->capacity) {
        const size_t capacity = front->capacity ? 2 * front->capacity : 16;
        mdnn_configuration_t *const grown =
            reallocarray(front->points, capacity, sizeof *front->points);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        front->points = grown;
        front->capacity = capacity;
    }
    front->points[front->count++] = *point;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_front_add_split(mdnn_front_t *front, const mdnn_configuration_t *split)
{
    return add_point(front, split);
}

/* No two are equal: an admitted split is faster than every undivided one in its workspace. */
static int compare_points(const void *left, const void *right)
{
    const mdnn_configuration_t *const a = left;
    const mdnn_configuration_t *const b = right;

    if (a->workspace_bytes != b->workspace_bytes)
        return a->workspace_bytes < b->workspace_bytes ? -1 : 1;
    return (a->time_ms > b->time_ms) - (a->time_ms < b->time_ms);
}

mdnn_status_t mdnn_front_finish(mdnn_front_t *front)
{
    for (size_t i = 0; i < front->undivided_count; i++)
        MDNN_TRY(add_point(front, &front->undivided[i]));
    if (front->count > 1)
        qsort(front->points, front->count, sizeof *front->points, compare_points);

    size_t kept = 0;
    for (size_t i = 0; i < front->count; i++) {
        if (kept == 0 || front->points[i].time_ms < front->points[kept - 1].time_ms)
            front->points[kept++] = front->points[i];
        else if (front->points[i].part_count > 1)
            free(front->points[i].parts);
    }
    front->count = kept;
    return MDNN_STATUS_OK;
}

size_t mdnn_front_count(const mdnn_front_t *front)
{
    return front->count;
}

const mdnn_configuration_t *mdnn_front_at(const mdnn_front_t *front, size_t index)
{
    return index < front->count ? &front->points[index] : NULL;
}

const mdnn_configuration_t *mdnn_front_best(const mdnn_front_t *front, uint64_t limit_bytes)
{
    const mdnn_configuration_t *const best = last_within(front->points, front->count, limit_bytes);
    if (!best || best->part_count == 1 || mdnn_front_admits(front, best->time_ms, limit_bytes))
        return best;
    return mdnn_front_best_undivided(front, limit_bytes);
}

const mdnn_configuration_t *mdnn_front_best_undivided(const mdnn_front_t *front,
                                                      uint64_t limit_bytes)
{
    return last_within(front->undivided, front->undivided_count, limit_bytes);
}

/* Appends at *used, which stops at the end of the buffer. */
__attribute__((format(printf, 4, 5))) static void append(char *buffer, size_t bytes, size_t *used,
                                                         const char *format, ...)
{
    if (*used >= bytes)
        return;
    va_list arguments;
    va_start(arguments, format);
    const int written = vsnprintf(buffer + *used, bytes - *used, format, arguments);
    va_end(arguments);
    *used = written < 0 || (size_t)written >= bytes - *used ? bytes : *used + (size_t)written;
}

static size_t run_length(const mdnn_configuration_t *configuration, size_t begin)
{
    const mdnn_micro_config_t *const parts = configuration->parts;
    size_t end = begin + 1;
    while (end < configuration->part_count && parts[end].images == parts[begin].images &&
           parts[end].cost.algo == parts[begin].cost.algo &&
           parts[end].cost.math_type == parts[begin].cost.math_type &&
           memcmp(&parts[end].cost.engine, &parts[begin].cost.engine,
                  sizeof parts[end].cost.engine) == 0)
        end++;
    return end - begin;
}

/* Algorithms by their number, engines as "e12". */
static void append_part(char *buffer, size_t bytes, size_t *used, const mdnn_micro_config_t *part)
{
    const bool is_engine = part->cost.algo >= MDNN_ALGO_ENGINE;
    append(buffer, bytes, used, "%" PRId64 " @ %s%" PRId32, part->images, is_engine ? "e" : "",
           is_engine ? part->cost.engine.id : part->cost.algo);
}

void mdnn_configuration_format(const mdnn_configuration_t *configuration, char *buffer,
                               size_t bytes)
{
    if (bytes == 0)
        return;
    buffer[0] = '\0';
    size_t used = 0;
    for (size_t i = 0, run; i < configuration->part_count && used < bytes; i += run) {
        const mdnn_micro_config_t *const part = &configuration->parts[i];
        run = run_length(configuration, i);
        append(buffer, bytes, &used, "%s", i ? " + " : "");
        if (run > 1)
            append(buffer, bytes, &used, "%zu x ", run);
        append_part(buffer, bytes, &used, part);
    }
}
