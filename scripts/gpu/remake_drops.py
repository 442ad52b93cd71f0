"""For remake-look: a network under a budget that it does not fit in, by moving alone and with contents that are made again
(`[memory] remake = checked`), beside a run without the library: losses to the bit, milliseconds of an iteration, what moved
and what was dropped. Run as a program, it trains one of the networks and prints a line of JSON; it knows nothing of
microdnn."""
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import remake_proofs as proofs  # noqa: E402

ITERATIONS, TIMED = 60, 15  # the last ones: plans are made and kinds of launches proven before
GIB = 1 << 30
COUNTS = ("out_bytes", "in_bytes", "period_operations", "plan_state", "compute_ms", "predicted_ms")
KINDS = ("remake_", "host_", "round_", "returned_")  # counts whose names begin so are kept, too


def train(name, batch, side):
    import packing_networks as networks
    import torch
    network = networks.Network(name, batch, side)
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    losses, times = [], []
    for _ in range(ITERATIONS):
        begin = time.perf_counter()
        losses.append(network.train(1)[-1].hex())  # reads the loss, so the iteration is over
        times.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"losses": losses, "ms": statistics.median(times[-TIMED:]), "peak": torch.cuda.max_memory_allocated()}))


def run(options, network, budget=None, remake="off"):
    """What the program printed, and what the library counted."""
    environment = {"MICRODNN_MEMORY_REMAKE": remake, "MICRODNN_MEMORY_CHUNK_SIZE": options.chunk_size,
                   "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
    found, memory = proofs.launch(options, __file__, network, environment, budget)
    kept = {name: memory[name] for name in memory or () if name in COUNTS or name.startswith(KINDS)}
    return {**found, "counts": kept} if memory else found


def bits_of(found, stock, again):
    """Where two runs without the library differ, nothing can be said."""
    if found["losses"] == stock["losses"]:
        return "stock's"
    return "stock differs" if again()["losses"] != stock["losses"] else "OTHER"


def ask(options, network, share):
    stock = run(options, network)
    budget = int(share * stock["peak"]) >> 21 << 21
    row = {"budget": budget, "share": share, "chunk_size": options.chunk_size, "stock_ms": stock["ms"]}
    for remake in ("off", "checked"):
        found = run(options, network, budget, remake)
        row[remake] = {"ms": found["ms"], "bits": bits_of(found, stock, lambda: run(options, network)), **found["counts"]}
    return row


def lines(rows):
    yield ("network | budget GiB | stock ms | moving ms | GiB out, in | remaking ms | GiB out, in | GiB dropped | made again: "
           "wanted, early | refused | lost | bits: moving, remaking")
    for row in rows:
        off, on = row["off"], row["checked"]
        moved = [f"{each['out_bytes'] / GIB / ITERATIONS:.2f}, {each['in_bytes'] / GIB / ITERATIONS:.2f}" for each in (off, on)]
        chunks = "" if row.get("chunk_size", "0") == "0" else f", chunks of {row['chunk_size']}"
        yield (f"{row['network']} b{row['batch']} {row['share']:.0%}{chunks} | {row['budget'] / GIB:.2f} | "
               f"{row['stock_ms']:.1f} | {off['ms']:.1f} | {moved[0]} | {on['ms']:.1f} | {moved[1]} | {on['remake_dropped_bytes'] / GIB / ITERATIONS:.2f} | "
               f"{on['remake_wanted']}, {on['remake_early']} | {on['remake_refused']} | {on['remake_lost']} | "
               f"{off['bits']}, {on['bits']}")


if __name__ == "__main__":
    train(sys.argv[1], *map(int, sys.argv[2:4]))
