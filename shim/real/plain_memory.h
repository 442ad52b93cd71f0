/* Memory that libraries of NVIDIA and MAGMA allocate for themselves. Their kernels read its address from memory, so no
 * operation names it: tables of an FFT, work areas of a solver. Therefore it is the driver's plain memory, which never
 * leaves and counts against the budget (shim/vmem/other_memory.h). The address of the code that asks the driver for
 * memory shows whose memory it is, since these libraries contain the runtime. A program that contains such a library
 * does not count as one. */
#ifndef MDNN_PLAIN_MEMORY_H
#define MDNN_PLAIN_MEMORY_H

typedef enum mdnn_plain_memory {
    MDNN_PLAIN_NEVER, /* the program's own */
    /* a library's: virtual only if the budget has no room for more memory that never leaves */
    MDNN_PLAIN_IF_ROOM,
    MDNN_PLAIN_ALWAYS /* NCCL's, which other processes and network cards use, too */
} mdnn_plain_memory_t;

/* `caller` is an address in the code that asks for the memory; that code stays loaded until the call returns. */
mdnn_plain_memory_t mdnn_plain_memory_wanted(const void *caller);

/* Called around NCCL's work in the calling thread: allocations in between are NCCL's. The pairs of calls nest. */
void mdnn_nccl_enter(void);
void mdnn_nccl_leave(void);

#endif
