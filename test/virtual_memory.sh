#!/bin/sh
# Programs that hold more than their budget, on the simulated GPU, whose order of work shows missing
# waits and where a stray access faults: random work against a model (test/clients/virtual_memory.c),
# and training, whose losses are the same to the last bit.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"

# program NAME: right without the library, and under a budget of half of what it holds
program() {
    by_itself "$client" "$1" 1 "$held" || return 1
    for seed in $(few 1 '1 2 3 4'); do
        MICRODNN_SIM_SEED=$seed under "$within" "$client" "$1" "$seed" "$held" ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['out_bytes'] > 0 and memory['in_bytes'] > 0" &&
            said_nothing || { echo "seed $seed"; return 1; }
    done
}

# A budget of all of the device, of which another process holds half, and of which the driver needs a part.
beside_others() {
    for seed in $(few 1 '1 2 3 4'); do
        MICRODNN_SIM_MEMORY=64MiB MICRODNN_SIM_OTHERS=32MiB MICRODNN_SIM_LIMIT=31MiB MICRODNN_SIM_SEED=$seed \
            under $((64 * mebibyte)) "$client" many_streams "$seed" "$held" || { echo "seed $seed"; cat "$log"; return 1; }
        holds "memory['peak_resident_bytes'] <= 31 * 2**20 and memory['out_bytes'] > 0" && said_nothing || return 1
    done
}

# The waits of the host have kinds, and returns on demand have causes.
host_time_adds_up="abs(sum(memory[f'host_{kind}_ms'] for kind in ('copies', 'work', 'pinning')) - memory['host_wait_ms']) < 0.01
    and sum(memory[f'returned_{why}'] for why in ('unplanned', 'unknown', 'sent_away', 'late')) == memory['demand_returns']
    and memory['host_mapping_ms'] > 0 and memory['host_making_ms'] > 0"

# What a program does again and again is planned, in parts of buffers, too; in one stream and in two.
rounds() {
    by_itself "$client" rounds 1 $((45 * mebibyte)) || return 1
    for seed in $(few '1 3' '1 2 3 4'); do
        for safety in $(few fast 'fast verify'); do
            MICRODNN_SIM_THREADS=$((seed / 3)) MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed \
                under $((24 * mebibyte)) "$client" rounds "$seed" $((45 * mebibyte)) ||
                { echo "seed $seed, $safety"; cat "$log"; return 1; }
            holds "$in_budget and (memory['planned_returns'] > 10 or $((seed / 3))) and $host_time_adds_up" && said_nothing ||
                { echo "seed $seed, $safety"; return 1; }
        done
    done
}

# Beside them another thread takes little at a time and asks how much there is, or the process forks and resets the device.
rounds_are_disturbed() { # HOW
    for seed in $(few 1 '1 2 3 4'); do
        MICRODNN_SIM_THREADS=1 MICRODNN_SIM_SEED=$seed under $((28 * mebibyte)) "$client" "$1" "$seed" $((45 * mebibyte)) ||
            { echo "seed $seed"; cat "$log"; return 1; }
        said_nothing && { [ "$1" = rounds_end ] || holds "$in_budget and memory['out_bytes'] > 0"; } ||
            { echo "seed $seed"; return 1; }
    done
}

# Until the library's thread has changed so many mappings, however long that takes.
await_background() { # process
    while kill -0 "$1" 2>/dev/null; do
        changed=$("$MDNN_BUILD/microdnn" stats --json "$stats.live" 2>/dev/null |
            sed -n '/"background_chunks"/{s/.*"background_chunks": *\([0-9]*\).*/\1/p;q;}')
        [ "${changed:-0}" -le 20 ] || return 0
        sleep 0.1
    done
    return 1
}

# Moves that a plan began have their mappings changed in the background, as on a real GPU.
maps_in_background() {
    for seed in $(few 1 '1 2 3 4'); do
        rm -f "$TMPDIR/enough"
        MDNN_ROUNDS_UNTIL=$TMPDIR/enough MICRODNN_SIM_THREADS=1 MICRODNN_SIM_SEED=$seed \
            under $((24 * mebibyte)) "$client" rounds_until "$seed" $((45 * mebibyte)) &
        await_background $! && : >"$TMPDIR/enough"
        wait $! || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and $host_time_adds_up and memory['background_chunks'] > 20" && said_nothing ||
            { echo "seed $seed"; return 1; }
    done
}

