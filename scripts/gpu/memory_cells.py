"""The rows of memory-check, and what each must show. No device is needed here: rows in, answers of
programs in, verdicts out.

A row's budget is a share of the peak of the same program without the library, a multiple of the
floor that the library computed for it, or bytes.
"""
import dataclasses
import math
import re

MIB, GIB = 1 << 20, 1 << 30
NETS = ("vgg16", "resnet50", "densenet121", "inception_v3", "unet3d", "vit_b_16", "mobilenet_v3_large")
SMALL = {"unet3d": 2}  # batches of verify; of the others 4
FULL = {"vgg16": 256, "resnet50": 64, "densenet121": 32, "inception_v3": 32, "unet3d": 16,
        "vit_b_16": 32, "mobilenet_v3_large": 64}
SHARES = {"vgg16": (0.80, 0.65)}  # of the others 0.80, 0.60, 0.40
SPECIAL = ("short_batch", "evaluation", "accumulation", "two_streams", "graph_replays")
ITERATIONS = {"verify": 3, "cells": 20, "refusals": 3}
HUGE = 100 * GIB

# Relative difference of the first five losses where bits cannot be compared: other plans sum in
# another order and round inputs (the floors of the numerics gate, times ten for five updates).
TOLERANCE = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}
ABOVE_FLOOR = 1.10  # such a budget must be enough
REFUSAL = re.compile(r"^microdnn: .*\brefused\b.*")
NEEDED = re.compile(r"\bat least \d\S* are needed")
CLEAN = re.compile(r"^microdnn verify: clean, (\d+) operations", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Program:
    """What is trained, however much memory there is."""
    net: str
    batch: int
    mode: str = "fp32"
    optimizer: str = "sgd"
    program: str = "plain"
    count: int = 20

    def __str__(self):
        what = "" if self.program == "plain" else f" {self.program}"
        return f"{self.net} b{self.batch} {self.mode} {self.optimizer}{what} x{self.count}"

    def arguments(self):
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Row:
    part: str
    program: Program
    kind: str  # share, floor, bytes
    amount: float
    policy: str = "auto"
    settings: tuple = ()

    def __str__(self):
        shown = {"share": f"{100 * self.amount:.0f} % of stock", "floor": f"{self.amount:.2f} of floor",
                 "bytes": f"{self.amount / GIB:.2f} GiB"}[self.kind]
        return f"{self.part} {self.program} {self.policy}, {shown}"

    def budget(self, known):
        """Bytes; `known`: peak of stock and floor, as far as they are known. None without them."""
        if self.kind == "bytes":
            return int(self.amount)
        base = known.get("peak" if self.kind == "share" else "floor")
        return int(self.amount * base) if base else None


def batch_of(net, quick):
    if not quick:
        return FULL[net]
    return 64 if net == "vgg16" else max(4, FULL[net] // 2)


def verify_rows():
    """In a budget that lets everything stay: `microdnn verify` unmaps all the same."""
    return [Row("verify", Program(net, SMALL.get(net, 4), mode, optimizer, "plain", ITERATIONS["verify"]),
                "bytes", 16 * GIB)
            for net in NETS for mode in ("fp32", "bf16") for optimizer in ("sgd", "adamw")]


def cell_rows(quick=False):
    count = ITERATIONS["cells"]
    rows = [Row("cells", Program(net, batch_of(net, quick)), "share", share)
            for net in NETS for share in SHARES.get(net, (0.80, 0.60, 0.40))]
    rows += [Row("cells", Program(net, batch_of(net, quick), "bf16", "adamw"), "share",
                 SHARES.get(net, (0, 0.60))[1])
             for net in ("resnet50", "vit_b_16", "mobilenet_v3_large", "unet3d")]
    some = batch_of("resnet50", quick)
    rows += [Row("cells", Program("resnet50", some), "share", 0.60, policy)
             for policy in ("none", "conv", "all", "dynamic", "modnn")]
    rows += [Row("cells", Program("resnet50", some, program=name, count=count), "share", 0.60)
             for name in SPECIAL]
    short = ITERATIONS["refusals"]
    # Of the shortest program that has its largest operations and all that stays.
    rows += [Row("cells", Program(net, batch_of(net, quick), count=short), "floor", amount)
             for net in NETS for amount in (ABOVE_FLOOR, 0.90, 0.50)]
    return rows


def programs_of(rows):
    return list(dict.fromkeys(row.program for row in rows))


# --- Comparing with stock -------------------------------------------------------------------------
def loss_difference(a, b):
    """Largest relative one of the first five; None if one is not a number."""
    pairs = list(zip(a[:5], b[:5]))
    if not pairs or any(None in pair for pair in pairs):
        return None
    return max(abs(x - y) / max(abs(x), 1e-30) for x, y in pairs)


def same(a, b):
    return a["losses"] == b["losses"] and a["hashes"] == b["hashes"]


def control_of(first, second):
    """What two stock runs, one in each of PyTorch's allocators, say of each other."""
    for answer in (first, second):
        if "refused" in answer:
            return {"problems": [f"stock was refused memory: {answer['refused']['text']}"]}
    problems = ["stock: a loss is no number"] if None in first["losses"] else []
    return {"agree": same(first, second), "spread": loss_difference(first["losses"], second["losses"]),
            "peak": second["peak"], "reserved": second["reserved"], "losses": first["losses"],
            "hashes": first["hashes"], "problems": problems}


def different(answer, stock):
    """The names of what is not as stock has it, for people."""
    return [name for name in ("weights", "statistics", "optimizer")
            if answer["hashes"][name] != stock["hashes"][name]] + (
        ["losses"] if answer["losses"] != stock["losses"] else [])


def compare(row, answer, stock, memory):
    """(verdict, notes, problems) of a program that ran."""
    if None in answer["losses"]:
        return "FAILED", [], ["a loss is no number"]
    if same(answer, stock):
        return "identical", [], []
    notes, parts = [], ", ".join(different(answer, stock))
    if not stock["agree"]:
        notes.append("two stock runs differ too")
    elif memory.get("refused"):
        notes.append(f"{memory['refused']} allocations refused, such as stock's workspace")
    else:
        return "FAILED", [], [f"not as stock: {parts}"]
    difference = loss_difference(answer["losses"], stock["losses"])
    allowed = max(2 * (stock["spread"] or 0.0), TOLERANCE[row.program.mode])
    if len(answer["losses"]) != len(stock["losses"]) or difference is None or difference > allowed:
        return "FAILED", notes, [f"losses differ by {difference}, at most {allowed:.1g}: {parts}"]
    return "close", notes + [f"losses differ by {difference:.1e}"], []


# --- Judging a row --------------------------------------------------------------------------------
def memory_of(statistics):
    """What the library says of the first device; {} if nothing."""
    return next(iter((statistics or {}).get("memory", [])), {})


def floor_of(memory):
    """The least budget that is known to be needed; None if nothing is."""
    return max(memory.get("floor_bytes", 0), memory.get("smallest_budget_bytes", 0)) or None


def library_problems(memory, budget):
    if not memory:
        return ["the library wrote no statistics of memory"]
    problems = []
    if not memory["operations"]:
        problems.append("the library saw no operation")
    if not 0 < memory["budget_bytes"] <= budget:
        problems.append(f"the library's budget is {memory['budget_bytes']}, not {budget}")
    if memory["peak_resident_bytes"] > budget:
        problems.append(f"{memory['peak_resident_bytes'] - budget} bytes more than the budget were resident")
    return problems


def refusal_problems(refused, said):
    """How a program must be told: PyTorch's own exception, one line of ours that names a budget."""
    problems = []
    if refused["type"] != "OutOfMemoryError":
        problems.append(f"refused as {refused['type']}: {refused['text']}")
    lines = [line for line in said.splitlines() if REFUSAL.search(line)]
    if len(lines) != 1 or not NEEDED.search(lines[0]):
        problems.append(f"the library does not say in one line what would be enough: {lines}")
    return problems


def judge(row, run, stock, floor):
    """run: answer, statistics, status, said, budget. floor: bytes or None. Returns the entry's
    verdict, notes and problems."""
    memory = memory_of(run["statistics"])
    problems = library_problems(memory, run["budget"])
    if run["status"] != 0:
        problems.append(f"ended with status {run['status']}")
    share = run["budget"] / floor if floor else math.inf
    if "refused" in run["answer"]:
        problems += refusal_problems(run["answer"]["refused"], run["said"])
        if share >= ABOVE_FLOOR:
            problems.append(f"refused {share:.2f} of the floor" if floor else "refused, and no floor is known")
        verdict, notes = "refused", []
    else:
        verdict, notes, more = compare(row, run["answer"], stock, memory)
        problems += more
        if share < 1:
            problems.append(f"ran in {share:.2f} of the floor")
    if verdict != "refused" and row.kind == "share" and row.amount < 1 and not memory.get("out_bytes"):
        notes.append("nothing had to move")
    return {"verdict": "FAILED" if problems else verdict, "notes": notes, "problems": problems}


def judge_verified(row, run, stock):
    """The same for a program under `microdnn verify`, which keeps the statistics and says what they say
    in its last line."""
    if "refused" in run["answer"]:
        return {"verdict": "FAILED", "notes": [], "problems": [f"refused: {run['answer']['refused']['text']}"]}
    verdict, notes, problems = compare(row, run["answer"], stock, {})
    clean = CLEAN.search(run["said"])
    if run["status"] != 0 or not clean:
        lines = run["said"].strip().splitlines()
        problems.append(f"status {run['status']}: {lines[-1] if lines else 'nothing was said'}")
    return {"verdict": "FAILED" if problems else verdict, "notes": notes, "problems": problems,
            "memory": {"operations": int(clean[1])} if clean else {}}


# --- The budget, seen from outside ----------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Watched:
    """A program in ever smaller budgets, after one that is as good as none."""
    program: Program
    shares: tuple = (0.80, 0.60, 0.40)

    def __str__(self):
        return f"budget {self.program}"


def watched_rows(quick=False):
    def program(net, mode, optimizer):
        return Program(net, batch_of(net, quick), mode, optimizer, "plain", 6)

    return [Watched(program("resnet50", "fp32", "sgd")),
            Watched(program("vit_b_16", "bf16", "adamw"), (0.60,))]


ALLOWED_ABOVE = 64 * MIB


def growth_of(huge):
    """What a program takes beside the library's chunks (modules, handles), once all of it is there."""
    return max(0, huge["end"] - huge["before"] - huge["memory"]["resident_bytes"])


def watched_problems(huge, runs):
    """huge, runs: samples (before, most, end), memory, budget; runs by falling budgets."""
    problems, growth = [], growth_of(huge)
    for run in runs:
        above = run["most"] - run["before"] - growth - run["budget"]
        if above > ALLOWED_ABOVE:
            problems.append(f"{above / MIB:.0f} MiB above a budget of {run['budget'] / GIB:.2f} GiB")
    peaks = [run["memory"]["peak_resident_bytes"] for run in [huge, *runs]]
    if any(later > earlier for earlier, later in zip(peaks, peaks[1:])):
        problems.append(f"a smaller budget raised the peak: {peaks}")
    return problems


# --- Speed ----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Speed:
    """`least`: least ratio of stock's time to the library's. `peer`: stock in its own way of saving
    memory. `convolution`: the library's policy for convolutions."""
    net: str
    batch: int
    mode: str
    kind: str
    amount: float
    least: float | None
    convolution: str = "off"
    peer: str | None = None

    def __str__(self):
        shown = (f"{self.amount:.2f} of stock" if self.kind == "share" else f"{self.amount / GIB:.0f} GiB")
        other = f" against {self.peer}" if self.peer else ""
        return f"speed {self.net} b{self.batch} {self.mode} {shown}, convolution {self.convolution}{other}"


NOT_SLOWER = 0.98
SPEED = [*(Speed(net, batch, "tf32", "share", 1.25, NOT_SLOWER)
           for net, batch in (("resnet50", 64), ("resnet50", 256), ("vgg16", 256), ("vit_b_16", 128))),
         Speed("vgg16", 256, "tf32", "bytes", 12 * GIB, 1 / 2.6),
         # Strict fp32 wants 10 GiB of workspace, which micro-batches give back; both are shown.
         Speed("vgg16", 256, "fp32", "bytes", 12 * GIB, 1 / 1.4, "wr"),
         Speed("vgg16", 256, "fp32", "bytes", 12 * GIB, None, "off"),
         Speed("resnet50", 256, "tf32", "bytes", 12 * GIB, 2.0, peer="save_on_cpu")]


def speed_problems(row, result, memory, budget):
    problems = library_problems(memory, budget)
    if row.least is not None and result["ratio"] < row.least:
        problems.append(f"stock / library {result['ratio']:.3f}, at least {row.least:.3f}")
    difference = loss_difference(result["stock"]["losses"], result["library"]["losses"])
    if difference is None or difference > TOLERANCE["bf16"]:
        problems.append(f"losses differ by {difference}")
    return problems


# --- Steady state ---------------------------------------------------------------------------------
MALLOC_US, SCAN_US = 1.0, 0.5


def steady_problems(early, late):
    """Statistics after some iterations and at the end: nothing may be made or given back between."""
    if not early or not late:
        return ["the library wrote no statistics of memory"]
    problems = []
    if late["operations"] <= early["operations"]:
        problems.append("no operation was counted in between")
    if late["created_chunks"] != early["created_chunks"]:
        problems.append(f"{late['created_chunks'] - early['created_chunks']} chunks were created")
    if late["resident_bytes"] != early["resident_bytes"]:
        problems.append(f"device memory held went from {early['resident_bytes']} to {late['resident_bytes']}")
    return problems


# Requests to the kernel driver: to make an object (of memory, among others), and to give one back.
MAKES = ("0x27", "0x2b")
FREES = ("0x29",)


def requests_between(early, late):
    """{kind: {number: count}} of what came between two answers of `ioctls`; None where none counted."""
    if not early.get("control"):
        return None
    return {kind: {number: count - early[kind].get(number, 0) for number, count in late[kind].items()
                   if count > early[kind].get(number, 0)} for kind in ("control", "unified")}


def requests_notes(requests):
    """For people: mapping asks the kernel too, so a number above 0 is a question, not an answer."""
    if requests is None:
        return ["requests to the kernel driver were not seen"]
    makes, frees = (sum(requests["control"].get(number, 0) for number in numbers)
                    for numbers in (MAKES, FREES))
    return [f"the kernel driver was asked {makes} times to make and {frees} times to free something"]


def calls_problems(stock, library):
    """Medians in microseconds of malloc, free and launch, from memory_calls.c."""
    problems = [f"{name} {library[name]:.2f} us, at most {MALLOC_US}" for name in ("malloc", "free")
                if library[name] > MALLOC_US]
    scan = library["launch"] - stock["launch"]
    if scan > SCAN_US:
        problems.append(f"a launch takes {scan:.2f} us more, at most {SCAN_US}")
    return problems
