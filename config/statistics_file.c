#include "config/statistics_file.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "config/live_files.h"

static const mdnn_statistics_name_t counter_names[MDNN_COUNTER_COUNT] = {
#define COUNTER(name, meaning) {#name, meaning},
#include "config/counters.def"
#include "config/devices.h"
#undef COUNTER
};

void mdnn_statistics_region_init(mdnn_statistics_region_t *region, bool small)
{
    mdnn_statistics_header_t *const header = &region->header;
    header->version = MDNN_STATISTICS_VERSION;
    header->byte_order = MDNN_STATISTICS_BYTE_ORDER;
    header->total_bytes = small ? MDNN_STATISTICS_SMALL_BYTES : sizeof *region;
    header->names_offset = offsetof(mdnn_statistics_region_t, names);
    header->counters_offset = offsetof(mdnn_statistics_region_t, counters);
    header->rows_offset = offsetof(mdnn_statistics_region_t, rows);
    header->counter_count = MDNN_COUNTER_COUNT;
    header->name_bytes = sizeof(mdnn_statistics_name_t);
    header->row_capacity = small ? 0 : MDNN_STATISTICS_ROWS;
    header->row_bytes = sizeof(mdnn_statistics_slot_t);
    header->memory_offset = offsetof(mdnn_statistics_region_t, memory);
    header->memory_count = MDNN_DEVICES;
    header->memory_bytes = sizeof(mdnn_statistics_memory_t);
    header->executions_offset =
        small ? header->rows_offset : offsetof(mdnn_statistics_region_t, executions);
    header->execution_capacity = small ? 0 : MDNN_STATISTICS_EXECUTIONS;
    header->execution_bytes = sizeof(mdnn_statistics_cell_t);
    header->process = (uint64_t)getpid();
    header->process_start = mdnn_live_process_start(getpid());
    header->started = (int64_t)time(NULL);
    snprintf(header->program, sizeof header->program, "%s", program_invocation_short_name);
    (void)gethostname(header->host, sizeof header->host - 1);
    snprintf(header->library_version, sizeof header->library_version, "%s", MDNN_VERSION);
    memcpy(region->names, counter_names, sizeof counter_names);
    memcpy(header->magic, MDNN_STATISTICS_MAGIC, sizeof header->magic);
}
