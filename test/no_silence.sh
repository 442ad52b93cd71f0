#!/bin/sh
# What the user asked for and cannot have is said, in words and in one line per fault.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
lenet='--net lenet --batch 8 --find-repeats 1 --search heuristic --workspace-limit 64k --iterations 1'
export MICRODNN_SIM_MODE=timing # what is computed does not matter here
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
client=$MDNN_BUILD/test/shim/print_environment # looks up a function of CUDA, as programs do
tool=$MDNN_BUILD/microdnn
work=$TMPDIR
library_comes_first

# bare NAME=VALUE...: the client with the library, without the tool; what is said is in $work/said
bare() {
    env "$@" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" "$client" cuda 2>"$work/said" >"$work/out"
}
said() { # once: one line, with this text
    [ "$(grep -c . "$work/said")" = 1 ] && grep -qF -- "$1" "$work/said" || { cat "$work/said"; return 1; }
}
silent() { [ ! -s "$work/said" ] || { cat "$work/said"; return 1; }; }
runs() { # options of run: with the client
    "$tool" run --library "$library" "$@" -- "$client" cuda 2>"$work/said" >"$work/out"
}
idle() { # variable, value, what is said, what gives it an effect
    bare "$1=$2" && said "$3" && bare "$1=$2" "$4" && silent || return 1
    printf '%s\n' "[memory]" "policy = conv" >"$work/rules.ini"
    bare "MICRODNN_CONFIG=$work/rules.ini" && silent # for other runs
}
a_trace_without_a_budget() {
    idle MICRODNN_TRACE "$work/t.json" 'memory.trace has no effect: there is no budget for memory' MICRODNN_MEMORY=1g
}
a_chunk_that_is_no_power_of_two() {
    bare MICRODNN_MEMORY_CHUNK_SIZE=3m MICRODNN_MEMORY=1g &&
        said 'MICRODNN_MEMORY_CHUNK_SIZE: memory.chunk_size = 3MiB is not a power of two from 2MiB; 4MiB is taken instead' &&
        bare MICRODNN_MEMORY_CHUNK_SIZE=1m MICRODNN_MEMORY=1g && said '2MiB is taken instead' &&
        bare MICRODNN_MEMORY_CHUNK_SIZE=4m MICRODNN_MEMORY=1g && silent &&
        runs --memory 1g --set memory.chunk_size=3m && said '4MiB is taken instead'
}
a_policy_without_a_budget() { idle MICRODNN_MEMORY_POLICY conv 'memory.policy has no effect' MICRODNN_MEMORY=1g; }
a_statistics_file_without_statistics() {
    idle MICRODNN_STATS_FILE "$work/s" 'general.stats_file has no effect: there are no statistics' MICRODNN_STATS=text
}
wd_without_wd() { idle MICRODNN_CONVOLUTION_TOTAL_WORKSPACE 64m 'total_workspace has no effect: the policy is not wd' MICRODNN_POLICY=wd; }
run_says_it_once() {
    runs --trace "$work/t.json" && said 'memory.trace has no effect' && runs --memory-policy conv && said 'memory.policy has no effect' &&
        runs --stats-file "$work/s" && said 'general.stats_file has no effect' && runs --memory 1g --trace "$work/t.json" && silent
}
an_unwritable_log() {
    bare MICRODNN_LOG_FILE=/nowhere/log MICRODNN_LOG_FILEE=x && [ "$(grep -c . "$work/said")" = 2 ] &&
        grep -q 'the log file /nowhere/log cannot be opened (No such file or directory): the log goes to standard error' "$work/said" &&
        grep -q 'MICRODNN_LOG_FILEE: unknown variable' "$work/said"
}
run_refuses_files_that_cannot_be() {
    for option in --log-file --stats-file --trace --record; do
        runs --memory 1g --stats text "$option" /nowhere/file
        [ $? = 125 ] && head -n 1 "$work/said" | grep -qF -- "$option: /nowhere/file cannot be written: No such file or directory" || return 1
    done
    runs --log-file "$work" && return 1
    grep -q 'it is a folder' "$work/said" && MICRODNN_RECORD=/nowhere/file runs --memory 1g # the library says it
}

