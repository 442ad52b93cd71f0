#include "offload/memory/pointer_tables_internal.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

/* ---- the tables ---- */

mdnn_pointer_tables_t *mdnn_pointer_tables_create(const mdnn_pointer_calls_t *calls, void *context)
{
    mdnn_pointer_tables_t *const tables = calloc(1, sizeof *tables);
    if (tables) {
        tables->calls = *calls;
        tables->context = context;
    }
    return tables;
}

static void free_unread(mdnn_pointer_tables_t *tables, mdnn_pointer_unread_t **at)
{
    mdnn_pointer_unread_t *const unread = *at;
    *at = unread->next;
    tables->calls.give_back(tables->context, unread->words);
    free(unread);
}

void mdnn_pointer_tables_destroy(mdnn_pointer_tables_t *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < tables->count; i++)
        mdnn_pointer_holder_free(tables->places[i].holder);
    while (tables->unread)
        free_unread(tables, &tables->unread);
    free(tables->places);
    free(tables);
}

bool mdnn_pointer_tables_any(const mdnn_pointer_tables_t *tables)
{
    return tables->count > 0 || tables->unread;
}

bool mdnn_pointer_tables_add(mdnn_pointer_tables_t *tables, const mdnn_pointer_word_t *words,
                             size_t count, bool kept)
{
    mdnn_held_word_t *const made = count > 0 ? reallocarray(NULL, count, sizeof *made) : NULL;
    tables->stamp++;
    for (size_t i = 0; made && i < count; i++)
        made[i] = (mdnn_held_word_t){.place = words[i].place,
                                     .value = words[i].value,
                                     .end = words[i].place + sizeof words->value,
                                     .stamp = tables->stamp,
                                     .kept = kept};
    const bool all = count == 0 || (made && mdnn_pointer_words_put(tables, made, count));
    free(made);
    return all;
}

/* ---- overwriting ---- */

static uint64_t end_of(const mdnn_held_word_t *word)
{
    return MDNN_FAULT(SPREAD_WORDS_HAVE_A_PLACE) ? word->place + sizeof word->value : word->end;
}

static mdnn_stream_point_t over_of(const mdnn_pointer_unread_t *unread, uint64_t place)
{
    return unread->over[(place - unread->at) / 8];
}

static void overwrite_unread(mdnn_pointer_unread_t *unread, uint64_t at, uint64_t bytes,
                             mdnn_stream_point_t point)
{
    for (uint64_t i = 0; i < unread->bytes / 8; i++)
        if (mdnn_pointer_is_within(unread->at + 8 * i, at, bytes) && unread->over[i].position == 0)
            unread->over[i] = point;
}

static void overwrite_in(mdnn_pointer_holder_t *holder, uint64_t at, uint64_t bytes,
                         mdnn_stream_point_t point)
{
    size_t i = mdnn_pointer_first_word(holder, at);
    for (; i < holder->count && mdnn_pointer_is_within(holder->words[i].place, at, bytes); i++) {
        mdnn_held_word_t *const word = &holder->words[i];
        if (word->over.position != 0 || mdnn_pointer_is_kept(word) || end_of(word) > at + bytes)
            continue;
        word->over = point;
        holder->over++;
        mdnn_pointer_uncount(holder, word);
    }
}

void mdnn_pointer_tables_overwrite(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                   mdnn_stream_point_t point)
{
    for (size_t i = mdnn_pointer_place(tables, at);
         i < tables->count && tables->places[i].start < at + bytes; i++) {
        mdnn_pointer_holder_settle(tables, tables->places[i].holder);
        overwrite_in(tables->places[i].holder, at, bytes, point);
    }
    mdnn_pointer_holders_sweep(tables);
    for (mdnn_pointer_unread_t *unread = tables->unread; unread; unread = unread->next)
        overwrite_unread(unread, at, bytes, point);
}

/* ---- copies ---- */

typedef struct copied {
    uint64_t from, to, bytes;
    bool kept;
    mdnn_held_word_t *words;
    size_t count;
} copied_t;

/* Of a word that is spread, the part that is copied. */
static void collect_word(const mdnn_held_word_t *word, uint64_t stamp, copied_t *copied)
{
    const uint64_t last = copied->from + copied->bytes, end = end_of(word);
    const uint64_t start = word->place < copied->from ? copied->from : word->place;
    const uint64_t bytes = (end < last ? end : last) - start;
    if (end > start && bytes >= sizeof word->value)
        copied->words[copied->count++] =
            (mdnn_held_word_t){.place = start - copied->from + copied->to,
                               .value = word->value,
                               .end = start - copied->from + copied->to + bytes,
                               .stamp = stamp,
                               .kept = copied->kept};
}

