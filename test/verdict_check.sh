#!/bin/sh
# scripts/gpu/check-verdict, with a program and statistics that are made up: what is near is counted, what is far or not
# said is named.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
check_verdict=$(dirname "$0")/../scripts/gpu/check-verdict
mkdir -p "$TMPDIR/build"
unset OUT

# An iteration takes 100 ms and 10 more for each GiB that is missing of the 10 that the program had.
cat >"$TMPDIR/train.py" <<'P'
import json, os
missing = 10 - int(os.environ.get("BUDGET", 10 << 30)) / 2**30
print(json.dumps({"ms": [100 + 10 * missing] * 20, "peak": 10 << 30}))
P
# The statistics are right, but for what costs $ERROR milliseconds too much.
cat >"$TMPDIR/build/microdnn" <<'P'
#!/usr/bin/env python3
import json, os, subprocess, sys
budget, path = int(sys.argv[3]), sys.argv[sys.argv.index("--stats-file") + 1]
cost = lambda gib: 100 + 10 * (10 - gib)
memory = {"budget_bytes": budget, "need_bytes": 10 << 30, "without_moves_ms": 100, "round_ms": cost(budget / 2**30),
          "predicted_ms": 1, "forecast": [{"budget_bytes": gib << 30, "ms": cost(gib) + float(os.environ["ERROR"])}
                                          for gib in ((9, 7, 4) if "SAID" in os.environ else ())]}
json.dump({"memory": [memory] if "SAID" in os.environ else [{**memory, "need_bytes": 0}]}, open(path, "w"))
sys.exit(subprocess.run(sys.argv[sys.argv.index("--") + 1:], env={**os.environ, "BUDGET": str(budget)}).returncode)
P
chmod +x "$TMPDIR/build/microdnn"

judged() { # STATUS LINE VARIABLE=VALUE...
    status=$1 line=$2
    shift 2
    env "$@" "$check_verdict" --build "$TMPDIR/build" --train "$TMPDIR/train.py" --net a:1 >"$TMPDIR/out" 2>&1
    [ $? = "$status" ] && [ "$(tail -1 "$TMPDIR/out")" = "$line" ] || { cat "$TMPDIR/out"; return 1; }
}

plan 3
check 'right predictions are good' judged 0 '9 of 9 predictions are within 15 %' SAID=1 ERROR=0
check 'one that is too far off is not' judged 1 '3 of 9 predictions are within 15 %' SAID=1 ERROR=60
check 'nor is one that is missing' judged 1 '3 of 9 predictions are within 15 %' ERROR=0
finish
