/* Memory that libraries of NVIDIA and MAGMA allocate for themselves. Their kernels read its address from memory, so no
 * operation names it: tables of an FFT, work areas of a solver. Therefore it is the driver's plain memory, which never
 * leaves and counts in the budget (shim/vmem/other_memory.h). The code that asks the driver for memory shows whose it is,
 * since these libraries contain the runtime. A program that contains such a library is not taken for one. */
#ifndef MDNN_PLAIN_MEMORY_H
#define MDNN_PLAIN_MEMORY_H

typedef enum mdnn_plain_memory {
    MDNN_PLAIN_NEVER, /* the program's own */
    MDNN_PLAIN_IF_ROOM, /* a library's: virtual only where the budget has no room for more that stays */
    MDNN_PLAIN_ALWAYS /* NCCL's, which other processes and network cards use, too */
} mdnn_plain_memory_t;

/* `caller` is an address in the code that asks for the memory; that code stays loaded until the call returns. */
mdnn_plain_memory_t mdnn_plain_memory_wanted(const void *caller);

/* Called around NCCL's work in the calling thread: allocations in between are NCCL's. These calls
 * nest. */
void mdnn_nccl_enter(void);
void mdnn_nccl_leave(void);

#endif
