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
# Programs of scripts/gpu/memory_trainers.py: network, batch, mode, optimizer.
TRAINERS = {"hf_trainer": ("gpt2", 8, "fp32", "adamw"), "lightning_trainer": ("resnet50", 64, "fp32", "sgd"),
            "accelerator": ("vit_b_16", 32, "bf16", "adamw"), "one_shard": ("vit_b_16", 32, "bf16", "adamw"),
            "two_shards": ("vit_b_16", 32, "bf16", "adamw")}
SPECIAL = ("short_batch", "evaluation", "accumulation", "two_streams", "graph_replays", "linear_algebra",
           "one_rank", "two_ranks", *TRAINERS)
# Models of scripts/gpu/memory_families.py: batch, mode, optimizer.
FAMILIES = {"fno2d": (16, "fp32", "adamw"), "small_systems": (16, "fp32", "adamw"),
            "large_systems": (16, "fp32", "adamw"), "per_sample": (160, "fp32", "sgd"),
            "graph": (16, "fp32", "adamw"), "conformer": (16, "fp32", "adamw"),
            "gpt2": (8, "fp32", "adamw"), "random_shapes": (64, "fp32", "sgd")}
# Whose loss over a large vocabulary is one operation that names more than these shares of the peak.
TAILED = {"gpt2_50k": (8, "fp32", "adamw"), "lstm_lm": (64, "fp32", "adamw")}
# One layer's columns are more than half of the peak; an iteration passes over them several times.
COLUMNS = {"registration": (1, "fp32", "sgd"), "video_frames": (1, "fp32", "sgd")}
TAILED_SHARES = (0.50, 0.25)
# With cuDNN a smaller budget takes other plans, which sum in another order; without, losses are stock's to the bit.
WITHOUT_CUDNN = ("inception_v3", "resnet50")
FLOORS = [(net, "plain") for net in NETS] + [(net, "without_cudnn") for net in WITHOUT_CUDNN]
ITERATIONS = {"verify": 3, "cells": 20, "refusals": 3}
HUGE = 100 * GIB

# Relative difference of the first five losses where bits cannot be compared: other plans sum in
# another order and round inputs (the floors of the numerics gate, times ten for five updates).
TOLERANCE = {"fp32": 1e-3, "tf32": 1e-2, "bf16": 5e-2}
ABOVE_FLOOR = 1.10  # such a budget must be enough
REFUSAL = re.compile(r"^microdnn: .*\brefused\b.*")
NEEDED = re.compile(r"\bat least \d\S* \w+ are needed\b")
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


VERIFIED_BUDGET = 16 * GIB


def verify_rows():
    """In a budget that lets everything stay: `microdnn verify` unmaps all the same. Every network comes
    once before any comes again."""
    return [Row("verify", Program(net, SMALL.get(net, 4), mode, optimizer, "plain", ITERATIONS["verify"]),
                "bytes", VERIFIED_BUDGET)
            for mode, optimizer in (("fp32", "sgd"), ("bf16", "adamw"), ("fp32", "adamw"), ("bf16", "sgd"))
            for net in NETS]


def chains(rows):
    """Rows of one network and mode, which one process runs one after the other."""
    found = {}
    for row in rows:
        found.setdefault((row.program.net, row.program.mode), []).append(row)
    return list(found.values())


def share_rows(net, quick, shares, mode="fp32", optimizer="sgd"):
    return [Row("cells", Program(net, batch_of(net, quick), mode, optimizer, count=ITERATIONS["cells"]),
                "share", share) for share in shares]


