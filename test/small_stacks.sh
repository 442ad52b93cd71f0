#!/bin/sh
# Programs that use CUDA in threads with small stacks, under a budget: with the library's threads, as on a real GPU, and
# with plans made in the program's thread.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/small_stacks
ulimit -c 0
case ${MDNN_BUILD##*/} in
asan | tsan | ubsan | cov) skip_all "this build needs more of a stack" ;;
esac

works() { (export MICRODNN_SIM_THREADS=1 && works_alone "$1"); } # KIB
works_alone() { # KIB
    by_itself "$client" "$1" || return 1
    under $((48 * mebibyte)) "$client" "$1" || { echo "status $?"; cat "$log"; return 1; }
    holds "$in_budget and memory['out_bytes'] > 0" && said_nothing
}

plan 3
check "a thread with a stack of 64 KiB" works 64
check "a thread with a stack of 24 KiB" works 24
check "plans that a thread with a stack of 48 KiB makes" works_alone 48
finish
