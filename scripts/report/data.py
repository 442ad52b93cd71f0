"""Reads what `microdnn report` shows: statistics, traces and records, each from a file of a run."""
import json
import os
import re
import subprocess
from collections import namedtuple

Move = namedtuple("Move", "out begin end bytes")  # ms, bytes
Wait = namedtuple("Wait", "begin end reason")
Operation = namedtuple("Operation", "begin end name")  # end == begin: only when it was enqueued is known


class Trouble(Exception):
    """A line for the person who called."""


class Trace:
    """What one device did, over time in milliseconds from the trace's beginning."""

    def __init__(self, path):
        self.path = path
        self.resident, self.budget = [], None  # [(ms, bytes)], bytes
        self.moves, self.waits, self.operations = [], [], []
        self.cut = False

    @property
    def end(self):
        ends = [sample[0] for sample in self.resident[-1:]]
        ends += [max((item.end for item in items), default=0) for items in (self.moves, self.waits, self.operations)]
        return max(ends, default=0)


class Known(dict):
    """An object of the statistics: what an older library did not write is `missing`."""

    def __init__(self, found, missing):
        super().__init__(found)
        self._missing = missing

    def __missing__(self, key):
        return self._missing


class Rank:
    """A device of a process: its statistics, and what else is known of it."""

    def __init__(self, path, stats, memory):
        self.path, self.stats, self.memory = path, stats, memory
        self.trace = self.advice = self.plan = None
        self.label = ""

    @property
    def device(self):
        return self.memory["device"] if self.memory else None


def _tool_json(*arguments):
    """What the tool prints for these arguments."""
    tool = os.environ.get("MICRODNN_TOOL", "microdnn")
    done = subprocess.run([tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                          errors="replace", check=False)
    if done.returncode != 0:
        raise Trouble(re.sub("^microdnn: ", "", done.stderr.strip()) or f"{tool} {arguments[0]} failed")
    return _json(done.stdout)


def _no_number(text):
    raise ValueError(f"JSON has no {text}")


def _json(text):
    """ValueError for what is no JSON, or too deep to be of ours."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("too deep") from None


def read_statistics(path):
    """The tool checks what it prints: each value that we know has its type, and what is missing may be so."""
    try:
        stats = _tool_json("stats", "--json", path)
    except ValueError:
        raise Trouble(f"{path}: these statistics are damaged: not JSON") from None
    stats = Known(stats, None)
    stats["memory"] = [Known(memory, 0) for memory in stats["memory"] or ()]
    stats["convolutions"] = [Known(row, None) for row in stats["convolutions"]]
    return [Rank(path, stats, memory) for memory in stats["memory"] or [None]]


def read_record(path):
    return _tool_json("advise", "--json", "--iteration", "--gpu", "none", path)


def read_plan(path, costs):
    """The convolutions of a run with all configurations that are worth it, from a database of measured costs."""
    return _tool_json("plan", "--from-run", path, "--device-db", costs, "--total", "1024GiB", "--json")


# ---- traces ----

def _is_number(value):
    return isinstance(value, (int, float)) and -1e18 < value < 1e18


def _is_event(event):
    """Whether each value that is read has its type."""
    if not isinstance(event, dict) or not isinstance(event.get("args", {}), dict):
        return False
    more = event.get("args", {})
    return (all(_is_number(found[key]) for found, key in ((event, "ts"), (event, "dur"), (more, "bytes")) if key in found)
            and all(isinstance(event.get(key, ""), (int, str)) for key in ("pid", "id"))
            and all(isinstance(found.get(key, ""), str) for found, key in ((event, "ph"), (event, "name"), (more, "for"))))


def _events(path):
    """A trace lacks its end if its process was killed."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Trouble(f"{path}: {getattr(error, 'strerror', None) or 'this is not a trace'}") from error
    for ending in "", "]":
        try:
            found = _json(text.rstrip().rstrip(",") + ending)
        except ValueError:
            continue
        found = found.get("traceEvents") if isinstance(found, dict) else found
        if isinstance(found, list) and all(_is_event(event) for event in found):
            return found
    raise Trouble(f"{path}: this is not a trace of microdnn")


def _counter(event):
    values = [value for value in event.get("args", {}).values() if isinstance(value, (int, float))]
    return values[0] if values else 0


def _take_event(trace, event, begin, open_moves):
    kind, name, ms = event.get("ph"), event.get("name"), (event.get("ts", begin) - begin) / 1e3
    if kind == "C" and name == "resident":
        trace.resident.append((ms, _counter(event)))
    elif kind == "C" and name == "budget":
        trace.budget = _counter(event)
    elif kind == "b" and name in ("out", "in"):
        open_moves[event.get("id")] = (ms, event.get("args", {}).get("bytes", 0))
    elif kind == "e" and event.get("id") in open_moves:
        begun, size = open_moves.pop(event["id"])
        trace.moves.append(Move(name == "out", begun, ms, size))
    elif kind == "X" and name == "wait":
        trace.waits.append(Wait(ms, ms + event.get("dur", 0) / 1e3, event.get("args", {}).get("for", "")))
    elif kind == "X":
        trace.operations.append(Operation(ms, ms + event.get("dur", 0) / 1e3, name))
    elif kind in ("i", "I") and event.get("s") == "t":
        trace.operations.append(Operation(ms, ms, name))
    elif name == "cut":
        trace.cut = True


def read_trace(path):
    """A trace for each device in the file, by its number."""
    traces, names, open_moves = {}, {}, {}
    events = _events(path)
    begin = min((event["ts"] for event in events if "ts" in event), default=0)  # the wall clock's
    for event in events:
        process = event.get("pid", 0)
        if event.get("ph") == "M":
            if event.get("name") == "process_name":
                names[process] = str(event.get("args", {}).get("name", ""))
            continue
        trace = traces.setdefault(process, Trace(path))
        _take_event(trace, event, begin, open_moves.setdefault(process, {}))
    found = {}
    for process, trace in traces.items():
        number = re.search(r"device (\d+)", names.get(process, ""))
        if trace.resident or trace.moves:
            found[int(number.group(1)) if number else len(found)] = trace
    if not found:
        raise Trouble(f"{path}: no device had a budget in this trace")
    return found


# ---- all of it ----

def _name(ranks):
    for number, rank in enumerate(ranks):
        rank.label = f"rank {number}" if len(ranks) > 1 else ""
    return ranks


def _belongs(ranks, number, device):
    """The rank for the file with that number: of as many processes, or else of all."""
    paths = list(dict.fromkeys(rank.path for rank in ranks))
    if number < len(paths):
        for rank in ranks:
            if rank.path == paths[number] and rank.device == device:
                return rank
    return None


def read_all(statistics, traces, records, costs=None):
    """One Rank per device with a budget. Traces and records are given in the order of the statistics."""
    ranks = [rank for path in statistics for rank in read_statistics(path)]
    for number, path in enumerate(traces):
        for device, trace in read_trace(path).items():
            rank = _belongs(ranks, number, device)
            if rank is None:
                raise Trouble(f"{path}: device {device} of this trace is in no statistics")
            rank.trace = trace
    for rank in ranks if costs else ():
        rank.plan = read_plan(rank.path, costs)
    for number, path in enumerate(records):
        advice = read_record(path)
        rank = _belongs(ranks, number, advice["device"])
        if rank is None:
            raise Trouble(f"{path}: device {advice['device']} of this record is in no statistics")
        rank.advice = advice
    return _name(ranks)
