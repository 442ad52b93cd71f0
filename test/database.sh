#!/bin/sh
# What is measured once is known to the next process: it times nothing and chooses the same. Trouble
# with the database changes nothing but the time.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

matrix=$MDNN_BUILD/test/clients/conv_matrix
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
record=$TMPDIR/record
cache=$TMPDIR/cache.db
export MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_WORKSPACE_LIMIT=16384
export MICRODNN_STATS=text

# one NAME: the matrix's small cases with the library; statistics in $TMPDIR/NAME
one() {
    MICRODNN_STATS_FILE=$TMPDIR/$1 MICRODNN_LOG=warn \
        LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
        "$matrix" check "$record" 16384 bitwise "$(few 2 7)" >"$TMPDIR/$1.out" 2>"$TMPDIR/$1.err" &&
        ! grep -q '^not ok' "$TMPDIR/$1.out"
}
timed() { sed -n 's/^ *\([0-9]*\)  candidates timed.*/\1/p' "$TMPDIR/$1"; }
choices() { grep ' @ ' "$TMPDIR/$1" | sort; }

cold_run_measures() {
    one first && [ "$(timed first)" -gt 0 ] && [ -s "$cache" ] || return 1
    "$MDNN_BUILD/microdnn" cache list --file "$cache" --json >"$TMPDIR/list"
    python3 -I -S - "$TMPDIR/list" <<'PYTHON'
import json, sys
text = json.dumps(json.load(open(sys.argv[1])))
sys.exit(0 if '"configurations": 1' in text and '"configurations": 0' not in text else text[:500])
PYTHON
}
later_runs_repeat() {
    one second && one third || return 1
    [ -z "$(timed second)" ] || { echo "the second run timed $(timed second) candidates"; return 1; }
    [ "$(choices second)" = "$(choices first)" ] && [ "$(choices third)" = "$(choices first)" ]
}
several_at_once() {
    rm -f "$cache"
    one a & one b & one c &
    wait
    # What a busy machine kept one of them from storing is stored by the next.
    for try in 1 2 3 4 5; do
        one after || return 1
        [ -n "$(timed after)" ] || break
    done
    [ -z "$(timed after)" ] && ! grep -q '^not ok' "$TMPDIR"/[abc].out
}
an_import_serves_and_stays_untouched() {
    mv "$cache" "$TMPDIR/imported.db"
    before=$(cksum "$TMPDIR/imported.db")
    MICRODNN_CACHE_FILE='' MICRODNN_CACHE_IMPORT=$TMPDIR/imported.db one imported || return 1
    [ -z "$(timed imported)" ] && [ "$(cksum "$TMPDIR/imported.db")" = "$before" ]
}
a_damaged_file_is_set_aside() {
    cp "$TMPDIR/imported.db" "$cache"
    yes 'this is no page of a database' | dd of="$cache" bs=4096 seek=1 count=20 iflag=fullblock \
        conv=notrunc 2>/dev/null
    one damaged && ls "$cache".damaged-* >/dev/null && grep -q 'cache' "$TMPDIR/damaged.err"
}
a_file_that_cannot_be_made_is_said_once() {
    MICRODNN_CACHE_FILE=$TMPDIR/no/such/directory/cache.db one nowhere &&
        [ "$(grep -c 'cache' "$TMPDIR/nowhere.err")" -eq 1 ]
}

