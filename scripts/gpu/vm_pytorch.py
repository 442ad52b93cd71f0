"""What PyTorch does in one of its ways to allocate memory, as told line by line (see
pytorch_worker.py for the protocol); vm-experiments runs one of these for each way, with vm_count.c
preloaded. Its own environment says which way; nothing here depends on it.

    prepare           the first CUDA call, and what the first convolution loads
    check (name)      one of CHECKS; an exception in it is its answer
    net, step, end    as in pytorch_worker.py; step adds the allocations of an iteration
"""
import contextlib
import ctypes
import gc
import json
import os
import sys
import time
import traceback

import torch

import pytorch_worker

GIB, MIB = 1 << 30, 1 << 20
# As in vm_count.c.
FUNCTIONS = ("cudaMalloc", "cudaMallocAsync", "cudaMallocFromPoolAsync", "cudaFree", "cudaFreeAsync")
VALUES = 3 * len(FUNCTIONS) + 3
LEFT = 6 * GIB  # of device memory beside a ballast
SLEEP_CYCLES = 120_000_000  # about 60 ms


def counts(reset=True):
    function = getattr(ctypes.CDLL(None), "vm_counts", None)
    if function is None:
        return None
    values = (ctypes.c_uint64 * VALUES)()
    function(values, int(reset))
    size = len(FUNCTIONS)
    calls = {name: {"calls": values[i], "us": values[size + i] / 1e3,
                    "longest_us": values[2 * size + i] / 1e3}
             for i, name in enumerate(FUNCTIONS) if values[i]}
    return {"functions": calls, "refused": values[3 * size], "largest": values[3 * size + 1],
            "largest_refused": values[3 * size + 2]}


def describe(error):
    kinds = [name for name, kind in (("OutOfMemoryError", torch.OutOfMemoryError),
                                     ("RuntimeError", RuntimeError)) if isinstance(error, kind)]
    return {"type": type(error).__name__, "is": kinds, "text": " ".join(str(error).split())[:400]}


def attempt(function):
    """What it returned, or its exception in words; the result itself is dropped."""
    try:
        return {"value": function()}
    except Exception as error:  # pylint: disable=broad-except
        return describe(error)


def still_works():
    return attempt(lambda: float(torch.ones(1000, device="cuda").sum().item()) == 1000.0)


def empty_cache():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def free_bytes():
    return torch.cuda.mem_get_info()[0]


@contextlib.contextmanager
def ballast(left=LEFT):
    """Takes the device's memory but `left` bytes, outside PyTorch and its allocator."""
    driver = ctypes.CDLL("libcuda.so.1")
    empty_cache()
    pointer, size = ctypes.c_uint64(0), free_bytes() - left
    if size <= 0:
        raise MemoryError(f"less than {left} bytes are free")
    status = driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    if status:
        raise MemoryError(f"cuMemAlloc of {size} bytes returned {status}")
    try:
        yield
    finally:
        torch.cuda.synchronize()
        driver.cuMemFree_v2(pointer)


def tensor_bytes(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


# --- Checks ---------------------------------------------------------------------------------------
def statistics():
    """Deltas in MiB of a tensor of 100 MiB: while it lives, afterwards; calls of an empty tensor."""
    empty_cache()
    torch.cuda.reset_peak_memory_stats()

    def read():
        return [value / MIB for value in (
            torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
            torch.cuda.memory_reserved(), -free_bytes())]

    before = read()
    tensor = tensor_bytes(100 * MIB)
    during = read()
    del tensor
    torch.cuda.synchronize()
    after = read()
    counts()
    nothing = tensor_bytes(0)
    empty = counts()
    del nothing
    names = ("allocated", "peak", "reserved", "device")
    return {"during": {name: b - a for name, a, b in zip(names, before, during)},
            "after": {name: b - a for name, a, b in zip(names, before, after)},
            "empty_tensor": empty}


class AllocateInBackward(torch.autograd.Function):
    """Its backward needs more than there is."""

    @staticmethod
    def forward(ctx, value):  # pylint: disable=arguments-differ
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):  # pylint: disable=arguments-differ
        tensor_bytes(LEFT + GIB)
        return gradient


def out_of_memory():
    with ballast():
        before = torch.cuda.memory_allocated()
        forward = attempt(lambda: tensor_bytes(LEFT + GIB).numel())
        kept = torch.cuda.memory_allocated() == before
        works = still_works()
        value = torch.ones(8, device="cuda", requires_grad=True)
        backward = attempt(lambda: AllocateInBackward.apply(value).sum().backward())
        many = attempt(fill_up)
        return {"forward": forward, "statistics_kept": kept, "works_afterwards": works,
                "backward": backward, "many_small": many, "works_at_last": still_works()}


def fill_up():
    tensors = []
    while len(tensors) < 100:
        tensors.append(tensor_bytes(200 * MIB))
    return len(tensors)


