/* Pointers that copies bring to device memory. An operation that names the memory where they lie also uses what they
 * point to. A word is 8 bytes that hold such a pointer (offload/memory/pointer_tables.h). The hooks of copies and fills
 * report what these write; a kernel's launch asks what it reaches.
 *
 * The words of a copy from the host are read from its source at the call. That is enough if the driver reads the source
 * before the call returns: because the call waits for the copy, or because the source is pageable, so that the driver
 * stages it. A source in pinned memory may change until the copy runs. If it holds a pointer at the call, or there was
 * one at the copy's destination, the destination is read back right after the copy, in its stream, into pinned memory
 * of ours. Until that has ended, a launch that names the destination counts as using everything; if not everything is
 * resident, or some stream has ever waited for the host, the host waits for the end of the copy, but not for ever.
 *
 * A captured copy adds the words that its source holds at the capture. A captured copy or fill removes no words, since
 * nobody knows when it runs.
 *
 * A copy to the program's pinned memory also takes the words along, for later copies from there and for kernels that
 * read a table there. Words that the host itself writes there are read when a copy or a launch names that memory.
 *
 * There is one lock for the whole process; the locks of devices and of timelines are taken inside it. A program without
 * such pointers pays for one load per launch, and for reading the words of its small copies from the host. */
#ifndef MDNN_VIRTUAL_POINTERS_H
#define MDNN_VIRTUAL_POINTERS_H

#include <stdatomic.h>

#include "offload/memory/pointer_tables.h"
#include "shim/real/address_list.h"
#include "shim/vmem/virtual_memory.h"

/* ---- what is written ---- */

/* Some rows of bytes that a copy or a fill writes. */
typedef struct mdnn_transfer {
    uint64_t to, from; /* from 0: a fill, or a copy of what holds no pointers */
    uint64_t width, rows, to_step, from_step;
    bool later; /* the source is read when the copy runs, if it is pinned memory of the host */
    size_t first_word, word_count;
} mdnn_transfer_t;

/* All that one call writes. */
typedef struct mdnn_transfers {
    size_t count, capacity;
    mdnn_transfer_t *list;
    mdnn_pointer_word_t *words; /* that the sources held at the call */
    size_t word_count, word_capacity;
    bool lost; /* words or transfers are missing, because memory was short: the call is refused */
} mdnn_transfers_t;

/* Called before mdnn_virtual_begin: reads the source, if it is memory of the host and small. A transfer that cannot
 * concern pointers is ignored. */
void mdnn_transfer(mdnn_transfers_t *transfers, const mdnn_transfer_t *transfer);
/* Called after the real call, before mdnn_virtual_end. */
void mdnn_transfers_enqueued(const mdnn_transfers_t *transfers,
                             const mdnn_virtual_operation_t *operation);
void mdnn_transfers_free(mdnn_transfers_t *transfers);

/* Work that has been enqueued, or captured, may write any of these addresses somewhere into the table at `at`, in
 * addition to what is there. Addresses that are not ours are removed from the list. */
void mdnn_pointers_may_be_at(uint64_t at, mdnn_address_list_t *values, bool captured);

/* ---- what is followed ---- */

/* Adds to the list the starts of the allocations that pointers in the allocation at `address` lead to, and so on. */
void mdnn_pointers_reach(uint64_t address, mdnn_address_list_t *list);
/* Adds to the list these addresses in the program's pinned memory, the addresses that tables there hold, the addresses
 * in tables to which these lead, and so on. false: there are more tables than this function reads. */
bool mdnn_pointers_in_host(const uint64_t *addresses, size_t count, mdnn_address_list_t *list);

extern _Atomic bool mdnn_pointers_any; /* whether any pointers are known */

/* Called by mdnn_virtual_begin for an operation that follows pointers: names what it reaches. Sets `untracked` if it
 * may reach anything; mdnn_pointers_end must follow then. `stream`: its number; MDNN_NO_STREAM in a capture. */
void mdnn_pointers_name(mdnn_virtual_operation_t *operation, uint64_t stream, bool capturing);
void mdnn_pointers_end(mdnn_virtual_operation_t *operation);

/* The stream of the operation, as the driver takes it. */
CUstream mdnn_pointers_handle(const mdnn_virtual_operation_t *operation);

/* A stream is about to wait for what the host may do later. From then on launches no longer count as using everything:
 * while the stream of such a launch waited, no memory could leave, and the host might be waiting for that. */
void mdnn_pointers_host_waits(void);
bool mdnn_pointers_host_may_be_awaited(void);
/* Whether pointers are known in the allocation around the address. */
bool mdnn_pointers_are_in(uint64_t address);

/* ---- ends ---- */

/* Called before the allocation at the address is freed. */
void mdnn_pointers_freed(uint64_t address);
/* Called when the words that copies brought to this pinned host memory are gone. */
void mdnn_pointers_host_ends(const void *start, size_t bytes);
/* Called when allocations have begun or ended. */
void mdnn_pointers_changed(void);
/* Called before the device is reset. */
void mdnn_pointers_device_ends(CUdevice device);

#endif
