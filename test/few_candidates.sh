#!/bin/sh
# Under a memory budget, where nothing limits workspace, a program does not wait until all candidates of its
# convolutions are measured (convolution.candidates): a few are, and the others when somebody wants all. Times are
# simulated.
# shellcheck disable=SC2317 # functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_CONVOLUTION_POLICY=wr MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing MICRODNN_CACHE_FILE=none
export MICRODNN_CONVOLUTION_POLICY MICRODNN_SIM_PROFILE MICRODNN_SIM_MODE MICRODNN_CACHE_FILE
all=MICRODNN_CONVOLUTION_CANDIDATES=all
few=MICRODNN_CONVOLUTION_CANDIDATES=few
kept=MICRODNN_CACHE_FILE=$TMPDIR/costs.db

# counter NAME: of the statistics of the run before
counter() { sed -n "s/^ *\"$1\": *\([0-9]*\),*\$/\1/p" "$stats" | head -n 1; }

# train BUDGET TYPE [VARIABLE=VALUE...]: sets us, the time of the convolutions, measurements and problems
train() {
    budget=$1 type=$2
    shift 2
    under "$budget" env "$@" "$train_cnn" --api graph --net "${net:-alexnet}" --batch "${batch:-64}" --dtype "$type" \
        --search "${search:-heuristic}" --workspace-limit none --iterations 3 --warmup 2 >"$TMPDIR/out" 2>&1 ||
        { cat "$TMPDIR/out" "$log"; return 1; }
    us=$(sed -n 's/^convolutions \([0-9]*\)\.\([0-9]*\) ms .*/\1\2/p' "$TMPDIR/out")
    measurements=$(counter measurements) problems=$(counter problems)
    [ -n "$us" ] && [ "$problems" -gt 5 ]
}

# Three or four for each problem, as `few` has them without a budget, which are almost as fast as all.
measures_few() { # type, per mille
    train none "$1" "$all" && all_us=$us all_measurements=$measurements || return 1
    train none "$1" "$few" && few_us=$us few_measurements=$measurements || return 1
    train 100GiB "$1" || return 1
    echo "$us us with $measurements measurements of $problems problems; all: $all_us us, $all_measurements"
    [ "$measurements" -le $((5 * problems)) ] && [ "$measurements" -gt $((2 * problems)) ] &&
        [ "$all_measurements" -gt $((8 * problems)) ] && [ $((us * 1000)) -le $((all_us * (1000 + $2))) ] &&
        [ "$few_us $few_measurements" = "$us $measurements" ]
}

measures_all() { # budget, variables...
    budget=$1
    shift
    train none tf32 "$@" && all_us=$us all_measurements=$measurements && train "$budget" tf32 "$@" || return 1
    echo "$us us with $measurements measurements; without a budget $all_us us, $all_measurements"
    [ "$measurements" -gt $((8 * problems)) ] && [ "$us $measurements" = "$all_us $all_measurements" ]
}

# A run repeats the choices of the one before, with the file and without it.
repeats() {
    rm -f "$TMPDIR/costs.db"
    train 100GiB tf32 && cp "$TMPDIR/out" "$TMPDIR/first" && first_us=$us && train 100GiB tf32 &&
        [ "$us" = "$first_us" ] && train 100GiB tf32 "$kept" && [ "$us" = "$first_us" ] &&
        train 100GiB tf32 "$kept" || return 1
    echo "$first_us us, then $us us and $measurements measurements"
    [ "$us" = "$first_us" ] && [ "$measurements" = 0 ]
}

