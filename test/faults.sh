#!/bin/sh
# Whatever call of CUDA or cuDNN fails while a convolution is planned and run: the result is right,
# nothing leaks, and each kind of trouble is said once. Every position is tried on libraries that
# compute nothing (test/clients/door_rules.c: any_failing_call_is_survived); here are samples with real
# numbers on the simulated GPU, and what the log says.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

here=$(dirname "$0")

results_are_right() { # function, positions...
    function=$1
    shift
    for nth; do
        for direction in 0 1 2; do
            "$here/behaviour.sh" a_fault_of_the_driver_changes_nothing "$function:$nth:$direction" \
                >"$TMPDIR/out" 2>"$TMPDIR/log" && [ "$(wc -l <"$TMPDIR/log")" -le 1 ] && continue
            echo "call $nth of $function, direction $direction:"
            cat "$TMPDIR/out" "$TMPDIR/log"
            return 1
        done
    done
}

trouble_is_said_once() {
    "$here/doors.sh" any_failing_call_is_survived >"$TMPDIR/out" 2>"$TMPDIR/log"
    [ -s "$TMPDIR/log" ] || { echo 'nothing was said'; return 1; }
    twice=$(sed 's/^[^ ]* [^ ]* //' "$TMPDIR/log" | sort | uniq -d)
    [ -z "$twice" ] || { echo "$twice"; return 1; }
}

plan 12
for function in cuMemAlloc_v2 cuMemFree_v2 cuMemGetInfo_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoDAsync_v2 \
    cuEventCreate cuEventRecord cuEventSynchronize cuEventElapsedTime_v2 cuStreamSynchronize \
    cuLaunchKernel; do
    check "results are right although $function fails" results_are_right $function 1 2 9
done
check 'each kind of trouble is said once' trouble_is_said_once
finish
