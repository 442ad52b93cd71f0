#!/bin/sh
# Convolutions under a budget run in memory that the library lends them (memory.variants), of which a plan gives them
# less where moving memory costs more. On the simulated GPU, on its clock.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_CONVOLUTION_POLICY=wr MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing
export MICRODNN_CONVOLUTION_POLICY MICRODNN_SIM_PROFILE MICRODNN_SIM_MODE
iterations=20

# train BUDGET VARIANTS POLICY ARGUMENTS...
train() {
    within=$1 variants=$2 policy=$3
    shift 3
    MICRODNN_MEMORY_VARIANTS=$variants MICRODNN_MEMORY_POLICY=$policy under "$within" "$train_cnn" --quiet \
        --data "$data" --net alexnet --batch 256 --iterations "$iterations" --workspace-limit 512m --find-repeats 1 "$@" ||
        { cat "$log"; return 1; }
}
lent="counters['loans'] > 100 and $in_budget and memory['live_bytes'] == 0 and memory['refused'] == 0"

# Whatever runs, an iteration is one period of the same operations.
chosen() {
    train 1900m fitting auto && holds "$lent and 0 < counters['loans_smaller'] < counters['loans']
        and memory['period_operations'] == 99"
}

# vDNN's (m) and (p), in both APIs: what is lent before the first plan is what the program asks for.
by_rule() {
    for api in $(few graph 'legacy graph'); do
        train 2600m smallest all --api $api && holds "$lent and 100 < counters['loans_smaller'] < counters['loans']
            and memory['period_operations'] == 99" || { echo "$api"; return 1; }
    done
    train 2600m fastest all && holds "$lent and counters['loans_smaller'] == 0"
}

# A program that takes only algorithms that give the same bits in each run keeps what it chose.
repeats() {
    iterations=$(few 10 20)
    for api in $(few legacy 'legacy graph'); do
        train 1900m fitting auto --deterministic --api "$api" &&
            holds "$lent and counters['loans_smaller'] == 0" || { echo "$api"; return 1; }
    done
}

as_recorded() {
    iterations=$(few 10 20)
    train 1900m recorded auto && holds "counters['loans'] == 0 and $in_budget"
}

# The engine of one convolution has no room to be timed. What is recorded can be read nevertheless.
untimed_have_no_choice() {
    MICRODNN_MEMORY_RECORD=$TMPDIR/record MICRODNN_MEMORY_VARIANTS=fitting under 3500m "$train_cnn" --quiet --data "$data" \
        --net vgg16 --batch 64 --iterations 12 --workspace-limit 2g --find-repeats 1 --api graph &&
        ! grep 'cannot write the record' "$log" && holds "counters['loans'] > 0" &&
        "$MDNN_BUILD/microdnn" advise "$TMPDIR/record" --gpu none --json >"$TMPDIR/advice" && grep -q floor_bytes "$TMPDIR/advice"
}

# While a division is on trial, what it competes with runs in half of the calls. It takes much longer here.
trials_do_not_count() {
    MICRODNN_MEMORY_VARIANTS=fitting under 6g "$train_cnn" --quiet --data "$data" --net alexnet --batch 64 --iterations 24 \
        --workspace-limit 64m --find-repeats 1 &&
        holds "counters['loans'] > 100 and memory['round_ms'] > 0 and memory['link_bound_ms'] <= 1.02 * memory['round_ms']"
}

plan 6
check 'a plan gives convolutions less workspace where that costs least' chosen
check 'policy all has its memory-optimal and performance-optimal modes' by_rule
check 'a program whose bits repeat keeps what it chose' repeats
check 'nothing is lent by default' as_recorded
check 'plans do not take the times of trials' trials_do_not_count
check 'a convolution whose own engine was never timed has no choice' untimed_have_no_choice
finish
