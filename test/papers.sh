#!/bin/sh
# The shape of the micro-batching paper's figure 10 on the simulated P100: dividing AlexNet's batch
# gains nothing where workspace is far too small or ample, and much in between.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

rows=$TMPDIR/rows.json

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"
[ -z "${MDNN_PRELOAD_FIRST:-}" ] || skip_all "the sanitizer's run time must be loaded first"

rows_are_made() { "$(dirname "$0")/../scripts/bench-papers" --build "$MDNN_BUILD" --rows "$rows"; }

# holds EXPRESSION of ms(limit in MiB, policy) and workspaces(limit, policy)
holds() {
    python3 - "$rows" "$1" <<'PYTHON'
import json, sys
rows = {(row["limit_mib"], row["policy"]): row for row in json.load(open(sys.argv[1]))}
ms = lambda limit, policy: rows[limit, policy]["convolution_ms"]
workspaces = lambda limit, policy: sum(rows[limit, policy]["workspace_bytes"].values())
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}: " + str({key: row["convolution_ms"] for key, row in rows.items()}))
PYTHON
}

plan 6
check "AlexNet runs under three limits and three policies" rows_are_made
check "8 MiB: dividing gains nothing" holds "0.97 < ms(8, 'undivided') / ms(8, 'all') < 1.05"
check "64 MiB: dividing gains much" holds \
    "ms(64, 'undivided') / ms(64, 'powerOfTwo') > 1.3 and ms(64, 'undivided') / ms(64, 'all') > 1.3"
check "512 MiB: dividing gains nothing" holds "0.97 < ms(512, 'undivided') / ms(512, 'all') < 1.05"
check "every size is no worse than powers of two" holds \
    "all(ms(limit, 'all') <= 1.001 * ms(limit, 'powerOfTwo') for limit in (8, 64, 512))"
check "64 MiB divided takes less than half of the workspace of 512 MiB undivided" holds \
    "workspaces(64, 'all') < 0.5 * workspaces(512, 'undivided')"
finish
