#!/bin/sh
# No name of an operation is lost where host memory runs out for the library (test/clients/virtual_names.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
names=$MDNN_BUILD/test/clients/virtual_names

# names_all PROGRAM: right without the library; under a budget some of its calls are refused
names_all() {
    "$names" "$1" >"$TMPDIR/refused" && [ "$(cat "$TMPDIR/refused")" = 0 ] || { echo "wrong by itself"; return 1; }
    for seed in 1 2; do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$names" "$1" >"$TMPDIR/refused" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        [ "$(cat "$TMPDIR/refused")" -gt 0 ] || { echo "seed $seed: nothing was refused"; return 1; }
        holds "$in_budget and memory['live_bytes'] == 0" || { echo "seed $seed"; return 1; }
    done
}

plan 2
check "a batch of copies names all that it touches, or is refused" names_all of_a_batch
check "a launch of a graph names all that it uses, or is refused" names_all of_a_graph
finish