# What is allocated before it is used has memory from its first use on, of whatever kind that is. So
# what is freed unused sends nothing away.
early() {
    by_itself "$client" early 1 $((45 * mebibyte)) || return 1
    for seed in $(few 1 '1 2 3'); do
        safeties=fast
        [ $seed = 2 ] || safeties=$(few fast 'fast verify host')
        for safety in $safeties; do
            MICRODNN_SIM_THREADS=$((seed / 3)) MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed \
                under $((24 * mebibyte)) "$client" early "$seed" $((45 * mebibyte)) ||
                { echo "seed $seed, $safety"; cat "$log"; return 1; }
            holds "$in_budget and memory['refused'] == 0" && said_nothing ||
                { echo "seed $seed, $safety"; return 1; }
            [ $((seed / 3)) = 1 ] || [ $safety != fast ] ||
                holds "memory['demand_leaves'] < 120 and memory['planned_returns'] > 50" || return 1
        done
    done
}

# Work in contexts of the program's own is counted, and what ends with them is free again.
own_contexts() {
    program contexts && holds "memory['live_bytes'] == 0 and memory['peak_live_bytes'] > 50 * 2**20"
}

# graph NAME: what the program freed serves nobody else while a graph can use it, and again from then on
graph() {
    for seed in $(few 1 '1 2'); do
        safeties=$(few fast 'fast verify')
        [ $seed = 2 ] || safeties="$safeties host"
        for safety in $safeties; do
            MICRODNN_MEMORY_SAFETY=$safety MICRODNN_SIM_SEED=$seed under $((24 * mebibyte)) \
                "$graphs" "$1" || { echo "seed $seed, $safety"; cat "$log"; return 1; }
            holds "$in_budget and memory['refused'] == 0" && said_nothing ||
                { echo "seed $seed, $safety"; return 1; }
        done
    done
}

# Whichever question about a capture fails once: nothing stays that is let go, nor goes that is kept.
survives_unanswered() { # programs
    for program in "$@"; do
        nth=0
        while [ $((nth += $(few 20 1))) -lt 100 ]; do
            rm -f "$TMPDIR/fired"
            MICRODNN_SIM_FAULTS=cuStreamGetCaptureInfo_v2:$nth:999 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired \
                under $((24 * mebibyte)) "$graphs" "$program" || { echo "$program, question $nth"; return 1; }
            [ -e "$TMPDIR/fired" ] || break
        done
        [ $nth -gt 20 ] && [ $nth -lt 100 ] || { echo "$program: $nth questions"; return 1; }
    done
}

# It runs while no memory is under a budget, is refused then, and one line says why.
unreadable_kernel() {
    under $((48 * mebibyte)) "$client" unreadable 1 $((90 * mebibyte)) || { cat "$log"; return 1; }
    [ "$(wc -l <"$log")" = 1 ] && grep -q "does not describe a kernel's parameters" "$log"
}

