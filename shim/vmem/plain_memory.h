/* Memory that NCCL allocates for itself: its threads, other processes and network cards use it at any
 * time, so it is the driver's plain memory, which can be shared, and counts in the budget
 * (shim/vmem/other_memory.h). */
#ifndef MDNN_PLAIN_MEMORY_H
#define MDNN_PLAIN_MEMORY_H

#include <stdbool.h>

/* A function of NCCL: what is called from the library that it lies in is NCCL's. */
void mdnn_plain_memory_of(void *function);

/* Around what NCCL does in the calling thread: what is allocated there is its own. They nest. */
void mdnn_nccl_enter(void);
void mdnn_nccl_leave(void);

/* Whether an allocation is NCCL's; `caller` is an address in the code that asks for it. */
bool mdnn_plain_memory_wanted(const void *caller);

#endif
