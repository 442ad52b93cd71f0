#!/bin/sh
# scripts/gpu/check-matrix: the client graph_matrix on the simulated GPU, with the library and with one that
# computes wrong results; and with a client of test/fakes, what it says of graphs that fail, of processes that
# do not finish and of a library that does nothing. The section that scripts/graph-table makes of it.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"
export MICRODNN_SIM=1 MICRODNN_SIM_PROFILE=toy
make_stand_in
ln -s "$MDNN_BUILD/sim" "$BUILD/sim"
mkdir -p "$BUILD/test/clients"
cp test/fakes/graph_matrix "$BUILD/test/clients/graph_matrix"

# A build whose library can compute wrong results (config/fault.def), which the client should find.
BROKEN=$OUT/broken
mkdir -p "$BROKEN/test"
ln -s "$MDNN_BUILD/sim" "$BROKEN/sim"
ln -s "$MDNN_BUILD/test/clients" "$BROKEN/test/clients"
ln -s "$PWD/build/faults/libmicrodnn.so" "$BROKEN/libmicrodnn.so"

matrix() { # BUILD ARGUMENT...
    build=$1
    shift
    scripts/gpu/check-matrix --build "$build" --seconds 120 --shares 2 "$@" >"$OUT/said" 2>&1
}

passes() {
    matrix "$@" && return
    tail -40 "$OUT/said"
    return 1
}

# fails TEXT BUILD ARGUMENT...: exit status 1, for this and nothing else
fails() {
    expected=$1
    shift
    matrix "$@"
    [ $? = 1 ] && grep -q "^FAILED: $expected" "$OUT/said" && ! grep '^FAILED: ' "$OUT/said" | grep -v "$expected" &&
        return
    tail -40 "$OUT/said"
    return 1
}

# says EXPRESSION: of `runs`, by what they are called, and `report`
says() {
    python3 - "$OUT/matrix.json" "$1" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
runs = {run["name"].removeprefix("library, "): run for run in report["runs"]}
sys.exit(0 if eval(f"({sys.argv[2]})") else repr(report)[:4000])
END
}

library_holds() {
    GRAPH_MATRIX_PLANS=3 passes "$MDNN_BUILD" --most-images 33 &&
        grep -q '^SIMULATED: ' "$OUT/said" && says 'report["simulated"] and report["graphs"] == 351 and
        all(run["ran"] > 240 and not run["failed"] and run["executions"] > 1000 for run in runs.values()) and
        runs["64 KiB"]["counters"]["executions_split"] > 5 and not report["unrepeatable"] and
        all(row["why"] == "CUDNN_STATUS_NOT_SUPPORTED" for row in runs["stock"]["refused"]) and
        runs["64 KiB"]["counters"]["calls_graph_execute"] == runs["64 KiB"]["executions"]'
}

wrong_results_fail() {
    (
        export MDNN_FAULT=BETA_NOT_ONE GRAPH_MATRIX_PLANS=3
        fails 'library, 64 KiB: graph 112, backward_filter .*: error above the gate: ' \
            "$BROKEN" --most-images 127 && says 'not runs["stock"]["failed"]'
    )
}

failures_of_stock_are_allowed() {
    FAKE_FAILS='stock:308:other bits;wide:308:other bits;tight:308:other bits' passes "$BUILD" &&
        grep -q '^stock: graph 308, .*: other bits: error 0.1' "$OUT/said" &&
        grep -q '^stock: graph 1 - forward+sum tf32: 14 of 14 plans do not repeat their bits' "$OUT/said" &&
        says '[[row["number"] for row in run["failed"]] for run in runs.values()] == [[308]] * 3 and
              all(run["ran"] == 340 and len(run["refused"]) == 11 for run in runs.values())'
}

failures_of_the_library_are_not() {
    FAKE_FAILS='stock:308:other bits;tight:17:other bits' \
        fails 'library, 64 KiB: graph 17, forward graph 17: ' "$BUILD" || return 1
    FAKE_FAILS='stock:308:other bits;wide:308:wrote outside' \
        fails 'library, 256 MiB: graph 308, forward graph 308: .*: wrote outside' "$BUILD"
}

