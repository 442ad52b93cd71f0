#!/bin/sh
# Programs whose GPUs share a link, on the simulated GPU: whom plans take account of, and that each one computes the right
# thing whichever way plans are made.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_MEMORY_REGISTRY=$TMPDIR/registry
MICRODNN_LOG=info
export MICRODNN_MEMORY_REGISTRY MICRODNN_LOG MDNN_ROUNDS_UNTIL="$TMPDIR/enough"
mkdir "$MICRODNN_MEMORY_REGISTRY"

# rank NUMBER LINK SEED MEBIBYTES: works until the file is there; the library's lines go to log.NUMBER
rank() {
    (
        log=$TMPDIR/log.$1 stats=$TMPDIR/stats.$1
        export MICRODNN_LOG_FILE="$log" MICRODNN_STATS_FILE="$stats" MICRODNN_MEMORY_LINK="$2"
        under $((24 * mebibyte)) "$client" rounds_until "$3" $(($4 * mebibyte))
    )
}

says_line() { grep -q "$1" "$TMPDIR/log.$2" 2>/dev/null; } # TEXT NUMBER
has_a_plan() { # NUMBER
    "$MDNN_BUILD/microdnn" stats --json "$TMPDIR/stats.$1.live" 2>/dev/null | grep -q '"planned_returns": *[1-9]'
}

# await PROCESS COMMAND...: until COMMAND succeeds. While the rank works that may still come, on however busy a machine;
# test/run ends what takes too much CPU time.
await() {
    process=$1
    shift
    while kill -0 "$process" 2>/dev/null; do
        ! "$@" || return 0
        sleep 0.1
    done
    tail -n 5 "$TMPDIR"/log.*
    return 1
}

# two LINK LINK MEBIBYTES LINE: one rank works, and another one comes, whose log must have the line if there is one
two() {
    rm -f "$MDNN_ROUNDS_UNTIL" "$TMPDIR"/log.*
    rank 1 "$1" 1 45 &
    first=$!
    await "$first" has_a_plan 1
    rank 2 "$2" 1 "$3" &
    second=$!
    await "$second" has_a_plan 2 && { [ -z "$4" ] || await "$second" says_line "$4" 2; }
    found=$?
    : >"$MDNN_ROUNDS_UNTIL"
    wait "$first" || found=$?
    wait "$second" || found=$?
    [ "$found" = 0 ] || return 1
    [ -n "$4" ] || ! grep -h 'share' "$TMPDIR/log.1" "$TMPDIR/log.2"
}

all_policies_are_right() {
    for sharing in $(few auto "none staggered auto"); do
        export MICRODNN_MEMORY_SHARING="$sharing"
        line='plans are made together for 2 processes that share a link; this is number 1'
        [ "$sharing" != none ] || line=
        two a a 45 "$line" || { echo "sharing = $sharing"; return 1; }
    done
}

plan "$(few 1 3)"
check 'ranks that do the same and share a link are planned together' all_policies_are_right
if thorough; then
    check 'a rank that does other work gets its part of the link' two a a 40 'share the link and do other work; plans use 1/2 of it'
    check 'ranks with links of their own know nothing of each other' two a b 45 ''
fi
finish
