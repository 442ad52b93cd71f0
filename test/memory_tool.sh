#!/bin/sh
# Programs under a memory budget as a user runs them, on the simulated GPU: `microdnn run --memory`,
# its statistics and trace, `microdnn verify`.
. test/tap.sh
build=${MDNN_BUILD:-build}
[ -e "$build/sim/libcuda.so.1" ] || skip_all 'there is no simulated GPU in this build'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tool=$(realpath "$build/microdnn")
program="$(realpath "$build/train_cnn") --net lenet --batch 128 --search heuristic --workspace-limit 64k"
library_comes_first
export MICRODNN_MEMORY_KERNELS= # what the user has learned is no matter of tests
export MICRODNN_CONVOLUTION_POLICY=off # the same algorithms with and without the library

simulated() { LD_LIBRARY_PATH=$build/sim "$@"; }

train() { # name, iterations, options of run...: exit status of the program
    name=$1 iterations=$2 mode=timing
    shift 2
    case $name in stock | small) mode=compute ;; esac # whose losses are compared
    # shellcheck disable=SC2086  # words
    MICRODNN_SIM_MODE=$mode simulated "$tool" run --stats json --stats-file "$work/$name.stats" "$@" -- $program \
        --iterations "$iterations" --json "$work/$name.json" > "$work/out" 2> "$work/err"
}

python() { # a program that finds `base` (the directory), losses(name) and memory(name)
    python3 -I -S - "$work" << P
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
    iterations=$(few 2 3)
    if ! train stock "$iterations" || ! train small "$iterations" --memory 10m --trace "$work/trace.json"; then
        cat "$work/err"
        return 1
    fi
    python '
assert losses("stock") and losses("stock") == losses("small"), (losses("stock"), losses("small"))
assert read("stock.stats")["memory"] == []'
}
a_budget_can_be_a_share_of_the_device() {
    MICRODNN_SIM_MEMORY=40MiB train share 1 --memory 25% && python '
m = memory("share")
assert m["peak_live_bytes"] > m["budget_bytes"] == 10 << 20, m' || { cat "$work/err"; return 1; }
    ! MICRODNN_SIM_MEMORY=80MiB train tiny 1 --memory 1% && grep -q 'is less than a chunk of memory, 2MiB' "$work/err"
}
statistics_tell_what_moved() {
    python '
m = memory("small")
assert m["peak_live_bytes"] > m["budget_bytes"] == 10 << 20, m
assert 0 < m["peak_resident_bytes"] <= m["budget_bytes"], m
assert min(m["out_bytes"], m["in_bytes"], m["operations"], m["host_bytes"]) > 0, m
assert m["refused"] == 0 and m["smallest_budget_bytes"] <= m["budget_bytes"], m'
}
# What a killed program leaves is shown as text at once, or from the JSON that was made of it.
# Until the live file has an iteration's time. A process that is killed while it writes its numbers leaves none.
leave_a_live_file() {
    MICRODNN_SIM_MODE=timing LD_LIBRARY_PATH=$build/sim "$tool" run --memory 10m --stats json --stats-file "$work/killed.stats" \
        -- $program --iterations 1000000 > "$work/out" 2> "$work/err" &
    until "$tool" stats "$work/killed.stats.live" 2> "$work/err" | grep -q '^  it took ' || ! kill -0 $! 2> "$work/err"; do
        sleep 0.1
    done
    { kill -9 $! && wait $!; } 2> "$work/err"
    "$tool" stats "$work/killed.stats.live" > "$work/live.text" && grep -q '^  it took ' "$work/live.text"
}
json_says_what_the_live_file_says() {
    leave_a_live_file || leave_a_live_file || leave_a_live_file || return 1
    "$tool" stats --json "$work/killed.stats.live" > "$work/killed.json" &&
        "$tool" stats "$work/killed.json" > "$work/json.text" && diff "$work/live.text" "$work/json.text"
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
assert resident and set(budget) == {10 << 20} and max(resident) <= 10 << 20, budget
m = memory("small")
assert sum(event["name"] == "out" for event in moves.values()) >= m["demand_leaves"] > 0
marks = [event for event in kinds["i"] if event["s"] == "t"]
assert len(marks) == m["operations"], (len(marks), m["operations"])
assert all(event["args"]["why"] for event in moves.values())
ran = [event for event in kinds["X"] if event["tid"] >= 100]
assert len(ran) > len(marks) / 2 and sum(event["dur"] for event in ran) > 0, (len(ran), len(marks))
assert {"cudnn_sim_conv_forward", "copy or fill"} <= {event["name"] for event in ran}
assert len({event["pid"] for event in events}) == 1
now = __import__("time").time()
assert all(abs(event["ts"] / 1e6 - now) < 86400 for event in marks)'
}
# The command of libmicrodnn(7), with a trace as PyTorch's profiler writes it.
traces_can_be_shown_together() {
    sed -n '/^jq -s/,/all.json$/p' docs/man/libmicrodnn.7 | sed 's/\\e$/\\/' >"$work/merge" && [ -s "$work/merge" ] || return 1
    echo '{"baseTimeNanoseconds": 1700000000000000000, "traceEvents": [{"ph": "X", "name": "aten::add", "ts": 250.5, "dur": 3},
        {"ph": "M", "name": "process_name"}]}' >"$work/profile.json"
    cp "$work/trace.json" "$work/trace.1.json"
    (cd "$work" && sh ./merge) && python '
