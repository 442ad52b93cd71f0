#!/bin/sh
# microdnn top: programs that run under the library are found, with their numbers; one that was killed is shown as
# ended, with its statistics, until it is forgotten. On the simulated GPU.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/preloaded.sh
. "$(dirname "$0")/preloaded.sh"
export MICRODNN_SIM_MODE=timing # what is computed does not matter here
library_comes_first
unset MICRODNN_STATS MICRODNN_STATS_FILE
MICRODNN_CONVOLUTION_POLICY=off
MICRODNN_MEMORY_REGISTRY=$TMPDIR/registry
export MICRODNN_CONVOLUTION_POLICY MICRODNN_MEMORY_REGISTRY
mkdir -p "$MICRODNN_MEMORY_REGISTRY"
microdnn=$MDNN_BUILD/microdnn

# started VARIABLE=VALUE...: a training that has run 30 iterations and waits for a line; $process is its number
started() {
    rm -f "$TMPDIR/lines"
    mkfifo "$TMPDIR/lines" && : >"$TMPDIR/times" || return 1
    (
        export MICRODNN_MEMORY_BUDGET=16m "${@?}"
        preload_library
        exec "$train_cnn" --data "$data" --quiet --find-repeats 1 --search heuristic --batch 32 --deterministic \
            --workspace-limit 1MiB --iterations 100 --step
    ) <"$TMPDIR/lines" >"$TMPDIR/times" 2>"$log" &
    process=$!
    exec 7>"$TMPDIR/lines"
    yes '' | head -30 >&7
    while [ "$(wc -l <"$TMPDIR/times")" -lt 30 ]; do
        kill -0 "$process" 2>/dev/null || { cat "$log"; return 1; }
        sleep 0.1
    done
}

ended() {
    exec 7>&-
    wait "$process" 2>/dev/null
    :
}

# shown EXPRESSION: of `all`, the processes, and `it`, the only one
shown() {
    "$microdnn" top --json >"$TMPDIR/top.json" || return 1
    python3 -I -S - "$TMPDIR/top.json" "$1" <<'PYTHON'
import json, sys
all = json.load(open(sys.argv[1]))["processes"]
it = all[0] if len(all) == 1 else None
if not eval(f"({sys.argv[2]})"):
    sys.exit(f"not so: {sys.argv[2]}\n{all}")
PYTHON
}

runs_with_its_numbers() {
    started A=b || return 1
    shown "it['process'] == $process and it['runs'] and it['program'] == 'train_cnn' and
        it['memory'][0]['budget_bytes'] == 16 * 2**20 and it['memory'][0]['operations'] >= 1024 and
        it['memory'][0]['plan_state'] == 'followed' and 'simulated' in it['memory'][0]['device_name']" &&
        "$microdnn" top --once >"$TMPDIR/top" &&
        grep -Eq "^ *$process train_cnn +0 +16.0 MiB .* followed$" "$TMPDIR/top"
    status=$?
    cat "$TMPDIR/top"
    ended
    return "$status"
}

leaves_nothing() {
    shown "all == []" && [ -z "$(find "$MICRODNN_MEMORY_REGISTRY" -name "*.live")" ]
}

is_found_beside_its_file() {
    started MICRODNN_STATS=json MICRODNN_STATS_FILE="$TMPDIR/run.json" || return 1
    shown "it['process'] == $process and it['file'].endswith('/run.json.live')"
    status=$?
    ended
    [ "$status" = 0 ] && [ -s "$TMPDIR/run.json" ] && leaves_nothing
}

killed_is_shown_as_ended() {
    started A=b || return 1
    kill -9 "$process"
    ended
    shown "it['process'] == $process and not it['runs']" && "$microdnn" top >"$TMPDIR/top" || return 1
    file=$(sed -n 's/^ *microdnn stats //p' "$TMPDIR/top")
    grep -q ' ended$' "$TMPDIR/top" && "$microdnn" stats "$file" >"$TMPDIR/stats" || { cat "$TMPDIR/top"; return 1; }
    grep -q 'not finished' "$TMPDIR/stats" && grep -q '^microdnn verdict: budget 16 MiB' "$TMPDIR/stats" ||
        { cat "$TMPDIR/stats"; return 1; }
    "$microdnn" top --clean >/dev/null && leaves_nothing
}

does_not_see_others() {
    "$microdnn" run --library "$library" --memory 1g -- true && leaves_nothing
}

refuses_what_it_does_not_know() {
    for arguments in '--every 0' '--every x' '--bogus' 'stray'; do
        # shellcheck disable=SC2086 # words
        "$microdnn" top $arguments >"$TMPDIR/out" 2>"$TMPDIR/message"
        [ $? = 2 ] && [ ! -s "$TMPDIR/out" ] && [ -s "$TMPDIR/message" ] || { echo "$arguments"; return 1; }
    done
    MICRODNN_MEMORY_REGISTRY='' "$microdnn" top 2>"$TMPDIR/message"
    [ $? = 1 ] && grep -q 'registry is empty' "$TMPDIR/message"
}

plan 6
check 'a program that runs is shown with its numbers' runs_with_its_numbers
check 'a normal end leaves nothing' leaves_nothing
check 'one with statistics in a file is found beside that' is_found_beside_its_file
check 'one that was killed is shown as ended, with its statistics, until it is forgotten' killed_is_shown_as_ended
check 'a program without CUDA is not there' does_not_see_others
check 'wrong usage is refused' refuses_what_it_does_not_know
finish
