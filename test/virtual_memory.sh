#!/bin/sh
# Programs that hold more than their budget, on the simulated GPU, whose order of work shows missing
# waits and where a stray access faults: random work against a model (test/clients/virtual_memory.c),
# and training, whose losses are the same to the last bit.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

client=$MDNN_BUILD/test/clients/virtual_memory
graphs=$MDNN_BUILD/test/clients/virtual_graphs
train_cnn=$MDNN_BUILD/train_cnn
data=$(dirname "$0")/../docs/examples/data
stats=$TMPDIR/stats.json
log=$TMPDIR/log
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
MICRODNN_SIM_PROFILE=toy
MICRODNN_CONVOLUTION_POLICY=off
MICRODNN_STATS=json
MICRODNN_STATS_FILE=$stats
MICRODNN_LOG_FILE=$log
export MICRODNN_SIM_PROFILE MICRODNN_CONVOLUTION_POLICY MICRODNN_STATS MICRODNN_STATS_FILE
export MICRODNN_LOG_FILE

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"

mebibyte=1048576
seconds=120
[ -z "${MDNN_PRELOAD_FIRST:-}" ] || seconds=900 # a sanitizer is up to fifteen times slower

# under BUDGET COMMAND...: the library's lines go to $log
under() {
    budget=$1
    shift
    : >"$log"
    (
        export MICRODNN_MEMORY_BUDGET="$budget"
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library"
        exec timeout "$seconds" "$@"
    )
}

# holds EXPRESSION: of `memory`, the statistics of device 0, `memories`, those of all, and of a and b, the results of two runs
holds() {
    python3 - "$stats" "$TMPDIR" "$1" <<'PYTHON'
import json, os, sys
memories = json.load(open(sys.argv[1]))["memory"]
memory = memories[0]
a, b = (json.load(open(path)) if os.path.exists(path) else {}
        for path in (os.path.join(sys.argv[2], name) for name in ("a.json", "b.json")))
if not eval(sys.argv[3]):
    sys.exit(f"not so: {sys.argv[3]}\n{memory}\n{a.get('losses')}\n{b.get('losses')}")
PYTHON
}

said_nothing() { [ ! -s "$log" ] || { cat "$log"; return 1; }; }

in_budget="memory['peak_resident_bytes'] <= memory['budget_bytes']"

each_in_budget="len(memories) == 2 and all(each['peak_resident_bytes'] <= each['budget_bytes'] and
    each['out_bytes'] > 0 for each in memories)"

# program NAME: right without the library, and under a budget of half of what it holds
program() {
    timeout "$seconds" "$client" "$1" 1 $((90 * mebibyte)) || { echo "wrong by itself"; return 1; }
    for seed in 1 2 3 4; do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$client" "$1" "$seed" $((90 * mebibyte)) ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['out_bytes'] > 0 and memory['in_bytes'] > 0" &&
            said_nothing || { echo "seed $seed"; return 1; }
    done
}

# Work in contexts of the program's own is counted, and what ends with them is free again.
own_contexts() {
    program contexts && holds "memory['live_bytes'] == 0 and memory['peak_live_bytes'] > 80 * 2**20"
}

# graph NAME: what the program freed serves nobody else while a graph can use it, and again from then on
graph() {
    for seed in 1 2; do
        for safety in fast host verify; do
            MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) \
                "$graphs" "$1" || { echo "seed $seed, $safety"; cat "$log"; return 1; }
            holds "$in_budget and memory['refused'] == 0" && said_nothing ||
                { echo "seed $seed, $safety"; return 1; }
        done
    done
}

# It runs while no memory is under a budget, is refused then, and one line says why.
unreadable_kernel() {
    under $((48 * mebibyte)) "$client" unreadable 1 $((90 * mebibyte)) || { cat "$log"; return 1; }
    [ "$(wc -l <"$log")" = 1 ] && grep -q 'does not tell what a kernel is given' "$log"
}

# A device that is reset is as if it had never been used.
resets() { # program safety
    for seed in 1 2 3; do
        MICRODNN_SIM_MEMORY=$((130 * mebibyte)) MICRODNN_SIM_SEED=$seed timeout "$seconds" \
            "$client" "$1" "$seed" $((90 * mebibyte)) || { echo "seed $seed: wrong by itself"; return 1; }
        MICRODNN_MEMORY_SAFETY=$2 MICRODNN_SIM_MEMORY=$((130 * mebibyte)) MICRODNN_SIM_SEED=$seed \
            under $((48 * mebibyte)) "$client" "$1" "$seed" $((90 * mebibyte)) ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget" && said_nothing || { echo "seed $seed"; return 1; }
    done
}

