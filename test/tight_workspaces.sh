#!/bin/sh
# Workspaces that memory could hold, but not beside what their convolutions work on: programs that can take a
# smaller plan are refused such a one, others run without, and all compute what they compute alone. On the
# simulated GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/tight_workspaces
MICRODNN_CONVOLUTION_MEASURE_REPEATS=1
export MICRODNN_CONVOLUTION_MEASURE_REPEATS

# alone WHAT: what it computes
alone() { [ -s "$TMPDIR/alone.$1" ] || "$client" "$1" 2>/dev/null | sort -u >"$TMPDIR/alone.$1"; }

# same WHAT BUDGET POLICY: runs, in the budget, and each direction has the results of the program alone
same() {
    (
        export MICRODNN_CONVOLUTION_POLICY="$3"
        under "$2" "$client" "$1" >"$TMPDIR/all" 2>"$TMPDIR/taken"
    ) || { cat "$TMPDIR/all" "$TMPDIR/taken" "$log"; return 1; }
    sort -u "$TMPDIR/all" | diff "$TMPDIR/alone.$1" - && holds "$in_budget"
}

each_way() { alone "$1" && same "$1" 30MiB wr && { ! thorough || same "$1" 28MiB off; } && same "$1" 26MiB off; }

# The plans that are left are tried, and those with workspace among them.
halved() {
    each_way halves && grep -q 'direction 2 takes 94[0-9]* bytes' "$TMPDIR/taken" && same halves 22MiB off
}

served() {
    each_way tensors && [ ! -s "$log" ]
}

# The program's own plan runs where memory is too short to time it, with measurements of an earlier run, too, and though
# others could be timed.
own_plans_run() { # candidates
    (
        export MICRODNN_SIM_PROFILE=h200 MICRODNN_CACHE_FILE="$TMPDIR/costs.db" MICRODNN_CONVOLUTION_CANDIDATES="$1"
        rm -f "$MICRODNN_CACHE_FILE"
        alone first
        for budget in 84MiB 90MiB 84MiB; do
            same first "$budget" wr || return 1
            cat "$TMPDIR/taken"
            holds "counters['executions_undivided'] == 0 and counters['executions_split'] == 0" || return 1
        done
    )
}

# Where the program's own plan will run, nothing else is tried: a plan is made for each of three directions.
tries_own_only() {
    (
        export MICRODNN_SIM_PROFILE=h200 MICRODNN_CACHE_FILE=none MICRODNN_CONVOLUTION_POLICY=wr MICRODNN_LOG=debug
        under 84MiB "$client" first >/dev/null 2>&1 || return 1
        grep -c 'engines: planned' "$log" | grep -qx 3 || { grep 'engines: planned' "$log"; return 1; }
    )
}

# What measuring takes goes back, though its stream may still work when nothing could be timed. The client keeps its
# tensors, and a chunk for its small filter.
gives_back() {
    (
        export MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing MICRODNN_CACHE_FILE=none
        export MICRODNN_CONVOLUTION_POLICY=wr
        for budget in 96MiB 104MiB; do
            under "$budget" "$client" first >/dev/null 2>&1 && holds "memory['pinned_live_bytes'] == 2 * $mebibyte" || return 1
        done
    )
}

on_host() {
    for what in legacy kept graph; do
        alone "$what" && MICRODNN_MEMORY_SAFETY=host same "$what" 26MiB off || return 1
    done
}

plan 12
check "an algorithm whose workspace fits runs" each_way legacy
check "algorithms whose workspace was there before run without it" each_way kept
check "a search in memory that has no room beside finds what needs none" each_way find
check "a plan whose workspace fits runs" each_way graph
check "a search that halves what is refused ends with what fits" halved
check "a plan for which there is no room any more is refused, and another runs" each_way late
check "a plan that memory is too short to time runs, since nothing is known to be faster" own_plans_run few
check "it runs though others, which could be timed, are known" own_plans_run all
check "nothing is tried beside a plan that memory is too short to time" tries_own_only
check "nothing is held of what measuring took" gives_back
check "tensors of the same sizes are served" served
check "the same where memory that is away is mapped" on_host
finish
