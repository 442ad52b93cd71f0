#!/bin/sh
# A budget that cannot be kept ends the program at its first allocation, with one line that says why; with
# [memory] strict = no it runs without a limit, and one line says so. On the simulated GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"

# Two kinds of programs under the library: VARIABLE=VALUE... decide.
random_work() { run_with "$@" -- "$client" one_stream 1 $((16 * mebibyte)); }
training() { (MICRODNN_SIM_MODE=timing run_with "$@" -- "$train_cnn" --data "$data" --quiet --search heuristic --find-repeats 1 --batch 8 --iterations 1); }
run_with() {
    : >"$log"
    rm -f "$stats"
    (
        while [ "$1" != -- ]; do
            export "${1?}"
            shift
        done
        shift
        preload_library
        exec "$@"
    ) >"$TMPDIR/said" 2>&1
}

# One line of the library's own about memory, with that text.
says_once() { # text
    [ "$(grep -c 'memory: ' "$log")" = 1 ] && grep -q -- "memory: .*$1" "$log" || { cat "$log"; return 1; }
}

programs=training

# refused TEXT VARIABLE=VALUE...
refused() {
    refused_text=$1
    shift
    for refused_program in $programs; do
        ! $refused_program "$@" || { echo "$refused_program ran"; cat "$log"; return 1; }
        grep -Eq 'out of (device )?memory' "$TMPDIR/said" || { cat "$TMPDIR/said"; return 1; }
        says_once "the budget cannot be kept, so nothing is allocated: .*$refused_text" || return 1
    done
    for refused_program in $programs; do
        $refused_program "$@" MICRODNN_MEMORY_STRICT=no || { cat "$TMPDIR/said"; return 1; }
        [ "${unlimited:-}" = silent ] || says_once "goes without a budget: .*$refused_text" || return 1
    done
}

each_refused() {
    programs='random_work training'
    refused "$@"
}

# ini TEXT LINE...: a file of these lines
refused_in_a_file() {
    file_text=$1
    shift
    printf '%s\n' "$@" >"$TMPDIR/budget.ini"
    unlimited=silent refused "$file_text" MICRODNN_CONFIG="$TMPDIR/budget.ini"
}

# Which of the calls of that name are ours is known of one of the programs. Set-up is tried twice.
faults() { # function, number of a call, of its repetition, text
    programs=random_work
    refused "$4" MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_SIM_FAULTS="$1:$2:801,$1:$3:801"
}

# One failure is no reason to refuse, or to go without.
survives_one_failure() {
    for call in cuMemAddressReserve:1 cuDeviceTotalMem_v2:1 cuDeviceTotalMem_v2:2 cuStreamCreateWithPriority:2; do
        random_work MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_SIM_FAULTS="$call:801" &&
            holds "$in_budget" && said_nothing || { echo "$call"; cat "$log" "$TMPDIR/said"; return 1; }
    done
}

# It is not said that the program runs without one.
unread_budgets() {
    random_work MICRODNN_MEMORY=12XB
    grep -q 'if nothing else sets it, memory is refused' "$log" && ! grep -q 'kept none' "$log" || { cat "$log"; return 1; }
    unlimited=silent refused 'cannot be read (environment MICRODNN_MEMORY_BUDGET)' 'MICRODNN_MEMORY_BUDGET=12GB?' &&
        unlimited=silent refused 'cannot be read' MICRODNN_MEMORY_BUDGET=-1 &&
        unlimited=silent refused 'cannot be read (environment MICRODNN_MEMORY_BUDGGET)' MICRODNN_MEMORY_BUDGGET=1GiB
}

unread_lines() {
    refused_in_a_file 'cannot be read (.*budget.ini:2)' '[memory]' 'budget = 12 gigabytes' &&
        refused_in_a_file 'budget.ini:2)' '[memroy]' 'budget = 12GiB' &&
        { ! thorough || {
            refused_in_a_file 'budget.ini:2)' '[memory]' 'bugdet = 12GiB' &&
                refused_in_a_file 'budget.ini:2)' '[memory]' 'budget 12GiB' &&
                refused_in_a_file 'budget.ini:1)' 'budget = 12GiB' &&
                refused_in_a_file 'budget.ini:2)' '[general]' 'budget = 12GiB'
        }; }
}

