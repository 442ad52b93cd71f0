"""Stands in for scripts/gpu/memory_worker.py and mixed_worker.py on a machine without PyTorch or a GPU: answers by
arithmetic, and plays the library's part where a budget is set. $FAKE_WRONG (a JSON object) says what
goes wrong in programs whose text has a key: "bits", "unclear", "crash", "hang", "control",
"nan", "above", "nvml", "slow", "still" (nothing leaves), "restless" (something does in each iteration), "late" (the first iterations take 6 s), "fault"
(an unnamed access ends the operation), "below" (budgets below the floor are enough), "tail" (so they are, by tails), "workspace" (three
allocations are refused, and the bits are those of other algorithms; so are stock's if it is refused those that were
recorded), "other workspace" (stock's are not), "workspace, then a crash" (of that stock). A program takes $FAKE_SECONDS.
$FAKE_GPUS is how many there are."""
import json
import os
import sys
import time

BUDGET = int(os.environ.get("MICRODNN_MEMORY_BUDGET", 0))
WRONG = json.loads(os.environ.get("FAKE_WRONG", "{}"))
ASYNC = "PYTORCH_ALLOC_CONF" in os.environ
USED = os.environ.get("FAKE_USED")  # what the fake NVML answers
OTHER_ALGORITHMS = ("workspace", "other workspace", "workspace, then a crash")
REFUSED = "3 100\n4 50\n5 25\n"  # number and size
BEFORE, GROWTH = 500 << 20, 100 << 20
state = {"operations": 0, "net": "", "batch": 0, "iterations": 0}


def peak(batch):
    return batch * (100 << 20)


def floor(batch):
    return peak(batch) // 4


def wrong(command):
    text = " ".join(str(value) for value in command.values())
    return next((what for key, what in WRONG.items() if key in text), None)


def use(used):
    if USED:
        name = f"{USED}.{os.getpid()}"  # several run side by side
        with open(name, "w", encoding="utf-8") as file:
            file.write(str(used))
        os.replace(name, USED)


def memory_statistics(batch, what=None):
    resident = min(BUDGET, peak(batch)) + (1 if what == "above" else 0)
    left = 0 if what == "still" else max(0, peak(batch) - BUDGET)
    return {"memory": [{"device": 0, "budget_bytes": BUDGET, "resident_bytes": resident,
                        "peak_resident_bytes": resident, "peak_live_bytes": peak(batch),
                        "operations": state["operations"], "floor_bytes": floor(batch),
                        "smallest_budget_bytes": floor(batch), "out_bytes": left,
                        "tail_operations": 5 if what == "tail" else 0,
                        "refused": 3 if what in OTHER_ALGORITHMS else 0, "created_chunks": 7, "predicted_ms": 9.0, "link_bound_ms": 8.0,
                        "planned_leaves": state["operations"] if BUDGET < peak(batch) else 0,
                        "planned_returns": 0, "demand_leaves": 0, "period_operations": 100,
                        "period_out_bytes": 1 << 20 if what == "restless" else left,
                        "host_waits": 0, "host_wait_ms": 0.0, "demand_returns": 0,
                        "host_library_ms": 0.02 * state["operations"], "host_copies_ms": 0.1 * state["operations"],
                        "host_mapping_ms": 0.0, "returned_late": state["operations"] // 2, "returned_unknown": 0, "in_bytes": 0, "mapped_chunks": 0,
                        "convolution": os.environ.get("MICRODNN_CONVOLUTION_POLICY"),
                        "limit": os.environ.get("MICRODNN_CONVOLUTION_WORKSPACE_LIMIT"),
                        "safety": os.environ.get("MICRODNN_MEMORY_SAFETY", "fast"),
                        "unnamed_accesses": 1 if what == "fault" else 0,
                        "first_unnamed": "kernel f" if what == "fault" else ""}]}


def publish(what=None):
    path = os.environ.get("MICRODNN_GENERAL_STATS_FILE")
    if path:
        for name in (path, path + ".live"):
            with open(name, "w", encoding="utf-8") as file:
                json.dump({"counters": {}, **memory_statistics(state["batch"], what)}, file)


def refuse(what):
    if what != "unclear":
        print(f"microdnn: 1:1 memory: 1.00 GiB refused: nothing more can leave within the budget of {BUDGET}; at "
              f"least {floor(state['batch']) / 2**30:.2f} GiB are needed", file=sys.stderr, flush=True)
    return {"refused": {"type": "RuntimeError" if what == "unclear" else "OutOfMemoryError", "text": "no"}}


def record_refused():
    """As scripts/gpu/refused_allocations.c does."""
    with open(os.environ["RECORD_REFUSED"], "a", encoding="utf-8") as file:
        file.write(REFUSED)


