#!/bin/sh
# "WD on paper": the script runs, and its figures are in the order that the formulas demand.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

[ -z "${MDNN_PRELOAD_FIRST:-}" ] ||
    skip_all "the sanitizer's run time must be loaded first, also into Python"
[ -x "$MDNN_BUILD/microdnn-ilp" ] || skip_all 'microdnn-ilp is not built: there is no GLPK (libglpk-dev)'

figures_are_in_order() {
    scripts/wd-paper --build "$MDNN_BUILD" --problems "$TMPDIR" \
        --cases h200:alexnet:64:powerOfTwo:2,16 p100:resnet18:32:powerOfTwo:1,8 >"$TMPDIR/page" || return 1
    python3 -I -S - "$TMPDIR/page" <<'PYTHON'
import sys
rows = [line.strip("| \n").split(" | ") for line in open(sys.argv[1]) if line[2:3].isdigit()]
rows = [row for row in rows if len(row) == 12]
assert len(rows) == 4, rows
for row in rows:
    undivided, wr, wd_undivided, wd, shared = (float(cell) for cell in row[2:7])
    assert shared <= wd <= wr <= undivided and wd <= wd_undivided <= undivided, row
assert any(float(row[5]) < 0.95 * float(row[3]) for row in rows), "WD gains nowhere"
PYTHON
}

# The script has a dynamic program of its own; what the library chooses must cost what that one says.
library_agrees() {
    LD_LIBRARY_PATH=$MDNN_BUILD/sim MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing \
        "$MDNN_BUILD/microdnn" run --workspace-limit 16m --set convolution.adoption_margin=0 -- \
        "$MDNN_BUILD/train_cnn" --net alexnet --batch 64 --workspace-limit 16MiB --iterations 18 --warmup 15 \
        --find-repeats 1 --quiet --json "$TMPDIR/report" || return 1
    python3 -I -S - "$TMPDIR/page" "$TMPDIR/report" <<'PYTHON'
import json, sys
row = next(line.split(" | ") for line in open(sys.argv[1]) if line.startswith("| 16 | "))
paper, ran = float(row[3]), sum(layer[direction]["ms"] for layer in json.load(open(sys.argv[2]))["layers"]
    if layer["kind"] == "convolution" for direction in ("forward", "backward_data", "backward_filter")
    if direction in layer)
assert abs(paper / ran - 1) < 0.02, (paper, ran)
PYTHON
}

plan 2
check 'the figures are in the order that the formulas demand' figures_are_in_order
check 'the library takes as long as the page says' library_agrees
finish
