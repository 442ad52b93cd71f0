#!/bin/sh
# Recorded allocations and operations of a training (scripts/record-sequence) run again under a budget, on a clock.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

# Three iterations of eight layers, of which each keeps 64 MiB for the way back and needs as much for a moment.
sequence() {
    awk 'BEGIN {
        layers = 8; id = layers
        for (i = 1; i <= layers; i++) print "A", i, 1048576
        for (iteration = 0; iteration < 3; iteration++) {
            for (i = 1; i <= layers; i++) {
                kept[i] = ++id; print "A", id, 67108864
                print "A", ++id, 67108864
                print "O before_mm", i
                print "O mm", i, id, kept[i]
                print "F", id
            }
            for (i = layers; i >= 1; i--) { print "O mm_backward", i, kept[i]; print "F", kept[i] }
            print "I"
        }
    }'
}

replays() {
    sequence >"$TMPDIR/sequence" &&
        "$MDNN_BUILD/test/bench/bench_sequence" "$TMPDIR/sequence" 0.5 12 >"$TMPDIR/said" || return 1
    cat "$TMPDIR/said"
    [ "$(grep -c ' ms (plan ' "$TMPDIR/said")" = 12 ] &&
        tail -n 1 "$TMPDIR/said" | grep -q '[1-9][0-9]* in the background (.*); demands 0 + 0; 0.[1-9]' # by plan
}

# A sequence that ends before it repeats is refused.
short_is_refused() {
    sequence | sed '/^I/q' >"$TMPDIR/short"
    ! "$MDNN_BUILD/test/bench/bench_sequence" "$TMPDIR/short" 2>"$TMPDIR/why" &&
        grep -q "short: fewer than three iterations" "$TMPDIR/why"
}

# A page with a row for each budget and a column for each size, and which size is chosen.
sizes_are_compared() {
    sequence >"$TMPDIR/sequence" &&
        scripts/chunk-sizes --bench "$MDNN_BUILD/test/bench/bench_sequence" --page "$TMPDIR/page" "layers=$TMPDIR/sequence" ||
        return 1
    cat "$TMPDIR/page"
    [ "$(grep -c '^| layers | 0' "$TMPDIR/page")" = 3 ] && grep -q '^Simulated' "$TMPDIR/page" &&
        grep -q '^| layers | 0.[0-9]* | 2 MiB | [1-9][0-9]* ([1-9][0-9]*), [1-9]' "$TMPDIR/page"
}

plan 3
check "a recorded training is planned for, and runs as planned" replays
check "a sequence without iterations is refused" short_is_refused
check "sizes of chunks are compared" sizes_are_compared
