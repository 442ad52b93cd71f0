/* Watching a launch of the program's, and proving one: making it again in place.
 *
 * A watched launch has all its operands copied before it and compared after it. That shows what launches of its key change.
 *
 * A proof runs in the stream of the operation that is about to use the content that the launch has made, after all work
 * that is enqueued on the device; what is enqueued later waits for it (the caller sees to that). It copies all memory of
 * the program on the device aside, since a kernel may write what it does not name. The second proof fills the wanted
 * range with the complement of its content, the third with bytes at random. Then the launch is made again, everything is
 * compared, and put back, whatever the result is.
 *
 * The caller holds the lock REMAKE, has entered the device, and knows that no other thread has an operation under way. */
#ifndef MDNN_PROOF_H
#define MDNN_PROOF_H

#include "shim/remake/made_values.h"
#include "shim/remake/proof_results.h"

/* `may_move`: as in own_work.h; a proof that has no room for all memory then copies only the operands aside.
 *
 * Copies the operands aside. 0: that is not possible now. Otherwise the result is scratch memory, which watch_end or
 * watch_cancel frees. */
uint64_t mdnn_watch_begin(mdnn_virtual_device_t *device, uint64_t number,
                          const mdnn_recipe_t *recipe, bool may_move);
void mdnn_watch_end(mdnn_virtual_device_t *device, uint64_t number, const mdnn_recipe_t *recipe,
                    uint64_t scratch, bool may_move);

/* Enqueues a proof of the operand `wanted`. MDNN_REMAKE_proven: its result will come. *end: the point after all that was
 * enqueued; position 0: nothing was. */
mdnn_remake_outcome_t mdnn_prove(mdnn_virtual_device_t *device, uint64_t number,
                                 const mdnn_recipe_t *recipe, uint32_t wanted, bool may_move,
                                 mdnn_stream_point_t *end);

/* Learns from a result. Returns whether it was a proof that found other bytes. */
bool mdnn_proof_learn(const mdnn_virtual_device_t *device, const mdnn_proof_result_t *result);

#endif
