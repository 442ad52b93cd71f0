#!/bin/sh
# The page about plans, and the search that its data come from, on the shortest of the recorded runs.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
root=$(dirname "$0")/..

is_what_the_data_say() {
    "$root/scripts/plans-table" --page "$TMPDIR/plans.md" && diff "$root/docs/benchmarks/plans.md" "$TMPDIR/plans.md"
}

searches_a_record() {
    "$root/scripts/plans-table" --run --bench "$MDNN_BUILD/test/bench/bench_records" --replays 20 --only vgg16-64-80 \
        --data "$TMPDIR/plans.json" --page "$TMPDIR/plans.md" &&
        grep -Eq '^1 of 1 plans take at most 1.1 times the best .* and 1 of 1 at most 1.25' "$TMPDIR/plans.md"
}

costs_are_told() {
    "$root/scripts/plans-table" --cost --cost-bench "$MDNN_BUILD/test/bench/bench_plans" --operations 200,400 \
        --data "$TMPDIR/plans.json" --page "$TMPDIR/plans.md" || return 1
    [ "$(grep -Ec '^\| [0-9]+ \| [0-9]+ \| (yes|no) ' "$TMPDIR/plans.md")" = 4 ]
}

wants_records() {
    ! "$MDNN_BUILD/test/bench/bench_records" 10 2>"$TMPDIR/said" && grep -q '^usage:' "$TMPDIR/said"
}

plan 4
check "docs/benchmarks/plans.md is what scripts/plans-table writes" is_what_the_data_say
check "a recorded run is planned and searched again" searches_a_record
check "what plans cost is asked and shown" costs_are_told
check "without a record the search says how it is called" wants_records
finish
