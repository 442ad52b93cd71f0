#!/bin/sh
# scripts/gpu/memory-check and scripts/memory-table without a GPU: which rows there are, what is judged
# how, that a run is resumed and nothing is left out silently. A worker of test/fakes answers instead of
# PyTorch, and plays the library's part.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
export FAKE_USED="$OUT/used"
make_stand_in
# And a tool that shows the statistics of a running process.
gcc -shared -fPIC test/fakes/nvml.c -o "$BUILD/libnvidia-ml.so.1"
cp test/fakes/microdnn "$BUILD"

memory_check() { # arguments...
    LD_LIBRARY_PATH=$BUILD scripts/gpu/memory-check --build "$BUILD" \
        --worker test/fakes/memory_worker.py --others-worker test/fakes/memory_worker.py --least-seconds 1 --pairs 3 "$@" >"$OUT/said" 2>&1
}

passes() {
    memory_check "$@" && return
    tail -40 "$OUT/said"
    return 1
}

# The Python expression must be true for `rows`, `report` and `cells`.
says() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - "$OUT/memory.json" "$1" <<'END'
import json, os, sys
import memory_cells as cells
report = json.load(open(sys.argv[1])) if os.path.exists(sys.argv[1]) else {"rows": {}}
rows = report["rows"]
sys.exit(0 if eval(f"({sys.argv[2]})") else repr([(n, r["verdict"], r["problems"]) for n, r in rows.items()])[:4000])
END
}

