#include "offload/plan/period_text.h"

#include <inttypes.h>
#include <math.h>

#include "offload/plan/period_words.h"

static mdnn_status_t add_range(mdnn_text_t *text, const mdnn_period_range_t *range)
{
    MDNN_TRY(mdnn_range_is_permanent(range)
                 ? mdnn_text_add(text, "range %" PRIu64 " always", range->bytes)
                 : mdnn_text_add(text, "range %" PRIu64 " %" PRIu32 " %" PRIu32, range->bytes,
                                 range->birth, range->death));
    if (range->stays)
        MDNN_TRY(mdnn_text_add(text, " stays"));
    if (range->padding_bytes > 0)
        MDNN_TRY(mdnn_text_add(text, " padding %" PRIu64, range->padding_bytes));
    return mdnn_text_add(text, "\n");
}

static mdnn_status_t add_operation(mdnn_text_t *text, const mdnn_period_t *period,
                                   uint32_t position)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    MDNN_TRY(mdnn_text_add(text, "operation %s %" PRIu32 " %" PRIx64 " %" PRIu32 " %" PRIu32 "\n",
                           kinds[operation->kind], operation->stream, operation->key,
                           operation->use_count, operation->variant_count));
    for (uint32_t u = 0; u < operation->use_count; u++) {
        const mdnn_use_t *const use = &period->uses[operation->first_use + u];
        MDNN_TRY(mdnn_text_add(text, "use %" PRIu32 " %s\n", use->range, roles[use->role]));
    }
    for (uint32_t v = 0; v < operation->variant_count; v++) {
        const mdnn_variant_t *const variant = &period->variants[operation->first_variant + v];
        if (!(variant->time_us >= 0 && variant->time_us <= most_us))
            return MDNN_STATUS_INVALID_ARGUMENT;
        const uint64_t parts = (uint64_t)llround(variant->time_us * (double)parts_per_us);
        MDNN_TRY(mdnn_text_add(text, "variant %" PRIu64 ".%06" PRIu64 " %" PRIu64 "\n",
                               parts / parts_per_us, parts % parts_per_us,
                               variant->workspace_bytes));
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_period_write(const mdnn_period_t *period, mdnn_text_t *text)
{
    MDNN_TRY(mdnn_text_add(text, PERIOD_HEAD "\nranges %" PRIu32 "\n", period->range_count));
    for (uint32_t r = 0; r < period->range_count; r++)
        MDNN_TRY(add_range(text, &period->ranges[r]));
    MDNN_TRY(mdnn_text_add(text, "operations %" PRIu32 "\n", period->operation_count));
    for (uint32_t i = 0; i < period->operation_count; i++)
        MDNN_TRY(add_operation(text, period, i));
    return mdnn_text_add(text, "end\n");
}
