#include "shim/vmem/virtual_record.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/devices.h"
#include "config/log.h"
#include "config/paths.h"
#include "config/whole_file.h"
#include "offload/plan/run_record.h"
#include "shim/real/process.h"
#include "shim/real/real.h"

/* Of one device: written while it is set up, then used by the thread that plans. */
typedef struct recorder {
    mdnn_run_record_t record; /* without its period */
    char path[MDNN_OPTION_STRING_BYTES];
    bool failed;
    uint32_t operations; /* of the period that was written */
    bool is_settled;     /* it was the one that the program had followed most */
} recorder_t;

static recorder_t recorders[MDNN_DEVICES];
static _Atomic int first_device = -1; /* has the file without a number */

static void complain(recorder_t *recorder, const char *why)
{
    MDNN_LOG(MDNN_LOG_WARN, "memory", "cannot write the record %s: %s", recorder->path, why);
    recorder->failed = true;
}

/* The first device that gets here has the plain name. */
static bool name_file(recorder_t *recorder)
{
    char absolute[MDNN_OPTION_STRING_BYTES];
    const size_t room = sizeof recorder->path;
    int first = -1;
    mdnn_absolute_pattern(mdnn_process_options()->memory_record, absolute, sizeof absolute);
    mdnn_expand_pattern(absolute, recorder->path, room);
    if (atomic_compare_exchange_strong(&first_device, &first, recorder->record.device) ||
        first == recorder->record.device)
        return true;
    const size_t length = strlen(recorder->path);
    return snprintf(recorder->path + length, room - length, ".%d", recorder->record.device) <
           (int)(room - length);
}

/* The period that the program follows most is the iteration, also when it is planned again. Until that is known, the
 * longest is taken for it, of which the others may be loops. */
static bool is_better(const recorder_t *recorder, const mdnn_period_t *period, bool most_followed)
{
    return most_followed ||
           (recorder->is_settled ? period->operation_count == recorder->operations
                                 : period->operation_count >= recorder->operations);
}

static void record_period(void *context, const mdnn_period_t *period, uint64_t ranges_bytes,
                          bool most_followed)
{
    recorder_t *const recorder = context;
    if (recorder->failed || !is_better(recorder, period, most_followed) || mdnn_process_is_child())
        return;
    if (recorder->path[0] == '\0' && !name_file(recorder)) {
        complain(recorder, "the name is too long");
        return;
    }
    mdnn_run_record_t record = recorder->record;
    char *text = NULL;
    size_t bytes = 0;
    record.period = *period;
    record.ranges_bytes = ranges_bytes;
    mdnn_status_t status = mdnn_run_record_write(&record, &text, &bytes);
    if (status == MDNN_STATUS_OK)
        status = mdnn_write_whole_file(recorder->path, text, bytes);
    if (status == MDNN_STATUS_OK) {
        recorder->operations = period->operation_count;
        recorder->is_settled = recorder->is_settled || most_followed;
    } else {
        complain(recorder,
                 status == MDNN_STATUS_IO ? strerrordesc_np(errno) : mdnn_status_string(status));
    }
    free(text);
}

void mdnn_virtual_record_device(CUdevice ordinal, uint64_t total_bytes, uint64_t budget_bytes,
                                mdnn_follower_config_t *follower)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (mdnn_process_options()->memory_record[0] == '\0' || ordinal >= MDNN_DEVICES)
        return;
    recorder_t *const recorder = &recorders[ordinal];
    recorder->record = (mdnn_run_record_t){.device = ordinal,
                                           .simulated = driver->is_simulated,
                                           .total_bytes = total_bytes,
                                           .budget_bytes = budget_bytes,
                                           .chunk_bytes = follower->chunk_bytes,
                                           .link = follower->link};
    snprintf(recorder->record.program, sizeof recorder->record.program, "%s",
             program_invocation_short_name);
    (void)driver->cuDeviceGetName(recorder->record.device_name,
                                  (int)sizeof recorder->record.device_name - 1, ordinal);
    follower->planned = record_period;
    follower->planned_context = recorder;
}
