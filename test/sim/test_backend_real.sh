#!/bin/sh
# What test_backend_rules.c and plan_graphs.c find in the simulated cuDNN, the real one says too. It
# plans without a GPU; where it is not installed, there is nothing to ask.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/../tap.sh"
# shellcheck source=test/nvidia.sh
. "$(dirname "$0")/../nvidia.sh"

here=$(dirname "$0")
data=$here/../data
rules=$MDNN_BUILD/test/sim/test_backend_rules
plans=$MDNN_BUILD/test/tools/plan_graphs
real=$(nvidia_directory)

[ -x "$rules" ] || skip_all "there is no simulated GPU in this build"
skip_all_under_sanitizers

every_rule_holds_in_the_real_library() {
    with_nvidia "$rules"
}

# Up to the device: names of simulated ones differ. The knobs are each library's own.
graphs_only() { sed 's/,"GPUProfile".*//' "$1"; }

the_simulator_writes_the_same_graphs() {
    mkdir "$TMPDIR/simulated" || return 1
    "$plans" "$data/h200-deviceprop.json" "$TMPDIR/simulated" >"$TMPDIR/out" || return 1
    for kept in "$data"/plan-json/*.json; do
        graphs_only "$kept" >"$TMPDIR/kept"
        graphs_only "$TMPDIR/simulated/${kept##*/}" >"$TMPDIR/written"
        diff "$TMPDIR/kept" "$TMPDIR/written" || { echo "${kept##*/}"; return 1; }
    done
}

the_kept_plans_are_what_the_library_writes() {
    mkdir "$TMPDIR/real" || return 1
    with_nvidia "$plans" "$data/h200-deviceprop.json" "$TMPDIR/real" >"$TMPDIR/out" || return 1
    diff -r "$data/plan-json" "$TMPDIR/real"
}

is_9_19() { with_nvidia "$plans" --version | grep -qx 919..; }

plan 3
check "the simulated library writes the real one's graphs" the_simulator_writes_the_same_graphs
if [ -z "$real" ]; then
    skip "every rule holds in the real library" "NVIDIA's cuDNN is not installed"
    skip "the kept plans are what the library writes" "NVIDIA's cuDNN is not installed"
elif ! is_9_19; then
    skip "every rule holds in the real library" "the rules are those of cuDNN 9.19"
    skip "the kept plans are what the library writes" "they are cuDNN 9.19's"
else
    check "every rule holds in the real library" every_rule_holds_in_the_real_library
    check "the kept plans are what the library writes" the_kept_plans_are_what_the_library_writes
fi
finish
