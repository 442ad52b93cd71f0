#!/bin/sh
# Kim 2018 on two and four simulated GPUs, as scripts/bench-ranks has it: staggered swaps are faster than vDNN by as much as
# in the paper or more, and ours are faster than these.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

rows=$TMPDIR/rows.json

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"
[ -z "${MDNN_PRELOAD_FIRST:-}" ] || skip_all "the sanitizer's run time must be loaded first"

rows_are_made() { "$(dirname "$0")/../scripts/bench-ranks" --build "$MDNN_BUILD" --quick >"$rows"; }

# holds EXPRESSION of two and four, which have images/s by way: without, naive, staggered, ours
holds() {
    python3 - "$rows" "$1" <<'PYTHON'
import json, sys
rows = json.load(open(sys.argv[1]))
if not eval(sys.argv[2], rows):
    sys.exit(f"not so: {sys.argv[2]}: {rows}")
PYTHON
}

plan 4
check 'VGG-16 is planned for two and for four GPUs' rows_are_made
check 'these batches do not fit without swapping' holds 'two["without"] is None and four["without"] is None'
check 'staggered beats vDNN, by 46.6 % on two GPUs and by 30 % on four' holds \
    'two["staggered"] > 1.466 * two["naive"] and four["staggered"] > 1.3 * four["naive"]'
check 'ours beats staggered' holds 'two["ours"] > two["staggered"] and four["ours"] > four["staggered"]'
finish
