# Programs that call libraries whose kernels use memory that none of their parameters names, under a
# budget of half of what the program holds, on the simulated GPU, where a stray access faults
# (test/clients/library_calls.c, test/libraries/). Sourced by their tests, after tap.sh.
# shellcheck shell=sh
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/library_calls
LD_LIBRARY_PATH=$MDNN_BUILD/test/libraries:$LD_LIBRARY_PATH
MICRODNN_SIM_UNNAMED=1
MDNN_CLIENT_ROUNDS=$(few 8 24)
export LD_LIBRARY_PATH MICRODNN_SIM_UNNAMED MDNN_CLIENT_ROUNDS
buffers=30 room=48MiB # buffers of 3 MiB, and the budget

# program NAME EXPRESSION: right without the library, and with it
program() {
    by_itself "$client" "$1" 1 "$buffers" || return 1
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under $room "$client" "$1" "$seed" "$buffers" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and $2" && said_nothing || { echo "seed $seed"; return 1; }
    done
}

# Without a budget nothing is looked at.
leaves_alone() {
    : >"$log"
    rm -f "$stats"
    (preload_library && exec "$client" "$1" 1 "$buffers") || { cat "$log"; return 1; }
    holds "counters['pointer_arrays_read'] + counters['pointer_arrays_unread'] == 0" && said_nothing
}

moved="memory['out_bytes'] > 0 and memory['in_bytes'] > 0"
