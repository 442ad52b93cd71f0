/* Pointers in device memory against a model that keeps each place's words apart. */
#include <string.h>

#include "offload/memory/pointer_tables.h"
#include "test/unit/cases.h"
#include "test/unit/failing_allocator.h"

enum { ALLOCATIONS = 12, PLACES = 32, OLD = 64, STREAMS = 3, STEPS = 40000, PENDING = 4 };
#define BASE ((uint64_t)1 << 40)
#define SPACING ((uint64_t)4096)

typedef struct old_word {
    uint64_t value;
    mdnn_stream_point_t over;
} old_word_t;

/* What a place holds: the word that counts, and those that are being overwritten. */
typedef struct place {
    uint64_t value; /* 0: none */
    old_word_t old[OLD];
    size_t old_count;
} place_t;

typedef struct pending {
    bool open, known[PLACES]; /* since it began nothing else has come there */
    uint64_t words[PLACES];
    mdnn_stream_point_t over[PLACES], point;
    int allocation;
    int first, count;
} pending_t;

static place_t places[ALLOCATIONS][PLACES];
static bool lives[ALLOCATIONS];
static pending_t pending[PENDING];
static uint64_t done[STREAMS], now, changes = 1;
static uint64_t random_state;
static int given_back;

static int pick(int count)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random_state >> 33) % (uint64_t)count);
}

static uint64_t start_of(int allocation)
{
    return BASE + (uint64_t)allocation * SPACING;
}

static uint64_t address_of(int allocation, int place)
{
    return start_of(allocation) + (uint64_t)place * 8;
}

static bool find(void *context, uint64_t address, uint64_t *start, uint64_t *end)
{
    const uint64_t i = (address - BASE) / SPACING;
    (void)context;
    if (address < BASE || i >= ALLOCATIONS || !lives[i] || address - start_of((int)i) >= PLACES * 8)
        return false;
    *start = start_of((int)i);
    *end = *start + (uint64_t)PLACES * 8;
    return true;
}

static uint64_t generation(void *context)
{
    (void)context;
    return changes;
}

static bool is_over(mdnn_stream_point_t point)
{
    return point.position <= done[point.stream];
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context;
    return is_over(point);
}

static void give_back(void *context, const void *words)
{
    (void)context;
    given_back++;
    for (int i = 0; i < PENDING; i++)
        if (pending[i].words == words)
            pending[i].open = false;
}

static mdnn_stream_point_t next_point(void)
{
    return (mdnn_stream_point_t){(uint64_t)pick(STREAMS), ++now};
}

/* ---- the model ---- */

static void add_old(place_t *place, uint64_t value, mdnn_stream_point_t over)
{
    size_t kept = 0;
    for (size_t i = 0; i < place->old_count; i++)
        if (!is_over(place->old[i].over))
            place->old[kept++] = place->old[i];
    place->old_count = kept;
    assert_true(kept < OLD);
    for (size_t i = 0; i < kept; i++)
        if (place->old[i].value == value) {
            if (place->old[i].over.position < over.position)
                place->old[i].over = over;
            return;
        }
    if (value != 0 && !is_over(over))
        place->old[place->old_count++] = (old_word_t){value, over};
}

static void model_overwrite(int allocation, int first, int count, mdnn_stream_point_t point)
{
    for (int i = first; i < first + count; i++) {
        add_old(&places[allocation][i], places[allocation][i].value, point);
        places[allocation][i].value = 0;
        for (int j = 0; j < PENDING; j++)
            if (pending[j].open && pending[j].allocation == allocation) {
                if (pending[j].known[i])
                    pending[j].over[i] = point;
                pending[j].known[i] = false;
            }
    }
}

static void model_put(place_t *place, uint64_t value)
{
    place->value = value;
    for (size_t i = place->old_count; i > 0; i--)
        if (place->old[i - 1].value == value)
            place->old[i - 1] = place->old[--place->old_count];
}

static bool reaches[ALLOCATIONS];

static void model_follow(int allocation, uint64_t stream, bool old)
{
    for (int i = 0; i < PLACES; i++) {
        const place_t *const place = &places[allocation][i];
        for (size_t j = 0; j <= place->old_count; j++) {
            const bool current = j == place->old_count;
            const uint64_t value = current ? place->value : place->old[j].value;
            uint64_t start, end;
            if (!current &&
                (!old || is_over(place->old[j].over) || place->old[j].over.stream == stream))
                continue;
            if (value == 0 || !find(NULL, value, &start, &end))
                continue;
            const int target = (int)((start - BASE) / SPACING);
            if (reaches[target])
                continue;
            reaches[target] = true;
            model_follow(target, stream, old);
        }
    }
}

/* ---- steps ---- */

