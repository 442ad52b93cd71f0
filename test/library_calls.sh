#!/bin/sh
# Libraries whose kernels use memory that none of their parameters names, under a budget of half of what
# the program holds, on the simulated GPU, where a stray access faults (test/clients/library_calls.c,
# test/libraries/).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

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

seconds=120
[ -z "${MDNN_PRELOAD_FIRST:-}" ] || seconds=900 # a sanitizer is up to fifteen times slower
buffers=30                                      # of 3 MiB

under() { # budget, command...
    budget=$1
    shift
    : >"$log"
    rm -f "$stats"
    (
        export MICRODNN_MEMORY_BUDGET="$budget"
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library"
        exec timeout "$seconds" "$@"
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
    timeout "$seconds" "$client" "$1" 1 "$buffers" || { echo "wrong by itself"; return 1; }
    for seed in 1 2 3; do
        MICRODNN_SIM_SEED=$seed under 48MiB "$client" "$1" "$seed" "$buffers" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and $2" && said_nothing || { echo "seed $seed"; return 1; }
    done
}

# What a graph of a call may use stays, if that fits: else one line says that it may not be there.
too_much_for_a_graph() {
    under 36MiB "$client" captured 1 "$buffers"
    [ "$(grep -c 'cublasSgemmBatched is captured: its arrays of pointers cannot be read' "$log")" = 1 ]
}

registers_what_fits() {
    under 48MiB "$client" all_registered 1 "$buffers" && holds "$in_budget and $moved" &&
        [ "$(grep -c 'a buffer is not registered with NCCL' "$log")" = 1 ] &&
        [ "$(wc -l <"$log")" = 1 ] || { cat "$log"; return 1; }
}

windows_are_refused() {
    made=$(under 48MiB "$client" all_windows 1 "$buffers") && holds "$in_budget" &&
        [ "$made" -gt 8 ] && [ "$made" -lt 16 ] &&
        grep -q '3.*MiB refused: nothing more can leave .* 4[89].* are needed' "$log" &&
        [ "$(wc -l <"$log")" = 1 ] || { echo "$made windows"; cat "$log"; return 1; }
}

# Without a budget nothing is looked at.
leaves_alone() {
    : >"$log"
    rm -f "$stats"
    LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" \
        timeout "$seconds" "$client" "$1" 1 "$buffers" || { cat "$log"; return 1; }
    python3 -c 'import json, sys
counters = json.load(open(sys.argv[1]))["counters"]
sys.exit(counters["pointer_arrays_read"] + counters["pointer_arrays_unread"])' "$stats" && said_nothing
}

# Statistics are of the run that was asked about, or there are none.
forgets_the_run_before() {
    under 48MiB true && [ ! -e "$stats" ]
}

moved="memory['out_bytes'] > 0 and memory['in_bytes'] > 0"
read="counters['pointer_arrays_read'] > 0"
unread="counters['pointer_arrays_unread'] > 0 and counters['pointer_arrays_read'] == 0"
# As the driver gives memory out.
pages="memory['resident_bytes'] % (2 << 20) == 0"
plan 22
check "what arrays of pointers lead to is there when the kernel runs" program batches "$moved and $read"
check "so it is where the program looked the function up" program looked_up "$moved and $read"
check "where all is there, arrays are not read, and what they lead to stays until the kernel has run" \
    program then_short "$moved and $unread"
check "no run is taken for the one before" forgets_the_run_before
check "and is not handed on before" program then_freed "$unread"
check "a captured call keeps what its arrays may lead to" program captured "$moved"
check "a graph for which that is too much is told of" too_much_for_a_graph
check "buffers of collectives are there when their kernel runs, alone and in groups" \
    program collectives "$moved"
check "a group that is only estimated ends, too" program simulated "$moved"
check "so they are where another thread launches it, after the call" program launched_later "$moved"
check "so they are where the program never asks, and what is over is named no more" \
    program never_asked "$moved and memory['largest_operation_bytes'] < 20 << 20"
check "a registered buffer stays" program registered "$moved"
check "one that is registered twice stays until it is no more" program registered_twice "$moved"
check "and none stays longer than its communicator" program never_deregistered "$moved"
check "where the budget has no room for more that stays, the rest is not registered, and that is told" \
    registers_what_fits
check "a window that does not fit is out of memory, and the log says what would do" windows_are_refused
check "what the collectives' library allocates for itself is plain memory, in the budget" \
    program many_comms "memory['peak_live_bytes'] < 92 << 20 and memory['created_chunks'] <= 20 and $pages"
check "and what was in its place is there again when it is freed" \
    program comms_gone "memory['peak_live_bytes'] < 92 << 20 and memory['created_chunks'] == 24"
check "where virtual memory has all of the budget it is virtual, but stays, and is counted" \
    program comms_late "$moved and memory['peak_live_bytes'] > 90 << 20"
check "it ends with its context" program contexts_end "$moved"
for name in batches collectives; do
    check "$name: without a budget nothing is looked at" leaves_alone "$name"
done
finish
