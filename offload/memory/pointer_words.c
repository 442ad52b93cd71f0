/* Words of allocations, and what they lead to. */
#include "offload/memory/pointer_tables_internal.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

void mdnn_pointer_holder_free(mdnn_pointer_holder_t *holder)
{
    free(holder->words);
    free(holder->targets);
    free(holder->latest);
    free(holder);
}

/* ---- holders ---- */

/* The first that ends behind the address. Without a branch that the processor could guess wrong. */
size_t mdnn_pointer_place(const mdnn_pointer_tables_t *tables, uint64_t address)
{
    const mdnn_pointer_place_t *at = tables->places;
    size_t left = tables->count;
    while (left > 1) {
        const size_t half = left / 2;
        at += at[half - 1].end <= address ? half : 0;
        left -= half;
    }
    return left == 0 ? 0 : (size_t)(at - tables->places) + (at->end <= address);
}

mdnn_pointer_holder_t *mdnn_pointer_holder(const mdnn_pointer_tables_t *tables, uint64_t address)
{
    const size_t place = mdnn_pointer_place(tables, address);
    return place < tables->count && tables->places[place].start <= address
               ? tables->places[place].holder
               : NULL;
}

static void remove_holder(mdnn_pointer_tables_t *tables, size_t place)
{
    mdnn_pointer_holder_free(tables->places[place].holder);
    tables->shape++;
    tables->count--;
    memmove(tables->places + place, tables->places + place + 1,
            (tables->count - place) * sizeof *tables->places);
}

void mdnn_pointer_holders_end(mdnn_pointer_tables_t *tables, uint64_t start, uint64_t end)
{
    const size_t place = mdnn_pointer_place(tables, start);
    while (place < tables->count && tables->places[place].start < end)
        remove_holder(tables, place);
}

static bool make_room(mdnn_pointer_tables_t *tables)
{
    if (tables->count < tables->capacity)
        return true;
    const size_t capacity = tables->capacity > 0 ? 2 * tables->capacity : 16;
    mdnn_pointer_place_t *const grown = reallocarray(tables->places, capacity, sizeof *grown);
    if (!grown)
        return false;
    tables->places = grown;
    tables->capacity = capacity;
    return true;
}

/* The allocation around the address, which lives. Whoever had its addresses before has ended. */
static mdnn_pointer_holder_t *make_holder(mdnn_pointer_tables_t *tables, uint64_t address)
{
    uint64_t start, end;
    mdnn_pointer_holder_t *const known = mdnn_pointer_holder(tables, address);
    if (!tables->calls.find(tables->context, address, &start, &end))
        return NULL;
    if (known && known->start == start && known->end == end)
        return known;
    mdnn_pointer_holders_end(tables, start, end);
    mdnn_pointer_holder_t *const made = make_room(tables) ? calloc(1, sizeof *made) : NULL;
    if (!made)
        return NULL;
    made->start = start;
    made->end = end;
    const size_t place = mdnn_pointer_place(tables, start);
    memmove(tables->places + place + 1, tables->places + place,
            (tables->count - place) * sizeof *tables->places);
    tables->places[place] = (mdnn_pointer_place_t){start, end, made};
    tables->shape++;
    tables->count++;
    return made;
}

/* ---- words ---- */

/* The first word of the holder that does not lie before the place. */
size_t mdnn_pointer_first_word(const mdnn_pointer_holder_t *holder, uint64_t place)
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

bool mdnn_pointer_is_kept(const mdnn_held_word_t *word)
{
    return word->kept && !MDNN_FAULT(WORDS_OF_GRAPHS_END);
}

/* The first word that may lie in bytes from the place on. */
size_t mdnn_pointer_first_reaching(const mdnn_pointer_holder_t *holder, uint64_t place)
{
    const uint64_t most = MDNN_POINTER_SPREAD_BYTES + MDNN_POINTER_STEP_BYTES;
    return mdnn_pointer_first_word(holder,
                                   place - holder->start < most ? holder->start : place - most);
}

static bool is_same(mdnn_stream_point_t left, mdnn_stream_point_t right)
{
    return left.stream == right.stream && left.position == right.position;
}

