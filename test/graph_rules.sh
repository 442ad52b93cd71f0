#!/bin/sh
# What a program sees of cuDNN's backend API with the library under it; the tests are in
# test/clients/graph_rules.c and graph_faults.c, each in a process of its own. Arguments name tests.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

clients=$MDNN_BUILD/test/clients
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
stats=$TMPDIR/stats.json
properties=$(dirname "$0")/data/h200-deviceprop.json
wanted=" $* "
small=MICRODNN_WORKSPACE_LIMIT=4096 # plans of these tests want more
reuse=ASAN_OPTIONS=quarantine_size_mb=0:thread_local_quarantine_size_kb=0 # of memory, at once

# process PROGRAM NAME ARGUMENT [VARIABLE=VALUE...]
process() {
    process_program=$clients/$1 process_name=$2 process_argument=$3
    shift 3
    rm -f "$stats"
    env MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_STATS=json \
        MICRODNN_STATS_FILE="$stats" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library:$clients/graph_witness.so" \
        "$@" "$process_program" "$process_name" "$process_argument"
}

# Counters of the last run, as variables of their names; 0 where there are none.
measurements=0
read_counters() {
    # shellcheck disable=SC2013 # names are words
    for counter in $(sed -n 's/^ *COUNTER(\([a-z_]*\),.*/\1/p' "$(dirname "$0")/../config/counters.def"); do
        eval "$counter=0"
    done
    rows_of_others=0 # convolutions that were planned for another device than 0
    [ ! -e "$stats" ] || rows_of_others=$(grep -c '"device": [1-9]' "$stats")
    [ ! -e "$stats" ] || eval "$(sed -n 's/^ *"\([a-z_]*\)": *\([0-9][0-9]*\),\{0,1\}$/\1=\2/p' "$stats")"
}

passes_and_counts() { # program, condition, name, argument, variables
    counts_program=$1 counts_condition=$2
    shift 2
    process "$counts_program" "$@" || return 1
    read_counters
    eval "[ \$(($counts_condition)) != 0 ]" || {
        echo "not $counts_condition:"
        grep ': [1-9]' "$stats"
        return 1
    }
}

# rule NAME CONDITION [ARGUMENT [VARIABLE=VALUE...]]: CONDITION is about the counters.
rule() { rule_of graph_rules "$@"; }
rule_of() { # program, then as rule
    rule_program=$1 rule_name=$2 rule_condition=$3 rule_argument=${4-}
    [ $# -lt 4 ] || shift
    shift 3
    case $wanted in
    '  ' | *" $rule_name "*) ;;
    *) return ;;
    esac
    tests=$((tests + 1))
    [ "$mode" = count ] ||
        check "$(echo "$rule_name${rule_argument:+ ($(basename "$rule_argument"))}" | tr _ ' ')" \
            passes_and_counts "$rule_program" "$rule_condition" "$rule_name" "$rule_argument" "$@"
}

# The second process measures nothing, is told the same and runs the same.
cache=MICRODNN_CACHE_FILE=$TMPDIR/cache.db
remembered() {
    rm -f "$TMPDIR/cache.db"
    process graph_rules answers_are_printed '' "$cache" "$@" >"$TMPDIR/first" || return 1
    read_counters
    [ "$measurements" -gt 0 ] || { echo 'the first process measured nothing'; return 1; }
    process graph_rules answers_are_printed '' "$cache" "$@" >"$TMPDIR/second" || return 1
    read_counters
    [ "$measurements" = 0 ] || { echo "the second process timed $measurements candidates"; return 1; }
    diff "$TMPDIR/first" "$TMPDIR/second"
}

says_once_that_it_follows() {
    process graph_rules graphs_are_known_without_json '' "$@" MICRODNN_LOG=info >"$TMPDIR/out" 2>&1 || return 1
    grep followed "$TMPDIR/out" >"$TMPDIR/said"
    [ "$(wc -l <"$TMPDIR/said")" = 1 ] || { cat "$TMPDIR/said"; return 1; }
}

