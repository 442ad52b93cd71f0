/* Records of runs: what is written comes back, and what is damaged is refused with its line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/plan/run_record.h"
#include "test/unit/cases.h"
#include "test/unit/random_period.h"

static random_period_t instance;

static mdnn_run_record_t sample(void)
{
    random_period_training(&instance, 1, 3);
    return (mdnn_run_record_t){
        .program = "python3",
        .device_name = "NVIDIA H200",
        .device = 3,
        .total_bytes = (uint64_t)1 << 37,
        .budget_bytes = 12884901888,
        .ranges_bytes = 12800000000,
        .chunk_bytes = 8 << 20,
        .link = {53001, 55002, 41003, 42004, 105},
        .period = instance.period,
    };
}

static char *write_record(const mdnn_run_record_t *record, size_t *bytes)
{
    char *text = NULL;
    assert_int_equal(mdnn_run_record_write(record, &text, bytes), MDNN_STATUS_OK);
    return text;
}

CASE(what_is_written_comes_back)
{
    const mdnn_run_record_t written = sample();
    mdnn_run_record_t read;
    size_t bytes, again_bytes;
    char *const text = write_record(&written, &bytes);
    assert_int_equal(mdnn_run_record_read(text, bytes, &read, NULL), MDNN_STATUS_OK);
    assert_string_equal(read.program, "python3");
    assert_string_equal(read.device_name, "NVIDIA H200");
    assert_int_equal(read.device, 3);
    assert_false(read.simulated);
    assert_true(read.total_bytes == written.total_bytes);
    assert_true(read.budget_bytes == written.budget_bytes);
    assert_true(read.ranges_bytes == written.ranges_bytes);
    assert_true(read.chunk_bytes == written.chunk_bytes);
    assert_memory_equal(&read.link, &written.link, sizeof read.link);
    assert_int_equal(read.period.operation_count, written.period.operation_count);
    char *const again = write_record(&read, &again_bytes);
    assert_int_equal(bytes, again_bytes);
    assert_memory_equal(text, again, bytes);
    mdnn_period_fini(&read.period);
    free(text);
    free(again);
}

CASE(names_of_any_kind_stay_on_their_line)
{
    mdnn_run_record_t record = sample(), read;
    size_t bytes;
    record.simulated = true;
    strcpy(record.program, "two\nlines \xff \x1b[31m");
    strcpy(record.device_name, "");
    char *const text = write_record(&record, &bytes);
    assert_int_equal(mdnn_run_record_read(text, bytes, &read, NULL), MDNN_STATUS_OK);
    assert_string_equal(read.program, "two?lines ? ?[31m");
    assert_string_equal(read.device_name, "");
    assert_true(read.simulated);
    mdnn_period_fini(&read.period);
    free(text);
}

CASE(every_beginning_and_every_changed_line_is_refused)
{
    const mdnn_run_record_t record = sample();
    mdnn_run_record_t read;
    size_t bytes, at = 0;
    char *const text = write_record(&record, &bytes);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal(mdnn_run_record_read(text, cut, &read, NULL), MDNN_STATUS_BAD_FORMAT);
    for (size_t line = 1; at < bytes; line++) {
        size_t wrong = 0;
        const char kept = text[at];
        text[at] = '#';
        assert_int_equal(mdnn_run_record_read(text, bytes, &read, &wrong), MDNN_STATUS_BAD_FORMAT);
        text[at] = kept;
        assert_int_equal(wrong, line);
        while (text[at++] != '\n')
            continue;
    }
    free(text);
}

/* Reads the sample with `from`, which must stand there, replaced by `to`. */
static mdnn_status_t read_changed(const char *from, const char *to)
{
    const mdnn_run_record_t record = sample();
    mdnn_run_record_t read;
    size_t bytes;
    char *const text = write_record(&record, &bytes);
    char *const changed = calloc(1, bytes + strlen(to) + 1);
    const char *const place = memmem(text, bytes, from, strlen(from));
    assert_non_null(place);
    assert_non_null(changed);
    const size_t before = (size_t)(place - text), after = before + strlen(from);
    memcpy(changed, text, before);
    strcpy(changed + before, to);
    memcpy(changed + before + strlen(to), text + after, bytes - after);
    const mdnn_status_t status =
        mdnn_run_record_read(changed, bytes - strlen(from) + strlen(to), &read, NULL);
    if (status == MDNN_STATUS_OK)
        mdnn_period_fini(&read.period);
    free(text);
    free(changed);
    return status;
}

CASE(values_without_sense_are_refused)
{
    assert_int_equal(read_changed("record 1", "record 1"), MDNN_STATUS_OK);
    assert_int_equal(read_changed("record 1", "record 2"), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(read_changed("simulated no", "simulated maybe"), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(read_changed("device 3 ", "device x "), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(read_changed("link 53001", "link 0"), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(read_changed(" 105\n", "\n"), MDNN_STATUS_BAD_FORMAT);
    assert_int_equal(read_changed("ranges 12800000000", "ranges 12900000000"),
                     MDNN_STATUS_BAD_FORMAT); /* more than the budget */
    assert_int_equal(read_changed("chunk 8388608", "chunk 99999999999999999999"),
                     MDNN_STATUS_BAD_FORMAT);
}

CASE(a_link_without_sense_is_not_written)
{
    mdnn_run_record_t record = sample();
    char *text = NULL;
    size_t bytes;
    record.link.latency_us = -1;
    assert_int_equal(mdnn_run_record_write(&record, &text, &bytes), MDNN_STATUS_INVALID_ARGUMENT);
    assert_null(text);
}

int main(void)
{
    return run_cases("run_record");
}
