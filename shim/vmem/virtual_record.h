/* Writes the recorded iteration of each device into the file that the option memory.record names
 * (offload/plan/run_record.h), whenever it is planned. The file of the first device that has something to write has
 * that name; those of others end in "." and their ordinal. Of several periods the file keeps the longest. Trouble is
 * logged once. A forked child writes nothing. */
#ifndef MDNN_VIRTUAL_RECORD_H
#define MDNN_VIRTUAL_RECORD_H

#include "offload/follow/follower.h"
#include "shim/real/driver_queries.h"

/* Makes the plan follower of that device report its periods. Nothing happens without the option. Called while the
 * device is set up. */
void mdnn_virtual_record_device(CUdevice ordinal, uint64_t total_bytes, uint64_t budget_bytes,
                                mdnn_follower_config_t *follower);

#endif