# wrong TEXT WHAT PROBLEM [ARGUMENT...]: rows whose text has TEXT go wrong in that way, which is found.
wrong() {
    wrong_rows="{\"$1\": \"$2\"}"
    wrong_problem=$3
    shift 3
    [ $# -gt 0 ] || set -- --part cells --only 'resnet50 b64 fp32 sgd'
    FAKE_WRONG=$wrong_rows memory_check --row-seconds 3 "$@"
    [ $? = 1 ] && grep -q "^FAILED .*$wrong_problem" "$OUT/said"
}

every_row_once() {
    says 'len(cells.cell_rows()) == len({str(row) for row in cells.cell_rows()}) and
          len({str(row) for row in cells.verify_rows()}) == 28'
}

# Every policy and program, and each network in its shares of stock's peak.
nothing_missing() {
    says '{row.policy for row in cells.cell_rows()} >= {"auto", "none", "conv", "all", "dynamic"} and
          {row.program.program for row in cells.cell_rows()} == {"plain", "pointers", "without_cudnn", *cells.SPECIAL} and
          [dict(row.settings) for row in cells.cell_rows() if row.program.program == "pointers"] ==
              [{"MICRODNN_MEMORY_SAFETY": "host"}] and
          all((net, share) in {(row.program.net, row.amount) for row in cells.cell_rows()
                               if row.kind == "share" and row.policy == "auto"}
              for net in cells.NETS for share in cells.SHARES.get(net, (0.8, 0.6, 0.4)))'
}

cut_short_and_resumed() {
    rm -f "$OUT/memory.json"
    # Time for some rows, not for all.
    FAKE_SECONDS=0.25 memory_check --part cells --only resnet50 --seconds 13 --jobs 1
    [ $? = 1 ] && grep -q '^LEFT OUT' "$OUT/said" && cp "$OUT/memory.json" "$OUT/first.json" &&
        passes --part cells --only resnet50 --resume "$OUT/first.json" --jobs 8 &&
        says '"left_out" in report and not report["left_out"] and
              all(str(row) in rows for row in cells.cell_rows() if "resnet50" in str(row))' &&
        python3 - "$OUT/first.json" "$OUT/memory.json" <<'END'
import json, sys
first, second = (json.load(open(path))["rows"] for path in sys.argv[1:])
kept = [name for name in first if first[name] == second[name]]
sys.exit(0 if 0 < len(first) < len(second) and len(kept) == len(first) else f"{len(first)} {len(kept)}")
END
}

failed_rows_again() {
    wrong evaluation bits 'not as stock' --part cells --only evaluation && cp "$OUT/memory.json" "$OUT/first.json" &&
        ! memory_check --part cells --only evaluation --resume "$OUT/first.json" &&
        passes --part cells --only evaluation --resume "$OUT/first.json" --again FAILED
}

control_differs() {
    FAKE_WRONG='{"resnet50": "control"}' passes --part cells --only 'evaluation' &&
        says '[row["verdict"] for row in rows.values()] == ["differ", "close"]'
}

# Where everything is as stock, one stock run is enough.
control_only_where_needed() {
    passes --part cells --only evaluation &&
        says '[row["verdict"] for row in rows.values()] == ["ran", "identical"]' || return 1
    FAKE_WRONG='{"evaluation": "bits"}' memory_check --part cells --only evaluation
    [ $? = 1 ] && says '[row["verdict"] for row in rows.values()] == ["agree", "FAILED"]'
}

# Stock with the same refusals is the one to compare with; where it differs, too, losses are compared.
refused_alike() {
    FAKE_WRONG='{"evaluation": "workspace"}' passes --part cells --only evaluation &&
        says '[(row["verdict"], row["notes"][:1]) for row in rows.values()] ==
              [("ran", []), ("identical", ["to stock that is refused the same 3 allocations"])]' &&
        FAKE_WRONG='{"evaluation": "other workspace"}' passes --part cells --only evaluation &&
        says '[(row["verdict"], row["notes"][:1]) for row in rows.values()] ==
              [("agree", []), ("close", ["3 allocations refused, such as stock\u0027s workspace"])]'
}

# The calls that fail, by number and size, fail again where only the list says so.
refusals_are_repeated() {
    mkdir -p "$OUT/refusals" && cp test/fakes/refusing_*.c "$OUT/refusals" && cd "$OUT/refusals" &&
        gcc -shared -fPIC refusing_cudart.c -o libcudart.so.13 &&
        gcc refusing_program.c libcudart.so.13 -o program && cd - >/dev/null &&
        gcc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC scripts/gpu/refused_allocations.c \
            -o "$OUT/refusals/recorder.so" -ldl || return 1
    list="$OUT/refusals/list"
    rm -f "$list"
    [ "$(refusing MOST=500 RECORD_REFUSED="$list")" = 00002 ] && [ "$(cat "$list")" = '5 600' ] &&
        printf '2 500\n4 499\n' >>"$list" && [ "$(refusing REPEAT_REFUSED="$list")" = 02002 ] &&
        [ "$(refusing)" = 00000 ]
}

refusing() { # VARIABLE=VALUE...: the program below the recorder
    env LD_PRELOAD="$OUT/refusals/recorder.so" LD_LIBRARY_PATH="$OUT/refusals" "$@" "$OUT/refusals/program"
}

# Every network, then every kind of program, before anything else.
worth_first() {
    says '{row.program.net for row in cells.cell_rows()[:7]} == set(cells.NETS) and
          {row.program.net for row in cells.verify_rows()[:7]} == set(cells.NETS) and
          {row.program.program for row in cells.cell_rows()[7:7 + len(cells.SPECIAL)]} == set(cells.SPECIAL) and
          [row.amount / cells.GIB for row in cells.SPEED[:2]] == [12, 12] and
          [row.net for row in cells.SPEED[:2]] == ["vgg16", "resnet50"]'
}

quick_budgets_force_moves() {
    says 'all(row.amount < 1 and (row.program.batch >= 4 or row.program.net in cells.COLUMNS)
              for row in cells.cell_rows(True) if row.kind == "share") and
          len({str(row) for row in cells.cell_rows(True)}) == len(cells.cell_rows())' &&
        passes --part cells --quick --only '60 % of stock' &&
        says 'not [name for name, row in rows.items() if "nothing moved" in row["notes"]]'
}

# Nothing but a tail lets a program run in less than its floor.
only_tails_below_the_floor() {
    program='densenet121 32 fp32 sgd plain 3'
    wrong "$program" below 'ran in 0.50 of the floor' --part cells --only densenet121 || return 1
    FAKE_WRONG="{\"$program\": \"tail\"}" passes --part cells --only densenet121 &&
        says '{row["verdict"] for name, row in rows.items() if "of floor" in name} == {"identical"} and
              [row["notes"] for name, row in rows.items() if "0.50 of floor" in name] == [["5 operations had tails"]]'
}

