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

    # --- honest answers ---

    # --- steady state ---

    # --- trouble ---

    # --- one workspace for all (policy wd) ---

    # --- the graph API ---

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
