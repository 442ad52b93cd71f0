/* What budgets cost: the recorded iteration is planned again for each. */
#include "scripts/microdnn_advice.h"

#include <math.h>
#include <stdlib.h>

#include "config/sizes.h"
#include "offload/plan/certificate.h"
#include "offload/plan/planner.h"

mdnn_status_t tool_advice_init(tool_advice_t *advice, const mdnn_run_record_t *record)
{
    const mdnn_period_t *const period = &record->period;
    const mdnn_schedule_t still = {0};
    uint64_t *const resident = calloc((size_t)period->operation_count + 1, sizeof *resident);
    *advice = (tool_advice_t){.record = record,
                              .scale = 1,
                              .own_bytes = record->budget_bytes - record->ranges_bytes,
                              .compute_ms = mdnn_period_compute_us(period, NULL) / 1e3};
    if (!resident)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_schedule_resident_bytes(period, &still, resident);
    for (uint32_t i = 0; i < period->operation_count; i++)
        if (resident[i] > advice->peak_bytes)
            advice->peak_bytes = resident[i];
    free(resident);
    advice->peak_bytes += advice->own_bytes;
    MDNN_TRY(mdnn_period_floor(period, &advice->floor_bytes));
    advice->floor_bytes += advice->own_bytes;
    return MDNN_STATUS_OK;
}

void tool_advice_fini(tool_advice_t *advice)
{
    free(advice->rows);
    *advice = (tool_advice_t){0};
}

mdnn_status_t tool_advice_plan(const tool_advice_t *advice, const mdnn_period_t *period,
                               const mdnn_link_t *link, uint64_t budget_bytes, mdnn_parts_t *parts,
                               mdnn_move_plan_t *plan)
{
    const uint64_t own = advice->own_bytes;
    const mdnn_best_plan_request_t request = {
        .plan = {.period = period,
                 .policy = MDNN_POLICY_AUTO,
                 .variants = MDNN_VARIANTS_RECORDED,
                 .link = *link,
                 .budget_bytes = budget_bytes > own ? budget_bytes - own : 0,
                 .host_limit_bytes = UINT64_MAX},
        .chunk_bytes = mdnn_chunk_bytes(budget_bytes, 0)};
    return mdnn_best_plan(&request, parts, plan);
}

/* Room for one more row; NULL without memory. */
static tool_advice_row_t *new_row(tool_advice_t *advice)
{
    if (advice->count == advice->capacity) {
        const size_t capacity = advice->capacity ? 2 * advice->capacity : 16;
        tool_advice_row_t *const grown = reallocarray(advice->rows, capacity, sizeof *advice->rows);
        if (!grown)
            return NULL;
        advice->rows = grown;
        advice->capacity = capacity;
    }
    advice->rows[advice->count] = (tool_advice_row_t){0};
    return &advice->rows[advice->count];
}

static mdnn_status_t add_row(tool_advice_t *advice, const tool_gpu_t *gpu,
                             const mdnn_period_t *period, const mdnn_link_t *link,
                             uint64_t budget_bytes)
{
    tool_advice_row_t *const row = new_row(advice);
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    tool_batches_t batches = {0};
    if (!row)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (advice->batch > 0)
        MDNN_TRY(tool_advice_batches(advice, budget_bytes, &batches));
    double bound_us;
    MDNN_TRY(mdnn_link_bound(period, link, budget_bytes, advice->record->chunk_bytes, &bound_us));
    MDNN_TRY(tool_advice_plan(advice, period, link, budget_bytes, &parts, &plan));
    *row = (tool_advice_row_t){.gpu = gpu,
                               .budget_bytes = budget_bytes,
                               .verdict = plan.verdict,
                               .needed_bytes = plan.floor_bytes + advice->own_bytes,
                               .compute_ms = mdnn_period_compute_us(period, NULL) / 1e3,
                               .batch_largest = batches.largest,
                               .batch_smooth = batches.smooth};
    if (plan.verdict == MDNN_VERDICT_FITS) {
        row->ms = plan.predicted.time_us / 1e3;
        row->wait_ms = fmax(plan.predicted.time_us - plan.predicted.compute_us, 0) / 1e3;
        row->bound_ms = bound_us / 1e3;
        row->out_bytes = plan.predicted.out_bytes;
        row->in_bytes = plan.predicted.in_bytes;
        row->host_bytes = plan.predicted.host_peak_bytes;
    }
    advice->count++;
    mdnn_parts_fini(&parts);
    mdnn_move_plan_fini(&plan);
    return MDNN_STATUS_OK;
}

