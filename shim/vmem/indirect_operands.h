/* Indirect operands: the memory that the kernels of a library's call (cuBLAS, cuFFT, NCCL) use, although their
 * parameters do not name it. While such a call runs, its list belongs to the calling thread, and each kernel that this
 * thread launches names everything in the list. Published operands are for all threads. */
#ifndef MDNN_INDIRECT_OPERANDS_H
#define MDNN_INDIRECT_OPERANDS_H

#include "shim/vmem/virtual_memory.h"

typedef struct mdnn_indirect_operand {
    uint64_t address;
    mdnn_use_role_t role;
    const void *owner; /* the communicator of NCCL; NULL: none */
    uint64_t call;     /* if published: the number of the library's call */
    uint64_t returned; /* if published: the tick at which that call returned; 0: not yet */
} mdnn_indirect_operand_t;

typedef struct mdnn_indirect_operands {
    struct mdnn_indirect_operands *outer; /* of the call around this one */
    mdnn_indirect_operand_t *names;
    size_t count, capacity;
    size_t published; /* that many of the names, the first ones, are published */
    uint64_t call;    /* the number of the library's call, if any of the names is published */
    bool lost;        /* a name was lost for lack of memory: launches are refused */
} mdnn_indirect_operands_t;

/* Adds a name; a list to which nothing was added need not be cleared. Addresses that are not ours are ignored. */
void mdnn_indirect_add(mdnn_indirect_operands_t *operands, uint64_t address, mdnn_use_role_t role,
                       const void *owner);
/* Frees what the list holds; it is empty again. */
void mdnn_indirect_clear(mdnn_indirect_operands_t *operands);

/* Called around the library's call, in the same thread. */
void mdnn_indirect_enter(mdnn_indirect_operands_t *operands);
void mdnn_indirect_leave(mdnn_indirect_operands_t *operands);

/* Called for a launch whose `name` is set: names its indirect operands. */
void mdnn_indirect_name(mdnn_virtual_operation_t *operation);

/* The library's own threads may launch the call's kernels, during the call or later (NCCL without
 * blocking). Kernels of NCCL that a thread without a list launches therefore name all published
 * operands. This function publishes those that are new in the list. */
void mdnn_indirect_publish(mdnn_indirect_operands_t *operands);
typedef enum mdnn_indirect_outcome {
    MDNN_INDIRECT_LAUNCHED,
    /* Kernels are launched later, but those of the communicators' earlier calls have been launched, because a
     * communicator takes one call at a time. */
    MDNN_INDIRECT_LATER,
    /* Nothing is launched, and earlier calls of the communicators may not be launched yet either. */
    MDNN_INDIRECT_REFUSED
} mdnn_indirect_outcome_t;
/* Called once, after the call. Of the published operands only those of kernels that are not
 * launched yet remain. */
void mdnn_indirect_settle(const mdnn_indirect_operands_t *operands,
                          mdnn_indirect_outcome_t outcome);
/* The current tick; ticks number the calls and their returns. 0: nothing is published. Any thread may call this. */
uint64_t mdnn_indirect_tick(void);
/* Called when the kernels of those calls of `owner` that had returned by `tick` are all launched. */
void mdnn_indirect_done(const void *owner, uint64_t tick);
/* Called when the calls of `owner`, even those under way, will launch nothing more. */
void mdnn_indirect_end(const void *owner);

#endif
