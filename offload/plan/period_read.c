/* Reading is strict: what was not written by mdnn_period_write, or by hand to the letter, is
 * BAD_FORMAT. Each function takes what it names, or returns false. */
#include <stdlib.h>
#include <string.h>

#include "offload/plan/period_text.h"
#include "offload/plan/period_words.h"

typedef struct reader {
    const char *next, *end;
    size_t line;
    mdnn_period_t period;
    size_t use_capacity, variant_capacity;
} reader_t;

static bool take(reader_t *reader, const char *word)
{
    const size_t bytes = strlen(word);
    if ((size_t)(reader->end - reader->next) < bytes || memcmp(reader->next, word, bytes) != 0)
        return false;
    reader->next += bytes;
    return true;
}

static bool take_line_end(reader_t *reader)
{
    if (!take(reader, "\n"))
        return false;
    reader->line++;
    return true;
}

static int digit_of(const reader_t *reader, unsigned base)
{
    if (reader->next == reader->end)
        return -1;
    const char c = *reader->next;
    if (c >= '0' && c <= '9')
        return c - '0';
    return base == 16 && c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_number(reader_t *reader, unsigned base, uint64_t most, uint64_t *value)
{
    const char *const begin = reader->next;
    uint64_t number = 0;
    for (int digit; (digit = digit_of(reader, base)) >= 0; reader->next++)
        if (__builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit, &number))
            return false;
    *value = number;
    return reader->next != begin && number <= most;
}