# hangs_alone RUN: what the other processes did, of which the last begins after the one that hung.
hangs_alone() {
    FAKE_ENDS=$1:1:hang fails "share 1, $2: ran out of time" "$BUILD" --seconds 6 --shares 3 && says "$3"
}
hanging_process_is_ended() {
    hangs_alone wide 'library, 256 MiB' 'runs["64 KiB"]["ran"] == 340 > runs["256 MiB"]["ran"] > 200' &&
        hangs_alone record record 'all(run["ran"] == 227 for run in runs.values())'
}

dead_process_is_told() {
    FAKE_ENDS=tight:2:die fails 'share 2, library, 64 KiB: ended with status 1 after graph 171: Bail out! ' \
        "$BUILD" --shares 4 && FAKE_ENDS=again:0:die fails 'share 0, record again: ended with status 1: Bail' \
        "$BUILD" --shares 4
}

too_few_graphs_fail() {
    FAKE_RUNS=199 fails '.*: 199 graphs ran, fewer than 200' "$BUILD" && FAKE_RUNS=200 passes "$BUILD"
}

lost_graphs_fail() {
    FAKE_REFUSES='wide:17:no plan within 268435456 bytes' \
        fails 'library, 256 MiB: graph 17, forward graph 17: stock ran it: no plan within' "$BUILD" &&
        FAKE_COUNTS=wide:1:999 fails 'library, 256 MiB: 1999 executions, but 2000 with stock' "$BUILD" &&
        FAKE_FAILS='stock:308:other bits;wide:308:other bits' FAKE_COUNTS=wide:1:950 passes "$BUILD" &&
        FAKE_REFUSES='tight:17:no plan within 65536 bytes' FAKE_COUNTS=tight:1:999 passes "$BUILD"
}

idle_library_fails() {
    FAKE_SPLIT=0 fails 'library, 64 KiB: nothing was split' "$BUILD" &&
        FAKE_SEES=0 fails 'library, .*: the library saw no graph' "$BUILD"
}

needs_a_build() {
    matrix "$OUT/nowhere"
    [ $? = 2 ] && grep -q 'no libmicrodnn.so' "$OUT/said"
}

# Beside the files of the page it would be made of what is kept.
page_says() { # TEXT...
    for text in "$@"; do
        grep -qF -- "$text" "$OUT/page" || { echo "no $text"; cat "$OUT/page"; return 1; }
    done
}
page_has_each_run() {
    FAKE_FAILS='stock:308:other bits;tight:308:other bits' passes "$BUILD" || return 1
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - "$OUT/matrix.json" >"$OUT/page" <<'END' || return 1
import sys
from pages import module_of
page = module_of("graph-table")
print("\n".join(page.matrix_section({"reports": [page.keep_matrix(sys.argv[1])], "notes": ["kept by a test"]})))
END
    page_says '| stock | 340 | 11 | 1 | 2000 | - | - | - | - |' \
        '| library, 64 KiB | 340 | 11 | 1 | 2000 | 10 | 190 | 0 | 0 |' '- forward graph 308: ' \
        '- forward+sum tf32: 14 of 14 plans do not repeat' '- kept by a test' 'simulated'
}

plan 11
check 'stock and the library hold on the simulated GPU' library_holds
check 'a library with wrong results fails' wrong_results_fail
check 'what fails with stock may fail with the library' failures_of_stock_are_allowed
check 'what fails otherwise may not' failures_of_the_library_are_not
check 'a process that hangs leaves the others their time' hanging_process_is_ended
check 'a process that dies is told' dead_process_is_told
check 'too few graphs fail' too_few_graphs_fail
check 'a library that loses graphs or plans fails' lost_graphs_fail
check 'a library that does nothing fails' idle_library_fails
check 'the page has each run and what failed' page_has_each_run
check 'without a build there is nothing to check' needs_a_build
finish
