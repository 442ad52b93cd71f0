/* What the kernels use that a library's call launches, beside what their parameters name. While
 * such a call runs its list is the thread's, and each kernel that the thread launches names what is
 * in it.
 *
 * A list belongs to one thread; what is published is for all. */
#ifndef MDNN_HIDDEN_NAMES_H
#define MDNN_HIDDEN_NAMES_H

#include "shim/vmem/virtual_memory.h"

typedef struct mdnn_hidden_name {
    uint64_t address;
    mdnn_use_role_t role;
    const void *owner; /* the communicator; NULL: nobody */
    uint64_t call;     /* published: which call's ... */
    uint64_t returned; /* ... and the moment when it came back; 0: it is under way */
} mdnn_hidden_name_t;

typedef struct mdnn_hidden {
    struct mdnn_hidden *outer; /* of the call around this one */
    mdnn_hidden_name_t *names;
    size_t count, capacity;
    size_t published; /* so many of them are */
    uint64_t call;    /* number, if any is */
    bool lost;        /* a name, for want of memory: launches are refused */
} mdnn_hidden_t;

/* An empty list needs no end. Addresses that are not ours are passed over. */
void mdnn_hidden_add(mdnn_hidden_t *hidden, uint64_t address, mdnn_use_role_t role,
                     const void *owner);
/* Empty again. */
void mdnn_hidden_clear(mdnn_hidden_t *hidden);

/* Around the call, in the same thread. */
void mdnn_hidden_enter(mdnn_hidden_t *hidden);
void mdnn_hidden_leave(mdnn_hidden_t *hidden);

/* For a launch, whose `name` is set: names what is hidden from it. */
void mdnn_hidden_name(mdnn_virtual_operation_t *operation);

/* Other threads, of the library's own, may launch the call's kernels, during the call or later
 * (NCCL, without blocking): kernels of NCCL that a thread without a list launches name what is
 * published. publish: what is new in the list. */
void mdnn_hidden_publish(mdnn_hidden_t *hidden);
typedef enum mdnn_hidden_outcome {
    MDNN_HIDDEN_LAUNCHED,
    MDNN_HIDDEN_LATER,  /* what its communicators had before is launched: they take one at a time */
    MDNN_HIDDEN_REFUSED /* what its communicators had before may still be to be launched */
} mdnn_hidden_outcome_t;
/* Once, after the call; of all that was published only what is still to be launched remains. */
void mdnn_hidden_settle(const mdnn_hidden_t *hidden, mdnn_hidden_outcome_t outcome);
/* All is launched that calls for the owner left when they came back, up to a moment; then even calls that
 * are under way will launch nothing more. mdnn_hidden_moment: now; any thread may ask. */
uint64_t mdnn_hidden_moment(void);
void mdnn_hidden_done(const void *owner, uint64_t moment);
void mdnn_hidden_end(const void *owner);

#endif
