#!/bin/sh
# Contents that are dropped and made again (memory.remake = checked): what a program reads is as without the library, and
# the statistics say what was dropped.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
# shellcheck source=test/made_again.sh
. "$(dirname "$0")/made_again.sh"
client=$MDNN_BUILD/test/clients/drops
MICRODNN_MEMORY_REMAKE=checked
export MICRODNN_MEMORY_REMAKE

# drops "PROGRAM [SEED COUNT]" EXPRESSION [MIB]
drops() {
    # shellcheck disable=SC2086 # several arguments
    as_alone "${3:-14}" "memory['remake_lost'] == 0 and ($2)" "$client" $1
}
some="memory['remake_dropped'] > 5 and memory['remake_wanted'] > 5"
early="$some and memory['remake_early'] > 0"

plan 50
check 'results of a chain of kernels' drops chain "$some"
check 'results that are freed when they were read' drops training \
    "$some and memory['remake_early'] == 0 and memory['remake_wanted'] == memory['remake_dropped']"
on_demand() { MICRODNN_MEMORY_POLICY=none && export MICRODNN_MEMORY_POLICY && drops "$@"; }
check 'without a plan' on_demand training "$some"
check 'results that unknown kernels read' drops others_read "$some"
check 'a kernel that overwrites an input' drops kernel "$early"
check 'a fill' drops memset "$early"
check 'a copy from the host' drops copy "$early"
check 'a copy on the device' drops device_copy "$early"
check 'another stream' drops other_stream "$early"
check 'another thread' drops other_thread "$early"
check 'an input that is freed in the order of a stream' drops free "$early"
check 'an input that is freed at once' drops free_at_once "$early"
check 'what is dropped is freed' drops free_results "$early"
check 'inputs that change before the result is wanted, again and again' drops in_vain "1 <= memory['remake_early'] <= 3 + memory['remake_wanted'] // 4"
check 'a copy of what is dropped to the host' drops read "$some"
check 'a part of it at once' drops read_parts "$some"
check 'a copy in two streams at the same time' drops two_streams "$some"
check 'a capture' drops capture "$early"
check 'textures' drops texture "$early"
check 'code that is unloaded' drops unload "$early"
check 'an input that a kernel has changed in between' drops input "memory['remake_refused'] > 3"
check 'a result that a kernel has changed in between' drops result "memory['remake_refused'] > 3"
check 'launches with another result' drops two_results "memory['remake_keys_proven'] == 1 and memory['remake_dropped'] == 0"
check 'larger results of a kernel that writes as much as before' drops larger "memory['remake_dropped'] > 5"
check 'an input in a pool of the program' drops own_pool "memory['remake_dropped'] == 0 and memory['remake_host_memory'] > 5"
check 'more launches in a row than are made again at once' drops deep "$some"
resets() { # with dropped contents; the statistics do not show the device any more
    wanted=$("$client" reset) && found=$(under $((14 * mebibyte)) "$client" reset) && [ "$found" = "$wanted" ] && said_nothing
}
check 'a reset of the device' resets
check 'results of launches in place' drops blocks "$some and memory['remake_early'] == 0"
check 'small ranges that are others by then' drops small "$some and memory['remake_early'] == 0"
check 'small ranges that others read meanwhile' drops readers "$early"
check 'launches in place that a flag changes' drops flag "$some and memory['remake_refused'] > 5"
small() { as_alone 14 "memory['remake_lost'] == 0 and ($2)" "$MDNN_BUILD/test/clients/small_results" "$1"; }
check 'statistics that a chain begins to change' small statistics "$some and memory['remake_refused'] > 5"
check 'a counter that matters now and then' small counter "$some"
check 'a counter that the first launch of a chain raises' small counter_in_chain "$some"
check 'an input of the first launch that changes in another stream' small race "$some"
check 'a small range behind a tensor map' small map "$early"
check 'one that begins to change' small map_that_counts "memory['remake_dropped'] > 5"
check 'one that is freed' small map_of_freed "$early"
check 'a small range that is named by its end, too' small end "memory['remake_dropped'] == 0"
check 'one whose end only the first launch of a chain names' small end_in_chain "memory['remake_dropped'] == 0"
check 'what is enqueued before a chain and runs within it' small order "$some and memory['remake_refused'] > 5"
other_device() { MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_PEERS=1 && export MICRODNN_SIM_DEVICES MICRODNN_SIM_PEERS && small "$@"; }
check 'a kernel of another device that changes a result' other_device other_device \
    "memory['remake_dropped'] == 0 and memory['remake_differences'] == 0 and memory['remake_input_changed'] > 5"
check 'kernels that change what launches in place find' drops gaps "memory['remake_dropped'] == 0 and memory['remake_differences'] > 0"
check 'a kernel in place that happens to leave nothing' drops zeros "memory['remake_dropped'] == 0 and memory['remake_differences'] > 0"
check 'launches of which no two are alike' drops hopeless "60 < memory['remake_keys'] < 80"
check 'three threads' drops threads "$some"
lost() { # the bytes are lost, and the program must not go on with others
    under $((14 * mebibyte)) "$client" unsure >"$TMPDIR/out" && { echo 'it ended well'; return 1; }
    holds "memory['remake_lost'] > 0" && grep -q 'cannot be made again: kernel unsure made other bytes' "$log" &&
        ! grep -Eq '^[0-9a-f]{16}$' "$TMPDIR/out"
}
check 'a kernel that makes other bytes one day' lost
check 'random programs' drops "random 1 $(few 8 400)" "memory['remake_dropped'] > 5"
check 'random programs without a plan' on_demand "random 5000 $(few 6 200)" "memory['remake_dropped'] > 3"
off() { # nothing is dropped by proofs alone
    MICRODNN_MEMORY_REMAKE=prove && export MICRODNN_MEMORY_REMAKE && drops training "memory['remake_dropped'] == 0"
}
check 'nothing of that with proofs alone' off
finish
