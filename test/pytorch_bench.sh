#!/bin/sh
# scripts/gpu/bench-pytorch and scripts/pytorch-table without a GPU: what the sets that compare the library
# with itself or look for a limit measure, and what is judged how. A worker of test/fakes answers instead of
# PyTorch, and plays the library's part.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
export FAKE_LOG="$OUT/log"
make_stand_in

bench() { # arguments...
    rm -f "$FAKE_LOG"
    scripts/gpu/bench-pytorch --build "$BUILD" --worker test/fakes/pytorch_worker.py --pairs 3 "$@" \
        >"$OUT/said" 2>&1
}

passes() {
    bench "$@" && return
    tail -40 "$OUT/said"
    return 1
}

says() { report_says pytorch-graph.json "$1"; }

# finds_least MIB LIMIT...: with that need the least is the first limit, by way of the others.
finds_least() {
    least=$2
    FAKE_NEEDS=$1 passes --set least --only 'vgg16 b64 tf32' &&
        says "rows[0]['least'] == '$least' and rows[0]['iteration'] >= 0.95 and
              [each['limit'] for each in rows[0]['probes'] if each['iteration'] >= 0.95][0] == '$least'"
}

every_least_is_found() {
    for pair in 0:0 1:1MiB 2:2MiB 48:64MiB 65:128MiB 3000:4096MiB 5000:none; do
        finds_least "${pair%:*}" "${pair#*:}" || return 1
    done
}

# Stock once, and few processes with the library.
few_tries() {
    finds_least 65 128MiB && says 'len(rows[0]["probes"]) <= 4' &&
        [ "$(grep -c stock "$FAKE_LOG")" = 1 ] && [ "$(grep -vc stock "$FAKE_LOG")" -le 4 ]
}

# 0.962 is near enough to 0.95 to be looked at longer, and enough.
unclear_takes_longer() {
    FAKE_SLOW=10.4 finds_least nan 0 &&
        says '{each["pairs"] for each in rows[0]["probes"]} == {6} and rows[0]["iteration"] > 0.95' ||
        return 1
    finds_least 1 1MiB && says '{each["pairs"] for each in rows[0]["probes"]} == {3}'
}

no_limit_is_enough() {
    ! FAKE_NEEDS=nan bench --set least --only 'vgg16 b64 tf32' &&
        says 'rows[0]["least"] is None and len(rows[0]["probes"]) == 4' &&
        grep -q '^FAIL least vgg16 b64 tf32: iteration unknown, at least 0.950' "$OUT/said"
}

least_has_each_row() {
    passes --set least && says '{(row["row"]["net"], row["row"]["mode"]) for row in rows} ==
        {(net, mode) for net in ("alexnet", "vgg16", "resnet50") for mode in ("fp32", "tf32", "bf16")}'
}

page_has_least() {
    scripts/pytorch-table --print "$OUT/pytorch-graph.json" >"$OUT/page" &&
        grep -q '^| vgg16 b64 tf32 | 0 | 1.000 | 0: 1.000, 0; ' "$OUT/page"
}

both_sides_have_the_library() {
    FAKE_UNDIVIDED=6 passes --set undivided64 && says 'len(rows) == 9 and rows[0]["conv"] == 6 / 5' &&
        ! grep stock "$FAKE_LOG" && grep -q '^64MiB undivided resnet50 bf16' "$FAKE_LOG" &&
        grep -q '^64MiB resnet50 bf16' "$FAKE_LOG"
}

neither_side_has_the_library() {
    passes --set control && says 'len(rows) == 4 and rows[0]["iteration"] == 1 and not rows[0]["gates"]' &&
        [ "$(grep -c '^stock mobilenet_v3_large bf16' "$FAKE_LOG")" = 4 ] && ! grep -v '^stock' "$FAKE_LOG" &&
        scripts/pytorch-table --print "$OUT/pytorch-graph.json" | grep '^| control densenet121 b64 tf32 |'
}