# By default: in the user's cache folder, which is made when there is something to keep.
it_is_kept_where_the_user_keeps_caches() {
    mkdir "$TMPDIR/home" || return 1
    unset MICRODNN_CACHE_FILE
    HOME=$TMPDIR/home XDG_CACHE_HOME='' one cold && HOME=$TMPDIR/home XDG_CACHE_HOME='' one warm || return 1
    [ "$(timed cold)" -gt 0 ] && [ -z "$(timed warm)" ] && [ "$(choices cold)" = "$(choices warm)" ] &&
        [ "$(cd "$TMPDIR/home" && find . -type f)" = ./.cache/microdnn/costs.db ] || return 1
    HOME=$TMPDIR/home "$MDNN_BUILD/microdnn" cache list >"$TMPDIR/list" && grep -q 'toy (simulated)' "$TMPDIR/list"
}
nothing_is_kept_if_nobody_wants_it() {
    rm -rf "$TMPDIR/home" && mkdir "$TMPDIR/home" || return 1
    unset MICRODNN_CACHE_FILE XDG_CACHE_HOME
    HOME=$TMPDIR/home MICRODNN_CACHE_FILE=none one forgets && HOME=$TMPDIR/home MICRODNN_DISABLE=1 one disabled &&
        HOME=$TMPDIR/home MICRODNN_CONVOLUTION_POLICY=off one off && [ -z "$(ls -A "$TMPDIR/home")" ] || return 1
    HOME=$TMPDIR/none one homeless && HOME='' one nameless && [ "$(timed nameless)" -gt 0 ] &&
        [ ! -e "$TMPDIR/none" ] && ! grep -q cache "$TMPDIR/homeless.err" "$TMPDIR/nameless.err"
}

# With right checksums: what a file says of workspace is not so, and is found out; the right results come all the same.
a_file_that_lies_admits_nothing() {
    for lie in flags workspace; do
        rm -f "$cache" && cp "$TMPDIR/imported.db" "$cache" &&
            "$MDNN_BUILD/test/tools/forge_costs" "$cache" "$lie" && one "$lie" || { cat "$TMPDIR/$lie.err"; return 1; }
    done
    [ -n "$(timed workspace)" ] && grep -q 'is wrong about a convolution, which is measured again' "$TMPDIR/workspace.err" &&
        ! grep -q 'failed with' "$TMPDIR/workspace.err" && [ "$(choices workspace)" = "$(choices first)" ]
}

# What was chosen before cannot be made this time: the next best of the same convolution runs.
what_cannot_be_made_is_skipped() {
    export MICRODNN_CONVOLUTION_ENGINES=heuristics MICRODNN_STATS=json
    export MICRODNN_CACHE_FILE=$TMPDIR/engines.db
    MICRODNN_STATS_FILE=$TMPDIR/engines LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
        "$matrix" check "$record" 16384 close 2 >/dev/null || return 1
    for faulted in 5 40 77; do
        cp "$TMPDIR/engines.db" "$TMPDIR/faulted.db"
        MICRODNN_CACHE_FILE=$TMPDIR/faulted.db MICRODNN_SIM_FAULTS=cudnnBackendFinalize:$faulted:3000 \
            MICRODNN_STATS_FILE=$TMPDIR/faulted LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library \
            "$matrix" check "$record" 16384 close 2 >"$TMPDIR/faulted.out" 2>&1 || return 1
        grep -q '"executions_passed": 0,' "$TMPDIR/faulted" || {
            echo "after fault $faulted:"
            grep executions_ "$TMPDIR/faulted"
            return 1
        }
    done
}

CONV_MATRIX=$(few few all)
export CONV_MATRIX MICRODNN_CACHE_FILE="$cache"
"$matrix" record "$record" || exit 1
plan 10
check 'a cold run measures and keeps costs and choices' cold_run_measures
check 'later runs time nothing and choose the same' later_runs_repeat
check 'processes that measure at the same time do not disturb each other' several_at_once
check 'an import serves and stays untouched' an_import_serves_and_stays_untouched
check 'a damaged file is set aside, said, and made anew' a_damaged_file_is_set_aside
check "by default it is kept in the user's cache folder" it_is_kept_where_the_user_keeps_caches
check 'nothing is kept if nobody wants it' nothing_is_kept_if_nobody_wants_it
check 'a file that lies about what it measured admits nothing' a_file_that_lies_admits_nothing
check 'a file that cannot be made is said once' a_file_that_cannot_be_made_is_said_once
check 'where the best cannot be made the next best runs' what_cannot_be_made_is_skipped
finish
