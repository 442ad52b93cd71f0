#include "config/options_table.h"

#include <inttypes.h>
#include <string.h>

#include "config/choices.h"
#include "config/numbers.h"

#define COMMON(kind, s, k, h)                                                                      \
    .type = MDNN_OPTION_##kind, .section = #s, .key = #k, .help = (h),                             \
    .offset = offsetof(mdnn_options_t, s##_##k)

const mdnn_option_info_t mdnn_option_table[MDNN_OPTION_COUNT] = {
#define OPTION_BOOL(s, k, value, h) {COMMON(BOOL, s, k, h), .initial.truth = (value)},
#define OPTION_INT(s, k, value, low, high, u, h)                                                   \
    {COMMON(INT, s, k, h), .unit = (u), .initial.integer = (value), .min.integer = (low),          \
     .max.integer = (high)},
#define OPTION_DOUBLE(s, k, value, low, high, u, h)                                                \
    {COMMON(DOUBLE, s, k, h), .unit = (u), .initial.real = (value), .min.real = (low),             \
     .max.real = (high)},
#define OPTION_SIZE(s, k, value, low, high, h)                                                     \
    {COMMON(SIZE, s, k, h), .initial.bytes = (value), .min.bytes = (low), .max.bytes = (high)},
#define OPTION_SPACE(s, k, value, low, high, h)                                                    \
    {COMMON(SIZE, s, k, h), .initial.bytes = (value), .min.bytes = (low), .max.bytes = (high),     \
     .shares = true},
#define OPTION_ENUM(s, k, value, h)                                                                \
    {COMMON(ENUM, s, k, h), .choices = mdnn_choices_##s##_##k, .initial.choice = (int)(value)},
#define OPTION_STRING(s, k, value, h) {COMMON(STRING, s, k, h), .initial.text = (value)},
#include "config/options.def"
#undef OPTION_BOOL
#undef OPTION_INT
#undef OPTION_DOUBLE
#undef OPTION_SIZE
#undef OPTION_SPACE
#undef OPTION_ENUM
#undef OPTION_STRING
};

const mdnn_section_info_t mdnn_section_table[MDNN_SECTION_COUNT] = {
    {"general", "The library as a whole: switch, log, statistics."},
    {"convolution", "How convolutions are split into micro-batches."},
    {"cache", "What is remembered between runs."},
    {"memory", "Virtual GPU memory: a budget, and what happens beyond it."},
};

mdnn_status_t mdnn_option_find(const char *section, size_t section_bytes, const char *key,
                               size_t key_bytes, mdnn_option_id_t *id)
{
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        const mdnn_option_info_t *const info = &mdnn_option_table[i];
        if (strlen(info->section) == section_bytes && strlen(info->key) == key_bytes &&
            memcmp(info->section, section, section_bytes) == 0 &&
            memcmp(info->key, key, key_bytes) == 0) {
            *id = (mdnn_option_id_t)i;
            return MDNN_STATUS_OK;
        }
    }
    return MDNN_STATUS_NOT_FOUND;
}

static mdnn_status_t parse_choice(const char *const *choices, const char *text, int *index)
{
    for (int i = 0; choices[i]; i++)
        if (mdnn_same_word(text, choices[i], strlen(choices[i]))) {
            *index = i;
            return MDNN_STATUS_OK;
        }
    return MDNN_STATUS_BAD_FORMAT;
}

static mdnn_status_t in_range(bool inside)
{
    return inside ? MDNN_STATUS_OK : MDNN_STATUS_OVERFLOW;
}

static mdnn_status_t parse_size(const mdnn_option_info_t *info, const char *text, uint64_t *bytes)
{
    const size_t length = strlen(text);
    if (info->shares && length > 0 && text[length - 1] == '%')
        return mdnn_parse_share(text, bytes);
    uint64_t value;
    MDNN_TRY(mdnn_parse_size(text, &value));
    MDNN_TRY(in_range(!mdnn_size_is_share(value)));
    *bytes = value;
    return in_range(value >= info->min.bytes && value <= info->max.bytes);
}

static mdnn_status_t parse_value(const mdnn_option_info_t *info, const char *text,
                                 mdnn_option_value_t *value)
{
    switch (info->type) {
    case MDNN_OPTION_BOOL:
        return mdnn_parse_boolean(text, &value->truth);
    case MDNN_OPTION_INT:
        MDNN_TRY(mdnn_parse_integer(text, &value->integer));
        return in_range(value->integer >= info->min.integer && value->integer <= info->max.integer);
    case MDNN_OPTION_DOUBLE:
        MDNN_TRY(mdnn_parse_decimal(text, &value->real));
        return in_range(value->real >= info->min.real && value->real <= info->max.real);
    case MDNN_OPTION_SIZE:
        return parse_size(info, text, &value->bytes);
    case MDNN_OPTION_ENUM:
        return parse_choice(info->choices, text, &value->choice);
    case MDNN_OPTION_STRING:
        value->text = text;
        return in_range(strlen(text) < MDNN_OPTION_STRING_BYTES);
    }
    return MDNN_STATUS_INVALID_ARGUMENT;
}

static void store(mdnn_options_t *options, const mdnn_option_info_t *info,
                  mdnn_option_value_t value)
{
    void *const field = (char *)options + info->offset;
    switch (info->type) {
    case MDNN_OPTION_BOOL:
        *(bool *)field = value.truth;
        return;
    case MDNN_OPTION_INT:
        *(int64_t *)field = value.integer;
        return;
    case MDNN_OPTION_DOUBLE:
        *(double *)field = value.real;
        return;
    case MDNN_OPTION_SIZE:
        *(uint64_t *)field = value.bytes;
        return;
    case MDNN_OPTION_ENUM:
        *(int *)field = value.choice;
        return;
    case MDNN_OPTION_STRING:
        snprintf(field, MDNN_OPTION_STRING_BYTES, "%s", value.text);
        return;
    }
}

void mdnn_options_set_defaults(mdnn_options_t *options)
{
    memset(options, 0, sizeof *options);
    for (int i = 0; i < MDNN_OPTION_COUNT; i++) {
        store(options, &mdnn_option_table[i], mdnn_option_table[i].initial);
        snprintf(options->origin[i], MDNN_ORIGIN_BYTES, "default");
    }
}

mdnn_status_t mdnn_option_set(mdnn_options_t *options, mdnn_option_id_t id, const char *text,
                              const char *origin)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    mdnn_option_value_t value;
    MDNN_TRY(parse_value(info, text, &value));
    store(options, info, value);
    snprintf(options->origin[id], MDNN_ORIGIN_BYTES, "%s", origin);
    return MDNN_STATUS_OK;
}

