#!/bin/sh
# scripts/gpu/check-ranks without a GPU: which rows there are, and that each rule fails where it is broken. A worker
# of test/fakes answers instead of PyTorch, and plays the library's part.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
make_stand_in

check_ranks() { # arguments...
    scripts/gpu/check-ranks --build "$BUILD" --small --worker test/fakes/ranks_worker.py --warm-seconds 0 \
        --launcher 'test/fakes/ranks_worker.py --launch' --job-seconds 0.2 --jobs 2 --pairs 2 --end-seconds 2 "$@" >"$OUT/said" 2>&1
}

# Of one network, or of all: four rows each, kills, and the limit.
all_rows_hold() {
    set -- "$(few 1 4)"
    # shellcheck disable=SC2046 # several words
    check_ranks $(few '--only kills --only resnet50.*ddp' '') || {
        tail -20 "$OUT/said"
        return 1
    }
    report_says ranks.json "len(rows) == 3 * $1 + 2 and all(row['verdict'] == 'held' for row in rows.values())"
}

# wrong WHAT PROBLEM ROWS
wrong() {
    FAKE_WRONG=$1 check_ranks --only "$3"
    [ $? = 1 ] && grep -q "^FAILED .*$2" "$OUT/said" && return
    tail -20 "$OUT/said"
    return 1
}

without_time() {
    check_ranks --seconds 6
    [ $? = 1 ] && grep -q '^LEFT OUT, no time: stock' "$OUT/said"
}

# Less pinned memory than wanted: a refusal is right if it says that memory is short.
clear_refusal() {
    FAKE_WRONG=refused check_ranks --only ' resnet50 b2 fp32 ddp' &&
        report_says ranks.json 'any("refused" in text for text in rows["limit resnet50 b2 fp32 ddp"]["notes"])'
}

two_gpus_are_needed() {
    mkdir -p "$OUT/bin" && printf '#!/bin/sh\necho one GPU\n' >"$OUT/bin/nvidia-smi" && chmod +x "$OUT/bin/nvidia-smi"
    PATH="$OUT/bin:$PATH" scripts/gpu/check-ranks --build "$BUILD" >"$OUT/said" 2>&1
    [ $? = 77 ] && grep -q '2 GPUs are needed' "$OUT/said"
}

plan 10
check 'all rows hold where nothing is wrong' all_rows_hold
check 'other bits are found' wrong bits "not as stock's" 'bits resnet50 b2 fp32 ddp'
check 'two ranks that are slower are found' wrong slow 'ratio 2' 'times resnet50 b2 fp32 ddp'
check 'more pinned memory than the limit is found' wrong pinned 'were pinned' 'bits resnet50 b2 fp32 ddp'
check 'entries of the dead are found' wrong entry 'entries of dead' kills
check 'a job that does not end is found' wrong stays 'not all of it ended' kills
check 'another exit status is found' wrong status "stock's" kills
check 'what there is no time for is listed' without_time
check 'a refusal for want of pinned memory is a result' clear_refusal
check 'two GPUs are needed' two_gpus_are_needed
finish
