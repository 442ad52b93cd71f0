#!/bin/sh
# `microdnn advise`: what a recorded iteration would cost with other budgets and on other GPUs.
. test/tap.sh
export MICRODNN_SIM_MODE=timing # what is computed does not matter here
build=${MDNN_BUILD:-build}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tool=$(realpath "$build/microdnn")
library_comes_first

"$build/test/tools/sample_record" vgg16 256 12 > "$work/vgg16" || exit 1
"$build/test/tools/sample_record" resnet50 64 3 > "$work/resnet50" || exit 1

advise() { # options...; JSON in $work/json
    "$tool" advise --json "$@" > "$work/json" 2> "$work/err" || { cat "$work/err"; return 1; }
}
python() { # a program that finds advice, `own` (rows of this GPU) and `others`
    python3 -I -S - "$work/json" << P
import json, sys
advice = json.load(open(sys.argv[1]))
own = [row for row in advice["rows"] if row["gpu"] is None]
others = [row for row in advice["rows"] if row["gpu"]]
$1
P
}

more_memory_never_costs_time() {
    for net in $(few vgg16 'vgg16 resnet50'); do
        advise "$work/$net" --gpu none && python '
mib = 1 << 20
assert 5 < len(own) < 15 and not others, len(own)
assert 0 <= own[0]["budget_bytes"] - advice["peak_bytes"] < mib and own[0]["ms"] == advice["compute_ms"], own[0]
assert 0 <= own[-1]["budget_bytes"] - advice["floor_bytes"] < mib, own[-1]
for more, less in zip(own, own[1:]):
    assert more["budget_bytes"] > less["budget_bytes"] and more["ms"] <= 1.001 * less["ms"], (more, less)
for row in own:
    assert row["verdict"] == "fits" and row["ms"] >= row["bound_ms"] - 1e-6 >= row["compute_ms"] - 2e-6, row
    assert abs(row["ms"] - row["wait_ms"] - row["compute_ms"]) < 1e-5, row
assert own[-1]["ms"] > 1.2 * own[0]["ms"] and own[-1]["out_bytes"] > own[0]["out_bytes"] == 0' || return 1
    done
}
a_budget_below_the_least_is_named_so() {
    advise "$work/vgg16" --budget 4GiB --budget 12g --gpu none && python '
below, fits = own
assert below["verdict"] == "below the floor" and "ms" not in below, below
assert below["needed_bytes"] == advice["floor_bytes"], below
assert fits["verdict"] == "fits" and fits["budget_bytes"] == 12 << 30'
}
the_table_has_the_same_numbers() {
    advise "$work/vgg16" --batch 256 && "$tool" advise "$work/vgg16" --batch 256 > "$work/table" &&
        python '
lines = open("'"$work"'/table").read().splitlines()
def size(text, unit):
    return float(text) * {"MiB": 1 << 20, "GiB": 1 << 30, "bytes": 1}[unit]
shown = [line.split() for line in lines if "%" in line or line.split()[2:3] == ["-"]]
for row in own:
    words = next(w for w in shown if abs(size(*w[:2]) / row["budget_bytes"] - 1) < 5e-3)
    assert words[2] == "%.1f" % row["ms"] and words[-2:] == [str(row["images"]), str(row["smooth_images"])], (words, row)
for row in others:
    line = next(line for line in lines if line.startswith(row["gpu"] + "  "))
    assert "PCIe %d x%d" % (row["pcie"], row["lanes"]) in line and " %.1f " % row["compute_ms"] in line, line
    assert ("ms" in row and " %.1f " % row["ms"] in line) or " - " in line, line'
}
# Where all moves are hidden, the sum of the times may be less than that of the operations, by rounding.
nothing_is_called_less_than_nothing() {
    advise "$work/resnet50" --gpu none && python 'assert any(row["out_bytes"] and row["ms"] == row["compute_ms"] for row in own), own' &&
        "$tool" advise "$work/resnet50" --gpu none > "$work/table" && ! grep -e '-0 %' "$work/table"
}
cards_of_all_sizes_and_links_are_compared() {
    advise "$work/vgg16" && python '
cells = {(round(row["budget_bytes"] / 2**30 + 0.75), row["pcie"]) for row in others}
assert cells == {(size, pcie) for size in (8, 12, 16, 24) for pcie in (3, 4, 5)}, cells
for row in others:
    assert row["compute_ms"] > advice["compute_ms"], row'
}
the_own_gpu_is_as_fast_as_itself() {
    for kind in $(few tf32 'fp32 tf32 fp16'); do
        advise "$work/vgg16" --gpu H200 --arithmetic $kind && python '
assert others[0]["compute_ms"] == advice["compute_ms"], others' || return 1
    done
    advise "$work/vgg16" --gpu 4090 --arithmetic fp16 && cp "$work/json" "$work/fp16" &&
        advise "$work/vgg16" --gpu "rtx 4090" && python '
half = json.load(open("'"$work"'/fp16"))["rows"][-1]
assert others[0]["gpu"] == half["gpu"] == "GeForce RTX 4090"
assert half["compute_ms"] > others[0]["compute_ms"] # the tensor cores of the H200 are ahead by more'
}
an_iteration_adds_up() {
    advise "$work/vgg16" --iteration --budget 12GiB --gpu none && python '
it, row = advice["iteration"], own[0]
assert it["budget_bytes"] == 12 << 30 and it["own_bytes"] == advice["own_bytes"] == 200 << 20
assert it["ms"] == row["ms"], (it["ms"], row)
assert it["kinds"] == ["weights", "kept", "temporary", "workspace"]
times = [sample[0] for sample in it["samples"]]
assert times == sorted(times) and times[0] == 0 and abs(times[-1] - it["ms"]) < 1e-3, (times[0], times[-1], it["ms"])
sums = [sum(sample[1:]) for sample in it["samples"]]
assert max(sums) <= it["budget_bytes"] - it["own_bytes"], max(sums)
assert max(sums) > 0.9 * it["budget_bytes"] and all(min(s[1:]) >= 0 for s in it["samples"])
assert max(s[2] for s in it["samples"]) > 6 << 30 # feature maps
assert it["samples"][0][1] == it["samples"][-1][1] > 0 # weights
assert len(it["operations"]) == advice["operations"]
busy = sum(end - begin for begin, end, _ in it["operations"])
assert abs(busy - row["compute_ms"]) < 1e-2, (busy, row)
for way in "out", "in":
    moved = sum(move[3] for move in it["moves"] if move[0] == way)
    assert moved == row[way + "_bytes"], (way, moved, row)'
}
the_plan_of_the_run_is_found_again() {
    [ -e "$build/sim/libcuda.so.1" ] || { skip_reason='no simulated GPU'; return 0; }
    LD_LIBRARY_PATH=$build/sim MICRODNN_CONVOLUTION_POLICY=off "$tool" run --memory 20m --record "$work/run" --stats json \
        --stats-file "$work/stats" -- "$build/train_cnn" --net lenet --batch 256 --search heuristic \
        --workspace-limit 64k --iterations 8 > "$work/out" 2> "$work/err" || { cat "$work/err"; return 1; }
    advise "$work/run" --budget 20m --batch 256 && python '
m = json.load(open("'"$work"'/stats"))["memory"][0]
assert advice["program"] == "train_cnn" and advice["simulated"] and advice["budget_bytes"] == m["budget_bytes"]
assert abs(own[0]["ms"] - m["predicted_ms"]) < 1e-3 * m["predicted_ms"], (own, m["predicted_ms"])
assert own[0]["out_bytes"] == m["period_out_bytes"]
assert abs(advice["compute_ms"] - m["compute_ms"]) < 1e-3 * m["compute_ms"]'
}

