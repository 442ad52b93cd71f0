/* Reading is strict, as that of periods is. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/period_text.h"
#include "offload/plan/run_record.h"

typedef struct lines {
    const char *next, *end;
    size_t number; /* of the line that was taken last */
} lines_t;

enum { LINE_BYTES = 256 };

/* What stands behind `name` and a space in the next line, which has that name. */
static bool take_value(lines_t *lines, const char *name, char value[LINE_BYTES])
{
    const size_t named = strlen(name), left = (size_t)(lines->end - lines->next);
    const char *const stop = memchr(lines->next, '\n', left);
    lines->number++;
    if (!stop || (size_t)(stop - lines->next) <= named || memcmp(lines->next, name, named) != 0 ||
        lines->next[named] != ' ')
        return false;
    const char *const begin = lines->next + named + 1;
    const size_t length = (size_t)(stop - begin);
    if (length >= LINE_BYTES || memchr(begin, '\0', length))
        return false;
    memcpy(value, begin, length);
    value[length] = '\0';
    lines->next = stop + 1;
    return true;
}

/* Takes a number and what follows it, a space or the end. */
static bool take_number(const char **text, uint64_t *number)
{
    char *end;
    if (**text < '0' || **text > '9')
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (errno != 0 || (*end != ' ' && *end != '\0'))
        return false;
    *text = *end == ' ' ? end + 1 : end;
    return true;
}

static bool take_bytes(lines_t *lines, const char *name, uint64_t *bytes)
{
    char value[LINE_BYTES];
    const char *text = value;
    return take_value(lines, name, value) && take_number(&text, bytes) && *text == '\0';
}

static bool take_name(const char *value, char name[MDNN_RECORD_NAME_BYTES])
{
    const size_t length = strlen(value);
    if (length >= MDNN_RECORD_NAME_BYTES)
        return false;
    memcpy(name, value, length + 1);
    return true;
}

static bool take_device(lines_t *lines, mdnn_run_record_t *record)
{
    char value[LINE_BYTES];
    const char *text = value;
    uint64_t ordinal;
    if (!take_value(lines, "device", value) || !take_number(&text, &ordinal) || ordinal > INT32_MAX)
        return false;
    record->device = (int)ordinal;
    return take_name(text, record->device_name);
}

static bool take_simulated(lines_t *lines, bool *simulated)
{
    char value[LINE_BYTES];
    if (!take_value(lines, "simulated", value))
        return false;
    *simulated = strcmp(value, "yes") == 0;
    return *simulated || strcmp(value, "no") == 0;
}

static bool take_link(lines_t *lines, mdnn_link_t *link)
{
    double *const values[] = {&link->out_bytes_per_us, &link->in_bytes_per_us,
                              &link->out_duplex_bytes_per_us, &link->in_duplex_bytes_per_us,
                              &link->latency_us};
    const size_t rates = sizeof values / sizeof *values - 1;
    char value[LINE_BYTES];
    const char *text = value;
    if (!take_value(lines, "link", value))
        return false;
    for (size_t i = 0; i <= rates; i++) {
        uint64_t number;
        if (!take_number(&text, &number) || number > UINT64_C(1000000000000) ||
            (i < rates && number == 0))
            return false;
        *values[i] = (double)number;
    }
    return *text == '\0';
}

static bool take_head(lines_t *lines, mdnn_run_record_t *record)
{
    char value[LINE_BYTES];
    return take_value(lines, "microdnn-record", value) && strcmp(value, MDNN_RECORD_VERSION) == 0 &&
           take_value(lines, "program", value) && take_name(value, record->program) &&
           take_device(lines, record) && take_simulated(lines, &record->simulated) &&
           take_bytes(lines, "total", &record->total_bytes) &&
           take_bytes(lines, "budget", &record->budget_bytes) &&
           take_bytes(lines, "ranges", &record->ranges_bytes) &&
           take_bytes(lines, "chunk", &record->chunk_bytes) && take_link(lines, &record->link) &&
           record->ranges_bytes <= record->budget_bytes;
}

mdnn_status_t mdnn_run_record_read(const char *text, size_t bytes, mdnn_run_record_t *record,
                                   size_t *line)
{
    lines_t lines = {.next = text, .end = text + bytes};
    mdnn_run_record_t read = {0};
    size_t of_period = 0;
    mdnn_status_t status = MDNN_STATUS_BAD_FORMAT;
    if (take_head(&lines, &read))
        status = mdnn_period_read(lines.next, (size_t)(lines.end - lines.next), &read.period,
                                  &of_period);
    if (status == MDNN_STATUS_OK)
        *record = read;
    else if (line)
        *line = lines.number + of_period;
    return status;
}
