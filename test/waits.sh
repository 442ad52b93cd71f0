#!/bin/sh
# Streams that wait for what the program does next, under a budget: nobody is kept waiting by us.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
waits=$MDNN_BUILD/test/clients/waits

# runs MIB PROGRAM: right without the library, and under a budget of so many MiB
runs() {
    MICRODNN_SIM_DEVICES=2 by_itself "$waits" "$2" || return 1
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_SEED=$seed under $(($1 * mebibyte)) "$waits" "$2" ||
            { echo "seed $seed: $?"; cat "$log"; return 1; }
        holds "$in_budget and memory['refused'] == 0" && said_nothing ||
            { echo "seed $seed"; cat "$log"; return 1; }
    done
}

plan 19
check 'what was used before a stream waits for a value makes room' runs 26 value_behind
check 'what is used behind such a wait stays, and others make room' runs 26 value_before
check 'a receiver is enqueued before its sender' runs 20 send_and_receive
check 'memory that a blocked stream freed is not waited for' runs 26 malloc_beside_freed
check 'nor handed on to a stream that would wait with it' runs 64 freed_behind
check 'likewise where other memory must leave first' runs 26 freed_behind
check 'likewise blocks of slabs' runs 16 small_freed_behind
check 'likewise what one stream freed for another' runs 42 freed_for_another
check 'it is handed on where there is nothing else' runs 16 nothing_but_freed
check 'a callback needs a lock that the launching thread holds' runs 26 callback_locks
check 'a launch that waits lets another through' runs 34 launch_beside_launch
check 'a thread is cancelled while its launch waits' runs 34 cancelled_in_launch
check 'a free that waits lets launches through' runs 64 launch_beside_free
check 'a launch waits for a copy that blocks' runs 30 launch_beside_copy
check 'eight threads' runs 34 eight_threads
check 'two devices wait for each other' runs 20 two_devices
check 'memory moves beside a capture in global mode' runs 20 capture_global
check 'likewise in the mode of a thread' runs 20 capture_of_thread
check 'likewise in relaxed mode' runs 20 capture_relaxed
finish