# Each fault in words, and in one line.
files_of_a_program() { # what is said, NAME=VALUE...
    text=$1
    shift
    # shellcheck disable=SC2086 # words
    env "$@" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" LD_LIBRARY_PATH="$MDNN_BUILD/sim" \
        MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_WORKSPACE_LIMIT=16k "$MDNN_BUILD/train_cnn" $lenet 2>"$work/all" >"$work/out" || return 1
    grep nowhere "$work/all" >"$work/said"
    said "$text"
}
files_that_cannot_be_written() {
    [ -e "$MDNN_BUILD/sim/libcuda.so.1" ] || return 0
    files_of_a_program 'statistics cannot be written to /nowhere/s: No such file or directory' MICRODNN_STATS=text MICRODNN_STATS_FILE=/nowhere/s &&
        files_of_a_program 'cannot write /nowhere/c.db: No such file or directory' MICRODNN_CACHE_FILE=/nowhere/c.db &&
        files_of_a_program 'in /nowhere (No such file or directory)' MICRODNN_MEMORY=20m MICRODNN_MEMORY_REGISTRY=/nowhere
}
a_library_that_came_too_late() {
    [ -z "$MDNN_PRELOAD_FIRST" ] && [ -e "$MDNN_BUILD/sim/libcuda.so.1" ] || return 0
    late='import ctypes, sys
objects = [ctypes.CDLL(each) for each in sys.argv[1:]]
for each in objects:
    if "libmicrodnn" in each._name: each.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))'
    python3 -I -S -c "$late" "$MDNN_BUILD/sim/libcuda.so.1" "$library" 2>"$work/said" && said 'loaded after' &&
        grep -q 'sim/libcuda.so.1, whose calls do not reach it' "$work/said" &&
        MICRODNN_DISABLE=1 python3 -I -S -c "$late" "$MDNN_BUILD/sim/libcuda.so.1" "$library" 2>"$work/said" && silent &&
        python3 -I -S -c "$late" "$library" "$MDNN_BUILD/sim/libcuda.so.1" 2>"$work/said" && silent &&
        LD_PRELOAD=$library python3 -I -S -c "$late" "$MDNN_BUILD/sim/libcuda.so.1" 2>"$work/said" && silent
}
# Each would split the workspace, count and move.
a_second_copy() {
    # shellcheck disable=SC2086 # words
    mkdir -p "$work/copy" && cp "$library" "$work/copy/libmicrodnn.so" && [ -e "$MDNN_BUILD/sim/libcuda.so.1" ] || return 0
    env LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library:$work/copy/libmicrodnn.so" LD_LIBRARY_PATH="$MDNN_BUILD/sim" \
        MICRODNN_STATS=json MICRODNN_STATS_FILE="$work/stats.%p" MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_POLICY=off \
        "$MDNN_BUILD/train_cnn" $lenet 2>"$work/said" >"$work/out" &&
        said "another copy of the library is loaded, too, and is not used: $work/copy/libmicrodnn.so" &&
        [ "$(find "$work" -name 'stats.*' | wc -l)" = 1 ]
}

plan 11
check 'a trace without a budget' a_trace_without_a_budget
check 'a policy of memory without a budget' a_policy_without_a_budget
check 'a chunk of memory that is no power of two' a_chunk_that_is_no_power_of_two
check 'a file for statistics without statistics' a_statistics_file_without_statistics
check 'options of Workspace Division without it' wd_without_wd
check 'files that cannot be written, in words' files_that_cannot_be_written
check 'a library that is loaded after CUDA' a_library_that_came_too_late
check 'a second copy of the library' a_second_copy
check 'microdnn run says it once' run_says_it_once
check 'a log file that cannot be opened' an_unwritable_log
check 'microdnn run refuses files that cannot be written' run_refuses_files_that_cannot_be
finish