static bool collect(const mdnn_pointer_holder_t *holder, uint64_t stamp, copied_t *copied)
{
    mdnn_held_word_t *const grown =
        reallocarray(copied->words, copied->count + holder->count + 1, sizeof *grown);
    if (!grown)
        return false;
    copied->words = grown;
    for (size_t i = mdnn_pointer_first_reaching(holder, copied->from);
         i < holder->count && holder->words[i].place < copied->from + copied->bytes; i++)
        collect_word(&holder->words[i], stamp, copied);
    return true;
}

static int compare_in_order(const void *left, const void *right)
{
    return mdnn_pointer_compare(left, right);
}

/* All that are known there, also those that are being overwritten. */
bool mdnn_pointer_tables_copy(mdnn_pointer_tables_t *tables, uint64_t to, uint64_t from,
                              uint64_t bytes, bool kept)
{
    copied_t copied = {.from = from, .to = to, .bytes = bytes, .kept = kept};
    bool all = true;
    tables->stamp++;
    for (size_t i = mdnn_pointer_place(tables, from);
         all && i < tables->count && tables->places[i].start < from + bytes; i++) {
        mdnn_pointer_holder_settle(tables, tables->places[i].holder);
        all = collect(tables->places[i].holder, tables->stamp, &copied);
    }
    if (copied.count > 1)
        qsort(copied.words, copied.count, sizeof *copied.words, compare_in_order);
    all = mdnn_pointer_words_put(tables, copied.words, copied.count) && all;
    free(copied.words);
    return all;
}

/* ---- words without a place ---- */

enum { NEAR_BYTES = 2 << 20 };

/* Whether this one leads where the other does, and for as long: an allocation is likely to come back as it was. */
static bool stands_for(const mdnn_held_word_t *known, const mdnn_held_word_t *added, uint64_t start,
                       uint64_t end)
{
    return known->over.position == 0 && known->end >= added->end && (known->kept || !added->kept) &&
           known->value >= start && known->value < end &&
           known->value / NEAR_BYTES == added->value / NEAR_BYTES;
}

/* `start` and `end`: of what the word leads to. */
static bool is_known(const mdnn_pointer_holder_t *holder, const mdnn_held_word_t *word,
                     uint64_t start, uint64_t end)
{
    if (!holder)
        return false;
    for (size_t i = mdnn_pointer_first_word(holder, word->place);
         i < holder->count && holder->words[i].place == word->place; i++)
        if (stands_for(&holder->words[i], word, start, end))
            return true;
    return false;
}

bool mdnn_pointer_tables_spread(mdnn_pointer_tables_t *tables, uint64_t at, const uint64_t *values,
                                size_t count, bool kept)
{
    mdnn_held_word_t *const words = count > 0 ? reallocarray(NULL, count, sizeof *words) : NULL;
    const uint64_t step = at / MDNN_POINTER_STEP_BYTES * MDNN_POINTER_STEP_BYTES;
    uint64_t start, end, first, last;
    size_t made = 0;
    if (count == 0 || !tables->calls.find(tables->context, at, &start, &end)) {
        free(words);
        return true; /* what is not there leads nowhere */
    }
    const uint64_t place = step > start ? step : start;
    const uint64_t spread = MDNN_POINTER_SPREAD_BYTES + (at - place);
    mdnn_held_word_t word = {.place = place, .stamp = ++tables->stamp, .kept = kept};
    word.end = end - place < spread ? end : place + spread;
    const mdnn_pointer_holder_t *const holder = mdnn_pointer_holder(tables, at);
    for (size_t i = 0; words && i < count; i++) {
        word.value = values[i];
        if (tables->calls.find(tables->context, word.value, &first, &last) &&
            !is_known(holder, &word, first, last) &&
            !(made > 0 && stands_for(&words[made - 1], &word, first, last)))
            words[made++] = word;
    }
    if (made > 1)
        qsort(words, made, sizeof *words, compare_in_order);
    const bool all = words && mdnn_pointer_words_put(tables, words, made);
    free(words);
    return all;
}

/* ---- unread words ---- */

static bool overlaps(const mdnn_pointer_unread_t *unread, uint64_t at, uint64_t bytes)
{
    return unread->at < at + bytes && at < unread->at + unread->bytes;
}

bool mdnn_pointer_tables_is_unread(const mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes)
{
    const mdnn_pointer_unread_t *unread = tables->unread;
    while (unread && !overlaps(unread, at, bytes))
        unread = unread->next;
    return unread != NULL;
}

