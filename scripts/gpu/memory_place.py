"""Where memory-check's rows run: the time that is left, the report so far, processes with and without
the library, and how a row begins and ends."""
import dataclasses
import json
import os
import re
import subprocess
import threading
import time

import machine as machines
from processes import Child, Failed

HERE = os.path.dirname(os.path.abspath(__file__))
ASYNC = {"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
# Makes cuBLAS deterministic, in every process that is compared.
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


class Clock:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()


def say(text):
    print(text, flush=True)


class Report:
    """Rows by name; each says when and from what source it is, as a file may be resumed."""

    def __init__(self, options):
        self.path = os.path.join(os.environ.get("OUT") or options.build, "memory.json")
        self.lock = threading.Lock()
        self.facts = machines.common_facts()
        self.again = options.again
        self.data = {"rows": {}, "left_out": [], "environment": {}, "settings": {}}
        if options.resume and os.path.exists(options.resume):
            with open(options.resume, encoding="utf-8") as file:
                self.data = json.load(file)
        self.data["left_out"] = []
        self.data["settings"].update(options.settings)
        self.data["environment"].update({"driver": machines.driver_version(), **self.facts})
        self.fresh = []

    def has(self, name):
        """A row that need not run again."""
        row = self.data["rows"].get(name)
        if row is None:
            return False
        return not any(text in f"{name} {row['verdict']}" for text in self.again)

    def get(self, name):
        return self.data["rows"].get(name)

    def add(self, name, part, entry):
        with self.lock:
            self.data["rows"][name] = {"part": part, **entry, **self.facts}
            self.fresh.append(name)
            self.save()
            say(f"{name}: {entry['verdict']} ({entry.get('seconds', 0):.0f} s)"
                + "".join(f"; {text[:160]}" for text in entry["notes"] + entry["problems"]))

    def leave_out(self, name):
        with self.lock:
            self.data["left_out"].append(name)

    def learn(self, facts):
        with self.lock:
            self.data["environment"].update(facts)

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=1)
        os.replace(self.path + ".new", self.path)

    def bad(self):
        return self.data["left_out"] or any(row["verdict"] == "FAILED"
                                            for row in self.data["rows"].values())


def failed(problem):
    return {"verdict": "FAILED", "notes": [], "problems": [str(problem)]}


class Place:
    """Environments and files of the processes."""

    def __init__(self, options, clock, scratch):
        self.options, self.clock, self.scratch = options, clock, scratch
        self.preload = os.path.join(os.path.abspath(options.build), "libmicrodnn.so")
        self.lock, self.started = threading.Lock(), 0
        self.clean = {key: value for key, value in machines.clean_environment().items()
                      if not key.startswith(("TORCH_CUDNN_", "PYTORCH_", "CUBLAS_"))}

    def number(self):
        with self.lock:
            self.started += 1
            return self.started

    def stock(self, label, settings=()):
        return Child(f"stock {label} {self.number()}", self.options.worker,
                     {**self.clean, **dict(settings)}, self.scratch)

    def preload_environment(self, budget, policy, settings, path):
        return {**self.clean, **ASYNC, "LD_PRELOAD": self.preload,
                "MICRODNN_MEMORY_BUDGET": str(budget), "MICRODNN_MEMORY_POLICY": policy,
                "MICRODNN_CONVOLUTION_POLICY": "off", "MICRODNN_GENERAL_STATS": "json",
                "MICRODNN_GENERAL_STATS_FILE": path,
                "MICRODNN_CACHE_FILE": os.path.join(self.scratch, "costs.db"), **dict(settings),
                **self.options.settings}

    def child(self, label, budget, policy="auto", settings=(), worker=None):
        number = self.number()
        path = os.path.join(self.scratch, f"statistics-{number}.json")
        return Child(f"library {label} {number}", worker or self.options.worker,
                     self.preload_environment(budget, policy, settings, path), self.scratch, path)

    def tool(self):
        return os.path.join(os.path.abspath(self.options.build), "microdnn")

    def verified(self, label, budget):
        """Under `microdnn verify`, which makes and removes the statistics in a folder of its own, below
        the one that is returned beside the child."""
        number = self.number()
        folder = os.path.join(self.scratch, f"verify-{number}")
        os.mkdir(folder)
        launcher = [self.tool(), "verify", "--library", self.preload, "--memory", str(budget), "--"]
        return Child(f"verify {label} {number}", self.options.worker,
                     {**self.clean, **DETERMINISTIC, "MICRODNN_CONVOLUTION_POLICY": "off",
                      "TMPDIR": folder, **self.options.settings}, self.scratch, launcher=launcher), folder

    def live(self, path):
        """Statistics of a process that runs on."""
        done = subprocess.run([self.tool(), "stats", "--json", path], text=True, capture_output=True,
                              check=False, timeout=30, env=self.clean)
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise Failed(f"no statistics of a running process: {done.stderr.strip()[-300:]}") from error

    def limit(self, most):
        """Seconds that something may take: never beyond the end."""
        return max(1.0, min(most, self.clock.left()))


