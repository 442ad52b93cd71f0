"""Child processes that answer commands, one line of JSON each way, each within a time."""
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time


class Failed(Exception):
    """A child that crashed, hung or reported an error; the text ends with what it said."""


class Child:
    """`statistics_file` is what the library writes when the child ends, None for stock. `launcher`:
    the words of a command that runs the program as its child."""

    def __init__(self, name, program, environment, scratch, statistics_file=None, launcher=()):
        self.name = name
        self.statistics_file = statistics_file
        self.facts = None
        self.buffer = b""
        self.error_file = os.path.join(scratch, name.replace(" ", "-").replace("/", "-") + ".err")
        with open(self.error_file, "wb") as errors:
            self.process = subprocess.Popen([*launcher, sys.executable, program], env=environment,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=errors, start_new_session=bool(launcher))
        self.group = self.process.pid if launcher else None

    @property
    def alive(self):
        return self.process.poll() is None

    def said(self):
        with open(self.error_file, encoding="utf-8", errors="replace") as file:
            return file.read().strip()[-1500:]

    def fail(self, what):
        self.kill()
        raise Failed(f"{self.name}: {what}: {self.said()}")

    def kill(self):
        if self.group:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, signal.SIGKILL)
        self.process.kill()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            pass  # in the driver, beyond a signal's reach

    def read_line(self, what, timeout):
        end = time.monotonic() + timeout
        pipe = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self.fail(f"no answer to `{what}` in {timeout:.0f} s")
            more = os.read(pipe, 1 << 16)
            if not more:
                self.kill()
                self.fail(f"ended during `{what}` with status {self.process.returncode}")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def ready(self, timeout):
        """What the child says of itself before any command."""
        if self.facts is None:
            self.facts = self.read_line("start", timeout)
        return self.facts

    def ask(self, command, timeout, **arguments):
        try:
            line = json.dumps({"do": command, **arguments}) + "\n"
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail(f"ended before `{command}`")
        answer = self.read_line(command, timeout)
        if "error" in answer:
            # Its GPU may be in any state now.
            self.fail(f"`{command}`: {answer['error']}")
        return answer

    def finish(self, timeout):
        """Lets the child end; returns the library's counters, None if there are none."""
        try:
            self.process.stdin.close()
            self.process.wait(timeout=timeout)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.kill()
        self.process.stdout.close()
        if self.statistics_file is None or not os.path.exists(self.statistics_file):
            return None
        with open(self.statistics_file, encoding="utf-8") as file:
            text = file.read()
        return json.loads(text)["counters"] if text else None
