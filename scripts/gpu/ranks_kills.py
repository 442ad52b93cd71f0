"""Jobs of torchrun of which a rank is killed, for check-ranks: how they end, and what they leave."""
import contextlib
import glob
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from memory_cells import GIB
from ranks_bits import pinned_problems
from ranks_place import RANKS, lives

BUDGET = 2 * GIB
LEAST_S = 40  # that a job needs
SAID = 1500  # characters of each text


class Job:
    """One torchrun with two ranks. `look` is called again and again until it is `done`."""

    def __init__(self, place, number, budget):
        self.place, self.number = place, number
        self.mark = os.path.join(place.scratch, f"job-{number}")
        chance = random.Random(place.options.seed + number)
        self.rank, self.delay = chance.randrange(RANKS), chance.uniform(0, place.options.job_s)
        self.numbers, self.moment, self.killed = [], None, None
        self.done, self.seconds, self.failure, self.status = False, None, None, None
        with open(self.mark + ".err", "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *place.options.launcher.split(), place.options.worker, "--job", self.mark],
                env={**place.environment(budget), "OMP_NUM_THREADS": "1"}, start_new_session=True, stdout=errors,
                stderr=errors)
        self.late = time.monotonic() + place.options.start_s

    def trains(self):
        """Whether each rank has."""
        paths = [f"{self.mark}.{rank}" for rank in range(RANKS)]
        if not self.numbers and all(os.path.exists(path) for path in paths):
            for path in paths:
                with open(path, encoding="utf-8") as file:
                    self.numbers.append(int(file.read()))
        return bool(self.numbers)

    def left(self):
        return [number for number in self.numbers if lives(number)]

    def look(self):
        now, ended = time.monotonic(), self.process.poll() is not None
        if self.done:
            return
        if not self.trains():
            if ended:
                self.end(f"ended with status {self.process.returncode} before it trained: {self.said()}")
            elif now > self.late:
                self.end(f"did not train in {self.place.options.start_s:.0f} s: {self.said()}")
        elif self.killed is None:
            self.moment = self.moment or now + self.delay
            if ended:
                self.end(f"ended with status {self.process.returncode} by itself: {self.said()}")
            elif now >= self.moment:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.numbers[self.rank], signal.SIGKILL)
                self.killed = now
        elif ended and not self.left():
            self.seconds = now - self.killed
            self.end()
        elif now > self.killed + self.place.options.end_s:
            self.end()

    def end(self, failure=None):
        """Whatever is left is killed."""
        self.done, self.failure, self.status = True, failure, self.process.poll()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for number in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5)

    def said(self):
        """What each rank wrote of its error, the library's lines, and the end of what torchrun wrote."""
        whole = read(self.mark + ".err")
        parts = {f"rank {rank}": read(f"{self.mark}.{rank}.error") for rank in range(RANKS)}
        parts["library"] = "\n".join(line for line in whole.splitlines() if line.startswith("microdnn"))
        parts["all"] = whole
        words = [f"[{name}] {text[-SAID:]}" for name, text in parts.items() if text]
        return "\n".join(words) or "nothing was said"


def read(path):
    """"" where nobody wrote."""
    with contextlib.suppress(FileNotFoundError):
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    return ""


def run_jobs(place, budgets):
    """As many side by side as the options say, in the order of `budgets`; those that ran."""
    jobs, running = [], []
    try:
        while running or len(jobs) < len(budgets):
            while len(jobs) < len(budgets) and len(running) < place.options.at_once and place.clock.left() > LEAST_S:
                running.append(Job(place, len(jobs), budgets[len(jobs)]))
                jobs.append(running[-1])
            if not running or place.clock.left() <= 0:
                break
            time.sleep(0.05)
            for job in running:
                job.look()
            running = [job for job in running if not job.done]
    finally:
        for job in running:
            job.end("no time was left")
    return jobs


def next_start(place, number):
    """A job that comes after the dead: why it does not train (None: it does), and who is in the registry then."""
    job = Job(place, number, BUDGET)
    try:
        while not job.trains() and not job.done:
            time.sleep(0.05)
            job.look()
        return job.failure, place.registry.dead()
    finally:
        job.end()


def temporary_files(place):
    return {path for path in glob.glob(os.path.join(tempfile.gettempdir(), "microdnn*")) if path != place.scratch}


def job_problems(stock, jobs, end_s):
    """The first job, stock's, shows how one ends."""
    problems = [f"job {job.number} {job.failure}" for job in (stock, *jobs) if job.failure]
    ran = [job for job in jobs if not job.failure]
    if stock.seconds is not None:
        problems += [f"job {job.number}: not all of it ended in {end_s:.0f} s" for job in ran if job.seconds is None]
    if not stock.failure:
        problems += [f"job {job.number}: status {job.status}, stock's {stock.status}" for job in ran
                     if job.status != stock.status]
    return problems


def kills(place):
    count, before = place.options.jobs, temporary_files(place)
    place.registry.take()
    jobs = run_jobs(place, [None] + [BUDGET] * count)
    if not jobs:
        return {"notes": [], "problems": ["there was no time for a job"]}
    stock, ours = jobs[0], jobs[1:]
    pinned, left = place.registry.take(), place.registry.dead()
    problems = job_problems(stock, ours, place.options.end_s) + pinned_problems(pinned, place.host_limit)
    problems += [f"{count - len(ours)} of {count} jobs did not start, for want of time"] if len(ours) < count else []
    failure, dead = next_start(place, len(jobs))
    problems += [f"the next job {failure}"] if failure else []
    problems += [f"{len(dead)} entries of dead processes after the next start"] if dead else []
    files = sorted(temporary_files(place) - before)
    problems += [f"files are left: {files[:3]}"] if files else []
    known = [job.seconds for job in ours if job.seconds is not None]
    notes = [f"{len(known)} ranks killed, the rest ended within {max(known, default=0):.1f} s, stock's within "
             f"{stock.seconds or 0:.1f}; {len(left)} entries of the dead before the next start, {len(dead)} after"]
    return {"notes": notes, "problems": problems, "seconds_to_end": [job.seconds for job in jobs],
            "statuses": [job.status for job in jobs], "pinned": pinned}
