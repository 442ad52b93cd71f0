/* Runs of released blocks, by size: bins, eight for each power of two. */
#include "offload/ranges/ranges_internal.h"

unsigned mdnn_run_bin(uint64_t bytes)
{
    const uint64_t granules = bytes / MDNN_GRANULE;
    if (granules < 8)
        return (unsigned)granules;
    const unsigned power = 63 - (unsigned)__builtin_clzll(granules);
    return 8 * (power - 2) + ((unsigned)(granules >> (power - 3)) & 7);
}

unsigned mdnn_run_next_bin(const mdnn_slab_runs_t *runs, unsigned bin)
{
    while (bin < MDNN_SLAB_BINS) {
        const uint64_t bits = runs->some[bin / 64] >> bin % 64;
        if (bits)
            return bin + (unsigned)__builtin_ctzll(bits);
        bin = (bin / 64 + 1) * 64;
    }
    return MDNN_SLAB_BINS;
}

/* The run from `first` to `last`, which was in no bin. */
static void list(mdnn_slab_runs_t *runs, mdnn_block_t *first, mdnn_block_t *last)
{
    const uint64_t bytes = last->address + last->room - first->address;
    const unsigned bin = mdnn_run_bin(bytes);
    first->run_bytes = bytes;
    first->run_last = last;
    last->run_first = first;
    first->previous_run = NULL;
    first->next_run = runs->bins[bin];
    if (first->next_run)
        first->next_run->previous_run = first;
    runs->bins[bin] = first;
    runs->some[bin / 64] |= (uint64_t)1 << bin % 64;
}

static void unlist(mdnn_slab_runs_t *runs, mdnn_block_t *first)
{
    const unsigned bin = mdnn_run_bin(first->run_bytes);
    *(first->previous_run ? &first->previous_run->next_run : &runs->bins[bin]) = first->next_run;
    if (first->next_run)
        first->next_run->previous_run = first->previous_run;
    if (!runs->bins[bin])
        runs->some[bin / 64] &= ~((uint64_t)1 << bin % 64);
}

void mdnn_run_add(mdnn_slab_runs_t *runs, mdnn_block_t *block)
{
    mdnn_block_t *first = block, *last = block;
    if (mdnn_block_released(block->before)) {
        first = block->before->run_first;
        unlist(runs, first);
    }
    if (mdnn_block_released(block->after)) {
        last = block->after->run_last;
        unlist(runs, block->after);
    }
    list(runs, first, last);
}

void mdnn_run_leave(mdnn_slab_runs_t *runs, mdnn_block_t *run, mdnn_block_t *first,
                    mdnn_block_t *last)
{
    mdnn_block_t *const end = run->run_last;
    unlist(runs, run);
    if (run != first)
        list(runs, run, first->before);
    if (end != last)
        list(runs, last->after, end);
}
