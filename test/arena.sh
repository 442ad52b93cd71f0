#!/bin/sh
# Policy wd in running programs: right results, memory within the total, what callers are told, how
# often is divided. Programs are test/clients/arena.c and train_cnn; all on the simulated GPU, whose
# order of work shows missing waits.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/preloaded.sh
. "$(dirname "$0")/preloaded.sh"

arena=$MDNN_BUILD/test/clients/arena
MICRODNN_CONVOLUTION_MEASURE_REPEATS=1
MICRODNN_CACHE_FILE=$TMPDIR/costs.db # measuring is most of the time
export MICRODNN_CONVOLUTION_MEASURE_REPEATS MICRODNN_CACHE_FILE

# wd TOTAL MODEL COMMAND...: under policy wd; the library's lines go to $log
wd() {
    wd_total=$1
    wd_model=$2
    shift 2
    (
        export MICRODNN_CONVOLUTION_POLICY=wd MICRODNN_CONVOLUTION_TOTAL_WORKSPACE="$wd_total"
        export MICRODNN_CONVOLUTION_WD_MODEL="$wd_model" MICRODNN_LOG_FILE="$log"
        preload_library
        "$@"
    )
}

count() { # counter of the last run; 0 if there is none
    number=$(sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" "$stats" | head -n 1)
    echo "${number:-0}"
}

# counts EXPRESSION...: of the shell's arithmetic test, counters by name before the first blank
counts() {
    for expression; do
        # shellcheck disable=SC2086 # an expression is words
        set -- $expression
        test "$(count "$1")" "$2" "$3" || {
            echo "not so: $expression; it is $(count "$1")"
            return 1
        }
    done
}

# program NAME TOTAL EXPRESSION...: right in both models under several orders of work; in the quick suite in one of them, by turns
program() {
    name=$1
    total=$2
    shift 2
    [ $((tap_count % 2)) = 0 ] && model=shared || model=sum
    for model in $(few $model 'shared sum'); do
        for seed in $(few 1 '1 2'); do
            : >"$log"
            MICRODNN_SIM_SEED=$seed wd "$total" "$model" "$arena" "$name" "$total" ||
                { echo "$model, seed $seed"; return 1; }
            counts "arena_bytes -eq $total" "arena_uses -gt 20" "$@" && said_nothing || return 1
        done
    done
}

# Later captures find no memory; one line says what that means.
captures_in_flight() {
    for seed in $(few 1 '1 2 3'); do
        : >"$log"
        MICRODNN_SIM_SEED=$seed wd 2097152 shared "$arena" captures_in_flight 2097152 || return 1
        counts "arena_bytes -eq 2097152" "arena_misses -gt 0" || return 1
        [ "$(wc -l <"$log")" -le 1 ] || { cat "$log"; return 1; }
    done
}

# calls FUNCTION PROGRAM: some that it makes of that function; two threads make few events
calls() { [ "$1 $2" = 'cuEventCreate two_models_in_two_threads' ] && echo 1 2 || few 5 '1 2 5 14'; }

# survives FUNCTION: results are right although a call of it fails; the client sees that it did
survives() {
    for name in $(few many_streams 'two_models_in_two_threads many_streams'); do
        for nth in $(calls "$1" $name); do
            : >"$log"
            wd 1048576 shared "$arena" "$name" 1048576 "$1:$nth" ||
                { echo "call $nth of $1 in $name"; cat "$log"; return 1; }
            [ "$(wc -l <"$log")" -le 1 ] || { cat "$log"; return 1; }
        done
    done
}

halves_what_is_not_there() {
    : >"$log"
    MICRODNN_SIM_MEMORY=512MiB wd 805306368 shared "$arena" trains 805306368 &&
        counts "arena_bytes -eq 402653184" "arena_halvings -eq 1" "arena_uses -gt 20" || return 1
    [ "$(grep -c '402653184 are available' "$log")" = 1 ] && [ "$(wc -l <"$log")" = 1 ]
}

short_run() { # file, arguments...
    short_file=$1
    shift
    "$train_cnn" --data "$data" --quiet --find-repeats 1 --batch "$(few 8 32)" --iterations "$(few 4 6)" --json "$short_file" "$@"
}

# holds EXPRESSION: of a and b, the results of two runs
holds() {
    python3 -I -S - "$TMPDIR/a.json" "$TMPDIR/b.json" "$1" <<'PYTHON'
import json, sys
a, b = (json.load(open(name)) for name in sys.argv[1:3])
if not eval(sys.argv[3]):
    brief = [{key: run[key] for key in ("losses", "workspace_bytes", "convolution_ms")} for run in (a, b)]
    sys.exit(f"not so: {sys.argv[3]}\n{brief}")
PYTHON
}

# On one stream `shared` runs what WR runs with the total as its limit: same bits, same times, as many
# parts. Each measures for itself: how much is known of larger workspaces decides between equals.
shared_equals_wr() {
    MICRODNN_CACHE_FILE=
    for total in $(few 65536 '65536 1048576'); do
        (
            preload_library
            short_run "$TMPDIR/a.json" --workspace-limit "$total"
        ) || return 1
        parts=$(count parts)
        split=$(count executions_split)
        wd "$total" shared short_run "$TMPDIR/b.json" --workspace-limit "$total" || return 1
        counts "parts -eq $parts" "executions_split -eq $split" &&
            holds "a['losses'] == b['losses'] and a['convolution_ms'] == b['convolution_ms']" || return 1
    done
}

trains_alike() { # tolerance, models, arguments...: with the losses of a.json
    tolerance=$1
    models=$2
    shift 2
    for model in $models; do
        : >"$log"
        wd 4194304 "$model" short_run "$TMPDIR/b.json" "$@" || return 1
        counts "arena_bytes -eq 4194304" "arena_uses -gt 40" "networks -ge 1" && said_nothing &&
            holds "b['workspace_bytes'] == 0 and all(abs(p - q) <= $tolerance
                for p, q in zip(a['losses'], b['losses']))" || return 1
    done
}

