"""The parts of memory-check that measure, and so run alone: the budget seen from outside, speed, larger
batches, the steady state."""
import ctypes
import dataclasses
import json
import os
import statistics
import subprocess
import threading
import time

import machine as machines
import memory_cells as cells
import memory_outside as outside
from memory_cells import GIB
from memory_place import ASYNC, DETERMINISTIC, alone, ask, close, compile_here, label, load_statistics
from processes import Failed

SIDES = ("stock", "library")
SAMPLE_S, LATE_SAMPLES_MS = 0.002, 4.0
SLOW_MS = 400  # an iteration that takes longer is timed in fewer turns
LEAST_STEPS = 5  # of a turn: what moves in an iteration begins in the one before


# --- The budget from outside ----------------------------------------------------------------------
class NvmlMemory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class Sampler:
    """Bytes of the device that anybody uses, every 2 ms, in a thread of its own. NVML sees all
    processes, so nothing else may run."""

    def __init__(self, device=0):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        self.handle = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", device, ctypes.byref(self.handle))
        self.most, self.count, self.stop = 0, 0, threading.Event()
        self.failure = None
        self.begun = time.monotonic()
        self.thread = threading.Thread(target=self.loop, daemon=True)

    def call(self, name, *arguments):
        status = getattr(self.nvml, name)(*arguments)
        if status:
            raise Failed(f"{name} returned {status}")

    def used(self):
        info = NvmlMemory()  # two threads may ask at once
        self.call("nvmlDeviceGetMemoryInfo", self.handle, ctypes.byref(info))
        return info.used

    def loop(self):
        try:
            while self.count == 0 or not self.stop.wait(SAMPLE_S):
                self.most = max(self.most, self.used())
                self.count += 1
        except Failed as failure:
            self.failure = failure

    def start(self):
        self.most, self.count, self.begun = self.used(), 0, time.monotonic()
        self.thread.start()

    def finish(self):
        self.stop.set()
        self.thread.join()
        if self.failure:
            raise self.failure
        self.most = max(self.most, self.used())
        return {"most": self.most, "samples": self.count,
                "interval_ms": 1e3 * (time.monotonic() - self.begun) / max(1, self.count)}


def watch(row, budget, place):
    """One run under a budget, watched from the context's creation to the model's last use."""
    program = row.program
    child = place.child(f"budget {label(program)}", budget, settings={**DETERMINISTIC, **dict(row.settings())})
    try:
        child.ready(place.limit(120))
        child.ask("context", place.limit(60))
        sampler = Sampler()
        before = sampler.used()
        sampler.start()
        try:
            answer = child.ask("program", place.limit(place.options.row_s), **program.arguments())
            end = sampler.used()
        finally:
            samples = sampler.finish()
        if "refused" in answer:
            raise Failed(f"refused within {budget / GIB:.2f} GiB: {answer['refused']['text']}")
        status, found, _ = close(child)
    finally:
        if child.alive:
            child.kill()
    memory = cells.memory_of(found)
    problems = cells.problems_of_library(memory, budget) + ([f"status {status}"] if status else [])
    if problems:
        raise Failed("; ".join(problems))
    return {"budget": budget, "before": before, "end": end, "memory": memory, "peak": answer["peak"],
            **samples}


def watch_all(row, place):
    huge = watch(row, cells.HUGE, place)
    # All that lived at a time: what the largest budget would have to hold.
    peak = huge["memory"]["peak_live_bytes"]
    runs = [watch(row, int(share * peak), place) for share in row.shares]
    problems = outside.watched_problems(huge, runs)
    apart = max(run["interval_ms"] for run in [huge, *runs])
    notes = [f"samples were {apart:.1f} ms apart"] if apart > LATE_SAMPLES_MS else []
    return {"verdict": "FAILED" if problems else "held", "notes": notes, "problems": problems,
            "huge": huge, "runs": runs, "growth": outside.growth_of(huge)}


# --- Memory that frameworks map ----------------------------------------------------------------------
STEP = 256 << 20


