"""Packs and unpacks data by scripts/gpu/packing_kernels.cu, compiled for the host with test/standin/cuda_fibers.h.

    test/tools/packing_kernels.py LIBRARY SEED

Prints what came back otherwise; the exit status is 1 if something did.
"""
import ctypes
import math
import random
import struct
import sys

TILE, HEAD, GUARD = 16384, 16, b"\xa5" * 64
FLOATS, HALVES, INDICES = (0, 1, 2), (3, 4, 5), 6


def round_trip(library, codec, raw):
    """What came back and the bytes behind it; how many bytes the records had."""
    tiles, size = -(-len(raw) // TILE), ctypes.c_size_t(len(raw))
    room, directory = ctypes.create_string_buffer(tiles * (TILE + HEAD) + 16), (ctypes.c_ulonglong * tiles)()
    used, back = ctypes.c_ulonglong(0), ctypes.create_string_buffer(GUARD * (len(raw) // len(GUARD) + 2))
    aligned = ctypes.addressof(room) + -ctypes.addressof(room) % 16
    assert library.packing_pack(codec, raw, size, ctypes.c_void_p(aligned), directory, ctypes.byref(used), None) == 0
    assert library.packing_unpack(codec, ctypes.c_void_p(aligned), directory, back, size, None) == 0
    return back.raw[:len(raw) + len(GUARD)], 16 * used.value


def floats(words, zeros, spread):
    values = [0.0 if random.random() < zeros else random.gauss(0, 1) * math.exp(spread * random.gauss(0, 1))
              for _ in range(words)]
    values[random.randrange(words)] = random.choice([-0.0, math.inf, math.nan, 1e-40])
    return struct.pack(f"{words}f", *(value if abs(value) < 3e38 or value != value else math.inf for value in values))


def upper_halves(raw):
    """As bf16, twice, so that there are as many bytes."""
    halves = b"".join(raw[place + 2:place + 4] for place in range(0, len(raw), 4))
    return halves + halves


def indices(words, bits):
    return struct.pack(f"{words // 2}q", *(random.randrange(-(1 << bits), 1 << bits) for _ in range(words // 2)))


def cases(words):
    """Codec, data, and the bytes that the records may have at most."""
    for zeros, spread in ((0, 0), (0, 8), (0.02, 1), (0.5, 1), (0.98, 1), (1, 0)):
        raw = floats(words, zeros, spread)
        for codec in FLOATS:
            yield codec, raw
            yield codec + HALVES[0], upper_halves(raw)
    for bits in (0, 1, 14, 31, 32, 33, 63):
        yield INDICES, indices(words, bits)
    for codec in range(INDICES + 1):
        yield codec, random.randbytes(4 * words)


def main():
    library, wrong = ctypes.CDLL(sys.argv[1]), []
    random.seed(int(sys.argv[2]))
    for words in (4, 4096, 4100):
        for codec, raw in cases(words):
            back, _ = round_trip(library, codec, raw)
            if back != raw + GUARD:
                wrong.append(f"codec {codec}: {words} words came back otherwise")
    # What half of is zero, and what has few bits, must become smaller.
    for codec, raw, most in ((0, floats(8192, 0.5, 1), 0.57), (2, floats(8192, 0.5, 1), 0.5),
                             (1, floats(8192, 0, 0), 0.92), (4, upper_halves(floats(8192, 0, 0)), 0.8),
                             (INDICES, indices(8192, 7), 0.2)):
        _, packed = round_trip(library, codec, raw)
        if packed > most * len(raw):
            wrong.append(f"codec {codec}: {packed} bytes of {len(raw)}")
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
