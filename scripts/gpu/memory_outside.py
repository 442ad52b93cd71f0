"""The rows of memory-check that are watched by NVML, and what each must show. As in memory_cells.py, no
device is needed here.
"""
import dataclasses

from memory_cells import GIB, MIB, REFUSAL, TAILED, TAILED_SHARES, Program, batch_of


# --- The budget, seen from outside ----------------------------------------------------------------
# PyTorch's, as `microdnn run --allocator` sets them.
NATIVE = ("PYTORCH_ALLOC_CONF", "backend:native")
ALLOCATORS = {"async": (), "native": (NATIVE,), "uncached": (NATIVE, ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1"))}


@dataclasses.dataclass(frozen=True)
class Watched:
    """A program in ever smaller budgets, after one that is as good as none."""
    program: Program
    shares: tuple = (0.80, 0.60, 0.40)
    allocator: str = "async"

    def settings(self):
        return ALLOCATORS[self.allocator]

    def __str__(self):
        return f"budget {self.program}" + (f", {self.allocator}" if self.allocator != "async" else "")


def watched_rows(quick=False):
    def program(net, mode, optimizer):
        return Program(net, batch_of(net, quick), mode, optimizer, "plain", 6)

    net, (batch, *how) = "gpt2_50k", TAILED["gpt2_50k"]
    return [Watched(program("resnet50", "fp32", "sgd")),
            Watched(program("vit_b_16", "bf16", "adamw"), (0.60,)),
            Watched(Program(net, 4 if quick else batch, *how, "plain", 6), TAILED_SHARES),
            *(Watched(program("resnet50", "fp32", "sgd"), (0.60,), name) for name in ("native", "uncached"))]


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


# --- Memory that frameworks map -------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Other:
    """A framework that makes device memory by cuMemCreate takes more than the budget, until it is
    refused."""
    framework: str
    how: str
    settings: tuple = ()
    budget: int = 6 * GIB
    # Of the run that takes little, where it is not to take what it is told that there is.
    settings_of_little: tuple = ()

    def __str__(self):
        return f"others {self.framework} {self.how} {self.budget / GIB:.0f} GiB"


OTHERS = [Other("pytorch", "expandable_segments", (("PYTORCH_ALLOC_CONF", "expandable_segments:True"),)),
          Other("jax", "growing", (("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),)),
          Other("jax", "preallocating", settings_of_little=(("XLA_PYTHON_CLIENT_PREALLOCATE", "false"),))]
LEAST_HELD = 1 / 3  # of the budget: else it was refused long before that


def others_problems(row, huge, run):
    """huge: a run that takes little in a budget that is as good as none; both: samples (before the
    process, most, end), memory, and of run what it held, how it was refused, and what was said."""
    problems, memory = [], run["memory"]
    above = run["most"] - run["before"] - growth_of(huge) - row.budget
    if above > ALLOWED_ABOVE:
        problems.append(f"{above / MIB:.0f} MiB above a budget of {row.budget / GIB:.2f} GiB")
    if memory["peak_resident_bytes"] > row.budget:
        problems.append(f"{memory['peak_resident_bytes'] - row.budget} bytes more than the budget counted")
    if memory["peak_resident_bytes"] < run["held"]:
        problems.append(f"the library counted {(run['held'] - memory['peak_resident_bytes']) / MIB:.0f} MiB less than "
                        "the framework held")
    if not run["refused"]:
        problems.append(f"{run['held'] / GIB:.2f} GiB were not refused")
    elif memory["refused"] > 0 and not any(REFUSAL.search(line) for line in run["said"].splitlines()):
        problems.append("the library does not say that it refused memory")
    if run["held"] < LEAST_HELD * row.budget:
        problems.append(f"refused with {run['held'] / GIB:.2f} GiB held")
    return problems
