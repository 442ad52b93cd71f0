# Programs that call libraries whose kernels use memory that none of their parameters names, under a
# budget of half of what the program holds, on the simulated GPU, where a stray access faults
# (test/clients/library_calls.c, test/libraries/). Sourced by their tests, after tap.sh.
# shellcheck shell=sh
client=$MDNN_BUILD/test/clients/library_calls
stats=$TMPDIR/stats.json
log=$TMPDIR/log
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
LD_LIBRARY_PATH=$MDNN_BUILD/test/libraries:$LD_LIBRARY_PATH
MICRODNN_SIM_PROFILE=toy
MICRODNN_SIM_UNNAMED=1
MICRODNN_CONVOLUTION_POLICY=off
MICRODNN_STATS=json
MICRODNN_STATS_FILE=$stats
MICRODNN_LOG_FILE=$log
export LD_LIBRARY_PATH MICRODNN_SIM_PROFILE MICRODNN_SIM_UNNAMED MICRODNN_CONVOLUTION_POLICY
export MICRODNN_STATS MICRODNN_STATS_FILE MICRODNN_LOG_FILE

[ -e "$client" ] || skip_all "there is no simulated GPU in this build"

buffers=30 # of 3 MiB

under() { # budget, command...
    budget=$1
    shift
    : >"$log"
    rm -f "$stats"
    (
        export MICRODNN_MEMORY_BUDGET="$budget"
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library"
        exec "$@"
    )
}

# holds EXPRESSION: of `memory`, the statistics of device 0, and `counters`
holds() {
    python3 - "$stats" "$1" <<'PYTHON'
import json, sys
statistics = json.load(open(sys.argv[1]))
memory, counters = statistics["memory"][0], statistics["counters"]
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}\n{memory}\n{counters}")
PYTHON
}

said_nothing() { [ ! -s "$log" ] || { cat "$log"; return 1; }; }

in_budget="memory['peak_resident_bytes'] <= memory['budget_bytes']"

# program NAME EXPRESSION: right without the library, and with it
program() {
    "$client" "$1" 1 "$buffers" || { echo "wrong by itself"; return 1; }
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under 48MiB "$client" "$1" "$seed" "$buffers" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and $2" && said_nothing || { echo "seed $seed"; return 1; }
    done
}

# Without a budget nothing is looked at.
leaves_alone() {
    : >"$log"
    rm -f "$stats"
    LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" \
        "$client" "$1" 1 "$buffers" || { cat "$log"; return 1; }
    python3 -c 'import json, sys
counters = json.load(open(sys.argv[1]))["counters"]
sys.exit(counters["pointer_arrays_read"] + counters["pointer_arrays_unread"])' "$stats" && said_nothing
}

moved="memory['out_bytes'] > 0 and memory['in_bytes'] > 0"
