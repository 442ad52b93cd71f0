#include "shim/remake/launch_keys.h"

#include <stdlib.h>

enum { BUCKETS = 4096, MOST_KEYS = 65536 };

static mdnn_launch_key_t *buckets[BUCKETS];
static uint32_t key_count;

mdnn_launch_key_t *mdnn_launch_key(const uint64_t hash[2], uint32_t operand_count, bool *is_new)
{
    mdnn_launch_key_t **const bucket = &buckets[hash[0] % BUCKETS];
    *is_new = false;
    for (mdnn_launch_key_t *key = *bucket; key; key = key->next)
        if (key->hash[0] == hash[0] && key->hash[1] == hash[1] &&
            key->operand_count == operand_count)
            return key;
    if (key_count == MOST_KEYS)
        return NULL;
    mdnn_launch_key_t *const key = calloc(1, sizeof *key + operand_count * sizeof key->operands[0]);
    if (!key)
        return NULL;
    key->hash[0] = hash[0];
    key->hash[1] = hash[1];
    key->operand_count = operand_count;
    key->barred = MDNN_REMAKE_proven;
    key->next = *bucket;
    *bucket = key;
    key_count++;
    *is_new = true;
    return key;
}

/* ---- shapes ---- */

enum { SHAPES = 4096, MANY_KEYS = 64 };

/* By their hash. Where two meet, the later one takes the place. */
static struct {
    uint64_t shape;
    uint32_t launches, keys;
} shapes[SHAPES];

bool mdnn_launch_shape_is_worthwhile(uint64_t shape)
{
    const size_t at = shape % SHAPES;
    return shapes[at].shape != shape || shapes[at].keys < MANY_KEYS ||
           2 * shapes[at].keys < shapes[at].launches;
}

void mdnn_launch_shape_has_key(uint64_t shape, bool is_new)
{
    const size_t at = shape % SHAPES;
    if (shapes[at].shape != shape) {
        shapes[at].shape = shape;
        shapes[at].launches = shapes[at].keys = 0;
    }
    shapes[at].launches++;
    shapes[at].keys += is_new;
}

/* ---- one key ---- */

void mdnn_launch_key_refused(mdnn_launch_key_t *key)
{
    enum { FEWEST = 8, MOST_DOUBLINGS = 10 };
    key->rest = (uint32_t)FEWEST << key->refusals;
    key->refusals += key->refusals < MOST_DOUBLINGS;
}

bool mdnn_launch_key_rests(mdnn_launch_key_t *key)
{
    if (key->rest == 0)
        return false;
    key->rest--;
    return true;
}

bool mdnn_launch_key_reads(const mdnn_launch_key_t *key, uint32_t operand)
{
    return key->watches >= MDNN_REMAKE_WATCHES && !key->operands[operand].changed;
}

bool mdnn_launch_key_is_proven(const mdnn_launch_key_t *key, uint32_t operand)
{
    return key->barred == MDNN_REMAKE_proven && key->operands[operand].proofs >= MDNN_REMAKE_PROOFS;
}