void mdnn_options_format(const mdnn_options_t *options, mdnn_option_id_t id, char *buffer,
                         size_t bytes)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    const void *const field = (const char *)options + info->offset;
    switch (info->type) {
    case MDNN_OPTION_BOOL:
        snprintf(buffer, bytes, "%s", *(const bool *)field ? "true" : "false");
        return;
    case MDNN_OPTION_INT:
        snprintf(buffer, bytes, "%" PRId64, *(const int64_t *)field);
        return;
    case MDNN_OPTION_DOUBLE:
        mdnn_format_decimal(*(const double *)field, MDNN_FRACTION_DIGITS, true, buffer, bytes);
        return;
    case MDNN_OPTION_SIZE:
        mdnn_format_size(*(const uint64_t *)field, buffer, bytes);
        return;
    case MDNN_OPTION_ENUM:
        snprintf(buffer, bytes, "%s", info->choices[*(const int *)field]);
        return;
    case MDNN_OPTION_STRING:
        snprintf(buffer, bytes, "%s", (const char *)field);
        return;
    }
}

static void describe_size(const mdnn_option_info_t *info, char *buffer, size_t bytes)
{
    char low[MDNN_NUMBER_BYTES], high[MDNN_NUMBER_BYTES];
    mdnn_format_size(info->min.bytes, low, sizeof low);
    mdnn_format_size(info->max.bytes, high, sizeof high);
    const bool limited = info->max.bytes != MDNN_SIZE_NONE;
    snprintf(buffer, bytes,
             "bytes, or a number with k, m, g, t (powers of 1024) like 64MiB%s%s%s%s%s",
             info->shares ? ", a share of the device's memory like 80%" : "",
             limited ? ", up to " : ", or none", limited ? high : "",
             info->min.bytes > 0 ? ", at least " : "", info->min.bytes > 0 ? low : "");
}