digits_train_alike() { # models, arguments...
    models=$1
    shift
    thorough || set -- --search heuristic "$@"
    short_run "$TMPDIR/a.json" "$@" && trains_alike 1e-6 "$models" "$@"
}

# The regions of the streams are parts of one total; wr keeps to the workspaces that the program has.
branch_streams_train_alike() ( # models, arguments...
    models=$1
    shift
    MICRODNN_SIM_SEED=3
    export MICRODNN_SIM_SEED
    short_run "$TMPDIR/a.json" --net inception-tiny --search heuristic "$@" || return 1
    (
        preload_library
        short_run "$TMPDIR/b.json" --net inception-tiny --branch-streams --workspace-limit 65536 "$@"
    ) && counts "problems -gt 0" &&
        holds "all(abs(p - q) <= 1e-4 for p, q in zip(a['losses'], b['losses']))" || return 1
    trains_alike 1e-4 "$models" --net inception-tiny --branch-streams "$@"
)

# The same total: shared within `sum` within WR by the layer, as docs/design/workspace-division.md foresees on paper.
alexnet_gains_as_foreseen() {
    for policy in wr sum shared; do
        (
            export MICRODNN_SIM_MODE=timing MICRODNN_SIM_PROFILE=h200
            set -- short_run "$TMPDIR/$policy.json" --net alexnet --batch "$(few 64 256)" --iterations "$(few 4 5)" \
                --workspace-limit 8MiB --workspace-per-layer
            preload_library
            if [ "$policy" = wr ]; then "$@"; else wd 120MiB "$policy" "$@"; fi
        ) || return 1
    done
    cp "$TMPDIR/sum.json" "$TMPDIR/b.json"
    cp "$TMPDIR/wr.json" "$TMPDIR/a.json" &&
        holds "a['convolution_ms']['median'] > 1.3 * b['convolution_ms']['median']" &&
        cp "$TMPDIR/shared.json" "$TMPDIR/a.json" &&
        holds "1.5 * a['convolution_ms']['median'] < b['convolution_ms']['median']" &&
        holds "a['workspace_bytes'] == 0 and b['workspace_bytes'] == 0"
}

