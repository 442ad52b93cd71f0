#!/bin/sh
# What is larger than the budget, on the simulated GPU: operations, and allocations (test/clients/tail.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
tail=$MDNN_BUILD/test/clients/tail

# above PROGRAM EXPRESSION [host]: right, within the budget, with tails, and one line says so; with safety = host, too
above() {
    by_itself "$tail" "$1" 1 || return 1
    for seed in $(few 1 '1 2 3'); do
        for safety in $(few fast "fast auto ${3:-}"); do
            MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed MICRODNN_SIM_THREADS=$((seed / 3)) \
                under $((24 * mebibyte)) "$tail" "$1" "$seed" || { echo "seed $seed, $safety"; cat "$log"; return 1; }
            holds "$in_budget and memory['refused'] == 0 and memory['tail_operations'] > 0 and $2" &&
                [ "$(wc -l <"$log")" = 1 ] && grep -q 'names more than the budget of 24.0 MiB holds' "$log" ||
                { echo "seed $seed, $safety"; cat "$log"; return 1; }
        done
    done
}

# Six of them name 40 MiB: 16 MiB are on the host each time. What fits alone comes back.
is_counted() {
    above one_operation "memory['tail_operations'] == 7 and memory['tail_bytes'] == 7 * 16 * 2**20 and
        'mix 6 x 16.0 MiB' in memory['tails'] and memory['whole_budget_bytes'] == 40 * 2**20 and
        memory['smallest_budget_bytes'] < 4 * 2**20" host
}

host_limit_is_named() {
    MICRODNN_MEMORY_HOST_LIMIT=48MiB under $((24 * mebibyte)) "$tail" beyond_the_host 1 || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 2" || return 1
    grep -q 'there may be 48.0 MiB (as it is set); .*host_limit' "$log" || { cat "$log"; return 1; }
}

# Everything may be touched at any time, so no address is without memory.
# The chunk is there, but the driver finds no room for what it needs itself, one time.
short_once() {
    for function in cuMemMap cuMemSetAccess; do
        for nth in $(few 18 "$(seq 6 60)"); do
            MICRODNN_SIM_FAULTS=$function:$nth:2 under $((24 * mebibyte)) "$tail" two_streams 1 &&
                holds "$in_budget and memory['refused'] == 0" || { echo "$function, call $nth"; cat "$log"; return 1; }
        done
    done
}

beyond_all() {
    MICRODNN_MEMORY_SAFETY=host under $((24 * mebibyte)) "$tail" beyond_all 1 &&
        grep -q '8.00 TiB refused: .*; at least 8.00 TiB are needed for it' "$log" || { cat "$log"; return 1; }
}

# A program that gives the library what each line says is needed gets on, and has all in the end.
host_limit_that_is_named_is_enough() {
    enough=4MiB
    for round in 1 2 3 4 5 6 7 8 9 10; do
        MICRODNN_MEMORY_HOST_LIMIT=$enough under $((24 * mebibyte)) "$tail" on_the_host 1 && break
        named=$(sed -n 's/.* at least \([0-9.]*\) MiB are needed, .*/\1/p' "$log")
        [ -n "$named" ] && [ "${named}MiB" != "$enough" ] || { echo "round $round, $enough"; cat "$log"; return 1; }
        enough=${named}MiB
    done
    holds "$in_budget and memory['refused'] == 0" && [ "${enough%%.*}" -le 60 ] ||
        { echo "round $round, $enough"; cat "$log"; return 1; }
}

hosts_nothing_larger() {
    MICRODNN_MEMORY_SAFETY=host under $((24 * mebibyte)) "$tail" one_allocation 1 >"$TMPDIR/said" && return 1
    holds "$in_budget and memory['refused'] == 1" && grep -q 'cudaMalloc.*out of memory' "$TMPDIR/said" || { cat "$log"; return 1; }
}

without() {
    MICRODNN_MEMORY_TAIL=no under $((24 * mebibyte)) "$tail" refused 1 || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 3 and memory['tail_operations'] == 0 and
        memory['smallest_budget_bytes'] >= 40 * 2**20" &&
        grep -q 'refused: nothing more can leave within the budget of 24.0 MiB; at least' "$log"
}

is_not_captured() {
    under $((24 * mebibyte)) "$tail" captured 1 || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 1 and memory['tail_operations'] == 1" || return 1
    grep -q 'refused: nothing more can leave .* at least 40.0 MiB are needed for it' "$log" || { cat "$log"; return 1; }
}

# There is not so much host memory, and the capture needs more of the budget.
each_refusal_has_its_reason() {
    under $((24 * mebibyte)) "$tail" probed 1 || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 3 and memory['tail_operations'] == 1" &&
        [ "$(grep -c 'host_limit' "$log")" = 1 ] && grep -q 'there may be [0-9.]* .iB (half of ' "$log" &&
        grep -q '40.0 MiB refused: nothing more can leave .* at least 40.0 MiB are needed for it' "$log" ||
        { cat "$log"; return 1; }
}

# What an operation names would fit alone.
other_memory_is_named() {
    MICRODNN_MEMORY_MIN_SIZE=1000t under $((24 * mebibyte)) "$tail" two_streams 1 || { cat "$log"; return 1; }
    holds "$in_budget and memory['tail_operations'] > 0" && [ "$(wc -l <"$log")" = 1 ] &&
        grep -q 'the budget of 24.0 MiB has no room for what an operation names beside memory that does not leave' "$log" ||
        { cat "$log"; return 1; }
}

plan 13
check "an operation above the budget is right, and what it had on the host is counted" is_counted
check "an allocation above the budget can be used" above one_allocation True
check "operations in tails on two streams follow each other" above two_streams True host
check "two streams read one tail" above readers_beside_each_other True
check "where memory that stays takes the room, the line says so" other_memory_is_named
check "where host memory ends, a line names its limit" host_limit_is_named
check "the limit that it names is enough" host_limit_that_is_named_is_enough
check "nothing is refused when the driver is short once" short_once
check "a line about what no address space holds has a figure" beyond_all
check "with safety = host an allocation above the budget is refused" hosts_nothing_larger
check "tail = no refuses what is above the budget" without
check "a capture is refused what does not fit" is_not_captured
check "who asked for more than the host has is told why something else is refused" each_refusal_has_its_reason
finish
