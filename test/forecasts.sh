#!/bin/sh
# The page about forecasts says what the present formula makes of the runs that are kept.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
root=$(dirname "$0")/..

is_what_the_formula_says() {
    "$root/scripts/forecast-table" --bench "$MDNN_BUILD/test/bench/bench_verdict" --page "$TMPDIR/forecasts.md" &&
        diff "$root/docs/benchmarks/forecasts.md" "$TMPDIR/forecasts.md"
}

plan 1
check "docs/benchmarks/forecasts.md is what scripts/forecast-table writes" is_what_the_formula_says
finish
