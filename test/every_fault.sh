#!/bin/sh
# Each call of the driver by which the library serves a brief program under a budget fails once, on the
# simulated GPU: allocations, mappings, copies, events and waits (test/clients/every_fault.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_STATS=off

# survives SAFETY FUNCTION...: right results, or an error that the program is told of
survives() {
    safety=$1
    shift
    MICRODNN_MEMORY_SAFETY=$safety under $((6 * mebibyte)) "$MDNN_BUILD/test/clients/every_fault" "$@" \
        >"$TMPDIR/said" && return
    cat "$TMPDIR/said"
    return 1
}

# unnoticed SAFETY FUNCTION...: those that the program does not call: it sees no error
unnoticed() { survives "$@" && ! grep -v ' 0 times told$' "$TMPDIR/said"; }

plan 7
for safety in fast host; do
    check "safety = $safety: no failure to get or map memory reaches the program" unnoticed $safety \
        cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap
    check "safety = $safety: nor does one of our events and waits" unnoticed $safety \
        cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime_v2 cuStreamGetId cuStreamGetCtx
    check "safety = $safety: where a call may be the program's it gets an error or right results" survives $safety \
        cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuEventCreate cuStreamWaitEvent cuStreamSynchronize \
        cuStreamCreateWithPriority cuLaunchKernel
done
MICRODNN_SIM_HOST_HANDLES=0
export MICRODNN_SIM_HOST_HANDLES
check "nor does a failure to pin memory, where that is how it is made" unnoticed fast cuMemHostAlloc
finish
