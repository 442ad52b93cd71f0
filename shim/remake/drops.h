/* Drops (memory.remake = checked): tells the mechanism (offload/memory/memory.h) how contents can be made again, and makes
 * them again when it asks for that, in a stream of our own.
 *
 * A content can be dropped if a launch or a chain of launches (chains.h) has made it that changes nothing else but
 * sides (images.h), if the proofs say that these launches make the same bytes again, and if such a content has left by a
 * copy before. Before each launch its inputs are hashed in its stream, and its result afterwards; the first launches of
 * a chain are hashed as if their own results were to be dropped. What was made again is hashed, too. A difference cannot
 * be repaired: a kernel then ends the context with an error before anything of the program can read the content.
 *
 * The caller holds REMAKE and has entered the device, unless something else is said. */
#ifndef MDNN_DROPS_H
#define MDNN_DROPS_H

#include "shim/remake/made_values.h"
#include "shim/vmem/virtual_device.h"

/* Called without a lock of the device. Makes what drops need, if something is wanted that could be dropped. */
void mdnn_drops_prepare(mdnn_virtual_device_t *device);
/* Something was named that has left by a copy and could have been dropped. */
void mdnn_drops_want(void);

/* A launch whose result may be dropped some day. */
typedef struct mdnn_drop mdnn_drop_t;
/* Called before the launch; `alone`: no other thread has an operation under way, so moves may be waited for. NULL: its
 * result is not to be dropped. */
mdnn_drop_t *mdnn_drop_begin(mdnn_virtual_device_t *device, uint64_t number, mdnn_recipe_t *recipe,
                             bool alone);
/* Called once after it, while its memory is held. `launched` false: it was not. */
void mdnn_drop_end(mdnn_virtual_device_t *device, uint64_t number, mdnn_drop_t *drop,
                   bool launched);

/* The device was reset. */
void mdnn_drops_forget(void);
/* Says what was not made as it was, once. Called without a lock. */
void mdnn_drops_say_lost(mdnn_virtual_device_t *device);

#endif
