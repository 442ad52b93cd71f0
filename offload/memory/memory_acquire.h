/* Memory for an allocation, or addresses alone. */
#ifndef MDNN_MEMORY_ACQUIRE_H
#define MDNN_MEMORY_ACQUIRE_H

#include "offload/memory/memory_internal.h"

/* As mdnn_ranges_acquire, but whatever it takes is done and waited for. Where the first use is
 * known, nothing is sent away for it: then as mdnn_ranges_reserve; as it is where other streams
 * work on for long. As mdnn_ranges_acquire_behind where nothing else is left. OK: the thread has
 * the turn, and mdnn_memory_end_quiet and end_turn follow. */
mdnn_status_t mdnn_memory_acquire(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                  mdnn_first_use_t first_use, mdnn_turn_t *turn,
                                  mdnn_acquired_t *allocation);
/* Whether an allocation of that size may have addresses alone. With HOST each address has memory;
 * what must not leave has it from the beginning, and so has what may be used untracked. */
bool mdnn_memory_may_be_bare(const mdnn_memory_t *memory, uint64_t bytes);
/* Addresses alone. NOT_FOUND: it may never have chunks. */
mdnn_status_t mdnn_memory_reserve(mdnn_memory_t *memory, uint64_t bytes,
                                  mdnn_acquired_t *allocation);

#endif
