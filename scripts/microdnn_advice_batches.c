/* How many images fit: the recorded iteration with its memory scaled. */
#include <stdlib.h>
#include <string.h>

#include "scripts/microdnn_advice.h"

/* Chen 2019, section 5.1.2: this share of the operations must fit together. */
static const double ALPHA = 0.15;
enum { MOST_IMAGES = 1 << 20 };

/* The iteration with `batch` images in place of `recorded`. */
typedef struct scaled {
    const mdnn_period_t *period;
    bool *constant;  /* of each range: whether its size does not depend on the batch */
    uint32_t *named; /* of each range: how many operations of the window name it; scratch */
    uint32_t *stays; /* the ranges that may not leave */
    uint32_t stay_count;
    uint32_t batch, recorded;
} scaled_t;

static int compare_sizes(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* What convolutions read going forward is of the batch, even if it lives always. */
static void find_inputs(scaled_t *scaled)
{
    const mdnn_period_t *const period = scaled->period;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        if (operation->kind == MDNN_OPERATION_FORWARD && operation->use_count > 0)
            scaled->constant[period->uses[operation->first_use].range] = false;
    }
}

/* Constant is what lives always, and what is as large as something that does. */
static mdnn_status_t sort_out(scaled_t *scaled)
{
    const mdnn_period_t *const period = scaled->period;
    uint64_t *const sizes = calloc((size_t)period->range_count + 1, sizeof *sizes);
    size_t count = 0;
    if (!sizes)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t r = 0; r < period->range_count; r++)
        if (mdnn_range_is_permanent(&period->ranges[r]))
            sizes[count++] = period->ranges[r].bytes;
    qsort(sizes, count, sizeof *sizes, compare_sizes);
    for (uint32_t r = 0; r < period->range_count; r++) {
        scaled->constant[r] =
            bsearch(&period->ranges[r].bytes, sizes, count, sizeof *sizes, compare_sizes) != NULL;
        if (period->ranges[r].stays)
            scaled->stays[scaled->stay_count++] = r;
    }
    find_inputs(scaled);
    free(sizes);
    return MDNN_STATUS_OK;
}

static double scale(const scaled_t *scaled, uint64_t bytes)
{
    return (double)bytes * scaled->batch / scaled->recorded;
}

static double range_bytes(const scaled_t *scaled, uint32_t range)
{
    const uint64_t bytes = scaled->period->ranges[range].bytes;
    return scaled->constant[range] ? (double)bytes : scale(scaled, bytes);
}

static double workspace_bytes(const scaled_t *scaled, uint32_t position)
{
    const mdnn_operation_t *const operation = &scaled->period->operations[position];
    return scale(scaled, scaled->period->variants[operation->first_variant].workspace_bytes);
}

/* Of operations beside all that lives always. */
static double weights(const scaled_t *scaled)
{
    double sum = 0;
    for (uint32_t r = 0; r < scaled->period->range_count; r++)
        if (mdnn_range_is_permanent(&scaled->period->ranges[r]))
            sum += range_bytes(scaled, r);
    return sum;
}

/* Adds the operation to the window (or takes it out): what is named twice counts once. */
static double enter(scaled_t *scaled, uint32_t position, bool in)
{
    const mdnn_operation_t *const operation = &scaled->period->operations[position];
    double change = 0;
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const uint32_t range = scaled->period->uses[operation->first_use + u].range;
        const bool counts = in ? scaled->named[range]++ == 0 : --scaled->named[range] == 0;
        if (counts && !mdnn_range_is_permanent(&scaled->period->ranges[range]))
            change += in ? range_bytes(scaled, range) : -range_bytes(scaled, range);
    }
    return change;
}

/* Equation 8, with the workspace of the largest operation. */
static double smooth_bytes(scaled_t *scaled)
{
    const uint32_t count = scaled->period->operation_count;
    const uint32_t share = (uint32_t)(ALPHA * count), window = share > 1 ? share : 1;
    double held = 0, most = 0, workspace = 0;
    memset(scaled->named, 0, scaled->period->range_count * sizeof *scaled->named);
    for (uint32_t i = 0; i < count; i++) {
        held += enter(scaled, i, true);
        if (i >= window)
            held += enter(scaled, i - window, false);
        most = held > most ? held : most;
        workspace = workspace_bytes(scaled, i) > workspace ? workspace_bytes(scaled, i) : workspace;
    }
    return most + workspace + weights(scaled);
}

/* Equation 6 of the largest operation, beside what may not leave then. */
static double least_bytes(scaled_t *scaled)
{
    const mdnn_period_t *const period = scaled->period;
    double most = 0;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        double bytes = workspace_bytes(scaled, i);
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const uint32_t range = period->uses[operation->first_use + u].range;
            bytes += period->ranges[range].stays ? 0 : range_bytes(scaled, range);
        }
        for (uint32_t s = 0; s < scaled->stay_count; s++)
            if (mdnn_range_lives_at(&period->ranges[scaled->stays[s]], i))
                bytes += range_bytes(scaled, scaled->stays[s]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The largest batch for which `bytes_of` is within the budget; it grows with the batch. */
static uint32_t largest(scaled_t *scaled, double (*bytes_of)(scaled_t *), double budget)
{
    uint32_t good = 0, bad = MOST_IMAGES;
    while (bad - good > 1) {
        scaled->batch = good + (bad - good) / 2;
        if (bytes_of(scaled) <= budget)
            good = scaled->batch;
        else
            bad = scaled->batch;
    }
    return good;
}

/* Whether a part of what operations name depends on the batch. A program that allocates everything once hides that. */
static bool depends_on_batch(const scaled_t *scaled)
{
    static const double LEAST_SHARE = 0.1;
    const mdnn_period_t *const period = scaled->period;
    double all = 0, depends = 0;
    for (uint32_t r = 0; r < period->range_count; r++) {
        all += (double)period->ranges[r].bytes;
        depends += scaled->constant[r] ? 0 : (double)period->ranges[r].bytes;
    }
    return depends > LEAST_SHARE * all;
}

mdnn_status_t tool_advice_batches(const tool_advice_t *advice, uint64_t budget_bytes,
                                  tool_batches_t *batches)
{
    const mdnn_period_t *const period = &advice->record->period;
    const size_t count = (size_t)period->range_count + 1;
    scaled_t scaled = {.period = period,
                       .constant = calloc(count, sizeof *scaled.constant),
                       .named = calloc(count, sizeof *scaled.named),
                       .stays = calloc(count, sizeof *scaled.stays),
                       .recorded = advice->batch};
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (scaled.constant && scaled.named && scaled.stays)
        status = sort_out(&scaled);
    *batches = (tool_batches_t){0};
    if (status == MDNN_STATUS_OK && depends_on_batch(&scaled)) {
        const double budget = (double)budget_bytes - (double)advice->own_bytes;
        *batches = (tool_batches_t){.largest = largest(&scaled, least_bytes, budget),
                                    .smooth = largest(&scaled, smooth_bytes, budget)};
    }
    free(scaled.constant);
    free(scaled.named);
    free(scaled.stays);
    return status;
}
