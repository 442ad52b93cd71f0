#!/bin/sh
# scripts/gpu/check-ranks without a GPU: which rows there are, and that each rule fails where it is broken. A worker
# of test/fakes answers instead of PyTorch, and plays the library's part.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
export FAKE_USED="$OUT/used"
make_stand_in
gcc -shared -fPIC test/fakes/nvml.c -o "$BUILD/libnvidia-ml.so.1"
cp test/fakes/microdnn_tune "$BUILD/microdnn"

check_ranks() { # arguments...
    rm -f "$FAKE_USED"*
    LD_LIBRARY_PATH=$BUILD scripts/gpu/check-ranks --build "$BUILD" --small --worker test/fakes/ranks_worker.py --warm-seconds 0 \
        --launcher 'test/fakes/ranks_worker.py --launch' --job-seconds 0.2 --jobs 2 --pairs 2 --tune-ratio 1000 "$@" >"$OUT/said" 2>&1
}

# Of one network, or of all: three rows each, and the others.
all_rows_hold() {
    set -- "$(few 1 4)"
    # shellcheck disable=SC2046 # several words
    check_ranks --at-once 2 $(few '--only kills --only tune --only pair --only resnet50.*ddp' '') || {
        tail -20 "$OUT/said"
        return 1
    }
    report_says ranks.json "len(rows) == 3 * $1 + 4 and
        all(row['verdict'] == ('identical' if name.startswith(('bits', 'pair')) else 'held') for name, row in rows.items())"
}

says_all() { # TEXT of what was said
    grep -q "$1" "$OUT/said" && return
    tail -20 "$OUT/said"
    return 1
}

# wrong WHAT PROBLEM ROWS [ARGUMENT...]
wrong() {
    wrong_what=$1 wrong_problem=$2 wrong_rows=$3
    shift 3
    FAKE_WRONG=$wrong_what check_ranks --only "$wrong_rows" "$@"
    [ $? = 1 ] && says_all "^FAILED .*$wrong_problem"
}

# Where stock has other bits in each run, too, losses decide.
stock_that_differs() {
    FAKE_STOCK=random check_ranks --only 'bits resnet50 b2 fp32 ddp' --only pair &&
        report_says ranks.json 'all(row["verdict"] == "close" and any("two stock runs differ" in text for text in row["notes"])
            for name, row in rows.items() if not name.startswith("stock"))' &&
        FAKE_STOCK=random wrong far 'losses differ' 'bits resnet50 b2 fp32 ddp'
}

# No two teams of the library train at a time, or pinned memory would be that of both.
one_after_the_other() {
    check_ranks --only 'bits resnet50 b2 fp32' &&
        report_says ranks.json '[name for name in rows] == [f"{part} resnet50 b2 fp32 {wrap}" for part, wrap in
            (("stock", "ddp"), ("stock", "fsdp2"), ("bits", "ddp"), ("bits", "fsdp2"))] and
            all(row.get("pinned", 0) <= 1 << 30 for row in rows.values())'
}

without_time() {
    check_ranks --seconds 6
    [ $? = 1 ] && says_all '^LEFT OUT, no time: stock'
}

# Less pinned memory than wanted: a refusal is right if it says that memory is short.
clear_refusal() {
    FAKE_WRONG=refused check_ranks --only ' resnet50 b2 fp32 ddp' &&
        report_says ranks.json 'any("refused" in text for text in rows["limit resnet50 b2 fp32 ddp"]["notes"])'
}

# The reason that a rank wrote, and what torchrun printed.
reason_is_said() {
    wrong dies 'job 1 ended with status 1 before it trained: \[rank 1\] RuntimeError: the reason \[library\] microdnn: the last word \[all\] ' kills
}

stock_job_that_ends() {
    FAKE_STOCK=dies check_ranks --only kills --job-seconds 60
    [ $? = 1 ] && says_all '^FAILED .*job 0 ended with status 1 by itself'
}

