#!/bin/sh
# Puts defects back into the library, one at a time, and shows that a test catches each: failures that
# users of other preloaded libraries reported, and breaches of this project's own rules. `make
# test-mutants` builds the mutants and runs this (TAP).
#
#   test/mutants.sh              the tests: every mutant of the table must fail the test named with it
#   test/mutants.sh --list       names
#   MDNN_SHARD=2/8 test/mutants.sh   the second of eight parts of the table
#   test/mutants.sh --file NAME  the source that the mutant changes
#   test/mutants.sh --source NAME  that source with the defect, on standard output
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

# mutant NAME SOURCE SED_SCRIPT TEST...: the test is one of the functions below with its arguments. A
# script that changes nothing is an error, so that the table follows the sources.
table() {
    # --- how calls reach us (research of other preloaded libraries) ---

    # --- right results ---
    # Parts of a sum may overflow although the sum does not.
    mutant HALF_SPLIT shim/convolution/front_set.c 's/mdnn_problem_parts_may_add_up(problem) &&/(problem->w.type == CUDNN_DATA_HALF || mdnn_problem_parts_may_add_up(problem)) \&\&/' \
        magnitudes legacy_fp16_is_not_split graph_fp16_is_not_split
    mutant LESS_WORKSPACE_IS_TOO_LITTLE shim/convolution/execute.c \
        '/^static bool lacks_workspace/,/^}/s/^    return /    return false \&\& /' \
        magnitudes legacy_bf16_is_split_where_alpha_enlarges_nothing
    mutant NONDETERMINISTIC_FOR_DETERMINISTIC shim/convolution/execute.c 's/\.deterministic = .*/.deterministic = false,/' \
        hooks results_that_must_repeat_do

    # --- honest answers ---
    # ucudnn: the count of results was never written.
    mutant RETURNED_COUNT_NOT_WRITTEN shim/convolution/reply.c \
        's/^    \*returned = \(.*\);/    const int count_told = \1;/;s/(size_t)\*returned \* sizeof/(size_t)count_told * sizeof/' \
        hooks answers_are_complete_and_counted
    mutant WORKSPACE_TOO_LARGE_ANSWER shim/convolution/reply.c 's/^    \*bytes = ready->.*/    *bytes = stock_bytes;/' \
        behaviour find_tells_what_will_run
    mutant NAMED_ALGORITHM_REFUSED shim/convolution/reply.c 's/ && !is_stock))/ || !is_stock))/' hooks answers_are_complete_and_counted
    mutant LIMIT_IGNORED shim/convolution/plan_questions.c 's/workspace_bytes <= demand->workspace_bytes/workspace_bytes <= UINT64_MAX/' \
        hooks splits_fit_the_workspace

    # --- steady state ---
    mutant SYNC_PER_PART shim/convolution/execute.c \
        's/^        const cudnnStatus_t status = mdnn_call_run(&part);/&\n        cudaStream_t stream;\n        if (call->cudnn->cudnnGetStream(call->handle, \&stream) == CUDNN_STATUS_SUCCESS)\n            (void)mdnn_real_driver()->cuStreamSynchronize(stream);/' \
        behaviour known_problems_wait_for_nothing
    mutant ALLOC_PER_CALL shim/convolution/execute.c \
        's/^        const cudnnStatus_t status = mdnn_call_run(&part);/&\n        void *volatile block = malloc(64);\n        free(block);/;s/^#include "config\/log.h"/#include <stdlib.h>\n&/' \
        behaviour known_problems_allocate_nothing
    mutant PLANNER_STOPS_OTHERS shim/convolution/planning.c '/^bool mdnn_planning_begin(/,/^}/s/^    const bool begins = .*/    while (somebody_plans) {\n        mdnn_unlock(\&planning_lock);\n        (void)usleep(1000);\n        mdnn_lock(\&planning_lock);\n    }\n&/;s/^#include <time.h>/&\n#include <unistd.h>/' \
        waiting_streams a_thread_that_waits_stops_no_other
    mutant MEASURE_IN_CAPTURE shim/convolution/plan.c 's/^    if (mdnn_planning_is_captured(call, driver))/    if (0 \&\& mdnn_planning_is_captured(call, driver))/' \
        behaviour capture_of_an_unknown_problem_passes

    # --- trouble ---
    mutant FIRST_FAILURE_TOLD shim/convolution/execute.c 's/return i == 0 || may_be_redone/return may_be_redone/' \
        hooks a_failing_first_part_becomes_the_callers_call
    mutant LATER_FAILURE_HIDDEN shim/convolution/execute.c 's/pass(call) : status;/pass(call) : CUDNN_STATUS_SUCCESS;/' \
        hooks a_failing_later_part_is_told
    mutant SUM_FAILURE_TOLD shim/convolution/execute.c 's/beta_is_zero || part->accumulator;/beta_is_zero;/' \
        hooks a_failing_later_part_becomes_the_callers_call
    mutant BETA_APPLIED_TWICE shim/convolution/execute.c 's/return problem->beta_is_zero || part->accumulator;/return true;/' \
        hooks a_failing_later_part_is_told
    mutant FAILURE_REPEATED shim/convolution/execute.c 's/^        mdnn_conv_plan_give_up(plan);//' hooks a_failing_first_part_becomes_the_callers_call

    # --- one workspace for all (policy wd) ---
    mutant ARENA_WITHOUT_WAIT shim/convolution/lease.c 's/^    if (!slot->used || driver->cuStreamWaitEvent(.*/    if (1)/' arena many_streams 2097152
    mutant ARENA_OTHERS_IGNORED shim/convolution/lease.c 's/^        if (others >> i & 1 &&/        if (0 \&\&/' arena many_streams 2097152
    mutant ARENA_USE_NOT_MARKED shim/convolution/lease.c 's/^    if (slot->event && driver->cuEventRecord(.*/    if (1) {/' arena many_streams 2097152
    mutant ARENA_TAKEN_AT_ONCE shim/convolution/arena_streams.c 's/^            arena->slots\[i\].waits |= used.*/            ;/' arena many_streams 2097152
    mutant ARENA_REGIONS_OVERLAP optimizer/wd_policy.c 's/{g \* share, share}/{0, bytes}/' arena branches 2097152
    mutant CAPTURES_SHARE_MEMORY shim/convolution/arena_captures.c 's/^        arena->divisible_bytes -= bytes;//' arena captures 2097152
    mutant CAPTURE_TAKES_WHAT_IS_IN_USE shim/convolution/arena_captures.c 's/(is_at_rest(arena) || /(1 || /' arena captures_in_flight 2097152
    mutant ARENA_NOT_PROMISED shim/convolution/lease.c 's/^    if (!wanted && least > demand->workspace_bytes)/    if (0)/' arena many_streams_of_the_same_bits 8192

    # --- the graph API ---
    mutant TOLD_IS_LAST shim/graph/graph_shadow.c 's/^    return bytes < told ? bytes : told;/    return bytes;/;s/^    while (bytes < told \&\& !atomic/    while (!atomic/' \
        graph_rules a_shrunk_plan_never_runs_itself
    mutant ASKED_LATER shim/graph/graph_shadow.c 's/^    if (number == 0)/    if (1)/' \
        graph_rules a_later_answer_of_the_configuration_binds
    mutant GIVEN_CONFIGURATION shim/graph/graph_reply.c 's/^        follow_configuration(descriptor, elements);/        (void)follow_configuration;/' \
        graph_rules a_later_answer_of_the_configuration_binds
    mutant INITIALIZED_PASSES shim/interpose/hook_graph.c 's/^    mdnn_shadow_renew(descriptor);/    mdnn_shadow_destroy(descriptor);/' \
        graph_rules a_descriptor_may_be_initialized
    mutant SHRUNK_PLAN_RUNS shim/graph/graph_execute.c 's/own_plan_may_run = told >= record->own_bytes;/own_plan_may_run = true;/' \
        graph_rules a_shrunk_plan_never_runs_itself
    mutant SHRUNK_PLAN_IN_CUDA_GRAPH shim/graph/graph_execute.c 's/^    if (execution.own_plan_may_run)$/    if (1)/' \
        graph_rules cuda_graphs_are_as_cudnn_makes_them
    mutant SHRUNK_PLAN_AT_EXIT shim/graph/graph_execute.c 's/^    if (mdnn_process_state() != MDNN_PROCESS_EXITING)/    if (1)/' \
        graph_rules a_shrunk_plan_does_not_run_itself_at_exit
    mutant SHADOW_OUTLIVES shim/graph/graph_shadow.c '/^void mdnn_shadow_destroy/,/^}/s/detach(descriptor)/NULL/' \
        graph_rules nothing_is_kept_of_what_was_destroyed
    mutant GENEROUS_TO_ALL shim/convolution/plan_questions.c '/^    return !atomic_exchange(&plan->generous/,/;/c\    return true;' \
        graph_rules one_generous_answer_at_a_time
    mutant GENEROUS_NEVER_AGAIN shim/graph/graph_execute.c 's/^    settle_workspace_overcommit(&execution);//' \
        graph_rules one_generous_answer_at_a_time
    mutant GENEROUS_WITHOUT_LIMIT shim/graph/graph_record.c 's/^    return most < user_limit ? most : user_limit;/    return most;/' \
        graph_rules no_answer_exceeds_the_limit
    mutant PARTS_GET_THE_WHOLE_PACK shim/convolution/execute.c 's/^        if (count > 1 || !call->pack_fits)/        if (!call->pack_fits)/' \
        graph_rules an_answer_is_all_that_is_touched
    mutant FOREIGN_NAMES_FIT shim/graph/graph_execute.c 's/^            names_agree(.*/true;/' \
        graph_rules uids_are_names_not_places
    mutant STRICTNESS_IGNORED shim/convolution/plan_questions.c 's/(demand->strict && mdnn_conv_plan_may_round(problem) ? MDNN_DEMAND_STRICT : 0U)/0U/' \
        graph_rules strict_plans_never_run_tensor_cores
    mutant GRAPH_VARIES shim/graph/graph_record.c 's/\.deterministic = record->.*/.deterministic = false,/' \
        graph_rules plans_that_repeat_never_run_what_varies
    mutant GRAPH_INDIRECT shim/graph/graph_record.c 's/\.direct = direct_wanted && .*/.direct = false,/' \
        graph_rules direct_plans_stay_direct
    mutant GRAPH_BETA_NOT_ONE shim/convolution/front_set.c 's/^    return index == 0 ? MDNN_SCALING_CALLER : MDNN_SCALING_ADD;/    return MDNN_SCALING_CALLER;/' \
        graph_rules later_parts_of_a_gradient_add
    mutant UIDS_BY_ORDER shim/graph/graph_shadow.c 's/^        if (uids\[i\] != (uint64_t)uid)/        if (i != (uid == 120 ? 0 : uid == 121 ? 1 : 2))/' \
        graph_rules packs_are_understood_however_made
    mutant PACK_OF_SIXTEEN shim/graph/graph_shadow.c 's/^    values->count = room ? count : -1;/    values->count = room \&\& count <= MDNN_PACK_POINTERS ? count : -1;/' \
        graph_rules packs_are_understood_however_made
    mutant PACK_NOT_FINALIZED shim/graph/graph_execute.c 's/(execution->pack && !execution->pack->pack.finalized)/0/' \
        graph_rules packs_are_understood_however_made
    mutant NULL_HANDLE_TAKEN shim/graph/graph_execute.c 's/^    if (!handle || !pack ||/    if (/' \
        graph_rules wrong_calls_get_the_same_statuses
    mutant GRAPH_MEASURED_IN_CAPTURE shim/convolution/plan.c 's/^    if (mdnn_planning_is_captured(call, driver))/    if (0 \&\& mdnn_planning_is_captured(call, driver))/' \
        graph_rules capture_of_an_unknown_plan_passes
    mutant ANY_LAYOUT_TAKEN shim/graph/graph_chain.c 's/^    if (!layouts_are_ours(said, &chain))/    if (0)/' \
        graph_rules unknown_graphs_keep_their_bits

    # --- virtual memory: failures of the driver (of its rules: test/memory_mutants.sh) ---
    mutant COPY_FAILURE_HIDDEN shim/device/memory_device.c 's/^    MDNN_TRY(mdnn_failure_note(out ? driver/    (void)(mdnn_failure_note(out ? driver/' \
        every_fault cuMemcpyHtoDAsync_v2
    mutant FAILED_QUERY_IS_OVER shim/device/timelines.c \
        's/^        status = mdnn_timeline_note(result);/        status = mdnn_timeline_note(result == CUDA_ERROR_NOT_READY ? result : CUDA_SUCCESS);/' \
        every_fault cuEventQuery

    # --- virtual memory: what the hooks and graphs hold ---
    mutant REFUSED_ATTRIBUTE_PINS shim/interpose/hook_driver_misc.c '/^static CUresult keep_or_drop/,/^}/s/mdnn_pins_drop(pins)/mdnn_pins_leave(pins)/' \
        budgeted virtual_pins attribute
    # What is only asked about needs no room; and the answer is the allocation's own.
    mutant QUESTION_NEEDS_ROOM shim/vmem/virtual_memory.c '/^static CUdeviceptr sample_of/,/^}/s/^               : mdnn_device_memory_sample.*/               : 0;/' \
        budgeted_aloud virtual_pins questions
    mutant ANSWER_OF_THE_SAMPLE shim/interpose/hook_driver_misc.c 's/^        memcpy(value, &address, sizeof address);/        ;/' \
        budgeted_aloud virtual_pins questions
    mutant SAMPLES_IDENTITY shim/interpose/hook_driver_misc.c 's/^        memcpy(value, &(uint64_t){ours + number}, sizeof number);/        ;/' \
        budgeted_aloud virtual_pins questions
    mutant NO_ROOM_TO_BE_TOLD shim/interpose/hook_driver_misc.c 's/return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_NOT_SUPPORTED : result;/return result;/' \
        budgeted_aloud virtual_pins questions
    mutant TEXTURE_OUTLIVES_ITS_END shim/interpose/hook_driver_misc.c '/^CUresult mdnn_hook_cuTexObjectDestroy/,/^}/s/mdnn_pins_drop(pins)/mdnn_pins_leave(pins)/' \
        budgeted virtual_pins texture
    mutant REFUSED_TEXTURE_PINS shim/interpose/hook_driver_misc.c '/^CUresult mdnn_hook_cuTexObjectCreate/,/^}/s/mdnn_pins_drop(pins)/mdnn_pins_leave(pins)/' \
        budgeted virtual_pins texture
    mutant FREE_WAITS_FOR_NAMED_ONLY shim/vmem/virtual_memory.c 's/^        wait_for_unnamed_uses(device, address);/        ;/' budgeted virtual_pins freed_in_use
    mutant NODE_OUTLIVES_THE_FREE shim/vmem/virtual_memory.c 's/^        if (!capture \&\& !ours)/        if (0)/' \
        budgeted virtual_pins executable_node
mutant WORKSPACE_IS_TAKEN_AND_USELESS shim/vmem/virtual_workspaces.c 's/^           !mdnn_memory_workspace_fits(.*/           device->bytes == 0;/' tight graph 26MiB
    mutant WORKSPACE_IS_NOT_HALVED shim/vmem/workspace_sizes.c 's/^    if (half.bytes > 1)/    if (0)/' tight halves 22MiB
    mutant WORKSPACES_USED_ARE_FORGOTTEN shim/vmem/virtual_workspaces.c 's/^            mdnn_workspace_was_used(.*/            device->bytes == 0) \&\&/' tight late 28MiB
    mutant OTHER_PLANS_ARE_NOT_WANTED shim/vmem/workspace_sizes.c 's/kept->wanted = !kept->refused \&\& kept->bytes > 0 .*/kept->wanted = false;/' tight late 28MiB
    mutant WANTED_FOR_EVER shim/vmem/workspace_sizes.c '/^void mdnn_workspace_over/,/^}/s/^    .*//' tight tensors 26MiB
    mutant WORKSPACE_KEPT_WITH_NO_ROOM shim/convolution/execute.c 's/^    if (mdnn_convolution_fits(call) ||/    if (1 ||/' tight kept 26MiB
        mutant UNPINNED_TWICE shim/vmem/virtual_operations.c 's/^        if (known < count)$/        if (0)/' budgeted virtual_graphs named_twice
    mutant ANY_POOL_IS_THE_DEVICES shim/interpose/hook_driver_pools.c 's/^        if (known == pool || current_pool(device) == pool)/        if (1)/' \
        budgeted virtual_async own_pool
    mutant STREAM_FORGOTTEN_AT_WORK shim/device/timeline_streams.c 's/^            if (!stream->ended || stream->done < stream->marked) {/            if (!stream->ended) {/' \
        budgeted virtual_async work_of_a_stream_that_ends
    mutant NAME_LOST shim/vmem/virtual_operations.c 's/^        operation->overflowed = true;/        ;/' \
        budgeted virtual_names of_a_batch
    mutant GRAPHS_NAMES_LOST shim/vmem/virtual_graphs.c 's/^        operation->overflowed = true;/        ;/' \
        budgeted virtual_names of_a_graph
    mutant MEMORY_OF_THE_CURRENT_DEVICE shim/vmem/virtual_memory.c 's/^    CUcontext const context = synchronous ? NULL : context_of(stream);/    CUcontext const context = NULL;/' \
        budgeted virtual_async stream_of_another_device
    mutant GRAPHS_MEMORY_IS_FREED_ONCE shim/vmem/virtual_graphs.c 's/^    (void)mdnn_memory_revive(device->memory, address);//' \
        budgeted virtual_async freed_after_each_launch
    mutant RELAUNCHED_BEFORE_THE_FREE shim/vmem/virtual_graphs.c 's/^    if (!out)$/    if (1)/' budgeted virtual_async freed_after_each_launch
    mutant NOTHING_IS_FREED_BY_LAUNCHES shim/vmem/virtual_graphs.c 's/^        end_others(device, what->address, stream);/        ;/' \
        budgeted virtual_async freed_by_another_graph
    mutant CAPTURES_FREE_ANYTHING shim/vmem/virtual_holds.c 's/status = !mdnn_captures_is_made(mdnn_virtual_captures(), address)$/status = 0/' \
        budgeted virtual_async not_a_graphs
    mutant REFUSED_NODE_HOLDS shim/vmem/virtual_graphs.c 's/^        if (!made)$/        if (0)/' budgeted virtual_pins refused_node

}

