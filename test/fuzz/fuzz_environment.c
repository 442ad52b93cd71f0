/* libFuzzer: any bytes as an environment. Build and run with `make fuzz-environment`. Entries end at
 * a NUL; a first byte above 0x7f stands for the name of a variable of ours, so that the fuzzer
 * spends its time on values. Beyond memory errors it holds two promises: messages are single
 * printable lines in a bounded number, and every value that was taken is one that its own text sets
 * again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/options.h"
#include "config/options_reader.h"
#include "config/options_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argument_count, char ***arguments);

enum { NAMES = 2 * MDNN_OPTION_COUNT, ENTRIES_MAX = 8, ROOM = 1 << 14 };

static char names[NAMES][MDNN_ENVIRONMENT_NAME_BYTES];
static unsigned name_count;
static mdnn_options_t defaults;

int LLVMFuzzerInitialize(int *argument_count, char ***arguments)
{
    (void)argument_count, (void)arguments;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        const char *const alias = mdnn_option_alias((mdnn_option_id_t)i);
        mdnn_option_environment_name((mdnn_option_id_t)i, names[name_count++], sizeof *names);
        if (alias != NULL)
            strcpy(names[name_count++], alias);
    }
    mdnn_options_set_defaults(&defaults);
    return 0;
}

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

/* Fills `entries`, NULL at the end, with strings in `room`. */
static void split(const uint8_t *data, size_t bytes, char *room, char **entries)
{
    size_t count = 0, used = 0;
    while (bytes > 0 && count < ENTRIES_MAX) {
        const uint8_t *const end = memchr(data, '\0', bytes);
        const size_t length = end != NULL ? (size_t)(end - data) : bytes;
        const char *const name = *data > 0x7f ? names[*data % name_count] : "";
        const size_t skip = *data > 0x7f;
        if (used + strlen(name) + length + 2 > ROOM)
            break;
        entries[count++] = room + used;
        used += (size_t)(stpcpy(room + used, name) - (room + used));
        if (skip)
            room[used++] = '=';
        memcpy(room + used, data + skip, length - skip);
        used += length - skip;
        room[used++] = '\0';
        data += length + (end != NULL);
        bytes -= length + (end != NULL);
    }
    entries[count] = NULL;
}

static void check_value(const mdnn_options_t *options, mdnn_option_id_t id)
{
    static mdnn_options_t again;
    char one[MDNN_OPTION_STRING_BYTES], other[MDNN_OPTION_STRING_BYTES];
    mdnn_options_format(options, id, one, sizeof one);
    if (mdnn_option_set(&again, id, one, "again") != MDNN_STATUS_OK)
        abort();
    mdnn_options_format(&again, id, other, sizeof other);
    if (strcmp(one, other) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static mdnn_options_t options;
    static char room[ROOM];
    char *entries[ENTRIES_MAX + 1];
    unsigned count = 0;
    char **const before = environ;
    split(data, bytes, room, entries);
    options = defaults;
    environ = entries;
    mdnn_options_load_environment(&options, check_line, &count);
    environ = before;
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        if (strcmp(options.origin[i], defaults.origin[i]) != 0)
            check_value(&options, (mdnn_option_id_t)i);
    }
    return 0;
}
