#include "shim/real/tensor_maps.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"

enum { WORDS = sizeof(CUtensorMap) / sizeof(uint64_t) };

typedef struct hidden {
    struct hidden *next;
    uint64_t words[WORDS];
    uint64_t address;
} hidden_t;

enum { CHAINS = 4096 };

/* Heads are published last and entries never leave, so readers need no lock. */
static _Atomic(hidden_t *) chains[CHAINS];
static _Atomic size_t hidden_count;
static mdnn_lock_t lock = MDNN_LOCK_INIT(TENSOR_MAPS);

static size_t chain_of(const uint64_t *words)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < WORDS; i++)
        hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 32) % CHAINS;
}

static const hidden_t *find(const uint64_t *words)
{
    const hidden_t *each = atomic_load_explicit(&chains[chain_of(words)], memory_order_acquire);
    while (each && memcmp(each->words, words, sizeof each->words) != 0)
        each = each->next;
    return each;
}

static bool is_visible(const CUtensorMap *map, uint64_t address)
{
    for (size_t at = 0; at + sizeof address <= sizeof *map; at += 4)
        if (memcmp((const char *)map + at, &address, sizeof address) == 0)
            return true;
    return false;
}

bool mdnn_tensor_map_remember(const CUtensorMap *map, uint64_t address)
{
    if (is_visible(map, address))
        return true;
    hidden_t *const entry = malloc(sizeof *entry);
    if (!entry)
        return false;
    memcpy(entry->words, map, sizeof entry->words);
    entry->address = address;
    mdnn_lock(&lock);
    if (find(entry->words)) {
        free(entry);
    } else {
        _Atomic(hidden_t *) *const head = &chains[chain_of(entry->words)];
        entry->next = atomic_load_explicit(head, memory_order_relaxed);
        atomic_store_explicit(head, entry, memory_order_release);
        (void)atomic_fetch_add_explicit(&hidden_count, 1, memory_order_release);
    }
    mdnn_unlock(&lock);
    return true;
}

uint64_t mdnn_tensor_map_address(const void *map)
{
    if (atomic_load_explicit(&hidden_count, memory_order_acquire) == 0)
        return 0;
    uint64_t words[WORDS];
    memcpy(words, map, sizeof words);
    const hidden_t *const known = find(words);
    return known ? known->address : 0;
}
