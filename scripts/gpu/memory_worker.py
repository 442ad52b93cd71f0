"""Trains as told line by line (the protocol of pytorch_worker.py): a JSON object on each line of the
standard input, answered by one on one line. memory-check runs one process for each of its rows. A
plain PyTorch program: it knows nothing of microdnn.

    context ()        makes the GPU's context and the libraries' handles, but trains nothing yet
    program (net, batch, mode, optimizer, program, count)
                      a deterministic training, perhaps with another seed than 0: losses, and hashes of all
                      that it leaves behind.
                      A refused allocation is an answer: {"refused": {type, text}}; so is a
                      program that this machine cannot run: {"skipped": why}
    build (net, batch, mode)    for timing: with cudnn.benchmark, not deterministic; perhaps optimizer, size, and
                      whether each iteration reads its loss
    warm (count, seconds)    so many iterations, then more for so long: seconds, iterations, first losses
    step (count)      iterations: milliseconds of each on average, by events, host time too
    save_on_cpu ()    from here on what backward needs is kept in pinned host memory, by PyTorch
    peak ()           one iteration, or as many as show it: bytes at the peak
    largest (net, mode, bytes, low, high)    the largest batch that trains within so many bytes
    ioctls            requests to the kernel driver so far, by number, where memory_ioctls.c is preloaded
    end               drops the model
"""
import contextlib
import ctypes
import gc
import hashlib
import json
import math
import os
import sys
import time
import traceback

import torch
import torchvision

import memory_families as families
import memory_programs as programs
import memory_trainers as trainers

AHEAD = 2  # iterations
LOSSES = 20  # kept of a warm-up


# --- Results that can be compared bit by bit ------------------------------------------------------
def hash_tensors(tensors):
    """Of (name, tensor)..., in order; one tensor at a time comes to the host. Of a tensor in shards, the
    own one."""
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(name.encode())
        if isinstance(tensor, torch.Tensor):
            own = tensor.to_local() if hasattr(tensor, "to_local") else tensor
            flat = own.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        else:
            digest.update(repr(tensor).encode())
    return digest.hexdigest()[:32]


def optimizer_state(optimizer):
    for index, state in optimizer.state_dict()["state"].items():
        for name, value in sorted(state.items()):
            yield f"{index}.{name}", value


def hashes(training):
    """Weights, statistics of BatchNorm and the optimizer's state."""
    return {"weights": hash_tensors(training.model.named_parameters()),
            "statistics": hash_tensors(training.model.named_buffers()),
            "optimizer": hash_tensors(optimizer_state(training.optimizer))}


def values_of(losses):
    """As Python numbers, which print with all their bits; None where one is no number."""
    numbers = [loss.item() for loss in losses]
    return [number if math.isfinite(number) else None for number in numbers]


# --- Commands -------------------------------------------------------------------------------------
def synchronize():
    if programs.DEVICE == "cuda":
        torch.cuda.synchronize()


def reset_peak():
    if programs.DEVICE == "cuda":
        torch.cuda.init()  # without it there are no statistics yet
        torch.cuda.reset_peak_memory_stats()


def peaks():
    if programs.DEVICE != "cuda":
        return {"peak": 0, "reserved": 0}
    return {"peak": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}


# A launch that found no memory inside cuDNN is told so; where the workspace or the launch of every engine
# was refused, PyTorch says that there is none.
REFUSALS = ("out of memory", "cudnn_status_execution_failed_cudart",
            "unable to find an engine to execute this computation")


def is_refusal(error):
    """Also those that are not of the type that they should have; whether the library refused anything
    is seen on its log."""
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error).lower() for text in REFUSALS)


def describe(error):
    return {"type": type(error).__name__, "text": " ".join(str(error).split())[:300]}


def context(training, _):
    torch.cuda.init()
    torch.cuda.current_stream().synchronize()
    return training, {}


def train(command):
    # Without cuDNN convolutions sum in another order: by so much may other algorithms differ.
    torch.backends.cudnn.enabled = not command.get("other_algorithms", False)
    training = families.training_of(command["net"], command["batch"], command["mode"],
                                    command["optimizer"], size=command.get("size"), seed=command.get("seed", 0))
    losses = {**programs.PROGRAMS, **trainers.PROGRAMS}[command["program"]](training, command["count"])
    synchronize()
    return training, values_of(losses)


def program(_, command):
    begin = time.perf_counter()
    reset_peak()
    try:
        training, losses = train(command)
    except programs.Skipped as why:
        return None, {"skipped": str(why)}
    except Exception as error:  # pylint: disable=broad-except
        if not is_refusal(error):
            raise
        return None, {"refused": describe(error)}
    return training, {"losses": losses, "hashes": hashes(training), **peaks(),
                      "seconds": time.perf_counter() - begin}