# Where convolutions take other micro-batches in the first minutes, what repeats then may be longer than an iteration. The
# statistics and the record are of what repeats after that, and so is the time.
the_iteration_is_the_one_that_ran_most() {
    [ -e "$build/sim/libcuda.so.1" ] || { skip_reason='no simulated GPU'; return 0; }
    LD_LIBRARY_PATH=$build/sim MICRODNN_SIM_PROFILE=h200 MICRODNN_CACHE_FILE=none "$tool" run --memory 5GiB \
        --record "$work/run" --stats json --stats-file "$work/stats" -- "$build/train_cnn" --net vgg16 --batch 64 \
        --workspace-limit 256MiB --iterations 30 --warmup 20 > "$work/out" 2> "$work/err" || { cat "$work/err"; return 1; }
    ms=$(sed -n 's/.* of \([0-9.]*\) ms an iteration.*/\1/p' "$work/out")
    advise "$work/run" --budget 5GiB --gpu none && python '
m = json.load(open("'"$work"'/stats"))["memory"][0]
print("%s ms; of %d operations %s ms, the record has %d" % ('"$ms"', m["period_operations"], m["round_ms"], advice["operations"]))
assert advice["operations"] == m["period_operations"]
assert 0.8 * '"$ms"' < m["round_ms"] < 1.25 * '"$ms"' and m["compute_ms"] < m["round_ms"]'
}