static uint64_t random_value(void)
{
    const int target = pick(ALLOCATIONS);
    return pick(3) == 0 || !lives[target] ? 0 : address_of(target, pick(PLACES));
}

static int random_range(int *first, int *count)
{
    int allocation = pick(ALLOCATIONS);
    *first = pick(PLACES);
    *count = 1 + pick(PLACES - *first);
    return allocation;
}

static void overwrite(mdnn_pointer_tables_t *tables, int allocation, int first, int count,
                      mdnn_stream_point_t point)
{
    model_overwrite(allocation, first, count, point);
    mdnn_pointer_tables_overwrite(tables, address_of(allocation, first), (uint64_t)count * 8,
                                  point);
}

static void put(mdnn_pointer_tables_t *tables, int allocation, int first, int count)
{
    mdnn_pointer_word_t words[PLACES];
    size_t found = 0;
    for (int i = first; i < first + count; i++) {
        const uint64_t value = random_value();
        if (value == 0)
            continue;
        model_put(&places[allocation][i], value);
        words[found++] = (mdnn_pointer_word_t){address_of(allocation, i), value};
    }
    assert_true(mdnn_pointer_tables_add(tables, words, found, false));
}

static void copy_words(mdnn_pointer_tables_t *tables)
{
    int first, count;
    const int allocation = random_range(&first, &count);
    if (!lives[allocation])
        return;
    overwrite(tables, allocation, first, count, next_point());
    if (pick(3) > 0)
        put(tables, allocation, first, count);
}

static void settle_model(void)
{
    for (int j = 0; j < PENDING; j++) {
        pending_t *const one = &pending[j];
        if (!one->open || !is_over(one->point) || one->count == 0)
            continue;
        for (int i = one->first; i < one->first + one->count; i++) {
            place_t *const place = &places[one->allocation][i];
            uint64_t value = one->words[i - one->first], start, end;
            if (one->known[i] && place->value != value)
                place->value = 0;
            if (!find(NULL, value, &start, &end))
                value = 0; /* no pointer when it is read */
            if (value != 0 && one->known[i])
                model_put(place, value);
            else if (value != 0 && place->value != value)
                add_old(place, value, one->over[i]);
        }
    }
}

/* Words of pinned memory; one is open at a time in an allocation, so that they come in their order. */
static void copy_unread(mdnn_pointer_tables_t *tables)
{
    int first, count, j = 0;
    const int allocation = random_range(&first, &count);
    while (j < PENDING && pending[j].open)
        j++;
    for (int i = 0; i < PENDING; i++)
        if (pending[i].open && pending[i].allocation == allocation)
            return;
    if (j == PENDING || !lives[allocation])
        return;
    pending_t *const one = &pending[j];
    const mdnn_stream_point_t point = next_point();
    overwrite(tables, allocation, first, count, point);
    put(tables, allocation, first, count);
    *one = (pending_t){.open = true, .allocation = allocation, .first = first, .count = count};
    one->point = (mdnn_stream_point_t){point.stream, ++now};
    for (int i = first; i < first + count; i++) {
        one->known[i] = true;
        one->words[i - first] = pick(2) == 0 ? places[allocation][i].value : random_value();
    }
    assert_true(mdnn_pointer_tables_unread(tables, address_of(allocation, first),
                                           (uint64_t)count * 8, one->point, one->words));
}

static void end_or_begin(mdnn_pointer_tables_t *tables)
{
    const int allocation = pick(ALLOCATIONS);
    changes++;
    lives[allocation] = !lives[allocation];
    if (lives[allocation])
        return;
    mdnn_pointer_tables_forget(tables, start_of(allocation), PLACES * 8);
    memset(places[allocation], 0, sizeof places[allocation]);
    for (int j = 0; j < PENDING; j++)
        if (pending[j].open && pending[j].allocation == allocation)
            pending[j].count = 0;
}

static void advance(void)
{
    const int stream = pick(STREAMS);
    const uint64_t left = now - done[stream];
    done[stream] += left > 0 ? (uint64_t)pick((int)(left < 1000 ? left : 1000)) + 1 : 0;
}

static void check_follow(mdnn_pointer_tables_t *tables)
{
    mdnn_pointers_followed_t followed = {0};
    const int allocation = pick(ALLOCATIONS);
    const uint64_t stream = (uint64_t)pick(STREAMS);
    const uint64_t address = address_of(allocation, pick(PLACES));
    bool got[ALLOCATIONS] = {false};
    if (!lives[allocation])
        return;
    settle_model();
    mdnn_pointer_tables_follow(tables, &address, 1, stream, &followed);
    assert_false(followed.lost);
    for (int pass = 0; pass < 2; pass++) {
        memset(reaches, 0, sizeof reaches);
        model_follow(allocation, stream, pass == 1);
        for (size_t i = pass == 0 ? 0 : followed.current;
             i < (pass == 0 ? followed.current : followed.count); i++)
            got[(followed.starts[i] - BASE) / SPACING] = true;
        assert_memory_equal(got, reaches, sizeof got);
    }
    bool unread = false;
    reaches[allocation] = true;
    for (int j = 0; j < PENDING; j++)
        unread =
            unread || (pending[j].open && pending[j].count > 0 && reaches[pending[j].allocation]);
    assert_int_equal(followed.unread, unread);
    free(followed.starts);
}

