"""The pictures and the page of `microdnn report`, and the picture of `microdnn advise --plot`.

    report -o FILE [--figures FOLDER] [--trace FILE]... [--record FILE]... [--costs FILE] STATISTICS...
    advice FILE            draws the JSON of `microdnn advise` on standard input

`microdnn` starts this with arguments that it has checked.
"""
import argparse
import json
import os
import stat
import sys

import data


def figures():
    """What draws is loaded once there is something to draw."""
    try:
        import matplotlib
    except ImportError:
        raise data.Trouble("this needs the Python package matplotlib: python3 -m pip install matplotlib, "
                           "or apt install python3-matplotlib") from None
    matplotlib.use("agg")
    import figures as module
    return module


def is_replaceable(path):
    """Whether there is no such file, or a regular one (config/whole_file.h)."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return True


def write(path, content):
    """Beside the file first, so that nobody sees a half of it. Devices, FIFOs and the targets of links are written in place."""
    written = f"{path}.tmp.{os.getpid()}" if is_replaceable(path) else path
    try:
        with open(written, "wb") as file:
            file.write(content)
        if written != path:
            os.replace(written, path)
    except OSError as error:
        if written != path and os.path.exists(written):
            os.unlink(written)
        raise data.Trouble(f"{path}: {error.strerror}") from error


def save_figures(folder, drawn):
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise data.Trouble(f"{folder}: {error.strerror}") from error
    for name, figure in drawn.items():
        write(os.path.join(folder, f"{name}.svg"), figure.svg().encode())
        write(os.path.join(folder, f"{name}.png"), figure.png())


def report(arguments):
    parser = argparse.ArgumentParser(prog="report")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--figures")
    parser.add_argument("--trace", action="append", default=[])
    parser.add_argument("--record", action="append", default=[])
    parser.add_argument("--costs")
    parser.add_argument("statistics", nargs="+")
    asked = parser.parse_args(arguments)
    ranks = data.read_all(asked.statistics, asked.trace, asked.record, asked.costs)
    drawn = figures().all_of(ranks)
    import page
    write(asked.output, page.make(ranks, drawn).encode())
    if asked.figures:
        save_figures(asked.figures, drawn)


def advice(arguments):
    path = arguments[0]
    figure = figures().budgets_of_advice(json.load(sys.stdin))
    write(path, figure.file(os.path.splitext(path)[1][1:]))


def main():
    try:
        {"report": report, "advice": advice}[sys.argv[1]](sys.argv[2:])
    except data.Trouble as trouble:
        sys.exit(f"microdnn: {trouble}")


if __name__ == "__main__":
    main()