# --- tests: each runs with the library $1, its output does not matter ---
preload() { echo "${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$1"; }
hooks() {
    hooks_library=$1
    shift
    MDNN_LIBRARY=$hooks_library test/limits.py --cpu 20 --idle 20 test/hooks.sh "$@"
}
behaviour() { MDNN_LIBRARY=$1 test/limits.py --cpu 60 --idle 60 test/behaviour.sh "$2"; }
waiting_streams() { MDNN_LIBRARY=$1 test/waiting_streams.sh "$2"; }
magnitudes() {
    magnitudes_library=$1
    shift
    MDNN_LIBRARY=$magnitudes_library test/limits.py --cpu 60 --idle 60 test/magnitudes.sh "$@"
}
# Under policy wd: right results, in silence. One order of work may hide a missing wait.
arena() { # library, program, total
    rm -f "$TMPDIR/arena.log"
    for arena_seed in 1 2 3; do
        MICRODNN_SIM_SEED=$arena_seed MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
            MICRODNN_CONVOLUTION_POLICY=wd MICRODNN_CONVOLUTION_TOTAL_WORKSPACE="$3" \
            MICRODNN_LOG_FILE="$TMPDIR/arena.log" \
            test/limits.py --cpu 60 --idle 60 env LD_PRELOAD="$(preload "$1")" \
            "$MDNN_BUILD/test/clients/arena" "$2" "$3" || return 1
    done
    [ "$2" = captures_in_flight ] || [ ! -s "$TMPDIR/arena.log" ]
}
# Each call of a function of the driver that the library makes for itself fails once, in no program's sight.
every_fault() { # library, function
    MICRODNN_SIM_PROFILE=toy MICRODNN_MEMORY_BUDGET=6MiB MICRODNN_LOG_FILE=$TMPDIR/every_fault.log \
        MICRODNN_CONVOLUTION_POLICY=off \
        test/limits.py --cpu 120 --idle 120 env LD_PRELOAD="$(preload "$1")" \
            "$MDNN_BUILD/test/clients/every_fault" "$2" >"$TMPDIR/every_fault" &&
        ! grep -v ' 0 times told$' "$TMPDIR/every_fault"
}
# A client under a budget of 48 MiB, with the library's threads; the first says nothing.
budgeted() { budgeted_aloud "$@" && [ ! -s "$TMPDIR/budgeted.log" ]; }
budgeted_aloud() { # library, client, program
    rm -f "$TMPDIR/budgeted.log"
    MICRODNN_SIM_THREADS=1 MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_LOG_FILE=$TMPDIR/budgeted.log \
        MICRODNN_CONVOLUTION_POLICY=off MICRODNN_SIM_UNNAMED=1 MICRODNN_SIM_DEVICES=2 \
        test/limits.py --cpu 60 --idle 60 env LD_PRELOAD="$(preload "$1")" \
            "$MDNN_BUILD/test/clients/$2" "$3"
}
# Each client finds memory for its convolutions, and computes what it computes alone.
tight() { # library, what, budget
    MICRODNN_SIM_PROFILE=toy MICRODNN_MEMORY_BUDGET=$3 MICRODNN_CONVOLUTION_POLICY=off \
        MICRODNN_LOG_FILE=$TMPDIR/tight.log test/limits.py --cpu 60 --idle 60 env LD_PRELOAD="$(preload "$1")" \
            "$MDNN_BUILD/test/clients/tight_workspaces" "$2" >"$TMPDIR/tight" 2>&1
}
graph_rules() { MDNN_LIBRARY=$1 test/limits.py --cpu 60 --idle 60 test/graph_rules.sh "$2"; }
routes() { MDNN_LIBRARY=$1 test/limits.py --cpu 60 --idle 60 test/routes.sh; }
exports() { shim/interpose/check-exports "$1"; }
without_cuda() {
    env -u LD_LIBRARY_PATH LD_PRELOAD="$(preload "$1")" python3 -c 'import ctypes, sys
sys.exit(hasattr(ctypes.CDLL(None), "cudaMalloc"))'
}
# The matrix up to 127 images.
matrix() {
    [ -e "$TMPDIR/record" ] || "$MDNN_BUILD/test/clients/conv_matrix" record "$TMPDIR/record" || return 1
    MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_WORKSPACE_LIMIT=16384 \
        test/limits.py --cpu 60 --idle 60 env LD_PRELOAD="$(preload "$1")" \
            "$MDNN_BUILD/test/clients/conv_matrix" check \
        "$TMPDIR/record" 16384 bitwise 127
}

