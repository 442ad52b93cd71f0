#!/bin/sh
# What the user asked for and cannot have is said, in words and in one line per fault.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
client=$MDNN_BUILD/test/shim/print_environment # looks up a function of CUDA, as programs do
tool=$MDNN_BUILD/microdnn
work=$TMPDIR
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"

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
        [ $? = 125 ] && said 'cannot be written: No such file or directory' || return 1
    done
    runs --log-file "$work" && return 1
    said 'it is a folder'
}

plan 7
check 'a trace without a budget' a_trace_without_a_budget
check 'a policy of memory without a budget' a_policy_without_a_budget
check 'a file for statistics without statistics' a_statistics_file_without_statistics
check 'options of Workspace Division without it' wd_without_wd
check 'microdnn run says it once' run_says_it_once
check 'a log file that cannot be opened' an_unwritable_log
check 'microdnn run refuses files that cannot be written' run_refuses_files_that_cannot_be
finish
