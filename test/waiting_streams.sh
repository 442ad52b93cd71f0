#!/bin/sh
# Streams that wait for what their program does next: what was never measured goes through, and is measured when
# there is a moment (test/clients/waiting_streams.c). Arguments name tests.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
wanted=" $* "
stats=$TMPDIR/stats
long=600000

# goes_through NAME PATIENCE CONDITION: and the counters $passed (while the device, or a thread that measured, was busy)
# and $ours are as the condition says
goes_through() {
    rm -f "$stats"
    "$(dirname "$0")/limits.py" --cpu 60 --idle 30 env MICRODNN_SIM_PROFILE=toy \
        MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_CONVOLUTION_MEASURE_PATIENCE="$2" \
        MICRODNN_STATS=json MICRODNN_STATS_FILE="$stats" \
        LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" \
        "$MDNN_BUILD/test/clients/waiting_streams" "$1" || return 1
    passed=$(sed -n 's/.*"passed_busy": *\([0-9]*\).*/\1/p' "$stats" | head -n 1)
    ours=$(sed -n 's/.*"executions_undivided": *\([0-9]*\).*/\1/p' "$stats" | head -n 1)
    echo "$passed passed, $ours ran as we chose"
    eval "[ \$(($3)) != 0 ]"
}

test_of() {
    case $wanted in '  ' | *" $1 "*) check "$1" goes_through "$1" "$2" "$3" ;; esac
}

if [ "$wanted" = '  ' ]; then plan 5; else plan $#; fi
test_of its_stream_waits_for_a_value 10 'passed == 2 && ours > 0'
test_of another_stream_waits_for_a_value 10 'passed == 0 && ours == 1'
test_of the_default_stream_is_held_up 10 'passed == 0 && ours == 1'
test_of its_stream_waits_for_an_event_of_another 10 'passed == 1'
test_of a_thread_that_waits_stops_no_other $long 'passed > 0 && ours > 100'
finish
