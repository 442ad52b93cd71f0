/* In the place of shim/vmem/virtual_*.c: memory is the real driver's, and what the hooks say is
 * written down. Built into a library of its own, whose test finds it by dlsym. */
#ifndef VIRTUAL_DOUBLE_H
#define VIRTUAL_DOUBLE_H

#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_pointers.h"

enum { DOUBLE_NAMES = 1024 };

typedef struct virtual_double {
    /* The last operation that was begun. */
    CUstream stream;
    bool per_thread, enqueued;
    uint64_t key;
    const char *name;
    size_t name_count;
    mdnn_memory_operand_t names[DOUBLE_NAMES];
    size_t begun, ended, refused; /* operations */
    /* What was said to be written: the last of it, and how much, also before the call. */
    mdnn_transfer_t transfer;
    size_t transfers, transfers_enqueued;
    /* The last allocation. */
    CUstream allocated_in;
    bool allocated_per_thread, allocated_synchronous;
    size_t allocated, freed, waited, pinned, unpinned;
    uint64_t aside_bytes; /* of the budget, for other memory */
    bool refuse;          /* the test's: operations are refused, */
    bool out;             /* allocations too, */
    bool not_served;      /* or left to the driver */
    bool no_capture;      /* nothing is captured, else all is */
    char events[2000];    /* calls about captures and graphs, one word each */
} virtual_double_t;

virtual_double_t *virtual_double(void);

#endif
