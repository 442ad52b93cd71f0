#include "offload/memory/pointer_tables.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

typedef struct word {
    uint64_t place, value;
    uint64_t stamp; /* later words have higher ones */
    mdnn_stream_point_t
        over; /* it counts until this has passed; position 0: it is not overwritten */
    bool spread, kept;
} word_t;

/* An allocation that holds words. */
typedef struct holder {
    uint64_t start, end;
    word_t *words; /* in the order of their places, then of their values */
    size_t count;
    size_t over; /* how many of them are being overwritten */
    uint64_t
        *targets; /* starts of what the others point to, each once, by the latest words first */
    size_t target_count;
    uint64_t generation; /* as it was then; 0: the targets are not known */
    bool leads_on;       /* some of them held words themselves */
    uint64_t shape;      /* when these allocations held words */
    uint64_t pass;       /* last one in which it was looked at */
} holder_t;

/* Where they lie, side by side, as each operand of a launch is looked up. */
typedef struct place {
    uint64_t start, end;
    holder_t *holder;
} place_t;

typedef struct unread {
    struct unread *next;
    uint64_t at, bytes;
    const void *words;
    mdnn_stream_point_t point;
    bool given_up;
    mdnn_stream_point_t
        over[]; /* of each word: what has overwritten it since; position 0: nothing */
} unread_t;

struct mdnn_pointer_tables {
    mdnn_pointer_calls_t calls;
    void *context;
    place_t *places; /* in the order of their addresses; they do not overlap */
    size_t count, capacity;
    unread_t *unread;
    uint64_t pass, stamp;
    uint64_t shape; /* changes with the places */
};

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

static void free_holder(holder_t *holder)
{
    free(holder->words);
    free(holder->targets);
    free(holder);
}

static void free_unread(mdnn_pointer_tables_t *tables, unread_t **at)
{
    unread_t *const unread = *at;
    *at = unread->next;
    tables->calls.give_back(tables->context, unread->words);
    free(unread);
}

void mdnn_pointer_tables_destroy(mdnn_pointer_tables_t *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < tables->count; i++)
        free_holder(tables->places[i].holder);
    while (tables->unread)
        free_unread(tables, &tables->unread);
    free(tables->places);
    free(tables);
}

bool mdnn_pointer_tables_any(const mdnn_pointer_tables_t *tables)
{
    return tables->count > 0 || tables->unread;
}

/* ---- holders ---- */

/* The first that ends behind the address. Without a branch that the processor could guess wrong. */
static size_t place_of(const mdnn_pointer_tables_t *tables, uint64_t address)
{
    const place_t *at = tables->places;
    size_t left = tables->count;
    while (left > 1) {
        const size_t half = left / 2;
        at += at[half - 1].end <= address ? half : 0;
        left -= half;
    }
    return left == 0 ? 0 : (size_t)(at - tables->places) + (at->end <= address);
}

static holder_t *holder_of(const mdnn_pointer_tables_t *tables, uint64_t address)
{
    const size_t place = place_of(tables, address);
    return place < tables->count && tables->places[place].start <= address
               ? tables->places[place].holder
               : NULL;
}

static void remove_holder(mdnn_pointer_tables_t *tables, size_t place)
{
    free_holder(tables->places[place].holder);
    tables->shape++;
    tables->count--;
    memmove(tables->places + place, tables->places + place + 1,
            (tables->count - place) * sizeof *tables->places);
}

static void remove_holders(mdnn_pointer_tables_t *tables, uint64_t start, uint64_t end)
{
    const size_t place = place_of(tables, start);
    while (place < tables->count && tables->places[place].start < end)
        remove_holder(tables, place);
}

static bool make_room(mdnn_pointer_tables_t *tables)
{
    if (tables->count < tables->capacity)
        return true;
    const size_t capacity = tables->capacity > 0 ? 2 * tables->capacity : 16;
    place_t *const grown = reallocarray(tables->places, capacity, sizeof *grown);
    if (!grown)
        return false;
    tables->places = grown;
    tables->capacity = capacity;
    return true;
}

