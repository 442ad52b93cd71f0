"""The part of memory-check that compares a library that may choose convolutions' workspaces ([memory] variants = fitting)
with one that leaves them as the program has them (recorded): iterations of both in turns within the same budget, and
losses beside stock's. A deterministic training must have stock's bits though there are choices; if it was refused
allocations, such as a workspace larger than the budget, those of stock that is refused the same. PyTorch searches for the
fastest convolutions (cudnn.benchmark) where time is measured."""
import dataclasses
import statistics

import memory_cells as cells
from memory_cells import GIB
from memory_measured import build, live_of, turns
from memory_place import (ASYNC, DETERMINISTIC, Job, alone, ask, close, label, recording_refusals, run_program, run_refused,
                          take)
from processes import Failed

ITERATIONS = 6  # of the training whose bits are compared
# Both sides run in turns, so neither shares the link with the other.
WR = {"MICRODNN_CONVOLUTION_POLICY": "wr", "MICRODNN_MEMORY_SHARING": "none"}
CHOICES = {"MICRODNN_MEMORY_VARIANTS": "fitting", **WR}


@dataclasses.dataclass(frozen=True)
class Choice:
    net: str
    batch: int
    budget: float  # GiB, or the share of stock's peak where it is below 1
    mode: str = "fp32"
    optimizer: str = "sgd"
    size: int | None = None

    def build(self):
        return {name: getattr(self, name) for name in ("net", "batch", "mode", "optimizer", "size")}

    def arguments(self):
        """Of the training whose bits are compared."""
        return {**self.build(), "program": "plain", "count": ITERATIONS}

    def bytes_of(self, peak):
        return int(self.budget * (peak if self.budget < 1 else GIB)) >> 21 << 21

    def __str__(self):
        size = f" {self.size}" if self.size else ""
        budget = f"{self.budget:.0%} of stock" if self.budget < 1 else f"{self.budget:g} GiB"
        return f"variants {self.net} b{self.batch}{size} {self.mode} {budget}"


VARIANTS = [Choice("vgg16", 256, 12), Choice("vgg16", 256, 9.5), Choice("resnet50", 256, 8),
            Choice("unet3d", 16, 0.4, size=64)]


def trained(answer):
    """The answer of a deterministic training, which must have come to its end."""
    if "refused" in answer:
        raise Failed(f"a deterministic training was refused: {answer['refused']['text']}")
    return answer


def like_refused(row, place, answer, refused):
    """Whether the bits are those of stock that is refused the same, and what the row says of it."""
    entry = take(Job(f"refused {row}", "stock", 0, lambda: run_refused(row, row, place)))
    alike = cells.as_refused(answer, entry.get("answer"))
    why = "".join(f"; {text}" for text in entry.get("problems", []))  # it may not have come to its end
    return alike, [f"bits {'' if alike else 'not '}identical {cells.to_refused(refused)}{why}"]


def compare_bits(row, place, stock, child):
    """What of a deterministic training is not as stock has it, and notes. Where the library refused a workspace, PyTorch took
    another algorithm, so there stock that is refused the same is the one to compare with."""
    ran = run_program(child, row, place)
    answer, refused = trained(ran["answer"]), cells.memory_of(ran["statistics"]).get("refused")
    if ran["status"]:
        raise Failed(f"a deterministic training: status {ran['status']}")
    alike, notes = False, []
    if cells.needs_refusals(answer, stock, refused):
        alike, notes = like_refused(row, place, answer, refused)
    return {"differ": [] if alike else cells.different(answer, stock), "refused_allocations": refused,
            "as_refused": alike}, notes


def warmed(row, place, child):
    child.ready(place.limit(120))
    build(place, child, row)
    return ask(place, child, "warm", 150, count=place.options.warm, seconds=place.options.warm_s)


def side(place, child, losses, before, iterations, times):
    after = live_of(place, child)
    status, found, _ = close(child)
    if status:
        raise Failed(f"status {status}")
    return {"ms": statistics.median(times), "turns_ms": times, "losses": losses, "memory": cells.memory_of(found),
            "plan": cells.plan_of(before, after), "why": cells.why_of(before, after, iterations)}


def compare(row, place, children):
    warm = [warmed(row, place, child) for child in children]
    before = [live_of(place, child) for child in children]
    iterations, times = turns(place, children, row)
    return [side(place, child, warm[i]["losses"], before[i], iterations, times[i]) for i, child in enumerate(children)]


def is_slower(result):
    """Each turn with choices took longer than any with fixed workspaces. If turns overlap, two runs of the same may differ
    by as much."""
    return min(result["fitting"]["turns_ms"]) > max(result["recorded"]["turns_ms"])


def problems_of(row, result):
    problems = [f"{name} of a deterministic training differ" for name in result["differ"]]
    for name in ("recorded", "fitting"):
        each = result[name]
        problems += [f"{name}: {text}" for text in cells.problems_of_library(each["memory"], result["budget"])]
        difference = cells.loss_difference(result["losses"], each["losses"])
        if difference is None or difference > cells.TOLERANCE[row.mode]:
            problems.append(f"{name}: losses differ by {difference}")
    if is_slower(result):
        problems.append(f"{result['ratio']:.3f} of the time with fixed workspaces")
    return problems


def of_stock(row, place, stock):
    """Losses, and what an iteration needs."""
    stock.ready(place.limit(120))
    build(place, stock, row)
    losses = ask(place, stock, "warm", 150, count=5)["losses"]
    peak = ask(place, stock, "peak")["peak"]
    ask(place, stock, "end")
    return losses, peak


def run(row, place):
    children = [place.stock(label(row), {**ASYNC, **DETERMINISTIC})]
    try:
        losses, peak = of_stock(row, place, children[0])
        budget = row.bytes_of(peak)
        # All import PyTorch while stock trains once more.
        children += [place.child(f"{label(row)} {name}", budget, settings=settings) for name, settings in (
            ("deterministic", {**CHOICES, **DETERMINISTIC, **recording_refusals(row, place)}), ("recorded", WR),
            ("fitting", CHOICES))]
        stock = trained(ask(place, children[0], "program", 150, **row.arguments()))
        children[0].kill()
        bits, notes = compare_bits(row, place, stock, children[1])
        fixed, chosen = compare(row, place, children[2:])
    finally:
        for child in children:
            if child.alive:
                child.kill()
    result = {"budget": budget, "peak": peak, "losses": losses, **bits, "recorded": fixed, "fitting": chosen,
              "ratio": chosen["ms"] / fixed["ms"]}
    problems = problems_of(row, result)
    note = (f"{budget / GIB:.2f} GiB: {fixed['ms']:.1f} ms with fixed workspaces, {chosen['ms']:.1f} with choices "
            f"({result['ratio']:.3f}{', turns overlap' if result['ratio'] > 1 and not is_slower(result) else ''})")
    return {**result, "verdict": "FAILED" if problems else "held", "notes": [note, *notes], "problems": problems}


def run_variants(rows, place, report):
    alone(rows, "variants", place, report, run)