static bool has_words(const mdnn_pointer_holder_t *holder, uint64_t at, uint64_t bytes)
{
    const size_t first = mdnn_pointer_first_word(holder, at);
    return first < holder->count && mdnn_pointer_is_within(holder->words[first].place, at, bytes);
}

bool mdnn_pointer_tables_has(const mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes)
{
    for (size_t i = mdnn_pointer_place(tables, at);
         i < tables->count && tables->places[i].start < at + bytes; i++)
        if (has_words(tables->places[i].holder, at, bytes))
            return true;
    return mdnn_pointer_tables_is_unread(tables, at, bytes);
}

bool mdnn_pointer_tables_unread(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                mdnn_stream_point_t point, const void *words)
{
    mdnn_pointer_unread_t *const made =
        bytes <= MDNN_POINTER_UNREAD_BYTES
            ? calloc(1, sizeof *made + bytes / 8 * sizeof *made->over)
            : NULL;
    if (!made)
        return false;
    made->at = at;
    made->bytes = bytes;
    made->words = words;
    made->point = point;
    mdnn_pointer_unread_t **last =
        &tables->unread; /* the oldest first, so that the newest words count last */
    while (*last)
        last = &(*last)->next;
    *last = made;
    return true;
}

static bool is_misread(const mdnn_pointer_unread_t *unread, const mdnn_held_word_t *word)
{
    uint64_t value;
    if (!mdnn_pointer_is_within(word->place, unread->at, unread->bytes) ||
        word->over.position != 0 || word->end > word->place + sizeof word->value ||
        mdnn_pointer_is_kept(word) || over_of(unread, word->place).position != 0)
        return false;
    memcpy(&value, (const char *)unread->words + (word->place - unread->at), sizeof value);
    return value != word->value;
}

/* What the call knew and did not come, unless somebody has put it there since. */
static void remove_misread(mdnn_pointer_tables_t *tables, const mdnn_pointer_unread_t *unread)
{
    mdnn_pointer_holder_t *const holder = mdnn_pointer_holder(tables, unread->at);
    size_t kept = 0;
    if (!holder)
        return;
    for (size_t i = 0; i < holder->count; i++)
        if (is_misread(unread, &holder->words[i]))
            mdnn_pointer_uncount(holder, &holder->words[i]);
        else
            holder->words[kept++] = holder->words[i];
    holder->count = kept;
}

static bool take_words(mdnn_pointer_tables_t *tables, const mdnn_pointer_unread_t *unread)
{
    mdnn_held_word_t *const words = reallocarray(NULL, unread->bytes / 8 + 1, sizeof *words);
    uint64_t start, end;
    size_t count = 0;
    tables->stamp++;
    for (uint64_t i = 0; words && i < unread->bytes / 8; i++) {
        mdnn_held_word_t word = {.place = unread->at + 8 * i,
                                 .end = unread->at + 8 * i + 8,
                                 .stamp = tables->stamp,
                                 .over = unread->over[i]};
        memcpy(&word.value, (const char *)unread->words + 8 * i, sizeof word.value);
        if (tables->calls.find(tables->context, word.value, &start, &end))
            words[count++] = word;
    }
    const bool all = words && mdnn_pointer_words_put(tables, words, count);
    free(words);
    return all;
}

static void settle_unread(mdnn_pointer_tables_t *tables)
{
    for (mdnn_pointer_unread_t **at = &tables->unread; *at;) {
        if (!tables->calls.is_done(tables->context, (*at)->point)) {
            at = &(*at)->next;
            continue;
        }
        remove_misread(tables, *at);
        if (MDNN_FAULT(READ_BACK_POINTERS_IGNORED) || take_words(tables, *at))
            free_unread(tables, at);
        else
            at = &(*at)->next;
    }
}

/* ---- ends ---- */

void mdnn_pointer_tables_forget(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes)
{
    mdnn_pointer_holders_end(tables, at, at + bytes);
    for (mdnn_pointer_unread_t *unread = tables->unread; unread; unread = unread->next)
        if (overlaps(unread, at, bytes))
            unread->at = unread->bytes = 0; /* what reads it back may still run */
}

/* ---- what is followed ---- */

static void append(mdnn_pointers_followed_t *followed, uint64_t start)
{
    if (followed->count == followed->capacity) {
        const size_t capacity = followed->capacity > 0 ? 2 * followed->capacity : 16;
        uint64_t *const grown = reallocarray(followed->starts, capacity, sizeof *grown);
        if (!grown) {
            followed->lost = true;
            return;
        }
        followed->starts = grown;
        followed->capacity = capacity;
    }
    followed->starts[followed->count++] = start;
}

