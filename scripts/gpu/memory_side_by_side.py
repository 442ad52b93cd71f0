"""The parts of memory-check that do not measure: many processes at a time. Verify: a process for each
network and mode. Cells: a stock run for each program, then at once the rows whose budgets follow from
its peak, then those whose budgets follow from the floors that these computed."""
import concurrent.futures
import contextlib
import dataclasses
import glob
import os
import threading

import memory_cells as cells
from memory_cells import GIB
from memory_place import (ASYNC, DETERMINISTIC, Job, close, failed, label, recording_refusals, run_program, run_refused,
                          say, take)
from processes import Failed

# Device memory for rows side by side, and what a process takes beside its tensors.
ROOM, CONTEXT = 120 * GIB, 1 * GIB
# Of the host's memory, for what rows side by side pin together; PyTorch's processes want the rest.
PINNED_SHARE = 0.6
# Of a stock run, whose need is not known yet: VGG-16's workspaces are large.
STOCK_NEED = {"vgg16": 36 * GIB}
OTHER_NEED, SMALL_NEED = 14 * GIB, 7 * GIB
FRAGMENTED = 1.25  # of what stock reserved in one run, for another


# --- Many at a time -------------------------------------------------------------------------------
def host_room():
    """Bytes that rows may pin together."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            total = min(total, int(file.read()))
    return int(PINNED_SHARE * total)


def fits(job, running, room):
    """Whatever is alone may begin: it is refused what there is not."""
    return not running or (sum(each.need for each in running) + job.need <= ROOM and
                           sum(each.host for each in running) + job.host <= room)


def run_side_by_side(source, place, most):
    """As many at once as `most` and the memory allow. source.ready(): jobs that could begin now, the
    most wanted first; source.ended(job, entry) may make others ready. Both are called by one thread.
    Nothing begins that could not end."""
    running, begun, room = {}, set(), host_room()
    with concurrent.futures.ThreadPoolExecutor(max(1, most)) as pool:
        while True:
            for job in source.ready() if place.clock.left() > place.options.least_s else []:
                if job.name not in begun and len(running) < most and fits(job, running.values(), room):
                    begun.add(job.name)
                    running[pool.submit(take, job)] = job
            if not running:
                return
            done, _ = concurrent.futures.wait(running, timeout=1,
                                              return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                source.ended(running.pop(future), future.result())


# --- Verify ---------------------------------------------------------------------------------------
class Proof:
    """A process under `microdnn verify`, which runs programs one after the other."""

    def __init__(self, name, place, report):
        self.place, self.report, self.rows = place, report, []
        self.child, self.folder = place.verified(name, cells.VERIFIED_BUDGET)

    def counted(self):
        """Operations and unnamed accesses so far; None where the library does not say."""
        found = {"operations": 0, "unnamed": 0, "first": ""}
        paths = glob.glob(os.path.join(self.folder, "*", "*.live"))
        try:
            for path in paths:
                memory = cells.memory_of(self.place.live(path))
                found["operations"] += memory.get("operations", 0)
                found["unnamed"] += memory.get("unnamed_accesses", 0)
                found["first"] = found["first"] or memory.get("first_unnamed", "")
        except Failed:
            return None
        return found if paths else None

    def ask(self, row):
        """Its answer, and what was counted between."""
        begun = self.counted() or {"operations": 0, "unnamed": 0}
        answer = self.child.ask("program", self.place.limit(self.place.options.row_s),
                                **row.program.arguments())
        now = self.counted()
        if len(self.rows) == 1:  # no stock process says what was measured on
            self.report.learn({**self.child.facts, **self.child.ask("facts", self.place.limit(30))})
        self.child.ask("end", self.place.limit(60))
        return answer, now and {**now, **{name: now[name] - begun[name] for name in ("operations", "unnamed")}}

    def run(self, row):
        self.rows.append(row)
        try:
            self.child.ready(self.place.limit(120))
            answer, counted = self.ask(row)
        except Failed as failure:
            self.child.kill()
            # What the library wrote before the process ended says more than PyTorch's error.
            found = self.counted()
            unnamed = f"{found['unnamed']} unnamed accesses, the first: {found['first']}; " \
                if found and found["unnamed"] else ""
            return failed(unnamed + str(failure))
        return cells.judge_verified(row, answer, stock_of(row.program, self.report), counted)

    def finish(self):
        """The tool's last word is of all programs: if it is not good, none of them is."""
        status, _, said = close(self.child, max(8, self.place.limit(60)))
        problems = cells.ending_problems(status, said)
        say(f"{self.child.name}: " + (said.strip().splitlines() or ["nothing was said"])[-1][:160])
        if self.place.clock.left() <= 0 and status < 0:
            return  # ended by us; its rows were counted as they ran
        for row in self.rows if problems else []:
            before = self.report.get(str(row))
            self.report.add(str(row), row.part, {**before, "verdict": "FAILED",
                                                 "problems": before["problems"] + problems})


