#!/usr/bin/env python3
"""Ends programs that run for ever, however busy the machine is.

    test/limits.py [--cpu SECONDS] [--idle SECONDS] PROGRAM [ARGUMENT...]

A program may use so much CPU time, which counts with all that it starts, and may be idle for so long
in all: the time in which none of its processes runs, could run if a CPU were free, or waits for a disk.
So one that computes for ever is ended, and one that waits for ever is, but one that other work keeps
from the CPUs is not. The exit status is the program's, 128 and its signal, or 124 if it was ended.
"""
import argparse
import contextlib
import math
import os
import resource
import signal
import subprocess
import sys
import time

# A test whose work takes 100 s of an idle CPU uses 250 s where others share its caches and cores.
CPU_S, IDLE_S = 600.0, 300.0
POLL_S, END_S = 0.5, 10.0
BUSY = "RD"  # running or runnable, waiting for a disk
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """A line of /proc/PID/stat; what follows the name, which may have blanks and brackets."""

    def __init__(self, pid, line):
        fields = line.rpartition(")")[2].split()
        self.pid = pid
        self.alive = fields[0] not in "ZX"
        self.parent = int(fields[1])
        self.session = int(fields[3])
        self.name = (pid, int(fields[19]))  # with the time of its start, since numbers come again
        # Its own, and that of the children that it has waited for.
        self.cpu = sum(int(field) for field in fields[11:15]) / TICKS


def every_process():
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="latin-1") as file:
                yield Process(int(name), file.read())


def processes_of(root, known):
    """Those that descend from it, those of its session, and those that were known: parents end."""
    everything = list(every_process())
    found = {each.pid: each for each in everything
             if root in (each.pid, each.session) or each.name in known}
    grown = True
    while grown:
        more = {each.pid: each for each in everything
                if each.pid not in found and each.parent in found}
        found.update(more)
        grown = bool(more)
    known.update(each.name for each in found.values())
    return list(found.values())


def is_busy(process):
    """Whether one of its threads runs or wants to."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with contextlib.suppress(OSError), \
                    open(f"/proc/{process.pid}/task/{thread}/stat", encoding="latin-1") as file:
                if file.read().rpartition(")")[2].split()[0] in BUSY:
                    return True
    return False


class Limits:
    """Of one program, which leads a session of its own. `exceeded` is to be asked every `poll` seconds."""

    def __init__(self, root, cpu_limit=CPU_S, idle_limit=IDLE_S):
        self.root, self.cpu_limit, self.idle_limit = root, cpu_limit, idle_limit
        self.known = set()
        self.cpu = self.idle = 0.0
        self.poll = min(POLL_S, cpu_limit / 4, idle_limit / 4)
        self.asked = time.monotonic()
        # For each process alone, should nobody be there to ask.
        most = math.ceil(cpu_limit) + 60
        with contextlib.suppress(OSError, ValueError):
            resource.prlimit(root, resource.RLIMIT_CPU, (most, most))

    def exceeded(self):
        """What has come to its end, in words, or None."""
        processes = processes_of(self.root, self.known)
        now = time.monotonic()
        # Who was kept from a CPU itself cannot know what the program did meanwhile.
        passed = min(now - self.asked, 2 * self.poll)
        self.asked = now
        # What orphans have used is lost to the sum when they end.
        used = max(sum(process.cpu for process in processes) - self.cpu, 0.0)
        self.cpu += used
        if not any(is_busy(process) for process in processes):
            self.idle += max(passed - used, 0.0)
        if self.cpu >= self.cpu_limit:
            return f"used {self.cpu_limit:g} s of CPU time"
        if self.idle >= self.idle_limit:
            return f"waited for {self.idle_limit:g} s while nothing of it could run"
        return None

    def end(self):
        """Kills everything that the program has started, also what is being started now."""
        while alive := [process for process in processes_of(self.root, self.known) if process.alive]:
            for process in alive:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process.pid, signal.SIGKILL)
            time.sleep(0.01)


def communicate(child, cpu_limit=CPU_S, idle_limit=IDLE_S):
    """What the child says, until it ends or is ended, and why it was ended, or None."""
    limits = Limits(child.pid, cpu_limit, idle_limit)
    why = None
    while not why:
        try:
            output, _ = child.communicate(timeout=limits.poll)
            return output, None
        except subprocess.TimeoutExpired:
            why = limits.exceeded()
    limits.end()
    try:
        output, _ = child.communicate(timeout=END_S)
    except subprocess.TimeoutExpired as late:  # who has left the family holds the other end
        output = late.output or b""
    return output, why


def main():
    parser = argparse.ArgumentParser(description="Run a program with limits to its CPU time and idleness.")
    parser.add_argument("--cpu", type=float, default=CPU_S, help=f"seconds of CPU time ({CPU_S:g})")
    parser.add_argument("--idle", type=float, default=IDLE_S, help=f"seconds without any use ({IDLE_S:g})")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM")
    arguments = parser.parse_args()
    with subprocess.Popen(arguments.command, start_new_session=True) as child:
        _, why = communicate(child, arguments.cpu, arguments.idle)
    if why:
        print(f"{arguments.command[0]}: {why}", file=sys.stderr)
        return 124
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main())
