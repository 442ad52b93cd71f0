/* The layout of recorded statistics (config/statistics.h): the same bytes in memory and in a live file, the file in
 * which a running process records.
 *
 *   header | counter_count x name | counter_count x value | memory_count x memory of a device |
 *   row_capacity x row | execution_capacity x execution
 *
 * The layout describes itself: a reader of another version takes counts, sizes and places from the
 * header and shows counters by the names in the file. Private to config/ and its tests. */
#ifndef MDNN_STATISTICS_FILE_H
#define MDNN_STATISTICS_FILE_H

#include <stddef.h>

#include "config/devices.h"
#include "config/memory_statistics.h"
#include "config/statistics.h"

enum {
    MDNN_STATISTICS_VERSION = 4,        /* of live files */
    MDNN_STATISTICS_JSON_VERSION = 3,   /* fields may be added to JSON */
    MDNN_STATISTICS_ROWS = 1024,        /* 2.8 MB; a network has tens of different convolutions */
    MDNN_STATISTICS_EXECUTIONS = 16384, /* 0.7 MB; a hundred iterations of ResNet-50 */
    MDNN_STATISTICS_BYTE_ORDER = 0x01020304,
};
#define MDNN_STATISTICS_MAGIC "MDNNSTAT"

typedef struct mdnn_statistics_name {
    char name[48];
    char meaning[80];
} mdnn_statistics_name_t;

typedef struct mdnn_statistics_slot {
    _Atomic uint32_t sequence; /* 0: unused; odd: being written, or its writer was killed */
    uint32_t reserved;
    mdnn_statistics_row_t row;
} mdnn_statistics_slot_t;

/* The first executions. Each is written once. */
typedef struct mdnn_statistics_cell {
    _Atomic uint32_t row; /* number of the row plus one, written last; 0: nothing is here (yet) */
    uint32_t reserved;
    uint64_t stream, x, w, y;
} mdnn_statistics_cell_t;

typedef struct mdnn_statistics_memory {
    _Atomic uint32_t sequence; /* as of a slot */
    uint32_t reserved;
    mdnn_memory_statistics_t numbers;
} mdnn_statistics_memory_t;

typedef struct mdnn_statistics_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order;
    uint64_t total_bytes;
    uint64_t names_offset, counters_offset, rows_offset; /* bytes from the start */
    uint32_t counter_count;
    uint32_t name_bytes; /* of one name */
    uint32_t row_capacity;
    uint32_t row_bytes; /* of one mdnn_statistics_slot_t */
    uint64_t process;
    int64_t started; /* seconds since 1970 */
    char program[64];
    char host[64];
    char library_version[16];
    _Atomic uint32_t rows_taken; /* may pass row_capacity: the rest was dropped */
    _Atomic uint32_t finished;   /* 1: the process has ended normally */
    uint64_t memory_offset;
    uint32_t memory_count;
    uint32_t memory_bytes; /* of one device */
    uint64_t executions_offset;
    uint32_t execution_capacity;
    uint32_t execution_bytes;          /* of one mdnn_statistics_cell_t */
    _Atomic uint32_t executions_taken; /* may pass execution_capacity a little */
    uint32_t reserved;
    uint64_t process_start;    /* clock ticks since the machine was started; 0: not known */
    _Atomic int64_t published; /* when memory was last published, in seconds since 1970; 0: never */
} mdnn_statistics_header_t;

typedef struct mdnn_statistics_region {
    mdnn_statistics_header_t header;
    mdnn_statistics_name_t names[MDNN_COUNTER_COUNT];
    _Atomic uint64_t counters[MDNN_COUNTER_COUNT];
    mdnn_statistics_memory_t memory[MDNN_DEVICES];
    mdnn_statistics_slot_t rows[MDNN_STATISTICS_ROWS];
    mdnn_statistics_cell_t executions[MDNN_STATISTICS_EXECUTIONS];
} mdnn_statistics_region_t;

/* The bytes of a record without room for rows and executions. */
#define MDNN_STATISTICS_SMALL_BYTES offsetof(mdnn_statistics_region_t, rows)

/* Zeroed memory becomes an empty record of this process. `small`: it has MDNN_STATISTICS_SMALL_BYTES. */
void mdnn_statistics_region_init(mdnn_statistics_region_t *region, bool small);

/* What a live file has of the process and of its devices; `has` and `numbers` have room for MDNN_DEVICES. NOT_FOUND,
 * IO, BAD_FORMAT, OUT_OF_MEMORY. */
mdnn_status_t mdnn_statistics_read_memory(const char *path, mdnn_statistics_header_t *header,
                                          mdnn_memory_statistics_t *numbers, bool *has);

/* Where this process records; NULL: nothing is recorded. A small record takes no rows. */
mdnn_statistics_region_t *mdnn_statistics_recorded(void);

/* A line for a counter that is not 0. Where its meaning begins with a unit ("bytes of ..."), the value is for people. */
void mdnn_statistics_print_counter(uint64_t value, const char *meaning, FILE *out);

/* Prints a record of any origin and trusts nothing in it. BAD_FORMAT if it is not a record. `data`
 * may change while it is read. */
mdnn_status_t mdnn_statistics_print_record(const void *data, size_t bytes,
                                           mdnn_statistics_format_t format, FILE *out);

#endif
