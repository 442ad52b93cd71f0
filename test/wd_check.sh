#!/bin/sh
# scripts/gpu/wd-check: train_cnn under policy wd on the simulated GPU, computing and in its timing mode, and
# PyTorch's part with a worker of test/fakes, which plays the library's part, and a tool of its own. The page
# that scripts/wd-table makes of rows.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"
export FAKE_LOG="$OUT/log"
make_stand_in
cp test/fakes/microdnn_plan "$BUILD/microdnn"

simulated() { # arguments...
    MICRODNN_SIM=1 scripts/gpu/wd-check --build "$MDNN_BUILD" --turns 2 "$@" >"$OUT/said" 2>&1 && return
    cat "$OUT/said"
    return 1
}

says() { report_says wd.json "$1"; }

small_networks_pass() {
    MICRODNN_SIM_MODE=compute MICRODNN_SIM_PROFILE=toy simulated --small &&
        says 'len(rows) == 2 and all(0 < max(row["loss_difference"].values()) < 1e-5 for row in rows)'
}

alexnet_passes() {
    simulated --only 'cnn alexnet b256 fp32 120MiB' && grep -q '^SIMULATED: ' "$OUT/said" &&
        says '[row["layers"] for row in rows] == [23] and report["simulated"]'
}

# One arena is as good as the total for every convolution, pieces are worse, equal pieces worst.
times_are_apart() {
    says 'all(abs(ms["wr"] - ms["shared"]) < 1e-4 and ms["wr"] < 0.8 * ms["sum"] < 0.8 * 0.8 * ms["equal"]
              for ms in (rows[0]["predicted"],
                         {side: each["ms"] for side, each in rows[0]["measured"].items()}))'
}

only_arena_is_used() {
    says '[(each["counters"]["arena_bytes"], each["workspace_bytes"]) for side, each in
           rows[0]["measured"].items() if side in ("shared", "sum")] == [(120 << 20, 0)] * 2 and
          rows[0]["measured"]["wr"]["counters"]["arena_bytes"] == 0'
}

every_row_once() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
from pages import module_of
rows = module_of("gpu/wd-check").ROWS
assert len({str(row) for row in rows}) == len(rows) == 14
assert {row.net for row in rows} == {"alexnet", "vgg16", "resnet50", "inception-v3"}
assert {row.program for row in rows if row.net == "resnet50"} == {"cnn", "pytorch"}
assert all(row.streams == (row.net == "inception-v3") for row in rows)
assert [str(row) for row in rows[:2]] == [f"cnn alexnet b256 fp32 {total}MiB" for total in (120, 960)]
assert [row.estimate_s for row in rows] == sorted(row.estimate_s for row in rows)
END
}

pytorch() { # FAKE_MS WHAT ARGUMENT...
    ms=$1 what=$2
    shift 2
    FAKE_MS=$ms FAKE_WRONG=$what scripts/gpu/wd-check --build "$BUILD" --worker test/fakes/pytorch_worker.py \
        --only "${ONLY:-pytorch resnet50 b64 tf32 120MiB}" "$@" >"$OUT/said" 2>&1
}
AS_PREDICTED='{"wr": 10, "shared": 10, "sum": 13, "equal": 16}'

pytorch_passes() {
    pytorch "$AS_PREDICTED" '' && says 'rows[0]["predicted"] == dict(wr=10, shared=10, sum=13, equal=16)' &&
        return
    cat "$OUT/said"
    return 1
}

# fails MS WHAT PROBLEM: found, and nothing else.
fails() {
    ! pytorch "$1" "$2" && grep -q "^FAIL .*$3" "$OUT/said" && return
    cat "$OUT/said"
    return 1
}

# The caller may demand what the tool does not know of.
own_division_is_predicted() {
    FAKE_DIVIDED=14 && export FAKE_DIVIDED
    pytorch '{"wr": 10, "shared": 10, "sum": 14, "equal": 16}' ''
    status=$?
    unset FAKE_DIVIDED
    [ "$status" = 0 ] && says 'rows[0]["predicted"]["sum"] == 14 and rows[0]["planned"]["sum"] == 13'
}

vgg_demands_the_same_bits() {
    simulated --only 'cnn vgg16 b64 fp32 120MiB' &&
        says 'rows[0]["predicted"]["sum"] > 1.05 * rows[0]["planned"]["sum"]'
}

noise_is_none() { pytorch '{"wr": 10, "shared": 10.1, "sum": 12.9, "equal": 9}' ''; }

# However many turns: what is killed says why, and nothing goes on running.
a_row_ends_in_its_time() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 MICRODNN_SIM=1 python3 - "$MDNN_BUILD" <<'END'
import sys, tempfile, types
import machine, training
from pages import module_of
wd = module_of("gpu/wd-check")
with tempfile.TemporaryDirectory() as scratch:
    options = types.SimpleNamespace(build=sys.argv[1], database=None, seconds=wd.END_S + 2, turns=10**6)
    bench = wd.Bench(options, machine.find(sys.argv[1]), scratch)
    try:
        wd.measure_cnn(bench, wd.ROWS[0], 23, {config: bench.folder() for config in wd.EVERY})
    except training.RunFailed as failure:
        sys.exit(0 if str(failure).startswith("killed after 2 s") else str(failure))
sys.exit("it went on")
END
}

