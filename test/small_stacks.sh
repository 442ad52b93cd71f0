#!/bin/sh
# Programs that use CUDA in threads with small stacks, under a budget. With the library's threads, as on a real GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/small_stacks
ulimit -c 0
case ${MDNN_BUILD##*/} in
asan | tsan | ubsan | cov) skip_all "this build needs more of a stack" ;;
esac

works() { # KIB
    by_itself "$client" "$1" || return 1
    MICRODNN_SIM_THREADS=1 under $((48 * mebibyte)) "$client" "$1" || { echo "status $?"; cat "$log"; return 1; }
    holds "$in_budget and memory['out_bytes'] > 0" && said_nothing
}

plan 2
check "a thread with a stack of 64 KiB" works 64
check "a thread with a stack of 24 KiB" works 24
finish