mdnn_status_t tool_advice_add_budget(tool_advice_t *advice, uint64_t budget_bytes)
{
    return add_row(advice, NULL, &advice->record->period, &advice->record->link, budget_bytes);
}

/* The smallest power of two from 1 MiB on of which at most ten lie between. */
static uint64_t step_between(uint64_t least, uint64_t most)
{
    enum { ROWS = 10 };
    uint64_t step = (uint64_t)1 << 20;
    while ((most - least) / step > ROWS)
        step *= 2;
    return step;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Whole MiB, from what fits all down to the least. */
mdnn_status_t tool_advice_add_budgets(tool_advice_t *advice)
{
    const uint64_t mib = (uint64_t)1 << 20;
    const uint64_t most = round_up(advice->peak_bytes, mib);
    const uint64_t least = round_up(advice->floor_bytes, mib);
    const uint64_t step = step_between(least, most);
    MDNN_TRY(tool_advice_add_budget(advice, most));
    for (uint64_t budget = (most - 1) / step * step; budget > least; budget -= step)
        MDNN_TRY(tool_advice_add_budget(advice, budget));
    return least < most ? tool_advice_add_budget(advice, least) : MDNN_STATUS_OK;
}

static void scale_operation(mdnn_period_t *period, uint32_t position, double times)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    for (uint32_t v = 0; v < operation->variant_count; v++)
        period->variants[operation->first_variant + v].time_us *= times;
}

mdnn_status_t tool_advice_fit(mdnn_run_record_t *record, double measured_ms, double *scale)
{
    const tool_advice_t advice = {.record = record,
                                  .own_bytes = record->budget_bytes - record->ranges_bytes};
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    MDNN_TRY(tool_advice_plan(&advice, &record->period, &record->link, record->budget_bytes, &parts,
                              &plan));
    const mdnn_replay_result_t predicted = plan.predicted;
    const bool fits = plan.verdict == MDNN_VERDICT_FITS && predicted.compute_us > 0;
    mdnn_parts_fini(&parts);
    mdnn_move_plan_fini(&plan);
    *scale = fits ? (measured_ms * 1e3 - (predicted.time_us - predicted.compute_us)) /
                        predicted.compute_us
                  : 0;
    if (!(*scale > 0))
        return MDNN_STATUS_NOT_FOUND;
    for (uint32_t i = 0; i < record->period.operation_count; i++)
        scale_operation(&record->period, i, *scale);
    return MDNN_STATUS_OK;
}

/* Convolutions take longer as the arithmetic is slower, and everything else as that or the memory is, whichever is
 * slower in proportion. */
static void scale_times(mdnn_period_t *period, double arithmetic, double memory)
{
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const bool convolution = period->operations[i].kind != MDNN_OPERATION_OTHER;
        scale_operation(period, i, convolution || arithmetic > memory ? arithmetic : memory);
    }
}

mdnn_status_t tool_advice_add_gpu(tool_advice_t *advice, const tool_gpu_t *own,
                                  const tool_gpu_t *gpu)
{
    const mdnn_link_t link = tool_gpu_link(gpu, advice->record->link.latency_us);
    mdnn_period_t period;
    MDNN_TRY(mdnn_period_copy(&advice->record->period, &period));
    scale_times(&period,
                tool_gpu_tflops(own, advice->arithmetic) / tool_gpu_tflops(gpu, advice->arithmetic),
                own->memory_gb_s / gpu->memory_gb_s);
    const mdnn_status_t status = add_row(advice, gpu, &period, &link, tool_gpu_budget(gpu));
    mdnn_period_fini(&period);
    return status;
}