/* The allocation around the address, which lives. Whoever had its addresses before has ended. */
static holder_t *make_holder(mdnn_pointer_tables_t *tables, uint64_t address)
{
    uint64_t start, end;
    holder_t *const known = holder_of(tables, address);
    if (!tables->calls.find(tables->context, address, &start, &end))
        return NULL;
    if (known && known->start == start && known->end == end)
        return known;
    remove_holders(tables, start, end);
    holder_t *const made = make_room(tables) ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    made->start = start;
    made->end = end;
    const size_t place = place_of(tables, start);
    memmove(tables->places + place + 1, tables->places + place,
            (tables->count - place) * sizeof *tables->places);
    tables->places[place] = (place_t){start, end, made};
    tables->shape++;
    tables->count++;
    return made;
}

/* ---- words ---- */

static bool is_within(uint64_t place, uint64_t at, uint64_t bytes)
{
    return place >= at && bytes >= sizeof(uint64_t) && place - at <= bytes - sizeof(uint64_t);
}

/* The first word of the holder that does not lie before the place. */
static size_t first_word(const holder_t *holder, uint64_t place)
{
    size_t low = 0, high = holder->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (holder->words[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The end of the bytes where the word may lie. */
static uint64_t end_of(const holder_t *holder, const word_t *word)
{
    const uint64_t room = holder->end - word->place;
    return !word->spread || MDNN_FAULT(SPREAD_WORDS_HAVE_A_PLACE) ? word->place + sizeof word->value
           : room < MDNN_POINTER_SPREAD_BYTES                     ? holder->end
                                              : word->place + MDNN_POINTER_SPREAD_BYTES;
}

static bool is_kept(const word_t *word)
{
    return word->kept && !MDNN_FAULT(WORDS_OF_GRAPHS_END);
}

/* The first word that may lie in bytes from the place on. */
static size_t first_reaching(const holder_t *holder, uint64_t place)
{
    const bool near = place - holder->start < MDNN_POINTER_SPREAD_BYTES;
    return first_word(holder, near ? holder->start : place - MDNN_POINTER_SPREAD_BYTES);
}

static bool is_same(mdnn_stream_point_t left, mdnn_stream_point_t right)
{
    return left.stream == right.stream && left.position == right.position;
}

/* Ends words whose overwriting is over. */
static void settle_holder(mdnn_pointer_tables_t *tables, holder_t *holder)
{
    mdnn_stream_point_t asked = {0};
    bool done = false;
    size_t kept = 0;
    if (holder->over == 0)
        return;
    for (size_t i = 0; i < holder->count; i++) {
        const word_t word = holder->words[i];
        if (word.over.position != 0 && !is_same(word.over, asked)) {
            asked = word.over;
            done = tables->calls.is_done(tables->context, asked);
        }
        if (word.over.position != 0 && done)
            holder->over--;
        else
            holder->words[kept++] = word;
    }
    holder->count = kept;
}

/* Holders without words. */
static void sweep(mdnn_pointer_tables_t *tables)
{
    for (size_t i = tables->count; i > 0; i--)
        if (tables->places[i - 1].holder->count == 0)
            remove_holder(tables, i - 1);
}

static int compare_words(const word_t *left, const word_t *right)
{
    const uint64_t a = left->place == right->place ? left->value : left->place;
    const uint64_t b = left->place == right->place ? right->value : right->place;
    return (a > b) - (a < b);
}

/* Of the same place and value. One that counts goes on, as if nothing had overwritten it; else it counts until the later
 * one of both is over. */
static word_t both(const word_t *known, const word_t *added)
{
    word_t word = *added;
    word.spread = added->spread || known->spread;
    word.kept = added->kept || known->kept;
    if (added->over.position != 0 &&
        (known->over.position == 0 || known->over.position > added->over.position))
        word.over = known->over;
    return word;
}

/* The words of the holder and these, both in order, in a new array. */
static size_t merge(const holder_t *holder, const word_t *words, size_t count, word_t *merged)
{
    size_t i = 0, j = 0, made = 0;
    while (i < holder->count || j < count) {
        const int order = j == count           ? -1
                          : i == holder->count ? 1
                                               : compare_words(&holder->words[i], &words[j]);
        merged[made++] = order < 0   ? holder->words[i]
                         : order > 0 ? words[j]
                                     : both(&holder->words[i], &words[j]);
        i += order <= 0;
        j += order >= 0;
    }
    return made;
}

static bool put_in_holder(holder_t *holder, const word_t *words, size_t count)
{
    word_t *const merged = reallocarray(NULL, holder->count + count, sizeof *merged);
    if (!merged)
        return false;
    const size_t made = merge(holder, words, count, merged);
    free(holder->words);
    holder->words = merged;
    holder->count = made;
    holder->over = 0;
    for (size_t i = 0; i < made; i++)
        holder->over += merged[i].over.position != 0;
    holder->generation = 0;
    return true;
}

/* In the order of their places. */
static bool put_words(mdnn_pointer_tables_t *tables, const word_t *words, size_t count)
{
    bool all = true;
    for (size_t first = 0, next; first < count; first = next) {
        holder_t *const holder = make_holder(tables, words[first].place);
        for (next = first + 1; holder && next < count && words[next].place < holder->end; next++)
            ;
        all = holder && put_in_holder(holder, words + first, next - first) && all;
    }
    return all;
}

bool mdnn_pointer_tables_add(mdnn_pointer_tables_t *tables, const mdnn_pointer_word_t *words,
                             size_t count, bool kept)
{
    word_t *const made = count > 0 ? reallocarray(NULL, count, sizeof *made) : NULL;
    tables->stamp++;
    for (size_t i = 0; made && i < count; i++)
        made[i] = (word_t){.place = words[i].place,
                           .value = words[i].value,
                           .stamp = tables->stamp,
                           .spread = words[i].spread,
                           .kept = kept};
    const bool all = count == 0 || (made && put_words(tables, made, count));
    free(made);
    return all;
}

/* ---- overwriting ---- */

static mdnn_stream_point_t over_of(const unread_t *unread, uint64_t place)
{
    return unread->over[(place - unread->at) / 8];
}

static void overwrite_unread(unread_t *unread, uint64_t at, uint64_t bytes,
                             mdnn_stream_point_t point)
{
    for (uint64_t i = 0; i < unread->bytes / 8; i++)
        if (is_within(unread->at + 8 * i, at, bytes) && unread->over[i].position == 0)
            unread->over[i] = point;
}

static void overwrite_in(holder_t *holder, uint64_t at, uint64_t bytes, mdnn_stream_point_t point)
{
    size_t i = first_word(holder, at);
    for (; i < holder->count && is_within(holder->words[i].place, at, bytes); i++) {
        word_t *const word = &holder->words[i];
        if (word->over.position != 0 || is_kept(word) || end_of(holder, word) > at + bytes)
            continue;
        word->over = point;
        holder->over++;
        holder->generation = 0;
    }
}

void mdnn_pointer_tables_overwrite(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                   mdnn_stream_point_t point)
{
    for (size_t i = place_of(tables, at); i < tables->count && tables->places[i].start < at + bytes;
         i++) {
        settle_holder(tables, tables->places[i].holder);
        overwrite_in(tables->places[i].holder, at, bytes, point);
    }
    sweep(tables);
    for (unread_t *unread = tables->unread; unread; unread = unread->next)
        overwrite_unread(unread, at, bytes, point);
}

/* ---- copies ---- */

typedef struct copied {
    uint64_t from, to, bytes;
    mdnn_pointer_word_t *words;
    size_t count;
} copied_t;

static bool is_copied(const holder_t *holder, const word_t *word, const copied_t *copied)
{
    return word->spread && !MDNN_FAULT(SPREAD_WORDS_HAVE_A_PLACE)
               ? end_of(holder, word) > copied->from
               : is_within(word->place, copied->from, copied->bytes);
}

/* A word that may lie before the first byte that is copied may come to lie at that one, or behind it. */
static bool collect(const holder_t *holder, copied_t *copied)
{
    mdnn_pointer_word_t *const grown =
        reallocarray(copied->words, copied->count + holder->count + 1, sizeof *grown);
    if (!grown)
        return false;
    copied->words = grown;
    size_t i = first_reaching(holder, copied->from);
    for (; i < holder->count && holder->words[i].place < copied->from + copied->bytes; i++) {
        const word_t *const word = &holder->words[i];
        const uint64_t place = word->place < copied->from ? copied->from : word->place;
        if (is_copied(holder, word, copied))
            grown[copied->count++] =
                (mdnn_pointer_word_t){place - copied->from + copied->to, word->value, word->spread};
    }
    return true;
}

static int compare_copied(const void *left, const void *right)
{
    const mdnn_pointer_word_t *const one = left, *const other = right;
    const word_t a = {.place = one->place, .value = one->value};
    const word_t b = {.place = other->place, .value = other->value};
    return compare_words(&a, &b);
}

/* All that are known there, also those that are being overwritten. */
bool mdnn_pointer_tables_copy(mdnn_pointer_tables_t *tables, uint64_t to, uint64_t from,
                              uint64_t bytes, bool kept)
{
    copied_t copied = {.from = from, .to = to, .bytes = bytes};
    bool all = true;
    for (size_t i = place_of(tables, from);
         all && i < tables->count && tables->places[i].start < from + bytes; i++) {
        settle_holder(tables, tables->places[i].holder);
        all = collect(tables->places[i].holder, &copied);
    }
    if (copied.count > 1)
        qsort(copied.words, copied.count, sizeof *copied.words, compare_copied);
    all = mdnn_pointer_tables_add(tables, copied.words, copied.count, kept) && all;
    free(copied.words);
    return all;
}

/* ---- unread words ---- */

static bool overlaps(const unread_t *unread, uint64_t at, uint64_t bytes)
{
    return unread->at < at + bytes && at < unread->at + unread->bytes;
}

bool mdnn_pointer_tables_is_unread(const mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes)
{
    const unread_t *unread = tables->unread;
    while (unread && !overlaps(unread, at, bytes))
        unread = unread->next;
    return unread != NULL;
}

static bool has_words(const holder_t *holder, uint64_t at, uint64_t bytes)
{
    const size_t first = first_word(holder, at);
    return first < holder->count && is_within(holder->words[first].place, at, bytes);
}

bool mdnn_pointer_tables_has(const mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes)
{
    for (size_t i = place_of(tables, at); i < tables->count && tables->places[i].start < at + bytes;
         i++)
        if (has_words(tables->places[i].holder, at, bytes))
            return true;
    return mdnn_pointer_tables_is_unread(tables, at, bytes);
}

bool mdnn_pointer_tables_unread(mdnn_pointer_tables_t *tables, uint64_t at, uint64_t bytes,
                                mdnn_stream_point_t point, const void *words)
{
    unread_t *const made = bytes <= MDNN_POINTER_UNREAD_BYTES
                               ? calloc(1, sizeof *made + bytes / 8 * sizeof *made->over)
                               : NULL;
    if (!made)
        return false;
    made->at = at;
    made->bytes = bytes;
    made->words = words;
    made->point = point;
    unread_t **last = &tables->unread; /* the oldest first, so that the newest words count last */
    while (*last)
        last = &(*last)->next;
    *last = made;
    return true;
}

static bool is_misread(const unread_t *unread, const word_t *word)
{
    uint64_t value;
    if (!is_within(word->place, unread->at, unread->bytes) || word->over.position != 0 ||
        word->spread || is_kept(word) || over_of(unread, word->place).position != 0)
        return false;
    memcpy(&value, (const char *)unread->words + (word->place - unread->at), sizeof value);
    return value != word->value;
}

/* What the call knew and did not come, unless somebody has put it there since. */
static void remove_misread(mdnn_pointer_tables_t *tables, const unread_t *unread)
{
    holder_t *const holder = holder_of(tables, unread->at);
    size_t kept = 0;
    if (!holder)
        return;
    for (size_t i = 0; i < holder->count; i++)
        if (!is_misread(unread, &holder->words[i]))
            holder->words[kept++] = holder->words[i];
    holder->count = kept;
    holder->generation = 0;
}

static bool take_words(mdnn_pointer_tables_t *tables, const unread_t *unread)
{
    word_t *const words = reallocarray(NULL, unread->bytes / 8 + 1, sizeof *words);
    uint64_t start, end;
    size_t count = 0;
    tables->stamp++;
    for (uint64_t i = 0; words && i < unread->bytes / 8; i++) {
        word_t word = {
            .place = unread->at + 8 * i, .stamp = tables->stamp, .over = unread->over[i]};
        memcpy(&word.value, (const char *)unread->words + 8 * i, sizeof word.value);
        if (tables->calls.find(tables->context, word.value, &start, &end))
            words[count++] = word;
    }
    const bool all = words && put_words(tables, words, count);
    free(words);
    return all;
}

static void settle_unread(mdnn_pointer_tables_t *tables)
{
    for (unread_t **at = &tables->unread; *at;) {
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
    remove_holders(tables, at, at + bytes);
    for (unread_t *unread = tables->unread; unread; unread = unread->next)
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

typedef struct target {
    uint64_t start, stamp;
} target_t;

static int compare_starts(const void *left, const void *right)
{
    const target_t *const a = left, *const b = right;
    return a->start == b->start ? (a->stamp < b->stamp) - (a->stamp > b->stamp)
                                : (a->start > b->start) - (a->start < b->start);
}

static int compare_stamps(const void *left, const void *right)
{
    const target_t *const a = left, *const b = right;
    return a->stamp == b->stamp ? (a->start > b->start) - (a->start < b->start)
                                : (a->stamp < b->stamp) - (a->stamp > b->stamp);
}

/* Of the words that are not being overwritten, each once. */
static size_t list_targets(mdnn_pointer_tables_t *tables, const holder_t *holder, target_t *targets)
{
    uint64_t start = 0, end = 0;
    size_t found = 0, kept = 0;
    for (size_t i = 0; i < holder->count; i++) {
        const word_t *const word = &holder->words[i];
        if (word->over.position != 0)
            continue;
        if (word->value - start >= end - start && /* not as the one before */
            !tables->calls.find(tables->context, word->value, &start, &end))
            start = end = 0;
        if (end > start)
            targets[found++] = (target_t){start, word->stamp};
    }
    qsort(targets, found, sizeof *targets, compare_starts);
    for (size_t i = 0; i < found; i++)
        if (kept == 0 || targets[kept - 1].start != targets[i].start)
            targets[kept++] = targets[i];
    qsort(targets, kept, sizeof *targets, compare_stamps);
    return kept;
}

/* The shape of the tables is 1 or more where there is a holder. */
static void look_on(const mdnn_pointer_tables_t *tables, holder_t *holder)
{
    if (holder->shape == tables->shape)
        return;
    holder->leads_on = false;
    for (size_t i = 0; i < holder->target_count && !holder->leads_on; i++)
        holder->leads_on = holder_of(tables, holder->targets[i]) != NULL;
    holder->shape = tables->shape;
}

static bool find_targets(mdnn_pointer_tables_t *tables, holder_t *holder)
{
    const uint64_t generation = tables->calls.generation(tables->context);
    if (holder->generation == generation)
        return true;
    holder->shape = 0;
    uint64_t *const starts = reallocarray(holder->targets, holder->count + 1, sizeof *starts);
    if (starts)
        holder->targets = starts;
    target_t *const targets = reallocarray(NULL, holder->count + 1, sizeof *targets);
    if (!starts || !targets) {
        holder->target_count = 0;
        free(targets);
        return false;
    }
    holder->target_count = list_targets(tables, holder, targets);
    for (size_t i = 0; i < holder->target_count; i++)
        starts[i] = targets[i].start;
    free(targets);
    holder->generation = generation;
    return true;
}

static void visit_old(mdnn_pointer_tables_t *tables, const holder_t *holder, uint64_t stream,
                      mdnn_pointers_followed_t *followed)
{
    uint64_t start, end;
    for (size_t i = 0; i < holder->count; i++) {
        const word_t *const word = &holder->words[i];
        if (word->over.position != 0 && word->over.stream != stream &&
            tables->calls.find(tables->context, word->value, &start, &end))
            append(followed, start);
    }
}

static void note_unread(const mdnn_pointer_tables_t *tables, uint64_t start, uint64_t end,
                        mdnn_pointers_followed_t *followed)
{
    for (const unread_t *unread = tables->unread; unread; unread = unread->next)
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
    holder_t *const holder = holder_of(tables, address);
    if (!holder || holder->pass == tables->pass)
        return SEEN_LAST;
    holder->pass = tables->pass;
    settle_holder(tables, holder);
    if (!find_targets(tables, holder))
        followed->lost = true;
    look_on(tables, holder);
    for (size_t i = 0; i < holder->target_count; i++)
        append(followed, holder->targets[i]);
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
    for (unread_t *unread = tables->unread; unread; unread = unread->next)
        if (unread->point.stream == until.stream && unread->point.position == until.position)
            unread->given_up = true;
}
