"""Runs operators of PyTorch as told line by line (the protocol of memory_worker.py). A plain PyTorch
program: it knows nothing of microdnn.

    cases ()          their names
    ballast (bytes)   from here on, so many bytes are used between the operations of a case
    run (case, seed, samples, seconds)
                      the case's first samples, forward and backward, until there are so many or so
                      much time has passed: {"digests": [one hash of all results for each sample]}.
                      An error of the program is hashed like a result. An error of the GPU is
                      {"fault": text}, after which this process can do nothing more
"""
import hashlib
import itertools
import json
import os
import random
import sys
import time
import traceback
import warnings

import numpy
import torch

import operator_cases

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# What a driver says after which a context does nothing more, and what PyTorch and the libraries make of it.
FAULTS = ("CUDA error", "illegal memory access", "CUDNN_STATUS", "CUBLAS_STATUS", "CUFFT_", "cusolver error",
          "CUSPARSE_STATUS", "cuda runtime error", "unspecified launch failure")


class Ballast:
    """Memory that the program uses between its operations, so that what they use has to leave."""

    BLOCK = 8 << 20

    def __init__(self, size):
        self.blocks = [torch.zeros(self.BLOCK, dtype=torch.uint8, device=DEVICE)
                       for _ in range(size // self.BLOCK)]

    def use(self):
        for block in self.blocks:
            block.bitwise_not_()


class Worker:
    def __init__(self):
        self.cases = operator_cases.all_cases(DEVICE)
        self.ballast = Ballast(0)


def is_fault(error):
    """Whether the GPU does nothing more: a library refuses some arguments with errors that look the same."""
    if type(error).__name__ != "AcceleratorError" and \
            not any(text.lower() in str(error).lower() for text in FAULTS):
        return False
    try:
        torch.zeros(1, device=DEVICE).item()
    except Exception:  # pylint: disable=broad-except
        return True
    return False


def digest_of(values):
    digest = hashlib.sha256()
    for tensor in operator_cases.tensors_in(values):
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)} {tensor.layout}".encode())
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        flat = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()[:16]


def gradients(operands, results):
    """Of all results together, by gradients of ones, in the operands that want them."""
    roots = [each for each in operator_cases.tensors_in(results)
             if each.requires_grad and (each.is_floating_point() or each.is_complex())]
    leaves = [each for each in operator_cases.tensors_in(operands) if each.requires_grad and each.is_leaf]
    if not roots or not leaves:
        return ()
    return torch.autograd.grad(roots, leaves, [torch.ones_like(each) for each in roots], allow_unused=True)


def run_sample(operands, run, ballast):
    """The hash of what one sample leaves behind."""
    ballast.use()
    results = run()
    ballast.use()
    found = gradients(operands, results)
    ballast.use()
    return digest_of([results, list(found), operands])


def sample_digest(sample, ballast):
    try:
        return run_sample(*sample, ballast)
    except Exception as error:  # pylint: disable=broad-except
        if is_fault(error):
            raise
        return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def seed_all(seed):
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)


def cases(worker, _):
    return {"cases": list(worker.cases)}


def ballast(worker, command):
    worker.ballast = Ballast(command["bytes"])
    return {}


def run(worker, command):
    end = time.monotonic() + command["seconds"]
    digests, samples = [], None
    seed_all(command["seed"])
    try:
        samples = iter(worker.cases[command["case"]].samples())
        for index in itertools.count():
            seed_all(command["seed"] + index)
            sample = next(samples, None) if index < command["samples"] else None
            if sample is None or (digests and time.monotonic() > end):
                break
            digests.append(sample_digest(sample, worker.ballast))
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    except Exception as error:  # pylint: disable=broad-except
        if is_fault(error):
            return {"fault": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", "sample": len(digests)}
        digests.append(f"{type(error).__name__}: {' '.join(str(error).split())[:120]}")
    return {"digests": digests}


COMMANDS = {each.__name__: each for each in (cases, ballast, run)}


def main():
    # Whatever else prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    worker = Worker()
    answer({"device": torch.cuda.get_device_name() if DEVICE == "cuda" else "cpu", "torch": torch.__version__})
    for line in sys.stdin:
        command = json.loads(line)
        try:
            result = COMMANDS[command["do"]](worker, command)
        except Exception as error:  # pylint: disable=broad-except
            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"}
        answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
