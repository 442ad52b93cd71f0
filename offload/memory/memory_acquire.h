/* Memory for an allocation, or addresses alone. */
#ifndef MDNN_MEMORY_ACQUIRE_H
#define MDNN_MEMORY_ACQUIRE_H

#include "offload/memory/memory_internal.h"

/* Like mdnn_ranges_acquire, but this function also makes room and waits as needed. If the plan knows the first use,
 * nothing is sent away, and the allocation gets addresses alone, like mdnn_ranges_reserve; the same holds if other
 * streams go on working on the memory for long. If nothing else is possible, it works like mdnn_ranges_acquire_behind.
 * OK: the thread has the turn; mdnn_memory_end_quiet and mdnn_memory_end_turn must follow. */
mdnn_status_t mdnn_memory_acquire(mdnn_memory_t *memory, uint64_t bytes, uint64_t stream,
                                  mdnn_first_use_t first_use, bool may_have_tail, mdnn_turn_t *turn,
                                  mdnn_acquired_t *allocation);
/* Whether an allocation of that size may have addresses alone. It may not with HOST, where each address has memory, nor
 * if the allocation must not leave or may be used untracked. */
bool mdnn_memory_may_be_bare(const mdnn_memory_t *memory, uint64_t bytes);
/* Whether an allocation that may be bare can ever be used, beside all that lives. */
bool mdnn_memory_could_hold(const mdnn_memory_t *memory, uint64_t bytes);
/* Reserves addresses alone. NOT_FOUND: the allocation could never get chunks. */
mdnn_status_t mdnn_memory_reserve(mdnn_memory_t *memory, uint64_t bytes,
                                  mdnn_acquired_t *allocation);

#endif
