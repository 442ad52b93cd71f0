#include "shim/remake/varying_words.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

enum { BUCKETS = 1024, MOST_FAMILIES = 8192, MOST_PLACES = 1024, FEWEST_PLACES = 16 };

typedef struct word {
    uint32_t values[MDNN_WORD_VALUES];
    uint32_t count;
} word_t;

struct mdnn_word_family {
    mdnn_word_family_t *next; /* in its bucket */
    uint64_t hash[2];
    word_t *words;
    uint32_t places;
};

static mdnn_word_family_t *buckets[BUCKETS];
static uint32_t family_count;

mdnn_word_family_t *mdnn_word_family(const uint64_t hash[2])
{
    mdnn_word_family_t **const bucket = &buckets[hash[0] % BUCKETS];
    for (mdnn_word_family_t *family = *bucket; family; family = family->next)
        if (family->hash[0] == hash[0] && family->hash[1] == hash[1])
            return family;
    mdnn_word_family_t *const family =
        family_count < MOST_FAMILIES ? calloc(1, sizeof *family) : NULL;
    if (!family)
        return NULL;
    family->hash[0] = hash[0];
    family->hash[1] = hash[1];
    family->next = *bucket;
    *bucket = family;
    family_count++;
    return family;
}

static bool make_room(mdnn_word_family_t *family, uint32_t place)
{
    uint32_t places = family->places ? family->places : FEWEST_PLACES;
    while (places <= place)
        places *= 2;
    if (places == family->places)
        return true;
    word_t *const grown =
        places <= MOST_PLACES ? reallocarray(family->words, places, sizeof *grown) : NULL;
    if (!grown)
        return false;
    memset(grown + family->places, 0, (places - family->places) * sizeof *grown);
    family->words = grown;
    family->places = places;
    return true;
}

bool mdnn_word_varies(mdnn_word_family_t *family, uint32_t place, uint32_t value)
{
    if (!family || !make_room(family, place))
        return false;
    word_t *const word = &family->words[place];
    uint32_t i = 0;
    while (i < word->count && word->values[i] != value)
        i++;
    if (i == word->count && word->count < MDNN_WORD_VALUES)
        word->values[word->count++] = value;
    return word->count == MDNN_WORD_VALUES || MDNN_FAULT(EVERY_WORD_VARIES);
}
