#!/usr/bin/env python3
"""The second half of scripts/demo: trains with and without the library, side by side, first within a limit for workspace,
then in less GPU memory than the training asks for."""
import dataclasses
import json
import os
import subprocess
import sys

import machine as machines
import training
from training import Task

LEAST_ACCURACY = 0.95
# Limits to choose from, as shares of what the hungriest convolution takes when nothing limits it.
SHARES = (2 / 3, 1 / 2, 1 / 4, 1 / 8)
# The simulated GPU is the one of the micro-batching paper unless MICRODNN_SIM_PROFILE names another;
# so small a network leaves little to gain on a larger GPU.
SIMULATED_PROFILE = "p100"
SIMULATED = Task("lenet", 256, "fp32", length=("--epochs", "10"), extra=("--learning-rate", "0.05"))
REAL = Task("lenet", 512, "tf32", length=("--epochs", "40"), extra=("--learning-rate", "0.05"))
# In less memory than they ask for; a share of it is the budget.
MEMORY_SIMULATED = Task("lenet", 256, limit="1MiB", length=("--epochs", "10"), extra=("--learning-rate", "0.05"))
MEMORY_REAL = Task("resnet50", 64, "tf32", limit="64MiB", length=("--iterations", "60"), extra=training.CALM)
BUDGET_SHARE = 0.7
# Simulated times do not vary: one look is enough, where each costs real arithmetic.
ONE_LOOK = {"MICRODNN_CONVOLUTION_MEASURE_REPEATS": "1"}


@dataclasses.dataclass
class Stage:
    """Where the demo plays. `trial` is the machine for short runs that find a limit: only times
    matter there, so the simulated one need not compute."""
    machine: machines.Machine
    trial: machines.Machine
    task: Task
    memory_task: Task
    settings: dict


def find_stage(build):
    if os.environ.get("MICRODNN_SIM", "") in ("", "0"):
        real = machines.find_real()
        if real:
            return Stage(real, real, REAL, MEMORY_REAL, {})
    os.environ.setdefault("MICRODNN_SIM_PROFILE", SIMULATED_PROFILE)
    machine = machines.find_simulated(build, "compute")
    trial = machines.find_simulated(build, "timing")
    if machine is None or trial is None:
        return None
    task = dataclasses.replace(SIMULATED, extra=(*SIMULATED.extra, "--find-repeats", "1"))
    return Stage(machine, trial, task, MEMORY_SIMULATED, ONE_LOOK)


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


def settings_at(stage, limit):
    """With the limit as the library's own too, its statistics are about that limit."""
    return {**stage.settings, "MICRODNN_CONVOLUTION_WORKSPACE_LIMIT": str(limit)}


def short(task, limit):
    return dataclasses.replace(task, limit=str(limit), length=("--iterations", "8"))


def wanted_bytes(build, stage):
    """The largest workspace that any convolution takes when nothing limits it."""
    free = training.run(build, stage.trial, short(stage.task, "none"), False)
    return max(choice["workspace_bytes"] for layer in free.training["layers"]
               for choice in layer.values() if isinstance(choice, dict))


def find_limit(build, stage):
    """The limit of SHARES at which micro-batches gain most, by short runs; and what was tried."""
    wanted = wanted_bytes(build, stage)
    gains = {}
    for share in SHARES:
        limit = int(wanted * share)
        task = short(stage.task, limit)
        stock = training.run(build, stage.trial, task, False)
        library = training.run(build, stage.trial, task, True, settings_at(stage, limit))
        gains[limit] = stock.convolution_ms / library.convolution_ms
    return max(gains, key=gains.get), wanted, gains


def accuracy(result):
    return result.training["epochs"][-1]["test_accuracy"]


def print_side_by_side(rows, stock, library):
    print(f"\n{'':32}{'without':>14}{'with libmicrodnn':>20}")
    for name, show in rows:
        print(f"{name:32}{show(stock):>14}{show(library):>20}")


def print_convolutions(stock, library):
    print_side_by_side([
        ("test accuracy", lambda run: f"{100 * accuracy(run):.2f} %"),
        ("loss of the last epoch", lambda run: f"{run.training['epochs'][-1]['loss']:.4f}"),
        ("convolutions, ms an iteration", lambda run: f"{run.convolution_ms:.4f}"),
        ("whole iteration, ms", lambda run: f"{run.iteration_ms:.4f}"),
        ("images a second", lambda run: f"{run.training['images_per_second']:,.0f}"),
        ("convolution workspace", lambda run: size(run.training["workspace_bytes"])),
        ("peak device memory", lambda run: size(run.training["peak_bytes"])),
    ], stock, library)


def print_splits(library):
    rows = library.statistics["convolutions"]
    splits = [row for row in rows if " x " in row["configuration"] or "+" in row["configuration"]]
    print("\nwhat the library split (its statistics; times as it measured them):")
    for row in splits:
        undivided = row["undivided_ms"]
        gain = (f", undivided {undivided:.4f} ms" if undivided is not None
                else ", undivided: nothing fits")
        print(f"  {row['problem']}\n    {row['configuration']}: {size(row['workspace_bytes'])}, "
              f"{row['configuration_ms']:.4f} ms{gain}")
    counters = library.statistics["counters"]
    print(f"  {len(rows) - len(splits)} other convolutions run whole; choosing took "
          f"{counters['measure_microseconds'] / 1e6:.1f} s")


def convolution_problems(stock, library):
    problems = []
    for name, run in (("without the library", stock), ("with it", library)):
        if accuracy(run) < LEAST_ACCURACY:
            problems.append(f"{100 * accuracy(run):.2f} % accuracy {name}, "
                            f"less than {100 * LEAST_ACCURACY:.0f} %")
    if library.convolution_ms >= stock.convolution_ms:
        problems.append("convolutions are not faster with the library")
    return problems