# What a refused run knows of the floor is too little, while another may still come.
floor_is_of_what_ran() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import types
import memory_cells as cells, memory_side_by_side as side
rows = [row for row in cells.cell_rows() if "densenet121" in str(row)]
program = rows[0].program
report = {}
fake = types.SimpleNamespace(get=lambda name: report.get(name), has=lambda name: name in report)
work = side.Cells(rows, cells.cell_rows(), None, fake)
shares = [row for row in rows if row.kind == "share"]
def ended(row, **entry):
    report[str(row)] = entry
    work.rows.remove(row)
assert [row.amount for row in shares] == [0.40, 0.60, 0.80]
ended(shares[0], floor=5, refused={"type": "OutOfMemoryError"})
assert work.floor(program) is None
ended(shares[1], floor=9, refused=None)
assert work.floor(program) == 9
report[str(shares[1])]["refused"] = {"type": "OutOfMemoryError"}
assert work.floor(program) is None
ended(shares[2], floor=7, refused={"type": "OutOfMemoryError"})
assert work.floor(program) == 5
END
}

rows_wait_for_memory() {
    PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import memory_side_by_side as side
from memory_place import Job
def job(need, host):
    return Job("", "", need, None, host)
assert side.fits(job(2 * side.ROOM, 99), [], 10), "what is alone may begin"
assert side.fits(job(1, 4), [job(1, 6)], 10)
assert not side.fits(job(1, 5), [job(1, 6)], 10)
assert not side.fits(job(side.ROOM, 0), [job(1, 0)], 10)
assert 0 < side.host_room() < 2**60
END
}

nothing_moved_is_said() {
    FAKE_WRONG='{"evaluation": "still"}' passes --part cells --only evaluation &&
        says '[row["notes"] for row in rows.values() if row["part"] == "cells"] == [["nothing moved"]]'
}

# Of all programs of a process, and without a stock run.
verify_counts() {
    passes --part verify --only resnet50 &&
        says '[(row["verdict"], row["memory"]["operations"]) for row in rows.values()] == [("clean", 100)] * 4' &&
        grep -q '^verify resnet50: fp32 sgd clean 100, .*operations' "$OUT/said"
}

verify_compares_with_known_stock() {
    passes --part verify --only 'resnet50 b4 fp32 sgd' &&
        python3 - "$OUT/memory.json" "$OUT/first.json" <<'END' &&
import json, sys
report = json.load(open(sys.argv[1]))
row = dict(verdict="agree", part="stock", notes=[], problems=[], agree=True, spread=0.0, peak=1,
           losses=[7.0, 6.9, 6.8], hashes=dict(weights="same", statistics="same", optimizer="same"))
report["rows"] = {"stock resnet50 b4 fp32 sgd x3": row}
json.dump(report, open(sys.argv[2], "w"))
END
        passes --part verify --only 'resnet50 b4 fp32 sgd' --resume "$OUT/first.json" &&
        says 'list(rows.values())[-1]["verdict"] == "identical"' || return 1
    FAKE_WRONG='{"resnet50": "bits"}' memory_check --part verify --only 'resnet50 b4 fp32 sgd' \
        --resume "$OUT/first.json"
    [ $? = 1 ] && says 'list(rows.values())[-1]["verdict"] == "FAILED"'
}

# The program after one that crashed has a process of its own.
verify_goes_on() {
    FAKE_WRONG='{"fp32 sgd": "crash"}' memory_check --part verify --only 'resnet50 b4 fp32'
    [ $? = 1 ] &&
        says 'sorted(row["verdict"] for row in rows.values()) == ["FAILED", "clean"]'
}

# An access that ended the process before the tool's last line.
unnamed_access_that_faults() {
    FAKE_WRONG='{"fp32 sgd": "fault"}' memory_check --part verify --only 'resnet50 b4 fp32 sgd'
    [ $? = 1 ] && grep -q '^FAILED .*: 1 unnamed accesses, the first: kernel f' "$OUT/said"
}

# Two ranks need two GPUs: a row that cannot be run shows nothing, and says so.
skipped_with_the_reason() {
    FAKE_GPUS=1 passes --part cells --only _rank &&
        says '{name.split()[5]: (row["verdict"], row["notes"]) for name, row in rows.items()
               if row["part"] == "cells"} ==
              {"one_rank": ("identical", []), "two_ranks": ("skipped", ["there is one GPU"])}' &&
        grep -Eq '^cells: (1 identical, 1 skipped|1 skipped, 1 identical)$' "$OUT/said" &&
        FAKE_GPUS=2 passes --part cells --only two_ranks --resume "$OUT/memory.json" --again skipped &&
        says '"skipped" not in [row["verdict"] for row in rows.values()]'
}

