#!/bin/sh
# Programs of many small allocations under a budget, on the simulated GPU: what is freed serves sizes of
# any kind, what lives locks nothing out, and lengths that vary take a tenth more than they need.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
small=$MDNN_BUILD/test/clients/small_allocations
gibibyte=$((1024 * mebibyte))

# timed BUDGET PROGRAM BYTES: memory is only counted, so it may be as much as a GPU has
timed() {
    MICRODNN_SIM_MODE=timing MICRODNN_SIM_PROFILE=h200 under "$@" || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 0" && said_nothing
}

phases() {
    MICRODNN_SIM_MODE=timing MICRODNN_SIM_MEMORY=$((6 * gibibyte)) by_itself "$small" phases $((5 * gibibyte)) || return 1
    timed $((12 * gibibyte)) "$small" phases $((5 * gibibyte)) &&
        holds "memory['out_bytes'] == 0 and memory['unmapped_chunks'] > 0"
}

lengths() { # bytes
    need=$("$small" need "$1") || return 1
    timed $((need + need / 10)) "$small" lengths "$1" &&
        holds "memory['peak_live_bytes'] > 0.9 * memory['budget_bytes']"
}

# Small ones within the budget move nothing.
small_lengths() {
    lengths $((600 * mebibyte)) && holds "memory['out_bytes'] == 0"
}

beside() { # safety
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed by_itself "$small" beside $((24 * mebibyte)) || return 1
        MICRODNN_MEMORY_SAFETY=$1 MICRODNN_SIM_SEED=$seed under $((32 * mebibyte)) "$small" beside \
            $((24 * mebibyte)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['refused'] == 0" && said_nothing || return 1
    done
}

# Twice the budget, of which no tensor is larger than half a chunk.
alone() { # safety
    by_itself "$small" alone $((256 * mebibyte)) || return 1
    MICRODNN_MEMORY_SAFETY=$1 under $((128 * mebibyte)) "$small" alone $((256 * mebibyte)) || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 0 and memory['out_bytes'] > 128 * $mebibyte" && said_nothing
}

# They just fit, so hardly anything moves: only the last ones, which have ranges.
exactly() {
    under $((128 * mebibyte)) "$small" alone $((127 * mebibyte)) || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 0 and memory['out_bytes'] < 16 * $mebibyte" && said_nothing
}

plan 9
check "phases of tensors of different sizes follow each other" phases
check "lengths that vary take a tenth more than they need: 600 MiB" small_lengths
check "lengths that vary take a tenth more than they need: 6 GiB" lengths $((6 * gibibyte))
check "small allocations lock no large one out" beside fast
check "likewise with safety = host" beside host
check "likewise with safety = verify" beside verify
check "small allocations that do not fit together leave" alone fast
check "likewise where memory that is away is mapped" alone host
check "small allocations that fit stay" exactly
finish