def record_stream_case(recorded, count=16 * MIB):
    """A tensor of the main stream is dropped while a slow side stream has still to read it, and its
    size is allocated and filled again at once."""
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    source, copy = torch.full((count,), 1.0, device="cuda"), torch.zeros(count, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP_CYCLES)  # pylint: disable=protected-access
        copy.copy_(source)
    if recorded:
        source.record_stream(side)
    address = source.data_ptr()
    begin = time.perf_counter()
    del source
    freed = time.perf_counter()
    again = torch.full((count,), 2.0, device="cuda")
    allocated = time.perf_counter()
    main.synchronize()
    ended = time.perf_counter()
    torch.cuda.synchronize()
    return {"kept": bool((copy == 1.0).all().item()), "right": bool((again == 2.0).all().item()),
            "same_address": again.data_ptr() == address, "free_ms": 1e3 * (freed - begin),
            "allocate_ms": 1e3 * (allocated - freed), "main_stream_ms": 1e3 * (ended - allocated)}


def record_stream():
    """Without record_stream the content may be lost: it shows what the other case rests on."""
    record_stream_case(True)  # whatever is loaded at first
    return {"recorded": record_stream_case(True), "not_recorded": record_stream_case(False)}


def captured_graph(size):
    source = torch.full((size,), 1.0, device="cuda")
    image, weight = torch.ones(8, 16, 32, 32, device="cuda"), torch.ones(16, 16, 3, 3, device="cuda")
    torch.nn.functional.conv2d(image, weight, padding=1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        doubled = source * 2
        result = (doubled + 1).relu()
        del doubled
        convolved = torch.nn.functional.conv2d(image, weight, padding=1)
    return graph, source, result, convolved, (image, weight)


def capture(size=MIB):
    """New allocations in a capture; others between the replays, which must not meet."""
    counts()
    # A capture that fails would leave its stream current.
    with torch.cuda.stream(torch.cuda.current_stream()):
        # A replay reads the inputs of the convolution, so they must live on.
        graph, source, result, convolved, _inputs = captured_graph(size)
    calls = counts()
    right, others = [], []
    for round_number in range(3):
        source.fill_(float(round_number))
        others += [torch.full((size,), 9.0, device="cuda") for _ in range(8)]
        graph.replay()
        torch.cuda.synchronize()
        right.append(bool((result == 2.0 * round_number + 1).all().item()))
        right.append(float(convolved[0, 0, 5, 5].item()) == 144.0)
        right.append(all(bool((other == 9.0).all().item()) for other in others))
    return {"right": all(right), "calls": calls, "works_afterwards": still_works()}


def limited_convolution(image, weight, expected, benchmark, room):
    """With too little memory for the workspace that was used before."""
    torch.backends.cudnn.benchmark = benchmark
    with ballast():
        filler = tensor_bytes(max(0, free_bytes() - expected.numel() * 4 - room))
        left = free_bytes()
        counts()
        begin = time.perf_counter()

        def convolve():
            result = torch.nn.functional.conv2d(image, weight, padding=1)
            torch.cuda.synchronize()
            return ((result - expected).norm() / expected.norm()).item()

        outcome = attempt(convolve)
        seconds = time.perf_counter() - begin
        del filler
    return {"relative_error": outcome, "ms": 1e3 * seconds, "free": left, "calls": counts()}


def convolution():
    """conv3 of AlexNet at batch 256, strict fp32: its plans want up to 273 MiB of workspace. The
    difference of results needs two outputs' memory more."""
    torch.backends.cudnn.allow_tf32 = False
    image, weight = torch.randn(256, 192, 13, 13, device="cuda"), torch.randn(384, 192, 3, 3,
                                                                              device="cuda")
    room = 160 * MIB
    answer = {}
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        counts()
        expected = torch.nn.functional.conv2d(image, weight, padding=1)
        torch.cuda.synchronize()
        answer[f"benchmark={benchmark}"] = {
            "largest_unlimited": counts()["largest"],
            "limited": limited_convolution(image, weight, expected, benchmark, room)}
    answer["works_afterwards"] = still_works()
    torch.backends.cudnn.benchmark = False
    return answer


CHECKS = {each.__name__: each for each in (statistics, out_of_memory, record_stream, convolution,
                                           capture)}


# --- Commands -------------------------------------------------------------------------------------
def prepare(training, _):
    torch.cuda.init()
    image = torch.randn(4, 16, 32, 32, device="cuda")
    torch.nn.functional.conv2d(image, torch.randn(16, 16, 3, 3, device="cuda"))
    torch.cuda.synchronize()
    return training, {**pytorch_worker.facts(), "backend": torch.cuda.get_allocator_backend(),
                      "counting": counts() is not None}


def check(training, command):
    begin = time.perf_counter()
    try:
        answer = CHECKS[command["name"]]()
    except Exception as error:  # pylint: disable=broad-except
        traceback.print_exc()
        answer = {"failed": describe(error), "works_afterwards": still_works()}
    return training, {**answer, "seconds": time.perf_counter() - begin}


def step(training, command):
    counts()
    torch.cuda.reset_peak_memory_stats()
    training, answer = pytorch_worker.step(training, command)
    return training, {**answer, "calls": counts(), "iterations": command["count"] + 1,
                      "peak": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.memory_reserved()}


COMMANDS = {"prepare": prepare, "check": check, "net": pytorch_worker.net, "step": step,
            "end": pytorch_worker.end}


def main():
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer({"torch": torch.__version__})  # without CUDA: others measure on the device now
    training = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            training, result = COMMANDS[command["do"]](training, command)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        if command["do"] == "end":
            gc.collect()
            torch.cuda.empty_cache()
        answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
