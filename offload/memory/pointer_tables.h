/* Pointers in device memory: words of allocations that are known to hold addresses of allocations. An operation (such
 * as a kernel) whose parameters name an allocation also uses the allocations to which words in it point, and those to
 * which words in these point, and so on. This is the bookkeeping; the caller reports the copies that bring words
 * (shim/vmem/virtual_pointers.h).
 *
 * A word is known by its place and its value, both addresses. It counts from the call that enqueues its copy. When a
 * later copy or fill overwrites it, it stops counting for the stream of that call immediately, and for other streams
 * when all work that was enqueued before has ended. It points to whatever lives at its value at the time of the
 * question. A word is forgotten when the allocation that holds it ends.
 *
 * Nobody knows the place of a word that a kernel writes. Such a word is spread: it may lie anywhere in a stretch of
 * bytes. Only a write that covers all of these bytes removes it, and a copy of any of them takes it along. A word that
 * a graph writes comes again with each of its launches, so no overwriting removes it: such a word is kept until its
 * allocation ends.
 *
 * Words that may change between the call that enqueues a copy and the copy itself are unread until they have been read
 * back from the device. Until then the words that were known at the call count as well, but nobody knows whether there
 * are others.
 *
 * Not thread-safe: the caller holds a lock, under which the functions of mdnn_pointer_calls_t are called. If memory is
 * short, a function returns false, or sets `lost`, and some of the reported words may be missing. */
#ifndef MDNN_POINTER_TABLES_H
#define MDNN_POINTER_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "offload/ranges/ranges.h"

typedef struct mdnn_pointer_tables mdnn_pointer_tables_t;

typedef struct mdnn_pointer_calls {
    /* The allocation around an address. */
    bool (*find)(void *context, uint64_t address, uint64_t *start, uint64_t *end);
    /* Changes whenever an allocation begins or ends. */
    uint64_t (*generation)(void *context);
    bool (*is_done)(void *context, mdnn_stream_point_t point); /* may return false too often */
    /* The words of mdnn_pointer_tables_unread are not needed any more. */
    void (*give_back)(void *context, const void *words);
} mdnn_pointer_calls_t;

typedef struct mdnn_pointer_word {
    uint64_t place, value; /* the word's own address, and the address that it holds */
} mdnn_pointer_word_t;

/* Limits of mdnn_pointer_tables_unread and mdnn_pointer_tables_spread. */
enum {
    MDNN_POINTER_UNREAD_BYTES = 64 << 10,
    MDNN_POINTER_SPREAD_BYTES = 64 << 10,
    MDNN_POINTER_STEP_BYTES = 4 << 10
};

mdnn_pointer_tables_t *mdnn_pointer_tables_create(const mdnn_pointer_calls_t *calls, void *context);
void mdnn_pointer_tables_destroy(mdnn_pointer_tables_t *tables); /* accepts NULL */

/* Whether there is any word, known or unread. */
bool mdnn_pointer_tables_any(const mdnn_pointer_tables_t *tables);
/* Whether any word, known or unread, lies in the bytes. */
bool mdnn_pointer_tables_has(const mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes);
bool mdnn_pointer_tables_is_unread(const mdnn_pointer_tables_t *tables, uint64_t at,
                                   uint64_t bytes);

/* Called when work up to `point` overwrites the bytes. Words that it overwrites only in part stay, and so do words that
 * are kept. */
void mdnn_pointer_tables_overwrite(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                   mdnn_stream_point_t point);
/* Adds words at their places, beside the words that are there already (mdnn_pointer_tables_overwrite removes those).
 * The words must be sorted by place, then by value. `kept`: a graph brings them. */
bool mdnn_pointer_tables_add(mdnn_pointer_tables_t *tables, const mdnn_pointer_word_t *words,
                             size_t count, bool kept);
/* Adds words that may lie anywhere in the MDNN_POINTER_SPREAD_BYTES from `at` on, as far as the allocation reaches.
 * `at` is rounded down to a multiple of MDNN_POINTER_STEP_BYTES. Of several values that point into the same allocation
 * and the same 2 MiB, only one is kept. */
bool mdnn_pointer_tables_spread(mdnn_pointer_tables_t *tables, uint64_t at, const uint64_t *values,
                                size_t count, bool kept);
/* Adds to the bytes at `to` the words that lie in the bytes at `from`, beside the words that are at `to` already.
 * `kept`: a graph copies them. */
bool mdnn_pointer_tables_copy(mdnn_pointer_tables_t *tables, uint64_t to, uint64_t from,
                              uint64_t bytes, bool kept);
/* Reports that the content of the bytes is being read back into `words`, where it can be read once `point` has passed.
 * `words` belongs to the tables until give_back is called with it. `bytes` is at most MDNN_POINTER_UNREAD_BYTES, and
 * `at` a multiple of 8. */
bool mdnn_pointer_tables_unread(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                mdnn_stream_point_t point, const void *words);
/* Forgets all words in the bytes, which are those of whole allocations that end. */
void mdnn_pointer_tables_forget(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes);

/* The allocations that work in a stream reaches through words. All zero before the first call; the caller frees
 * `starts`. */
typedef struct mdnn_pointers_followed {
    /* Where each allocation starts; some are perhaps there twice. From index `current` on, they are reached only by
     * words that work under way overwrites. */
    uint64_t *starts;
    size_t current, count;
    size_t capacity;
    bool lost;   /* some are missing, because memory was short */
    bool unread; /* there may be more: ask again when `until` has passed */
    mdnn_stream_point_t until;
} mdnn_pointers_followed_t;

/* `addresses`: one in each of the `count` allocations that the work names. */
void mdnn_pointer_tables_follow(mdnn_pointer_tables_t *tables, const uint64_t *addresses,
                                size_t count, uint64_t stream, mdnn_pointers_followed_t *followed);
/* Reports that `until`, from mdnn_pointers_followed_t, cannot be waited for: words that become readable then are not
 * reported as unread any more. */
void mdnn_pointer_tables_give_up(mdnn_pointer_tables_t *tables, mdnn_stream_point_t until);

#endif