passes_unharmed() { "$1" "$MDNN_BUILD/libmicrodnn.so" ${2:+"$2"} ${3:+"$3"}; }
fails_with() { # mutant, test, arguments
    fails_mutant=$MDNN_BUILD/mutants/$1/libmicrodnn.so
    [ -e "$fails_mutant" ] || { echo "$fails_mutant was not built"; return 1; }
    fails_test=$2
    shift 2
    ! "$fails_test" "$fails_mutant" "$@" >"$TMPDIR/said" 2>&1 || { cat "$TMPDIR/said"; return 1; }
}

case ${1:-} in
--list)
    mutant() { echo "$1"; }
    table
    ;;
--file | --source)
    mutant() {
        [ "$1" != "$wanted" ] || { mutant_file=$2 mutant_script=$3; }
    }
    wanted=$2
    table
    [ -n "${mutant_file:-}" ] || { echo "no mutant $2" >&2; exit 1; }
    [ "$1" = --source ] || { echo "$mutant_file"; exit; }
    # `line` keeps the compiler's messages and __FILE__ as they are in the source itself.
    changed=$(sed -e "$mutant_script" "$mutant_file"; echo .)
    [ "$changed" != "$(cat "$mutant_file"; echo .)" ] || {
        echo "$2 changes nothing in $mutant_file" >&2
        exit 1
    }
    printf '%s' "${changed%.}"
    ;;
*)
    mutant() {
        mutant_name=$1
        shift 3
        in_shard || return 0
        case $seen in
        *"|$*|"*) ;;
        *) seen="$seen$*|" ;;
        esac
        [ "$mode" = seen ] || check "$mutant_name is caught by $*" fails_with "$mutant_name" "$@"
    }
    mode=seen seen='|'
    shard_begins
    table
    tests=$(printf '%s' "$seen" | tr '|' '\n' | grep -c .)
    plan $((tests + shard_count))
    old_ifs=$IFS IFS='|'
    for test in ${seen#|}; do
        IFS=$old_ifs
        # shellcheck disable=SC2086 # a function and its arguments
        check "the library as it is passes $test" passes_unharmed $test
    done
    IFS=$old_ifs mode=run
    shard_begins
    table
    finish
    ;;
esac