two_ranks_need_two_gpus() {
    PYTHONPATH=scripts/gpu:test/fakes/torch PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import torch, memory_programs as programs, memory_worker as worker
programs.DEVICE = "cuda"
torch.cuda.device_count = lambda: 1
worker.reset_peak = lambda: None
worker.train = lambda command: programs.two_ranks(None, command["count"])
answer = worker.program(None, {"count": 1})
assert answer == (None, {"skipped": "two ranks need two GPUs, and there is one"}), answer
END
}

first_seconds() {
    passes --part first --only resnet50 &&
        says '[(row["verdict"], row["warm_s"] > 0) for row in rows.values()] == [("held", True)] * 2'
}

# Each type meets each budget.
# Also that bits are compared, which a row with other bits shows.
workspaces_are_chosen() {
    passes --part variants --only resnet50 &&
        says 'all(row["verdict"] == "held" and row["differ"] == [] and row["refused_allocations"] == 0 and row["ratio"] > 0
                  for row in rows.values()) and rows' &&
        wrong resnet50 bits 'of a deterministic training differ' --part variants --only resnet50 &&
        ! grep -q 'same refusals' "$OUT/said"
}

# Makes the page.
kept_rows_and_these() {
    copy_of_docs && cp "$OUT/docs/benchmarks/data/h200-memory.json" "$OUT/kept.json" &&
        "$OUT/scripts/memory-table" --keep rows "$@" "$OUT/kept.json" "$OUT/memory.json" && "$OUT/scripts/memory-table"
}

# As cells are, but no tolerance follows.
choices_refused_alike() {
    FAKE_WRONG='{"resnet50": "workspace"}' passes --part variants --only resnet50 &&
        says '[(row["verdict"], row["differ"], row["refused_allocations"], row["notes"][1:]) for row in rows.values()] ==
              [("held", [], 3, ["bits identical to stock that is refused the same 3 allocations"])]' &&
        kept_rows_and_these &&
        grep -q '^| resnet50 b256 fp32 8 GiB .* | identical to stock that is refused the same 3 allocations | held |$' \
            "$OUT/docs/benchmarks/memory.md"
}

choices_refused_and_different() {
    wrong resnet50 'other workspace' 'weights of a deterministic training differ' --part variants --only resnet50 &&
        says '[(row["verdict"], row["differ"], row["refused_allocations"], row["notes"][1:]) for row in rows.values()] ==
              [("FAILED", ["weights"], 3, ["bits not identical to stock that is refused the same 3 allocations"])]' &&
        kept_rows_and_these &&
        grep -q '^| resnet50 b256 fp32 8 GiB .* | weights differ | FAILED; weights of' "$OUT/docs/benchmarks/memory.md"
}

# A stock run that crashed has shown nothing.
choices_without_refused_stock() {
    wrong resnet50 'workspace, then a crash' 'weights of a deterministic training differ' --part variants --only resnet50 &&
        says '[(row["verdict"], row["differ"], "ended during" in row["notes"][1]) for row in rows.values()] ==
              [("FAILED", ["weights"], True)]'
}

plans_come_true() {
    passes --part plans --only 'resnet50 b256' &&
        says '[(row["verdict"], row["plan_ms"], row["library_ms"], row["save_on_cpu"]["ms"]) for row in rows.values()] ==
              [("held", 100.0, 100.0, 400.0)] * 2' &&
        PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import collections
import memory_plans as plans
pairs = collections.Counter((row.mode, row.share) for row in plans.PLANS)
assert len(plans.PLANS) == 18 and len(pairs) == 9 and min(pairs.values()) >= 1, pairs
assert len({row.net for row in plans.PLANS}) == 10
END
}

plan_is_said() {
    passes --part speed --only vgg16 &&
        says '[row["plan"]["active"] for row in rows.values()] == [True, False, True, True, True] and
              all(("NO plan" in row["notes"][0]) != row["plan"]["active"] for row in rows.values())'
}

