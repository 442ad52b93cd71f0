#!/bin/sh
# PyTorch's failed checks reach PyTorch as they are. Under a budget, one line names the way out of what its asynchronous
# allocator does not have (shim/interpose/pytorch_checks.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
client=$MDNN_BUILD/test/shim/failed_check
caller=$MDNN_BUILD/test/libraries/libc10_cuda.so
limit='cudaMallocAsync does not yet support'

# settings, kind, message: the real function got it
passes() {
    said=$(env $1 MICRODNN_LOG_FILE="$TMPDIR/log" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" \
        "$client" "$caller" "$2" "$3")
    [ $? = 3 ] && [ "$said" = "function of file.cpp:7: $3" ] || { echo "'$said'"; return 1; }
}
silent() { : >"$TMPDIR/log" && passes "$@" && [ ! -s "$TMPDIR/log" ] || { cat "$TMPDIR/log"; return 1; }; }
helps() {
    : >"$TMPDIR/log"
    passes "$@" && [ "$(wc -l <"$TMPDIR/log")" = 1 ] &&
        grep -q "has no ${3##*support }: .*--allocator $4\`" "$TMPDIR/log" || { cat "$TMPDIR/log"; return 1; }
}

budget=MICRODNN_MEMORY_BUDGET=1GiB
plan 6
check "a limit of the allocator is explained, in a string" helps "$budget" string "$limit createOrIncrefPool" native
check "and in a text" helps "$budget" text "$limit shareIpcHandle" expandable
check "not without a budget" silent "" string "$limit shareIpcHandle. If you need it"
check "nor where the library is switched off" silent "$budget MICRODNN_DISABLE=1" text "$limit shareIpcHandle. If"
check "other failures are nothing to us" silent "$budget" string "shape '[7]' is invalid for input of size 2"
check "an empty one neither" silent "$budget" text ""
finish