def other_row(quick, net, batch, mode, optimizer, program="plain"):
    return Row("cells", Program(net, max(4, batch // 2) if quick else batch, mode, optimizer, program,
                                ITERATIONS["cells"]), "share", 0.60)


def trainer_rows(quick):
    """The loop, or the parameters, belong to a framework."""
    return [other_row(quick, *what, name) for name, what in TRAINERS.items()]


def family_rows(quick):
    """Other models than networks for images."""
    return [other_row(quick, net, *what) for net, what in FAMILIES.items()]


def tailed_rows(quick):
    """Parts of operands stay on the host."""
    return [Row("cells", Program(net, max(4, batch // 2) if quick and batch > 1 else batch, mode, optimizer,
                                 count=ITERATIONS["refusals" if net in COLUMNS else "cells"]), "share", share)
            for share in TAILED_SHARES for net, (batch, mode, optimizer) in (TAILED | COLUMNS).items()]


def floor_rows(quick, amounts):
    """Of the shortest program that has its largest operations and all that stays."""
    return [Row("cells", Program(net, batch_of(net, quick), program=program, count=ITERATIONS["refusals"]), "floor",
                amount)
            for amount in amounts for net, program in FLOORS]


def cell_rows(quick=False):
    """In the order of their worth: a run that is cut short has seen every network, then every kind of
    program, then the rest."""
    some, shares = batch_of("resnet50", quick), {net: SHARES.get(net, (0.80, 0.60, 0.40)) for net in NETS}
    rows = [row for net in NETS for row in share_rows(net, quick, shares[net][-1:])]
    rows += [Row("cells", Program("resnet50", some, program=name, count=ITERATIONS["cells"]), "share", 0.60)
             for name in SPECIAL if name not in TRAINERS]
    rows += trainer_rows(quick)
    rows.append(Row("cells", Program("resnet50", some, program="pointers", count=ITERATIONS["cells"]),
                    "share", 0.60, settings=(("MICRODNN_MEMORY_SAFETY", "host"),)))
    rows += family_rows(quick) + tailed_rows(quick)
    rows += [Row("cells", Program(net, batch_of(net, quick), program="without_cudnn", count=ITERATIONS["refusals"]),
                 "share", 0.60) for net in WITHOUT_CUDNN]
    rows += [row for net in ("resnet50", "vit_b_16", "mobilenet_v3_large", "unet3d")
             for row in share_rows(net, quick, (shares[net][1],), "bf16", "adamw")]
    rows += floor_rows(quick, (ABOVE_FLOOR,))
    rows += [Row("cells", Program("resnet50", some), "share", 0.60, policy)
             for policy in ("none", "conv", "all", "dynamic", "modnn")]
    rows += [row for net in NETS for row in share_rows(net, quick, reversed(shares[net][:-1]))]
    return rows + floor_rows(quick, (0.90, 0.50))


# --- Comparing with stock -------------------------------------------------------------------------
def loss_difference(a, b):
    """Largest relative one of the first five; None if one is not a number."""
    pairs = list(zip(a[:5], b[:5]))
    if not pairs or any(None in pair for pair in pairs):
        return None
    return max(abs(x - y) / max(abs(x), 1e-30) for x, y in pairs)


def same(a, b):
    return a["losses"] == b["losses"] and a["hashes"] == b["hashes"]


def skipped(why):
    """The entry of what this machine cannot run: no failure, and nothing shown."""
    return {"verdict": "skipped", "notes": [why], "problems": []}


def stock_of_answer(answer):
    """The entry of one stock run."""
    if "skipped" in answer:
        return skipped(answer["skipped"])
    if "refused" in answer:
        return {"verdict": "FAILED", "notes": [],
                "problems": [f"stock was refused memory: {answer['refused']['text']}"]}
    problems = ["stock: a loss is no number"] if None in answer["losses"] else []
    return {"verdict": "FAILED" if problems else "ran", "notes": [], "problems": problems,
            **{name: answer[name] for name in ("peak", "reserved", "losses", "hashes")}}


def control_of(first, second, other):
    """The entry, once a second run in PyTorch's other allocator has shown whether stock agrees with
    itself, and one with other algorithms how far those take it. `first`: the entry so far."""
    for answer in (second, other):
        if "refused" in answer:
            return {**first, "verdict": "FAILED",
                    "problems": [f"the control was refused memory: {answer['refused']['text']}"]}
    agree = same(first, second)
    return {**first, "agree": agree, "verdict": "agree" if agree else "differ",
            "spread": loss_difference(first["losses"], second["losses"]),
            "algorithms_spread": loss_difference(first["losses"], other["losses"])}


def differs(answer, stock):
    """A program that ran, with other bits."""
    return "refused" not in answer and None not in answer["losses"] and not same(answer, stock)


def needs_refusals(answer, stock, refused):
    """A program that was refused a workspace took another algorithm: stock's with the same refusals is the one to
    compare with."""
    return bool(refused) and differs(answer, stock)


def as_refused(answer, refused_alike):
    """Whether the bits are those of stock with the same refusals. `refused_alike`: its answer, None if it has none."""
    return bool(refused_alike) and "losses" in refused_alike and same(answer, refused_alike)


def to_refused(count):
    """For people: what has the same bits."""
    return f"to stock that is refused the same {count} allocations"


def needs_control(answer, stock, refused_alike=None):
    """A difference says nothing before stock was compared with itself."""
    return "agree" not in stock and differs(answer, stock) and not as_refused(answer, refused_alike)


def different(answer, stock):
    """The names of what is not as stock has it, for people."""
    return [name for name in ("weights", "statistics", "optimizer")
            if answer["hashes"][name] != stock["hashes"][name]] + (
        ["losses"] if answer["losses"] != stock["losses"] else [])


def compare(row, answer, stock, memory, refused_alike=None):
    """(verdict, notes, problems) of a program that ran."""
    if None in answer["losses"]:
        return "FAILED", [], ["a loss is no number"]
    if same(answer, stock):
        return "identical", [], []
    if as_refused(answer, refused_alike):
        return "identical", [to_refused(memory["refused"])], []
    notes, parts, spread = [], ", ".join(different(answer, stock)), stock["spread"] or 0.0
    if not stock["agree"]:
        notes.append("two stock runs differ too")
    elif memory.get("refused"):
        notes.append(f"{memory['refused']} allocations refused, such as stock's workspace")
        spread = max(spread, stock.get("algorithms_spread") or 0.0)
    else:
        return "FAILED", [], [f"not as stock: {parts}"]
    difference = loss_difference(answer["losses"], stock["losses"])
    allowed = max(2 * spread, TOLERANCE[row.program.mode])
    if len(answer["losses"]) != len(stock["losses"]) or difference is None or difference > allowed:
        return "FAILED", notes, [f"losses differ by {difference}, at most {allowed:.1g}: {parts}"]
    return "close", notes + [f"losses differ by {difference:.1e}"], []


# --- Judging a row --------------------------------------------------------------------------------
def memory_of(statistics):
    """What the library says of the first device; {} if nothing."""
    return next(iter((statistics or {}).get("memory", [])), {})


def floor_of(memory):
    """The least budget that is known to be needed without tails; None if nothing is. Not the record's
    floor: that has the workspaces that ran, where smaller ones may do."""
    return max(memory.get("whole_budget_bytes", 0), memory.get("smallest_budget_bytes", 0)) or None


def problems_of_library(memory, budget):
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


def safety_problems(row, memory):
    """A row that asks for a kind of safety must have had it: the library falls back to another one."""
    wanted = dict(row.settings).get("MICRODNN_MEMORY_SAFETY")
    return [f"safety was {memory.get('safety')}, not {wanted}"] if wanted not in (None, memory.get("safety")) else []


def refusal_problems(said):
    """How a program must be told, beside its own exception: the last line of ours about it names a
    budget."""
    lines = [line for line in said.splitlines() if REFUSAL.search(line)]
    if not lines or not NEEDED.search(lines[-1]):
        return [f"the library does not say what would be enough: {lines}"]
    return []


def refusal_notes(refused):
    """An allocation that is refused is PyTorch's OutOfMemoryError. That what an operation names does not
    fit together shows only when it is launched; the launch fails then."""
    return [] if refused["type"] == "OutOfMemoryError" else [f"at a launch, as {refused['type']}"]


def judge(row, run, stock, floor, refused_alike=None):
    """run: answer, statistics, status, said, budget. floor: bytes or None. refused_alike: the answer of stock with
    the same refusals. Returns the entry's verdict, notes and problems."""
    memory = memory_of(run["statistics"])
    problems = problems_of_library(memory, run["budget"]) + safety_problems(row, memory)
    if run["status"] != 0:
        problems.append(f"ended with status {run['status']}")
    share = run["budget"] / floor if floor else math.inf
    if "refused" in run["answer"]:
        problems += refusal_problems(run["said"])
        if share >= ABOVE_FLOOR:
            problems.append(f"refused {share:.2f} of the floor" if floor else "refused, and no floor is known")
        verdict, notes = "refused", refusal_notes(run["answer"]["refused"])
    else:
        verdict, notes, more = compare(row, run["answer"], stock, memory, refused_alike)
        problems += more
        if share < 1 and not memory.get("tail_operations"):
            problems.append(f"ran in {share:.2f} of the floor")
    if memory.get("tail_operations"):
        notes.append(f"{memory['tail_operations']} operations had tails")
    if verdict != "refused" and not memory.get("out_bytes"):
        notes.append("nothing moved")
    return {"verdict": "FAILED" if problems else verdict, "notes": notes, "problems": problems}


def verified_problems(answer, counted):
    """counted: operations and unnamed accesses of this program, None where they could not be read."""
    if "refused" in answer:
        return [f"refused: {answer['refused']['text']}"]
    problems = ["a loss is no number"] if None in answer["losses"] else []
    if counted and counted["unnamed"]:
        problems.append(f"{counted['unnamed']} unnamed accesses, the first: {counted['first']}")
    if counted and not counted["operations"]:
        problems.append("no operation was counted")
    return problems


def judge_verified(row, answer, stock, counted):
    """A program under `microdnn verify`: clean is what it proves. Bits are compared where a stock run
    happens to be known; None: it is not."""
    problems = verified_problems(answer, counted)
    verdict, notes = "clean", []
    if stock and not problems and not needs_control(answer, stock):
        verdict, notes, problems = compare(row, answer, stock, {})
    elif stock and not problems:
        notes.append("not as the one stock run")
    if counted is None:
        notes.append("operations were not read")
    return {"verdict": "FAILED" if problems else verdict, "notes": notes, "problems": problems,
            "memory": {"operations": counted["operations"]} if counted else {}}


def ending_problems(status, said):
    """What `microdnn verify` says at the end of a process, of all its programs."""
    if status == 0 and CLEAN.search(said):
        return []
    lines = said.strip().splitlines()
    return [f"status {status}: {lines[-1] if lines else 'nothing was said'}"]


# --- Speed ----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Speed:
    """`least`: least ratio of stock's time to the library's. `peer`: stock in its own way of saving
    memory. `convolution`: the library's policy for convolutions; `limit`: of their workspace, None for
    the default."""
    net: str
    batch: int
    mode: str
    kind: str
    amount: float
    least: float | None
    convolution: str = "off"
    peer: str | None = None
    limit: str | None = None
    part: str = "speed"
    optimizer: str = "sgd"
    size: int | None = None
    reads: bool = False  # the loss of each iteration

    def build(self):
        return {name: getattr(self, name) for name in ("net", "batch", "mode", "optimizer", "size", "reads")}

    def settings(self):
        limit = {"MICRODNN_CONVOLUTION_WORKSPACE_LIMIT": self.limit} if self.limit else {}
        return {"MICRODNN_CONVOLUTION_POLICY": self.convolution, **limit}

    def __str__(self):
        limit = f" limit {self.limit}" if self.limit else ""
        shown = (f"{self.amount:.2f} of stock" if self.kind == "share" else f"{self.amount / GIB:.0f} GiB")
        other = f" against {self.peer}" if self.peer else ""
        size = f" {self.size}" if self.size else ""
        return (f"{self.part} {self.net} b{self.batch}{size} {self.mode} {shown}, "
                f"convolution {self.convolution}{limit}{other}")


NOT_SLOWER, NO_PERIOD = 0.98, 1 / 3  # where no iteration is like another, no plan helps
# In the order of their worth. The workspaces that cuDNN's own choice for VGG-16 takes, beside the tensors
# that an operation names, hardly fit into 12 GiB; micro-batches give them back. So the gates are on both
# parts of the library together, as a user would run it; what memory does alone is for information.
SPEED = [Speed("vgg16", 256, "tf32", "bytes", 12 * GIB, 1 / 2.6, "wr", limit="512MiB"),
         Speed("resnet50", 256, "tf32", "bytes", 12 * GIB, 2.0, peer="save_on_cpu"),
         *(Speed(net, batch, "tf32", "share", 1.25, NOT_SLOWER)
           for net, batch in (("resnet50", 64), ("vgg16", 256), ("resnet50", 256), ("vit_b_16", 128))),
         Speed("vgg16", 256, "fp32", "bytes", 12 * GIB, 1 / 1.4, "wr", limit="512MiB"),
         Speed("random_shapes", 64, "tf32", "share", 0.80, NO_PERIOD),
         *(Speed("vgg16", 256, mode, "bytes", 12 * GIB, None) for mode in ("tf32", "fp32"))]


# Networks that no part of the library was tuned with, as people train them: where does the time go?
WHY = [Speed(net, batch, mode, "share", 0.60, None, part="why", optimizer=optimizer, size=size, reads=True)
       for net, batch, mode, optimizer, size in
       (("densenet161", 64, "tf32", "sgd", None), ("bert", 16, "tf32", "adamw", None), ("swin_t", 64, "bf16", "adamw", None),
        ("resnet50", 256, "tf32", "sgd", None), ("unet3d", 16, "tf32", "sgd", 64))]


def why_of(before, after, iterations):
    """Of each iteration between two statistics: milliseconds of the host by kind, returns on demand by cause, bytes.
    {} if not known."""
    if not before or not after or iterations <= 0:
        return {}
    counts = ("out_bytes", "in_bytes", "operations", "mapped_chunks", "first_use_chunks", "unmapped_chunks",
              "background_chunks", "background_ms")
    names = [name for name in after if name in counts or name.startswith("returned_") or host_kind(name)]
    return {name: (after[name] - before.get(name, 0)) / iterations for name in names}


def host_kind(name):
    """What the host did, of a statistic of its time; None of any other."""
    found = re.fullmatch(r"host_(\w+)_ms", name)
    return found[1] if found and found[1] != "wait" else None


def parts_of_host(why):
    """(kind, milliseconds) of an iteration, the largest first, without what does not count."""
    parts = [(host_kind(name), ms) for name, ms in why.items() if host_kind(name)]
    return sorted([part for part in parts if part[1] >= 0.05], key=lambda part: -part[1])


def late_returns(why):
    return {name.removeprefix("returned_"): count for name, count in why.items()
            if name.startswith("returned_") and name != "returned_chunks" and count > 0}


def mapped(why):
    """Chunks that were mapped in an iteration, by reason; in the background: of these and of unmapped ones."""
    all_of = why.get("mapped_chunks", 0)
    parts = {"returned": why.get("returned_chunks", 0), "first used": why.get("first_use_chunks", 0)}
    return {**parts, "allocated": all_of - sum(parts.values()), "in the background": why.get("background_chunks", 0)}


def plan_of(before, after):
    """What the plan did in the turns that were timed; before, after: statistics. {} if not known."""
    if not before or not after:
        return {}
    moved = {name: after[name] - before[name] for name in
             ("planned_leaves", "planned_returns", "demand_leaves", "demand_returns")}
    return {**moved, "period_operations": after["period_operations"],
            "active": after["period_operations"] > 0 and moved["planned_leaves"] + moved["planned_returns"] > 0}


def plan_notes(plan):
    """For people; in a budget that is large enough there is nothing to plan."""
    if not plan:
        return ["not known whether a plan was active"]
    counts = ", ".join(f"{plan[name]} {name.replace('_', ' ')}" for name in
                       ("planned_leaves", "planned_returns", "demand_leaves", "demand_returns"))
    return [f"{'a' if plan['active'] else 'NO'} plan was active: {counts}, period of "
            f"{plan['period_operations']} operations"]


def speed_problems(row, result, memory, budget):
    problems = problems_of_library(memory, budget)
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
