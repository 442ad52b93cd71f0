#!/bin/sh
# The simulated cuDNN is built as the real one: sonames, version nodes, run paths, calls between the
# sub-libraries by PLT, and a dispatcher that looks its own names up with the process's dlsym.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/../tap.sh"

sim=$MDNN_BUILD/sim
client=$MDNN_BUILD/test/sim/test_cudnn_ops
graph_client=$MDNN_BUILD/test/sim/test_cudnn_graph

[ -e "$sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"

dynamic() { readelf --wide -d "$sim/$1"; }
symbols() { readelf --wide --dyn-syms "$sim/$1"; }

every_library_has_its_soname_and_run_path() {
    for name in libcudnn.so.9 libcudnn_graph.so.9 libcudnn_ops.so.9 libcudnn_cnn.so.9; do
        dynamic "$name" | grep -F "soname: [$name]" || return 1
        dynamic "$name" | grep -F 'RUNPATH' | grep -F "\$ORIGIN" || return 1
        dynamic "$name" | grep -F 'SYMBOLIC' || return 1
    done
}

every_export_carries_its_library_as_the_version() {
    for name in libcudnn.so.9 libcudnn_graph.so.9 libcudnn_ops.so.9 libcudnn_cnn.so.9; do
        symbols "$name" | awk -v node="@@$name" '
            $5 == "GLOBAL" && $7 != "UND" && $7 != "ABS" && $4 == "FUNC" {
                exports++
                if (index($8, "cudnn") == 0 || substr($8, length($8) - length(node) + 1) != node) {
                    print "wrong: " $8
                    wrong = 1
                }
            }
            END { exit wrong || exports < 10 }' || return 1
    done
}

the_dispatcher_needs_no_cudnn_library() {
    ! dynamic libcudnn.so.9 | grep NEEDED | grep cudnn
}

sub_libraries_call_each_other_by_version() {
    for name in cudnnSetTensorNdDescriptor cudnnSetFilterNdDescriptor cudnnSetTensorNdDescriptorEx; do
        symbols libcudnn_cnn.so.9 | grep UND | grep -F "$name@libcudnn_ops.so.9" || return 1
    done
}

# One lookup of each used name, by that very name, from the dispatcher.
the_dispatcher_looks_its_own_names_up() {
    LD_PRELOAD=$MDNN_BUILD/test/sim/cudnn_count_dlsym.so "$client" >"$TMPDIR/out" 2>"$TMPDIR/lookups" ||
        { cat "$TMPDIR/lookups"; return 1; }
    for name in cudnnCreate cudnnPoolingForward cudnnSetConvolution2dDescriptor; do
        [ "$(grep -c "looks up $name\$" "$TMPDIR/lookups")" = 1 ] || { cat "$TMPDIR/lookups"; return 1; }
    done
}

a_fault_is_injected_by_name_and_number() {
    MICRODNN_SIM_FAULTS=cudnnPoolingForward:2:4000 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired \
        "$client" >"$TMPDIR/out" 2>&1 && return 1
    [ "$(cat "$TMPDIR/fired")" = cudnnPoolingForward:2:4000 ] || return 1
    grep -q 'cudnnPoolingForward.* gives CUDNN_STATUS_INTERNAL_ERROR' "$TMPDIR/out" ||
        { cat "$TMPDIR/out"; return 1; }
}

every_entry_of_the_backend_api_can_fail() {
    for name in CreateDescriptor DestroyDescriptor Initialize Finalize SetAttribute GetAttribute Execute \
        PopulateCudaGraph UpdateCudaGraph; do
        case $name in
        Populate* | Update* | Initialize) tests=cuda_graphs_are_not_populated ;;
        *) tests=execution_is_queued_on_the_handles_stream ;;
        esac
        MICRODNN_SIM_FAULTS=cudnnBackend$name:1:4000 "$graph_client" $tests >"$TMPDIR/out" 2>&1 &&
            { echo "cudnnBackend$name did not fail"; return 1; }
        grep -q 'CUDNN_STATUS_INTERNAL_ERROR' "$TMPDIR/out" || { cat "$TMPDIR/out"; return 1; }
    done
}

if [ "${MDNN_BUILD##*/}" = asan ] || [ "${MDNN_BUILD##*/}" = tsan ]; then
    plan 6
else
    plan 7
    check "the dispatcher looks its own names up with dlsym" the_dispatcher_looks_its_own_names_up
fi
check "every library has its soname, its run path and SYMBOLIC" every_library_has_its_soname_and_run_path
check "every export carries its library as the version" every_export_carries_its_library_as_the_version
check "the dispatcher needs no cuDNN library" the_dispatcher_needs_no_cudnn_library
check "sub-libraries call each other by versioned symbols" sub_libraries_call_each_other_by_version
check "MICRODNN_SIM_FAULTS fails every entry of the backend API" every_entry_of_the_backend_api_can_fail
check "MICRODNN_SIM_FAULTS fails the nth call of a cuDNN function" a_fault_is_injected_by_name_and_number
finish
