#!/bin/sh
# Launches that are made again as a proof (memory.remake = prove): what a program reads is as without the library, and the
# statistics say which of its kernels make the same bytes again.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
# shellcheck source=test/made_again.sh
. "$(dirname "$0")/made_again.sh"
remake=$MDNN_BUILD/test/clients/remake

# proves PROGRAM EXPRESSION [MIB]
proves() {
    MICRODNN_MEMORY_REMAKE=prove && export MICRODNN_MEMORY_REMAKE
    as_alone "${3:-64}" "memory['out_bytes'] == 0 and ($2)" "$remake" "$1"
}

# The kernel in question is the first of two; the other one, which reads its result, can always be proven.
proven="memory['remake_proven'] > 5 and memory['remake_differences'] == 0 and memory['remake_keys_proven'] == 2"
only_other="memory['remake_differences'] == 1 and memory['remake_keys_proven'] == 1"

plan 23
check 'a kernel that writes all of its result' proves map "$proven and memory['remake_ms'] > 0 and memory['largest_operation_bytes'] < 6 << 20"
check 'one that works in place' proves clamp "$only_other and memory['remake_old_content'] > 3"
check 'one that adds to its result' proves add "$only_other and memory['remake_differs'] > 3"
check 'one that leaves a word as it was' proves leave_one "$only_other and memory['remake_partial'] > 3"
check 'one that never makes the same' proves vary "$only_other and memory['remake_differs'] > 3"
check 'one that depends on its workspace' proves workspace "$only_other and memory['remake_differs'] > 3"
check 'one that counts its launches' proves count "$only_other and memory['remake_differs'] > 3"
check 'one that updates small statistics' proves statistics "$proven"
proves_unnamed() { MICRODNN_SIM_UNNAMED=1 && export MICRODNN_SIM_UNNAMED && proves "$@"; }
check 'one that writes what it does not name' proves_unnamed offset "$only_other and memory['remake_unnamed'] > 3"
check 'an input that is written in one iteration only' proves seldom "1 <= memory['remake_differences'] <= 2"
check 'an input that another stream overwrites' proves overwritten \
    "memory['remake_input_changed'] > 5 and memory['remake_keys_proven'] == 1 and memory['remake_differences'] == 0"
check 'an input that is freed' proves freed \
    "memory['remake_input_gone'] > 5 and memory['remake_keys_proven'] == 1 and memory['remake_differences'] == 0"
check 'code that is unloaded' proves unload "memory['remake_unloaded'] > 5 and memory['remake_differences'] == 0"
# 16 values of each number, then three launches are watched and three proven.
check 'numbers that are others in each launch' proves seeds \
    "memory['remake_proven'] > 15 and memory['remake_differences'] == 0 and memory['remake_keys_proven'] == 1"
check 'a number that says what the kernel does' proves flags \
    "memory['remake_keys'] == 3 and memory['remake_keys_proven'] == 2 and memory['remake_differences'] == 1 and
     memory['remake_differs'] > 3"
check 'two kernels with the same name' proves twins "memory['remake_keys'] == 2 and memory['remake_proofs'] == 3 and memory['remake_differences'] == 0"
check 'a reset of the device' proves reset "memory['remake_keys_proven'] == 8 and memory['remake_differences'] == 0"
check 'a context that ends' proves context "memory['remake_context'] > 5 and memory['remake_proofs'] == 0 and memory['remake_failed'] == 0"
check 'other streams that read what is proven' proves streams "memory['remake_keys_proven'] == 4 and memory['remake_differences'] == 1"
check 'no proof beside a stream that waits for the program' proves waits "memory['remake_not_alone'] > 5 and memory['remake_proofs'] == 0"
check 'no proof without room for it' proves map "memory['remake_no_room'] > 5 and memory['remake_proofs'] == 0" 14
off() { # the option is off unless it is set
    under $((64 * mebibyte)) "$remake" map >/dev/null && holds "memory['remake_keys'] == 0 and memory['remake_no_kernel'] == 0"
}
check 'nothing of that by default' off
trains() { # cuDNN's kernels are not made again, but the program's memory is watched all the same
    train "$TMPDIR/a.json" && MICRODNN_MEMORY_REMAKE=prove && export MICRODNN_MEMORY_REMAKE &&
        trains_under $((512 * mebibyte)) 1 auto "memory['remake_library'] > 0 and memory['remake_differences'] == 0"
}
check 'a training has the same losses' trains
finish
