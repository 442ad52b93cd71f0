#!/bin/sh
# Graphs of cuDNN's backend interface: results with the library equal results without it, for every
# direction, layout, type, batch size, beta and fusion of the matrix, under several workspace limits; and
# NVIDIA's own library plans those graphs as the simulated one does. The quick suite runs graphs in which every two
# of these meet, `make test-all` all.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/nvidia.sh
. "$(dirname "$0")/nvidia.sh"

matrix=$MDNN_BUILD/test/clients/graph_matrix
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
properties=$(dirname "$0")/data/h200-deviceprop.json
record=$TMPDIR/record
stats=$TMPDIR/stats.json
least_graphs=$(few 90 200) # that must run
export MICRODNN_SIM_PROFILE=toy
GRAPH_MATRIX_SHARE=$(few few 0/1)
export GRAPH_MATRIX_SHARE

failures() {
    grep -A1 -e '^not ok' -e '^Bail' -e '^microdnn' "$TMPDIR/out" | head -n 40
}

# Nothing else is left out than what cuDNN refuses and, if asked so, what needs too much workspace.
enough_ran() { # "allow" or "forbid" graphs without a plan that is small enough
    ran=$(sed -n 's/^# [0-9]* executions of \([0-9]*\) graphs$/\1/p' "$TMPDIR/out")
    [ "${ran:-0}" -ge "$least_graphs" ] || { echo "${ran:-no} graphs ran"; return 1; }
    [ "$1" = allow ] || ! grep '# SKIP no plan' "$TMPDIR/out"
}

stock_passes() { # limit, close or exact, most images
    "$matrix" check "$record" "$1" "$2" "${3:-1000}" >"$TMPDIR/out" 2>&1 || { failures; return 1; }
    enough_ran allow
}

# matrix_passes LIMIT BATCH_SIZES [LEAST_SPLIT [MOST_IMAGES]]: of whose executions so many were split.
# All candidates are tried, not only those that are worth the time of a first iteration.
matrix_passes() {
    MICRODNN_CONVOLUTION_ENGINES=${MICRODNN_CONVOLUTION_ENGINES:-heuristics} MICRODNN_BATCH_SIZES=$2 MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
        MICRODNN_STATS=json MICRODNN_STATS_FILE=$stats MICRODNN_WORKSPACE_LIMIT=$1 \
        LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
        "$matrix" check "$record" "$1" close "${4:-1000}" >"$TMPDIR/out" 2>&1 || { failures; return 1; }
    ! grep '^microdnn' "$TMPDIR/out" || return 1
    split=$(sed -n 's/.*"executions_split": *\([0-9]*\).*/\1/p' "$stats" | head -n 1)
    [ "${split:-0}" -ge "${3:-0}" ] || { echo "$split executions were split"; return 1; }
    enough_ran forbid
}

brief_matrix_passes() {
    MICRODNN_CONVOLUTION_ENGINES=auto matrix_passes 16384 powerOfTwo 60
}

# What a later cuDNN may do: no plan's JSON can be read. Those of the first graph pass, the others are followed.
unread_matrix_passes() {
    MICRODNN_SIM_PLAN_SCHEMA=5 matrix_passes "$@" || return 1
    grep -q '"graph_plans_unknown": [1-9]\{0,1\}[0-9],' "$stats" || { grep graph_plans "$stats"; return 1; }
}

# of_one WORDS...: the client on one graph that nothing knows but cuDNN, of several plans: what a record says
# of plan P begins at byte 32 + 24 * P, with a sum of its result.
of_one() { GRAPH_MATRIX_SHARE=305/351 "$matrix" "$@" >"$TMPDIR/out" 2>&1; }

# Makes another sum of plan PLAN in RECORD.
change_sum() { # RECORD PLAN
    at=$((32 + 24 * $2))
    byte=$(od -An -tu1 -j "$at" -N 1 "$1")
    # shellcheck disable=SC2059 # an octal escape
    printf "\\$(printf %o $((255 - byte)))" | dd of="$1" bs=1 seek="$at" conv=notrunc 2>/dev/null
}

# Stock's bits are the recorded ones, or it says which plan's are not.
bits_hold() {
    of_one check "$TMPDIR/joined" 268435456 close || { failures; return 1; }
    grep -q '^# [1-9][0-9]* executions of 1 graphs' "$TMPDIR/out"
}
bits_fail() {
    ! of_one check "$TMPDIR/joined" 268435456 close &&
        grep -q "^# plan $1 of .*: not the bits that were recorded" "$TMPDIR/out"
}

bits_that_differ_are_not_held() {
    of_one record "$TMPDIR/earlier" && change_sum "$TMPDIR/earlier" 0 &&
        of_one record "$TMPDIR/joined" "$TMPDIR/earlier" &&
        grep -q '^# 306 - forward+exp tf32 .*: 1 of [1-9][0-9]* plans do not repeat their bits' "$TMPDIR/out" &&
        change_sum "$TMPDIR/joined" 0 && bits_hold
}

# A second process that agrees takes nothing away, and the other plans are held to theirs.
bits_that_repeat_are_held() {
    change_sum "$TMPDIR/joined" 1 && bits_fail 1 || return 1
    of_one record "$TMPDIR/earlier" && of_one record "$TMPDIR/joined" "$TMPDIR/earlier" &&
        ! grep 'do not repeat' "$TMPDIR/out" && bits_hold || return 1
    change_sum "$TMPDIR/joined" 0 && bits_fail 0
}

# It needs no device. What needs the compiler of kernels at run time is refused there. What that library
# keeps to the end is not ours to free, and it is loaded before a sanitizer's run time.
nvidia_plans() {
    ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 with_nvidia "$matrix" plan "$properties" >"$TMPDIR/out" 2>&1 || { failures; return 1; }
    planned=$(grep -c '^ok .*: [1-9][0-9]* of [0-9]* plans' "$TMPDIR/out")
    [ "$planned" -ge 300 ] || { echo "$planned graphs have plans"; return 1; }
}

# check, but for the sanitizer that is ten times slower
check_if_fast() { # name, command...
    if ! thorough; then
        return
    elif [ "${MDNN_BUILD##*/}" = tsan ]; then
        skip "$1" 'the thread sanitizer takes too long'
    else
        check "$@"
    fi
}

plan "$(few 7 11)"
check 'cuDNN alone records its results' "$matrix" record "$record"
check 'cuDNN alone passes its own matrix, bit for bit' stock_passes 268435456 exact
check 'cuDNN alone passes it within a small limit' stock_passes 65536 close 7
check 'bits that stock did not give in another process are not asked for' bits_that_differ_are_not_held
check 'bits that stock gave in both processes are' bits_that_repeat_are_held
least_graphs=$(few 130 340)
check_if_fast 'an undivided batch gives the same results' matrix_passes 268435456 undivided
check 'a tight workspace with powers of two gives the same results' matrix_passes 16384 powerOfTwo "$(few 40 150)"
check_if_fast 'so do plans whose JSON cannot be read' unread_matrix_passes 16384 powerOfTwo 150
least_graphs=$(few 90 200)
check_if_fast 'within the time of a first iteration, too' brief_matrix_passes
check_if_fast 'up to 33 images with every size give the same results' matrix_passes 16384 all 150 33
if [ -n "$(nvidia_directory)" ]; then
    check "NVIDIA's library plans the graphs" nvidia_plans
else
    skip "NVIDIA's library plans the graphs" 'it is not installed'
fi
finish
