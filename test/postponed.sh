#!/bin/sh
# Under a budget a program trains from its first moments on: once measuring convolutions has taken its part of the time
# (convolution.measure_time), those that are left run as they are, and are measured later. On the simulated GPU.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_CONVOLUTION_POLICY=wr MICRODNN_SIM_MODE=timing MICRODNN_CONVOLUTION_MEASURE_TIME=1
MICRODNN_CONVOLUTION_MEASURE_REPEATS=1
export MICRODNN_CONVOLUTION_POLICY MICRODNN_SIM_MODE MICRODNN_CONVOLUTION_MEASURE_TIME MICRODNN_CONVOLUTION_MEASURE_REPEATS

# train ITERATIONS: within the program's own limit; a millisecond is over when the first convolutions are measured, on any
# machine
train() {
    under 48MiB "$train_cnn" --data "$data" --quiet --search heuristic --batch 8 --api graph --workspace-limit 1MiB \
        --iterations "$1" && said_nothing && holds "$in_budget"
}

passes_what_is_left() {
    train 1 && holds "counters['passed_postponed'] > 0 and counters['problems'] > 0"
}

# However slow the machine is, some iterations are enough.
measures_it_later() {
    MICRODNN_CONVOLUTION_MEASURE_TIME=0 train 2 && holds "counters['passed_postponed'] == 0" || return 1
    all=$(sed -n 's/.*"problems": *\([0-9]*\).*/\1/p' "$stats" | head -n 1)
    [ "$all" -gt 4 ] || { echo "$all problems"; return 1; }
    for iterations in 100 1000 10000; do
        train "$iterations" || return 1
        ! holds "counters['problems'] == $all" >"$TMPDIR/held" || return 0
    done
    cat "$TMPDIR/held"
    return 1
}

measures_all_for_a_limit() {
    MICRODNN_CONVOLUTION_WORKSPACE_LIMIT=1MiB train 2 && holds "counters['passed_postponed'] == 0"
}

plan 3
check 'convolutions that are not measured in time run as they are' passes_what_is_left
check 'and are measured later' measures_it_later
check 'whoever limits workspace waits for all of them' measures_all_for_a_limit
finish