events, merged = read("trace.json"), read("all.json")
assert len(merged) == len(events) + 2
assert [event["ts"] for event in merged if event["name"] == "aten::add"] == [1700000000000250.5]'
}
the_iteration_is_recorded() {
    train record 8 --memory 10m --record "$work/run.%p.record" || return 1
    head -n 1 "$work"/run.*.record | grep -qx 'microdnn-record 1' && python '
import glob
lines = open(glob.glob(base + "/run.*.record")[0]).read().splitlines()
found = dict(line.split(" ", 1) for line in lines[:9])
m = memory("record")
assert found["program"] == "train_cnn" and found["simulated"] == "yes", found
assert int(found["budget"]) == 10 << 20 >= int(found["ranges"]) > 0, found
assert f"operations {m['"'period_operations'"']}" in lines
times = [float(line.split()[1]) for line in lines if line.startswith("variant ")]
assert abs(sum(times) / 1e3 - m["compute_ms"]) < 1e-3 * m["compute_ms"], (sum(times), m)
assert lines[-1] == "end", lines[-1]'
}
# Where recording an event takes a stream 20 us, as if an H200 were fifteen times slower at it. Marks between the parts of a
# call of cuDNN are left.
events_take_no_time_of_operations() {
    train none 8 --memory 10m && MICRODNN_SIM_EVENT_NS=20000 train events 8 --memory 10m && python '
none, events = memory("none"), memory("events")
more_us = 1e3 * (events["compute_ms"] - none["compute_ms"]) / events["period_operations"]
assert events["period_operations"] == none["period_operations"] > 20, (none, events)
assert none["compute_ms"] > 0 and more_us < 2, more_us'
}
# `run` refuses such a name; the library, which sees it later, goes on.
a_record_that_cannot_be_written_is_no_reason_to_stop() {
    ! train record 8 --memory 10m --record "$work/missing/run.record" &&
        grep -q 'missing/run.record cannot be written: No such file' "$work/err" || { cat "$work/err"; return 1; }
    # shellcheck disable=SC2086  # words
    (
        export MICRODNN_MEMORY_BUDGET=10m MICRODNN_MEMORY_RECORD="$work/missing/run.record" LD_LIBRARY_PATH="$build/sim"
        export MICRODNN_SIM_MODE=timing
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$build/libmicrodnn.so"
        exec $program --iterations 8
    ) >"$work/out" 2>"$work/err" || { cat "$work/err"; return 1; }
    [ "$(grep -c 'cannot write the record .*/missing/run.record: No such file or directory' "$work/err")" = 1 ]
}
# What is written as a whole, or in pieces, says why it could not be.
full_devices_are_named_as_such() {
    # shellcheck disable=SC2086  # words
    (
        export MICRODNN_MEMORY_BUDGET=10m MICRODNN_MEMORY_RECORD=/dev/full MICRODNN_MEMORY_TRACE=/dev/full
        export MICRODNN_STATS=json MICRODNN_STATS_FILE=/dev/full LD_LIBRARY_PATH="$build/sim" MICRODNN_SIM_MODE=timing
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$build/libmicrodnn.so"
        exec $program --iterations 8
    ) >"$work/out" 2>"$work/err" || { cat "$work/err"; return 1; }
    [ "$(grep -c '/dev/full.*: No space left on device' "$work/err")" = 3 ] || { cat "$work/err"; return 1; }
}
a_budget_below_the_floor_is_refused_with_a_better_one() {
    ! MICRODNN_MEMORY_TAIL=no train tiny 2 --memory 8m && grep -q 'refused: nothing more can leave within the budget of' "$work/err" &&
        grep -q 'at least .* are needed' "$work/err" && python '
m = memory("tiny")
assert m["refused"] > 0 and m["refused_budget_bytes"] > m["budget_bytes"], m
assert m["peak_resident_bytes"] <= m["budget_bytes"], m'
}
verify_is_clean() {
    # shellcheck disable=SC2086  # words
    simulated "$tool" verify --memory 10m -- $program --iterations 1 > "$work/out" 2> "$work/err" ||
        { cat "$work/err"; return 1; }
    tail -n 1 "$work/err" | grep -qx 'microdnn verify: clean, [1-9][0-9]* operations'
}