def run_chain(rows, place, report):
    """Programs in turn in one process, a new one after a failure. Each row is reported as it ends; so
    nothing is left to return."""
    name, proof = f"{rows[0].program.net} {rows[0].program.mode}", None
    for row in rows:
        if place.clock.left() < place.options.least_s:
            break
        proof = proof or Proof(name, place, report)
        entry = take(Job(str(row), "verify", 0, lambda row=row, proof=proof: proof.run(row)))
        if entry["verdict"] == "FAILED" and place.clock.left() <= 0:
            proof.child.kill()
            return {}
        report.add(str(row), row.part, entry)
        if not proof.child.alive:
            proof = None
    if proof:
        proof.finish()
    return {}


class Chains:
    """The jobs of verify: they report by themselves."""

    def __init__(self, rows, place, report):
        self.rows, self.report = rows, report
        waiting = [row for row in rows if not report.has(str(row))]
        self.jobs = [Job(label(chain[0]), "verify", SMALL_NEED,
                         lambda chain=chain: run_chain(chain, place, report))
                     for chain in cells.chains(waiting)]

    def ready(self):
        return self.jobs

    def ended(self, job, entry):
        for problem in entry.get("problems", []):
            say(f"{job.name}: {problem}")

    def waiting(self):
        return [row for row in self.rows if not self.report.has(str(row))]


# --- Stock ----------------------------------------------------------------------------------------
class StockPool:
    """Stock processes that have nothing to do, by their settings: they serve one program after the
    other, as importing PyTorch takes longer than most programs."""

    def __init__(self, place):
        self.place, self.lock, self.idle = place, threading.Lock(), {}

    @contextlib.contextmanager
    def borrow(self, name, settings):
        with self.lock:
            free = self.idle.setdefault(name, [])
            child = free.pop() if free else None
        child = child or self.place.stock(name, settings)
        try:
            child.ready(self.place.limit(120))
            yield child
            child.ask("end", self.place.limit(30))
        except Failed:
            child.kill()
            raise
        with self.lock:
            self.idle[name].append(child)

    def close(self):
        for children in self.idle.values():
            for child in children:
                child.kill()


def stock_name(program):
    return f"stock {program}"


def refused_name(row):
    return f"stock refused as {row}"


def control_name(program):
    return f"control {program}"


def run_stock(program, name, settings, place, report, pool, **more):
    """The answer of a stock process in one of PyTorch's allocators."""
    with pool.borrow(name, {**DETERMINISTIC, **settings}) as child:
        answer = child.ask("program", place.limit(place.options.row_s), **program.arguments(), **more)
        report.learn({**child.facts, **child.ask("facts", place.limit(30))})
        return answer


def first_run(program, place, report, pool):
    """In the allocator that the library has its programs use, so that peaks are of the same."""
    return cells.stock_of_answer(run_stock(program, "async", ASYNC, place, report, pool))


def control_run(program, place, report, pool):
    answer = run_stock(program, "native", {}, place, report, pool)
    other = run_stock(program, "native", {}, place, report, pool, other_algorithms=True)
    return cells.control_of(report.get(stock_name(program)), answer, other)


def stock_of(program, report):
    row = report.get(stock_name(program))
    return row if row and row["verdict"] not in ("FAILED", "skipped") else None


def stock_need(program, report):
    """Device memory; by another program of the same size if one ran."""
    size = f"stock {program.net} b{program.batch} {program.mode} "
    known = [row["reserved"] for name, row in list(report.data["rows"].items())
             if name.startswith(size) and row.get("reserved")]
    return CONTEXT + int(FRAGMENTED * max(known)) if known else STOCK_NEED.get(program.net, OTHER_NEED)


# --- Cells ----------------------------------------------------------------------------------------
def run_row(row, budget, host, place):
    """What it did, not judged yet."""
    child = place.child(label(row), budget, row.policy,
                        {**dict(row.settings), **DETERMINISTIC, "MICRODNN_MEMORY_HOST_LIMIT": str(host),
                         "MICRODNN_MEMORY_REGISTRY": "",  # rows share the host's memory as planned here
                         **recording_refusals(row, place)})
    return {"verdict": "ran", "run": {**run_program(child, row.program, place), "budget": budget}}


def judged(row, run, stock, floor, refused_alike):
    memory = cells.memory_of(run["statistics"])
    own = cells.floor_of(memory)
    least = min((each for each in (floor, own) if each), default=None)
    return {**cells.judge(row, run, stock, least, refused_alike), "budget": run["budget"], "floor": own,
            "policy": row.policy, "peak": stock["peak"], "memory": memory, "said": run["said"][-600:],
            "refused": run["answer"].get("refused")}


def group_of(program):
    return str(dataclasses.replace(program, count=0))