# What was divided, by which costs, what ran and what the library said of it.
a_division_can_be_read() {
    pytorch "$AS_PREDICTED" '' &&
        says 'rows[0]["division"] == dict(a="2 @ 1, 104857600 bytes, 5 ms", b="2 @ 0, 0 bytes, 8 ms") and
              rows[0]["costs"] == dict(forward=["2 @ 0, 0 bytes, 8 ms", "2 @ 1, 104857600 bytes, 5 ms"]) and
              rows[0]["measured"]["sum"]["ran"] == dict(forward="2 @ 1, 7 bytes, 5 ms") and
              rows[0]["measured"]["stock"]["facts"]["torch"] == "none" and
              rows[0]["said"] == dict(wr=[], shared=[], equal=[], sum=
                  ["wd: 2 layers of 1 streams: 13 ms in 1 of 2 bytes",
                   "wd: 1 layers of 1 streams: 3.000 ms in 1 of 2 bytes"])'
}

# Also of a row that failed, and before anything that comes after it.
a_row_is_printed_when_it_ends() {
    ! pytorch "$AS_PREDICTED" whole --only 'pytorch alexnet b256 tf32 120MiB' &&
        says '[row["said"]["sum"] for row in rows] ==
              [["wd: the workspace is divided equally: not found"]] * 2' &&
        awk '/^FAIL pytorch alexnet/ && !first { first = NR } /^pytorch resnet50/ && !second { second = NR }
             /^row / && !heading { heading = NR }
             END { exit !(heading == 1 && first && second && first < second) }' "$OUT/said" && return
    cat "$OUT/said"
    return 1
}

wd_table() { "$OUT/scripts/wd-table" "$@"; }
page=$OUT/docs/benchmarks/wd.md

page_is_of_the_kept_rows() {
    copy_of_docs && rm "$page" && wd_table && cmp docs/benchmarks/wd.md "$page"
}

# A failed row, one that takes its place, and beside it one of another file.
page_of_these_rows() {
    copy_of_docs && rm "$OUT/docs/benchmarks/data/h200-wd.json" || return 1
    ! pytorch "$AS_PREDICTED" losses && cp "$OUT/wd.json" "$OUT/first.json" &&
        wd_table --keep rows --note 'An old note.' "$OUT/first.json" && wd_table &&
        grep -q '^| pytorch resnet50 b64 tf32 120MiB | FAILED ' "$page" && grep -q 'losses differ by' "$page" &&
        pytorch '{"wr": 10, "shared": 10, "sum": 12.5, "equal": 16}' '' && wd_table --keep rows "$OUT/wd.json" &&
        ONLY='pytorch alexnet b256 tf32 120MiB' && ! pytorch "$AS_PREDICTED" whole &&
        wd_table --keep rows --note 'A note.' "$OUT/wd.json" && wd_table || return 1
    ONLY=
    ! grep -q 'An old note' "$page" || return 1
    for line in '^| pytorch alexnet .*| holds, sum not divided |' '^| pytorch alexnet .*| FAILED ' '^- A note' \
        '^| pytorch resnet50 b64 tf32 120MiB | 2 | 10.00 | 10.00 | 13.00 | 16.00 | 10.00 | 10.00 | 12.50 | 16.00 |'; do
        grep -q "$line" "$page" || { echo "no $line" && cat "$page" && return 1; }
    done
}

simulated_rows_are_no_page() {
    copy_of_docs && simulated --only 'cnn resnet50 b64 fp32 120MiB' &&
        ! wd_table --keep rows "$OUT/wd.json" &&
        cmp docs/benchmarks/data/h200-wd.json "$OUT/docs/benchmarks/data/h200-wd.json"
}

no_time_is_said() {
    ! pytorch "$AS_PREDICTED" '' --seconds 30 && says 'not rows and len(report["left_out"]) == 1' &&
        grep -q '^LEFT OUT, no time: pytorch resnet50 b64 tf32 120MiB' "$OUT/said"
}

plan 22
check 'small networks pass, with and without streams, losses included' small_networks_pass
check 'AlexNet passes' alexnet_passes
check 'what is predicted and measured is far apart where it should be' times_are_apart
check 'the library has the whole workspace, within the total' only_arena_is_used
check 'every network has its rows' every_row_once
check 'PyTorch passes if it is as predicted' pytorch_passes
check 'within two per cent, too' noise_is_none
check 'what the library divided itself is predicted by it' own_division_is_predicted
check 'as where callers demand what the tool does not know of' vgg_demands_the_same_bits
check 'an order that was not predicted is found' fails \
    '{"wr": 10, "shared": 10, "sum": 9.7}' '' 'wr is predicted 10.000 ms, sum 13.000, but measured'
check 'less speed than predicted is found' fails \
    '{"wr": 10, "shared": 10, "sum": 13.4}' '' 'sum at 0.970 of its predicted speed'
check 'an arena above the total is found' fails "$AS_PREDICTED" arena 'shared: 125829121 bytes of the arena'
check 'a division that did not happen is found' fails "$AS_PREDICTED" whole 'sum: the library divided nothing'
check 'other losses are found' fails "$AS_PREDICTED" losses 'sum: losses differ by 0.14'
check 'a crash fails its row' fails "$AS_PREDICTED" crash 'ended during .net'
check 'a row ends in its time' a_row_ends_in_its_time
check 'rows without time are said' no_time_is_said
check 'a row says enough to understand its division' a_division_can_be_read
check 'a row is printed when it ends' a_row_is_printed_when_it_ends
check 'the page in docs is made of the kept rows' page_is_of_the_kept_rows
check 'a page is made of such rows, the last of each name' page_of_these_rows
check 'rows of the simulated GPU are not kept' simulated_rows_are_no_page
finish
