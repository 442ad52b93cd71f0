"""Runs docs/examples/train_cnn, stock or through the library, and compares the two."""
import dataclasses
import json
import os
import statistics
import subprocess
import tempfile


# Random data and the default learning rate make VGG's and ResNet's first losses jump so that any two
# stock runs with different algorithms part after three iterations: nothing could be compared.
CALM = ("--learning-rate", "0.0005")
# Largest relative difference of the first five losses: other algorithms sum in another order, and
# in TF32 and fp16 round inputs as well (the floors of the numerics gate, times ten for five updates).
LOSS_TOLERANCE = {"fp32": 1e-3, "tf32": 1e-2, "fp16": 2e-2}
# PyTorch's, whose deep networks amplify more.
PYTORCH_LOSS_TOLERANCE = 0.05


class RunFailed(Exception):
    """A training run that ended with an error; the text is what the program said."""


@dataclasses.dataclass(frozen=True)
class Task:
    net: str
    batch: int
    dtype: str = "fp32"
    layout: str = "nchw"
    limit: str = "none"
    api: str = "legacy"
    length: tuple = ("--iterations", "10")
    extra: tuple = ()

    def arguments(self):
        return ["--net", self.net, "--batch", str(self.batch), "--dtype", self.dtype,
                "--layout", self.layout, "--workspace-limit", self.limit, "--api", self.api,
                *self.length,
                *self.extra]

    def __str__(self):
        graph = " graph" if self.api == "graph" else ""
        return f"{self.net} b{self.batch} {self.dtype} {self.layout} {self.limit}{graph}"


@dataclasses.dataclass
class Result:
    """`training` is train_cnn's JSON; `statistics` the library's own, None for stock."""
    training: dict
    statistics: dict | None
    output: str

    @property
    def convolution_ms(self):
        """Of one iteration: the median, on the device's clock."""
        return self.training["convolution_ms"]["median"]

    @property
    def iteration_ms(self):
        return self.training["iteration_ms"]["median"]

    @property
    def losses(self):
        return self.training["losses"]


def run(build, machine, task, with_library, settings=None, timeout=600):
    """One training run. `settings` are MICRODNN_* variables for a run through the library."""
    program = os.path.join(build, "train_cnn")
    with tempfile.TemporaryDirectory(prefix="microdnn.") as scratch:
        training_file = os.path.join(scratch, "training.json")
        statistics_file = os.path.join(scratch, "statistics.json")
        command = [program, *task.arguments(), "--json", training_file]
        environment = machine.environment
        if with_library:
            command = [os.path.join(build, "microdnn"), "run", "--", *command]
            environment = {**environment, **(settings or {}), "MICRODNN_GENERAL_STATS": "json",
                           "MICRODNN_GENERAL_STATS_FILE": statistics_file}
        try:
            done = subprocess.run(command, env=environment, text=True, capture_output=True,
                                  check=False, timeout=timeout)
        except subprocess.TimeoutExpired as late:
            raise RunFailed(f"{task}: still running after {timeout:.0f} s") from late
        if done.returncode != 0:
            said = (done.stderr + done.stdout).strip()[-2000:]
            raise RunFailed(f"{task}: status {done.returncode}: {said}")
        with open(training_file, encoding="utf-8") as file:
            training = json.load(file)
        library = None
        if with_library:
            with open(statistics_file, encoding="utf-8") as file:
                library = json.load(file)
    return Result(training, library, done.stdout + done.stderr)