# What is said later, and can be read, counts.
later_budget_counts() {
    printf '[memory]\nbudget = much\nbudget = 12GiB\n' >"$TMPDIR/budget.ini"
    random_work MICRODNN_CONFIG="$TMPDIR/budget.ini" && holds "memory['budget_bytes'] > 0" || return 1
    printf '[memory]\nbudget = much\n' >"$TMPDIR/budget.ini"
    random_work MICRODNN_CONFIG="$TMPDIR/budget.ini" MICRODNN_MEMORY_BUDGET=48MiB &&
        holds "memory['budget_bytes'] == 48 * 2**20"
}

# A driver from which a function of virtual memory is taken; its name no longer matches its hash.
old_driver() {
    mkdir -p "$TMPDIR/old"
    cp -P "$MDNN_BUILD"/sim/lib* "$TMPDIR/old"
    sed 's/cuMemAddressReserve/cuMemAddressRXXXXXX/g' "$MDNN_BUILD/sim/libcuda.so.1" >"$TMPDIR/old/libcuda.so.1"
    refused 'the driver lacks functions for virtual memory' MICRODNN_MEMORY_BUDGET=48MiB LD_LIBRARY_PATH="$TMPDIR/old"
}

# The other one is set up, and used. How many reservations the first one takes depends on where the build's addresses lie.
two_devices() {
    MICRODNN_SIM_FAULTS=cuMemAddressReserve:$1:801,cuMemAddressReserve:$(($1 + 1)):801 MICRODNN_SIM_DEVICES=2 \
        under $((48 * mebibyte)) "$client" devices 1 $((2 * held))
}
one_of_two_devices() {
    first=4
    while two_devices $first; do
        [ $((first += 1)) -le 30 ] || { echo 'no reservation of device 1 failed'; return 1; }
    done
    says_once 'device 1: the budget cannot be kept' || return 1
    first=4
    until MICRODNN_MEMORY_STRICT=no two_devices $first && says_once 'device 1 goes without a budget'; do
        [ $((first += 1)) -le 30 ] || { echo 'device 1 never went without a budget'; return 1; }
    done
}

plan 14
check "a number without its unit" each_refused '12 means 12 bytes, .*did you mean 12GiB?' MICRODNN_MEMORY_BUDGET=12
check "no memory at all" refused '0 is less than a chunk of memory, 2MiB; .none. sets no limit' MICRODNN_MEMORY_BUDGET=0
check "less than a chunk" refused '1MiB is less than a chunk' MICRODNN_MEMORY_BUDGET=1MiB
check "a chunk that is larger than the budget" refused 'chunks of 64MiB, .*the budget of 48MiB has no room' \
    MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_MEMORY_CHUNK_SIZE=64MiB
check "addresses that are not to be had" faults cuMemAddressReserve 1 2 'lack of address space (ulimit -v).*error 801'
check "streams that are not to be had" faults cuStreamCreateWithPriority 2 3 'CUDA error 801'
check "a device that does not say what it has" faults cuDeviceTotalMem_v2 2 3 'CUDA error 801'
check "a failure that passes changes nothing" survives_one_failure
check "a driver without virtual memory" old_driver
check "a budget in the environment that cannot be read" unread_budgets
check "a budget in a file that cannot be read, or is lost" unread_lines
check "a budget that is said later, and can be read, counts" later_budget_counts
check "a device that cannot be set up, beside one that can" one_of_two_devices
# Whoever comes while another thread reads the options waits for them.
waits_for_options() {
    "$MDNN_BUILD/test/clients/slow_start" 64 || { echo "wrong by itself"; return 1; }
    (
        unset MICRODNN_LOG_FILE
        export MICRODNN_MEMORY_NOTHING=1 MICRODNN_MEMORY_BUDGET=32MiB MICRODNN_MEMORY_TAIL=no
        preload_library
        exec "$MDNN_BUILD/test/clients/slow_start" 64
    )
    [ $? = 2 ]
}
check 'a budget holds for a thread that comes before it was read' waits_for_options
finish
