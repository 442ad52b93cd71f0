"""What check-ranks says of bits, memory and time: answers of workers and statistics in, verdicts out. No device is
needed here."""
import memory_cells as cells
from memory_cells import GIB

COMPARED = ("losses", "hashes", "words")
DDP_LIMIT, FSDP_LIMIT = 1.05, 1.05


def differences(stock, other):
    """What is not as stock has it, of each rank."""
    return [f"rank {rank}: {what} not as stock's" for rank, (theirs, ours) in enumerate(zip(stock, other))
            for what in COMPARED if ours.get(what) != theirs.get(what)]


def spread(one, other):
    """The largest relative difference of losses; None if one is no number."""
    found = [cells.loss_difference(a["losses"], b["losses"]) for a, b in zip(one, other)]
    return None if None in found else max(found)


def judge(stock, library, again, refused, mode):
    """(verdict, notes, problems). stock, library: the answers of each rank. again(): those of stock once more, which
    are asked for where bits differ. refused: how many allocations of the library's run were. As memory-check
    decides it (cells.compare)."""
    if any(None in answer["losses"] for answer in library):
        return "FAILED", [], ["a loss is no number"]
    different = differences(stock, library)
    if not different:
        return "identical", ["to the bit as stock"], []
    control = again()
    if differences(stock, control):
        apart = spread(stock, control)
        notes = [f"two stock runs differ too, their losses by {apart if apart is None else f'{apart:.1e}'}"]
    elif refused:
        apart, notes = 0.0, [f"{refused} allocations refused, such as stock's workspace"]
    else:
        return "FAILED", ["two stock runs agree"], different
    found = spread(stock, library)
    allowed = max(2 * (apart or 0.0), cells.TOLERANCE[mode])
    if found is None or found > allowed:
        return "FAILED", notes, [f"losses differ by {found}, at most {allowed:.1g}", *different]
    return "close", [*notes, f"losses differ by {found:.1e}, at most {allowed:.1g}"], []


def refusals(memories):
    return sum(memory.get("refused", 0) for memory in memories)


def memory_problems(memories, budget):
    return [f"rank {rank}: {text}" for rank, memory in enumerate(memories)
            for text in cells.problems_of_library(memory, budget)]


def pinned_problems(most, limit):
    return [f"{most / GIB:.2f} GiB were pinned, the limit is {limit / GIB:.2f}"] if most > limit else []


def time_problems(task, row):
    if task["wrap"] == "ddp":
        ratio, limit = row["library_two"] / row["library_one"], DDP_LIMIT
    else:
        ratio = row["library_two"] / row["library_one"] / (row["stock_two"] / row["stock_one"])
        limit = FSDP_LIMIT
    row["ratio"] = ratio
    return [f"ratio {ratio:.3f}, the limit is {limit}"] if ratio > limit else []