# Weights of 8 bytes live always, and so does the first input. Each of ten operations reads the output of the one before
# it, 2 bytes, and writes its own; the fourth has a workspace of 5 bytes. All for a batch of 2.
chain() {
    printf 'microdnn-record 1\nprogram chain\ndevice 0 NVIDIA H200\nsimulated no\ntotal 1000\nbudget 100\nranges 100\n'
    printf 'chunk 2097152\nlink 1 1 1 1 0\nmicrodnn-period 1\nranges 12\nrange 8 always\nrange 4 always\n'
    for i in 0 1 2 3 4 5 6 7 8; do echo "range 2 $i $((i + 1))"; done
    printf 'range 2 9 9\noperations 10\n'
    for i in 0 1 2 3 4 5 6 7 8 9; do
        printf 'operation other 0 1 3 1\nuse 0 read\nuse %s read\nuse %s write\nvariant 10 %s\n' \
            $((i + 1)) $((i + 2)) $((i == 3 ? 5 : 0))
    done
    echo end
}
batches_are_those_of_the_equations() {
    chain > "$work/chain"
    # Largest (equation 6 of the fourth operation): 8 + b/2 * (2 + 2 + 5) <= budget. Of 15 % of ten operations one
    # remains, so smooth (equation 8) is: 8 + 4 of weights + b/2 * (2 + 2) + b/2 * 5 <= budget.
    for expected in '21 2 2' '30 4 4' '47 8 7' '48 8 8' '11 0 0'; do
        # shellcheck disable=SC2086 # words
        set -- $expected
        advise "$work/chain" --budget "$1" --batch 2 --gpu none && python "
assert (own[0]['images'], own[0]['smooth_images']) == ($2, $3), own" || return 1
    done
}
a_program_that_shows_no_batch_gets_no_number() {
    chain | sed 's/^range 2 .*/range 2 always/' > "$work/static"
    "$tool" advise "$work/static" --budget 100 --batch 2 --gpu none > "$work/table" &&
        grep -q '^ *100 bytes .* -  *-$' "$work/table" || { cat "$work/table"; return 1; }
}

