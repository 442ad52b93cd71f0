#!/bin/sh
# Results with the library equal results without it, for every direction, layout, type, batch size and
# beta of the matrix, with a tight and a wide workspace, and for every policy. The quick suite takes cases in
# which every two of these meet, `make test-all` all.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

matrix=$MDNN_BUILD/test/clients/conv_matrix
errors=$MDNN_BUILD/test/clients/layer_errors
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
record=$TMPDIR/record
stats=$TMPDIR/stats.json
CONV_MATRIX=$(few few all)
export CONV_MATRIX

# matrix_passes BATCH_SIZES WORKSPACE [LEAST_SPLIT [MAX_BATCH]]: all cases (up to that batch), of which
# so many executions were split. Weight gradients of fp16 are whole, and what repeats may need more workspace.
matrix_passes() {
    MICRODNN_SIM_PROFILE=toy MICRODNN_BATCH_SIZES=$1 MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_STATS=json \
        MICRODNN_STATS_FILE=$stats MICRODNN_WORKSPACE_LIMIT=$2 \
        LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
        "$matrix" check "$record" "$2" bitwise ${4:+"$4"} >"$TMPDIR/out" 2>&1 || {
        grep -A1 -e '^not ok' -e '^Bail' -e '^microdnn' "$TMPDIR/out" | head -n 40
        return 1
    }
    ! grep '^microdnn' "$TMPDIR/out" || return 1
    split=$(sed -n 's/.*"executions_split": *\([0-9]*\).*/\1/p' "$stats" | head -n 1)
    skipped=$(grep '# SKIP' "$TMPDIR/out" | grep -cv 'backward_filter .* fp16')
    [ "${split:-0}" -ge "${3:-0}" ] && { [ "$skipped" -eq 0 ] || [ -n "${4:-}" ]; } || {
        echo "$split executions were split, $skipped cases skipped"
        return 1
    }
}

# engines_pass auto|heuristics|all: engines of the graph API, which only two of these give a legacy
# program, compute within the gate.
engines_pass() {
    MICRODNN_CONVOLUTION_ENGINES=$1 MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
        MICRODNN_WORKSPACE_LIMIT=16384 MICRODNN_LOG=info MICRODNN_LOG_FILE=$TMPDIR/log \
        LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
        "$matrix" check "$record" 16384 close >"$TMPDIR/out" 2>&1 || {
        grep -A1 -e '^not ok' -e '^Bail' "$TMPDIR/out" | head -n 40
        return 1
    }
    engines=$(grep -c ' plan: .*@ e[0-9]' "$TMPDIR/log")
    rm -f "$TMPDIR/log"
    echo "$engines of the plans have an engine"
    if [ "$1" = auto ]; then [ "$engines" = 0 ]; else [ "$engines" -gt 20 ]; fi
}

# The layers of a network, each in its own shape.
layers_pass() {
    for type in $(few tf32 'fp32 tf32 fp16'); do
        "$errors" record tiny $type "$TMPDIR/layers" || return 1
        MICRODNN_SIM_PROFILE=toy MICRODNN_STATS=json MICRODNN_STATS_FILE=$stats \
            LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
            "$errors" check tiny $type "$TMPDIR/layers" 16 >"$TMPDIR/out" 2>&1 || {
            cat "$TMPDIR/out"
            return 1
        }
        # in fp16 nothing so small is worth a split; the matrix above splits fp16
        [ $type = fp16 ] || grep -q '"executions_split": *[1-9]' "$stats" ||
            { echo "$type: nothing was split"; return 1; }
    done
}

plan "$(few 5 11)"
check 'cuDNN alone records its results' "$matrix" record "$record"
check 'cuDNN alone passes its own matrix' "$matrix" check "$record" 67108864 bitwise
check 'a tight workspace with powers of two gives the same results' matrix_passes powerOfTwo 16384 "$(few 30 100)"
if thorough; then
    check 'a middling workspace with powers of two gives the same results' matrix_passes powerOfTwo 131072 50
    check 'a wide workspace with powers of two gives the same results' matrix_passes powerOfTwo 67108864
    check 'an undivided batch gives the same results' matrix_passes undivided 65536 0 257
    check 'every size gives the same results' matrix_passes all 16384 40 127
fi
check 'the layers of a network are within the gate' layers_pass
for engines_option in $(few all 'auto heuristics all'); do
    check "a legacy program gets right results with engines = $engines_option" engines_pass $engines_option
done
finish
