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
            under "$within" "$client" "$3" "$seed" "$2" hidden ||
            { echo "seed $seed"; cat "$log"; return 1; }
        holds "all(each['peak_resident_bytes'] <= each['budget_bytes'] and each['safety'] == 'host' and
            each['saved_bytes'] + each['planned_leaves'] == 0 for each in memories) and memory['out_bytes'] > 0 and
            memory['in_bytes'] > 0" && said_nothing ||
            { echo "seed $seed"; return 1; }
    done
}
hidden_program() {
    MICRODNN_SIM_UNNAMED=1 by_itself "$client" "$1" 1 "$held" hidden || return 1
    hidden "$(few 1 '1 2')" "$held" "$1"
}
hidden_peers() {
    hidden 1 $((2 * held)) devices && MICRODNN_SIM_PEERS=1 hidden "$(few 1 '1 2')" $((2 * held)) peers
}

# Whatever call fails, the program gets an error or right results: no write is lost.
hidden_faults() { # function, positions
    for nth in $2; do
        rm -f "$TMPDIR/fired"
        MICRODNN_SIM_FAULTS=$1:$nth:999 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired MICRODNN_SIM_UNNAMED=1 \
            MICRODNN_MEMORY_SAFETY=host under "$within" "$client" many_streams 5 "$held" \
            hidden >"$TMPDIR/said"
        status=$?
        grep -qx "$1:$nth:999" "$TMPDIR/fired" || { echo "call $nth never came"; return 1; }
        [ "$status" = 0 ] && continue
        grep -Eq 'illegal memory access|unknown error|out of memory|cuLaunchKernel' "$TMPDIR/said" &&
            ! grep -q memcmp "$TMPDIR/said" || { echo "call $nth"; cat "$TMPDIR/said" "$log"; return 1; }
    done
}

MICRODNN_SIM_DEVICES=2
export MICRODNN_SIM_DEVICES
plan 11
for name in one_stream many_streams default_stream threads graphs own_context; do
    check "$name: kernels that follow pointers are right with safety = host" hidden_program "$name"
done
check "and on two devices that work on each other's memory" hidden_peers
for call in cuMemMap cuMemSetAccess cuMemUnmap cuMemCreate; do
    positions=$(few '2 30' '2 60 61 150')
    [ $call != cuMemCreate ] || positions=$(few '2 20' '2 10 20 21')
    check "and where $call fails they are right or get an error" hidden_faults $call "$positions"
done
finish