# asks_glpk HOST MILLISECONDS SCRIPT...: a model is switched while SCRIPT, if there is one, is what the library
# finds in the place of microdnn-ilp: in $beside of the library's folder. HOST "ignores" SIGCHLD, "reaps" all children, or is "plain".
asks_glpk() (
    host=$1
    MICRODNN_CONVOLUTION_SOLVER=glpk MICRODNN_CONVOLUTION_SOLVER_TIME=$2
    export MICRODNN_CONVOLUTION_SOLVER MICRODNN_CONVOLUTION_SOLVER_TIME
    shift 2
    rm -rf "${TMPDIR:?}/lib" "$TMPDIR/asked" && mkdir -p "$TMPDIR/lib/microdnn" && cp "$library" "$TMPDIR/lib/libmicrodnn.so" ||
        exit 1
    library=$TMPDIR/lib/libmicrodnn.so
    if [ $# -gt 0 ]; then
        { echo '#!/bin/sh'; echo "echo >>'$TMPDIR/asked'"; printf '%s\n' "$@"; } >"$TMPDIR/lib/${beside:-}microdnn-ilp"
        chmod +x "$TMPDIR/lib/${beside:-}microdnn-ilp"
    fi
    [ "$host" = ignores ] && trap '' CHLD
    [ "$host" = reaps ] || host=
    : >"$log"
    wd 1048576 sum "$arena" switches_models 1048576 "$host" || { cat "$log"; exit 1; }
    counts "divisions_solved -ge 2" "divisions_solved -le 4" "divisions_unproven -eq 0" || exit 1
    [ $# = 0 ] || [ "$(wc -l <"$TMPDIR/asked")" = "$(count divisions_solved)" ]
)

glpk_divides() {
    beside=microdnn/ # where `make install` has it
    for host in $(few ignores 'plain ignores reaps'); do
        asks_glpk $host 5000 "exec '$MDNN_BUILD/microdnn-ilp' \"\$@\"" && said_nothing ||
            { echo "$host"; return 1; }
    done
    beside=
}

# without_glpk SCRIPT...: as if the library's own had been asked for; one line says so.
without_glpk() {
    for host in $(few ignores 'plain ignores reaps'); do
        asks_glpk $host 50 "$@" || { echo "$host"; return 1; }
        [ "$(grep -c "the library's own solver is used" "$log")" = 1 ] && [ "$(wc -l <"$log")" = 1 ] ||
            { echo "$host"; cat "$log"; return 1; }
    done
}

# A program of that name where the process stands and in PATH, and beside the library one that others may write.
planted_programs_do_not_run() {
    planted=$TMPDIR/planted
    mkdir -p "$planted" || return 1
    { echo '#!/bin/sh'; echo "echo >>'$TMPDIR/ran'"; } >"$planted/microdnn-ilp"
    chmod +x "$planted/microdnn-ilp" && (cd "$planted" && PATH=$planted:$PATH without_glpk) || return 1
    [ ! -e "$TMPDIR/ran" ] || { echo 'it ran'; return 1; }
    asks_glpk plain 50 'cat >/dev/null' && chmod o+w "$TMPDIR/lib/microdnn-ilp" && rm "$TMPDIR/asked" || return 1
    : >"$log"
    MICRODNN_CONVOLUTION_SOLVER=glpk library=$TMPDIR/lib/libmicrodnn.so \
        wd 1048576 sum "$arena" switches_models 1048576 && [ ! -e "$TMPDIR/asked" ]
}

plan 31
check 'training asks for no workspace and is right' program trains 1048576 'networks -eq 1' \
    'networks_followed -eq 1' 'arena_divisions -eq 1'
check 'where the same bits each time take more than a quarter of the total' program trains 2048
check 'nor does who asks for these bring workspace' program asks_for_the_same_bits 4096
check 'a model that is switched is planned once for each switch' program switches_models 1048576 \
    'networks -eq 2' 'networks_followed -eq 4' 'divisions_solved -le 4' 'arena_divisions -eq 1'
check 'two models in turns are right, and nothing grows' program alternates_models 1048576 \
    'networks -le 2' 'networks_followed -le 2' 'divisions_solved -le 2' 'arena_divisions -eq 1'
check 'an evaluation is one change each way, an odd last batch is none' program runs_epochs 1048576 \
    'networks -eq 2' 'networks_followed -eq 8' 'divisions_solved -le 8' 'arena_divisions -eq 1'
check 'two models in two threads are two networks' program two_models_in_two_threads 1048576 \
    'networks -eq 2' 'networks_followed -eq 2' 'divisions_solved -le 2' 'arena_divisions -le 4'
check 'two threads on one stream do not mix' program two_threads_on_one_stream 1048576
check 'more streams than regions, some destroyed at work' program many_streams 1048576 \
    'arena_divisions -le 16'
check 'a region that is too small is left for the whole' program many_streams_of_the_same_bits 8192 \
    'arena_misses -eq 0'
check 'branches on streams of their own' program branches 1048576 'networks -eq 3' \
    'networks_followed -eq 3' 'divisions_solved -eq 1' 'arena_divisions -le 4'
check 'captured graphs have memory of their own' program captures 1048576 'arena_waits -eq 0'
check 'graphs whose convolutions need most of the total' program captures 2048
check 'captures beside work in the arena' captures_in_flight
check 'what is not there is halved' halves_what_is_not_there
for function in cuEventCreate cuEventRecord cuStreamWaitEvent cuStreamIsCapturing; do
    check "results are right although $function fails" survives $function
done
check 'on one stream shared runs what WR runs' shared_equals_wr
MICRODNN_CACHE_FILE=$TMPDIR/costs.db
check 'train_cnn loses nothing' digits_train_alike "$(few shared 'shared sum')"
check 'nor with graphs and a workspace for each layer' digits_train_alike "$(few sum 'shared sum')" --api graph --workspace-per-layer
check 'nor with branches on streams of their own' branch_streams_train_alike "$(few shared 'shared sum')"
check 'nor with their graphs' branch_streams_train_alike "$(few sum 'shared sum')" --api graph
check 'AlexNet gains what was worked out on paper' alexnet_gains_as_foreseen
if [ -x "$MDNN_BUILD/microdnn-ilp" ]; then
    check 'GLPK divides, whatever the host does with its children' glpk_divides
else
    skip 'GLPK divides, whatever the host does with its children' 'microdnn-ilp is not built: there is no GLPK'
fi
check 'without microdnn-ilp it goes on' without_glpk
check 'nor is one run that is not installed with it' planted_programs_do_not_run
check 'so it does where microdnn-ilp is killed' without_glpk 'cat >/dev/null' 'kill -9 $$'
check 'or slow' without_glpk 'exec sleep 60'
check 'or answers rubbish' without_glpk 'cat >/dev/null' 'echo microdnn-ilp solution 1' 'echo state optimal'
finish