/* The shape of the tables is 1 or more where there is a holder. */
static void look_on(const mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder)
{
    if (holder->shape == tables->shape)
        return;
    holder->leads_on = false;
    for (size_t i = 0; i < holder->target_count && !holder->leads_on; i++)
        holder->leads_on = mdnn_pointer_holder(tables, holder->targets[i].start) != NULL;
    holder->shape = tables->shape;
}

static void visit_old(mdnn_pointer_tables_t *tables, const mdnn_pointer_holder_t *holder,
                      uint64_t stream, mdnn_pointers_followed_t *followed)
{
    uint64_t start, end;
    for (size_t i = 0; i < holder->count; i++) {
        const mdnn_held_word_t *const word = &holder->words[i];
        if (word->over.position != 0 && word->over.stream != stream &&
            tables->calls.find(tables->context, word->value, &start, &end))
            append(followed, start);
    }
}

static void note_unread(const mdnn_pointer_tables_t *tables, uint64_t start, uint64_t end,
                        mdnn_pointers_followed_t *followed)
{
    for (const mdnn_pointer_unread_t *unread = tables->unread; unread; unread = unread->next)
        if (overlaps(unread, start, end - start) && !unread->given_up) {
            followed->unread = true;
            followed->until = unread->point;
        }
}

enum { SEEN_OLD = 1, SEEN_LAST = 2 };

/* `old`: also what counts through words that are being overwritten. SEEN_OLD: there are such words. SEEN_LAST: nothing
 * of what was appended leads on. */
static unsigned visit(mdnn_pointer_tables_t *tables, uint64_t address, uint64_t stream, bool old,
                      mdnn_pointers_followed_t *followed)
{
    mdnn_pointer_holder_t *const holder = mdnn_pointer_holder(tables, address);
    if (!holder || holder->pass == tables->pass)
        return SEEN_LAST;
    holder->pass = tables->pass;
    mdnn_pointer_holder_settle(tables, holder);
    if (!mdnn_pointer_find_targets(tables, holder))
        followed->lost = true;
    look_on(tables, holder);
    for (size_t i = 0; i < holder->target_count; i++)
        append(followed, holder->latest[i]);
    if (old && holder->over > 0 && !MDNN_FAULT(OVERWRITTEN_POINTERS_END_AT_ONCE))
        visit_old(tables, holder, stream, followed);
    return (holder->over > 0 ? SEEN_OLD : 0) |
           (holder->leads_on || (old && holder->over > 0) ? 0 : SEEN_LAST);
}

/* Appends to what is followed, from its end on. */
static bool follow(mdnn_pointer_tables_t *tables, const uint64_t *addresses, size_t count,
                   uint64_t stream, bool old, mdnn_pointers_followed_t *followed)
{
    unsigned seen = 0;
    size_t next = followed->count;
    tables->pass++;
    for (size_t i = 0; i < count; i++) {
        const size_t before = followed->count;
        const unsigned here = visit(tables, addresses[i], stream, old, followed);
        next = here & SEEN_LAST && next == before ? followed->count : next;
        seen |= here;
    }
    for (; next < followed->count && !MDNN_FAULT(POINTERS_FOLLOWED_ONCE); next++)
        seen |= visit(tables, followed->starts[next], stream, old, followed);
    return seen & SEEN_OLD;
}

static void look_for_unread(const mdnn_pointer_tables_t *tables, const uint64_t *addresses,
                            size_t count, mdnn_pointers_followed_t *followed)
{
    uint64_t start, end;
    for (size_t i = 0; tables->unread && i < count; i++)
        if (tables->calls.find(tables->context, addresses[i], &start, &end))
            note_unread(tables, start, end, followed);
}

void mdnn_pointer_tables_follow(mdnn_pointer_tables_t *tables, const uint64_t *addresses,
                                size_t count, uint64_t stream, mdnn_pointers_followed_t *followed)
{
    followed->current = followed->count = 0;
    followed->lost = followed->unread = false;
    if (tables->unread)
        settle_unread(tables);
    const bool old = follow(tables, addresses, count, stream, false, followed);
    followed->current = followed->count;
    if (old)
        (void)follow(tables, addresses, count, stream, true, followed);
    look_for_unread(tables, addresses, count, followed);
    look_for_unread(tables, followed->starts, followed->count, followed);
}

void mdnn_pointer_tables_give_up(mdnn_pointer_tables_t *tables, mdnn_stream_point_t until)
{
    for (mdnn_pointer_unread_t *unread = tables->unread; unread; unread = unread->next)
        if (unread->point.stream == until.stream && unread->point.position == until.position)
            unread->given_up = true;
}
