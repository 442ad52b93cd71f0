"""The part of memory-check that measures how long ten iterations take from the start of a program: without the library,
under a budget with an empty cache of measurements, and once more with the cache that this run left. PyTorch searches for
the fastest convolutions (cudnn.benchmark), since searching is what takes time at first."""
import dataclasses
import os
import time

import memory_cells as cells
from memory_cells import GIB
from memory_measured import build
from memory_place import ASYNC, alone, ask, close, label
from processes import Failed

ITERATIONS = 10
EMPTY_S, WARM_S = 5, 2  # more than stock takes, at most


@dataclasses.dataclass(frozen=True)
class First:
    net: str
    batch: int
    mode: str
    optimizer: str = "sgd"
    size: int | None = None
    share: float = 0.6

    def build(self):
        return {**{name: getattr(self, name) for name in ("net", "batch", "mode", "optimizer", "size")}, "reads": True}

    def __str__(self):
        return f"first {self.net} b{self.batch} {self.mode} {self.share:.0%} of stock"


FIRST = [First(*row) for row in (
    ("unet3d", 16, "tf32", "sgd", 64), ("resnet50", 256, "tf32"), ("densenet121", 128, "tf32"), ("vgg16", 256, "tf32"),
    ("swin_t", 64, "bf16", "adamw"), ("mobilenet_v3_large", 256, "fp32"), ("bert", 16, "tf32", "adamw"),
    ("deeplabv3_resnet50", 16, "bf16"), ("vit_b_16", 64, "bf16", "adamw"), ("gpt2", 8, "fp32", "adamw"))]


def seconds_of(row, place, child):
    """From the first call of CUDA, which `build` makes, to the end of the tenth iteration."""
    child.ready(place.limit(120))
    begin = time.monotonic()
    build(place, child, row)
    ask(place, child, "warm", 150, count=ITERATIONS)
    return time.monotonic() - begin


def stock_side(row, place):
    child = place.stock(label(row), ASYNC)
    try:
        seconds = seconds_of(row, place, child)
        return seconds, ask(place, child, "peak")["peak"]
    finally:
        child.kill()


def library_side(row, place, budget, cache):
    settings = {"MICRODNN_CONVOLUTION_POLICY": "wr", "MICRODNN_CACHE_FILE": cache}
    child = place.child(label(row), budget, settings=settings)
    try:
        seconds = seconds_of(row, place, child)
        status, found, _ = close(child)
    finally:
        if child.alive:
            child.kill()
    if status:
        raise Failed(f"status {status}")
    return seconds, cells.memory_of(found)


def run(row, place):
    cache = os.path.join(place.scratch, f"{label(row)}.db")
    stock_s, peak = stock_side(row, place)
    budget = int(row.share * peak) >> 21 << 21
    empty_s, memory = library_side(row, place, budget, cache)
    warm_s, _ = library_side(row, place, budget, cache)
    problems = cells.problems_of_library(memory, budget)
    problems += [f"with {name} cache {seconds:.1f} s, stock {stock_s:.1f}"
                 for name, seconds, more in (("an empty", empty_s, EMPTY_S), ("a warm", warm_s, WARM_S))
                 if seconds > stock_s + more]
    note = (f"{budget / GIB:.2f} GiB: ten iterations after {stock_s:.1f} s; with the library {empty_s:.1f}, with a warm cache "
            f"{warm_s:.1f}")
    return {"budget": budget, "stock_s": stock_s, "empty_s": empty_s, "warm_s": warm_s, "memory": memory,
            "verdict": "FAILED" if problems else "held", "notes": [note], "problems": problems}


def read_files(row, place, report):
    """The first process of a machine reads CUDA's and cuDNN's files from the disk, which is nobody's time."""
    child = place.stock(label(row), ASYNC)
    try:
        seconds_of(row, place, child)
        report.learn({**child.facts, **ask(place, child, "facts", 30)})
    finally:
        child.kill()


def run_first(rows, place, report):
    if any(not report.has(str(row)) for row in rows):
        read_files(rows[0], place, report)
    alone(rows, "first", place, report, run)
