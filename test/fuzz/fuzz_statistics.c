/* libFuzzer: any bytes as a live file. Build and run with `make fuzz-statistics`. A short input is
 * laid over a good record, so that the fuzzer need not find the layout: the first four bytes say
 * where. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/statistics_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void print_both(const void *data, size_t bytes)
{
    for (int format = MDNN_STATISTICS_TEXT; format <= MDNN_STATISTICS_BRIEF; format++) {
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

/* A record with two rows and room for three, and executions: as a live file, but small. */
enum {
    ROWS = 3,
    EXECUTIONS = 4,
    ROWS_END = offsetof(mdnn_statistics_region_t, rows) + ROWS * sizeof(mdnn_statistics_slot_t),
    GOOD_BYTES = ROWS_END + EXECUTIONS * sizeof(mdnn_statistics_cell_t)
};

static const void *good_record(void)
{
    static mdnn_statistics_region_t good;
    if (good.header.version == 0) {
        mdnn_statistics_region_init(&good, false);
        good.header.row_capacity = ROWS;
        good.header.total_bytes = GOOD_BYTES;
        good.header.rows_taken = 2;
        good.memory[0].sequence = 2;
        good.rows[0].sequence = 2;
        good.rows[1].sequence = 2;
        good.header.executions_offset = ROWS_END;
        good.header.execution_capacity = EXECUTIONS;
        good.header.executions_taken = EXECUTIONS;
        for (uint32_t i = 0; i < EXECUTIONS; i++)
            memcpy((char *)&good + ROWS_END + i * sizeof(mdnn_statistics_cell_t),
                   &(mdnn_statistics_cell_t){.row = 1 + i % 2, .x = i, .w = 1, .y = i / 2},
                   sizeof(mdnn_statistics_cell_t));
    }
    return &good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    print_both(data, bytes);
    if (bytes < 5)
        return 0;
    uint32_t place;
    memcpy(&place, data, sizeof place);
    /* An exact heap copy lets the sanitizer see one byte too far. */
    const size_t cut = GOOD_BYTES - ((place >> 16) % 16 == 0 ? (place >> 20) : 0);
    char *const copy = malloc(cut);
    memcpy(copy, good_record(), cut);
    const size_t at = (place & 0xffff) % cut;
    const size_t payload = bytes - sizeof place, room = cut - at;
    memcpy(copy + at, data + sizeof place, payload < room ? payload : room);
    print_both(copy, cut);
    free(copy);
    return 0;
}
