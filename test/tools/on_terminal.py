#!/usr/bin/env python3
"""Runs a command on a terminal: on_terminal.py RAW SCREEN COMMAND... The files get what the command wrote, and what a
person sees of it in the end."""
import os
import pty
import sys

raw, screen, *command = sys.argv[1:]
written = bytearray()


def keep(descriptor):
    data = os.read(descriptor, 4096)
    written.extend(data)
    return data


def seen(text):
    """Lines as a terminal of endless width shows them, which knows carriage returns and one way to erase."""
    lines, column = [""], 0
    for part in text.replace("\033[K", "\x00"):
        line = lines[-1]
        if part == "\n":
            lines.append("")
            column = 0
        elif part == "\r":
            column = 0
        elif part == "\x00":
            lines[-1] = line[:column]
        else:
            lines[-1] = line[:column].ljust(column) + part + line[column + 1:]
            column += 1
    return "\n".join(lines)


sys.stdout = open(os.devnull, "w", encoding="utf-8")
os.dup2(sys.stdout.fileno(), 1)
os.environ["TERM"] = "xterm"
status = pty.spawn(command, keep, lambda descriptor: b"")
with open(raw, "wb") as file:
    file.write(written)
with open(screen, "w", encoding="utf-8") as file:
    file.write(seen(written.decode(errors="replace")))
sys.exit(os.waitstatus_to_exitcode(status))