class Stepper:
    """A training process that runs one iteration each time it is told to (train_cnn --step), so that
    stock and library alternate iteration by iteration, set up once."""

    def __init__(self, build, machine, task, with_library, settings, scratch):
        name = "library" if with_library else "stock"
        self.task = task
        self.training_file = os.path.join(scratch, name + ".json")
        self.statistics_file = os.path.join(scratch, name + "-statistics.json")
        self.error_file = os.path.join(scratch, name + ".err")
        command = [os.path.join(build, "train_cnn"), *task.arguments(), "--quiet", "--step",
                   "--json", self.training_file]
        environment = machine.environment
        self.with_library = with_library
        if with_library:
            command = [os.path.join(build, "microdnn"), "run", "--", *command]
            environment = {**environment, **(settings or {}), "MICRODNN_GENERAL_STATS": "json",
                           "MICRODNN_GENERAL_STATS_FILE": self.statistics_file}
        self.child = subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=open(self.error_file, "w",
                                                                          encoding="utf-8"))

    def fail(self, what):
        self.child.kill()
        self.child.wait()
        with open(self.error_file, encoding="utf-8") as file:
            said = file.read().strip()[-1000:]
        raise RunFailed(f"{self.task}: {what}: {said}")

    def step(self):
        """Convolution milliseconds of one iteration."""
        try:
            self.child.stdin.write("\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            self.fail("ended early")
        line = self.child.stdout.readline()
        if not line.startswith("step "):
            self.fail(f"said {line!r} instead of a step")
        return float(line.split()[2])

    def finish(self):
        """A Result with what train_cnn and the library wrote at the end."""
        self.child.stdin.close()
        if self.child.wait(timeout=60) != 0:
            self.fail(f"status {self.child.returncode}")
        self.child.stdout.close()
        with open(self.training_file, encoding="utf-8") as file:
            training = json.load(file)
        library = None
        if self.with_library:
            with open(self.statistics_file, encoding="utf-8") as file:
                library = json.load(file)
        return Result(training, library, "")


def compare_steps(build, machine, task, pairs, settings=None, warmup=6, each=2):
    """Like compare, but the two programs live side by side and alternate: `pairs` times `each`
    iterations of one and then of the other, first one first, then the other; their medians make a
    pair. The warm-up covers the searches, the library's measurements and its trials."""
    task = dataclasses.replace(task, length=("--iterations", str(warmup + pairs * each)))
    with tempfile.TemporaryDirectory(prefix="microdnn.") as scratch:
        both = []
        for with_library in (False, True):
            # One after the other: while a program searches and measures, nobody else may run.
            both.append(Stepper(build, machine, task, with_library, settings, scratch))
            for _ in range(warmup):
                both[-1].step()
        times = ([], [])
        for index in range(pairs):
            for side in ((0, 1) if index % 2 == 0 else (1, 0)):
                times[side].append(statistics.median(both[side].step() for _ in range(each)))
        stock, library = (stepper.finish() for stepper in both)
    row = row_of(task, [stock], [library], pairs)
    ratios = [a / b for a, b in zip(*times)]
    row.update(pairs=pairs, stock_ms=times[0], library_ms=times[1],
               stock_ms_median=statistics.median(times[0]),
               library_ms_median=statistics.median(times[1]),
               ratio_median=statistics.median(ratios), ratio_lower_quartile=lower_quartile(ratios))
    return row


def lower_quartile(values):
    """Of three values or more the 25th percentile between data points, else the smallest."""
    if len(values) < 3:
        return min(values)
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def loss_difference(stock, library, count=5):
    """Largest relative difference of the first `count` losses; None if one is not a number."""
    pairs = list(zip(stock[:count], library[:count]))
    if any(None in pair for pair in pairs):
        return None
    return max(abs(a - b) / max(abs(a), 1e-30) for a, b in pairs)


def compare(build, machine, task, pairs, deadline, settings=None):
    """Alternating pairs of stock and library runs, in an order that swaps each time, so that a
    drift of the machine hits both. Stops early at `deadline` (a callable: seconds left) after one pair.
    Returns a row of plain values."""
    stock_runs, library_runs = [], []
    slowest_pair_s = 0.0
    for index in range(pairs):
        before = deadline()
        if index > 0 and before < 1.2 * slowest_pair_s:
            break
        order = (False, True) if index % 2 == 0 else (True, False)
        for with_library in order:
            result = run(build, machine, task, with_library, settings, timeout=max(30, deadline()))
            (library_runs if with_library else stock_runs).append(result)
        slowest_pair_s = max(slowest_pair_s, before - deadline())
    return row_of(task, stock_runs, library_runs, pairs)


def row_of(task, stock_runs, library_runs, pairs_wanted):
    stock_ms = [run.convolution_ms for run in stock_runs]
    library_ms = [run.convolution_ms for run in library_runs]
    ratios = [a / b for a, b in zip(stock_ms, library_ms)]
    differences = [loss_difference(a.losses, b.losses) for a, b in zip(stock_runs, library_runs)]
    counters = library_runs[-1].statistics["counters"]
    return {
        "task": dataclasses.asdict(task),
        "pairs": len(ratios),
        "pairs_wanted": pairs_wanted,
        "stock_ms": stock_ms,
        "library_ms": library_ms,
        "stock_ms_median": statistics.median(stock_ms),
        "library_ms_median": statistics.median(library_ms),
        "ratio_median": statistics.median(ratios),
        "ratio_lower_quartile": lower_quartile(ratios),
        "losses_stock": stock_runs[0].losses[:5],
        "losses_library": library_runs[0].losses[:5],
        "loss_difference": None if None in differences else max(differences),
        "split": counters["executions_split"],
        "undivided": counters["executions_undivided"],
        "passed": counters["executions_passed"],
        "passed_trouble": counters["passed_trouble"],
        "measure_s": counters["measure_microseconds"] / 1e6,
        "convolutions": library_runs[-1].statistics["convolutions"],
    }
