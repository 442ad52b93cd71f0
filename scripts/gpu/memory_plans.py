"""The part of memory-check that compares plans with what comes true, in networks, types and budgets that cover each
other: most networks with two types and two budgets, each type with each budget.

A plan is made of operation times that were measured without moves, in a run of its own under a budget in which
everything fits, and of link rates that were measured before that run began. Nothing of the run under the budget goes
into it. PyTorch does not search for the fastest convolutions (cudnn.benchmark is off): what it finds depends on the
memory there is, and a plan is one for the convolutions of the run that was recorded. PyTorch's save_on_cpu stands
beside it, where it keeps within the same memory."""
import dataclasses
import json
import os
import statistics
import subprocess

import memory_cells as cells
from memory_cells import GIB
from memory_measured import build, live_of, turns
from memory_place import ASYNC, alone, ask, close, label
from processes import Failed

COMES_TRUE = 1.10  # of the plan
LEAST_OF_FLOOR = 1.10
PLENTY = 2  # of the peak: so much that nothing need move
PEER_ITERATIONS, PEER_STEPS = 2, 3


@dataclasses.dataclass(frozen=True)
class Planned:
    net: str
    batch: int
    mode: str
    share: float
    optimizer: str = "sgd"
    size: int | None = None

    def build(self):
        names = ("net", "batch", "mode", "optimizer", "size")
        return {**{name: getattr(self, name) for name in names}, "reads": True, "benchmark": False}

    def __str__(self):
        size = f" {self.size}" if self.size else ""
        return f"plans {self.net} b{self.batch}{size} {self.mode} {self.share:.0%} of stock"


PLANS = [Planned(*row) for row in (
    ("resnet50", 256, "tf32", 0.6), ("resnet50", 256, "fp32", 0.4),
    ("vgg16", 256, "tf32", 0.8), ("vgg16", 256, "fp32", 0.6),
    ("densenet121", 128, "tf32", 0.6), ("densenet121", 128, "bf16", 0.4),
    ("swin_t", 64, "bf16", 0.6, "adamw"), ("swin_t", 64, "fp32", 0.8, "adamw"),
    ("vit_b_16", 64, "tf32", 0.4, "adamw"), ("vit_b_16", 64, "bf16", 0.8, "adamw"),
    ("mobilenet_v3_large", 256, "fp32", 0.6), ("mobilenet_v3_large", 256, "bf16", 0.4),
    ("deeplabv3_resnet50", 16, "tf32", 0.8), ("deeplabv3_resnet50", 16, "bf16", 0.6),
    ("gpt2", 8, "fp32", 0.4, "adamw"), ("bert", 16, "tf32", 0.6, "adamw"),
    ("bert", 16, "bf16", 0.8, "adamw"), ("unet3d", 16, "fp32", 0.4, "sgd", 64))]


# --- The plan ---------------------------------------------------------------------------------------
def recorded(row, place, child):
    """A run in whose iterations nothing moves; makes the file that `microdnn advise` reads. What PyTorch's search for
    convolutions tries before, in all the memory that there can be, may send other things away."""
    build(place, child, row)
    ask(place, child, "warm", 150, count=place.options.warm, seconds=place.options.warm_s / 2)
    status, found, _ = close(child)
    memory = cells.memory_of(found)
    if status or not memory or not memory["period_operations"] or memory["period_out_bytes"]:
        numbers = {name: (memory or {}).get(name) for name in ("period_operations", "period_out_bytes", "out_bytes")}
        raise Failed(f"the run without moves: status {status}, {numbers}")


