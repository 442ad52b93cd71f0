#!/bin/sh
# A program that searches engines by itself, on the graph API, and has no limit: what it runs anyway is
# not measured before, and nothing is lost by that. Times are simulated.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
stats=$TMPDIR/stats.json
log=$TMPDIR/log
everything=MICRODNN_WORKSPACE_LIMIT=1TiB # what is limited is measured whole
export MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing

# train NET BATCH TYPE [VARIABLE=VALUE...]: sets us, the convolution time in microseconds
train() {
    net=$1 batch=$2 type=$3
    shift 3
    rm -f "$stats"
    env "$@" "$MDNN_BUILD/train_cnn" --api graph --net "$net" --batch "$batch" --dtype "$type" \
        --search "${search:-exhaustive}" --workspace-limit none --iterations 4 --warmup 2 \
        >"$TMPDIR/out" 2>"$log" || { cat "$log"; return 1; }
    us=$(sed -n 's/^convolutions \([0-9]*\)\.\([0-9]*\) ms .*/\1\2/p' "$TMPDIR/out")
    [ -n "$us" ] || { echo 'no time'; return 1; }
}

# The same with the library; sets measurements too.
measure() {
    train "$@" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" MICRODNN_STATS=json \
        MICRODNN_STATS_FILE="$stats" MICRODNN_LOG=debug || return 1
    measurements=$(sed -n 's/^ *"measurements": *\([0-9]*\),*$/\1/p' "$stats")
    compiled=$(grep -c 'planned engine 9 ' "$log" || true) # the simulator's, with the note
}

# as_fast ARGUMENTS...: as stock, and as after a measurement of everything, with fewer of them
as_fast() {
    train "$@" && stock_us=$us && measure "$@" "$everything" &&
        whole_us=$us whole_measurements=$measurements whole_compiled=$compiled && measure "$@" || return 1
    echo "stock $stock_us us, measured whole $whole_us us, now $us us"
    echo "$measurements of $whole_measurements measurements, $compiled of $whole_compiled compiled engines"
    [ $((us * 99)) -le $((stock_us * 100)) ] && [ $((us * 199)) -le $((whole_us * 200)) ] &&
        [ $((measurements * 3)) -le $((whole_measurements * 2)) ] &&
        [ "$whole_compiled" -ge 10 ] && [ $((compiled * 20)) -le "$whole_compiled" ]
}

# What the search found is known to the next run, and what was left to it is not measured then.
starts_warm() {
    rm -f "$TMPDIR/cache.db"
    measure "$@" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" || return 1
    cold_us=$us
    [ "$measurements" -gt 0 ] || { echo 'the first run measured nothing'; return 1; }
    for run in $(few second 'second third'); do
        measure "$@" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" || return 1
        listed=$(grep -c 'listed [0-9]' "$log" || true)
        echo "cold $cold_us us, $run $us us with $measurements measurements, $listed lists of engines"
        [ "$measurements" = 0 ] && [ "$listed" = 0 ] && [ "$us" -le "$cold_us" ] || return 1
    done
}

# A limit does not miss what an earlier run deferred to its search.
limits_know_everything() {
    limit=MICRODNN_WORKSPACE_LIMIT=16MiB
    rm -f "$TMPDIR/cache.db"
    measure "$@" "$limit" && limited_us=$us && limited_compiled=$compiled &&
        measure "$@" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" &&
        measure "$@" "$limit" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" || return 1
    echo "$limited_us us with $limited_compiled compiled engines; after a search $us us with $compiled"
    [ "$us" = "$limited_us" ] && [ $((compiled * 20)) -ge $((limited_compiled * 19)) ]
}

# What a search chose is there for a program without one, which still may begin with another engine.
serves_others() {
    rm -f "$TMPDIR/cache.db"
    search=heuristic
    measure "$@" && whole_us=$us || return 1
    search=exhaustive
    measure "$@" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" || return 1
    search=heuristic
    measure "$@" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" || return 1
    search=exhaustive
    echo "$whole_us us with everything measured, after a search $us us"
    [ $((us * 997)) -le $((whole_us * 1000)) ]
}

# plans WAYS [VARIABLE=VALUE...]: a program that plans some convolutions as WAYS says; sets measurements,
# and times, what each one takes at last
plans() {
    ways=$1
    shift
    rm -f "$stats"
    env "$@" LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" MICRODNN_STATS=json \
        MICRODNN_STATS_FILE="$stats" MICRODNN_LOG=debug \
        "$MDNN_BUILD/test/clients/graph_search" "$ways" >"$TMPDIR/out" 2>&1 ||
        { cat "$TMPDIR/out"; return 1; }
    times=$(grep ' us$' "$TMPDIR/out")
    measurements=$(sed -n 's/^ *"measurements": *\([0-9]*\),*$/\1/p' "$stats")
}

kept() { # as plans, with the database
    kept_ways=$1
    shift
    plans "$kept_ways" MICRODNN_CACHE_FILE="$TMPDIR/cache.db" "$@"
}

# What was deferred to a search is measured by the first program that does not search, and by it only.
measures_what_was_left() {
    rm -f "$TMPDIR/cache.db"
    plans ffff && whole_times=$times whole_measurements=$measurements && kept ssss || return 1
    kept ffff && left_measurements=$measurements left_times=$times || return 1
    listed=$(grep -c 'listed [1-9]' "$TMPDIR/out")
    kept ffff || return 1
    echo "$whole_measurements measurements at first, after a search $left_measurements, then $measurements"
    echo "$listed lists of engines"
    [ $((left_measurements * 10)) -ge "$whole_measurements" ] && [ "$listed" = 3 ] &&
        [ "$left_measurements" -lt "$whole_measurements" ] && [ "$measurements" = 0 ] &&
        [ "$left_times" = "$whole_times" ] && [ "$times" = "$whole_times" ]
}

