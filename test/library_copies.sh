#!/bin/sh
# Several copies of cuBLAS in a process, and copies that no soname of cuBLAS leads to: each call reaches
# the copy that it would reach without the library (test/clients/library_copies.c), with and without a
# budget.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

client=$MDNN_BUILD/test/clients/library_copies
copies=$MDNN_BUILD/test/libraries/copies
log=$TMPDIR/log
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
MICRODNN_SIM_PROFILE=toy
MICRODNN_LOG_FILE=$log
export MICRODNN_SIM_PROFILE MICRODNN_LOG_FILE

[ -e "$client" ] || skip_all "there is no simulated GPU in this build"

preloaded() { LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" "$@"; }

# reach COPY...: right by itself, and with the library
reach() {
    "$client" "$@" || { echo "wrong by itself"; return 1; }
    : >"$log"
    preloaded "$client" "$@" && MICRODNN_MEMORY_BUDGET=48MiB preloaded "$client" "$@" ||
        { cat "$log"; return 1; }
}

quietly() { reach "$@" && { [ ! -s "$log" ] || { cat "$log"; return 1; }; }; }

# The functions of a second copy stay the program's own, which is told once.
tells_of_the_second() {
    reach "$@" && [ "$(wc -l <"$log")" = 1 ] && grep -q 'several copies of cuBLAS' "$log"
}

plan 10
check "a library that is known is not looked for again" quietly "local:$copies/user_13.so"
check "a library with a cuBLAS within calls that" quietly "local:$copies/static.so"
check "a cuBLAS with another name is called by that" quietly "local:$copies/user_renamed.so"
check "so both are beside one with the usual name" \
    quietly "local:$copies/user_13.so" "local:$copies/static.so" "local:$copies/user_renamed.so"
check "two versions are called by those that need them" \
    quietly "local:$copies/user_12.so" "local:$copies/user_13.so"
check "so they are where one is for all to see" \
    quietly "global:$copies/user_12.so" "local:$copies/user_13.so"
check "and where one is looked up" \
    quietly "symbol:$copies/libcublas.so.12" "local:$copies/user_13.so"
check "whichever that is" quietly "local:$copies/user_12.so" "symbol:$copies/libcublas.so.13"
check "and where both are" \
    tells_of_the_second "symbol:$copies/libcublas.so.12" "symbol:$copies/libcublas.so.13"
check "one that the program closes does not stand for another" \
    quietly "gone:$copies/libcublas.so.12" "local:$copies/user_12.so" "local:$copies/static.so"
finish
