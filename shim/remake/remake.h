/* Remaking (docs/design/remaking.md): launches of kernels are recorded and made again, to find out which of the program's
 * large contents could be dropped and made again instead of being moved. So far (memory.remake = prove) nothing is
 * dropped: a launch is made again in place, compared, and what it wrote is put back.
 *
 * Before each operation (shim/vmem/virtual_watch.h): waits in its stream for the last proof; looks at the large contents
 * that it names, each once, and perhaps proves a launch that made one; begins to watch a kind of launch that is new.
 * After it: notes what it may have written, and by which launch.
 *
 *   recorded_launch.h  a launch that can be made again, and its key
 *   launch_keys.h      what is known of launches of one key
 *   made_values.h      what the content of each range was made by
 *   own_work.h         our own work on the program's memory, with scratch, in the budget
 *   proof_results.h    counters that a proof leaves on the device, read later without waiting
 *   proof.h            watching and proving one launch
 *
 * All of it is guarded by one lock of the rank REMAKE, which is held while a proof is enqueued: an operation of another
 * thread must not come in between. Only one device takes part, the first that has a recorded launch. */
#ifndef MDNN_REMAKE_H
#define MDNN_REMAKE_H

#include "shim/vmem/virtual_watch.h"

/* Called before mdnn_virtual_begin. `caller`: an address in the code that called the driver. Does nothing unless
 * memory.remake is on. The launch must live as long as the operation. */
void mdnn_remake_note_launch(mdnn_virtual_operation_t *operation, mdnn_launch_t *launch,
                             const void *caller);
/* Called before code is unloaded, or a context ends. */
void mdnn_remake_code_ends(void);
/* Called in a reset of the device, when nothing is begun there any more and what it holds is not given back yet. */
void mdnn_remake_device_ends(int ordinal);

/* Called after a call of the program failed since its context has: says if something that was dropped could not be made
 * again. */
void mdnn_remake_context_failed(void);

#endif