static bool take_index(reader_t *reader, uint32_t *value)
{
    uint64_t number;
    if (!take_number(reader, 10, UINT32_MAX - 1, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool take_one_of(reader_t *reader, const char *const *words, unsigned count, unsigned *which)
{
    /* None is the beginning of another. */
    for (unsigned i = 0; i < count; i++)
        if (take(reader, words[i])) {
            *which = i;
            return true;
        }
    return false;
}

static bool take_time(reader_t *reader, double *time_us)
{
    uint64_t parts, scale = 1;
    if (!take_number(reader, 10, (uint64_t)most_us, &parts))
        return false;
    if (take(reader, ".")) {
        if (digit_of(reader, 10) < 0)
            return false;
        for (; scale < parts_per_us && digit_of(reader, 10) >= 0; reader->next++, scale *= 10)
            parts = parts * 10 + (uint64_t)digit_of(reader, 10);
    }
    *time_us = (double)parts / (double)scale;
    return digit_of(reader, 10) < 0;
}

/* Whatever a text promises must still be in it. */
static bool may_follow(const reader_t *reader, uint32_t count, size_t shortest)
{
    return (size_t)(reader->end - reader->next) / shortest >= count;
}

enum {
    SHORTEST_RANGE = sizeof "range 0 0 0\n" - 1,
    SHORTEST_OPERATION = sizeof "operation other 0 0 0 1\nvariant 0 0\n" - 1,
    SHORTEST_USE = sizeof "use 0 read\n" - 1,
    SHORTEST_VARIANT = sizeof "variant 0 0\n" - 1
};

/* Room for `more` items behind `count`. Returns false without memory. */
static bool grow(void **items, size_t *capacity, size_t count, size_t more, size_t bytes)
{
    if (more <= *capacity - count)
        return true;
    const size_t wanted = 2 * (count + more);
    void *const grown = reallocarray(*items, wanted, bytes);
    if (!grown)
        return false;
    *items = grown;
    *capacity = wanted;
    return true;
}

static bool take_range(reader_t *reader, mdnn_period_range_t *range)
{
    if (!take(reader, "range ") || !take_number(reader, 10, UINT64_MAX, &range->bytes) ||
        !take(reader, " "))
        return false;
    if (take(reader, "always"))
        range->birth = range->death = MDNN_NO_POSITION;
    else if (!take_index(reader, &range->birth) || !take(reader, " ") ||
             !take_index(reader, &range->death))
        return false;
    range->stays = take(reader, " stays");
    if (take(reader, " padding ") && !take_number(reader, 10, UINT64_MAX, &range->padding_bytes))
        return false;
    return take_line_end(reader);
}

static mdnn_status_t read_ranges(reader_t *reader)
{
    mdnn_period_t *const period = &reader->period;
    uint32_t count;
    if (!take(reader, "ranges ") || !take_index(reader, &count) || !take_line_end(reader) ||
        !may_follow(reader, count, SHORTEST_RANGE))
        return MDNN_STATUS_BAD_FORMAT;
    period->ranges = calloc((size_t)count + 1, sizeof *period->ranges);
    if (!period->ranges)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (; period->range_count < count; period->range_count++)
        if (!take_range(reader, &period->ranges[period->range_count]))
            return MDNN_STATUS_BAD_FORMAT;
    return MDNN_STATUS_OK;
}

static mdnn_status_t read_uses(reader_t *reader, uint32_t count)
{
    mdnn_period_t *const period = &reader->period;
    void *uses = period->uses;
    if (!may_follow(reader, count, SHORTEST_USE))
        return MDNN_STATUS_BAD_FORMAT;
    if (!grow(&uses, &reader->use_capacity, period->use_count, count, sizeof *period->uses))
        return MDNN_STATUS_OUT_OF_MEMORY;
    period->uses = uses;
    for (uint32_t i = 0; i < count; i++) {
        mdnn_use_t *const use = &period->uses[period->use_count];
        unsigned role;
        if (!take(reader, "use ") || !take_index(reader, &use->range) || !take(reader, " ") ||
            !take_one_of(reader, roles, MDNN_USE_ROLE_COUNT, &role) || !take_line_end(reader))
            return MDNN_STATUS_BAD_FORMAT;
        use->role = (mdnn_use_role_t)role;
        period->use_count++;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t read_variants(reader_t *reader, uint32_t count)
{
    mdnn_period_t *const period = &reader->period;
    void *variants = period->variants;
    if (!may_follow(reader, count, SHORTEST_VARIANT))
        return MDNN_STATUS_BAD_FORMAT;
    if (!grow(&variants, &reader->variant_capacity, period->variant_count, count,
              sizeof *period->variants))
        return MDNN_STATUS_OUT_OF_MEMORY;
    period->variants = variants;
    for (uint32_t i = 0; i < count; i++) {
        mdnn_variant_t *const variant = &period->variants[period->variant_count];
        if (!take(reader, "variant ") || !take_time(reader, &variant->time_us) ||
            !take(reader, " ") || !take_number(reader, 10, UINT64_MAX, &variant->workspace_bytes) ||
            !take_line_end(reader))
            return MDNN_STATUS_BAD_FORMAT;
        period->variant_count++;
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t read_operation(reader_t *reader, mdnn_operation_t *operation)
{
    unsigned kind;
    if (!take(reader, "operation ") ||
        !take_one_of(reader, kinds, MDNN_OPERATION_KIND_COUNT, &kind) || !take(reader, " ") ||
        !take_index(reader, &operation->stream) || !take(reader, " ") ||
        !take_number(reader, 16, UINT64_MAX, &operation->key) || !take(reader, " ") ||
        !take_index(reader, &operation->use_count) || !take(reader, " ") ||
        !take_index(reader, &operation->variant_count) || !take_line_end(reader))
        return MDNN_STATUS_BAD_FORMAT;
    operation->kind = (mdnn_operation_kind_t)kind;
    operation->first_use = reader->period.use_count;
    operation->first_variant = reader->period.variant_count;
    MDNN_TRY(read_uses(reader, operation->use_count));
    return read_variants(reader, operation->variant_count);
}

static mdnn_status_t read_all(reader_t *reader)
{
    mdnn_period_t *const period = &reader->period;
    uint32_t count;
    if (!take(reader, PERIOD_HEAD) || !take_line_end(reader))
        return MDNN_STATUS_BAD_FORMAT;
    MDNN_TRY(read_ranges(reader));
    if (!take(reader, "operations ") || !take_index(reader, &count) || !take_line_end(reader) ||
        !may_follow(reader, count, SHORTEST_OPERATION))
        return MDNN_STATUS_BAD_FORMAT;
    period->operations = calloc((size_t)count + 1, sizeof *period->operations);
    if (!period->operations)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (; period->operation_count < count; period->operation_count++)
        MDNN_TRY(read_operation(reader, &period->operations[period->operation_count]));
    if (!take(reader, "end\n") || reader->next != reader->end)
        return MDNN_STATUS_BAD_FORMAT;
    const mdnn_status_t status = mdnn_period_check(period);
    return status == MDNN_STATUS_OUT_OF_MEMORY || status == MDNN_STATUS_OK ? status
                                                                           : MDNN_STATUS_BAD_FORMAT;
}

mdnn_status_t mdnn_period_read(const char *text, size_t bytes, mdnn_period_t *period, size_t *line)
{
    reader_t reader = {.next = text, .end = text + bytes, .line = 1};
    const mdnn_status_t status = read_all(&reader);
    if (status == MDNN_STATUS_OK) {
        *period = reader.period;
        return MDNN_STATUS_OK;
    }
    if (line)
        *line = reader.line;
    mdnn_period_fini(&reader.period);
    return status;
}
