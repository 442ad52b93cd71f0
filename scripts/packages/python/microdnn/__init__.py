"""The tool `microdnn` as it is installed in this package, with its library."""
import os
import sys


def main():
    """Becomes the tool."""
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "microdnn")
    os.execv(tool, ["microdnn", *sys.argv[1:]])
