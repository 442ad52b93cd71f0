#!/bin/sh
# What a user sees on a terminal: a line at the start, what is searched and planned while it is, the verdict at the end;
# and that nothing of that is written where nobody watches.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/preloaded.sh
. "$(dirname "$0")/preloaded.sh"
export MICRODNN_SIM_MODE=timing # what is computed does not matter here
library_comes_first
unset MICRODNN_STATS MICRODNN_STATS_FILE
MICRODNN_CONVOLUTION_MEASURE_REPEATS=1
export MICRODNN_CONVOLUTION_MEASURE_REPEATS
microdnn=$MDNN_BUILD/microdnn
raw=$TMPDIR/raw screen=$TMPDIR/screen

# watched OPTIONS-OF-RUN... -- COMMAND...
watched() {
    python3 -I -S "$(dirname "$0")/tools/on_terminal.py" "$raw" "$screen" \
        "$microdnn" run --library "$library" "$@" </dev/null || { cat "$screen"; return 1; }
}

trains="$train_cnn --data $data --quiet --find-repeats 1 --search heuristic --batch 8 --deterministic --workspace-limit 1MiB --iterations"

lines_are() { # FILE PATTERN...: one for each line, in this order
    tr -d '\r' <"$1" >"$TMPDIR/lines"
    shift
    [ "$(wc -l <"$TMPDIR/lines")" = $# ] || { cat "$TMPDIR/lines"; return 1; }
    for pattern in "$@"; do
        sed -n 1p "$TMPDIR/lines" | grep -q "$pattern" || { echo "no $pattern"; cat "$TMPDIR/lines"; return 1; }
        sed -i 1d "$TMPDIR/lines"
    done
}

start='^microdnn: [0-9:]* start: libmicrodnn [0-9.]* on .*simulated'

says_what_it_does() {
    # shellcheck disable=SC2086 # words
    watched --workspace-limit 1m -- $trains 2 || return 1
    lines_are "$screen" "$start.*: no memory budget; micro-batches within 1MiB of workspace" \
        '^microdnn verdict: convolutions: .* of 14' || return 1
    grep -q 'microdnn: measures the convolution forward 8x1x8x8' "$raw"
}

# On a busy machine the program may end before the thread that plans, which has the lowest priority, has begun.
says_what_it_plans() {
    for iterations in 8 80 800 8000; do
        # shellcheck disable=SC2086 # words
        MICRODNN_SIM_THREADS=1 watched --policy off --memory 48m -- $trains $iterations || return 1
        lines_are "$screen" "$start.*: memory budget 48MiB, policy auto; convolutions as they are" \
            '^microdnn verdict: budget 48 MiB was enough' || return 1
        ! grep -q 'microdnn: plans what moves in an iteration of [0-9]* operations' "$raw" || return 0
    done
    return 1
}

says_nothing_in_a_file() {
    # shellcheck disable=SC2086 # words
    "$microdnn" run --library "$library" --workspace-limit 1m -- $trains 2 >"$TMPDIR/out" 2>&1 &&
        lines_are "$TMPDIR/out"
}

shows_no_progress_beside_a_log_file() {
    # shellcheck disable=SC2086 # words
    watched --stats brief --log-file "$TMPDIR/log" --workspace-limit 1m -- $trains 2 &&
        lines_are "$raw" '^microdnn verdict: ' && lines_are "$TMPDIR/log" "$start"
}

does_not_speak_for_others() {
    watched --workspace-limit 1m -- echo hello && lines_are "$raw" '^hello$'
}

can_be_told_to_be_silent() {
    # shellcheck disable=SC2086 # words
    watched --stats off --workspace-limit 1m -- $trains 2 && lines_are "$raw"
}

plan 6
check 'on a terminal a run says what is on, what it searches, and the verdict' says_what_it_does
check 'and what it plans' says_what_it_plans
check 'in a file nothing is written' says_nothing_in_a_file
check 'no line is replaced where the log goes elsewhere' shows_no_progress_beside_a_log_file
check 'a program without CUDA has nothing to be told' does_not_speak_for_others
check 'statistics that are off stay off' can_be_told_to_be_silent
finish
