#include "offload/plan/link_bound.h"

#include <math.h>
#include <stdlib.h>

/* Bytes of ranges that live at each operation: all, those that were born in this period, and of
 * these the ones that are used after it. */
typedef struct living {
    uint64_t *all, *born, *wanted;
} living_t;

static mdnn_status_t sum_living(const mdnn_period_t *period, uint32_t *last_use, living_t *living)
{
    mdnn_period_t part = *period;
    mdnn_period_live_bytes(period, living->all);
    part.ranges = calloc((size_t)period->range_count + 1, sizeof *part.ranges);
    if (!part.ranges)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < period->operation_count; i++)
        for (uint32_t u = 0; u < period->operations[i].use_count; u++)
            last_use[period->uses[period->operations[i].first_use + u].range] = i;
    for (uint32_t r = 0; r < period->range_count; r++) {
        part.ranges[r] = period->ranges[r];
        if (mdnn_range_is_permanent(&part.ranges[r]) || part.ranges[r].death < part.ranges[r].birth)
            part.ranges[r].bytes = 0;
    }
    mdnn_period_live_bytes(&part, living->born);
    /* At its last use a range is there; away before it, it must come back. */
    for (uint32_t r = 0; r < period->range_count; r++)
        if (part.ranges[r].bytes > 0)
            part.ranges[r].death = last_use[r];
    mdnn_period_live_bytes(&part, living->wanted);
    free(part.ranges);
    return MDNN_STATUS_OK;
}

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static double bound_of(const mdnn_period_t *period, const mdnn_link_t *link, uint64_t budget_bytes,
                       const living_t *living)
{
    const double out_rate = fmax(link->out_bytes_per_us, link->out_duplex_bytes_per_us);
    const double in_rate = fmax(link->in_bytes_per_us, link->in_duplex_bytes_per_us);
    double total_us = 0, before_us = 0, bound_us;
    for (uint32_t i = 0; i < period->operation_count; i++)
        total_us += period
                        ->variants[period->operations[i].first_variant +
                                   mdnn_operation_fastest(period, i, UINT64_MAX)]
                        .time_us;
    bound_us = total_us;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_variant_t *const variants =
            &period->variants[period->operations[i].first_variant];
        const double own_us = variants[mdnn_operation_fastest(period, i, UINT64_MAX)].time_us;
        const uint64_t least = variants[mdnn_operation_smallest(period, i)].workspace_bytes;
        const uint64_t away = above(living->all[i] + least, budget_bytes);
        const uint64_t out = above(away, living->all[i] - living->born[i]);
        const uint64_t in = above(away, living->all[i] - living->wanted[i]);
        const double after_us = total_us - before_us - own_us;
        const double here_us =
            fmax(before_us, (double)out / out_rate) + own_us + fmax(after_us, (double)in / in_rate);
        bound_us = fmax(bound_us, here_us);
        before_us += own_us;
    }
    return bound_us;
}

mdnn_status_t mdnn_link_bound(const mdnn_period_t *period, const mdnn_link_t *link,
                              uint64_t budget_bytes, double *bound_us)
{
    const size_t count = (size_t)period->operation_count + 1;
    living_t living = {calloc(count, sizeof *living.all), calloc(count, sizeof *living.born),
                       calloc(count, sizeof *living.wanted)};
    uint32_t *const last_use = calloc((size_t)period->range_count + 1, sizeof *last_use);
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (living.all && living.born && living.wanted && last_use)
        status = sum_living(period, last_use, &living);
    if (status == MDNN_STATUS_OK)
        *bound_us = bound_of(period, link, budget_bytes, &living);
    free(living.all);
    free(living.born);
    free(living.wanted);
    free(last_use);
    return status;
}
