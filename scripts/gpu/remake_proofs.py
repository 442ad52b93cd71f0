"""For remake-look: trains one of its networks for some iterations and prints a line of JSON with the bits of the losses. A
plain PyTorch program: it knows nothing of microdnn. Or asks such programs, with and without the library."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SHORT, LONG = 16, 24  # iterations; by the end of the first ones all is proven that can be
GIB = 1 << 30
COUNTS = ("learning", "no_kernel", "library", "cooperative", "indirect", "host_memory", "many_operands", "unknown",
          "input_changed", "input_gone", "unloaded", "differs", "old_content", "partial", "unnamed", "pre_image", "no_room",
          "not_alone", "failed")


def train(name, batch, side, iterations):
    sys.path.insert(0, HERE)
    import packing_networks as networks
    import torch
    network = networks.Network(name, batch, side)
    torch.backends.cudnn.benchmark = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    losses = [network.train(1)[-1].hex() for _ in range(iterations)]
    print(json.dumps({"losses": losses}))


def launch(options, worker, arguments, environment, budget=None):
    """What a worker printed, a line of JSON, and the library's statistics of memory (None for stock)."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "statistics")
        launcher = [os.path.join(options.build, "microdnn"), "run", "--memory", str(budget), "--stats", "json", "--stats-file",
                    path, "--"] if budget else []
        done = subprocess.run([*launcher, sys.executable, os.path.abspath(worker), *map(str, arguments)], check=True,
                              capture_output=True, text=True, timeout=300,
                              env={**os.environ, "CUBLAS_WORKSPACE_CONFIG": ":4096:8", **environment})
        found = json.loads(done.stdout.strip().splitlines()[-1])
        if not budget:
            return found, None
        with open(path, encoding="utf-8") as file:
            return found, json.load(file)["memory"][0]


def run(options, network, iterations, budget=None, remake="prove"):
    """The losses, and the statistics. Convolutions are the program's own, as they are in stock."""
    environment = {"MICRODNN_MEMORY_REMAKE": remake, "MICRODNN_CONVOLUTION_POLICY": "off"}
    found, memory = launch(options, __file__, [*network, iterations], environment, budget)
    return found["losses"], memory


def whose_losses(options, network, budget, losses):
    """Losses may be others than stock's though proofs change nothing: where stock differs from itself, say."""
    stock, _ = run(options, network, LONG)
    if losses == stock:
        return "stock"
    if stock != run(options, network, LONG)[0]:
        return "stock differs"
    without, _ = run(options, network, LONG, budget, "off")
    return "as without proofs" if losses == without else "OTHER"


def ask(options, network, budget):
    """A row: what was counted, all together and in an iteration once everything was proven."""
    _, short = run(options, network, SHORT, budget)
    losses, found = run(options, network, LONG, budget)
    each = {key: (found[key] - short[key]) / (LONG - SHORT) for key in found if key.startswith("remake_") and key in short}
    return {"losses": whose_losses(options, network, budget, losses), "iterations": LONG,
            "found": {key: found[key] for key in each}, "each": each}


def lines(rows):
    yield ("network | losses | large results | proven | GiB proven | ms per GiB | differences | barred, GiB by reason"
           "  (of one iteration)")
    for row in rows:
        each, found = row["each"], row["found"]
        gib = each["remake_proven_bytes"] / GIB
        results = sum(each[f"remake_{name}"] for name in ("proven", *COUNTS))
        barred = sorted(((each[f"remake_{name}_bytes"] / GIB, name) for name in COUNTS), reverse=True)
        cost = f"{each['remake_ms'] / gib:.2f}" if gib > 0 else "-"
        yield (f"{row['network']} b{row['batch']} | {row['losses']} | {results:.0f} | "
               f"{each['remake_proven']:.0f} | {gib:.2f} | {cost} | {found['remake_differences']} of {found['remake_proofs']} | "
               + (", ".join(f"{name} {size:.2f}" for size, name in barred if size >= 0.005) or "-"))


if __name__ == "__main__":
    train(sys.argv[1], *map(int, sys.argv[2:5]))