def compile_here(source, place, *more):
    """Something small in C, where it runs; returns its path."""
    made = os.path.join(place.scratch, source.removesuffix(".c"))
    with place.lock:
        if not os.path.exists(made):
            subprocess.run(["gcc", "-std=c11", "-O2", *more, os.path.join(HERE, source), "-o", made, "-ldl"],
                           check=True, timeout=60)
    return made


def load_statistics(path):
    """None if there are none, or they were cut."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def close(child, seconds=60):
    """Ends a child. Returns its exit status, the library's statistics (None: none), what it said."""
    child.finish(seconds)
    with open(child.error_file, encoding="utf-8", errors="replace") as file:
        said = file.read()
    found = load_statistics(child.statistics_file) if child.statistics_file else None
    return child.process.returncode, found, said


def label(text):
    return re.sub(r"\W+", "-", str(text)).strip("-")


# --- Programs, and stock with a program's refusals --------------------------------------------------
def run_program(child, program, place):
    """The answer of a program in a process of its own, and how that ended."""
    try:
        child.ready(place.limit(120))
        answer = child.ask("program", place.limit(place.options.row_s), **program.arguments())
    except Failed:
        child.kill()
        raise
    status, found, said = close(child, max(8, place.limit(60)))
    if status < 0 and place.clock.left() <= 0:
        raise Failed(f"{child.name}: ended by us, as the time was over")
    return {"answer": answer, "status": status, "statistics": found, "said": said}


def refusals_recorder(place):
    return compile_here("refused_allocations.c", place, "-shared", "-fPIC")


def refusals_file(row, place):
    return os.path.join(place.scratch, f"refused-{label(row)}")


def recording_refusals(row, place):
    """Settings of a process under the library that records which of its calls for memory fail."""
    return {"LD_PRELOAD": f"{refusals_recorder(place)}:{place.preload}", "RECORD_REFUSED": refusals_file(row, place)}


def run_refused(row, program, place):
    """Stock in a process of its own, in which the calls fail that failed in the row's."""
    say(f"{row}: differs from stock, which runs with the same refusals now")
    settings = {**ASYNC, **DETERMINISTIC, "LD_PRELOAD": refusals_recorder(place),
                "REPEAT_REFUSED": refusals_file(row, place)}
    ran = run_program(place.stock(f"refused {label(row)}", settings), program, place)
    return {"verdict": "ran", "answer": ran["answer"]}


# --- How a row begins and ends ----------------------------------------------------------------------
@dataclasses.dataclass
class Job:
    """`run` returns the row's entry. `need`: device memory; `host`: what it may pin of the host's."""
    name: str
    part: str
    need: int
    run: object
    host: int = 0


def take(job):
    begun = time.monotonic()
    try:
        entry = job.run()
    except Exception as error:  # pylint: disable=broad-except
        # One row that goes wrong must not take the others with it.
        entry = failed(error if isinstance(error, Failed) else f"{type(error).__name__}: {error}")
    return {**entry, "seconds": time.monotonic() - begun}


def finish_job(job, entry, place, report):
    """What the end of the time cut off is no failure of the row; it is left out, and said."""
    if entry["verdict"] == "FAILED" and place.clock.left() <= 0:
        report.leave_out(job.name)
    else:
        report.add(job.name, job.part, entry)


def alone(rows, part, place, report, run):
    """One after the other; a row needs `least_s` at least."""
    for row in rows:
        name = str(row)
        if report.has(name):
            continue
        if place.clock.left() < place.options.least_s:
            report.leave_out(name)
            continue
        job = Job(name, part, 0, lambda row=row: run(row, place))
        finish_job(job, take(job), place, report)


def ask(place, child, command, most_s=90, **arguments):
    return child.ask(command, place.limit(most_s), **arguments)