# A file that vanishes while the folder is read, and what is no registry.
registry_is_read() {
    mkdir "$OUT/registry" && ln -s nowhere "$OUT/registry/microdnn-1-a0.3" &&
        PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - "$OUT/registry" <<'END'
import os, struct, sys
from ranks_place import Registry, host_limit, available_memory, MOST_PINNED
folder = sys.argv[1]
def write(name, entries):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(struct.pack("=QIIII", 1, 0, 64, 16, len(entries)).ljust(64, b"\0"))
        file.writelines(struct.pack("=QQ", *each) for each in entries)
write("microdnn-1-a0.4", [(os.getpid(), 5), (0, 9)])
write("microdnn-1-a0-4711.live", [(os.getpid(), 7)])
write("microdnn-1-a0-4711.live.4", [(os.getpid(), 7)])
registry = Registry(folder)
assert registry.entries() == [(os.getpid(), 5)], registry.entries()
assert 0 < host_limit() <= min(MOST_PINNED, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2)
END
}

gpus_are_needed() {
    mkdir -p "$OUT/bin" && printf '#!/bin/sh\n%s\n' "${1:+echo $1}" >"$OUT/bin/nvidia-smi" && chmod +x "$OUT/bin/nvidia-smi"
    shift
    PATH="$OUT/bin:$PATH" scripts/gpu/check-ranks --build "$BUILD" --worker test/fakes/ranks_worker.py "$@" >"$OUT/said" 2>&1
}

two_gpus_are_needed() {
    gpus_are_needed 'one GPU'
    [ $? = 77 ] && says_all '2 GPUs are needed' && gpus_are_needed 'one GPU' --only pair --only tune
    [ $? = 77 ] && says_all '2 GPUs are needed' && gpus_are_needed '' --only pair
    [ $? = 77 ] && says_all '1 GPUs are needed' && LD_LIBRARY_PATH=$BUILD gpus_are_needed 'one GPU' --only pair &&
        report_says ranks.json 'rows["pair"]["verdict"] == "identical"'
}

# The tool itself, on two simulated devices.
tune_is_run() {
    (
        export MICRODNN_SIM=1 MICRODNN_SIM_DEVICES=2
        BUILD=$MDNN_BUILD check_ranks --only tune
    ) && report_says ranks.json 'rows["tune"]["verdict"] == "held" and "on device 1" in rows["tune"]["said"][1]' && return
    tail -20 "$OUT/said"
    return 1
}

plan 20
check 'all rows hold where nothing is wrong' all_rows_hold
check 'rows run one after the other' one_after_the_other
check 'other bits are found' wrong bits "not as stock's" 'bits resnet50 b2 fp32 ddp'
check 'where stock differs from itself, losses are compared' stock_that_differs
check 'two ranks that are slower are found' wrong slow 'ratio 2' 'times resnet50 b2 fp32 ddp'
check 'more pinned memory than the limit is found' wrong pinned 'were pinned' 'bits resnet50 b2 fp32 ddp'
check 'entries of the dead are found' wrong entry 'entries of dead' kills
check 'a job that does not end is found' wrong stays 'not all of it ended' kills --end-seconds 2
check 'another exit status is found' wrong status "stock's" kills
check 'why a job does not train is said' reason_is_said
check 'a job that ends by itself is found' stock_job_that_ends
check 'the registry is read while files come and go' registry_is_read
check 'two programs that take more than their budgets are found' wrong above 'MiB above two budgets' pair
check 'other bits of one of two programs are found' wrong bits "not as stock's" pair
check 'a different database is found' wrong tuned '1 sizes only with one GPU, 0 only with two' tune
check 'two GPUs that are not faster are found' wrong none 'of one.s time, at most 0.0' tune --tune-ratio 0
check 'tune runs on two simulated GPUs' tune_is_run
check 'what there is no time for is listed' without_time
check 'a refusal for want of pinned memory is a result' clear_refusal
check 'GPUs are needed: two, and one for pair' two_gpus_are_needed
finish