# The rows in 12 GiB as a user would run them have the gate; those of memory alone have none.
settings_are_in_names() {
    passes --part speed --only 'vgg16' &&
        says '{name.removeprefix("speed vgg16 b256 "): row["least"] for name, row in rows.items()
               if "12 GiB" in name} ==
              {"tf32 12 GiB, convolution wr limit 512MiB": 1 / 2.6, "tf32 12 GiB, convolution off": None,
               "fp32 12 GiB, convolution wr limit 512MiB": 1 / 1.4, "fp32 12 GiB, convolution off": None}' &&
        says '{("off" in name, row["memory"]["convolution"], row["memory"]["limit"])
               for name, row in rows.items()} == {(False, "wr", "512MiB"), (True, "off", None)}'
}

# Whether it was clear is for the library's own line to say; other exceptions are failures.
first_iterations_may_search() {
    PYTHONPATH=scripts/gpu:test/fakes/torch PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import time, memory_programs as programs, memory_worker as worker
class Training:
    ended = 0
    def iterate(self):
        self.ended += 1
        time.sleep(0.2 if self.ended <= 3 else 0.001)
        return 0.0
programs.DEVICE, worker.synchronize, worker.values_of = "cpu", lambda: None, list
_, answer = worker.warm(Training(), {"count": 3, "seconds": 0.05})
assert 3 < answer["iterations"] < 60, answer
END
}

