/* libFuzzer: any bytes as a live file. Build and run with `make fuzz-statistics`. A short input is
 * laid over a good record, so that the fuzzer need not find the layout: the first four bytes say
 * where. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/statistics_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void print_both(const void *data, size_t bytes)
{
    for (int format = MDNN_STATISTICS_TEXT; format <= MDNN_STATISTICS_JSON; format++) {
        char *text = NULL;
        size_t text_bytes = 0;
        FILE *const out = open_memstream(&text, &text_bytes);
        (void)mdnn_statistics_print_record(data, bytes, (mdnn_statistics_format_t)format, out);
        fclose(out);
        for (size_t i = 0; i < text_bytes; i++) {
            const unsigned char c = (unsigned char)text[i];
            if ((c < 0x20 && c != '\n') || c == 0x7f)
                abort();
        }
        free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mdnn_statistics_region_t good;
    print_both(data, bytes);
    if (bytes < 5)
        return 0;
    memset(&good, 0, sizeof good);
    mdnn_statistics_region_init(&good);
    good.header.rows_taken = 2;
    good.rows[0].sequence = 2;
    good.rows[1].sequence = 2;
    uint32_t place;
    memcpy(&place, data, sizeof place);
    const size_t payload = bytes - sizeof place;
    /* Mostly the header and the first rows, where the decisions are. */
    const size_t span = offsetof(mdnn_statistics_region_t, rows) + 3 * sizeof good.rows[0];
    const size_t at = place % span;
    const size_t room = sizeof good - at;
    memcpy((char *)&good + at, data + sizeof place, payload < room ? payload : room);
    /* An exact heap copy lets the sanitizer see one byte too far. */
    const size_t cut = sizeof good - (place >> 16) % 4096;
    void *const copy = malloc(cut);
    memcpy(copy, &good, cut);
    print_both(copy, cut);
    free(copy);
    return 0;
}
