/* What is known of the launches of one key (shim/remake/recorded_launch.h). The caller holds the lock. */
#ifndef MDNN_LAUNCH_KEYS_H
#define MDNN_LAUNCH_KEYS_H

#include <stdbool.h>
#include <stdatomic.h>
#include <stdint.h>

typedef enum mdnn_remake_outcome {
#define REMAKE_OUTCOME(name, words) MDNN_REMAKE_##name,
#include "config/remake_outcomes.def"
    MDNN_REMAKE_OUTCOMES
} mdnn_remake_outcome_t;

/* So many launches are watched: what all of them left unchanged counts as only read. And so many proofs of one result
 * must find the same bytes: the first over its own content, the others over what it is not. */
enum { MDNN_REMAKE_WATCHES = 3, MDNN_REMAKE_PROOFS = 3, MDNN_REMAKE_OPERANDS = 256 };
/* Smaller contents are not worth remaking, and may be counters: bytes. Of the smallest ones that a launch changes beside
 * its result, of at most so many, copies serve when it is made again. */
enum { MDNN_REMAKE_LARGE = 1 << 20, MDNN_REMAKE_SMALL = 16 << 10, MDNN_REMAKE_SIDES = 15 };

typedef struct mdnn_key_operand {
    bool changed;   /* a launch was seen to change it */
    bool wanted;    /* what it was made to has left by a copy */
    uint8_t proofs; /* that found the same bytes, with this operand as the wanted one */
} mdnn_key_operand_t;

typedef struct mdnn_launch_key {
    struct mdnn_launch_key *next; /* in its bucket */
    uint64_t hash[2];
    uint32_t launches;          /* so far; no more are counted than matter */
    uint32_t watches, watching; /* that are over, and whose result is not known yet */
    bool proving;               /* a proof's result is not known yet */
    bool counted;               /* among those of which a result was proven */
    uint32_t
        linked; /* so many launches more are hashed because what a chain makes of theirs is to be dropped */
    struct mdnn_launch_key *before; /* of a chain: of the launches before its last one */
    /* Why launches of this key are not made again; MDNN_REMAKE_proven: nothing speaks against it. */
    mdnn_remake_outcome_t barred;
    double replay_us; /* 0: unknown */
    /* How often watching or proving had no room; meanwhile so many occasions are passed over. */
    uint32_t refusals, rest;
    /* Results that were dropped, and made again because an input was to change; and those that were wanted. */
    _Atomic uint32_t early, wanted;
    _Atomic uint32_t refused; /* contents that were hashed, but differed when they left */
    uint32_t operand_count;
    mdnn_key_operand_t operands[];
} mdnn_launch_key_t;

/* The key's entry, which lives as long as the process. NULL: too many, or memory is short. *is_new. */
mdnn_launch_key_t *mdnn_launch_key(const uint64_t hash[2], uint32_t operand_count, bool *is_new);
/* Whether launches of that function and shape are to have keys. Those that are others each time would never be seen often
 * enough to be proven, and watching them takes time: lists of addresses with remains of earlier ones, for instance. */
bool mdnn_launch_shape_is_worthwhile(uint64_t shape);
/* One of its launches has got a key. */
void mdnn_launch_shape_has_key(uint64_t shape, bool is_new);
/* Watching or proving a launch of the key had no room. To find that out again takes time, so the next occasions are passed
 * over, more of them each time. */
void mdnn_launch_key_refused(mdnn_launch_key_t *key);
/* Whether this occasion is one of these. */
bool mdnn_launch_key_rests(mdnn_launch_key_t *key);
/* Whether launches of the key only read the operand. */
bool mdnn_launch_key_reads(const mdnn_launch_key_t *key, uint32_t operand);
bool mdnn_launch_key_is_proven(const mdnn_launch_key_t *key, uint32_t operand);

#endif