def advice(place, record, budget):
    """The plan for that budget, as `microdnn advise` makes it."""
    done = subprocess.run([place.tool(), "advise", record, "--json", "--gpu", "none", "--budget", str(budget)],
                          text=True, capture_output=True, check=False, timeout=place.limit(60), env=place.clean)
    if done.returncode:
        raise Failed(f"microdnn advise: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout)


def budget_of(row, peak, place, record):
    floor = advice(place, record, 1 << 20)["floor_bytes"]
    return max(int(row.share * peak), int(LEAST_OF_FLOOR * floor)) >> 21 << 21


def chunk_of(budget):
    """The library's choice for that budget (config/sizes.c): what is recorded is rounded to chunks."""
    if budget < 2 * GIB:
        return 2 << 20 if budget < GIB else 4 << 20
    chunk = 8 << 20
    while chunk < min(budget / 1024, 32 << 20):
        chunk *= 2
    return chunk


# --- A row ------------------------------------------------------------------------------------------
def peer(row, place, stock, budget):
    """PyTorch's save_on_cpu in the stock process: its milliseconds, and whether it keeps within that memory."""
    ask(place, stock, "end")
    build(place, stock, row)
    ask(place, stock, "save_on_cpu")
    ask(place, stock, "warm", 150, count=PEER_ITERATIONS)
    ms = ask(place, stock, "step", 150, count=PEER_STEPS)["ms"]
    peak = ask(place, stock, "peak")["peak"]
    ask(place, stock, "end")
    return {"ms": ms, "peak": peak, "fits": peak <= budget}


def problems_of(result):
    problems = cells.problems_of_library(result["memory"], result["budget"])
    ours, plan, other = result["library_ms"], result["plan_ms"], result["save_on_cpu"]
    if plan is None:
        problems.append("no plan")
    elif ours > COMES_TRUE * plan:
        problems.append(f"{ours:.1f} ms are {ours / plan:.2f} of the plan's {plan:.1f}")
    if other["fits"] and ours > other["ms"]:
        problems.append(f"save_on_cpu takes {other['ms']:.1f} ms within the same memory, the library {ours:.1f}")
    return problems


def measure(row, place, stock, library, budget, plan_ms):
    library.ready(place.limit(120))
    build(place, library, row)
    ask(place, library, "warm", 150, count=place.options.warm, seconds=place.options.warm_s)
    before = live_of(place, library)
    iterations, both = turns(place, (stock, library), row)
    after = live_of(place, library)
    status, found, _ = close(library)
    if status:
        raise Failed(f"status {status}")
    return {"budget": budget, "plan_ms": plan_ms, "stock_ms": statistics.median(both[0]),
            "library_ms": statistics.median(both[1]), "memory": cells.memory_of(found),
            "plan": cells.plan_of(before, after), "why": cells.why_of(before, after, iterations)}


class PlanRows:
    """One stock process for all rows; of the library, two for each."""

    def __init__(self, place):
        self.place = place
        self.stock = None

    def prepare(self):
        if not self.stock or not self.stock.alive:
            self.stock = self.place.stock("plans", ASYNC)
            self.stock.ready(self.place.limit(120))
        ask(self.place, self.stock, "end")

    def run(self, row, place):
        record = os.path.join(place.scratch, f"{label(row)}.record")
        children = []
        try:
            self.prepare()
            build(place, self.stock, row)
            ask(place, self.stock, "warm", 150, count=place.options.warm // 2)
            peak = ask(place, self.stock, "peak")["peak"]
            settings = {"MICRODNN_MEMORY_RECORD": record, "MICRODNN_MEMORY_CHUNK_SIZE": str(chunk_of(row.share * peak))}
            children.append(place.child(f"{label(row)} recorded", PLENTY * peak, settings=settings))
            children[0].ready(place.limit(120))
            recorded(row, place, children[0])
            budget = budget_of(row, peak, place, record)
            children.append(place.child(label(row), budget))
            plan = advice(place, record, budget)["rows"][0]
            result = measure(row, place, self.stock, children[1], budget, plan.get("ms"))
            result["save_on_cpu"] = peer(row, place, self.stock, budget)
        finally:
            for child in children:
                if child.alive:
                    child.kill()
        problems = problems_of(result)
        return {**result, "verdict": "FAILED" if problems else "held", "notes": [note_of(result)], "problems": problems,
                "peak": peak, "plan_row": plan}

    def close(self):
        if self.stock and self.stock.alive:
            self.stock.kill()


def note_of(result):
    other = result["save_on_cpu"]
    plan = result["plan_ms"]
    return (f"{result['budget'] / GIB:.2f} GiB: {result['library_ms']:.1f} ms of the plan's "
            f"{plan or float('nan'):.1f} ({result['library_ms'] / (plan or float('nan')):.2f}), "
            f"stock {result['stock_ms']:.1f}, save_on_cpu {other['ms']:.1f} in {other['peak'] / GIB:.2f} GiB")


def run_plans(rows, place, report):
    runner = PlanRows(place)
    try:
        alone(rows, "plans", place, report, runner.run)
    finally:
        runner.close()
