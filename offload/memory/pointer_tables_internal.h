/* What the files about pointer tables share (pointer_tables.h introduces the terms): pointer_words.c keeps the words of
 * each allocation and what they lead to; pointer_tables.c adds and removes words, and follows them. */
#ifndef MDNN_POINTER_TABLES_INTERNAL_H
#define MDNN_POINTER_TABLES_INTERNAL_H

#include "offload/memory/pointer_tables.h"

typedef struct mdnn_held_word {
    uint64_t place, value;
    /* End of the bytes where the word may lie; if these are 8 bytes, it lies at its place. */
    uint64_t end;
    uint64_t stamp; /* later words have higher stamps */
    /* The word counts until this point has passed; position 0: nothing overwrites it. */
    mdnn_stream_point_t over;
    bool kept;
} mdnn_held_word_t;

/* An allocation to which words lead that are not being overwritten. */
typedef struct mdnn_pointer_target {
    uint64_t start, end;
    uint64_t stamp; /* of the latest word that led there */
    size_t words;
} mdnn_pointer_target_t;

/* An allocation that holds words. */
typedef struct mdnn_pointer_holder {
    uint64_t start, end;
    mdnn_held_word_t *words; /* in the order of their places, then of their values */
    size_t count, capacity;
    size_t over;                          /* how many of them are being overwritten */
    mdnn_pointer_target_t *targets;       /* in the order of their addresses */
    uint64_t *latest;                     /* starts of the targets, by stamp, the latest first */
    size_t target_count, target_capacity; /* of `targets` and of `latest` */
    bool in_order;                        /* `latest` is up to date */
    /* The generation for which the targets are right; 0: the targets are not known. */
    uint64_t generation;
    bool leads_on;  /* some targets hold words themselves */
    uint64_t shape; /* the tables' shape when `leads_on` was found out */
    uint64_t pass;  /* the last pass that looked at it */
} mdnn_pointer_holder_t;

/* Where the holders lie. The places are side by side in memory, because each operand of a launch is looked up. */
typedef struct mdnn_pointer_place {
    uint64_t start, end;
    mdnn_pointer_holder_t *holder;
} mdnn_pointer_place_t;

typedef struct mdnn_pointer_unread {
    struct mdnn_pointer_unread *next;
    uint64_t at, bytes;
    const void *words;
    mdnn_stream_point_t point;
    bool given_up;
    /* For each word, the end of the work that overwrites it; position 0: nothing does. */
    mdnn_stream_point_t over[];
} mdnn_pointer_unread_t;

struct mdnn_pointer_tables {
    mdnn_pointer_calls_t calls;
    void *context;
    mdnn_pointer_place_t *places; /* in the order of their addresses; they do not overlap */
    size_t count, capacity;
    mdnn_pointer_unread_t *unread;
    uint64_t pass, stamp;
    uint64_t shape; /* changes with the places */
};

static inline bool mdnn_pointer_is_within(uint64_t place, uint64_t at, uint64_t bytes)
{
    return place >= at && bytes >= sizeof(uint64_t) && place - at <= bytes - sizeof(uint64_t);
}

void mdnn_pointer_holder_free(mdnn_pointer_holder_t *holder);
/* The first holder that ends after the address. */
size_t mdnn_pointer_place(const mdnn_pointer_tables_t *tables, uint64_t address);
/* NULL: no words are known in the allocation around the address. */
mdnn_pointer_holder_t *mdnn_pointer_holder(const mdnn_pointer_tables_t *tables, uint64_t address);
/* Called when the allocations there have ended. */
void mdnn_pointer_holders_end(mdnn_pointer_tables_t *tables, uint64_t start, uint64_t end);
/* Frees holders without words. */
void mdnn_pointer_holders_sweep(mdnn_pointer_tables_t *tables);
/* Removes words whose overwriting has ended. */
void mdnn_pointer_holder_settle(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder);
/* The first word of the holder that does not lie before the place. */
size_t mdnn_pointer_first_word(const mdnn_pointer_holder_t *holder, uint64_t place);
/* The first word that may lie in bytes from the place on. */
size_t mdnn_pointer_first_reaching(const mdnn_pointer_holder_t *holder, uint64_t place);
/* Whether nothing ever overwrites the word. */
bool mdnn_pointer_is_kept(const mdnn_held_word_t *word);
/* By place, then by value. */
int mdnn_pointer_compare(const mdnn_held_word_t *left, const mdnn_held_word_t *right);
/* Adds words, which are in order, beside those that are there. Changes the array. false: some are missing, because
 * memory was short. */
bool mdnn_pointer_words_put(mdnn_pointer_tables_t *tables, mdnn_held_word_t *words, size_t count);
/* Notes that the word, which counted, does not count any more. */
void mdnn_pointer_uncount(mdnn_pointer_holder_t *holder, const mdnn_held_word_t *word);
/* Brings the targets up to date, and the list of the latest. false without memory: then nothing is known. */
bool mdnn_pointer_find_targets(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder);

#endif
