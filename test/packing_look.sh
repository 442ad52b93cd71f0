#!/bin/sh
# What scripts/gpu/packing-look measures: its kernels on the host, byte by byte, and the page that is made of its rows.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
cxx=$(command -v g++ || command -v clang++) || skip_all "no C++ compiler"
seed=${MICRODNN_TEST_SEED:-24}

# Kernels on fibers.
compiled() {
    "$cxx" -std=c++17 -O1 -U_FORTIFY_SOURCE -w -shared -fPIC -include test/standin/cuda_fibers.h -x c++ "$1" -o "$OUT/packing.so"
}

come_back() { python3 test/tools/packing_kernels.py "$OUT/packing.so" "$seed"; }

bytes_come_back() { compiled scripts/gpu/packing_kernels.cu && come_back; }

# One bit, one barrier: the comparison must see both.
broken_kernels_are_noticed() {
    sed 's/__popc(bits & lanes_before())/__popc(bits \& (lanes_before() >> 1))/' scripts/gpu/packing_kernels.cu >"$OUT/bit.cu" &&
        compiled "$OUT/bit.cu" && ! come_back >/dev/null || return 1
    sed '/^static __device__ uint32_t start_planes/,/^}/s/__syncthreads();//' scripts/gpu/packing_kernels.cu >"$OUT/barrier.cu" &&
        compiled "$OUT/barrier.cu" && ! come_back >/dev/null
}

# Rows as packing-look writes them, of a network with two groups of tensors.
write_rows() {
    python3 - "$OUT/packing.json" "$1" <<'END_ROWS'
import json, sys
GIB = 1 << 30
def kept(weights, writer, kind, codecs, zeros):
    facts = {name: {"packed": int(GIB * part), "wrong": int(sys.argv[2]), "timed": GIB, "pack_ms": 1.0, "unpack_ms": 0.5}
             for name, part in codecs.items()}
    return {"part": "kept", "network": "net", "batch": 8, "weights": weights, "writer": writer, "type": kind, "tensors": 1,
            "bytes": GIB, "large": GIB, "zero_bytes": int(zeros * GIB), "codecs": facts}
rows = [{"part": "restored", "codec": "mask", "type": "float32", "elements": 8, "tensors": 15, "wrong": [], "unnoticed": 0},
        {"part": "copy", "name": "device to pinned", "bytes": GIB, "ms": 20.0},
        kept("random", "relu_", "float32", {"mask": 0.5, "exponents": 0.8, "mask, exponents": 0.4}, 0.5),
        kept("trained", "relu_", "float32", {"mask": 0.25, "exponents": 0.8, "mask, exponents": 0.2}, 0.75),
        kept("random", "max_pool2d", "int64", {"indices": 0.125}, 0), kept("trained", "max_pool2d", "int64", {"indices": 0.125}, 0),
        {"part": "training", "network": "net", "batch": 8, "steps": 200, "losses": [4.6, 1.25], "seconds": 9}]
json.dump({"environment": {"device": "A device", "driver": "1", "torch": "2", "date": "today", "commit": "dirty"}, "rows": rows,
           "left_out": ["other"]}, open(sys.argv[1], "w"))
END_ROWS
}

page_says() { grep -qF -- "$1" "$OUT/docs/benchmarks/packing.md" || { echo "not in the page: $1" && false; }; }

page_of_these_rows() {
    write_rows 0 && copy_of_docs && "$OUT/scripts/packing-table" --keep "$OUT/packing.json" --note 'A note.' --commit 0123abcd &&
        "$OUT/scripts/packing-table" && page_says 'A device, driver 1, PyTorch 2; source 0123abcd' && page_says '- A note.' &&
        page_says '15 of 15 random tensors' && page_says "of the networks' tensors 0 did not" &&
        page_says '| net | 8 | 2.00 | 3.20, 5.33 | 1.11 | 3.81, 6.15 | 4.60 to 1.25 |' &&
        page_says '| net | `relu_` | fp32 | 1.00 | 0.50, 0.75 | 2.00, 4.00 | 1.25 | 2.50, 5.00 |' &&
        page_says '| indices | int64 | 1074 | 2147 | - | - |' && page_says '| copy engine, device to pinned | - | - | - | 54 | - |' &&
        page_says 'Left out: other.' || return 1
    write_rows 1 && "$OUT/scripts/packing-table" --keep "$OUT/packing.json" && "$OUT/scripts/packing-table" &&
        page_says "of the networks' tensors 8 did not"
}

page_is_of_the_rows() {
    page=$OUT/docs/benchmarks/packing.md
    if [ ! -e docs/benchmarks/data/packing.json ]; then [ ! -e docs/benchmarks/packing.md ] && return; fi
    copy_of_docs && rm "$page" && "$OUT/scripts/packing-table" && cmp docs/benchmarks/packing.md "$page" &&
        [ "$(wc -l <"$page")" -le 150 ]
}

plan 4
check "packed bytes come back, and nothing behind them is written" bytes_come_back
check "kernels with one wrong bit, or without a barrier, are noticed" broken_kernels_are_noticed
check "a page is made of such rows" page_of_these_rows
check "the page in docs is made of the kept rows, and short" page_is_of_the_rows
finish
