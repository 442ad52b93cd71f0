#!/bin/sh
# Device memory that is not virtual counts in the budget for as long as it is there, and no longer; it
# makes virtual memory leave, and is refused where that is not enough. The simulated GPU ends a program
# that has more than MICRODNN_SIM_LIMIT bytes of it, whoever took them.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
others=$MDNN_BUILD/test/clients/other_memory
MICRODNN_MEMORY_TAIL=no # so more is refused
export MICRODNN_MEMORY_TAIL

# counts KIND: nothing is refused without a budget, some is under one, and all is given back
counts() {
    for seed in $(few 1 '1 2'); do
        ! thorough || { printed=$("$others" "$1" $seed) && [ "${printed#* }" = 0 ]; } ||
            { echo "wrong by itself: $printed"; return 1; }
        printed=$(export MICRODNN_SIM_SEED=$seed MICRODNN_SIM_LIMIT=$((48 * mebibyte))
            under $((48 * mebibyte)) "$others" "$1" $seed) || { echo "seed $seed: $printed"; cat "$log"; return 1; }
        [ "${printed% *}" -gt 20 ] && [ "${printed#* }" -gt 3 ] || { echo "seed $seed: $printed"; return 1; }
        holds "($in_budget and memory['out_bytes'] > 0 and memory['other_bytes'] == 0 and
            memory['peak_other_bytes'] > 20 << 20)" || { echo "seed $seed"; return 1; }
    done
}

plan 4
check 'memory of cuMemCreate counts until it is released and unmapped' counts handles
check 'memory of pools of the program'"'"'s own counts as long as they hold it' counts pools
check 'an array counts until it is destroyed' counts arrays
check 'memory that graphs allocate counts from the first launch on' counts graphs
finish
