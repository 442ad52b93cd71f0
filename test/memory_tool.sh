#!/bin/sh
# Programs under a memory budget as a user runs them, on the simulated GPU: `microdnn run --memory`,
# its statistics and trace, `microdnn verify`.
. test/tap.sh
build=${MDNN_BUILD:-build}
[ -e "$build/sim/libcuda.so.1" ] || skip_all 'there is no simulated GPU in this build'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tool=$(realpath "$build/microdnn")
program="$(realpath "$build/train_cnn") --net lenet --batch 512 --search heuristic --workspace-limit 64k"
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"
export MICRODNN_CONVOLUTION_POLICY=off # the same algorithms with and without the library

simulated() { LD_LIBRARY_PATH=$build/sim "$@"; }

train() { # name, iterations, options of run...: exit status of the program
    name=$1 iterations=$2
    shift 2
    # shellcheck disable=SC2086  # words
    simulated "$tool" run --stats json --stats-file "$work/$name.stats" "$@" -- $program \
        --iterations "$iterations" --json "$work/$name.json" > "$work/out" 2> "$work/err"
}

python() { # a program that finds `base` (the directory), losses(name) and memory(name)
    python3 - "$work" << P
import json, sys
base = sys.argv[1]
def read(name):
    return json.load(open(f"{base}/{name}"))
def losses(name):
    return read(name + ".json")["losses"]
def memory(name):
    return read(name + ".stats")["memory"][0]
$1
P
}

a_budget_changes_no_loss() {
    if ! train stock 4 || ! train small 4 --memory 40m --trace "$work/trace.json"; then
        cat "$work/err"
        return 1
    fi
    python '
assert losses("stock") and losses("stock") == losses("small"), (losses("stock"), losses("small"))
assert read("stock.stats")["memory"] == []'
}
statistics_tell_what_moved() {
    python '
m = memory("small")
assert m["peak_live_bytes"] > m["budget_bytes"] == 40 << 20, m
assert 0 < m["peak_resident_bytes"] <= m["budget_bytes"], m
assert min(m["out_bytes"], m["in_bytes"], m["operations"], m["host_bytes"]) > 0, m
assert m["refused"] == 0 and m["smallest_budget_bytes"] <= m["budget_bytes"], m'
}
the_trace_tells_it_too() {
    python '
events = read("trace.json")
kinds = {}
for event in events:
    kinds.setdefault(event["ph"], []).append(event)
moves = {event["id"]: event for event in kinds["b"]}
ends = [event["id"] for event in kinds["e"]]
assert sorted(moves) == sorted(ends), (len(moves), len(ends))
resident = [e["args"]["bytes"] for e in kinds["C"] if e["name"] == "resident"]
budget = [e["args"]["bytes"] for e in kinds["C"] if e["name"] == "budget"]
assert resident and set(budget) == {40 << 20} and max(resident) <= 40 << 20, budget
m = memory("small")
assert sum(event["name"] == "out" for event in moves.values()) >= m["demand_leaves"] > 0
marks = [event for event in kinds["i"] if event["s"] == "t"]
assert len(marks) == m["operations"], (len(marks), m["operations"])'
}
a_budget_below_the_floor_is_refused_with_a_better_one() {
    ! train tiny 4 --memory 16m && grep -q 'refused: nothing more can leave within the budget of' "$work/err" &&
        grep -q 'at least .* are needed' "$work/err" && python '
m = memory("tiny")
assert m["refused"] > 0 and m["smallest_budget_bytes"] > m["budget_bytes"], m
assert m["peak_resident_bytes"] <= m["budget_bytes"], m'
}
verify_is_clean() {
    # shellcheck disable=SC2086  # words
    simulated "$tool" verify --memory 32m -- $program --iterations 1 > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; return 1; }
    tail -n 1 "$work/err" | grep -qx 'microdnn verify: clean, [1-9][0-9]* operations'
}

plan 5
check 'a budget changes no loss' a_budget_changes_no_loss
check 'statistics tell what was held and moved' statistics_tell_what_moved
check 'the trace tells it too' the_trace_tells_it_too
check 'a budget below the floor is refused and a better one named' a_budget_below_the_floor_is_refused_with_a_better_one
check 'verify finds a training program clean' verify_is_clean
finish
