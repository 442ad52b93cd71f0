#include "shim/remake/remake_counts.h"

#include <stdatomic.h>

static struct {
    _Atomic uint64_t count, bytes;
} outcomes[MDNN_REMAKE_OUTCOMES], drops[MDNN_MAKING_ENDED];
static _Atomic uint64_t lost, keys, keys_proven, proofs, differences, time_ns;

void mdnn_remake_count(mdnn_remake_outcome_t outcome, uint64_t bytes)
{
    atomic_fetch_add(&outcomes[outcome].count, 1);
    atomic_fetch_add(&outcomes[outcome].bytes, bytes);
}

void mdnn_remake_count_key(bool proven)
{
    atomic_fetch_add(proven ? &keys_proven : &keys, 1);
}

void mdnn_remake_count_proof(bool differs)
{
    atomic_fetch_add(&proofs, 1);
    atomic_fetch_add(&differences, differs);
}

void mdnn_remake_count_drop(mdnn_making_event_t what, uint64_t bytes)
{
    atomic_fetch_add(&drops[what].count, 1);
    atomic_fetch_add(&drops[what].bytes, bytes);
}

void mdnn_remake_count_lost(void)
{
    atomic_fetch_add(&lost, 1);
}

void mdnn_remake_count_time(double us)
{
    atomic_fetch_add(&time_ns, (uint64_t)(us * 1e3));
}

void mdnn_remake_fill(mdnn_memory_statistics_t *numbers)
{
    numbers->remake_keys = keys;
    numbers->remake_keys_proven = keys_proven;
    numbers->remake_proofs = proofs;
    numbers->remake_differences = differences;
    numbers->remake_ms = (double)time_ns / 1e6;
    numbers->remake_dropped = drops[MDNN_MAKING_DROPPED].count;
    numbers->remake_dropped_bytes = drops[MDNN_MAKING_DROPPED].bytes;
    numbers->remake_wanted = drops[MDNN_MAKING_WANTED].count;
    numbers->remake_early = drops[MDNN_MAKING_EARLY].count;
    numbers->remake_refused = drops[MDNN_MAKING_REFUSED].count;
    numbers->remake_lost = lost;
#define REMAKE_OUTCOME(name, words)                                                                \
    numbers->remake_##name = outcomes[MDNN_REMAKE_##name].count;                                   \
    numbers->remake_##name##_bytes = outcomes[MDNN_REMAKE_##name].bytes;
#include "config/remake_outcomes.def"
}