CASE(words_are_those_of_a_model)
{
    static const mdnn_pointer_calls_t calls = {find, generation, is_done, give_back};
    mdnn_pointer_tables_t *const tables = mdnn_pointer_tables_create(&calls, NULL);
    assert_non_null(tables);
    random_state = 1;
    for (int i = 0; i < STEPS; i++) {
        switch (pick(8)) {
        case 0:
        case 1:
            copy_words(tables);
            break;
        case 2:
            copy_unread(tables);
            break;
        case 3:
            if (pick(4) == 0)
                end_or_begin(tables);
            break;
        case 4:
            advance();
            break;
        default:
            check_follow(tables);
        }
    }
    assert_true(given_back > 100);
    mdnn_pointer_tables_destroy(tables);
}

/* ---- words without a place, and of graphs ---- */

/* What is overwritten ends at once here, so the model is a list. */
enum { MOST_SIMPLE = 4096, SIMPLE_STEPS = 4000 };

typedef struct simple {
    int allocation, first, last; /* where it may lie */
    uint64_t value;
    bool kept, spread;
} simple_t;

static simple_t simples[MOST_SIMPLE];
static size_t simple_count;

static void drop(size_t i)
{
    simples[i] = simples[--simple_count];
}

static void simple_add(simple_t word)
{
    for (size_t i = 0; i < simple_count; i++)
        if (simples[i].allocation == word.allocation && simples[i].first == word.first &&
            simples[i].value == word.value) {
            simples[i].kept = simples[i].kept || word.kept;
            simples[i].spread = simples[i].spread || word.spread;
            simples[i].last = simples[i].last > word.last ? simples[i].last : word.last;
            return;
        }
    assert_true(simple_count < MOST_SIMPLE);
    simples[simple_count++] = word;
}

static void add_one(mdnn_pointer_tables_t *tables)
{
    const bool spread = pick(3) == 0;
    const int place = pick(PLACES);
    simple_t word = {pick(ALLOCATIONS), place, place, 0, pick(8) == 0, spread};
    word.value = address_of(pick(ALLOCATIONS), pick(PLACES));
    const mdnn_pointer_word_t one = {address_of(word.allocation, place), word.value};
    if (spread) {
        word.first = 0;
        word.last = PLACES - 1;
        assert_true(mdnn_pointer_tables_spread(tables, one.place, &word.value, 1, word.kept));
    } else {
        assert_true(mdnn_pointer_tables_add(tables, &one, 1, word.kept));
    }
    simple_add(word);
}

static void overwrite_some(mdnn_pointer_tables_t *tables, int allocation, int first, int count)
{
    for (size_t i = simple_count; i > 0; i--) {
        const simple_t *const word = &simples[i - 1];
        if (word->allocation == allocation && !word->kept && word->first >= first &&
            word->last < first + count)
            drop(i - 1);
    }
    mdnn_pointer_tables_overwrite(tables, address_of(allocation, first), (uint64_t)count * 8,
                                  (mdnn_stream_point_t){0, ++done[0]});
}

static void copy_some(mdnn_pointer_tables_t *tables)
{
    const int from = pick(ALLOCATIONS), to = (from + 1 + pick(ALLOCATIONS - 1)) % ALLOCATIONS;
    const int first = pick(PLACES), count = 1 + pick(PLACES - first);
    const int at = pick(PLACES - count + 1);
    const bool kept = pick(8) == 0;
    overwrite_some(tables, to, at, count);
    for (size_t i = simple_count; i > 0; i--) {
        simple_t word = simples[i - 1];
        if (word.allocation != from || word.last < first || word.first >= first + count)
            continue;
        word.first = at + (word.first < first ? 0 : word.first - first);
        word.last = at + (word.last < first + count ? word.last - first : count - 1);
        word.allocation = to;
        word.kept = kept;
        simple_add(word);
    }
    assert_true(mdnn_pointer_tables_copy(tables, address_of(to, at), address_of(from, first),
                                         (uint64_t)count * 8, kept));
}

static void simple_reach(int allocation)
{
    for (size_t i = 0; i < simple_count; i++) {
        const int target = (int)((simples[i].value - BASE) / SPACING);
        if (simples[i].allocation != allocation || reaches[target])
            continue;
        reaches[target] = true;
        simple_reach(target);
    }
}