# Calls of ours that fail once are made again, or give up without the program's noticing. Where memory cannot leave any
# more, an operation may get a tail, which is not the budget's fault.
tail_of_failure='in host memory, which is slower: nothing more could leave'
survives_failures() {
    for seed in $(few 25 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under "$within" "$client" faulty "$seed" \
            "$held" || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['out_bytes'] > 0" && [ "$(grep -cv "$tail_of_failure" "$log")" -le 1 ] &&
            ! grep 'names more than the budget' "$log" || { echo "seed $seed"; cat "$log"; return 1; }
    done
}

# What runs at once on a device needs up to 18 MiB.
two_devices() {
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under $((18 * mebibyte)) "$client" devices "$seed" \
            $((2 * held)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget" && said_nothing || return 1
    done
}

# Each uses the other's memory, by copies that name both devices, and if they reach each other, in any
# way; without the library, too.
peers() { # reach
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_PEERS=$1 MICRODNN_SIM_SEED=$seed by_itself "$client" peers "$seed" $((2 * held)) || return 1
        MICRODNN_SIM_PEERS=$1 MICRODNN_SIM_SEED=$seed under "$within" "$client" peers \
            "$seed" $((2 * held)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$each_in_budget and all(each['in_bytes'] > 0 for each in memories)" &&
            said_nothing || { echo "seed $seed"; return 1; }
    done
}

# A thread that waits is not held up by one for which memory is being made.
waits_beside() {
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$client" wait_beside "$seed" \
            $((90 * mebibyte)) || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['out_bytes'] > 0" && said_nothing || return 1
    done
}

# Refusals are errors of the call, and one line says what would be enough.
refuses() {
    MICRODNN_MEMORY_TAIL=no under "$within" "$client" refused 1 "$held" || { cat "$log"; return 1; }
    holds "$in_budget and memory['refused'] == 2" || return 1
    # The second needs more than the first was said to.
    [ "$(grep -c 'refused: nothing more can leave within the budget of 32.0 MiB; at least' "$log")" = 2 ] &&
        [ "$(wc -l <"$log")" = 2 ]
}

# With too little pinned memory the budget is not what is missing.
host_limit_is_named() {
    ! MICRODNN_MEMORY_HOST_LIMIT=1MiB trains_under 14MiB 1 auto >"$TMPDIR/said" &&
        grep -q 'refused: the budget of .* would do, .* in pinned host memory, of which there may be 1.00 MiB' "$TMPDIR/said"
}

# As on a real GPU: host memory is made, and plans, beside the program.
trains_alike_with_threads() (
    export MICRODNN_SIM_THREADS=1
    trains_under 14MiB 1 auto && trains_under 14MiB 2 auto
)

# With less memory than it holds at once.
trains_alike() { # policy
    for seed in $(few 1 '1 2'); do
        trains_under 14MiB "$seed" "$1" "memory['out_bytes'] > 0 and memory['in_bytes'] > 0 and
            memory['peak_live_bytes'] > memory['budget_bytes']" || return 1
        [ "$1" = auto ] || break
    done
}

trains_alike_in_host() (
    export MICRODNN_MEMORY_SAFETY=host
    trains_under 14MiB 1 "$(few dynamic auto)" "memory['safety'] == 'host' and memory['in_bytes'] > 0"
)

# A budget that is never short moves nothing.
leaves_alone() {
    under 1GiB "$client" rounds 1 $((16 * mebibyte)) && holds "memory['out_bytes'] + memory['in_bytes'] + memory['refused'] +
        memory['demand_leaves'] + memory['planned_leaves'] == 0" && said_nothing
}

train "$TMPDIR/a.json" || exit 1
MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES
plan $(few 40 46)
for name in one_stream many_streams default_stream threads graphs own_context; do
    check "$name: random work beyond the budget is right, and within it" program "$name"
done
check "what another process holds, and the driver needs, is left alone" beside_others
check "rounds that are planned for are right, and within the budget" rounds
check "mappings that change in the background are right" maps_in_background
check "they are right beside small allocations and questions of another thread" rounds_are_disturbed rounds_beside
check "a fork and a reset find them as they are" rounds_are_disturbed rounds_end
check "what is allocated early is right, and sends less away" early
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
check "a kernel that names memory by two addresses leaves it to the graph" graph named_twice
check "a launch that fails in a capture takes nothing from earlier ones" graph launch_fails
check "an invalidated capture lets go of what it named" graph invalidated
check "a capture that is invalidated takes nothing from another" graph invalidated_beside_another
check "a capture that was not joined lets go of what it named" graph unjoined
check "a capture that could not be ended there goes on, and keeps what it named" graph ended_wrongly
check "a question about a capture that fails once changes nothing" \
    survives_unanswered invalidated invalidated_beside_another ended_wrongly
check "failures of our own calls do not reach the program" survives_failures
check "a kernel whose parameters are unknown runs until memory is under a budget" unreadable_kernel
check "each device has a budget of its own" two_devices
check "two devices copy between each other's memory" peers 0
check "two devices that reach each other's memory work on it in any way" peers 1
check "a thread that waits is not held up by another's wait for memory" waits_beside
check "what cannot be is refused, and everything else goes on" refuses
for policy in $(few auto 'none conv all dynamic modnn auto'); do
    check "policy $policy: training under a budget has the same losses" trains_alike "$policy"
done
! thorough || check "and so has training beside the library's threads" trains_alike_with_threads
check "and so has training with safety = host" trains_alike_in_host
check "a budget that is never short moves nothing" leaves_alone
check "where pinned memory is short, its limit is named" host_limit_is_named
finish