times_are_fitted_to_what_was_measured() {
    advise "$work/vgg16" --budget 12g --budget 15g --gpu none && cp "$work/json" "$work/before" &&
        advise "$work/vgg16" --budget 12g --budget 15g --gpu none --measured 230 && python '
before = json.load(open("'"$work"'/before"))
scale = (230 - before["rows"][0]["wait_ms"]) / before["compute_ms"]
assert before["scale"] == 1 < advice["scale"] and abs(advice["scale"] - scale) < 1e-5, (scale, advice["scale"])
assert abs(advice["compute_ms"] - scale * before["compute_ms"]) < 1e-3 and own[1]["ms"] == advice["compute_ms"]
assert 215 < own[0]["ms"] <= 231 # longer operations hide more of the moves' && advise "$work/vgg16" --gpu none \
        --measured 1 && python 'assert advice["scale"] == 1' && grep -q 'cannot have taken that long' "$work/err"
}

refuses() { # status, pattern, arguments...
    wanted=$1 pattern=$2 status=0
    shift 2
    "$tool" advise "$@" > "$work/out" 2> "$work/err" || status=$?
    [ "$status" = "$wanted" ] && [ ! -s "$work/out" ] && grep -q "$pattern" "$work/err" ||
        { echo "$*: $status"; cat "$work/out" "$work/err"; return 1; }
}
mistakes_are_named() {
    head -n 40 "$work/vgg16" > "$work/cut"
    echo '{"microdnn_statistics": 2}' > "$work/other"
    refuses 2 'advise: which record?' && refuses 2 "'y' is one argument too many" x y &&
        refuses 1 'missing: No such file or directory' "$work/missing" &&
        refuses 1 'other: this is not a record; `microdnn run --memory' "$work/other" &&
        refuses 1 'cut:12: the record is damaged' "$work/cut" &&
        refuses 1 'it is a directory' "$work" &&
        refuses 2 "budget: 'much' is not a size" "$work/vgg16" --budget much &&
        refuses 2 "gpu: 'GTX 480' is not known; known are:" "$work/vgg16" --gpu 'GTX 480' &&
        refuses 2 "gpu: 'RTX' is not one of them only" "$work/vgg16" --gpu RTX &&
        refuses 2 "batch: '0' is not" "$work/vgg16" --batch 0 &&
        refuses 2 "measured: 'long' is not" "$work/vgg16" --measured long &&
        refuses 2 "arithmetic: there is no 'fp8'" "$work/vgg16" --arithmetic fp8 &&
        refuses 2 'iteration goes with --json' "$work/vgg16" --iteration
}
an_unknown_gpu_is_no_ground_for_comparing() {
    sed 's/^device 0 .*/device 0 Some other GPU/' "$work/vgg16" > "$work/unknown"
    advise "$work/unknown" && python 'assert own and not others' && [ ! -s "$work/err" ] &&
        advise "$work/unknown" --gpu all && python 'assert own and not others' &&
        grep -q "nothing is known of 'Some other GPU'" "$work/err"
}

plan 15
check 'more memory never costs time' more_memory_never_costs_time
check 'a budget below the least is named so' a_budget_below_the_least_is_named_so
check 'the table has the same numbers as the JSON' the_table_has_the_same_numbers
check 'moves that cost nothing add +0 %' nothing_is_called_less_than_nothing
check 'cards of 8, 12, 16 and 24 GiB over PCIe 3, 4 and 5 are compared' cards_of_all_sizes_and_links_are_compared
check 'the own GPU is as fast as itself' the_own_gpu_is_as_fast_as_itself
check 'memory and moves of an iteration add up' an_iteration_adds_up
check 'the plan of the run is found again' the_plan_of_the_run_is_found_again
check 'the iteration is the one that ran most' the_iteration_is_the_one_that_ran_most
check 'batches are those of equations 6 and 8' batches_are_those_of_the_equations
check 'a program that shows no batch gets no number' a_program_that_shows_no_batch_gets_no_number
check 'times are fitted to what was measured' times_are_fitted_to_what_was_measured
check 'mistakes are named' mistakes_are_named
check 'an unknown GPU is no ground for comparing' an_unknown_gpu_is_no_ground_for_comparing
check 'the help names every option' sh -c "'$tool' advise --help | grep -q -- --arithmetic"
finish