disabled_says_nothing() { process graph_rules everything_is_as_without '' "$@" && [ ! -e "$stats" ]; }

# Nor does it end the kernels of ours that the next problem is measured with.
a_reset_takes_no_kernels() {
    process graph_rules a_device_may_be_reset '' MICRODNN_LOG=info MICRODNN_SIM_PROFILE=h200 $small 2>"$TMPDIR/said" &&
        ! grep 'does not run here' "$TMPDIR/said"
}

also() { # name, command
    case $wanted in
    '  ' | *" $1 "*) ;;
    *) return ;;
    esac
    tests=$((tests + 1))
    also_name=$1
    shift
    [ "$mode" = count ] || check "$(echo "$also_name" | tr _ ' ')" "$@"
}

table() {
    rule an_answer_is_all_that_is_touched 'executions_split + executions_undivided > 50'
    rule an_answer_is_all_that_is_touched 'executions_split > 20' 'within 4096' $small
    rule an_answer_is_all_that_is_touched 'executions_split > 20' 'within 32768' MICRODNN_WORKSPACE_LIMIT=32768
    rule an_answer_is_all_that_is_touched 'executions_split > 20' 'all engines' $small MICRODNN_CONVOLUTION_ENGINES=all
    rule no_answer_exceeds_the_limit 'graph_plans > 20' 0 MICRODNN_WORKSPACE_LIMIT=0
    rule no_answer_exceeds_the_limit 'graph_plans > 20' 4096 $small
    rule no_answer_exceeds_the_limit 'graph_plans > 20' 20000 MICRODNN_WORKSPACE_LIMIT=20000
    rule the_smallest_answer_holds 'passed_capture > 0' '' $small
    rule an_answer_of_the_configuration_binds 'executions_own + executions_undivided + executions_split == 2'
    rule a_later_answer_of_the_configuration_binds 'executions_own + executions_undivided + executions_split == 4'
    rule a_configuration_may_be_filled_again 'executions_own + executions_undivided + executions_split == 1'
    rule a_plan_may_get_another_configuration 'executions_own + executions_undivided + executions_split == 1'
    rule without_a_question_the_plans_own_need_holds 'executions_undivided > 10'
    rule without_a_question_the_plans_own_need_holds 'executions_split > 10' 'within 4096' $small
    rule a_missing_workspace_is_no_catastrophe 'executions_undivided > 0'
    rule a_missing_workspace_is_no_catastrophe 'executions_undivided > 0' 'within 4096' $small
    rule a_shrunk_plan_never_runs_itself 'executions_undivided + executions_split > 10' '' $small
    rule a_plan_that_was_not_shrunk_runs_itself_in_trouble 'executions_undivided + executions_split > 0'
    rule one_generous_answer_at_a_time 'executions_undivided + executions_split > 0'
    rule plans_from_json_are_plans_like_others 'graph_plans == 1 && executions_undivided + executions_split == 2' '' $small
    rule plans_without_a_device_run_on_one 'executions_undivided + executions_split > 0' "$properties" MICRODNN_SIM_PROFILE=h200
    rule any_handle_on_any_stream_runs_a_plan 'executions_undivided + executions_split == 9' '' $small
    rule a_plan_outlives_its_handle 'passed_capture == 0 && executions_undivided + executions_split == 4'
    rule a_plan_outlives_its_handle 'passed_capture == 0 && executions_split == 4' 'within 4096' $small
    rule the_current_device_may_be_another 'executions_undivided > 0 && passed_trouble == 0 && rows_of_others == 0' '' MICRODNN_SIM_DEVICES=2
    rule the_current_device_may_be_another 'executions_split > 0 && passed_trouble == 0 && rows_of_others == 0' 'within 4096' $small MICRODNN_SIM_DEVICES=2
    rule two_threads_run_one_plan_on_two_streams 'calls_graph_execute == 24 && executions_undivided + executions_split > 0'
    rule two_threads_run_one_plan_on_two_streams 'calls_graph_execute == 24 && executions_split > 0' 'within 4096' $small
    rule capture_of_an_unknown_plan_passes 'passed_capture == 1 && executions_passed == 1'
    rule capture_of_a_known_plan_replays 'passed_capture == 0 && executions_undivided + executions_split == 9' '' $small
    rule a_forked_child_passes 'executions_undivided + executions_split == 1' '' $small
    rule a_shrunk_plan_does_not_run_itself_at_exit 1 '' $small
    also switched_off_everything_is_as_without disabled_says_nothing MICRODNN_DISABLE=1 $small
    rule everything_is_as_without 'executions_passed > 50 && passed_disabled > 0' 'policy off' MICRODNN_CONVOLUTION_POLICY=off $small
    rule everything_is_as_without 'executions_passed > 50 && passed_same_bits > 0' 'deterministic' CUBLAS_WORKSPACE_CONFIG=:4096:8
    rule everything_is_as_without 'executions_passed > 50 && passed_same_bits > 0' 'same bits' MICRODNN_CONVOLUTION_SAME_BITS=yes
    rule a_device_may_be_reset 'executions_undivided + executions_split > 0 && passed_trouble == 0' '' $small
    also a_device_that_was_reset_is_held a_reset_takes_no_kernels
    rule packs_are_understood_however_made 'executions_undivided + executions_split > 50' '' $small
    rule uids_are_names_not_places 'executions_undivided > 10'
    rule uids_are_names_not_places 'executions_split > 10' 'within 4096' $small
    rule later_parts_of_a_gradient_add 'executions_split > 10' '' MICRODNN_WORKSPACE_LIMIT=16384 MICRODNN_CONVOLUTION_BATCH_SIZES=all
    rule nothing_is_kept_of_what_was_destroyed 1
    rule addresses_may_be_used_again 'executions_undivided + executions_split > 20' '' $small $reuse
    rule a_descriptor_may_be_initialized 'executions_undivided + executions_split == 2 && executions_passed == 0' '' $small
    rule wrong_calls_get_the_same_statuses 'executions_undivided + executions_split == 2 && passed_trouble == 0' '' $small
    rule cuda_graphs_are_as_cudnn_makes_them 'graph_plans > 1' '' $small
    rule unknown_graphs_keep_their_bits 'graph_plans == 0 && graph_plans_layout > 0 && graph_plans_many > 0 && executions_passed > 0' '' $small
    rule a_pointwise_graph_keeps_its_bits 'graph_plans_other == 1 && executions_passed == 1'
    rule plans_that_repeat_never_run_what_varies 'executions_undivided > 50' 'without workspace' MICRODNN_WORKSPACE_LIMIT=0
    rule plans_that_repeat_never_run_what_varies 'executions_split > 50' 'within 4096' $small
    rule strict_plans_never_run_tensor_cores 'executions_undivided > 50'
    rule direct_plans_stay_direct 'executions_undivided > 0' free
    rule direct_plans_stay_direct 'executions_undivided > 0' direct MICRODNN_CONVOLUTION_NUMERICS=direct
    for schema in $(few 0 '5 0'); do
        unread=MICRODNN_SIM_PLAN_SCHEMA=$schema
        rule graphs_are_known_without_json 'graph_plans >= 8 && graph_plans_unknown == 2 && executions_passed == 2 && executions_split + executions_undivided == 24 && executions_split > 10' \
            "schema $schema" $small $unread
        rule an_answer_is_all_that_is_touched 'graph_plans_unknown == 1 && executions_split > 20' "schema $schema" $small $unread
        rule a_descriptor_may_be_initialized 'graph_plans_unknown == 1 && executions_undivided + executions_split == 2' "schema $schema" $small $unread
    done
    unread=MICRODNN_SIM_PLAN_SCHEMA=5
    also it_is_said_once_that_graphs_are_followed says_once_that_it_follows $small $unread
    rule no_answer_exceeds_the_limit 'graph_plans_unknown == 1 && graph_plans > 20' 4096 $small $unread
    rule a_later_answer_of_the_configuration_binds 'graph_plans_unknown == 1' unread $unread
    rule two_threads_run_one_plan_on_two_streams 'graph_plans_unknown == 1 && executions_split > 0' unread $small $unread
    rule two_threads_build_graphs 'graph_plans > 20 && graph_plans_unknown == 0' '' $small
    rule two_threads_build_graphs 'graph_plans > 20 && graph_plans_unknown == 1' unread $small $unread $reuse
    rule packs_are_understood_however_made 'graph_plans_unknown == 1 && executions_undivided + executions_split > 50' unread $small $unread
    rule uids_are_names_not_places 'graph_plans_unknown == 1 && executions_split > 10' unread $small $unread
    rule later_parts_of_a_gradient_add 'graph_plans_unknown == 1 && executions_split > 10' unread MICRODNN_WORKSPACE_LIMIT=16384 MICRODNN_CONVOLUTION_BATCH_SIZES=all $unread
    rule nothing_is_kept_of_what_was_destroyed 'graph_plans_unknown == 1' unread $unread
    rule addresses_may_be_used_again 'graph_plans_unknown == 1 && executions_undivided + executions_split > 20' unread $small $reuse $unread
    rule wrong_calls_get_the_same_statuses 'graph_plans_unknown == 1 && passed_trouble == 0' unread $small $unread
    rule unknown_graphs_keep_their_bits 'graph_plans == 0 && graph_plans_unknown == 1 && graph_plans_layout > 0 && graph_plans_many > 0' unread $small $unread
    rule a_pointwise_graph_keeps_its_bits 'graph_plans_unknown == 1 && graph_plans_other == 1' unread $unread
    rule strict_plans_never_run_tensor_cores 'graph_plans_unknown == 1 && executions_undivided > 50' unread $unread
    for direction in 2 3; do
        rule_of graph_faults any_failing_allocation_of_a_graph_is_survived 'graph_plans_unknown > 10 && graph_plans > 0' "$direction" $unread
        thorough || [ "$direction" = 2 ] || continue
        rule_of graph_faults any_failing_backend_call_is_survived 'executions_undivided > 20' "$direction unread" $unread
        rule_of graph_faults any_failing_allocation_is_survived 'calls_graph_execute > 20' "$direction unread" $unread
    done
    for direction in $(few '1 4' '0 1 2 3 4'); do
        rule_of graph_faults any_failing_backend_call_is_survived 'executions_undivided > 20' "$direction"
        rule_of graph_faults any_failing_allocation_is_survived 'calls_graph_execute > 20' "$direction"
    done
    for direction in $(few 2 '1 2'); do
        rule_of graph_faults any_failing_backend_call_is_survived 'executions_split > 0' "$direction" $small
    done
    rule_of graph_faults any_failing_backend_call_is_survived 'executions_split > 0' 3 $small MICRODNN_CONVOLUTION_BATCH_SIZES=all
    direction=0
    # Scratch of these small graphs is filled in one copy; test/faults.sh has larger ones.
    for call in cuMemAllocFromPoolAsync:1 cuMemAllocFromPoolAsync:2 cuMemFreeAsync:1 cuMemFreeAsync:2 cuMemGetInfo_v2:1 cuMemGetInfo_v2:2 \
        cuMemcpyHtoDAsync_v2:1 cuMemcpyHtoDAsync_v2:2 cuEventCreate:1 cuEventCreate:2 cuEventRecord:1 \
        cuEventRecord:2 cuEventSynchronize:1 cuEventSynchronize:2 cuEventElapsedTime_v2:1 \
        cuEventElapsedTime_v2:2 cuStreamCreate:1 cuStreamQuery:1 cuMemPoolCreate:1 cuMemPoolTrimTo:1 cuLaunchKernel:1 cuLaunchKernel:2; do
        thorough || [ "$call" = "${call%:2}" ] || continue
        rule_of graph_faults a_failing_driver_call_is_survived 'calls_graph_execute == 3' "$call:$direction"
        direction=$(((direction + 1) % 5))
    done
    also what_was_measured_is_remembered remembered
    also what_was_measured_within_a_limit_is_remembered remembered $small
}

tests=0 mode=count
table
plan "$tests"
mode=run
table
finish
