/* Checks whether sizes fit together and are plausible: a budget of 12 bytes is probably 12GiB
 * without its unit. If they are not, the library keeps no budget, and the tool does not start the
 * program. */
#ifndef MDNN_SIZES_H
#define MDNN_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/options.h"

/* Size of a buffer for the texts of the functions below. */
enum { MDNN_TROUBLE_BYTES = 256 };

/* The unit in which memory moves under a budget, a power of two from 2 MiB on. It is `option` ([memory] chunk_size),
 * rounded up. If that is 0, it is the larger of two sizes: a 1024th of the budget, rounded up, at most 32 MiB; and a
 * 256th of the budget, rounded down, at most 8 MiB. Smaller chunks waste less, and larger ones change fewer
 * mappings. */
uint64_t mdnn_chunk_bytes(uint64_t budget_bytes, uint64_t option);

/* Whether memory.budget, if there is one, was read and has room for a chunk on a device with `device_bytes` (0: not
 * known, so a share of it is not judged). Otherwise `why` says what is wrong and what may have been meant; `bytes` is
 * at least MDNN_TROUBLE_BYTES. */
bool mdnn_budget_can_be_kept(const mdnn_options_t *options, uint64_t device_bytes, char *why,
                             size_t bytes);

/* Whether `size_bytes`, written as `text`, is plausible for that option. Otherwise `why` says what
 * is wrong; `bytes` is at least MDNN_TROUBLE_BYTES. True for options that are not sizes. */
bool mdnn_size_is_plausible(mdnn_option_id_t id, const char *text, uint64_t size_bytes, char *why,
                            size_t bytes);

#endif