worker_knows_refusals() {
    PYTHONPATH=scripts/gpu:test/fakes/torch PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
import torch, memory_cells as cells, memory_worker as worker
def refused(error):
    return worker.is_refusal(error)
assert refused(torch.OutOfMemoryError("no"))
assert refused(RuntimeError("GET was unable to find an engine to execute this computation"))
assert refused(RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED_CUDART"))
assert not refused(RuntimeError("an illegal memory access was encountered"))
said = "microdnn: 1:1 memory: 1.00 GiB refused: nothing more can leave"
assert cells.refusal_problems("") and cells.refusal_problems(said)
assert not cells.refusal_problems(said + "; at least 2.00 GiB are needed for it, 1.00 GiB for what ran so far")
END
}

# Also where the budget is a share of stock's peak, so that stock has iterated before.
losses_are_of_new_trainings() {
    passes --part speed --only 'resnet50' &&
        says '[row["stock"]["losses"] for row in rows.values()] ==
              [row["library"]["losses"] for row in rows.values()] == [[7.0, 6.9, 6.8, 6.7, 6.6]] * 3'
}

# All kinds of rows, and failures without number: the table is short.
table_is_short() {
    FAKE_WRONG='{"": "bits"}' memory_check --part all --seconds 60 --warm-seconds 0
    [ $? = 1 ] && python3 - "$OUT/said" <<'END'
import sys
table = open(sys.argv[1]).read().rsplit("\n\n", 1)[1].splitlines()
size = sum(map(len, table))
ok = 30 < len(table) <= 60 and size <= 11000 and any("more failures" in line for line in table)
sys.exit(0 if ok else f"{len(table)} lines, {size} characters")
END
}

no_other_verdicts() {
    says '{row["verdict"] for row in rows.values()} <= {"ran", "identical", "refused"} and
          all(row["verdict"] == "refused" for name, row in rows.items()
              if "0.90 of floor" in name or "0.50 of floor" in name)'
}

# Of one iteration: what the host did, the largest part first, and what came back late.
time_is_explained() {
    passes --part why --only 'bert' &&
        says 'all(0 < row["why"]["operations"] for row in rows.values()) and
              [kind for kind, _ in cells.parts_of_host(next(iter(rows.values()))["why"])] == ["copies", "library"] and
              list(cells.late_returns(next(iter(rows.values()))["why"])) == ["late"]' &&
        grep -q 'host copies .* ms, library .* ms; .* late late' "$OUT/said" && copy_of_docs &&
        "$OUT/scripts/memory-table" --keep rows "$OUT/memory.json" && "$OUT/scripts/memory-table" &&
        grep -q '^| bert b16 tf32 0.60 of stock.*copies .*, library' "$OUT/docs/benchmarks/memory.md"
}

pages_are_of_the_rows() {
    copy_of_docs && cp scripts/gpu-table "$OUT/scripts" && rm -f "$OUT"/docs/benchmarks/*.md && "$OUT/scripts/memory-table" &&
        "$OUT/scripts/memory-table" --device h100 || return 1
    for page in ranks verdict copies; do "$OUT/scripts/gpu-table" $page || return 1; done
    for page in memory memory-h100 ranks-h100 verdict copies; do
        cmp "docs/benchmarks/$page.md" "$OUT/docs/benchmarks/$page.md" || return 1
    done
}

page_of_these_rows() {
    passes --part all --only resnet50 --jobs 8 && copy_of_docs &&
        "$OUT/scripts/memory-table" --keep rows --note 'A note.' "$OUT/memory.json" &&
        "$OUT/scripts/memory-table" && page=$OUT/docs/benchmarks/memory.md &&
        grep -q '^| resnet50 b256' "$page" && grep -q 'verify' "$page" && grep -q 'A note' "$page" &&
        ! grep -q -e "$OUT" -e 'two stock runs differ, first' "$page"
}

# Rows join those that are kept, and say the commit that they are given.
page_of_more_rows() {
    page=$OUT/docs/benchmarks/memory.md
    kept_rows_and_these --commit 0123abcd --note 'Another.' && grep -q '0123abcd' "$page" && grep -q '^| vgg16 b256' "$page" &&
        grep -q '^- Another' "$page" && grep -q '^- Steady calls are bimodal' "$page"
}

# The error that ends a traceback, short enough for a cell, and whole if there is no traceback.
error_fits_a_cell() {
    python3 - <<'END'
import importlib.machinery, importlib.util, sys
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("memory_table", "scripts/memory-table")
table = importlib.util.module_from_spec(importlib.util.spec_from_loader("memory_table", loader))
loader.exec_module(table)
trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    run()\nValueError: a|b'
row = {"verdict": "FAILED", "notes": [], "problems": [trace + "\n", "two\nlines", "word " * 60]}
cells = table.what_of(row).split("; ")
assert cells[:3] == ["FAILED", "ValueError: a/b", "two lines"], cells
assert len(cells[3]) <= table.LONGEST and cells[3].endswith("word ..."), cells[3]
END
}

# A request counts by its number, and still reaches the kernel.
requests_are_counted() {
    gcc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC scripts/gpu/memory_ioctls.c -o "$OUT/ioctls.so" -ldl &&
        LD_PRELOAD=$OUT/ioctls.so python3 - <<'END'
import ctypes, os, termios
library = ctypes.CDLL(None, use_errno=True)
reader, writer = os.pipe()
os.write(writer, b"12345")
waiting = ctypes.c_int()
assert library.ioctl(reader, ctypes.c_ulong(termios.FIONREAD), ctypes.byref(waiting)) == 0
assert waiting.value == 5
for request in (0xC020462B, 0xC0204629, 0xC020462B, 33):
    library.ioctl(reader, ctypes.c_ulong(request), None)
counts = (ctypes.c_uint64 * 512)()
library.memory_ioctls(counts)
seen = {number: count for number, count in enumerate(counts) if count}
assert seen == {0x2B: 2, 0x29: 1, 256 + 33: 1}, seen
END
}

microbench_compiles() {
    headers=$(PYTHONPATH=scripts/gpu PYTHONDONTWRITEBYTECODE=1 python3 -c \
        'import machine; print(machine.find_headers())') &&
        gcc -std=c11 -O2 -Wall -Wextra -Werror -fsyntax-only -isystem "$headers" scripts/gpu/memory_calls.c
}

gpu_check_cells() { scripts/gpu-check --cells --list | grep -q '^cells vgg16 b256'; }

plan 61
check 'the matrix has every row once' every_row_once
check 'it has each network, policy and kind of program' nothing_missing
check 'a row that is not as stock is found' wrong plain bits 'not as stock: weights'
check 'a loss that is no number is found' wrong plain nan 'no number'
check 'an unclear refusal is found' wrong plain unclear 'does not say what would be enough'
check 'a process that crashes is a failed row' wrong evaluation crash 'ended during'
check 'a process that hangs is ended, and a failed row' wrong evaluation hang 'no answer'
check 'what this machine cannot run is skipped, with the reason' skipped_with_the_reason
check 'two ranks are not run on one GPU' two_ranks_need_two_gpus
check 'a byte above the budget is found' wrong plain above '1 bytes more than the budget'
check 'where two stock runs differ, the row says so' control_differs
check 'stock runs a second time only where a row differs' control_only_where_needed
check 'a row that was refused memory is compared with stock that is refused the same' refused_alike
check 'allocations that failed fail again in stock' refusals_are_repeated
check 'what is worth most comes first' worth_first
check 'budgets of small batches move something' quick_budgets_force_moves
check 'a row waits while what it needs is taken' rows_wait_for_memory
check 'a program runs below its floor with a tail alone' only_tails_below_the_floor
check 'a floor is that of a row that ran, where one does' floor_is_of_what_ran
check 'a row in which nothing moved says so' nothing_moved_is_said
check 'failed rows run again when that is asked for' failed_rows_again
check 'a run that was cut short names what it left out, and is resumed' cut_short_and_resumed
check 'rows below the floor were refused, all others identical' no_other_verdicts
check 'verify counts the operations of each program, without stock' verify_counts
check 'it compares bits where stock is known' verify_compares_with_known_stock
check 'a crash under verify takes no other program with it' verify_goes_on
check 'an access that ends the process is told by its name' unnamed_access_that_faults
check 'verify that saw no operation is a failure' wrong plain nothing 'nothing was checked' \
    --part verify --only resnet50
check 'an unnamed access is found' wrong plain unnamed '2 unnamed accesses' --part verify --only resnet50
check 'the budget holds, seen from outside' passes --part budget --only resnet50
check 'memory that frameworks map counts, and is refused clearly' passes --part others
check 'where it does not, that is seen from outside' wrong jax nvml 'MiB above a budget' --part others --only growing
check 'and in the statistics' wrong pytorch uncounted 'less than the framework held' --part others --only expandable
check 'a refusal of it that nobody said is found' wrong jax unclear 'does not say that it refused' \
    --part others --only preallocating
check 'memory above the budget is seen from outside' wrong plain nvml 'MiB above a budget' \
    --part budget --only resnet50
check 'a slow row is found' wrong vgg16 slow 'at least 0.980' --part speed --only vgg16
check 'iterations are compared with plans made beforehand, and with save_on_cpu' plans_come_true
check 'choices of workspace are compared with fixed ones, and their bits with those of stock' workspaces_are_chosen
check 'choices that were refused memory are compared with stock that is refused the same' choices_refused_alike
check 'where that stock has other bits, the row failed' choices_refused_and_different
check 'where it did not come to its end, too' choices_without_refused_stock
check 'a recorded run that moves something is no plan' wrong vgg16 restless 'the run without moves: .*1048576' \
    --part plans --only 'vgg16 b256 tf32'
check 'a plan that does not come true is found' wrong vgg16 slow '2.00 of the plan' --part plans --only 'vgg16 b256 tf32'
check 'ten iterations from the start are compared, with an empty cache and a warm one' first_seconds
check 'where they take too long is found' wrong vgg16 late 'with an empty cache .* stock' --part first --only 'first vgg16'
check 'whether a plan was active is said' plan_is_said
check 'however long the first iterations take, more are warm' first_iterations_may_search
check 'first losses are those of a new training on both sides' losses_are_of_new_trainings
check 'rows of speed are named by their settings' settings_are_in_names
check 'a convolution that found no engine counts as refused' worker_knows_refusals
check 'calls that are too slow are found' says \
    'cells.calls_problems({"launch": 2.0}, {"malloc": 1.1, "free": 0.9, "launch": 2.6}) ==
     ["malloc 1.10 us, at most 1.0", "a launch takes 0.60 us more, at most 0.5"]'
check 'chunks that are made in the steady state are found' says \
    'len(cells.steady_problems({"operations": 5, "created_chunks": 1, "resident_bytes": 8},
                               {"operations": 5, "created_chunks": 2, "resident_bytes": 9})) == 3'
check 'the microbench compiles' microbench_compiles
check 'requests to the kernel driver are counted' requests_are_counted
check 'the table at the end is short' table_is_short
check 'where the time of an iteration goes is said' time_is_explained
check 'a page is made of such rows' page_of_these_rows
check 'rows join those that are kept, with the commit that they are given' page_of_more_rows
check 'the pages in docs are made of the kept rows' pages_are_of_the_rows
check 'a traceback in a row becomes its last line in a cell' error_fits_a_cell
check 'gpu-check has the matrix too' gpu_check_cells
finish
