#!/bin/sh
# Devices that are reset under a budget, on the simulated GPU: with whatever is there, beside work on
# another device, and under threads that use them.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"

# A device that is reset is as if it had never been used. Seeds after whose last reset it holds more than the budget.
resets() { # program safety
    for seed in $(few 1 '1 2 5'); do
        MICRODNN_SIM_MEMORY=$((130 * mebibyte)) MICRODNN_SIM_SEED=$seed \
            by_itself "$client" "$1" "$seed" "$held" || return 1
        MICRODNN_MEMORY_SAFETY=$2 MICRODNN_SIM_MEMORY=$((130 * mebibyte)) MICRODNN_SIM_SEED=$seed \
            under "$within" "$client" "$1" "$seed" "$held" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget" && said_nothing || { echo "seed $seed"; return 1; }
    done
}

# The program retains the context that it uses, the library likewise, and nobody another.
makes_no_context() {
    for nth in 2 3; do
        rm -f "$TMPDIR/fired"
        MICRODNN_SIM_FAULTS=cuDevicePrimaryCtxRetain:$nth:999 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired \
            under "$within" "$client" reset_unused 1 "$held" || return 1
        [ $nth = 3 ] || [ -s "$TMPDIR/fired" ] || { echo "the library's own never came"; return 1; }
    done
    [ ! -e "$TMPDIR/fired" ] || { cat "$TMPDIR/fired"; return 1; }
}

# Other threads may be told anything of what they do there meanwhile.
resets_under_others() {
    for safety in $(few 'fast host' 'fast host verify'); do
        for seed in $(few 1 '1 2'); do
            MICRODNN_SIM_SEED=$seed by_itself "$client" reset_under "$seed" "$held" || return 1
            MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed under "$within" \
                "$client" reset_under "$seed" "$held" ||
                { echo "$safety, seed $seed"; cat "$log"; return 1; }
            holds "$in_budget and memory['out_bytes'] > 0" || { echo "$safety, seed $seed"; return 1; }
        done
    done
}

MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES
# The library says which kernels ran last.
keeps_the_error() {
    by_itself "$client" after_a_fault 1 "$held" && under "$within" "$client" after_a_fault 1 "$held" &&
        grep -q 'the device reports an illegal access' "$log" || { cat "$log"; return 1; }
}

plan 6
check "a device that is reset begins afresh, and no other notices" resets resets fast
check "likewise with safety = host" resets resets host
check "a device is reset while another thread waits for another device" resets reset_beside fast
check "a reset of a device that nobody has used makes no context there" makes_no_context
check "a device is reset while other threads use it" resets_under_others
check "after a fault allocations fail until the reset" keeps_the_error
finish
