#!/bin/sh
# Programs under a budget that end or fork in the middle of their work: no hang, nothing said, the
# status that they would have without the library. With the library's threads, as on a real GPU, and
# without, as else on the simulated one.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/endings
ulimit -c 0
each=$(few 2 4) # MiB of each of 16 buffers, three quarters of which fit

# ends STATUS HOW
ends() {
    by_itself sh -c '"$0" "$1" >/dev/null 2>&1; [ $? -eq "$2" ]' "$client" "$2" "$1" || return 1
    for threads in $(few 1 '0 1'); do
        for seed in $(few 1 '1 2'); do
            rm -f "$stats"
            MICRODNN_SIM_THREADS=$threads MICRODNN_SIM_SEED=$seed \
                under $((12 * each * mebibyte)) "$client" "$2" "$each" >"$TMPDIR/said" 2>&1
            status=$?
            # The shell tells of signals.
            [ "$status" -eq "$1" ] && ! grep -Ev '^(Aborted|Killed)' "$TMPDIR/said" && said_nothing ||
                { echo "threads $threads, seed $seed: status $status"; cat "$TMPDIR/said"; return 1; }
        done
    done
}

# Statistics are those of the program that ended by exit, not of its children.
ends_with_statistics() {
    ends "$@" && holds "$in_budget and memory['out_bytes'] > 0 and memory['in_bytes'] > 0" &&
        [ "$(find "$TMPDIR" -name 'stats*' | wc -l)" = 1 ]
}

plan 20
check "main returns while memory moves" ends_with_statistics 0 returns
check "exit while memory moves" ends_with_statistics 7 exits
check "exit of another thread" ends 7 exits_beside
check "an interrupt that the program handles" ends_with_statistics 7 handles_an_interrupt
check "_exit while memory moves" ends 7 exits_at_once
check "abort while memory moves" ends 134 aborts
check "a kill while memory moves" ends 137 is_killed
check "an interrupt while memory moves" ends 130 is_interrupted
check "an exception in the middle of a round" ends_with_statistics 0 gives_up_and_begins_anew
check "children that do not use the GPU" ends_with_statistics 0 forks
check "children without fork handlers" ends_with_statistics 0 clones
check "a child without fork handlers that uses the GPU" ends_with_statistics 0 clones_that_ask
check "an exit handler goes on with the work" ends_with_statistics 7 works_at_exit
check "an exit handler resets the device, and goes on" ends 7 resets_at_exit
check "a thread goes on until an exit handler has waited for it" ends 7 joins_at_exit
check "a destructor goes on with the work" ends_with_statistics 7 works_in_a_destructor
check "memory is freed after the driver has shut down" ends 7 frees_when_cuda_is_gone
check "children of a parent that has not initialized CUDA keep their budget" ends_with_statistics 0 forks_before_cuda
check "children without fork handlers keep it, too" ends_with_statistics 0 clones_before_cuda
check "so do their children" ends_with_statistics 0 forks_again_before_cuda
finish
