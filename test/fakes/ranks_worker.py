"""Stands in for scripts/gpu/ranks_worker.py, and with --launch for torchrun, on a machine without PyTorch or a GPU.
It answers by arithmetic, and plays the library's part where a budget is set: it keeps the registry and writes
statistics. $FAKE_USED is what the fake NVML answers: bytes that all processes use. $FAKE_WRONG says what goes wrong
under the library: "bits", "slow" (two ranks are), "pinned" (more than the limit), "entry" (entries of the dead stay),
"stays" (the rest of a job does not end), "status" (its status is another one), "refused" (as out of memory, with less
pinned memory than it wants), "dies" (a rank of a job, before it trains), "above" (more memory than the budget), "far"
(losses). $FAKE_STOCK=random: no two trainings have the same bits; =dies: a rank of stock's job does, after its first
iteration."""
import fcntl
import json
import os
import signal
import struct
import subprocess
import sys
import time

BUDGET = int(os.environ.get("MICRODNN_MEMORY_BUDGET", 0))
LIMIT = int(os.environ.get("MICRODNN_MEMORY_HOST_LIMIT", 0))
USED = os.environ.get("FAKE_USED")
STOCK = os.environ.get("FAKE_STOCK")
WRONG = os.environ.get("FAKE_WRONG") if BUDGET else None
RANK = int(os.environ.get("RANK", 0))
HEADER, ENTRY, ENTRIES = 64, 16, 64
PEAK, CONTEXT, MODULES = 1 << 30, 500 << 20, 100 << 20
state = {"ranks": 1}


def write_entry(pinned):
    """The own one; those of the dead are taken."""
    if not BUDGET:
        return
    path = os.path.join(os.environ["MICRODNN_MEMORY_REGISTRY"], "microdnn-0-fa.0")
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        data = bytearray(file.read() or struct.pack("=QIIII", 1, 0, HEADER, ENTRY, ENTRIES).ljust(HEADER + ENTRY * ENTRIES, b"\0"))
        entries = {}
        for place in range(HEADER, len(data), ENTRY):
            number, bytes_held = struct.unpack_from("=QQ", data, place)
            if number and (WRONG == "entry" or os.path.exists(f"/proc/{number}")):
                entries[number] = bytes_held
        entries[os.getpid()] = pinned
        data[HEADER:] = b"".join(struct.pack("=QQ", *each) for each in entries.items()).ljust(ENTRY * ENTRIES, b"\0")
        file.seek(0)
        file.write(data)


def use(used):
    """Of this process; what each uses is in a file beside the sum."""
    if not USED:
        return
    with open(os.open(USED + ".each", os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        each = {number: bytes_used for number, bytes_used in json.loads(file.read() or "{}").items()
                if os.path.exists(f"/proc/{number}")}
        each[os.getpid()] = used
        file.seek(0)
        file.truncate()
        file.write(json.dumps(each))
        with open(USED + ".new", "w", encoding="utf-8") as total:
            total.write(str(sum(each.values())))
        os.replace(USED + ".new", USED)


def context(_):
    use(CONTEXT)
    return {}


def program(command):
    resident = min(BUDGET or PEAK, PEAK) + (1 << 30 if WRONG == "above" and BUDGET < PEAK else 0)
    use(CONTEXT + MODULES + resident)
    time.sleep(0.05)
    return {**bits(command), "reserved": PEAK}


def losses_of(count, seed):
    noise = 1e-6 * (os.getpid() % 1000 + time.monotonic() % 1) if STOCK == "random" else 0
    noise += 0.1 if WRONG == "far" else 0
    return [(1.0 + noise) / (each + 1 + seed) for each in range(count)]


def bits(command):
    if WRONG == "refused" and LIMIT < PEAK:
        return {"error": "OutOfMemoryError: out of memory"}
    wanted = PEAK // 2
    write_entry(2 * LIMIT if WRONG == "pinned" else min(wanted, LIMIT // 2))
    time.sleep(0.15)  # so that two looks see it
    losses = losses_of(command["count"], command.get("seed", 0))
    return {"losses": losses, "hashes": {"weights": f"{RANK}{WRONG == 'bits'}{losses}"}, "words": 7, "peak": PEAK}


def steps(_):
    ms = 10.0 + (1.0 if BUDGET else 0.0)
    return {"ms": ms * (2 if WRONG == "slow" and state["ranks"] == 2 else 1)}


def join(command):
    state["ranks"] = command["ranks"]
    return {}


COMMANDS = {"bits": bits, "steps": steps, "join": join, "context": context, "program": program}


def serve():
    write_entry(0)
    print(json.dumps({"torch": "none"}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps(COMMANDS.get(command["do"], lambda _: {})(command)), flush=True)
    if "MICRODNN_GENERAL_STATS_FILE" in os.environ:
        with open(os.environ["MICRODNN_GENERAL_STATS_FILE"], "w", encoding="utf-8") as file:
            json.dump({"memory": [{"operations": 9, "budget_bytes": BUDGET, "peak_resident_bytes": BUDGET,
                                   "resident_bytes": min(BUDGET, PEAK)}]}, file)


def job(path):
    write_entry(1)
    if WRONG == "dies" and RANK == 1:
        with open(f"{path}.{RANK}.error", "w", encoding="utf-8") as file:
            file.write("RuntimeError: the reason")
        sys.exit("microdnn: the last word\nwhat torchrun says")
    with open(f"{path}.{RANK}.new", "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    os.replace(f"{path}.{RANK}.new", f"{path}.{RANK}")
    if BUDGET or STOCK != "dies":
        time.sleep(100)
    while not os.path.exists(f"{path}.{1 - RANK}"):  # it ends after each rank's first iteration
        time.sleep(0.02)


def launch(arguments):
    """As torchrun: when one ends, the other is ended."""
    ranks = [subprocess.Popen([sys.executable, *arguments], env={**os.environ, "RANK": str(rank)}) for rank in range(2)]
    signal.signal(signal.SIGTERM, lambda *_: None)
    while all(rank.poll() is None for rank in ranks):
        time.sleep(0.02)
    for rank in ranks if WRONG != "stays" else ():
        rank.kill()
        rank.wait()
    if WRONG == "stays":
        time.sleep(100)
    return 3 if WRONG == "status" else 1


if sys.argv[1:2] == ["--launch"]:
    sys.exit(launch(sys.argv[2:]))
elif sys.argv[1:2] == ["--job"]:
    job(sys.argv[2])
else:
    serve()
