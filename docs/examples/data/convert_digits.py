#!/usr/bin/env python3
"""Makes digits.txt from the copy of the UCI handwritten digits that scikit-learn packs.

    pip download scikit-learn --no-deps && unzip scikit_learn-*.whl sklearn/datasets/data/digits.csv.gz
    python3 convert_digits.py sklearn/datasets/data/digits.csv.gz > digits.txt

One line an image, in the file's order: 64 characters 0-9a-g for the values 0 to 16, row by row, a
space, the digit that it shows.
"""
import csv
import gzip
import sys

VALUES = "0123456789abcdefg"


def convert(path, out):
    count = 0
    with gzip.open(path, "rt", newline="") as source:
        for row in csv.reader(source):
            numbers = [int(float(field)) for field in row]
            if len(numbers) != 65 or max(numbers[:64]) > 16 or min(numbers) < 0 or numbers[64] > 9:
                sys.exit(f"{path}: row {count + 1} is not 64 values of 0 to 16 and a digit")
            out.write("".join(VALUES[v] for v in numbers[:64]) + f" {numbers[64]}\n")
            count += 1
    if count != 1797:
        sys.exit(f"{path}: {count} rows, 1797 expected")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    convert(sys.argv[1], sys.stdout)
