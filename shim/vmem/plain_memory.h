/* Memory that NCCL allocates for itself. Its threads, other processes and network cards use it at
 * any time, so it is the driver's plain memory, which can be shared; it counts in the budget
 * (shim/vmem/other_memory.h). */
#ifndef MDNN_PLAIN_MEMORY_H
#define MDNN_PLAIN_MEMORY_H

#include <stdbool.h>

/* Announces a function of NCCL: calls from the library that contains it are NCCL's. */
void mdnn_plain_memory_of(void *function);

/* Called around NCCL's work in the calling thread: allocations in between are NCCL's. These calls
 * nest. */
void mdnn_nccl_enter(void);
void mdnn_nccl_leave(void);

/* Whether an allocation is NCCL's; `caller` is an address in the code that asks for it. */
bool mdnn_plain_memory_wanted(const void *caller);

#endif