def take_others(row, budget, most, place, settings=()):
    """One process, watched from before it begins until it has taken what it can."""
    sampler = Sampler()
    before = sampler.used()
    sampler.start()
    child = place.child(label(row), budget, settings=(*row.settings, *settings),
                        worker=place.options.others_worker)
    try:
        child.ready(place.limit(60))
        child.ask("context", place.limit(60), framework=row.framework)
        answer = child.ask("take", place.limit(60), step=min(STEP, most), most=most)
        end = sampler.used()
        samples = sampler.finish()
        status, found, said = close(child)
    finally:
        sampler.stop.set()
        if child.alive:
            child.kill()
    memory = cells.memory_of(found)
    if status or not memory:
        raise Failed(f"status {status}, {'some' if memory else 'no'} statistics")
    return {"before": before, "end": end, "memory": memory, "said": said, **answer, **samples}


def watch_others(row, place):
    huge = take_others(row, cells.HUGE, 64 << 20, place, row.settings_of_little)
    run = take_others(row, row.budget, 2 * row.budget, place)
    problems = outside.others_problems(row, huge, run)
    most = (run["most"] - run["before"] - outside.growth_of(huge)) / GIB
    notes = [f"{run['held'] / GIB:.2f} GiB held, {most:.2f} GiB at most seen from outside"]
    if run["refused"] and run["memory"]["refused"] == 0:
        notes.append("the framework kept within its share of what it was told that there is")
    keep = {name: run[name] for name in ("before", "most", "end", "held", "refused", "memory", "interval_ms")}
    return {"verdict": "FAILED" if problems else "held", "notes": notes, "problems": problems, **keep,
            "growth": outside.growth_of(huge)}


# --- Speed ----------------------------------------------------------------------------------------
def peak_of(place, child):
    """Bytes of a steady iteration."""
    ask(place, child, "warm", 150, count=3)
    return ask(place, child, "peak")["peak"]


def turns(place, both, row):
    """Iterations of each side, and milliseconds of one on each side, in turns."""
    slower = max(ask(place, child, "step", count=1)["ms"] for child in both)
    count = max(LEAST_STEPS, min(60, int(1000 * place.options.turn / slower)))
    times = ([], [])
    pairs = place.options.pairs if slower < SLOW_MS else min(3, place.options.pairs)
    for index in range(pairs):
        if index >= 3 and place.clock.left() < 8 * count * slower / 1000:
            break
        for side in ((0, 1) if index % 2 == 0 else (1, 0)):
            times[side].append(ask(place, both[side], "step", count=count)["ms"])
    return 2 + len(times[1]) * (count + 1), times  # each step has one before it that is not timed


def build(place, child, row):
    ask(place, child, "build", **row.build())


PEER_ITERATIONS = 5  # it takes long, and has no plan to wait for


def warm_up(place, child, row, side):
    """Each side alone: while one searches, nobody else may run. The library's plan is made in the
    background, which takes seconds, not iterations."""
    ours = side == "library"
    peer = row.peer and not ours
    if peer:
        ask(place, child, row.peer)
    warm = ask(place, child, "warm", 150, count=PEER_ITERATIONS if peer else place.options.warm,
               seconds=place.options.warm_s if ours else 0)
    # What stock's search took would otherwise be the device's, and not there for the library.
    more = {} if ours else ask(place, child, "peak")
    return {**more, "first_s": warm["seconds"], "iterations": warm["iterations"], "losses": warm["losses"][:5]}


def live_of(place, child):
    """{} where there is nothing to read: the row says so."""
    try:
        return cells.memory_of(place.live(child.statistics_file + ".live"))
    except Failed:
        return {}


def compare_speed(place, stock, library, row):
    """The stock side is built already."""
    result = {"stock": warm_up(place, stock, row, "stock")}
    library.ready(place.limit(120))
    build(place, library, row)
    result["library"] = warm_up(place, library, row, "library")
    before = live_of(place, library)
    iterations, both = turns(place, (stock, library), row)
    for side, times in zip(SIDES, both):
        result[side].update(ms=times, iteration_ms=statistics.median(times))
    after = live_of(place, library)
    ratios = [a / b for a, b in zip(result["stock"]["ms"], result["library"]["ms"])]
    return {**result, "ratio": statistics.median(ratios), "pairs": len(ratios),
            "plan": cells.plan_of(before, after), "why": cells.why_of(before, after, iterations)}


