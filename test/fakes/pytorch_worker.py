"""Stands in for scripts/gpu/pytorch_worker.py on a machine without PyTorch or a GPU: answers by
arithmetic, and plays the library's part where it is preloaded. An iteration of stock takes 10 ms, as does
one of the library whose limit is $FAKE_NEEDS MiB at least (nan: none is); with less it takes $FAKE_SLOW ms,
else 20. Without micro-batches the convolutions take $FAKE_UNDIVIDED ms, else what $FAKE_MS (a JSON object)
says for the side that wd-check calls so, else 5. $FAKE_LUCK (a JSON list) is what an iteration takes in the
library's first process, its second..., of which only the first finds an empty database. $FAKE_WRONG says what
goes wrong: "crash", "hang", "losses", "split" (a process that must not split does), "shapes" (its operators
are others), "workspace" (above the limit), "arena" (it is too large) or "whole" (nothing is divided).
$FAKE_DIVIDED is what it logs of a division into pieces, else 13. $FAKE_LOG gets a line for each network that a
process was asked for."""
import json
import os
import sys
import time

LIBRARY = "LD_PRELOAD" in os.environ
LIMIT = os.environ.get("MICRODNN_CONVOLUTION_WORKSPACE_LIMIT", "stock")
UNDIVIDED = os.environ.get("MICRODNN_CONVOLUTION_BATCH_SIZES") == "undivided"
WRONG = os.environ.get("FAKE_WRONG") if LIBRARY else None
LUCK = json.loads(os.environ.get("FAKE_LUCK", "[]")) if LIBRARY else []
MIB = 1 << 20
TOTAL = int(os.environ.get("MICRODNN_CONVOLUTION_TOTAL_WORKSPACE", 0))
WHOLE = str(120 * MIB)  # the limit of wd-check's side wr; a smaller one is of its side equal


def limit_mib():
    return float("inf") if LIMIT in ("stock", "none") else int(LIMIT.removesuffix("MiB"))


def earlier_processes():
    """Of the same setting, if each was asked for one network."""
    with open(os.environ["FAKE_LOG"], encoding="utf-8") as file:
        return sum(line.startswith(f"{LIMIT} ") for line in file)


def side():
    if not LIBRARY:
        return "stock"
    if TOTAL:
        return os.environ["MICRODNN_CONVOLUTION_WD_MODEL"]
    return "wr" if LIMIT == WHOLE else "equal"


def iteration_ms():
    if LUCK:
        return LUCK[before]
    if LIMIT == "stock" or limit_mib() >= float(os.environ.get("FAKE_NEEDS", 0)):
        return 10.0
    return float(os.environ.get("FAKE_SLOW", 20))


def net(command):
    global before  # pylint: disable=global-statement
    if LUCK:
        before = earlier_processes()
    with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as file:
        file.write(f"{LIMIT}{' undivided' if UNDIVIDED else ''} {command['net']} {command['mode']}\n")
    if WRONG == "crash":
        os.abort()
    if WRONG == "hang":
        time.sleep(1000)
    return {}


def warm(_):
    return {"seconds": 0.5 if before else 1.0, "losses": [8.0 if WRONG == "losses" else 7.0] * 10}


def conv(_):
    ms = json.loads(os.environ.get("FAKE_MS", "{}")).get(side(), 5.0)
    if UNDIVIDED:
        ms = float(os.environ.get("FAKE_UNDIVIDED", ms))
    return {"ms": ms, "kernels_ms": ms}


def memory(_):
    used = min(limit_mib(), 100) * MIB + MIB * (WRONG == "workspace")
    return {"peak_ever": 200 * MIB, "peak": 200 * MIB, "workspaces": [used], "workspace": used}


def each(_):
    """The second operator runs another kernel with the library, and another shape if that is wrong, or now and
    then before the first."""
    loses = [[2, 5 if WRONG == "shapes" else 3]]
    operators = [["aten::convolution", [[2, 3]], ["gemm"], 100.0],
                 ["aten::convolution_backward", loses, ["slow" if LIBRARY else "quick"],
                  iteration_ms() + (3.0 if LIBRARY else 0.0)]]
    return {"operators": operators[::-1] if WRONG == "order" and asked % 2 else operators}


COMMANDS = {"net": net, "each": each, "warm": warm, "conv": conv, "memory": memory, "end": lambda _: {},
            "settle": lambda _: {"ms": iteration_ms()}, "step": lambda _: {"ms": iteration_ms()}}

asked = before = 0
print(json.dumps({"torch": "none", "torchvision": "none", "cuda": "none", "cudnn": 91900,
                  "device": "no device"}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    print(json.dumps(COMMANDS[command["do"]](command)), flush=True)
    asked += 1
if side() == "sum":
    ms = os.environ.get("FAKE_DIVIDED", "13")
    with open(os.environ["MICRODNN_GENERAL_LOG_FILE"], "w", encoding="utf-8") as file:
        file.write("microdnn: 1:1 wd: the workspace is divided equally: not found\n" if WRONG == "whole" else
                   "microdnn: 1:1 plan: not of the division\n"
                   f"microdnn: 1:1 wd: 2 layers of 1 streams: {ms} ms in 1 of 2 bytes\n"
                   "microdnn: 1:1 wd: 1 layers of 1 streams: 3.000 ms in 1 of 2 bytes\n")
if LIBRARY:
    split = 0 if UNDIVIDED and WRONG != "split" else asked
    with open(os.environ["MICRODNN_GENERAL_STATS_FILE"], "w", encoding="utf-8") as file:
        json.dump({"convolutions": [{"problem": "forward", "configuration": "2 @ 1", "workspace_bytes": 7,
                                     "configuration_ms": 5}],
                   "counters": {"passed_trouble": 0, "calls_graph_execute": asked,
                                "executions_split": split, "arena_halvings": 0, "arena_uses": asked,
                                "arena_bytes": TOTAL + (WRONG == "arena")}}, file)
