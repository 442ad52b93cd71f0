#include "config/numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/options.h"

static const uint64_t power_of_ten[MDNN_FRACTION_DIGITS + 1] = {1,     10,     100,    1000,
                                                                10000, 100000, 1000000};

/* isdigit() asks the locale. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

bool mdnn_same_word(const char *text, const char *word, size_t word_bytes)
{
    for (size_t i = 0; i < word_bytes; i++) {
        if (text[i] == '\0' || lower(text[i]) != lower(word[i]))
            return false;
    }
    return text[word_bytes] == '\0';
}

/* A number without sign at `text`: `whole` + `millionths` / 1e6; `*end` is what follows it. */
static mdnn_status_t parse_fixed(const char *text, uint64_t *whole, uint64_t *millionths,
                                 const char **end)
{
    if (!is_digit(*text))
        return MDNN_STATUS_BAD_FORMAT;
    uint64_t integer = 0;
    bool overflow = false;
    for (; is_digit(*text); text++) {
        overflow |= __builtin_mul_overflow(integer, (uint64_t)10, &integer);
        overflow |= __builtin_add_overflow(integer, (uint64_t)(*text - '0'), &integer);
    }
    uint64_t fraction = 0;
    if (*text == '.') {
        int digits = 0;
        for (text++; is_digit(*text) && digits < MDNN_FRACTION_DIGITS; text++, digits++)
            fraction = fraction * 10 + (uint64_t)(*text - '0');
        if (digits == 0)
            return MDNN_STATUS_BAD_FORMAT;
        fraction *= power_of_ten[MDNN_FRACTION_DIGITS - digits];
    }
    *end = text;
    *whole = integer;
    *millionths = fraction;
    return overflow ? MDNN_STATUS_OVERFLOW : MDNN_STATUS_OK;
}

mdnn_status_t mdnn_parse_boolean(const char *text, bool *value)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        for (int truth = 0; truth < 2; truth++) {
            if (mdnn_same_word(text, words[i][truth], strlen(words[i][truth]))) {
                *value = truth;
                return MDNN_STATUS_OK;
            }
        }
    }
    return MDNN_STATUS_BAD_FORMAT;
}

