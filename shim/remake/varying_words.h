/* Words of parameters that change from launch to launch and say nothing of what a kernel does: seeds and counts of random
 * numbers, and padding that nobody sets. If they counted, each launch would have a key of its own, and would never be seen
 * often enough to be proven.
 *
 * A family is launches that differ only in numbers. A word of it varies once it has had MDNN_WORD_VALUES values. Flags
 * and scales, which change what a kernel does, have fewer. If one had so many after all, the proofs of the key without it
 * would be of whatever values it had then. The caller holds the lock. */
#ifndef MDNN_VARYING_WORDS_H
#define MDNN_VARYING_WORDS_H

#include <stdbool.h>
#include <stdint.h>

enum { MDNN_WORD_VALUES = 16 };

typedef struct mdnn_word_family mdnn_word_family_t;

/* The family's entry, which lives as long as the process. NULL: too many, or memory is short. */
mdnn_word_family_t *mdnn_word_family(const uint64_t hash[2]);
/* Notes the value of the word at that place among the words of a launch, and says whether it varies. False for NULL. */
bool mdnn_word_varies(mdnn_word_family_t *family, uint32_t place, uint32_t value);

#endif
