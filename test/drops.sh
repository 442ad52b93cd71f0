#!/bin/sh
# Contents that are dropped and made again (memory.remake = checked): what a program reads is as without the library, and
# the statistics say what was dropped.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
drops=$MDNN_BUILD/test/clients/drops

# drops PROGRAM EXPRESSION [MIB]: the same sum with and without the library, and what the statistics must say
drops() {
    wanted=$("$drops" "$1") || { echo "wrong by itself"; return 1; }
    for seed in $(few 1 '1 2 3 4'); do
        found=$(export MICRODNN_MEMORY_REMAKE=checked MICRODNN_SIM_SEED="$seed" && under $((${3:-14} * mebibyte)) "$drops" "$1") ||
            { echo "seed $seed: $?"; cat "$log"; return 1; }
        [ "$found" = "$wanted" ] || { echo "seed $seed: $found, not $wanted"; return 1; }
        holds "$in_budget and memory['remake_lost'] == 0 and ($2)" && said_nothing ||
            { echo "seed $seed"; cat "$log"; return 1; }
    done
}

plan 2
check 'results of a chain of kernels' drops chain "memory['remake_dropped'] > 5 and memory['remake_wanted'] > 5"
check 'results that are freed when they were read' drops training "memory['remake_dropped'] > 5 and memory['remake_wanted'] > 5"
finish