static void check_simple(mdnn_pointer_tables_t *tables)
{
    mdnn_pointers_followed_t followed = {0};
    const int allocation = pick(ALLOCATIONS);
    const uint64_t address = start_of(allocation);
    bool got[ALLOCATIONS] = {false};
    memset(reaches, 0, sizeof reaches);
    simple_reach(allocation);
    mdnn_pointer_tables_follow(tables, &address, 1, 0, &followed);
    for (size_t i = 0; i < followed.count; i++)
        got[(followed.starts[i] - BASE) / SPACING] = true;
    assert_memory_equal(got, reaches, sizeof got);
    free(followed.starts);
}

static void forget_one(mdnn_pointer_tables_t *tables)
{
    const int allocation = pick(ALLOCATIONS);
    for (size_t i = simple_count; i > 0; i--)
        if (simples[i - 1].allocation == allocation)
            drop(i - 1);
    mdnn_pointer_tables_forget(tables, start_of(allocation), PLACES * 8);
}

CASE(words_without_a_place_end_with_all_of_it_and_those_of_graphs_with_their_memory)
{
    static const mdnn_pointer_calls_t calls = {find, generation, is_done, give_back};
    mdnn_pointer_tables_t *const tables = mdnn_pointer_tables_create(&calls, NULL);
    assert_non_null(tables);
    random_state = 3;
    changes++;
    memset(done, 0, sizeof done);
    for (int i = 0; i < ALLOCATIONS; i++)
        lives[i] = true;
    for (int i = 0; i < SIMPLE_STEPS; i++) {
        const int first = pick(PLACES);
        switch (pick(9)) {
        case 0:
        case 1:
            add_one(tables);
            break;
        case 2:
            copy_some(tables);
            break;
        case 3:
        case 4:
            overwrite_some(tables, pick(ALLOCATIONS), first, PLACES - first);
            break;
        case 5:
            forget_one(tables);
            break;
        default:
            check_simple(tables);
        }
    }
    mdnn_pointer_tables_destroy(tables);
}

/* ---- without memory ---- */

/* Random calls; whether each said that it had all that it needed. */
static bool all_of_some_calls(mdnn_pointer_tables_t *tables)
{
    static uint64_t read_back[PLACES];
    bool all = true;
    for (int i = 0; i < 60; i++) {
        const int holder = pick(ALLOCATIONS), place = pick(PLACES - 4);
        const mdnn_pointer_word_t words[2] = {
            {address_of(holder, place), address_of(pick(ALLOCATIONS), 0)},
            {address_of(pick(ALLOCATIONS), place), address_of(pick(ALLOCATIONS), 0)}};
        mdnn_pointers_followed_t followed = {0};
        read_back[place] = address_of(pick(ALLOCATIONS), 1);
        mdnn_pointer_tables_overwrite(tables, words[0].place, 8, next_point());
        all =
            mdnn_pointer_tables_add(tables, words, 1 + (words[1].place > words[0].place), false) &&
            all;
        all = mdnn_pointer_tables_copy(tables, address_of(pick(ALLOCATIONS), 0), words[0].place, 16,
                                       false) &&
              all;
        all = mdnn_pointer_tables_unread(tables, address_of(holder, 0), sizeof read_back,
                                         next_point(), read_back) &&
              all;
        all = mdnn_pointer_tables_spread(tables, address_of(holder, place), &words[0].value, 1,
                                         pick(2) == 0) &&
              all;
        if (pick(4) == 0)
            mdnn_pointer_tables_forget(tables, start_of(holder), PLACES * 8);
        mdnn_pointer_tables_follow(tables, &words[0].place, 1, 0, &followed);
        all = all && !followed.lost;
        free(followed.starts);
        advance();
    }
    return all;
}

/* Each allocation fails once, in a run of its own. What cannot be taken from words that were read back is tried again. */
CASE(want_of_memory_is_said)
{
    static const mdnn_pointer_calls_t calls = {find, generation, is_done, give_back};
    bool came = true;
    int said = 0;
    for (int i = 0; i < ALLOCATIONS; i++)
        lives[i] = true;
    for (long at = 1; came; at++) {
        random_state = 7;
        memset(pending, 0, sizeof pending);
        fail_allocation_at = at;
        mdnn_pointer_tables_t *const tables = mdnn_pointer_tables_create(&calls, NULL);
        const bool all = tables && all_of_some_calls(tables);
        came = fail_allocation_at == 0;
        fail_allocation_at = 0;
        assert_true(all || came);
        said += !all;
        mdnn_pointer_tables_destroy(tables);
    }
    assert_true(said > 100);
}

int main(void)
{
    return run_cases("pointer_tables");
}
