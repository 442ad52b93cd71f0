#!/bin/sh
# safety = host on the simulated GPU: programs whose kernels follow pointers that no argument names,
# in half of the memory that they hold.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"

# Half of the kernels read in a table where to work, which none of their arguments names.
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
    MICRODNN_SIM_UNNAMED=1 "$client" "$1" 1 $((90 * mebibyte)) hidden ||
        { echo "wrong by itself"; return 1; }
    hidden "$(few 1 '1 2')" $((90 * mebibyte)) "$1"
}
hidden_peers() {
    hidden 1 $((160 * mebibyte)) devices && MICRODNN_SIM_PEERS=1 hidden "$(few 1 '1 2')" $((160 * mebibyte)) peers
}

# Whatever call fails, the program gets an error or right results: no write is lost.
hidden_faults() { # function, positions
    for nth in $2; do
        rm -f "$TMPDIR/fired"
        MICRODNN_SIM_FAULTS=$1:$nth:999 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired MICRODNN_SIM_UNNAMED=1 \
            MICRODNN_MEMORY_SAFETY=host under $((48 * mebibyte)) "$client" many_streams 5 $((90 * mebibyte)) \
            hidden >"$TMPDIR/said"
        status=$?
        grep -qx "$1:$nth:999" "$TMPDIR/fired" || { echo "call $nth never came"; return 1; }
        [ "$status" = 0 ] && continue
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

train "$TMPDIR/a.json" || exit 1
MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES
plan 12
for name in one_stream many_streams default_stream threads graphs own_context; do
    check "$name: kernels that follow pointers are right with safety = host" hidden_program "$name"
done
check "and on two devices that work on each other's memory" hidden_peers
for call in 'cuMemMap 2 60 61 150' 'cuMemSetAccess 2 60 61 150' 'cuMemUnmap 2 60 61 150' \
    'cuMemCreate 2 30 60 61'; do
    check "and where ${call%% *} fails they are right or get an error" hidden_faults "${call%% *}" "${call#* }"
done
check "training with safety = host has the same losses" trains_alike_in_host
finish
