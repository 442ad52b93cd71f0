/* The statistics of remaking. Any thread may call. */
#ifndef MDNN_REMAKE_COUNTS_H
#define MDNN_REMAKE_COUNTS_H

#include "config/memory_statistics.h"
#include "shim/remake/launch_keys.h"

/* A large content was named for the first time. */
void mdnn_remake_count(mdnn_remake_outcome_t outcome, uint64_t bytes);
/* A new key; or one of which a result is proven now. */
void mdnn_remake_count_key(bool proven);
void mdnn_remake_count_proof(bool differs);
/* What making it again would have taken. */
void mdnn_remake_count_time(double us);
void mdnn_remake_fill(mdnn_memory_statistics_t *numbers);

#endif
