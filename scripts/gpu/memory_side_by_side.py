"""The parts of memory-check that compare results: many rows at a time, as nothing is measured. First
stock, twice for each program; then rows whose budgets are shares of stock's peak; then those whose
budgets follow from the floors that these computed."""
import concurrent.futures
import contextlib
import dataclasses
import os
import threading

import memory_cells as cells
from memory_cells import GIB
from memory_place import ASYNC, DETERMINISTIC, Job, close, failed, finish_job, label, take
from processes import Failed

# Device memory for rows side by side, and what a process takes beside its tensors.
ROOM, CONTEXT = 120 * GIB, 1 * GIB
# Of the host's memory, for what rows side by side pin together.
PINNED_SHARE = 0.75
# Of a stock run, whose need is not known yet: VGG-16's workspaces are large.
STOCK_NEED = {"vgg16": 36 * GIB}
OTHER_NEED, SMALL_NEED = 14 * GIB, 4 * GIB


def run_side_by_side(jobs, place, report, most):
    """As many at once as `most` and the device's memory allow. Nothing begins that could not end."""
    waiting, running = list(jobs), {}
    with concurrent.futures.ThreadPoolExecutor(max(1, most)) as pool:
        while waiting or running:
            taken = sum(job.need for job in running.values())
            for job in list(waiting):
                if len(running) < most and (not running or taken + job.need <= ROOM) and \
                        place.clock.left() > place.options.least_s:
                    waiting.remove(job)
                    taken += job.need
                    running[pool.submit(take, job)] = job
            if not running:
                break
            done, _ = concurrent.futures.wait(running, timeout=1,
                                              return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                finish_job(running.pop(future), future.result(), place, report)
    for job in waiting:
        report.leave_out(job.name)


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
                child.finish(5)


def stock_name(program):
    return f"stock {program}"


def control(program, place, report, pool):
    """Two stock runs, one in each of PyTorch's allocators; the second shows the peak."""
    answers = []
    for name, settings in (("native", {}), ("async", ASYNC)):
        with pool.borrow(name, {**DETERMINISTIC, **settings}) as child:
            answers.append(child.ask("program", place.limit(place.options.row_s), **program.arguments()))
            report.learn({**child.facts, **child.ask("facts", place.limit(30))})
    entry = cells.control_of(*answers)
    if entry["problems"]:
        return {**entry, "verdict": "FAILED", "notes": []}
    return {**entry, "verdict": "agree" if entry["agree"] else "differ", "notes": []}


def stock_of(program, report):
    row = report.get(stock_name(program))
    return row if row and row["verdict"] != "FAILED" else None


def run_program(child, program, place):
    """The answer of a program in a process of its own, and how that ended."""
    try:
        child.ready(place.limit(120))
        answer = child.ask("program", place.limit(place.options.row_s), **program.arguments())
    except Failed:
        child.kill()
        raise
    status, found, said = close(child)
    return {"answer": answer, "status": status, "statistics": found, "said": said}


def host_share(jobs):
    """Bytes that each of so many processes may pin."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(PINNED_SHARE * total / max(1, jobs))


def group_of(program):
    return str(dataclasses.replace(program, count=0))


def floors(rows, report):
    """{group: least floor that a run of it computed}, in bytes."""
    found = {}
    for row in rows:
        entry = report.get(str(row))
        if entry and entry.get("floor"):
            name = group_of(row.program)
            found[name] = min(entry["floor"], found.get(name, entry["floor"]))
    return found


def run_verified(row, budget, place, report):
    stock = stock_of(row.program, report)
    run = run_program(place.verified(label(row), budget), row.program, place)
    return {**cells.judge_verified(row, run, stock), "budget": budget, "peak": stock["peak"],
            "said": run["said"][-600:]}


def run_row(row, budget, floor, place, report):
    if row.part == "verify":
        return run_verified(row, budget, place, report)
    stock = stock_of(row.program, report)
    child = place.child(label(row), budget, row.policy,
                        {**dict(row.settings), **DETERMINISTIC,
                         "MICRODNN_MEMORY_HOST_LIMIT": str(host_share(place.options.jobs))})
    run = {**run_program(child, row.program, place), "budget": budget}
    memory = cells.memory_of(run["statistics"])
    own = cells.floor_of(memory)
    least = min((each for each in (floor, own) if each), default=None)
    return {**cells.judge(row, run, stock, least), "budget": budget, "floor": own, "policy": row.policy,
            "peak": stock["peak"], "memory": memory, "said": run["said"][-600:],
            "refused": run["answer"].get("refused")}


def what_lacks(row, stock, report, first):
    """Why a row has no budget: (what is missing, whether it may still come)."""
    if stock is None:
        return "stock failed", report.get(stock_name(row.program)) is None
    of_group = [each for each in first if group_of(each.program) == group_of(row.program)]
    return "no floor is known", not of_group or any(report.get(str(each)) is None for each in of_group)


def row_jobs(rows, place, report, first):
    """Those that can run; the others are left out, or failed with what is missing. `first`: rows
    that ran before and computed floors."""
    jobs, known = [], floors(first, report)
    for row in [row for row in rows if not report.has(str(row))]:
        stock, floor = stock_of(row.program, report), known.get(group_of(row.program))
        budget = stock and row.budget({"peak": stock["peak"], "floor": floor})
        if not budget:
            text, later = what_lacks(row, stock, report, first)
            if later:
                report.leave_out(str(row))
            else:
                report.add(str(row), row.part, failed(text))
            continue
        need = CONTEXT + (min(budget, 2 * stock["peak"]) if row.kind == "bytes" else budget)
        jobs.append(Job(str(row), row.part, need, lambda row=row, budget=budget, floor=floor: run_row(
            row, budget, floor, place, report)))
    return jobs


def stock_need(program):
    if program.batch <= 4:
        return SMALL_NEED
    return STOCK_NEED.get(program.net, OTHER_NEED)


def run_stock(rows, place, report):
    programs = [program for program in cells.programs_of(rows)
                if not report.has(stock_name(program))
                and any(not report.has(str(row)) for row in rows if row.program == program)]
    pool = StockPool(place)
    jobs = [Job(stock_name(program), "stock", stock_need(program),
                lambda program=program: control(program, place, report, pool)) for program in programs]
    try:
        run_side_by_side(jobs, place, report, place.options.jobs)
    finally:
        pool.close()


def run_rows(rows, place, report):
    """Stock, rows whose budgets follow from it, rows whose budgets follow from those."""
    run_stock(rows, place, report)
    first = [row for row in rows if row.kind != "floor"]
    run_side_by_side(row_jobs(first, place, report, []), place, report, place.options.jobs)
    rest = [row for row in rows if row.kind == "floor"]
    run_side_by_side(row_jobs(rest, place, report, first), place, report, place.options.jobs)