def repeats_refused():
    """Whether stock is refused what was recorded."""
    path = os.environ.get("REPEAT_REFUSED")
    if not path or not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as file:
        return file.read() == REFUSED


def program(command):
    what = wrong(command) if BUDGET else None
    if command["program"] == "two_ranks" and os.environ.get("FAKE_GPUS") == "1":
        return {"skipped": "there is one GPU"}
    time.sleep(float(os.environ.get("FAKE_SECONDS", 0)))
    state.update(net=command["net"], batch=command["batch"], operations=state["operations"] + 100)
    if what == "crash":
        os.abort()
    if what == "hang":
        time.sleep(1000)
    publish(what)
    if what == "fault":
        return {"error": "AcceleratorError: an illegal memory access was encountered"}
    if BUDGET and BUDGET < floor(command["batch"]) and what not in ("below", "tail"):
        return refuse(what)
    above = 80 << 20 if what == "nvml" and BUDGET < peak(command["batch"]) else 0
    use(BEFORE + GROWTH + min(BUDGET, peak(command["batch"])) + above)
    control = ASYNC and not BUDGET and wrong(command) == "control"
    losses = [7.0 - 0.1 * index + (1e-6 if control else 0.0) for index in range(command["count"])]
    if what == "nan":
        losses[1] = None
    if what in OTHER_ALGORITHMS:
        record_refused()
    if repeats_refused() and wrong(command) == "workspace, then a crash":
        os.abort()
    alike = repeats_refused() and wrong(command) == "workspace"
    bits = "other" if alike or what in ("bits", *OTHER_ALGORITHMS) else "same"
    return {"losses": losses, "hashes": {"weights": bits, "statistics": "same", "optimizer": "same"},
            "peak": peak(command["batch"]), "reserved": peak(command["batch"])}


def take(command):
    """Memory that a framework maps: counted, and refused beyond the budget."""
    what = wrong(state)
    held = min(command["most"], BUDGET * 9 // 10)
    state["operations"] += 1
    path = os.environ["MICRODNN_GENERAL_STATS_FILE"]
    memory = memory_statistics(1)["memory"][0]
    counted = 0 if what == "uncounted" else held
    memory.update(resident_bytes=counted, peak_resident_bytes=counted, refused=int(held < command["most"]))
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"counters": {}, "memory": [memory]}, file)
    use(BEFORE + GROWTH + held + (1 << 30 if what == "nvml" and held < command["most"] else 0))
    refused = {"type": "OutOfMemoryError", "text": "no"} if held < command["most"] else None
    if refused:
        refuse(what)
    return {"held": held, "refused": refused}


def build(command):
    state.update(net=command["net"], batch=command["batch"], iterations=0)
    return {}


def step(command):
    state["operations"] += 100
    publish(wrong(state))
    slow = 2.0 if BUDGET and wrong(state) == "slow" else 1.0
    return {"ms": 100.0 * slow * (4 if state.get("peer") else 1), "host_ms": 1.0}


def save_on_cpu(_):
    state["peer"] = True
    return {}


def context(command):
    state["framework"] = command.get("framework", "")
    use(BEFORE)
    return {}


def end(_):
    state["peer"] = False
    return {}


def warm(command):
    if BUDGET and wrong(state) == "late":
        time.sleep(6)
    """A loss is the smaller the longer the training has gone on."""
    state["operations"] += 100
    publish(wrong(state))
    begun = state["iterations"]
    state["iterations"] += command["count"]
    return {"seconds": 1.0, "iterations": command["count"],
            "losses": [7.0 - 0.1 * index for index in range(begun, state["iterations"])]}


def peak_of_iteration(_):
    state["iterations"] += 1
    return {"peak": peak(state["batch"]), "reserved": 0}


def operator(command):
    """Of mixed_worker.py: in other memory than the device's it may go wrong."""
    what = wrong(command) if os.environ["MIXED_LAYOUT"] != "device" else None
    if what == "crash":
        os.abort()
    return {"crc": 2 if what == "bits" else 1, "again": True, "ms": 1.0, "off": 0.0}


COMMANDS = {"program": program, "operator": operator, "names": lambda _: {"names": ["product", "sort"]}, "build": build, "step": step, "context": context, "end": end,
            "save_on_cpu": save_on_cpu, "warm": warm, "take": take,
            "facts": lambda _: {"device": "no device", "cudnn": 91900, "memory_bytes": 0},
            "ioctls": lambda _: {"control": {"0x2b": 5, "0x2a": state["operations"]}, "unified": {}},
            "peak": peak_of_iteration,
            "largest": lambda _: {"batch": 100, "next": 104, "low_trains": True, "high_trains": False}}

print(json.dumps({"torch": "none", "torchvision": "none", "cuda": "none"}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(COMMANDS[asked["do"]](asked)), flush=True)