slower_than_undivided() {
    ! FAKE_UNDIVIDED=4.9 bench --set undivided64 --only 'alexnet b256 fp32' &&
        grep -q '^FAIL undivided64 alexnet b256 fp32: conv 0.980, at least 0.990' "$OUT/said"
}

# wrong WHAT PROBLEM ARGUMENT...: something goes wrong in that way, which is found.
wrong() {
    what=$1 problem=$2
    shift 2
    ! FAKE_WRONG=$what bench "$@" && grep -q "^FAIL .*$problem" "$OUT/said" && return
    tail -40 "$OUT/said"
    return 1
}

no_time_is_said() {
    ! bench --set least --only alexnet --seconds 30 &&
        grep -q '^LEFT OUT least alexnet b256 bf16: no time' "$OUT/said" && ! grep -q '^FAIL' "$OUT/said"
}

# Children of rows that were left out, or of limits that no row came to, have seen no graph.
unused_processes_are_no_failure() {
    passes --set least --set undivided64 --only 'alexnet b256 fp32' && says 'not report["problems"]'
}

stock_as_before() {
    passes --set limit64 --only 'alexnet b256' &&
        says '[row["row"]["against"] for row in rows] == [None] * 3' &&
        [ "$(grep -c stock "$FAKE_LOG")" = 3 ]
}

# The profiler's events: operators, a call of the run time, and what CUPTI says of its own overhead, which
# bears the number of the operator around it and so has its kernels too.
only_kernels_of_operators_count() {
    PYTHONPATH=scripts/gpu:test/fakes/torch PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
from types import SimpleNamespace
import pytorch_worker as worker

def event(name, *durations, children=()):
    made = SimpleNamespace(name=name, cpu_parent=None, cpu_children=list(children),
                           kernels=[SimpleNamespace(duration=each) for each in durations])
    for child in children:
        child.cpu_parent = made
    return made

def flat(made):
    return [made] + [each for child in made.cpu_children for each in flat(child)]

def overheads(*durations):
    full = event("Command Buffer Full", *durations)
    return [event("cudaLaunchKernel", 9e5, children=[full]), event("Lazy Function Loading", *durations),
            event("Activity Buffer Request", 443e3)]

alone = event("aten::cudnn_convolution", 30, 20, children=overheads(30, 20))
forward = event("aten::conv2d", children=[event("aten::convolution", children=[
    event("aten::_convolution", children=[alone, event("aten::add_", 7)])])])
nested = event("aten::convolution", children=[event("aten::cudnn_convolution", 3)])
backward = event("ConvolutionBackward0", children=[event(
    "aten::convolution_backward", 100, children=[event("aten::sum", 11, children=overheads(100)), nested,
                                                 *overheads(100)])])
other = event("aten::relu", 1000, children=overheads(1000))
kernel = event("some kernel")
events = [each for top in (forward, backward, other, kernel) for each in flat(top)]
assert worker.sum_us(events, worker.WHOLE) == 30 + 20 + 7 + 100 + 11 + 3
assert worker.sum_us(events, worker.KERNELS) == 30 + 20 + 100 + 3
END
}

every_profile_is_kept() {
    FAKE_MS='{"stock": 8}' passes --set unlimited --only 'alexnet b256 fp32' --profiles 2 &&
        says '[rows[0][side][name] for side in ("stock", "library")
               for name in ("conv_ms_each", "kernels_ms_each")] == [[8, 8], [8, 8], [5, 5], [5, 5]]'
}

# The bound was made of these layers alone.
bound_is_for_the_layers() {
    ! FAKE_MS='{"equal": 56}' bench --set limit64 --only resnet50 &&
        says '[(row["row"]["net"], row["row"]["batch"]) for row in rows].count(("resnet50_layers", 128)) == 2' &&
        grep -q '^FAIL limit64 resnet50_layers b128 fp32: kernels_ms 56.000, at most 55.990' "$OUT/said" &&
        grep -q '^FAIL limit64 resnet50_layers b128 tf32: kernels_ms 56.000' "$OUT/said" &&
        ! grep -q '^FAIL limit64 resnet50 ' "$OUT/said"
}