# What a search tried and found slow is as good as measured, and what it chose is timed where it runs.
knows_what_was_tried() {
    rm -f "$TMPDIR/cache.db"
    kept ssss && left=$(left) && kept ffff || return 1
    echo "$left candidates left, of which $measurements were measured later"
    [ "$measurements" -gt 0 ] && [ $((measurements * 3)) -lt $((left * 2)) ]
}

times_what_was_chosen() {
    measure "$@" || return 1
    again=$(grep -c ': timed 1 candidates, left 0 untried' "$log" || true)
    taken=$(grep -c 'own plan of engine .* by its own runs' "$log" || true)
    echo "$again chosen plans timed on scratch, $taken by their own runs"
    [ "$again" = 0 ] && [ "$taken" -ge 5 ]
}

# Nor is what a limit needs, in a search that has one.
measures_what_a_limit_needs() {
    rm -f "$TMPDIR/cache.db"
    limit=MICRODNN_WORKSPACE_LIMIT=1MiB
    plans ssss "$limit" && whole_times=$times && kept ssss && kept ssss "$limit" || return 1
    limited=$measurements
    [ "$limited" -gt 0 ] && [ "$times" = "$whole_times" ] || { echo "$limited measurements; $times"; return 1; }
    kept ffff "$limit" && [ "$measurements" = 0 ]
}

# The last that the log says of each problem: how many of its candidates nobody tried.
left() {
    sed -n 's/.* \(forward .*\): timed [0-9]* candidates, left \([0-9]*\) untried.*/\2 \1/p' "$TMPDIR/out" |
        awk '{ of[$5] = $1 } END { for (each in of) sum += of[each]; print sum + 0 }'
}

# finds_out WAYS THEN: nothing is left of what WAYS does not search, so that THEN measures nothing.
finds_out() {
    rm -f "$TMPDIR/cache.db"
    kept "$1" && left=$(left) && kept "$2" || return 1
    echo "$left candidates left, then $measurements measurements"
    [ "$left" = 0 ] && [ "$measurements" = 0 ]
}

# A search leaves what it does not run, and what it tried is not measured again in the next one.
leaves_and_knows() {
    rm -f "$TMPDIR/cache.db"
    kept ssss && left=$(left) && kept ssss || return 1
    echo "$left candidates left, then $measurements measurements"
    [ "$left" -gt 0 ] && [ "$measurements" = 0 ]
}

says_what_it_measured() {
    measure "$@" || return 1
    sed -n 's/.*: timed \([0-9]*\) candidates, left \([0-9]*\) untried, in \(.*)\)$/\1 \2 \3/p' "$log" |
        sed "s/[,()]//g; s/ms\|lists\|cuDNN's\|guesses\|plans\|memory//g" >"$TMPDIR/said"
    said=$(awk '{ timed += $1; left += $2 } END { print timed, left }' "$TMPDIR/said")
    echo "$said; $measurements measurements; shares that exceed their whole:"
    ! awk 'NF != 7 || $4 + $5 + $6 + $7 > $3 + 0.2' "$TMPDIR/said" | grep . &&
        [ "${said% *}" = "$measurements" ] && [ "${said#* }" -gt 0 ]
}

plan "$(few 13 19)"
check 'a search is as fast with fewer measurements (ResNet-18, TF32)' as_fast resnet18 64 tf32
check 'a warm start measures nothing (AlexNet, TF32)' starts_warm alexnet 64 tf32
check 'a limit knows everything after a search (ResNet-18, TF32)' limits_know_everything resnet18 64 tf32
if thorough; then
    check 'a search is as fast with fewer measurements (AlexNet, TF32)' as_fast alexnet 256 tf32
    check 'a search is as fast with fewer measurements (ResNet-18, fp16)' as_fast resnet18 64 fp16
    check 'a search is as fast with fewer measurements (ResNet-50, fp16)' as_fast resnet50 64 fp16
    check 'a warm start measures nothing (AlexNet of 256, TF32)' starts_warm alexnet 256 tf32
    check 'a warm start measures nothing (ResNet-18, fp16)' starts_warm resnet18 64 fp16
    check 'a limit knows everything after a search (AlexNet, TF32)' limits_know_everything alexnet 256 tf32
fi
check 'what a search chose serves a program without one (ResNet-18, fp16)' serves_others resnet18 64 fp16
check 'what was deferred to a search is measured for a program without one' measures_what_was_left
check 'what a search tried and found slow is not measured again' knows_what_was_tried
check 'what a search chose is timed where it runs (ResNet-18, TF32)' times_what_was_chosen resnet18 64 tf32
check 'what was deferred to a search is measured for one with a limit' measures_what_a_limit_needs
check 'a search leaves candidates to the program, and so does the next one' leaves_and_knows
check 'a program that asks like a search and tries nothing is found out' finds_out saaa .fff
check 'a program that ends its searches is found out' finds_out sfffff .fffff
check 'a search in between does not hide who takes the first plan' finds_out sfffffsffff .fffff.ffff
check 'the log says how many were timed and left, and what took how long' says_what_it_measured resnet18 64 tf32
finish
