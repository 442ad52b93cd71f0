"""memory_worker.py with an allocator that gives each larger tensor device and host memory side by side
(mixed_allocator.cu, the library $MIXED_ALLOCATOR; without it PyTorch's own), and two commands more:

    names ()                 the names of all operations of mixed_operators.py
    operator (name, file)    that operation, twice: {"crc": of its bytes, "again": whether both times the
                             same, "ms", "kernels"}. The first worker writes samples of the values to
                             `file`, later ones compare: {"off": largest difference, of the largest value}

It imports the module $MIXED_IMPORT, if that names one, before it says that it is ready.
"""
import contextlib
import os
import sys
import zlib

import torch

import memory_families
import memory_worker
import mixed_operators

SAMPLES = 1 << 16


def install_allocator():
    library = os.environ.get("MIXED_ALLOCATOR")
    if not library:
        return
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "mixed_malloc", "mixed_free")
    torch.cuda.memory.change_current_allocator(allocator)
    # It has no statistics.
    memory_worker.reset_peak = lambda: None
    memory_worker.peaks = lambda: {"peak": 0, "reserved": 0}


def import_ahead():
    """What a network needs beside PyTorch; without it the network itself is skipped."""
    name = os.environ.get("MIXED_IMPORT")
    if name:
        with contextlib.suppress(memory_families.Skipped):
            memory_families.package(name)


def checksum(tensors):
    crc = 0
    for tensor in tensors:
        crc = zlib.crc32(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data, crc)
    return crc


def samples_of(tensors):
    picked = []
    for tensor in tensors:
        flat = tensor.detach().reshape(-1)
        picked.append(flat[::max(1, flat.numel() // SAMPLES)].double().cpu())
    return picked


def compare(found, file):
    """Whoever comes first writes what the others compare."""
    samples = samples_of(found)
    if not os.path.exists(file):
        torch.save(samples, file)
        return 0.0
    return max(((mine - other).abs().max() / other.abs().max().clamp(min=1e-30)).item()
               for mine, other in zip(samples, torch.load(file)))


def kernels_of(operation):
    """The longest three, where the device lets itself be profiled."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            operation()
            torch.cuda.synchronize()
        rows = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
        return [row.key[:120] for row in rows[:3]]
    except Exception as error:  # pylint: disable=broad-except
        return [f"{type(error).__name__}: {error}"[:120]]


def timed(operation):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    found = operation()
    end.record()
    torch.cuda.synchronize()
    return found, begin.elapsed_time(end)


def operator(training, command):
    operation = mixed_operators.OPERATORS[command["name"]]
    crc = checksum(operation())
    found, ms = timed(operation)
    answer = {"crc": crc, "again": checksum(found) == crc, "ms": ms, "off": compare(found, command["file"])}
    if command.get("profile"):
        answer["kernels"] = kernels_of(operation)
    return training, answer


def names(training, _):
    return training, {"names": list(mixed_operators.OPERATORS)}


memory_worker.COMMANDS.update(names=names, operator=operator)

if __name__ == "__main__":
    install_allocator()
    import_ahead()
    sys.exit(memory_worker.main())