mdnn_status_t mdnn_parse_integer(const char *text, int64_t *value)
{
    const bool negative = *text == '-';
    const char *digit = text + negative;
    if (!is_digit(*digit))
        return MDNN_STATUS_BAD_FORMAT;
    int64_t sum = 0;
    bool overflow = false;
    for (; is_digit(*digit); digit++) {
        const int64_t step = negative ? '0' - *digit : *digit - '0';
        overflow |= __builtin_mul_overflow(sum, (int64_t)10, &sum);
        overflow |= __builtin_add_overflow(sum, step, &sum);
    }
    if (*digit != '\0')
        return MDNN_STATUS_BAD_FORMAT;
    if (overflow)
        return MDNN_STATUS_OVERFLOW;
    *value = sum;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_parse_decimal(const char *text, double *value)
{
    const bool negative = *text == '-';
    uint64_t whole = 0, millionths = 0;
    const char *end = text;
    const mdnn_status_t status = parse_fixed(text + negative, &whole, &millionths, &end);
    if (status == MDNN_STATUS_BAD_FORMAT || *end != '\0')
        return MDNN_STATUS_BAD_FORMAT;
    if (status != MDNN_STATUS_OK)
        return status;
    const double magnitude = ((double)whole * 1e6 + (double)millionths) / 1e6;
    *value = negative ? -magnitude : magnitude;
    return MDNN_STATUS_OK;
}

/* The power of 1024 of a unit; 0 for no unit, and for bytes. */
static mdnn_status_t parse_unit(const char *text, unsigned *shift)
{
    static const char letters[] = "kmgt";
    if (*text == '\0' || mdnn_same_word(text, "b", 1)) {
        *shift = 0;
        return MDNN_STATUS_OK;
    }
    for (unsigned i = 0; letters[i] != '\0'; i++) {
        const char *const rest = text + 1;
        if (lower(*text) == letters[i] &&
            (*rest == '\0' || mdnn_same_word(rest, "b", 1) || mdnn_same_word(rest, "ib", 2))) {
            *shift = 10 * (i + 1);
            return MDNN_STATUS_OK;
        }
    }
    return MDNN_STATUS_BAD_FORMAT;
}

mdnn_status_t mdnn_parse_size(const char *text, uint64_t *bytes)
{
    if (mdnn_same_word(text, "none", 4)) {
        *bytes = MDNN_SIZE_NONE;
        return MDNN_STATUS_OK;
    }
    uint64_t whole = 0, millionths = 0;
    const char *end = text;
    const mdnn_status_t status = parse_fixed(text, &whole, &millionths, &end);
    if (status == MDNN_STATUS_BAD_FORMAT)
        return status;
    const bool fraction = memchr(text, '.', (size_t)(end - text)) != NULL;
    end += strspn(end, " \t");
    unsigned shift = 0;
    MDNN_TRY(parse_unit(end, &shift));
    if (fraction && shift == 0)
        return MDNN_STATUS_BAD_FORMAT;
    uint64_t total = 0;
    /* millionths * 2^40 < 2^60: the fraction itself cannot overflow. */
    if (status != MDNN_STATUS_OK || __builtin_mul_overflow(whole, UINT64_C(1) << shift, &total) ||
        __builtin_add_overflow(total, (millionths << shift) / power_of_ten[6], &total) ||
        total == MDNN_SIZE_NONE)
        return MDNN_STATUS_OVERFLOW;
    *bytes = total;
    return MDNN_STATUS_OK;
}

enum { SHARE_WHOLE = 1000000 };

bool mdnn_size_is_share(uint64_t size)
{
    return size >= MDNN_SIZE_SHARE && size <= MDNN_SIZE_SHARE + SHARE_WHOLE;
}

mdnn_status_t mdnn_parse_share(const char *text, uint64_t *share)
{
    uint64_t percent = 0, millionths = 0;
    const char *end = text;
    const mdnn_status_t status = parse_fixed(text, &percent, &millionths, &end);
    if (status == MDNN_STATUS_BAD_FORMAT)
        return status;
    end += strspn(end, " \t");
    if (strcmp(end, "%") != 0)
        return MDNN_STATUS_BAD_FORMAT;
    if (status != MDNN_STATUS_OK || percent > 100)
        return MDNN_STATUS_OVERFLOW;
    const uint64_t parts = percent * (SHARE_WHOLE / 100) + millionths / 100;
    if (parts < 1 || parts > SHARE_WHOLE)
        return MDNN_STATUS_OVERFLOW;
    *share = MDNN_SIZE_SHARE + parts;
    return MDNN_STATUS_OK;
}

uint64_t mdnn_size_on_device(uint64_t size, uint64_t device_bytes)
{
    if (!mdnn_size_is_share(size))
        return size;
    const uint64_t parts = size - MDNN_SIZE_SHARE;
    return device_bytes / SHARE_WHOLE * parts + device_bytes % SHARE_WHOLE * parts / SHARE_WHOLE;
}

static const char *const unit_names[] = {"", "KiB", "MiB", "GiB", "TiB"};
enum { UNIT_COUNT = sizeof unit_names / sizeof *unit_names };

void mdnn_format_size(uint64_t size_bytes, char *buffer, size_t buffer_bytes)
{
    if (size_bytes == MDNN_SIZE_NONE) {
        snprintf(buffer, buffer_bytes, "none");
        return;
    }
    if (mdnn_size_is_share(size_bytes)) {
        char percent[MDNN_NUMBER_BYTES];
        mdnn_format_decimal((double)(size_bytes - MDNN_SIZE_SHARE) / (SHARE_WHOLE / 100.0),
                            MDNN_FRACTION_DIGITS, true, percent, sizeof percent);
        snprintf(buffer, buffer_bytes, "%s%%", percent);
        return;
    }
    unsigned unit = 0;
    while (unit + 1 < UNIT_COUNT && size_bytes != 0 && size_bytes % 1024 == 0) {
        size_bytes /= 1024;
        unit++;
    }
    snprintf(buffer, buffer_bytes, "%" PRIu64 "%s", size_bytes, unit_names[unit]);
}

void mdnn_format_size_rounded(uint64_t size_bytes, char *buffer, size_t buffer_bytes)
{
    double amount = (double)size_bytes;
    unsigned unit = 0;
    /* 1023.5 would be shown as 1024. */
    while (unit + 1 < UNIT_COUNT && amount >= 1023.5) {
        amount /= 1024;
        unit++;
    }
    char number[MDNN_NUMBER_BYTES];
    const int decimals = unit == 0 || amount >= 99.95 ? 0 : amount >= 9.995 ? 1 : 2;
    mdnn_format_decimal(amount, decimals, false, number, sizeof number);
    snprintf(buffer, buffer_bytes, "%s %s", number, unit == 0 ? "bytes" : unit_names[unit]);
}

void mdnn_format_decimal(double value, int decimals, bool trim, char *buffer, size_t buffer_bytes)
{
    if (!(value > -1e12 && value < 1e12)) {
        snprintf(buffer, buffer_bytes, "%s", value > 0 ? "inf" : value < 0 ? "-inf" : "nan");
        return;
    }
    const double magnitude = value < 0 ? -value : value;
    const uint64_t scale = power_of_ten[decimals];
    const uint64_t scaled = (uint64_t)(magnitude * (double)scale + 0.5);
    uint64_t fraction = scaled % scale;
    while (trim && decimals > 0 && fraction % 10 == 0) {
        fraction /= 10;
        decimals--;
    }
    const char *const sign = value < 0 && scaled != 0 ? "-" : "";
    if (decimals == 0)
        snprintf(buffer, buffer_bytes, "%s%" PRIu64, sign, scaled / scale);
    else
        snprintf(buffer, buffer_bytes, "%s%" PRIu64 ".%0*" PRIu64, sign, scaled / scale, decimals,
                 fraction);
}
