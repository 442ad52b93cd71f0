/* Sizes that fit together, and sizes that nobody can mean: a budget of 12 bytes is 12GiB without
 * its unit. For the library, which then keeps no budget, and for the tool, which does not start the
 * program. */
#ifndef MDNN_SIZES_H
#define MDNN_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/options.h"

/* Room for what the functions below say. */
enum { MDNN_TROUBLE_BYTES = 256 };

/* The unit in which memory moves under a budget: `option`, [memory] chunk_size, or, if that is 0, a
 * thousandth of the budget up to 32 MiB; a power of two, at least 2 MiB. */
uint64_t mdnn_chunk_bytes(uint64_t budget_bytes, uint64_t option);

/* Whether memory.budget was read, if there is one, and has room for a chunk. Else `why` says what
 * is wrong and what may have been meant; `bytes` is at least MDNN_TROUBLE_BYTES. */
bool mdnn_budget_can_be_kept(const mdnn_options_t *options, char *why, size_t bytes);

/* Whether `size_bytes`, which somebody wrote as `text`, can be meant for that option. Else `why`
 * says what is wrong; `bytes` is at least MDNN_TROUBLE_BYTES. True for options that are no sizes.
 */
bool mdnn_size_is_plausible(mdnn_option_id_t id, const char *text, uint64_t size_bytes, char *why,
                            size_t bytes);

#endif