def play_convolutions(build, stage):
    """Trains within a limit for workspace; returns what is wrong, and a line for the end."""
    limit, wanted, gains = find_limit(build, stage)
    tried = ", ".join(f"{size(tried)} {gain:.2f}x" for tried, gain in gains.items())
    print(f"demo: without a limit the largest workspace is {size(wanted)}; short trials with less: "
          f"{tried}\ndemo: both runs get {size(limit)}: too little for the whole batch with its "
          "fastest algorithm, enough for micro-batches", flush=True)
    task = dataclasses.replace(stage.task, limit=str(limit))
    results = []
    for with_library, name in ((False, "without the library"), (True, "through libmicrodnn.so")):
        print(f"demo: training on handwritten digits {name} ...", flush=True)
        results.append(training.run(build, stage.machine, task, with_library, settings_at(stage, limit)))
    stock, library = results
    print_convolutions(stock, library)
    print_splits(library)
    return convolution_problems(stock, library), (
        f"convolutions {stock.convolution_ms / library.convolution_ms:.2f} times as fast, accuracy "
        f"{100 * accuracy(stock):.2f} % and {100 * accuracy(library):.2f} %")


def gpu_memory(run):
    """What the training had of it: its own peak, or under the library what was resident at most."""
    return run.statistics["memory"][0]["peak_resident_bytes"] if run.statistics else run.training["peak_bytes"]


def moved(run):
    return size(run.statistics["memory"][0]["out_bytes"]) if run.statistics else "-"


def print_memory(stock, library):
    print_side_by_side([
        ("GPU memory at most", lambda run: size(gpu_memory(run))),
        ("moved to the host", moved),
        ("whole iteration, ms", lambda run: f"{run.iteration_ms:.4f}"),
        ("loss of the last iteration", lambda run: f"{run.losses[-1]:.6f}"),
    ], stock, library)


def memory_problems(machine, budget, stock, library):
    """Moving changes no bit; on a real GPU cuDNN's search may choose another algorithm in each run."""
    problems = []
    if gpu_memory(library) > budget:
        problems.append(f"{size(gpu_memory(library))} were resident, more than the budget")
    if library.statistics["memory"][0]["out_bytes"] == 0:
        problems.append("nothing moved")
    apart = training.loss_difference(stock.losses, library.losses)
    allowed = 0.0 if machine.simulated else training.LOSS_TOLERANCE[MEMORY_REAL.dtype]
    if apart is None or apart > allowed:
        problems.append(f"the losses differ by {apart}")
    return problems


def write_report(build, folder, library):
    """A line that names the page of `microdnn report`, or says what it lacks and how to make it later."""
    statistics = os.path.join(folder, "statistics.json")
    with open(statistics, "w", encoding="utf-8") as file:
        json.dump(library.statistics, file)
    page = os.path.join(folder, "report.html")
    command = [os.path.join(build, "microdnn"), "report", statistics, "--record", os.path.join(folder, "record"), "-o", page]
    shown = " ".join(os.path.relpath(word, machines.ROOT) if word.startswith("/") else word for word in command)
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    if done.returncode == 0:
        return f"{shown}\n  made a page of the training in less memory: {os.path.relpath(page, machines.ROOT)}"
    return f"{done.stderr.strip()}\n  then this makes a page of the training in less memory: {shown}"


def play_memory(build, stage):
    """Trains in less memory than the training asks for; returns what is wrong, and lines for the end."""
    folder = os.path.join(build, "demo")
    os.makedirs(folder, exist_ok=True)
    print(f"\ndemo: training {stage.memory_task.net} with a batch of {stage.memory_task.batch} in all the memory that it "
          "asks for ...", flush=True)
    stock = training.run(build, stage.machine, stage.memory_task, False)
    budget = int(stock.training["peak_bytes"] * BUDGET_SHARE)
    print(f"demo: it took {size(stock.training['peak_bytes'])}; training again within {size(budget)} ...", flush=True)
    library = training.run(build, stage.machine, stage.memory_task, True,
                           {"MICRODNN_MEMORY_BUDGET": str(budget), "MICRODNN_CONVOLUTION_POLICY": "off",
                            "MICRODNN_MEMORY_RECORD": os.path.join(folder, "record")})
    print_memory(stock, library)
    return memory_problems(stage.machine, budget, stock, library), (
        f"trained in {size(gpu_memory(library))} instead of {size(gpu_memory(stock))}, in "
        f"{library.iteration_ms / stock.iteration_ms:.2f} times the time, with "
        f"{'the same bits' if stock.losses == library.losses else 'losses that agree'}\n  "
        f"{write_report(build, folder, library)}")


def main():
    build = os.path.join(machines.ROOT, "build")
    stage = find_stage(build)
    if stage is None:
        print("demo: neither a GPU nor the simulated one can be used", file=sys.stderr)
        return 1
    machine = stage.machine
    print(f"demo: {machine.label()}", flush=True)
    if machine.simulated:
        print("demo: its arithmetic is real, its times come from a cost model", flush=True)
    problems, lines = [], []
    for play in (play_convolutions, play_memory):
        found, line = play(build, stage)
        problems += found
        lines.append(line)
    for problem in problems:
        print(f"demo: FAILED: {problem}", file=sys.stderr)
    if not problems:
        kind = "simulated GPU time" if machine.simulated else machine.facts["device"]
        print(f"\n{kind}:", *lines, sep="\n  ")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except training.RunFailed as failure:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
        sys.exit(1)
