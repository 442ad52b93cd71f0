/* What the files of the history (history.h) share. Operations are numbered from 0 as they are recorded; modulo the
 * capacity of a ring, the number is the place there. */
#ifndef MDNN_HISTORY_INTERNAL_H
#define MDNN_HISTORY_INTERNAL_H

#include "offload/follow/history.h"

enum { MDNN_HISTORY_PERIODS = 4, MDNN_HISTORY_FAMILIAR = 8 };

/* The most uses of an operation that are matched with another iteration's; the rest is ignored. */
enum { HISTORY_MATCHED = 1024 };

typedef struct history_operation {
    uint64_t symbol; /* hash of everything by which the operation is recognised */
    uint64_t first_use;
    uint32_t use_count, stream;
    mdnn_operation_kind_t kind;
    uint64_t key, workspace_bytes;
    double time_us;
    uint32_t variants; /* a set of history->variants; 0: none */
} history_operation_t;

/* The different lists of variants that operations had. Lists are few: one for each convolution that the program asks
 * for. */
typedef struct history_variants {
    struct history_variant_set {
        mdnn_variant_t *variants;
        uint32_t count;
    } * sets; /* sets[0] is set 1 */
    uint32_t count, capacity;
} history_variants_t;
enum { HISTORY_VARIANT_SETS = 1024, HISTORY_VARIANTS = 64 };

/* A range that lives or is named in the ring. */
typedef struct history_range {
    uint64_t bytes, padding_bytes;
    uint64_t born_at, died_at; /* number of the next operation at that time */
    uint64_t first_used_at;
    uint32_t references; /* uses in the ring */
    bool lives, stays;
    /* Its last use, if the program was being followed at that time. */
    uint64_t used_at, label_period, label_travel;
    uint32_t used_operand, label_use;
} history_range_t;

typedef struct remembered {
    uint64_t number; /* 0: none */
    uint64_t used_at;
    uint64_t followed_for; /* how many operations in all were as the period says */
    mdnn_period_t period;
    uint64_t *symbols;
    uint32_t *next;     /* for each use, the operations until the range is used again; 0: never */
    double *start_us;   /* operation_count + 1 */
    uint32_t *variants; /* for each operation, its set of history->variants */
    struct familiar {
        uint64_t hash; /* of the eight symbols that end at `position`, around the circle */
        uint32_t position;
    } * familiar; /* sorted */
} remembered_t;

struct mdnn_history {
    uint32_t operation_capacity, use_capacity;
    history_operation_t *operations;
    mdnn_use_t *uses;
    uint64_t recorded, first_kept; /* operations */
    uint64_t uses_recorded;
    history_range_t *ranges;
    uint32_t range_capacity, first_free; /* free entries are chained by used_operand */
    remembered_t remembered[MDNN_HISTORY_PERIODS];
    uint64_t periods_made;
    /* Following: remembered[followed], or lost if it is negative. */
    int followed, lost_from;
    uint32_t position;     /* of the last operation, or where the program got lost */
    uint64_t travel;       /* positions passed in followed or lost_from */
    uint64_t familiar_for; /* operations without a deviation */
    uint64_t lost_at;      /* number of operations at the last deviation */
    uint32_t search_in;    /* how many of the last operations are to be searched; 0: none */
    /* A period is searched for once more at operation number learn_at (0: at none), among the last learn_in
     * operations. */
    uint64_t learn_at, learn_in;
    uint32_t *scratch; /* operation_capacity */
    history_variants_t variants;
    /* Scratch memory for matching two lists of uses. */
    uint64_t likenesses[2][HISTORY_MATCHED];
    uint32_t match[HISTORY_MATCHED];
};

static inline history_operation_t *history_operation_at(const mdnn_history_t *history,
                                                        uint64_t number)
{
    return &history->operations[number % history->operation_capacity];
}

static inline mdnn_use_t *history_use_at(const mdnn_history_t *history, uint64_t number)
{
    return &history->uses[number % history->use_capacity];
}

/* Mixes `value` into `hash`. */
static inline uint64_t history_mix(uint64_t hash, uint64_t value)
{
    uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uses of two iterations are matched by size, and by whether it is the range's first use. At a first use the name is
 * certain: no parameter can look like the address by accident, since nobody has had the address yet. */
static inline uint64_t history_likeness(uint64_t bytes, bool is_first)
{
    return bytes << 1 | is_first;
}

/* How many uses of operation `number` are matched. */
static inline uint32_t history_likenesses(const mdnn_history_t *history, uint64_t number,
                                          uint64_t *likenesses)
{
    const history_operation_t *const kept = history_operation_at(history, number);
    uint32_t count = 0;
    for (; count < kept->use_count && count < HISTORY_MATCHED; count++) {
        const history_range_t *const range =
            &history->ranges[history_use_at(history, kept->first_use + count)->range];
        likenesses[count] = history_likeness(range->bytes, range->first_used_at == number);
    }
    return count;
}

/* Matches as many as possible of a[a_count] with b[b_count] in their order: match[i] is the index
 * in b, or b_count if there is none. Long lists are matched from the front. */
void history_match(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
                   uint32_t *match);

/* The number of that list of variants; 0 if there is none, if there are too many lists or variants, or if memory is
 * short. `likely` is the number that the last such operation had; if it is not the right one, or if the list is new,
 * this takes O(lists). */
uint32_t history_variants_note(history_variants_t *all, const mdnn_variant_t *variants,
                               uint32_t count, uint32_t likely);
void history_variants_fini(history_variants_t *all);
/* *count is 1 for set 0, and the result is then NULL. */
const mdnn_variant_t *history_variants_of(const history_variants_t *all, uint32_t set,
                                          uint32_t *count);

/* Looks for a lag, such that the last operations are equal to those `lag` earlier, and returns the one for which this
 * run of equal operations is longest; its length is *run. The run must be at least one period long, and two iterations
 * must be among the last `count` operations, which are in the ring. 0: there is no such lag. O(count). */
uint32_t history_find_lag(mdnn_history_t *history, uint32_t count, uint32_t *run);

/* After how many operations, less than `lag`, the fewest bytes will be alive, judged by the last
 * `lag` operations. */
uint32_t history_quiet_in(const mdnn_history_t *history, uint32_t lag);

/* Makes a remembered period of `lag` operations, of which the last one came `ago` operations before the last of all. They
 * must repeat the `lag` operations before them. *made owns the period, which has no number yet; *position is the place
 * of the last of all operations in it. False if memory is short, or if the lives of ranges contradict each other. */
bool history_build(mdnn_history_t *history, uint32_t lag, uint32_t ago, remembered_t *made,
                   uint32_t *position);
void history_forget(remembered_t *remembered);

/* Hash of the eight symbols that end at `position` of a period of `count`. */
uint64_t history_familiar_hash(const uint64_t *symbols, uint32_t count, uint32_t position);

#endif