class Cells:
    """The jobs of cells. A row waits for its program's stock run; one whose budget is a part of the
    floor, for a row that computed it; one that differs from stock, for a stock run with the same
    refusals if it had any, and where that differs, too, for the control."""

    def __init__(self, rows, every, place, report):
        self.place, self.report, self.pool = place, report, StockPool(place)
        self.rows = [row for row in rows if not report.has(str(row))]
        self.every = every  # rows that may have computed floors, in earlier runs too
        self.programs = {name(row.program): row.program for row in rows
                         for name in (stock_name, control_name)}
        self.held = {}  # by row: what is different, and for how many seconds it ran
        self.repeated = {}  # by row: the answer of stock with the same refusals, None if it has none

    def group(self, program):
        """Rows that compute its floor."""
        return [row for row in self.every
                if row.kind != "floor" and group_of(row.program) == group_of(program)]

    def floor(self, program):
        """The least that a run of it computed, in bytes. One that was refused has seen only its first
        operations, so it counts where none other comes."""
        group = self.group(program)
        entries = [entry for entry in (self.report.get(str(row)) for row in group)
                   if entry and entry.get("floor")]
        ran = [entry for entry in entries if not entry.get("refused")]
        if not ran and any(row in self.rows for row in group):
            return None
        return min((entry["floor"] for entry in ran or entries), default=None)

    def stock_job(self, row):
        program = row.program
        return Job(stock_name(program), "stock", stock_need(program, self.report),
                   lambda: first_run(program, self.place, self.report, self.pool))

    def control_job(self, row):
        program = row.program
        return Job(control_name(program), "stock", stock_need(program, self.report),
                   lambda: control_run(program, self.place, self.report, self.pool))

    def refused_job(self, row, stock):
        return Job(refused_name(row), "stock", stock_need(row.program, self.report),
                   lambda: run_refused(row, row.program, self.place))

    def row_job(self, row, stock):
        """None: its budget is not known yet."""
        budget = row.budget({"peak": stock["peak"], "floor": self.floor(row.program)})
        if not budget:
            return None
        # As much as ever lives, as policies may move all of it; more than is there is not promised.
        host = min(int(FRAGMENTED * stock["peak"]) + GIB, host_room())
        return Job(str(row), row.part, CONTEXT + budget,
                   lambda: run_row(row, budget, host, self.place), host)

    def job(self, row):
        """What the row waits for, or itself; None where others must end first."""
        stock = stock_of(row.program, self.report)
        if not stock:
            return self.stock_job(row)
        if row not in self.held:
            return self.row_job(row, stock)
        return self.control_job(row) if row in self.repeated else self.refused_job(row, stock)

    def ready(self):
        jobs = {}
        for row in self.rows:
            job = self.job(row)
            if job:
                jobs.setdefault(job.name, job)
        return list(jobs.values())

    def settle(self, row, entry):
        self.rows.remove(row)
        self.held.pop(row, None)
        self.report.add(str(row), row.part, entry)

    def judge(self, row, run, seconds):
        stock = self.report.get(stock_name(row.program))
        refused = cells.memory_of(run["statistics"]).get("refused")
        if cells.needs_refusals(run["answer"], stock, refused) and row not in self.repeated:
            self.held[row] = (run, seconds)
        elif cells.needs_control(run["answer"], stock, self.repeated.get(row)) and stock["verdict"] != "FAILED":
            self.repeated.setdefault(row)
            self.held[row] = (run, seconds)
            say(f"{row}: differs from stock; the control comes next")
        else:
            floor = self.floor(row.program)
            answer = self.repeated.pop(row, None)
            entry = take(Job(str(row), row.part, 0, lambda: judged(row, run, stock, floor, answer)))
            self.settle(row, {**entry, "seconds": seconds})

    def ended(self, job, entry):
        """What the end of the time cut off stays in `rows`, and is left out."""
        if entry["verdict"] == "FAILED" and self.place.clock.left() <= 0:
            return
        row = next((row for row in self.rows if job.name in (str(row), refused_name(row))), None)
        if row and job.name == refused_name(row):
            self.repeated[row] = entry.get("answer")  # without one, as if there had been no refusals
            self.judge(row, *self.held[row])
        elif row and "run" in entry:
            self.judge(row, entry["run"], entry["seconds"])
        elif row:
            self.settle(row, entry)
        else:
            self.stock_ended(job, entry)
        self.fail_without_floor()

    def stock_ended(self, job, entry):
        program = self.programs[job.name]
        self.report.add(stock_name(program), "stock", entry)
        for row in [row for row in self.rows if row.program == program]:
            if entry["verdict"] == "FAILED":
                self.settle(row, failed("stock failed: " + "; ".join(entry["problems"])[:200]))
            elif entry["verdict"] == "skipped":
                self.settle(row, cells.skipped(*entry["notes"]))
            elif row in self.held:
                self.judge(row, *self.held[row])

    def fail_without_floor(self):
        """Where all that could compute a floor ran, none will come."""
        for row in [row for row in self.rows if row.kind == "floor" and not self.floor(row.program)]:
            if all(self.report.has(str(each)) for each in self.group(row.program)):
                self.settle(row, failed("no floor is known"))

    def waiting(self):
        return self.rows


# --- Start ----------------------------------------------------------------------------------------
def run_all(source, place, report):
    run_side_by_side(source, place, place.options.jobs)
    for row in source.waiting():
        report.leave_out(str(row))


def run_verify(rows, place, report):
    run_all(Chains(rows, place, report), place, report)


def run_cells(rows, place, report):
    source = Cells(rows, cells.cell_rows(place.options.quick), place, report)
    try:
        run_all(source, place, report)
    finally:
        source.pool.close()