def speed_row(row, stock, library, budget, place):
    try:
        result = compare_speed(place, stock, library, row)
        ask(place, stock, "end")
        status, found, _ = close(library)
    except Failed:
        library.kill()
        raise
    memory = cells.memory_of(found)
    problems = cells.speed_problems(row, result, memory, budget)
    problems += [f"ended with status {status}"] if status else []
    return {**result, "verdict": "FAILED" if problems else "held", "notes": cells.plan_notes(result["plan"]),
            "problems": problems, "budget": budget, "least": row.least, "memory": memory}


class SpeedRows:
    """One stock process for all rows; the library's, a process for each budget, import PyTorch while
    something else warms up, and touch no GPU until their row comes."""

    def __init__(self, rows, place, report):
        self.place, self.report = place, report
        self.children, self.stock = {}, None
        for row in rows:
            if row.kind == "bytes":
                self.start(row, int(row.amount))

    def start(self, row, budget):
        self.children[row] = budget, self.place.child(label(row), budget, settings=row.settings())

    def prepare(self):
        """A row that failed may have left stock with a model, or without a process."""
        if self.stock and self.stock.alive:
            ask(self.place, self.stock, "end")
        else:
            self.stock = self.place.stock("speed", ASYNC)
            self.stock.ready(self.place.limit(120))
            self.report.learn({**self.stock.facts, **self.stock.ask("facts", self.place.limit(60))})

    def run(self, row, place):
        self.prepare()
        build(place, self.stock, row)
        if row not in self.children:
            known = {"peak": peak_of(place, self.stock)}
            self.start(row, cells.Row("speed", None, row.kind, row.amount).budget(known))
            # That training has gone on already, and losses are compared from the first one.
            ask(place, self.stock, "end")
            build(place, self.stock, row)
        budget, library = self.children[row]
        return speed_row(row, self.stock, library, budget, place)

    def close(self):
        for child in [self.stock, *(child for _, child in self.children.values())]:
            if child and child.alive:
                child.kill()


def run_speed(rows, part, place, report):
    rows = [row for row in rows if not report.has(str(row))]
    if not rows:
        return
    runner = SpeedRows(rows, place, report)
    try:
        alone(rows, part, place, report, runner.run)
    finally:
        runner.close()


# --- Larger batches -------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Larger:
    net: str = "resnet50"
    mode: str = "tf32"
    budget: int = 16 * GIB
    low: int = 64
    high: int = 512

    def __str__(self):
        return f"larger {self.net} {self.mode} in {self.budget / GIB:.0f} GiB"


def larger_stock(row, place):
    child = place.stock("larger")
    child.ready(place.limit(120))
    answer = ask(place, child, "largest", 120, net=row.net, mode=row.mode, bytes=row.budget, low=row.low,
                 high=row.high)
    return child, answer


def larger_run(row, batch, times, stock, place):
    """In the budget, and by stock in all of the device's memory, for the losses and the time."""
    child = place.child(f"larger {batch}", row.budget)
    result = {"batch": batch, "times": times, "problems": []}
    try:
        child.ready(place.limit(120))
        for side, each in zip(SIDES, (stock, child)):
            ask(place, each, "build", net=row.net, batch=batch, mode=row.mode, benchmark=False)
            warm = ask(place, each, "warm", 150, count=5)
            result[side] = {"losses": warm["losses"],
                            "ms": ask(place, each, "step", 120, count=3)["ms"]}
            if each is stock:
                ask(place, each, "end")
        status, found, _ = close(child)
    except Failed as failure:
        child.kill()
        return {**result, "problems": [str(failure)]}
    result["memory"] = cells.memory_of(found)
    result["problems"] += cells.problems_of_library(result["memory"], row.budget)
    result["problems"] += [f"ended with status {status}"] if status else []
    difference = cells.loss_difference(result["stock"]["losses"], result["library"]["losses"])
    if difference is None or difference > cells.TOLERANCE[row.mode]:
        result["problems"].append(f"losses differ by {difference}")
    return result