/* Ends words whose overwriting is over. */
void mdnn_pointer_holder_settle(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder)
{
    mdnn_stream_point_t asked = {0};
    bool done = false;
    size_t kept = 0;
    if (holder->over == 0)
        return;
    for (size_t i = 0; i < holder->count; i++) {
        const mdnn_held_word_t word = holder->words[i];
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
void mdnn_pointer_holders_sweep(mdnn_pointer_tables_t *tables)
{
    for (size_t i = tables->count; i > 0; i--)
        if (tables->places[i - 1].holder->count == 0)
            remove_holder(tables, i - 1);
}

/* ---- what words lead to ---- */

/* The first target that ends behind the address. */
static size_t target_place(const mdnn_pointer_holder_t *holder, uint64_t address)
{
    size_t low = 0, high = holder->target_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (holder->targets[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at_target(const mdnn_pointer_holder_t *holder, size_t place, uint64_t address)
{
    return place < holder->target_count && holder->targets[place].start <= address;
}

static bool make_target_room(mdnn_pointer_holder_t *holder)
{
    if (holder->target_count < holder->target_capacity)
        return true;
    const size_t capacity = 2 * holder->target_capacity + 4;
    mdnn_pointer_target_t *const targets = reallocarray(holder->targets, capacity, sizeof *targets);
    holder->targets = targets ? targets : holder->targets;
    uint64_t *const latest = reallocarray(holder->latest, capacity, sizeof *latest);
    holder->latest = latest ? latest : holder->latest;
    if (!targets || !latest)
        return false;
    holder->target_capacity = capacity;
    return true;
}

/* A word counts from now on, or again. false without memory. */
static bool count_word(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder,
                       const mdnn_held_word_t *word, size_t times)
{
    mdnn_pointer_target_t made = {.stamp = word->stamp, .words = times};
    size_t place = target_place(holder, word->value);
    if (is_at_target(holder, place, word->value)) {
        mdnn_pointer_target_t *const target = &holder->targets[place];
        target->words += times;
        holder->in_order = holder->in_order && target->stamp >= word->stamp;
        target->stamp = target->stamp < word->stamp ? word->stamp : target->stamp;
        return true;
    }
    if (times == 0 || !tables->calls.find(tables->context, word->value, &made.start, &made.end))
        return true;
    if (!make_target_room(holder))
        return false;
    memmove(holder->targets + place + 1, holder->targets + place,
            (holder->target_count - place) * sizeof made);
    holder->targets[place] = made;
    holder->target_count++;
    holder->in_order = false;
    holder->shape = 0;
    return true;
}

void mdnn_pointer_uncount(mdnn_pointer_holder_t *holder, const mdnn_held_word_t *word)
{
    const size_t place = target_place(holder, word->value);
    if (!is_at_target(holder, place, word->value) || --holder->targets[place].words > 0)
        return;
    holder->target_count--;
    memmove(holder->targets + place, holder->targets + place + 1,
            (holder->target_count - place) * sizeof *holder->targets);
    holder->in_order = false;
    holder->shape = 0;
}

/* Since then allocations have neither begun nor ended. */
static bool knows_targets(const mdnn_pointer_tables_t *tables, const mdnn_pointer_holder_t *holder)
{
    return holder->generation == tables->calls.generation(tables->context);
}

static int compare_stamps(const void *left, const void *right)
{
    const mdnn_pointer_target_t *const a = left, *const b = right;
    return a->stamp == b->stamp ? (a->start > b->start) - (a->start < b->start)
                                : (a->stamp < b->stamp) - (a->stamp > b->stamp);
}

/* false without memory. */
static bool put_in_order(mdnn_pointer_holder_t *holder)
{
    const size_t count = holder->target_count;
    mdnn_pointer_target_t *const sorted =
        holder->in_order || count == 0 ? NULL : reallocarray(NULL, count, sizeof *sorted);
    if (!holder->in_order && count > 0 && !sorted)
        return false;
    if (sorted) {
        memcpy(sorted, holder->targets, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_stamps);
        for (size_t i = 0; i < count; i++)
            holder->latest[i] = sorted[i].start;
        free(sorted);
    }
    holder->in_order = true;
    return true;
}

/* false without memory: then nothing is known. */
bool mdnn_pointer_find_targets(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder)
{
    bool all = true;
    if (!knows_targets(tables, holder)) {
        holder->generation = tables->calls.generation(tables->context);
        holder->target_count = 0;
        holder->shape = 0;
        holder->in_order = false;
        for (size_t i = 0; all && i < holder->count; i++)
            if (holder->words[i].over.position == 0)
                all = count_word(tables, holder, &holder->words[i], 1);
    }
    if (all && put_in_order(holder))
        return true;
    holder->generation = 0;
    holder->target_count = 0;
    return false;
}

/* ---- words come ---- */

int mdnn_pointer_compare(const mdnn_held_word_t *left, const mdnn_held_word_t *right)
{
    const uint64_t a = left->place == right->place ? left->value : left->place;
    const uint64_t b = left->place == right->place ? right->value : right->place;
    return (a > b) - (a < b);
}

/* Of the same place and value. One that counts goes on, as if nothing had overwritten it; else it counts until the later
 * one of both is over. */
static mdnn_held_word_t both(const mdnn_held_word_t *known, const mdnn_held_word_t *added)
{
    mdnn_held_word_t word = *added;
    word.end = added->end > known->end ? added->end : known->end;
    word.kept = added->kept || known->kept;
    if (added->over.position != 0 &&
        (known->over.position == 0 || known->over.position > added->over.position))
        word.over = known->over;
    return word;
}

/* Those of the same place and value become one; how many are left. */
static size_t unite(mdnn_held_word_t *words, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept > 0 && mdnn_pointer_compare(&words[kept - 1], &words[i]) == 0)
            words[kept - 1] = both(&words[kept - 1], &words[i]);
        else
            words[kept++] = words[i];
    return kept;
}

static bool has_word(const mdnn_pointer_holder_t *holder, const mdnn_held_word_t *word)
{
    size_t low = 0, high = holder->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (mdnn_pointer_compare(&holder->words[middle], word) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < holder->count && mdnn_pointer_compare(&holder->words[low], word) == 0;
}

static bool make_word_room(mdnn_pointer_holder_t *holder, size_t more)
{
    if (holder->count + more <= holder->capacity)
        return true;
    const size_t capacity = 2 * holder->count + more;
    mdnn_held_word_t *const grown = reallocarray(holder->words, capacity, sizeof *grown);
    if (!grown)
        return false;
    holder->words = grown;
    holder->capacity = capacity;
    return true;
}

/* The word that was there, NULL if none was, is this one now. */
static bool note_word(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder,
                      const mdnn_held_word_t *was, const mdnn_held_word_t *now)
{
    const bool counted = was && was->over.position == 0, counts = now->over.position == 0;
    holder->over += (size_t)!counts - (size_t)(was && !counted);
    return !counts || !knows_targets(tables, holder) ||
           count_word(tables, holder, now, counted ? 0 : 1);
}

/* Both in order, from their ends on; `made` are left then. */
static bool merge(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder,
                  const mdnn_held_word_t *words, size_t count, size_t made)
{
    size_t i = holder->count, j = count;
    bool all = true;
    holder->count = made;
    while (j > 0) {
        mdnn_held_word_t *const known = i > 0 ? &holder->words[i - 1] : NULL;
        const int order = known ? mdnn_pointer_compare(known, &words[j - 1]) : -1;
        mdnn_held_word_t now = order > 0 ? *known : words[j - 1];
        if (order == 0)
            now = both(known, &words[j - 1]);
        if (order <= 0)
            all = note_word(tables, holder, order == 0 ? known : NULL, &now) && all;
        holder->words[--made] = now;
        i -= order >= 0;
        j -= order <= 0;
    }
    return all;
}

static bool put_in_holder(mdnn_pointer_tables_t *tables, mdnn_pointer_holder_t *holder,
                          mdnn_held_word_t *words, size_t count)
{
    size_t fresh = 0;
    count = unite(words, count);
    for (size_t i = 0; i < count; i++)
        fresh += !has_word(holder, &words[i]);
    if (!make_word_room(holder, fresh))
        return false;
    if (!merge(tables, holder, words, count, holder->count + fresh))
        holder->generation = 0; /* to be looked for again */
    return true;
}

/* In the order of their places. */
bool mdnn_pointer_words_put(mdnn_pointer_tables_t *tables, mdnn_held_word_t *words, size_t count)
{
    bool all = true;
    for (size_t first = 0, next; first < count; first = next) {
        mdnn_pointer_holder_t *const holder = make_holder(tables, words[first].place);
        for (next = first + 1; holder && next < count && words[next].place < holder->end; next++)
            ;
        all = holder && put_in_holder(tables, holder, words + first, next - first) && all;
    }
    return all;
}