def build(_, command):
    training = families.training_of(command["net"], command["batch"], command["mode"],
                                    command.get("optimizer", "sgd"), deterministic=False,
                                    benchmark=command.get("benchmark", True), size=command.get("size"))
    training.reads = command.get("reads", False)
    synchronize()
    return training, {}


def iterate(training):
    """The loss of an iteration, which people print or not."""
    loss = training.iterate()
    if getattr(training, "reads", False):
        loss.item()
    return loss


def warm(training, command):
    """`count` iterations, then `seconds` more of them: the first ones may search for a minute. The host
    stays two iterations ahead, or a time on its clock would say nothing of the GPU's."""
    begin, count, losses, marks = time.perf_counter(), 0, [], []
    counted = begin
    while count < command["count"] or time.perf_counter() - counted < command.get("seconds", 0):
        loss = iterate(training)
        losses += [loss] if count < LOSSES else []
        count += 1
        if count == command["count"]:
            counted = time.perf_counter()
        if programs.DEVICE == "cuda":
            marks.append(torch.cuda.Event())
            marks[-1].record()
            if len(marks) > AHEAD:
                marks.pop(0).synchronize()
    synchronize()
    return training, {"seconds": time.perf_counter() - begin, "iterations": count,
                      "losses": values_of(losses)}


def step(training, command):
    """One iteration goes before the others untimed: the other process had the GPU until now."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    iterate(training)
    synchronize()
    host = time.perf_counter()
    begin.record()
    for _ in range(command["count"]):
        iterate(training)
    end.record()
    synchronize()
    return training, {"ms": begin.elapsed_time(end) / command["count"],
                      "host_ms": 1e3 * (time.perf_counter() - host) / command["count"]}


def save_on_cpu(training, _):
    """PyTorch's own way to train with less memory."""
    plain_loss = training.loss

    def loss(data, labels):
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return plain_loss(data, labels)

    training.loss = loss
    return training, {}


def peak(training, _):
    torch.cuda.empty_cache()
    reset_peak()
    for _ in range(training.PEAK_ITERATIONS):
        training.iterate()
    synchronize()
    return training, peaks()


def trains(command, batch):
    """Whether a batch trains: two iterations, so that all gradients and the optimizer's state live."""
    try:
        training = programs.Training(command["net"], batch, command["mode"], deterministic=False)
        programs.plain(training, 2)
        synchronize()
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        training = None
        gc.collect()
        torch.cuda.empty_cache()


def largest(_, command):
    """By halving; `low` must train and `high` must not, or the answer says so."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(command["bytes"] / total)
    low, high, unit = command["low"], command["high"], command.get("unit", 4)
    answer = {"low_trains": trains(command, low), "high_trains": trains(command, high)}
    while high - low > unit:
        middle = (low + high) // 2
        if trains(command, middle):
            low = middle
        else:
            high = middle
    torch.cuda.set_per_process_memory_fraction(1.0)
    return None, {**answer, "batch": low, "next": high}


def ioctls(training, _):
    numbers = 256  # mirrored in memory_ioctls.c
    try:
        read = ctypes.CDLL(None).memory_ioctls
    except AttributeError:
        return training, {"control": None, "unified": None}
    counts = (ctypes.c_uint64 * (2 * numbers))()
    read(counts)
    return training, {kind: {f"{number:#x}": counts[first + number] for number in range(numbers)
                             if counts[first + number]}
                      for kind, first in (("control", 0), ("unified", numbers))}


def end(*_):
    return None, {}


COMMANDS = {each.__name__: each for each in (context, program, build, warm, step, save_on_cpu, peak,
                                             largest, ioctls, end)}


def facts():
    """Without a CUDA call that would make a context: what comes before the first allocation is
    measured too."""
    return {"torch": torch.__version__, "torchvision": torchvision.__version__,
            "cuda": torch.version.cuda}


def more_facts():
    if programs.DEVICE != "cuda":
        return {"device": "no GPU", "cudnn": 0, "memory_bytes": 0}
    return {"device": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version(),
            "memory_bytes": torch.cuda.get_device_properties(0).total_memory}


COMMANDS["facts"] = lambda training, _: (training, more_facts())


def main():
    # Whatever else prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    answer(facts())
    training = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            training, result = COMMANDS[command["do"]](training, command)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            training, result = None, {"error": f"{type(error).__name__}: {error}"}
        if training is None:
            gc.collect()
            with contextlib.suppress(Exception):
                torch.cuda.empty_cache()
        answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
