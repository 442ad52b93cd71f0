#!/bin/sh
# scripts/gpu/vm-experiments: its steps on the simulated GPU, and that no part can hang.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
command -v gcc >/dev/null || skip_all "no gcc, which the script needs"

experiments() { scripts/gpu/vm-experiments --simulated "$MDNN_BUILD" "$@" >"$OUT/said" 2>&1; }

quick_parts() {
    experiments --part several --part protect && return
    cat "$OUT/said"
    return 1
}

# The Python expression must be true for `report`, or for `script`, the script as a module.
says() {
    python3 - "$OUT/vm-experiments.json" "$1" <<'END'
import importlib.machinery, importlib.util, json, sys
loader = importlib.machinery.SourceFileLoader("experiments", "scripts/gpu/vm-experiments")
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("experiments", loader))
sys.dont_write_bytecode = True
loader.exec_module(script)
report = json.load(open(sys.argv[1]))
sys.exit(0 if eval(sys.argv[2]) else repr(report)[:2000])
END
}

# In timing mode no kernel says how far it is, and the launching thread waits for ever.
hanging_part() {
    MICRODNN_SIM_MODE=timing experiments --part create --part several --seconds 8
    [ $? = 1 ] && grep -q '^create: .*ended after' "$OUT/said"
}

plan 6
check 'the quick parts come to their end' quick_parts
check 'the table says that the GPU is simulated' grep -q '=== .*(simulated)' "$OUT/said"
check 'there is a row for each number of handles' says \
    'len([row for row in report["rows"] if row["part"] == "several"]) == 17 and not report["problems"]'
check 'a part that hangs is ended and said' hanging_part
check 'its rows are kept, and what had no time left is said' says \
    '[row["part"] for row in report["rows"]] == ["start"] and "left out" in report["problems"][1]'
check 'a line that was cut is told from a row' says \
    'script.parse_rows("{\"part\":\"a\"}\nx\n{\"part\":") == ([{"part": "a"}], ["x", "{\"part\":"])'