rows_in_the_order_asked_for() {
    FAKE_MS='{"stock": 8}' passes --set undivided64 --set heuristic \
        --only '(vgg16|alexnet) .* (tf32|bf16)$' --only 'heuristic resnet50 b128 tf32' &&
        says '[row["name"] for row in rows] == [
              *(f"undivided64 {net} {mode}" for net in ("alexnet b256", "vgg16 b64") for mode in ("tf32", "bf16")),
              *(f"heuristic {net} {mode}" for net in ("alexnet b256", "vgg16 b64") for mode in ("tf32", "bf16")),
              "heuristic resnet50 b128 tf32"]' || return 1
    bench --set heuristic --only '(' && return 1
    grep -q 'no regular expression' "$OUT/said"
}

# A process that hangs costs the row's limit, below that of any command, and no other row its time.
hanging_row_has_a_limit() {
    python3 - "$OUT/limited" <<'END'
import sys
source = open("scripts/gpu/bench-pytorch").read()
short = source.replace("LIMIT_FACTOR, LEAST_LIMIT_S = 3, 150", "LIMIT_FACTOR, LEAST_LIMIT_S = 0, 18")
assert short != source
open(sys.argv[1], "w").write(short.replace("os.path.abspath(__file__)", "'scripts/gpu/x'"))
END
    FAKE_WRONG=hang python3 "$OUT/limited" --build "$BUILD" --worker test/fakes/pytorch_worker.py \
        --set limit64 --only 'alexnet b256 fp32' >"$OUT/said" 2>&1
    [ $? = 1 ] && says 'rows[0]["failed"] and 2 < rows[0]["seconds"] < 18' &&
        grep -q 'no answer to .net. in 3 s' "$OUT/said"
}

# Two equal processes differ for as long as they live.
host_bound_rows_have_two_generations() {
    ! FAKE_LUCK='[10, 12.5]' bench --set unlimited --only 'densenet121 b64 tf32' &&
        says 'rows[0]["generations"] == [{"pairs": 12, "iteration": 1.0}, {"pairs": 12, "iteration": 0.8}] and
              rows[0]["pairs"] == len(rows[0]["library"]["ms"]) == 24 and rows[0]["iteration"] == 0.9 and
              rows[0]["iteration_lower_quartile"] == 0.8 and rows[0]["library"]["iteration_ms"] == 11.25 and
              rows[0]["row"]["estimate_s"] == 50' &&
        [ "$(grep -c '^none densenet121' "$FAKE_LOG")" = 2 ] &&
        [ "$(grep -c '^stock densenet121' "$FAKE_LOG")" = 2 ]
}

# The second process of the library would find a database.
first_costs_are_the_first_ones() {
    FAKE_LUCK='[10, 10]' passes --set unlimited --only 'densenet121 b64 tf32' &&
        says 'rows[0]["library"]["first_s"] == 1.0 and rows[0]["library"]["first_cost_s"] == 0.9 and
              len(rows[0]["library"]["conv_ms_each"]) == 3'
}

# turns_of LISTS ARGUMENT...: of each row the pairs of turns of each pair of processes
turns_of() {
    expected=$1
    shift
    passes "$@" && says "[[each['pairs'] for each in row['generations']] for row in rows] == $expected"
}

turns_are_divided() {
    turns_of '[[3]]' --set heuristic --only 'resnet50 b128 tf32' &&
        turns_of '[[1, 1, 2]]' --set heuristic --only 'resnet50 b128 tf32' --processes 3 --pairs 4 &&
        turns_of '[[1, 1, 1, 1]]' --set heuristic --only 'resnet50 b128 tf32' --processes 4 &&
        turns_of '[[24], [24]]' --set limit64 --only 'densenet|mobilenet' --processes 1 &&
        turns_of '[[15, 16]]' --set heuristic --only 'mobilenet_v3_large b128 bf16' --pairs 31 &&
        passes --set least --only 'vgg16 b64 tf32' --processes 3 &&
        says '(rows[0]["row"]["processes"], rows[0]["row"]["estimate_s"]) == (1, 40)'
}