# Whoever wants all gets all, and finds the few there; and so does the next run under a budget.
completes() { # type
    rm -f "$TMPDIR/costs.db"
    train none "$1" && whole_us=$us whole_measurements=$measurements &&
        train 100GiB "$1" "$kept" && few_measurements=$measurements &&
        train none "$1" "$kept" || return 1
    echo "$whole_us us with $whole_measurements measurements; after $few_measurements, $us us with $measurements more"
    [ "$us" = "$whole_us" ] && [ $(((few_measurements + measurements) * 100)) -ge $((whole_measurements * 98)) ] &&
        [ "$measurements" -lt "$whole_measurements" ] || return 1
    train none "$1" "$kept" && [ "$measurements" = 0 ] && [ "$us" = "$whole_us" ] &&
        train 100GiB "$1" "$kept" && echo "then $us us with $measurements" && [ "$measurements" = 0 ] &&
        [ "$us" = "$whole_us" ]
}

# The program's own search runs what it likes, and its choice is measured no more than before.
searches() {
    search=exhaustive
    train 100GiB tf32 "$all" && all_us=$us all_measurements=$measurements && train 100GiB tf32
    result=$?
    search=heuristic
    echo "$us us with $measurements measurements; with all $all_us us, $all_measurements"
    [ $result = 0 ] && [ $((us * 100)) -le $((all_us * 101)) ] && [ "$measurements" -le "$all_measurements" ]
}

# The program's own plans have no room for their workspaces, parts of the batch have.
divides() {
    ! MICRODNN_CONVOLUTION_POLICY=off train 80MiB tf32 >"$TMPDIR/without" 2>&1 && grep -q 'out of device memory' "$TMPDIR/without" &&
        train 80MiB tf32 && holds "counters['executions_split'] > 0 and $in_budget"
}

# Where nothing of the few for a whole batch fits, a few for parts are measured, too, instead of all. Times differ from
# run to run here, where the host moves memory meanwhile.
divides_with_few() {
    train 80MiB tf32 "$all" && all_us=$us all_measurements=$measurements && train 80MiB tf32 || return 1
    echo "$us us with $measurements measurements of $problems problems; all: $all_us us, $all_measurements"
    [ "$measurements" -le $((2 * problems)) ] && [ "$all_measurements" -gt $((6 * problems)) ] &&
        [ $((us * 100)) -le $((all_us * 150)) ] && holds "counters['executions_split'] > 0"
}

# Such a program wants the bits that it has without the library.
measures_nothing() {
    train 100GiB tf32 CUBLAS_WORKSPACE_CONFIG=:4096:8 "$@"
    echo "$measurements measurements, $us us"
    [ "$us" -gt 0 ] && [ "$measurements" = 0 ] && holds "counters['executions_passed'] > 0 and counters['executions_split'] == 0 and counters['passed_same_bits'] > 0"
}

plan "$(few 13 14)"
check 'a few candidates are measured, which lose little (AlexNet, TF32)' measures_few tf32 20
check 'a few candidates are measured, which lose little (AlexNet, fp32)' measures_few fp32 20
check 'a run repeats the choices of the one before' repeats
check 'who wants all finds the few, and measures the others (TF32)' completes tf32
check 'who wants all finds the few, and measures the others (fp32)' completes fp32
check 'parts run where nothing else fits' divides
check 'a few candidates for parts are measured where none for the whole fits' divides_with_few
check 'all are measured where workspace is limited' measures_all 100GiB MICRODNN_WORKSPACE_LIMIT=16MiB
check 'all are measured for a policy that chooses among workspaces' \
    measures_all 100GiB MICRODNN_MEMORY_VARIANTS=fitting
check 'a program that searches is as fast' searches
check 'the convolutions of a deterministic program stay as they are' measures_nothing
check 'also with a choice among workspaces' measures_nothing MICRODNN_MEMORY_VARIANTS=fitting
check 'unless it has limited workspace' measures_all 100GiB MICRODNN_WORKSPACE_LIMIT=16MiB CUBLAS_WORKSPACE_CONFIG=:4096:8
if thorough; then
    net=resnet50
    check 'a few candidates are measured, which lose little (ResNet-50, TF32)' measures_few tf32 20
fi
finish
