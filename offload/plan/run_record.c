#include "offload/plan/run_record.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/text.h"
#include "offload/plan/period_text.h"

static const double most = 1e12;

/* A rate of the link is a whole number, so that no locale gets in the way. */
static uint64_t whole(double value)
{
    return value > 1 ? (uint64_t)llround(value) : 1;
}

static mdnn_status_t add_name(mdnn_text_t *text, const char *before, const char *name)
{
    char plain[MDNN_RECORD_NAME_BYTES];
    size_t used = 0;
    for (; name[used] != '\0' && used + 1 < sizeof plain; used++)
        plain[used] = name[used] >= 0x20 && name[used] < 0x7f ? name[used] : '?';
    plain[used] = '\0';
    return mdnn_text_add(text, "%s%s\n", before, plain);
}

static mdnn_status_t add_head(mdnn_text_t *text, const mdnn_run_record_t *record)
{
    const mdnn_link_t *const link = &record->link;
    char device[32];
    snprintf(device, sizeof device, "device %d ", record->device);
    MDNN_TRY(add_name(text, "microdnn-record " MDNN_RECORD_VERSION "\nprogram ", record->program));
    MDNN_TRY(add_name(text, device, record->device_name));
    MDNN_TRY(mdnn_text_add(text, "simulated %s\ntotal %" PRIu64 "\nbudget %" PRIu64 "\n",
                           record->simulated ? "yes" : "no", record->total_bytes,
                           record->budget_bytes));
    MDNN_TRY(mdnn_text_add(text, "ranges %" PRIu64 "\nchunk %" PRIu64 "\n", record->ranges_bytes,
                           record->chunk_bytes));
    return mdnn_text_add(text, "link %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                         whole(link->out_bytes_per_us), whole(link->in_bytes_per_us),
                         whole(link->out_duplex_bytes_per_us), whole(link->in_duplex_bytes_per_us),
                         (uint64_t)llround(link->latency_us));
}

static bool can_be_written(const mdnn_link_t *link)
{
    const double rates[] = {link->out_bytes_per_us, link->in_bytes_per_us,
                            link->out_duplex_bytes_per_us, link->in_duplex_bytes_per_us,
                            link->latency_us};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!(rates[i] >= 0 && rates[i] <= most))
            return false;
    return true;
}

mdnn_status_t mdnn_run_record_write(const mdnn_run_record_t *record, char **text, size_t *bytes)
{
    mdnn_text_t made = {0};
    if (!can_be_written(&record->link))
        return MDNN_STATUS_INVALID_ARGUMENT;
    mdnn_status_t status = add_head(&made, record);
    if (status == MDNN_STATUS_OK)
        status = mdnn_period_write(&record->period, &made);
    if (status != MDNN_STATUS_OK) {
        free(made.bytes);
        return status;
    }
    *text = made.bytes;
    *bytes = made.used;
    return MDNN_STATUS_OK;
}