every_set_has_host_bound_rows() {
    turns_of '[[12, 12]] * 14' --set unlimited --set heuristic --set limit64 --set control --only 'densenet|mobilenet' &&
        says '{row["row"]["mode"] for row in rows if row["row"]["set"] == "limit64"} == {"bf16"}'
}

no_process_number() {
    bench --set control --processes 0 && return 1
    grep -q 'a number, 1 at least' "$OUT/said"
}

# The counters of each process are looked at, also of those that ended before the row did.
each_generation_is_checked() {
    ! FAKE_WRONG='split' bench --set undivided64 --only 'alexnet b256 fp32' --processes 3 &&
        [ "$(grep -c '^FAIL .*executions were split' "$OUT/said")" = 3 ] &&
        says 'len(report["counters"]) == 6'
}

page_has_each_generation() {
    FAKE_LUCK='[10, 12.5]' bench --set heuristic --only 'densenet121 b64 (tf32|bf16)$' && return 1
    grep -q '^heuristic densenet121 b64 tf32 .* 0.900 (1.000, 0.800) ' "$OUT/said" &&
        scripts/pytorch-table --print "$OUT/pytorch-graph.json" >"$OUT/page" &&
        grep -q '^| heuristic densenet121 b64 tf32 | .* | 0.900 (1.000, 0.800) | 0.800 |' "$OUT/page"
}

# As they were kept before there were such fields.
page_has_old_rows() {
    bench --set heuristic --only 'densenet121 b64 tf32'
    python3 - "$OUT/pytorch-graph.json" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
row = report["rows"][0]
del row["generations"], row["row"]["processes"], row["row"]["pairs"]
json.dump(report, open(sys.argv[1], "w"))
END
    scripts/pytorch-table --print "$OUT/pytorch-graph.json" |
        grep -q '^| heuristic densenet121 b64 tf32 | 10.00 / 10.00 | 1.000 | 1.000 |'
}

# in_order NAME: a row of two pairs of processes, of which a recorder tells in what order what happened
in_order() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - "$OUT" "$1" <<'END'
import sys, types
import pages
bench = pages.module_of("gpu/bench-pytorch")
events, late = [], sys.argv[2] == "late"

class Child:
    def __init__(self, name, *_):
        self.name, self.number, self.alive, self.statistics_file = name, int(name.split()[-1]), True, None
        self.process = types.SimpleNamespace(stdin=types.SimpleNamespace(close=lambda: None))
        events.append(("start", self.number))

    def ready(self, timeout):
        events.append(("ready", self.number))

    def ask(self, command, timeout, **arguments):
        events.append((command, self.number))
        return {"ms": 10.0, "kernels_ms": 5.0, "seconds": 1.0, "losses": [7.0] * 10, "workspace": 0, "peak": 0}

    def finish(self, timeout):
        self.alive = False
        events.append(("finish", self.number))

class Clock(bench.Clock):
    def begin_row(self, row):
        events.append(("limit", row.limit_s()))

    def left(self):
        # What a pair of processes took lies between.
        return (0 if late and ("memory", 2) in events else 500)

bench.Child = Child
sys.argv[1:] = ["--set", "heuristic", "--only", "densenet121 b64 tf32", "--build", sys.argv[1] + "/build"]
options = bench.parse()
row, = bench.chosen(options)
pool = bench.Pool(options, Clock(500), sys.argv[2])
entry = bench.measure(row, pool, options)
assert not entry["problems"], entry
place = {event: events.index(event) for event in reversed(events)}
if late:
    assert [each["pairs"] for each in entry["generations"]] == [12], entry
    assert pages.iteration_text(entry) == "1.000 (1.000, -)"
    assert ("finish", 1) not in place and ("net", 3) not in place
    pool.close()
    assert {number for kind, number in events if kind == "finish"} == {1, 2, 3, 4}
