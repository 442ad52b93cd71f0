/* What the kernels use that a library's call launches, beside what their parameters name. While
 * such a call runs its list is the thread's, and each kernel that the thread launches names what is
 * in it.
 *
 * A list belongs to one thread; what is published is for all. */
#ifndef MDNN_INDIRECT_OPERANDS_H
#define MDNN_INDIRECT_OPERANDS_H

#include "shim/vmem/virtual_memory.h"

typedef struct mdnn_indirect_operand {
    uint64_t address;
    mdnn_use_role_t role;
    const void *owner; /* the communicator; NULL: nobody */
    uint64_t call;     /* published: which call's ... */
    uint64_t returned; /* ... and the tick when it came back; 0: it is under way */
} mdnn_indirect_operand_t;

typedef struct mdnn_indirect_operands {
    struct mdnn_indirect_operands *outer; /* of the call around this one */
    mdnn_indirect_operand_t *names;
    size_t count, capacity;
    size_t published; /* so many of them are */
    uint64_t call;    /* number, if any is */
    bool lost;        /* a name, for want of memory: launches are refused */
} mdnn_indirect_operands_t;

/* An empty list needs no end. Addresses that are not ours are passed over. */
void mdnn_indirect_add(mdnn_indirect_operands_t *operands, uint64_t address, mdnn_use_role_t role,
                       const void *owner);
/* Empty again. */
void mdnn_indirect_clear(mdnn_indirect_operands_t *operands);

/* Around the call, in the same thread. */
void mdnn_indirect_enter(mdnn_indirect_operands_t *operands);
void mdnn_indirect_leave(mdnn_indirect_operands_t *operands);

/* For a launch, whose `name` is set: names what is hidden from it. */
void mdnn_indirect_name(mdnn_virtual_operation_t *operation);

/* Other threads, of the library's own, may launch the call's kernels, during the call or later
 * (NCCL, without blocking): kernels of NCCL that a thread without a list launches name what is
 * published. publish: what is new in the list. */
void mdnn_indirect_publish(mdnn_indirect_operands_t *operands);
typedef enum mdnn_indirect_outcome {
    MDNN_INDIRECT_LAUNCHED,
    MDNN_INDIRECT_LATER, /* what its communicators had before is launched: they take one at a time */
    MDNN_INDIRECT_REFUSED /* what its communicators had before may still be to be launched */
} mdnn_indirect_outcome_t;
/* Once, after the call; of all that was published only what is still to be launched remains. */
void mdnn_indirect_settle(const mdnn_indirect_operands_t *operands,
                          mdnn_indirect_outcome_t outcome);
/* All is launched that calls for the owner left when they came back, up to a tick; then even calls that
 * are under way will launch nothing more. mdnn_indirect_tick: now; any thread may ask. */
uint64_t mdnn_indirect_tick(void);
void mdnn_indirect_done(const void *owner, uint64_t tick);
void mdnn_indirect_end(const void *owner);

#endif
