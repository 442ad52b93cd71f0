#!/bin/sh
# Whatever call of CUDA or cuDNN fails while a convolution is planned and run: the result is right,
# nothing leaks, and each kind of trouble is said once. Every position is tried on libraries that
# compute nothing (test/clients/hook_rules.c: any_failing_call_is_survived); here are samples with real
# numbers on the simulated GPU, and what the log says.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

here=$(dirname "$0")

# The client fails, too, if the library has not made that call of the driver.
results_are_right() { # function, positions
    function=$1
    for nth in $2; do
        for direction in $(few 1 '0 1 2'); do
            "$here/behaviour.sh" a_fault_of_the_driver_changes_nothing "$function:$nth:$direction" \
                >"$TMPDIR/out" 2>"$TMPDIR/log" && [ "$(wc -l <"$TMPDIR/log")" -le 1 ] && continue
            echo "call $nth of $function, direction $direction:"
            cat "$TMPDIR/out" "$TMPDIR/log"
            return 1
        done
    done
}

trouble_is_said_once() {
    "$here/hooks.sh" any_failing_call_is_survived >"$TMPDIR/out" 2>"$TMPDIR/log"
    [ -s "$TMPDIR/log" ] || { echo 'nothing was said'; return 1; }
    twice=$(sed 's/^[^ ]* [^ ]* //' "$TMPDIR/log" | sort | uniq -d)
    [ -z "$twice" ] || { echo "$twice"; return 1; }
}

plan 12
for call in 'cuMemAllocFromPoolAsync 1 2 6' 'cuMemFreeAsync 1 2 6' 'cuMemGetInfo_v2 1 2 6' 'cuMemcpyHtoDAsync_v2 1 2 3' \
    'cuMemcpyDtoDAsync_v2 1 2 3' 'cuEventCreate 1 2 9' 'cuEventRecord 1 2 9' 'cuEventSynchronize 1 2 9' \
    'cuEventElapsedTime_v2 1 2 9' 'cuStreamQuery 1' 'cuLaunchKernel 1 2 9'; do
    check "results are right although ${call%% *} fails" results_are_right "${call%% *}" "${call#* }"
done
check 'each kind of trouble is said once' trouble_is_said_once
finish
