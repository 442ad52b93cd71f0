/* Statistics as a table for people and as JSON, from a record that may come from a damaged file. */
#include "config/devices.h"
#include "config/statistics_file.h"
#include "config/text_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/memory_statistics_print.h"
#include "config/numbers.h"
#include "config/statistics_verdict.h"

enum {
    RECORD_BYTES_MAX = 64 << 20,
    COUNTERS_MAX = 4096,
    ROWS_MAX = 1 << 16,
    EXECUTIONS_MAX = 1 << 18
};

static const char text_beginning[] = "microdnn statistics: ";
static const char verdict_beginning[] = "microdnn verdict: ";
static const char json_beginning[] = "{\"microdnn_statistics\": ";

/* A checked view of a record. The header is a copy: the process that writes may still run. */
typedef struct record {
    const char *data;
    mdnn_statistics_header_t header;
    uint32_t rows;
    uint32_t rows_dropped;
    uint32_t executions;
} record_t;

/* `count` items of `size` bytes at `offset` lie inside the record. */
static bool lies_inside(uint64_t offset, uint64_t count, uint64_t size, uint64_t total)
{
    uint64_t bytes = 0, end = 0;
    return !__builtin_mul_overflow(count, size, &bytes) &&
           !__builtin_add_overflow(offset, bytes, &end) && end <= total;
}

static mdnn_status_t open_record(const void *data, size_t bytes, record_t *record)
{
    mdnn_statistics_header_t *const header = &record->header;
    if (bytes < sizeof *header)
        return MDNN_STATUS_BAD_FORMAT;
    memcpy(header, data, sizeof *header);
    if (memcmp(header->magic, MDNN_STATISTICS_MAGIC, sizeof header->magic) != 0 ||
        header->version != MDNN_STATISTICS_VERSION ||
        header->byte_order != MDNN_STATISTICS_BYTE_ORDER ||
        header->name_bytes != sizeof(mdnn_statistics_name_t) ||
        header->row_bytes != sizeof(mdnn_statistics_slot_t) ||
        header->counter_count > COUNTERS_MAX || header->row_capacity > ROWS_MAX ||
        !lies_inside(header->names_offset, header->counter_count, header->name_bytes, bytes) ||
        !lies_inside(header->counters_offset, header->counter_count, sizeof(uint64_t), bytes) ||
        header->memory_bytes != sizeof(mdnn_statistics_memory_t) ||
        header->memory_count > MDNN_DEVICES ||
        !lies_inside(header->memory_offset, header->memory_count, header->memory_bytes, bytes) ||
        !lies_inside(header->rows_offset, header->row_capacity, header->row_bytes, bytes) ||
        header->execution_bytes != sizeof(mdnn_statistics_cell_t) ||
        header->execution_capacity > EXECUTIONS_MAX ||
        !lies_inside(header->executions_offset, header->execution_capacity, header->execution_bytes,
                     bytes))
        return MDNN_STATUS_BAD_FORMAT;
    const uint32_t taken = atomic_load(&header->rows_taken);
    const uint32_t ran = atomic_load(&header->executions_taken);
    record->executions = ran < header->execution_capacity ? ran : header->execution_capacity;
    record->data = data;
    record->rows = taken < header->row_capacity ? taken : header->row_capacity;
    record->rows_dropped = taken - record->rows;
    return MDNN_STATUS_OK;
}

static mdnn_statistics_name_t counter_name(const record_t *record, uint32_t index)
{
    mdnn_statistics_name_t name;
    memcpy(&name, record->data + record->header.names_offset + (uint64_t)index * sizeof name,
           sizeof name);
    name.name[sizeof name.name - 1] = '\0';
    name.meaning[sizeof name.meaning - 1] = '\0';
    return name;
}

/* The process may count on, in exit handlers or because it is not over yet. */
static uint64_t counter_value(const record_t *record, uint32_t index)
{
    uint64_t value;
    const void *const at =
        record->data + record->header.counters_offset + (uint64_t)index * sizeof value;
    if ((uintptr_t)at % sizeof value == 0)
        return __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
    memcpy(&value, at, sizeof value);
    return value;
}

/* NOT_FOUND for a row that was being written when the process ended, or never was. */
static mdnn_status_t get_row(const record_t *record, uint32_t index, mdnn_statistics_row_t *row)
{
    mdnn_statistics_slot_t slot;
    memcpy(&slot, record->data + record->header.rows_offset + (uint64_t)index * sizeof slot,
           sizeof slot);
    const uint32_t sequence = atomic_load(&slot.sequence);
    if (sequence == 0 || sequence % 2 != 0)
        return MDNN_STATUS_NOT_FOUND;
    *row = slot.row;
    row->problem[sizeof row->problem - 1] = '\0';
    row->configuration[sizeof row->configuration - 1] = '\0';
    row->key[sizeof row->key - 1] = '\0';
    return MDNN_STATUS_OK;
}

