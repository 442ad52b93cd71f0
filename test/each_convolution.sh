#!/bin/sh
# scripts/gpu/each-convolution without a GPU: a worker of test/fakes answers instead of PyTorch, and plays the
# library's part.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
export FAKE_LOG="$OUT/log"
make_stand_in

compare() { # arguments...
    rm -f "$FAKE_LOG"
    scripts/gpu/each-convolution mobilenet_v3_large bf16 --build "$BUILD" \
        --worker test/fakes/pytorch_worker.py "$@" >"$OUT/said" 2>&1
}

losses_are_shown_with_their_kernels() {
    compare && report_says each-convolution.json \
        '[(row["us"], row["noise_us"]) for row in rows] == [({"stock": 100, "library": 100}, 0),
                                                            ({"stock": 10, "library": 13}, 0)] and
         report["batch"] == 128 and rows[1]["kernels"] == {"stock": ["quick"], "library": ["slow"]}' || return 1
    for text in 'all: 2 operators, stock 110.0 us, library 113.0 us, ratio 0.973' \
        'the same kernels: 1 operators, stock 100.0 us' \
        'other kernels, shorter than 20 us in stock: 1 operators, stock 10.0 us, library 13.0 us, ratio 0.769' \
        '+3.0 us (10.0 -> 13.0, equal ones 0.0)  aten::convolution_backward 2x3'; do
        grep -qF -- "$text" "$OUT/said" || { echo "not said: $text"; cat "$OUT/said"; return 1; }
    done
}

two_processes_of_each() { # in turn; the library's with its settings
    compare --set-option CONVOLUTION_WORKSPACE_LIMIT=8MiB &&
        [ "$(tr '\n' ' ' <"$FAKE_LOG")" = "stock mobilenet_v3_large bf16 8MiB mobilenet_v3_large bf16 \
8MiB mobilenet_v3_large bf16 stock mobilenet_v3_large bf16 " ]
}

others_cannot_be_compared() {
    ! FAKE_WRONG=shapes compare && grep -q 'do not run the same operators' "$OUT/said"
}

iterations_with_others_are_not_mixed() {
    ! FAKE_WRONG=order compare && grep -q 'library 1: its iterations do not run the same' "$OUT/said"
}

failures_are_said() { ! FAKE_WRONG=crash compare && grep -q '^each-convolution: library 1: ended' "$OUT/said"; }

# The profiler's events: nested operators, each once, in the order of their calls.
operators_are_read() {
    PYTHONPATH=scripts/gpu:test/fakes/torch PYTHONDONTWRITEBYTECODE=1 python3 - <<'END'
from types import SimpleNamespace
import pytorch_worker as worker

def event(name, start, *kernels, children=(), shapes=()):
    made = SimpleNamespace(name=name, cpu_parent=None, cpu_children=list(children), input_shapes=list(shapes),
                           time_range=SimpleNamespace(start=start),
                           kernels=[SimpleNamespace(name=kernel, duration=us) for kernel, us in kernels])
    for child in children:
        child.cpu_parent = made
    return made

inner = event("aten::convolution", 3, ("gemm", 4), children=[event("aten::add_", 4, ("add", 1))])
backward = event("ConvolutionBackward0", 10, children=[
    event("aten::convolution_backward", 11, ("dgrad", 5), shapes=[[2, 3], [], [4]], children=[
        inner, event("cudaLaunchKernel", 12, ("dgrad", 5))])])
forward = event("aten::conv2d", 1, children=[event("aten::convolution", 2, ("gemm", 7), shapes=[[1]])])
events = [backward, *backward.cpu_children, inner, forward, *forward.cpu_children, event("aten::relu", 0, ("r", 9))]
read = worker.operators(events)
assert read == [["aten::convolution", [[1]], ["gemm"], 7],
                ["aten::convolution_backward", [[2, 3], [4]], ["dgrad", "gemm", "add"], 10]], read
END
}

plan 6
check 'what is slower is shown with its kernels' losses_are_shown_with_their_kernels
check 'two processes of each kind run in turn' two_processes_of_each
check 'sides with other operators are not compared' others_cannot_be_compared
check "operators of a process's iterations are not mixed" iterations_with_others_are_not_mixed
check 'a process that fails is said' failures_are_said
check "a profile's convolutions are read in the order of their calls" operators_are_read
finish
