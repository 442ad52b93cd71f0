/* The statistics of remaking. Any thread may call. */
#ifndef MDNN_REMAKE_COUNTS_H
#define MDNN_REMAKE_COUNTS_H

#include "config/memory_statistics.h"
#include "offload/memory/memory.h"
#include "shim/remake/launch_keys.h"

/* A large content was named for the first time. */
void mdnn_remake_count(mdnn_remake_outcome_t outcome, uint64_t bytes);
/* A new key; or one of which a result is proven now. */
void mdnn_remake_count_key(bool proven);
void mdnn_remake_count_proof(bool differs);
/* Something became of a content that is, or was to be, dropped. */
void mdnn_remake_count_drop(mdnn_making_event_t what, uint64_t bytes);
/* It was not made again as it was. */
void mdnn_remake_count_lost(void);
/* What making it again would have taken. */
void mdnn_remake_count_time(double us);
void mdnn_remake_fill(mdnn_memory_statistics_t *numbers);

#endif
