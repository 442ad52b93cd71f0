#!/bin/sh
# Weight gradients of any magnitude, with every class of alpha and beta, come out as cuDNN computes them
# (test/clients/magnitudes.c), through both interfaces; and they are split, but where no part may overflow alone.
# The quick suite takes combinations in which every two of magnitude, alpha and beta meet. Arguments name tests.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
wanted=" $* "

# comes_out INTERFACE TYPE CONDITION: all results are right, and CONDITION holds for $split executions
comes_out() {
    rm -f "$TMPDIR/stats"
    env MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_WORKSPACE_LIMIT=14000 \
        MICRODNN_STATS=json MICRODNN_STATS_FILE="$TMPDIR/stats" MICRODNN_LOG=off \
        LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" \
        "$MDNN_BUILD/test/clients/magnitudes" "$1" "$2" >"$TMPDIR/out" 2>&1 || {
        grep -e '^not ok' -e '^#' -e '^Bail' "$TMPDIR/out" | head -n 40
        return 1
    }
    split=$(sed -n 's/.*"executions_split": *\([0-9]*\).*/\1/p' "$TMPDIR/stats" | head -n 1)
    echo "$split executions were split"
    [ "${split:-none}" "$3" "$4" ]
}

# test_of INTERFACE TYPE WORDS CONDITION...
test_of() {
    name=$1_$2_$3
    case $wanted in '  ' | *" $name "*) check "$name" comes_out "$1" "$2" "$4" "$5" ;; esac
}

list='legacy fp32 comes_out_right -ge 0
legacy tf32 is_split_where_alpha_enlarges_nothing -gt 50
legacy bf16 is_split_where_alpha_enlarges_nothing -gt 50
legacy fp16 is_not_split -eq 0
legacy fp64 comes_out_right -ge 0
graph fp32 comes_out_right -ge 0
graph bf16 is_split_where_alpha_enlarges_nothing -gt 50
graph fp16 is_not_split -eq 0'
if [ "$wanted" = '  ' ]; then plan "$(printf '%s\n' "$list" | wc -l)"; else plan $#; fi
while read -r interface type words comparison number; do
    test_of "$interface" "$type" "$words" "$comparison" "$number"
done <<END
$list
END
finish
