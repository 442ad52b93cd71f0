#!/bin/sh
# Each call of the driver by which the library serves a brief program under a budget fails once, on the
# simulated GPU: allocations, mappings, copies, events and waits (test/clients/every_fault.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_STATS=off

budget_mebibytes=6

# survives SAFETY FUNCTION...: right results, or an error that the program is told of
survives() {
    safety=$1
    shift
    MICRODNN_MEMORY_SAFETY=$safety under $((budget_mebibytes * mebibyte)) "$MDNN_BUILD/test/clients/every_fault" "$@" \
        >"$TMPDIR/said" && return
    cat "$TMPDIR/said"
    return 1
}

# unnoticed SAFETY FUNCTION...: those that the program does not call: it sees no error
unnoticed() { survives "$@" && ! grep -v ' 0 times told$' "$TMPDIR/said"; }

plan $(few 11 12)
for safety in fast host; do
    check "safety = $safety: no failure to get or map memory reaches the program" unnoticed $safety \
        cuMemAddressReserve cuMemCreate cuMemMap cuMemSetAccess cuMemUnmap
    check "safety = $safety: nor does one of our events and waits" unnoticed $safety \
        cuEventRecord cuEventQuery cuEventSynchronize cuEventElapsedTime_v2 cuStreamGetId cuStreamGetCtx
    check "safety = $safety: where a call may be the program's it gets an error or right results" survives $safety \
        cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuEventCreate cuStreamWaitEvent cuStreamSynchronize \
        cuStreamCreateWithPriority cuLaunchKernel
done

budget_mebibytes=4 # for one operation, which so needs all that there is
MICRODNN_MEMORY_TAIL=no
export MICRODNN_MEMORY_TAIL
check "nor does a failure where nothing else can leave" unnoticed fast cuMemUnmap

budget_mebibytes=2 # for half of each operation
MICRODNN_MEMORY_TAIL=yes
maps='cuMemMap cuMemSetAccess cuMemUnmap'
events='cuMemAddressReserve cuMemCreate cuMemRelease cuEventRecord cuEventQuery cuEventSynchronize'
fast=$(few cuMemMap "$maps $events") host=$(few cuMemUnmap "$maps $events")
# shellcheck disable=SC2086 # words
check "safety = fast: no failure at a tail reaches the program" unnoticed fast $fast
# shellcheck disable=SC2086
check "safety = host: no failure at a tail reaches the program" unnoticed host $host
for safety in $(few fast 'fast host'); do
    check "safety = $safety: and where a call may be the program's it gets an error or right results" \
        survives "$safety" cuLaunchKernel cuMemcpyHtoDAsync_v2
done

budget_mebibytes=6
MICRODNN_SIM_HOST_HANDLES=0
export MICRODNN_SIM_HOST_HANDLES
check "nor does a failure to pin memory, where that is how it is made" unnoticed fast cuMemHostAlloc
finish