/* NOT_FOUND for a device without virtual memory. Numbers that were being written when the process
 * ended are shown all the same: each of them is the old or the new one. */
static mdnn_status_t get_memory(const record_t *record, uint32_t device,
                                mdnn_memory_statistics_t *numbers)
{
    mdnn_statistics_memory_t memory;
    memcpy(&memory, record->data + record->header.memory_offset + (uint64_t)device * sizeof memory,
           sizeof memory);
    if (atomic_load(&memory.sequence) == 0)
        return MDNN_STATUS_NOT_FOUND;
    *numbers = memory.numbers;
    return MDNN_STATUS_OK;
}

static void format_time(int64_t seconds, char *buffer, size_t bytes)
{
    const time_t time = (time_t)seconds;
    struct tm parts;
    if (gmtime_r(&time, &parts) == NULL ||
        strftime(buffer, bytes, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(buffer, bytes, "unknown");
}

static void terminate_header_texts(mdnn_statistics_header_t *header)
{
    header->program[sizeof header->program - 1] = '\0';
    header->host[sizeof header->host - 1] = '\0';
    header->library_version[sizeof header->library_version - 1] = '\0';
}

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

void mdnn_statistics_print_counter(uint64_t value, const char *meaning, FILE *out)
{
    static const char bytes[] = "bytes ", microseconds[] = "microseconds ";
    char text[MDNN_NUMBER_BYTES];
    if (begins_with(meaning, bytes)) {
        mdnn_format_size_rounded(value, text, sizeof text);
        meaning += strlen(bytes);
    } else if (begins_with(meaning, microseconds)) {
        mdnn_format_decimal((double)value / 1e3, 0, false, text, sizeof text - 3);
        strcat(text, " ms");
        meaning += strlen(microseconds);
    } else {
        snprintf(text, sizeof text, "%" PRIu64, value);
    }
    fprintf(out, "%20s  ", text);
    mdnn_print_plain(meaning, out);
    fputc('\n', out);
}

static void print_text_counters(const record_t *record, FILE *out)
{
    uint32_t shown = 0;
    for (uint32_t i = 0; i < record->header.counter_count; i++) {
        const uint64_t value = counter_value(record, i);
        if (value == 0)
            continue;
        const mdnn_statistics_name_t name = counter_name(record, i);
        mdnn_statistics_print_counter(value, name.meaning, out);
        shown++;
    }
    if (shown == 0)
        fputs("  nothing was counted\n", out);
}

/* "1.234 ms (undivided 3.456 ms, 2.80x)" */
static void print_text_times(const mdnn_statistics_row_t *row, FILE *out)
{
    char chosen[MDNN_NUMBER_BYTES], undivided[MDNN_NUMBER_BYTES], ratio[MDNN_NUMBER_BYTES];
    mdnn_format_decimal(row->configuration_ms, 3, false, chosen, sizeof chosen);
    fprintf(out, ", %s ms", chosen);
    if (!(row->undivided_ms >= 0)) {
        fputs(" (undivided does not fit)", out);
        return;
    }
    mdnn_format_decimal(row->undivided_ms, 3, false, undivided, sizeof undivided);
    fprintf(out, " (undivided %s ms", undivided);
    if (row->configuration_ms > 0) {
        mdnn_format_decimal(row->undivided_ms / row->configuration_ms, 2, false, ratio,
                            sizeof ratio);
        fprintf(out, ", %sx", ratio);
    }
    fputc(')', out);
}

static void print_text_row(const mdnn_statistics_row_t *row, FILE *out)
{
    char workspace[MDNN_NUMBER_BYTES];
    fputs("  ", out);
    mdnn_print_plain(row->problem, out);
    fputs(": ", out);
    if (!(row->configuration_ms >= 0)) {
        fputs("no configuration fits, so it runs as the program asks\n", out);
        return;
    }
    mdnn_print_plain(row->configuration, out);
    mdnn_format_size_rounded(row->workspace_bytes, workspace, sizeof workspace);
    fprintf(out, ", workspace %s", workspace);
    print_text_times(row, out);
    fputc('\n', out);
}

/* Nothing is gained by the library's choice. (What could not be made ready may be faster than what runs.) */
static bool is_as_undivided(const mdnn_statistics_row_t *row)
{
    return row->configuration_ms >= 0 && row->undivided_ms >= 0 &&
           !(row->configuration_ms < row->undivided_ms) &&
           !(row->configuration_ms > row->undivided_ms);
}

/* Those whose choice makes a difference, or which nothing fits; the others are told in JSON. */
static void print_text_rows(const record_t *record, FILE *out)
{
    uint32_t left_out = 0;
    if (record->rows > 0)
        fprintf(out, "convolutions: %" PRIu32 "\n", record->rows);
    for (uint32_t i = 0; i < record->rows; i++) {
        mdnn_statistics_row_t row;
        if (get_row(record, i, &row) != MDNN_STATUS_OK)
            fputs("  (was being written when the process ended)\n", out);
        else if (is_as_undivided(&row))
            left_out++;
        else
            print_text_row(&row, out);
    }
    if (left_out == 1)
        fputs("  1 gains nothing, and runs undivided; --stats json lists it, too\n", out);
    else if (left_out > 0)
        fprintf(out,
                "  %" PRIu32 " gain nothing, and run undivided; --stats json lists them, too\n",
                left_out);
    if (record->rows_dropped > 0)
        fprintf(out, "  %" PRIu32 " more were not recorded\n", record->rows_dropped);
}

static void print_text_memory(const record_t *record, FILE *out)
{
    for (uint32_t device = 0; device < record->header.memory_count; device++) {
        mdnn_memory_statistics_t numbers;
        if (get_memory(record, device, &numbers) == MDNN_STATUS_OK)
            mdnn_memory_statistics_print_text(&numbers, (int)device, out);
    }
}

static void make_verdict(const record_t *record, mdnn_verdict_lines_t *verdict)
{
    *verdict = (mdnn_verdict_lines_t){.count = 0};
    for (uint32_t device = 0; device < record->header.memory_count; device++) {
        mdnn_memory_statistics_t numbers;
        if (get_memory(record, device, &numbers) == MDNN_STATUS_OK)
            mdnn_verdict_add_device(verdict, (int)device, &numbers);
    }
    for (uint32_t i = 0; i < record->rows; i++) {
        mdnn_statistics_row_t row;
        if (get_row(record, i, &row) == MDNN_STATUS_OK)
            mdnn_verdict_add_convolution(verdict, &row);
    }
    mdnn_verdict_end(verdict);
}

static void print_verdict(const record_t *record, FILE *out)
{
    mdnn_verdict_lines_t verdict;
    make_verdict(record, &verdict);
    for (size_t i = 0; i < verdict.count; i++) {
        fputs(verdict_beginning, out);
        mdnn_print_plain(verdict.lines[i], out);
        fputc('\n', out);
    }
}

static void print_json_verdict(const record_t *record, FILE *out)
{
    mdnn_verdict_lines_t verdict;
    make_verdict(record, &verdict);
    fputs(" \"verdict\": [", out);
    for (size_t i = 0; i < verdict.count; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", out);
        mdnn_print_json_text(verdict.lines[i], out);
    }
    fputs("\n ],\n", out);
}

static void print_text(const record_t *record, FILE *out)
{
    const mdnn_statistics_header_t *const header = &record->header;
    char started[32];
    format_time(header->started, started, sizeof started);
    fputs(text_beginning, out);
    mdnn_print_plain(header->program, out);
    fprintf(out, ", process %" PRIu64 " on ", header->process);
    mdnn_print_plain(header->host, out);
    fprintf(out, ", started %s%s\n", started,
            atomic_load(&header->finished) ? "" : ", not finished (it runs, or was ended early)");
    print_text_memory(record, out);
    print_text_counters(record, out);
    print_text_rows(record, out);
    print_verdict(record, out);
}

static void print_json_counters(const record_t *record, FILE *out)
{
    fputs(" \"counters\": {", out);
    for (uint32_t i = 0; i < record->header.counter_count; i++) {
        const mdnn_statistics_name_t name = counter_name(record, i);
        fputs(i > 0 ? ",\n  " : "\n  ", out);
        mdnn_print_json_text(name.name, out);
        fprintf(out, ": %" PRIu64, counter_value(record, i));
    }
    fputs("\n },\n", out);
}

static void print_json_memory(const record_t *record, FILE *out)
{
    fputs(" \"memory\": [", out);
    bool first = true;
    for (uint32_t device = 0; device < record->header.memory_count; device++) {
        mdnn_memory_statistics_t numbers;
        if (get_memory(record, device, &numbers) != MDNN_STATUS_OK)
            continue;
        fputs(first ? "\n  " : ",\n  ", out);
        first = false;
        mdnn_memory_statistics_print_json(&numbers, (int)device, out);
    }
    fputs(first ? "],\n" : "\n ],\n", out);
}

static void print_json_rows(const record_t *record, FILE *out)
{
    fputs(" \"convolutions\": [", out);
    bool first = true;
    for (uint32_t i = 0; i < record->rows; i++) {
        mdnn_statistics_row_t row;
        if (get_row(record, i, &row) != MDNN_STATUS_OK)
            continue;
        fputs(first ? "\n  {\"problem\": " : ",\n  {\"problem\": ", out);
        first = false;
        mdnn_print_json_text(row.problem, out);
        fputs(", \"configuration\": ", out);
        mdnn_print_json_text(row.configuration, out);
        fprintf(out, ", \"workspace_bytes\": %" PRIu64, row.workspace_bytes);
        mdnn_print_json_ms("configuration_ms", row.configuration_ms, out);
        mdnn_print_json_ms("undivided_ms", row.undivided_ms, out);
        fprintf(out, ", \"device\": %" PRId32 ", \"key\": ", row.device);
        mdnn_print_json_text(row.key, out);
        fputc('}', out);
    }
    fprintf(out, "%s],\n \"convolutions_not_recorded\": %" PRIu32 ",\n", first ? "" : "\n ",
            record->rows_dropped);
}

/* Addresses as small numbers, in the order in which they first come. */
typedef struct numbers {
    struct {
        uint64_t address;
        uint32_t number; /* and one; 0: free */
    } * places;
    size_t size; /* a power of two, never full */
    uint32_t count;
} numbers_t;

static bool numbers_init(numbers_t *numbers, size_t most)
{
    numbers->count = 0;
    for (numbers->size = 8; numbers->size < 2 * most; numbers->size *= 2)
        continue;
    numbers->places = calloc(numbers->size, sizeof *numbers->places);
    return numbers->places != NULL;
}

static uint32_t number_of(numbers_t *numbers, uint64_t address)
{
    size_t at = (size_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (numbers->size - 1);
    while (numbers->places[at].number != 0 && numbers->places[at].address != address)
        at = (at + 1) & (numbers->size - 1);
    if (numbers->places[at].number == 0) {
        numbers->places[at].address = address;
        numbers->places[at].number = ++numbers->count;
    }
    return numbers->places[at].number - 1;
}

/* What a row is called in the JSON array, which leaves out rows that cannot be read; -1: left out.
 * malloc'ed. */
static int *places_of_rows(const record_t *record)
{
    int *const places = malloc((record->rows + 1) * sizeof *places);
    int place = 0;
    for (uint32_t i = 0; places != NULL && i < record->rows; i++) {
        mdnn_statistics_row_t row;
        places[i] = get_row(record, i, &row) == MDNN_STATUS_OK ? place++ : -1;
    }
    return places;
}

/* Each as [convolution, stream, x, w, y]: a place in the array of convolutions, then numbers that
 * are equal where the streams and the addresses were. */
static void print_executions(const record_t *record, const int *places, numbers_t *streams,
                             numbers_t *addresses, FILE *out)
{
    bool first = true;
    for (uint32_t i = 0; i < record->executions; i++) {
        mdnn_statistics_cell_t cell;
        memcpy(&cell, record->data + record->header.executions_offset + (uint64_t)i * sizeof cell,
               sizeof cell);
        const uint32_t row = atomic_load(&cell.row);
        if (row == 0 || row > record->rows || places[row - 1] < 0)
            continue;
        const uint32_t stream = number_of(streams, cell.stream);
        const uint32_t x = number_of(addresses, cell.x), w = number_of(addresses, cell.w);
        fprintf(out, "%s[%d,%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]",
                first        ? "\n  "
                : i % 8 == 0 ? ",\n  "
                             : ", ",
                places[row - 1], stream, x, w, number_of(addresses, cell.y));
        first = false;
    }
}

static void print_json_executions(const record_t *record, FILE *out)
{
    numbers_t streams, addresses;
    int *const places = places_of_rows(record);
    const bool good = numbers_init(&streams, record->executions);
    fputs(" \"executions\": [", out);
    if (numbers_init(&addresses, (size_t)3 * record->executions) && good && places != NULL)
        print_executions(record, places, &streams, &addresses, out);
    fputs("]\n}\n", out);
    free(streams.places);
    free(addresses.places);
    free(places);
}

static void print_json(const record_t *record, FILE *out)
{
    const mdnn_statistics_header_t *const header = &record->header;
    char started[32];
    format_time(header->started, started, sizeof started);
    fprintf(out, "%s%d,\n \"version\": ", json_beginning, MDNN_STATISTICS_JSON_VERSION);
    mdnn_print_json_text(header->library_version, out);
    fputs(",\n \"program\": ", out);
    mdnn_print_json_text(header->program, out);
    fputs(",\n \"host\": ", out);
    mdnn_print_json_text(header->host, out);
    fprintf(out, ",\n \"process\": %" PRIu64 ",\n \"started\": ", header->process);
    mdnn_print_json_text(started, out);
    fprintf(out, ",\n \"finished\": %s,\n", atomic_load(&header->finished) ? "true" : "false");
    print_json_verdict(record, out);
    print_json_counters(record, out);
    print_json_memory(record, out);
    print_json_rows(record, out);
    print_json_executions(record, out);
}

mdnn_status_t mdnn_statistics_print_record(const void *data, size_t bytes,
                                           mdnn_statistics_format_t format, FILE *out)
{
    record_t record;
    MDNN_TRY(open_record(data, bytes, &record));
    terminate_header_texts(&record.header);
    if (format == MDNN_STATISTICS_JSON)
        print_json(&record, out);
    else if (format == MDNN_STATISTICS_BRIEF)
        print_verdict(&record, out);
    else
        print_text(&record, out);
    return ferror(out) ? MDNN_STATUS_IO : MDNN_STATUS_OK;
}

/* Whether the content is what mdnn_statistics_finish wrote, in a form that serves `format`: a
 * finished table cannot become JSON again. */
static bool is_finished(const char *data, size_t bytes, mdnn_statistics_format_t format)
{
    const size_t json = sizeof json_beginning - 1, text = sizeof text_beginning - 1,
                 verdict = sizeof verdict_beginning - 1;
    return (bytes >= json && memcmp(data, json_beginning, json) == 0) ||
           (format == MDNN_STATISTICS_TEXT &&
            ((bytes >= text && memcmp(data, text_beginning, text) == 0) ||
             (bytes >= verdict && memcmp(data, verdict_beginning, verdict) == 0)));
}

static mdnn_status_t read_file(const char *path, char **data, size_t *bytes)
{
    /* A copy, not a mapping: the file may be cut while it is read. */
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return errno == ENOENT ? MDNN_STATUS_NOT_FOUND : MDNN_STATUS_IO;
    struct stat information;
    mdnn_status_t status = MDNN_STATUS_OK;
    char *buffer = NULL;
    if (fstat(descriptor, &information) != 0 || !S_ISREG(information.st_mode))
        status = MDNN_STATUS_IO;
    else if (information.st_size <= 0 || information.st_size > RECORD_BYTES_MAX)
        status = MDNN_STATUS_BAD_FORMAT;
    else if ((buffer = malloc((size_t)information.st_size)) == NULL)
        status = MDNN_STATUS_OUT_OF_MEMORY;
    size_t used = 0;
    while (status == MDNN_STATUS_OK && used < (size_t)information.st_size) {
        const ssize_t got = read(descriptor, buffer + used, (size_t)information.st_size - used);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            status = MDNN_STATUS_IO;
        used += got > 0 ? (size_t)got : 0;
    }
    close(descriptor);
    if (status != MDNN_STATUS_OK) {
        free(buffer);
        return status;
    }
    *data = buffer;
    *bytes = used;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_statistics_print_file(const char *path, mdnn_statistics_format_t format,
                                         FILE *out)
{
    char *data = NULL;
    size_t bytes = 0;
    MDNN_TRY(read_file(path, &data, &bytes));
    mdnn_status_t status = MDNN_STATUS_OK;
    if (is_finished(data, bytes, format))
        status = fwrite(data, 1, bytes, out) == bytes ? MDNN_STATUS_OK : MDNN_STATUS_IO;
    else
        status = mdnn_statistics_print_record(data, bytes, format, out);
    free(data);
    return status;
}

mdnn_status_t mdnn_statistics_read_memory(const char *path, mdnn_statistics_header_t *header,
                                          mdnn_memory_statistics_t *numbers, bool *has)
{
    char *data = NULL;
    size_t bytes = 0;
    record_t record;
    MDNN_TRY(read_file(path, &data, &bytes));
    const mdnn_status_t status = open_record(data, bytes, &record);
    for (uint32_t device = 0; status == MDNN_STATUS_OK && device < MDNN_DEVICES; device++) {
        has[device] = device < record.header.memory_count &&
                      get_memory(&record, device, &numbers[device]) == MDNN_STATUS_OK;
        numbers[device].plan_state[sizeof numbers->plan_state - 1] = '\0';
    }
    if (status == MDNN_STATUS_OK) {
        terminate_header_texts(&record.header);
        memcpy(header, &record.header, sizeof *header);
    }
    free(data);
    return status;
}