else:
    assert {number for kind, number in events if kind == "start"} == {1, 2, 3, 4}
    assert place["start", 3] < place["step", 1] and place["start", 4] < place["step", 1]
    assert place["finish", 1] < place["ready", 3] and place["finish", 2] < place["ready", 3], events
    assert place["finish", 2] < place["limit", 150] < place["net", 3]
    assert ("conv", 3) not in place and ("memory", 3) not in place
END
}

starved_row_has_one_generation() { in_order late; }
next_generation_begins_early() { in_order early; }

limit64_bf16() { bench --set limit64 --only '(densenet121 b64|mobilenet_v3_large b128) bf16'; }

host_bound_limit_has_gates() {
    ! FAKE_NEEDS=65 FAKE_SLOW=10.6 limit64_bf16 &&
        [ "$(grep -c '^FAIL limit64 .*: iteration 0.943, at least 0.950' "$OUT/said")" = 2 ] || return 1
    FAKE_NEEDS=65 FAKE_SLOW=10.4 limit64_bf16 || return 1
    ! FAKE_WRONG=workspace limit64_bf16 &&
        [ "$(grep -c '^FAIL limit64 .*: workspace_mib 65.000, at most 64.000' "$OUT/said")" = 2 ]
}

plan 32
check 'the least limit is found, from nothing to everything' every_least_is_found
check 'with four tries at most, and stock begun once' few_tries
check 'what is near the gate is looked at longer' unclear_takes_longer
check 'that no limit keeps the speed is a failure' no_limit_is_enough
check 'every large network in every arithmetic has a row' least_has_each_row
check 'the page has the least limits' page_has_least
check 'undivided64 has the library on both sides' both_sides_have_the_library
check 'control has it on neither' neither_side_has_the_library
check 'slower than undivided is found' slower_than_undivided
check 'a side that must not split and does is found' wrong split 'executions were split' \
    --set undivided64 --only 'alexnet b256 fp32'
check 'other losses are found' wrong losses 'losses differ by 0.14' --set least --only 'alexnet b256 fp32'
check 'a workspace above the limit that is tried is found' wrong workspace \
    'workspace_mib 65.000, at most 64.000' --set least --only 'alexnet b256 fp32'
check 'a crash fails its row' wrong crash 'ended during .net' --set least --only 'alexnet b256 fp32'
check 'rows without time are said' no_time_is_said
check 'processes without work are no failure' unused_processes_are_no_failure
check 'other sets compare with stock' stock_as_before
check 'kernels below convolutions count once, overheads not at all' only_kernels_of_operators_count
check 'the time of every profile is kept' every_profile_is_kept
check 'rows are chosen by expressions, in the order of the sets' rows_in_the_order_asked_for
check 'a row that hangs costs its limit' hanging_row_has_a_limit
check 'the bound of single layers is not put on a whole network' bound_is_for_the_layers
check 'rows that the host bounds are measured with two pairs of processes' host_bound_rows_have_two_generations
check 'first costs and profiles are of the first pair' first_costs_are_the_first_ones
check 'the turns are divided among the pairs of processes' turns_are_divided
check 'in each set that has such rows' every_set_has_host_bound_rows
check 'no number of processes below one' no_process_number
check 'the counters of each process are looked at' each_generation_is_checked
check 'the page has the ratio of each pair of processes' page_has_each_generation
check 'the page has rows that were kept before' page_has_old_rows
check 'a row without time for a second pair keeps the first' starved_row_has_one_generation
check 'the second pair starts while the first takes its turns' next_generation_begins_early
check 'bf16 under 64 MiB keeps stock'\''s speed where the host bounds it' host_bound_limit_has_gates
finish
