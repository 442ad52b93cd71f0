/* Numbers as people write them in files and on command lines. Nothing here depends on the host's locale: a program that
 * sets a decimal comma changes neither what a file means nor the JSON that we write.
 *
 * All parsers take the whole text, without white space around it. BAD_FORMAT if the text is not of
 * the expected kind, OVERFLOW if it is but the value does not fit; the result then stays
 * untouched. */
#ifndef MDNN_NUMBERS_H
#define MDNN_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* Digits after the decimal point that are read and written. */
enum { MDNN_FRACTION_DIGITS = 6 };
/* Longest text that a format function here writes, with its terminator. */
enum { MDNN_NUMBER_BYTES = 48 };

/* Whether `text` is the `word_bytes` bytes at `word`, in any case. strcasecmp asks the locale. */
bool mdnn_same_word(const char *text, const char *word, size_t word_bytes);

/* 1 true yes on, 0 false no off, in any case. */
mdnn_status_t mdnn_parse_boolean(const char *text, bool *value);

/* Decimal digits with an optional minus. */
mdnn_status_t mdnn_parse_integer(const char *text, int64_t *value);

/* Digits, optionally a point and up to MDNN_FRACTION_DIGITS more, optionally a minus before. */
mdnn_status_t mdnn_parse_decimal(const char *text, double *value);

/* Bytes. A number, then perhaps blanks and a unit in any case: b, or k, m, g, t (also kb, kib and so on), which are
 * powers of 1024. With a unit the number may have a fraction; parts of a byte are cut off. `none` is UINT64_MAX, which
 * no number may be. No sign. */
mdnn_status_t mdnn_parse_size(const char *text, uint64_t *bytes);

/* A size can also be a share of a device's memory: MDNN_SIZE_SHARE plus millionths, 1 to 1000000. */
#define MDNN_SIZE_SHARE (UINT64_C(1) << 63)
bool mdnn_size_is_share(uint64_t size);

/* "80%" or "12.5 %". OVERFLOW beyond 100 %, and for a share that is zero. */
mdnn_status_t mdnn_parse_share(const char *text, uint64_t *share);

/* The bytes of a size on a device with `device_bytes`; none stays none. */
uint64_t mdnn_size_on_device(uint64_t size, uint64_t device_bytes);

/* Exact: a whole number of the largest unit in which it is whole (64MiB, 1000), none, or a share (80%). */
void mdnn_format_size(uint64_t size_bytes, char *buffer, size_t buffer_bytes);

/* For people: three significant digits, like 63.9 MiB. */
void mdnn_format_size_rounded(uint64_t size_bytes, char *buffer, size_t buffer_bytes);

/* `value` with `decimals` digits (at most MDNN_FRACTION_DIGITS) after the point; `trim` drops zeros at the end. "nan"
 * for NaN; "inf" or "-inf" from 1e12 on. */
void mdnn_format_decimal(double value, int decimals, bool trim, char *buffer, size_t buffer_bytes);

#endif