# A kernel reads the address of an 8 MiB buffer out of device memory (test/clients/pointer_table.c).
table=$(realpath "$build/test/clients/pointer_table")
fill=$((26 << 20)) # with that buffer more than 32 MiB
follows() { # status, way, bytes that fill the memory, command...: the program exits so
    wanted=$1 way=$2 bytes=$3 status=0
    shift 3
    MICRODNN_SIM_UNNAMED=1 simulated "$@" "$table" "$way" "$bytes" > "$work/out" 2> "$work/err" || status=$?
    [ "$status" = "$wanted" ] || { echo "$way $*: $status"; cat "$work/out" "$work/err"; return 1; }
}
in_budget() { # status, way, budget
    follows "$1" "$2" "$fill" "$tool" run --memory "$3" --stats json --stats-file "$work/table.stats" --
}
said_error() { grep -qx 'error: an illegal memory access was encountered' "$work/out"; }
first_is() { # name
    tail -n 1 "$work/err" | grep -q "^microdnn verify: 1 unnamed accesses, the first: $1 (key " ||
        { cat "$work/err"; return 1; }
}

a_followed_pointer_is_right_without_the_library() {
    ! thorough || for way in read write graph pinned back late untracked; do
        follows 0 "$way" 0 env && follows 0 "$way" "$fill" env || return 1
    done
}
verify_finds_a_followed_pointer() {
    for way in $(few 'write late' 'read write late'); do
        follows 3 "$way" 0 "$tool" verify -- && said_error && first_is follow_table || return 1
    done
    follows 1 untracked 0 "$tool" verify -- && first_is follow_table && # the program exits with 0
        follows 3 graph 0 "$tool" verify -- && said_error && first_is "a graph (cuGraphLaunch)" &&
        follows 3 read "$fill" "$tool" verify --memory 64m -- && said_error && first_is follow_table
}
a_followed_pointer_is_right_where_all_can_stay() {
    for way in $(few 'read graph late' 'read write graph pinned back late'); do
        in_budget 0 "$way" 64m && python '
m = memory("table")
assert m["out_bytes"] == m["demand_leaves"] + m["planned_leaves"] == 0 < m["operations"], m' || return 1
    done
}
left='
m = memory("table")
assert m["out_bytes"] > 0 and m["peak_live_bytes"] > m["budget_bytes"] == 32 << 20, m
assert m["refused"] == 0 and m["peak_resident_bytes"] <= m["budget_bytes"], m'
a_followed_pointer_faults_where_its_buffer_has_deferred() {
    for way in $(few 'write graph' 'read write graph'); do
        in_budget 3 "$way" 32m && said_error && python "$left" || return 1
    done
    in_budget 0 back 32m && python "$left" && # so it is the mapping alone
        in_budget 0 pinned 32m && python "$left"  # and this is followed
}
# The kernel may run before the buffer leaves or when it is back, too.
a_buffer_that_leaves_later_is_never_wrong() {
    for seed in $(few 1 '1 2 3 4 5 6 7 8'); do
        export MICRODNN_SIM_SEED="$seed"
        in_budget 0 late 32m > "$work/why" || { in_budget 3 late 32m && said_error; } ||
            { cat "$work/why"; return 1; }
        python "$left" || return 1
    done
    unset MICRODNN_SIM_SEED
}

