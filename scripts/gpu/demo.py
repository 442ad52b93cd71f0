#!/usr/bin/env python3
"""The second half of scripts/demo: trains the digits with and without the library, side by side."""
import os
import sys

import machine as machines
import training
from training import Task

LEAST_ACCURACY = 0.95
EPOCHS = ("--epochs", "6")
BATCH = 128


def find_machine(build):
    if os.environ.get("MICRODNN_SIM", "") in ("", "0"):
        real = machines.find_real()
        if real:
            return real
    return machines.find_simulated(build, "compute")


def size(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if count >= 100 or unit == "B" else f"{count:.1f} {unit}"
        count /= 1024


def wanted_bytes(build, machine):
    """The largest workspace that any convolution takes when nothing limits it."""
    free = training.run(build, machine, Task("lenet", BATCH, length=("--iterations", "1")), False)
    return max(choice["workspace_bytes"] for layer in free.training["layers"]
               for choice in layer.values() if isinstance(choice, dict))


def accuracy(result):
    return result.training["epochs"][-1]["test_accuracy"]


def print_side_by_side(stock, library):
    rows = [
        ("test accuracy", lambda run: f"{100 * accuracy(run):.2f} %"),
        ("loss of the last epoch", lambda run: f"{run.training['epochs'][-1]['loss']:.4f}"),
        ("convolutions, ms an iteration", lambda run: f"{run.convolution_ms:.4f}"),
        ("whole iteration, ms", lambda run: f"{run.iteration_ms:.4f}"),
        ("images a second", lambda run: f"{run.training['images_per_second']:,.0f}"),
        ("convolution workspace", lambda run: size(run.training["workspace_bytes"])),
        ("peak device memory", lambda run: size(run.training["peak_bytes"])),
    ]
    print(f"\n{'':32}{'without':>14}{'with libmicrodnn':>20}")
    for name, show in rows:
        print(f"{name:32}{show(stock):>14}{show(library):>20}")


def print_splits(library):
    print("\nwhat the library chose (its statistics; times as it measured them):")
    for row in library.library["convolutions"]:
        undivided = row["undivided_ms"]
        gain = (f"undivided {undivided:.4f} ms" if undivided is not None
                else "nothing undivided fits")
        print(f"  {row['problem']}\n    {row['configuration']}, {size(row['workspace_bytes'])}, "
              f"{row['configuration_ms']:.4f} ms ({gain})")
    counters = library.library["counters"]
    print(f"  {counters['executions_split']} convolutions ran as {counters['parts']} micro-batches, "
          f"{counters['executions_undivided']} whole, {counters['executions_passed']} untouched; "
          f"{counters['measure_microseconds'] / 1e6:.2f} s went into choosing")


def verdict(stock, library):
    problems = []
    for name, run in (("without the library", stock), ("with it", library)):
        if accuracy(run) < LEAST_ACCURACY:
            problems.append(f"{100 * accuracy(run):.2f} % accuracy {name}, "
                            f"less than {100 * LEAST_ACCURACY:.0f} %")
    if library.convolution_ms >= stock.convolution_ms:
        problems.append("convolutions are not faster with the library")
    return problems


def main():
    build = os.path.join(machines.ROOT, "build")
    machine = find_machine(build)
    if machine is None:
        print("demo: neither a GPU nor the simulated one can be used", file=sys.stderr)
        return 1
    print(f"demo: {machine.label()}", flush=True)
    if machine.simulated:
        print("demo: its arithmetic is real, its times come from a cost model", flush=True)
    wanted = wanted_bytes(build, machine)
    limit = wanted // 2
    print(f"demo: without a limit some convolution takes {size(wanted)} of workspace; half of that, "
          f"{size(limit)}, is all that both runs get:\n"
          "demo: the whole batch no longer fits that algorithm, a micro-batch does", flush=True)
    task = Task("lenet", BATCH, limit=str(limit), length=EPOCHS)
    results = []
    for with_library, name in ((False, "without the library"), (True, "with LD_PRELOAD=libmicrodnn.so")):
        print(f"demo: training on handwritten digits {name} ...", flush=True)
        results.append(training.run(build, machine, task, with_library))
    stock, library = results
    print_side_by_side(stock, library)
    print_splits(library)
    problems = verdict(stock, library)
    for problem in problems:
        print(f"demo: FAILED: {problem}", file=sys.stderr)
    if not problems:
        kind = "simulated GPU time" if machine.simulated else machine.facts["device"]
        print(f"\nconvolutions {stock.convolution_ms / library.convolution_ms:.2f} times as fast "
              f"({kind}), accuracy {100 * accuracy(stock):.2f} % and {100 * accuracy(library):.2f} %")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except training.RunFailed as failure:
        print(f"demo: FAILED: {failure}", file=sys.stderr)
        sys.exit(1)
