/* libFuzzer: any bytes as an INI file. Build and run with `make fuzz-options`. Beyond memory errors
 * it holds two promises: messages are single printable lines in a bounded number, and every value
 * that a file can set is in range and survives being printed and read again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "config/options_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_line(void *context, const char *line)
{
    unsigned *const count = context;
    if (++*count > MDNN_READER_MESSAGES_MAX + 1)
        abort();
    for (; *line != '\0'; line++) {
        if ((unsigned char)*line < 0x20 || *line == 0x7f)
            abort();
    }
}

static void check_round_trip(const mdnn_options_t *options)
{
    static mdnn_options_t again;
    char *text = NULL;
    size_t bytes = 0;
    unsigned count = MDNN_READER_MESSAGES_MAX + 1; /* any message is one too many */
    FILE *const out = open_memstream(&text, &bytes);
    mdnn_options_print(options, out);
    fclose(out);
    mdnn_options_set_defaults(&again);
    mdnn_options_load_text(&again, "again", text, bytes, check_line, &count);
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        char one[MDNN_OPTION_STRING_BYTES], other[MDNN_OPTION_STRING_BYTES];
        mdnn_options_format(options, (mdnn_option_id_t)i, one, sizeof one);
        mdnn_options_format(&again, (mdnn_option_id_t)i, other, sizeof other);
        if (strcmp(one, other) != 0)
            abort();
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mdnn_options_t options, defaults;
    unsigned count = 0;
    if (defaults.origin[0][0] == '\0')
        mdnn_options_set_defaults(&defaults);
    options = defaults;
    mdnn_options_load_text(&options, "fuzz.ini", (const char *)data, bytes, check_line, &count);
    /* Printing is most of the time; what changed nothing needs it not. */
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        if (strcmp(options.origin[i], defaults.origin[i]) != 0) {
            check_round_trip(&options);
            break;
        }
    }
    return 0;
}