# Calls of ours that fail once are made again, or give up without the program's noticing.
survives_failures() {
    for seed in 1 2 3; do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$client" faulty "$seed" \
            $((90 * mebibyte)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['out_bytes'] > 0" && [ "$(wc -l <"$log")" -le 1 ] ||
            { echo "seed $seed"; cat "$log"; return 1; }
    done
}

# Any call of the set-up: the program runs on the driver's own memory, and one line says so.
goes_without() {
    for call in cuMemAddressReserve:1 cuDeviceTotalMem_v2:1 cuStreamCreateWithPriority:2; do
        MICRODNN_SIM_FAULTS=$call:801 under $((48 * mebibyte)) "$client" one_stream 1 \
            $((90 * mebibyte)) || { echo "$call"; cat "$log"; return 1; }
        [ "$(wc -l <"$log")" = 1 ] &&
            grep -q 'device 0 goes without a budget: .*(CUDA error 801)' "$log" ||
            { echo "$call"; cat "$log"; return 1; }
    done
}

two_devices() {
    for seed in 1 2 3; do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$client" devices "$seed" \
            $((160 * mebibyte)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget" && said_nothing || return 1
    done
}

# Each uses the other's memory, by copies that name both devices, and if they reach each other, in any
# way; without the library, too.
peers() { # reach
    for seed in 1 2 3; do
        MICRODNN_SIM_PEERS=$1 MICRODNN_SIM_SEED=$seed timeout "$seconds" "$client" peers "$seed" \
            $((160 * mebibyte)) || { echo "seed $seed: wrong by itself"; return 1; }
        MICRODNN_SIM_PEERS=$1 MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$client" peers \
            "$seed" $((160 * mebibyte)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget and all(each['in_bytes'] > 0 for each in memories)" &&
            said_nothing || { echo "seed $seed"; return 1; }
    done
}

# safety = host: half of the kernels read in a table where to work, which none of their arguments names.
hidden() { # seeds, live bytes, program
    for seed in $1; do
        MICRODNN_SIM_UNNAMED=1 MICRODNN_MEMORY_SAFETY=host MICRODNN_SIM_SEED=$seed \
            under $((48 * mebibyte)) "$client" "$3" "$seed" "$2" hidden ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "all(each['peak_resident_bytes'] <= each['budget_bytes'] and each['safety'] == 'host' and
            each['saved_bytes'] + each['planned_leaves'] == 0 for each in memories)" &&
            holds "memory['out_bytes'] > 0 and memory['in_bytes'] > 0" && said_nothing ||
            { echo "seed $seed"; return 1; }
    done
}
hidden_program() {
    MICRODNN_SIM_UNNAMED=1 timeout "$seconds" "$client" "$1" 1 $((90 * mebibyte)) hidden ||
        { echo "wrong by itself"; return 1; }
    hidden "1 2" $((90 * mebibyte)) "$1"
}
hidden_peers() {
    hidden 1 $((160 * mebibyte)) devices && MICRODNN_SIM_PEERS=1 hidden "1 2" $((160 * mebibyte)) peers
}

# Whatever call fails, the program gets an error or right results: no write is lost.
hidden_faults() { # function
    for nth in 2 60 61 150; do
        MICRODNN_SIM_FAULTS=$1:$nth:999 MICRODNN_SIM_UNNAMED=1 MICRODNN_MEMORY_SAFETY=host \
            under $((48 * mebibyte)) "$client" many_streams 5 $((90 * mebibyte)) hidden >"$TMPDIR/said" &&
            continue
        grep -Eq 'illegal memory access|unknown error|out of memory|cuLaunchKernel' "$TMPDIR/said" &&
            ! grep -q memcmp "$TMPDIR/said" || { echo "call $nth"; cat "$TMPDIR/said" "$log"; return 1; }
    done
}

trains_alike_in_host() {
    export MICRODNN_MEMORY_SAFETY=host
    trains_under 40MiB 1 auto && holds "memory['safety'] == 'host' and memory['in_bytes'] > 0"
    result=$?
    unset MICRODNN_MEMORY_SAFETY
    return $result
}

