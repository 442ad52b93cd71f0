#!/bin/sh
# Memory in the order of streams and graphs under a budget (test/clients/virtual_async.c): where it is,
# and who may free it.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
async=$MDNN_BUILD/test/clients/virtual_async
MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES

# right PROGRAM: without the library, and under a budget
right() {
    by_itself "$async" "$1" || return 1
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under $((32 * mebibyte)) "$async" "$1" || { echo "seed $seed"; cat "$log"; return 1; }
        holds "all(each['peak_resident_bytes'] <= each['budget_bytes'] for each in memories)" &&
            said_nothing || { echo "seed $seed"; return 1; }
    done
}
# Both devices had memory under their budgets.
on_both() { right "$1" && holds "len(memories) == 2 and all(each['peak_live_bytes'] >= 4 * 2**20 for each in memories)"; }
# Nothing but the buffer beside is left: it is not freed.
leaves_nothing() { right "$1" && holds "memory['live_bytes'] == 4 * 2**20"; }
# A question for memory sends nothing away, and is nothing that the program had.
moves_nothing() { right "$1" && holds "memory['out_bytes'] == 0 and memory['peak_live_bytes'] == 6 * 4 * 2**20"; }
moves() { right "$1" && holds "memory['out_bytes'] > 0 and memory['peak_live_bytes'] > 6 * 4 * 2**20"; }

plan 10
check "memory is on the device of its stream" on_both stream_of_another_device
check "memory is on the device of its pool" on_both pool_of_another_device
check "a pool of the program's own is no device's" leaves_nothing own_pool
check "memory of a stream that ended is used when its work is over" leaves_nothing work_of_a_stream_that_ends
check "what each launch of a graph allocates is freed after each" leaves_nothing freed_after_each_launch
check "or by the next launch" leaves_nothing freed_by_the_next_launch
check "or by another graph" leaves_nothing freed_by_another_graph
check "a capture frees no memory that no graph allocates" leaves_nothing not_a_graphs
check "a program that only asks how much is free moves nothing" moves_nothing asks_what_is_free
check "and has it if it uses it" moves uses_what_is_free
finish