def larger_row(row, place):
    stock, answer = larger_stock(row, place)
    problems = []
    if not answer["low_trains"] or answer["high_trains"]:
        problems.append(f"the largest batch of stock is not between {row.low} and {row.high}: {answer}")
    runs = []
    try:
        for times in (2, 4):
            runs.append(larger_run(row, times * answer["batch"], times, stock, place))
            problems += [f"{times} times: {text}" for text in runs[-1]["problems"]]
    finally:
        stock.kill()
    return {"verdict": "FAILED" if problems else "held", "notes": [], "problems": problems,
            "stock_batch": answer["batch"], "budget": row.budget, "runs": runs}


# --- Steady state ---------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Steady:
    net: str
    batch: int
    budget: int

    def __str__(self):
        return f"steady {self.net} b{self.batch} in {self.budget / GIB:.1f} GiB"


def counting(place):
    """Settings of a child whose requests to the kernel driver are counted."""
    counter = compile_here("memory_ioctls.c", place, "-shared", "-fPIC")
    return {"LD_PRELOAD": f"{place.preload}:{counter}"}


def steady_row(row, place):
    child = place.child(label(row), row.budget, settings=counting(place))
    try:
        child.ready(place.limit(120))
        ask(place, child, "build", net=row.net, batch=row.batch, mode="tf32")
        ask(place, child, "warm", count=3 + place.options.warm, seconds=place.options.warm_s)
        live = child.statistics_file + ".live"
        early, asked = cells.memory_of(place.live(live)), ask(place, child, "ioctls")
        ms = ask(place, child, "step", count=20)["ms"]
        requests = cells.requests_between(asked, ask(place, child, "ioctls"))
        late = cells.memory_of(place.live(live))
        status, _, _ = close(child)
    except Failed:
        child.kill()
        raise
    problems = cells.steady_problems(early, late) + ([f"status {status}"] if status else [])
    return {"verdict": "FAILED" if problems else "held", "notes": cells.requests_notes(requests),
            "problems": problems, "ms": ms, "early": early, "late": late, "requests": requests}


@dataclasses.dataclass(frozen=True)
class Calls:
    budget: int = 4 * GIB

    def __str__(self):
        return "steady calls"


def cudart():
    folders = [folder for folder in machines.package_folders()
               if os.path.exists(os.path.join(folder, "libcudart.so.13"))]
    return os.path.join(folders[0], "libcudart.so.13") if folders else "libcudart.so.13"


def run_calls(program, environment, place):
    done = subprocess.run([program, cudart()], env=environment, text=True, capture_output=True,
                          check=False, timeout=place.limit(60))
    if done.returncode != 0:
        raise Failed(f"memory_calls: status {done.returncode}: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout)


def calls_row(row, place):
    program = compile_here("memory_calls.c", place, "-isystem",
                           machines.find_headers())
    path = os.path.join(place.scratch, "calls.json")
    pairs = [(run_calls(program, place.clean, place),
              run_calls(program, place.preload_environment(row.budget, "auto", {}, path), place))
             for _ in range(3)]
    stock, library = ({name: statistics.median(each[side][name] for each in pairs)
                       for name in ("malloc", "free", "launch")} for side in (0, 1))
    memory = cells.memory_of(load_statistics(path))
    problems = cells.calls_problems(stock, library) + cells.problems_of_library(memory, row.budget)
    return {"verdict": "FAILED" if problems else "held", "notes": [], "problems": problems,
            "stock": stock, "library": library, "memory": memory}


STEADY = (Calls(), Steady("resnet50", 64, 4 * GIB), Steady("vgg16", 64, 6 * GIB))


def run_steady(row, place):
    return (calls_row if isinstance(row, Calls) else steady_row)(row, place)
