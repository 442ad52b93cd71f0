/* Periods as text, so that schedules can be studied on a machine other than the one that recorded them. Words and
 * numbers are separated by one space, and lines end with a newline:
 *
 *     microdnn-period 1
 *     ranges 2
 *     range 4194304 always          bytes, life, and `stays` if it may not leave
 *     range 2097152 0 3 stays       lives from before operation 0 until after operation 3
 *     operations 4
 *     operation forward 0 1f3a 2 1  kind (other, forward, backward_data, backward_filter), stream,
 *                                   key in hexadecimal, numbers of uses and of variants; then these
 *     use 1 read                    range and role (read, write, unknown)
 *     use 0 unknown
 *     variant 120.500000 1048576    microseconds, at most six decimals, and bytes of workspace
 *     operation other ...
 *     end
 *
 * Times are rounded to 1e-6 us; numbers are written and read without the locale. */
#ifndef MDNN_PERIOD_TEXT_H
#define MDNN_PERIOD_TEXT_H

#include "config/text.h"
#include "offload/plan/period.h"

/* Appends the period. OUT_OF_MEMORY; INVALID_ARGUMENT for times above 1e12 us. On failure a part of it may have been
 * appended. */
mdnn_status_t mdnn_period_write(const mdnn_period_t *period, mdnn_text_t *text);

/* Reads the one period of a text that need not end with a NUL and checks it. BAD_FORMAT, and then *line is the line at
 * fault, from 1 (or the last, for a period that mdnn_period_check refuses); OUT_OF_MEMORY. Never takes more memory than
 * a small multiple of the text's size. `line` may be NULL. */
mdnn_status_t mdnn_period_read(const char *text, size_t bytes, mdnn_period_t *period, size_t *line);

#endif