host() { # as in_budget
    MICRODNN_MEMORY_SAFETY=host in_budget "$@"
}
with_host_it_is_right_wherever_its_buffer_is() {
    for seed in $(few 1 '1 2 3 4'); do
        export MICRODNN_SIM_SEED="$seed"
        for way in read write graph pinned back late; do
            host 0 "$way" 32m && python "$left" && [ ! -s "$work/err" ] || { cat "$work/err"; return 1; }
        done
    done
    unset MICRODNN_SIM_SEED
}
without_host_handles_it_is_as_fast_and_says_so() {
    export MICRODNN_SIM_HOST_HANDLES=0
    host 3 read 32m && said_error && host 0 read 64m
    result=$?
    unset MICRODNN_SIM_HOST_HANDLES
    [ $result = 0 ] && [ "$(wc -l < "$work/err")" = 1 ] &&
        grep -q 'device 0: host memory cannot be mapped .* and safety = host works like fast$' "$work/err" &&
        python 'assert memory("table")["safety"] == "fast"'
}

# Another process's statistics that say nothing are no reason to call it clean.
verify_reads_all_statistics() {
    # shellcheck disable=SC2016 # the program's shell expands it
    simulated "$tool" verify --memory 10m -- sh -c "$program"' --batch 16 --iterations 1 &&
        echo rubbish >"${MICRODNN_GENERAL_STATS_FILE%/*}/1"' > "$work/out" 2> "$work/err"
    [ $? = 1 ] && tail -n 1 "$work/err" | grep -q '^microdnn verify: the statistics of 1 processes cannot be read'
}

plan 20
check 'a budget changes no loss' a_budget_changes_no_loss
check 'a budget can be a share of the memory of the device' a_budget_can_be_a_share_of_the_device
check 'statistics tell what was held and moved' statistics_tell_what_moved
check 'statistics as JSON are shown as those of a live file' json_says_what_the_live_file_says
check 'the trace tells it too' the_trace_tells_it_too
if command -v jq >/dev/null; then
    check 'traces of several ranks and tools can be shown together' traces_can_be_shown_together
else
    skip 'traces of several ranks and tools can be shown together' 'there is no jq'
fi
check 'the iteration that repeats is recorded' the_iteration_is_recorded
check 'the events that time an operation are not counted' events_take_no_time_of_operations
check 'a record that cannot be written is no reason to stop' a_record_that_cannot_be_written_is_no_reason_to_stop
check 'what cannot be written to says why' full_devices_are_named_as_such
check 'a budget below the floor is refused and a better one named' a_budget_below_the_floor_is_refused_with_a_better_one
check 'verify finds a training program clean' verify_is_clean
check 'verify says whose statistics it cannot read' verify_reads_all_statistics
check 'a pointer followed on the device: right without the library' a_followed_pointer_is_right_without_the_library
check 'verify finds it and names the kernel' verify_finds_a_followed_pointer
check 'it is right where all can stay' a_followed_pointer_is_right_where_all_can_stay
check 'it faults where its buffer has left, and is right where it is back' a_followed_pointer_faults_where_its_buffer_has_deferred
check 'with safety = host it is right wherever its buffer is' with_host_it_is_right_wherever_its_buffer_is
check 'where the driver has no host handles it is as fast, and says so' without_host_handles_it_is_as_fast_and_says_so
check 'while its buffer leaves it is right or faults' a_buffer_that_leaves_later_is_never_wrong
finish