# Refusals are errors of the call, and one line says what would be enough.
refuses() {
    under $((48 * mebibyte)) "$client" refused 1 $((90 * mebibyte)) || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 2" || return 1
    # The second needs more than the first was said to.
    [ "$(grep -c 'refused: nothing more can leave within the budget of 48.0 MiB; at least' "$log")" = 2 ] &&
        [ "$(wc -l <"$log")" = 2 ]
}

train() { # file
    "$train_cnn" --data "$data" --quiet --find-repeats 1 --search heuristic --batch 512 \
        --iterations 4 --seed 3 --workspace-limit 2MiB --deterministic --json "$1"
}

# trains_under BUDGET SEED POLICY: with the losses of a.json
trains_under() {
    : >"$log"
    (
        export MICRODNN_SIM_SEED="$2" MICRODNN_MEMORY_POLICY="$3" MICRODNN_MEMORY_BUDGET="$1"
        export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library"
        train "$TMPDIR/b.json"
    ) || { cat "$log"; return 1; }
    holds "a['losses'] == b['losses'] and len(a['losses']) == 4 and $in_budget" && said_nothing
}

# With too little pinned memory the budget is not what is missing.
host_limit_is_named() {
    ! MICRODNN_MEMORY_HOST_LIMIT=1MiB trains_under 40MiB 1 auto >"$TMPDIR/said" &&
        grep -q 'refused: the budget of .* would do, .* in .* of pinned host memory' "$TMPDIR/said"
}

# With less memory than it holds at once.
trains_alike() { # policy
    for seed in 1 2; do
        trains_under 40MiB "$seed" "$1" &&
            holds "memory['out_bytes'] > 0 and memory['in_bytes'] > 0" &&
            holds "memory['peak_live_bytes'] > memory['budget_bytes']" || return 1
        [ "$1" = auto ] || break
    done
}

# A budget that is never short moves nothing.
leaves_alone() {
    trains_under 1GiB 1 auto &&
        holds "memory['out_bytes'] + memory['in_bytes'] + memory['refused'] == 0" &&
        holds "memory['demand_leaves'] + memory['planned_leaves'] == 0"
}

train "$TMPDIR/a.json" || exit 1
MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES
plan 50
for name in one_stream many_streams default_stream threads graphs own_context; do
    check "$name: random work beyond the budget is right, and within it" program "$name"
done
check "contexts of the program's own come and go beside the primary one" own_contexts
check "a clone keeps what its graph held" graph cloned
check "a graph keeps what its child held" graph child
check "a graph that ends gives back its own, though its child stays" graph child_of_many
check "an executable that is updated keeps what the new graph held, and nothing else" graph updated
check "what an executable lost by an update stays until its launches are over" graph updated_under_way
check "an executable whose update failed keeps what it had" graph update_fails
check "an executable keeps what a node of it was given" graph node_set
check "a node may be given an address that leads nowhere" graph node_set_astray
check "what could not be destroyed keeps what it held" graph destroyed_later
check "a launch that fails in a capture takes nothing from earlier ones" graph launch_fails
check "an invalidated capture lets go of what it named" graph invalidated
check "a capture that is invalidated takes nothing from another" graph invalidated_beside_another
check "a capture that was not joined lets go of what it named" graph unjoined
check "a capture that could not be ended there goes on, and keeps what it named" graph ended_wrongly
check "failures of our own calls do not reach the program" survives_failures
check "a device that cannot be set up goes without a budget, and says so" goes_without
check "a kernel whose parameters are unknown runs until memory is under a budget" unreadable_kernel
check "a device that is reset begins afresh, and no other notices" resets resets fast
check "likewise with safety = host" resets resets host
check "a device is reset while another thread waits for another device" resets reset_beside fast
check "each device has a budget of its own" two_devices
check "two devices copy between each other's memory" peers 0
check "two devices that reach each other's memory work on it in any way" peers 1
check "what cannot be is refused, and everything else goes on" refuses
for policy in none conv all dynamic modnn auto; do
    check "policy $policy: training under a budget has the same losses" trains_alike "$policy"
done
check "a budget that is never short moves nothing" leaves_alone
check "where pinned memory is short, its limit is named" host_limit_is_named
for name in one_stream many_streams default_stream threads graphs own_context; do
    check "$name: kernels that follow pointers are right with safety = host" hidden_program "$name"
done
check "and on two devices that work on each other's memory" hidden_peers
for function in cuMemMap cuMemSetAccess cuMemUnmap cuMemCreate; do
    check "and where $function fails they are right or get an error" hidden_faults "$function"
done
check "training with safety = host has the same losses" trains_alike_in_host
finish
