"""Where check-ranks's rows run: the memory of the machine, the registry as it is seen from outside, processes with and
without the library, one for each rank."""
import contextlib
import json
import os
import re
import struct
import subprocess
import threading

import machine as machines
from memory_cells import GIB
from memory_place import ASYNC, DETERMINISTIC, Clock, load_statistics
from processes import Child

RANKS = 2
MOST_PINNED, PINNED_SHARE = 96 * GIB, 0.5


def available_memory():
    """Bytes that processes may still take: of the machine, or of this container where that is less."""
    with open("/proc/meminfo", encoding="ascii") as file:
        found = 1024 * int(re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)[1])
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            most = int(file.read())
        with open("/sys/fs/cgroup/memory.current", encoding="ascii") as file:
            found = min(found, most - int(file.read()))
    return max(0, found)


def host_limit():
    """What all ranks of a row may pin together."""
    return min(MOST_PINNED, int(PINNED_SHARE * available_memory()))


def lives(number):
    """Nobody may have waited for a process that is dead."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Registry:
    """What processes say in shared memory of the pinned memory that they hold (config/node/node_registry.c)."""

    NAME = re.compile(r"microdnn-\d+-[0-9a-f]+\.\d+")  # beside it are the live statistics of each process
    HEADER = struct.Struct("=QIIII")  # magic, version, bytes of the header and of an entry, entries
    PID_MASK = (1 << 22) - 1

    def __init__(self, folder):
        self.folder, self.most = folder, 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.loop, daemon=True)
        self.thread.start()

    def files(self):
        """The contents of each. The last process that leaves takes its file away, perhaps just now."""
        for name in os.listdir(self.folder):
            if self.NAME.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):
                    with open(os.path.join(self.folder, name), "rb") as file:
                        yield file.read()

    def entries(self):
        """(process number, pinned bytes) of each."""
        found = []
        for data in self.files():
            if len(data) < self.HEADER.size:
                continue
            _, _, header, size, count = self.HEADER.unpack_from(data)
            for place in range(header, min(header + size * count, len(data) - 15), size):
                process, pinned = struct.unpack_from("=QQ", data, place)
                if process:
                    found.append((process & self.PID_MASK, pinned))
        return found

    def loop(self):
        """A process that takes memory adds to its entry before it knows whether that is too much, so one
        look may see more than is held; two in a row do not."""
        before = 0
        while not self.stopped.wait(0.02):
            now = sum(pinned for number, pinned in self.entries() if lives(number))
            self.most = max(self.most, min(before, now))
            before = now

    def take(self):
        """The most since the last call."""
        most, self.most = self.most, 0
        return most

    def dead(self):
        return [number for number, _ in self.entries() if not lives(number)]


class Place:
    def __init__(self, options, scratch):
        self.options, self.scratch = options, scratch
        self.host_limit = host_limit()
        self.clock = Clock(options.seconds - 5)
        self.registry_folder = os.path.join(scratch, "registry")
        os.mkdir(self.registry_folder)
        self.registry = Registry(self.registry_folder)
        self.clean = {key: value for key, value in machines.clean_environment().items()
                      if not key.startswith(("TORCH_CUDNN_", "PYTORCH_", "CUBLAS_"))}

    def limit(self, most):
        return max(1.0, min(most, self.clock.left()))

    def environment(self, budget, statistics=None):
        """`statistics`: the file in which they end."""
        base = {**self.clean, **ASYNC, **DETERMINISTIC}
        if not budget:
            return base
        more = {"MICRODNN_GENERAL_STATS": "json", "MICRODNN_GENERAL_STATS_FILE": statistics} if statistics else {}
        return {**base, "LD_PRELOAD": os.path.join(os.path.abspath(self.options.build), "libmicrodnn.so"),
                "MICRODNN_MEMORY_BUDGET": str(budget), "MICRODNN_MEMORY_HOST_LIMIT": str(self.host_limit),
                "MICRODNN_MEMORY_REGISTRY": self.registry_folder, "MICRODNN_CONVOLUTION_POLICY": "off", **more}

    def child(self, name, budget=None, settings=()):
        """A process of the worker; with a budget it is the library's."""
        path = os.path.join(self.scratch, name.replace(" ", "-") + ".json") if budget else None
        return Child(name, self.options.worker, {**self.environment(budget, path), **dict(settings)}, self.scratch, path)


def ask_all(place, children, command, most_s=90, arguments=None, **shared):
    """All get the command before any is waited for. `arguments`: more of each."""
    for child, own in zip(children, arguments or [{}] * len(children)):
        with contextlib.suppress(BrokenPipeError):  # read_line says how it ended
            child.process.stdin.write((json.dumps({"do": command, **shared, **own}) + "\n").encode())
            child.process.stdin.flush()
    answers = [child.read_line(command, place.limit(most_s)) for child in children]
    for child, answer in zip(children, answers):
        if "error" in answer:
            child.fail(f"`{command}`: {answer['error']}")
    return answers


def close_all(place, children):
    """Statistics of each: of the device that it used most, {} if there are none."""
    for child in children:
        with contextlib.suppress(BrokenPipeError):
            child.process.stdin.close()
    found = []
    for child in children:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(timeout=place.limit(60))
        child.kill()
        devices = (load_statistics(child.statistics_file) or {}).get("memory", []) if child.statistics_file else []
        found.append(max(devices, key=lambda each: each["operations"], default={}))
    return found


class Team:
    """A process for each rank, stock's or under the library with a budget. Until it joins a group it has loaded
    PyTorch and has touched no GPU."""

    def __init__(self, place, name, budget=None, settings=()):
        self.place, self.name, self.budget = place, name, budget
        self.meetings = 0
        self.children = [place.child(f"{name} {rank}", budget, {**dict(settings), "RANK": str(rank)})
                         for rank in range(RANKS)]

    def alive(self):
        return all(child.alive for child in self.children)

    def ready(self):
        return [child.ready(self.place.limit(120)) for child in self.children][0]

    def ask(self, command, most_s=90, members=RANKS, **arguments):
        return ask_all(self.place, self.children[:members], command, most_s, **arguments)

    def join(self, ranks):
        self.meetings += 1
        meeting = os.path.join(self.place.scratch, f"{self.name}-meeting-{self.meetings}")
        self.ask("join", members=ranks, ranks=ranks, meeting=meeting)

    def kill(self):
        for child in self.children:
            child.kill()

    def close(self):
        return close_all(self.place, self.children)
