/* Prints, as JSON, what could be remade in the iteration of a record (offload/remake/survey.h):
 *
 *   remake_survey RECORD [GIB...]
 *
 * For each way to assume what operations write: the bytes of the gaps over the peak by what deriving a GiB of them takes,
 * and what an iteration would need within so many GiB (without any: within 90 % to 30 % of its peak). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/remake/survey.h"
#include "test/tools/record_file.h"

enum { LEAST_BYTES = 1 << 20, BANDS = 7 };
static const double gib = (double)(1 << 30);
/* ms per GiB; the last one has what costs more, or cannot be derived. */
static const double bands[BANDS] = {0.5, 1, 2, 4, 8, 16, 32};

static bool is_over(const mdnn_survey_gap_t *gap, const mdnn_survey_t *survey, uint32_t operations)
{
    const int64_t peak = survey->peak, next = peak + operations;
    return (gap->gap.from < peak && peak < gap->gap.to) ||
           (gap->gap.from < next && next < gap->gap.to);
}

static uint32_t band_of(const mdnn_survey_gap_t *gap)
{
    uint32_t band = 0;
    if (gap->time_us < 0)
        return BANDS;
    while (band < BANDS && gap->time_us / 1000 > bands[band] * (double)gap->bytes / gib)
        band++;
    return band;
}

static void print_bands(const mdnn_survey_t *survey, uint32_t operations)
{
    uint64_t bytes[BANDS + 1] = {0};
    double time_us[BANDS + 1] = {0};
    for (size_t i = 0; i < survey->count; i++)
        if (is_over(&survey->gaps[i], survey, operations)) {
            const uint32_t band = band_of(&survey->gaps[i]);
            bytes[band] += survey->gaps[i].bytes;
            time_us[band] += survey->gaps[i].time_us > 0 ? survey->gaps[i].time_us : 0;
        }
    printf("\"bands\":[");
    for (uint32_t band = 0; band <= BANDS; band++) {
        printf("%s{\"most\":", band > 0 ? "," : "");
        if (band < BANDS)
            printf("%.1f", bands[band]);
        else
            printf("null");
        printf(",\"bytes\":%" PRIu64 ",\"ms\":%.3f}", bytes[band], time_us[band] / 1000);
    }
    printf("]");
}

static mdnn_status_t print_run(const mdnn_run_record_t *record, mdnn_survey_roles_t roles,
                               const mdnn_survey_t *survey, uint64_t budget)
{
    const double link_us_per_byte =
        1 / record->link.out_bytes_per_us + 1 / record->link.in_bytes_per_us;
    mdnn_survey_run_t run;
    MDNN_TRY(mdnn_survey_run(&record->period, roles, survey, budget, link_us_per_byte, &run));
    printf("{\"budget\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"dropped\":%u,\"dropped_bytes\":%" PRIu64
           ",\"kept_bytes\":%" PRIu64 ",\"steps\":%u,\"early\":%u,\"ms\":%.3f}",
           budget, run.peak_bytes, run.dropped, run.dropped_bytes, run.kept_bytes, run.steps,
           run.early, run.rerun_us / 1000);
    return MDNN_STATUS_OK;
}

static mdnn_status_t print_roles(const mdnn_run_record_t *record, mdnn_survey_roles_t roles,
                                 const char *const *budgets, int count)
{
    mdnn_survey_t survey;
    mdnn_status_t status = mdnn_survey(&record->period, roles, LEAST_BYTES, &survey);
    if (status != MDNN_STATUS_OK)
        return status;
    printf(",\"%s\":{", roles == MDNN_SURVEY_GUESS ? "guess" : "cautious");
    print_bands(&survey, record->period.operation_count);
    printf(",\"peak\":%" PRIu64 ",\"ms\":%.3f,\"runs\":[", survey.peak_bytes,
           survey.compute_us / 1000);
    for (int i = 0; status == MDNN_STATUS_OK && i < (count > 0 ? count : 7); i++) {
        const uint64_t budget = count > 0 ? (uint64_t)(atof(budgets[i]) * gib)
                                          : survey.peak_bytes / 10 * (uint64_t)(9 - i);
        printf("%s", i > 0 ? "," : "");
        status = print_run(record, roles, &survey, budget);
    }
    printf("]}");
    mdnn_survey_fini(&survey);
    return status;
}

static void print_text(const char *name, const char *text)
{
    printf("\"%s\":\"", name);
    for (; *text; text++)
        putchar(*text == '"' || *text == '\\' ? '\'' : *text);
    printf("\",");
}

int main(int argc, char **argv)
{
    mdnn_run_record_t record = {0};
    if (argc < 2) {
        fputs("usage: remake_survey RECORD [GIB...]\n", stderr);
        return 2;
    }
    if (!record_file_read("remake_survey", argv[1], &record))
        return 1;
    printf("{");
    print_text("program", record.program);
    print_text("device", record.device_name);
    printf("\"simulated\":%s,\"operations\":%u,\"link\":[%.0f,%.0f]",
           record.simulated ? "true" : "false", record.period.operation_count,
           record.link.out_bytes_per_us, record.link.in_bytes_per_us);
    mdnn_status_t status = MDNN_STATUS_OK;
    for (int roles = MDNN_SURVEY_CAUTIOUS; roles <= MDNN_SURVEY_GUESS; roles++)
        if (status == MDNN_STATUS_OK)
            status = print_roles(&record, (mdnn_survey_roles_t)roles, (const char *const *)argv + 2,
                                 argc - 2);
    printf("}\n");
    mdnn_period_fini(&record.period);
    if (status != MDNN_STATUS_OK)
        fprintf(stderr, "remake_survey: %s\n", mdnn_status_string(status));
    return status == MDNN_STATUS_OK ? 0 : 1;
}
