/* Writes the record of a run that `microdnn advise` and `microdnn report` can show, on standard output:
 *
 *   sample_record vgg16 | resnet50 IMAGES GIB
 *
 * Periods as the unit tests have them, on an H200 with its measured link, in a budget of so many GiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/run_record.h"
#include "test/unit/resnet50_period.h"
#include "test/unit/vgg16_period.h"

static random_period_t instance;

int main(int argc, char **argv)
{
    const double images = argc == 4 ? atof(argv[2]) : 0, gib = argc == 4 ? atof(argv[3]) : 0;
    if (!(images >= 1) || !(gib > 0)) {
        fputs("usage: sample_record vgg16 | resnet50 IMAGES GIB\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "vgg16") == 0)
        vgg16_fill(&instance, images, 55000 * images / 256, 122000 * images / 256);
    else
        resnet50_fill(&instance, (uint64_t)images, 150000 * images / 256);
    const uint64_t budget_bytes = (uint64_t)(gib * (1 << 30)), own_bytes = (uint64_t)200 << 20;
    mdnn_run_record_t record = {.device_name = "NVIDIA H200",
                                .simulated = true,
                                .total_bytes = (uint64_t)139 << 30,
                                .budget_bytes = budget_bytes,
                                .ranges_bytes =
                                    budget_bytes > own_bytes ? budget_bytes - own_bytes : 0,
                                .chunk_bytes = 8 << 20,
                                .link = {54000, 55000, 50500, 50500, 100},
                                .period = instance.period};
    char *text;
    size_t bytes;
    snprintf(record.program, sizeof record.program, "%.90s", argv[1]);
    if (mdnn_run_record_write(&record, &text, &bytes) != MDNN_STATUS_OK)
        return 1;
    fwrite(text, 1, bytes, stdout);
    free(text);
    return 0;
}