static void describe_choices(const char *const *choices, char *buffer, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; choices[i] && used < bytes; i++)
        used +=
            (size_t)snprintf(buffer + used, bytes - used, "%s%s", i > 0 ? ", " : "", choices[i]);
}

void mdnn_option_accepted(mdnn_option_id_t id, char *buffer, size_t bytes)
{
    const mdnn_option_info_t *const info = &mdnn_option_table[id];
    char low[MDNN_NUMBER_BYTES], high[MDNN_NUMBER_BYTES];
    switch (info->type) {
    case MDNN_OPTION_BOOL:
        snprintf(buffer, bytes, "true, yes, on, 1, false, no, off, 0");
        return;
    case MDNN_OPTION_INT:
        snprintf(buffer, bytes, "%" PRId64 " to %" PRId64 " %s", info->min.integer,
                 info->max.integer, info->unit);
        return;
    case MDNN_OPTION_DOUBLE:
        mdnn_format_decimal(info->min.real, MDNN_FRACTION_DIGITS, true, low, sizeof low);
        mdnn_format_decimal(info->max.real, MDNN_FRACTION_DIGITS, true, high, sizeof high);
        snprintf(buffer, bytes, "%s to %s %s", low, high, info->unit);
        return;
    case MDNN_OPTION_SIZE:
        describe_size(info, buffer, bytes);
        return;
    case MDNN_OPTION_ENUM:
        describe_choices(info->choices, buffer, bytes);
        return;
    case MDNN_OPTION_STRING:
        snprintf(buffer, bytes, "text of up to %d bytes", MDNN_OPTION_STRING_BYTES - 1);
        return;
    }
}

const char *mdnn_option_kind(mdnn_option_id_t id)
{
    static const char *const kinds[] = {
        [MDNN_OPTION_BOOL] = "a truth value",     [MDNN_OPTION_INT] = "a whole number",
        [MDNN_OPTION_DOUBLE] = "a number",        [MDNN_OPTION_SIZE] = "a size",
        [MDNN_OPTION_ENUM] = "one of its values", [MDNN_OPTION_STRING] = "a text",
    };
    return kinds[mdnn_option_table[id].type];
}

static char fold(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static unsigned smallest(unsigned a, unsigned b, unsigned c)
{
    const unsigned less = a < b ? a : b;
    return less < c ? less : c;
}

enum { NEAREST_BYTES = 64 };

/* Levenshtein's distance without regard to case. Both texts are shorter than NEAREST_BYTES. */
static unsigned edit_distance(const char *a, const char *b)
{
    unsigned row[NEAREST_BYTES];
    const size_t columns = strlen(b);
    for (size_t j = 0; j <= columns; j++)
        row[j] = (unsigned)j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < columns; j++) {
            const unsigned replaced = diagonal + (fold(a[i]) != fold(b[j]));
            diagonal = row[j + 1];
            row[j + 1] = smallest(replaced, row[j] + 1, diagonal + 1);
        }
    }
    return row[columns];
}

void mdnn_nearest_offer(mdnn_nearest_t *nearest, const char *candidate)
{
    const size_t bytes = strlen(nearest->wanted), other = strlen(candidate);
    if (bytes >= NEAREST_BYTES || other >= NEAREST_BYTES)
        return;
    /* Each letter that one has more is one step at least. */
    const size_t least = bytes > other ? bytes - other : other - bytes;
    if (least > (bytes + 2) / 3 || (nearest->best != NULL && least >= nearest->distance))
        return;
    const unsigned distance = edit_distance(nearest->wanted, candidate);
    /* A third of the letters wrong is still a slip; more is another word. */
    if (distance > (bytes + 2) / 3 || (nearest->best != NULL && distance >= nearest->distance))
        return;
    nearest->best = candidate;
    nearest->distance = distance;
}
