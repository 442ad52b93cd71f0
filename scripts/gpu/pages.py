"""What the scripts that make pages of docs/benchmarks from kept rows have in common."""
import importlib.machinery
import importlib.util
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "docs", "benchmarks")


def module_of(name):
    """A script that is no module by its name."""
    path = os.path.join(ROOT, "scripts", name)
    loader = importlib.machinery.SourceFileLoader(re.sub(r"\W", "_", name), path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.modules[loader.name] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def pick(row, *names):
    return {name: row[name] for name in names if name in row}


def keep_reports(path, reports, notes):
    """One report a line, in place of what was kept there."""
    lines = [json.dumps(report, separators=(",", ":")) for report in reports]
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"notes":' + json.dumps(notes) + ',\n"reports":[\n' + ",\n".join(lines) + "\n]}\n")


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |",
            *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)]


def iteration_text(entry):
    """The ratio of a row of bench-pytorch, and of each pair of its processes if there was to be more than one
    ("-": no time for it). Rows that were kept before that do not say how many they had."""
    text = f"{entry['iteration']:.3f}"
    each = [f"{generation['iteration']:.3f}" for generation in entry.get("generations", [])]
    missing = ["-"] * (entry["row"].get("processes", 1) - len(each))
    return f"{text} ({', '.join(each + missing)})" if len(each + missing) > 1 else text


def notes_of(kept):
    return ["", *(f"- {note}" for note in kept["notes"])] if kept["notes"] else []


def write(name, text):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
        file.write(text)
