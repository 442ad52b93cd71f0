"""A rank of scripts/gpu/check-ranks: trains as told line by line (the protocol of memory_worker.py). Several of
them make a team; each has the GPU that RANK says. A plain PyTorch program: it knows nothing of microdnn.

    join (ranks, meeting)    a process group of so many ranks, which meet in a file; the one before ends. Until
                             then no GPU is touched
    bits (net, batch, mode, optimizer, wrap, count)
                             a deterministic training: losses, hashes of what this rank has in the end, peak
    build (the same)         for timing, not deterministic
    steps (count)            iterations: milliseconds of each on average, by events
    peak, end                as in memory_worker.py; `end` leaves the process group, too

    ranks_worker.py --job FILE     one rank of torchrun: trains without end, and writes FILE.RANK after the
                                   first iteration, with the number of its process. FILE.RANK.error says why it
                                   ended, or what it was doing when it had not trained after a minute
"""
import contextlib
import faulthandler
import os
import sys
import time
import traceback

import torch

import memory_families as families
import memory_programs as programs
import memory_trainers as trainers
import memory_worker as base

RANK = int(os.environ.get("RANK", 0))
JOB = {"net": "resnet50", "batch": 32, "mode": "tf32", "optimizer": "sgd", "wrap": "ddp"}
HANGS_S = 60


def ddp(training, _):
    training.model = torch.nn.parallel.DistributedDataParallel(
        training.model, device_ids=[RANK] if programs.DEVICE == "cuda" else None)


def blocks(model):
    """The parts that are sharded each by itself."""
    if hasattr(model, "bert"):
        return [*model.bert.encoder.layer]
    return [block for name in ("layer1", "layer2", "layer3", "layer4") for block in getattr(model, name)]


def fsdp2(training, ranks):
    fsdp = families.package("torch.distributed.fsdp")
    mesh = families.package("torch.distributed.device_mesh").init_device_mesh(programs.DEVICE, (ranks,))
    training.model.to(memory_format=torch.contiguous_format)
    for part in (*blocks(training.model), training.model):
        fsdp.fully_shard(part, mesh=mesh)
    training.optimizer = programs.optimizer_of(training.arguments["optimizer"], training.model.parameters())


WRAPS = {"ddp": ddp, "fsdp2": fsdp2}


def make(command, deterministic):
    """Each rank has other labels."""
    training = families.training_of(command["net"], command["batch"], command["mode"], command["optimizer"],
                                    deterministic=deterministic, size=command.get("size"))
    if training.labels is training.data:
        training.data = training.labels = training.labels.roll(RANK, 1)
    else:
        training.labels = training.labels.roll(RANK)
    WRAPS[command["wrap"]](training, torch.distributed.get_world_size())
    return training


def leave():
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def take_gpu():
    if programs.DEVICE == "cuda":
        torch.cuda.set_device(RANK)


def join(_, command):
    leave()
    take_gpu()
    torch.distributed.init_process_group("nccl" if programs.DEVICE == "cuda" else "gloo",
                                         init_method=f"file://{command['meeting']}", rank=RANK,
                                         world_size=command["ranks"])
    return None, {}


def bits(_, command):
    base.reset_peak()
    training = make(command, True)
    losses = [training.iterate() for _ in range(command["count"])]
    states = [value for state in training.optimizer.state.values() for value in state.values()
              if isinstance(value, torch.Tensor) and value.numel() > 1]
    total = sum(trainers.words(each) for each in (*training.model.parameters(), *states))
    base.synchronize()
    return training, {"losses": base.values_of(losses), "hashes": base.hashes(training),
                      "words": int(total), **base.peaks()}


def build(_, command):
    training = make(command, False)
    base.synchronize()
    return training, {}


def steps(training, command):
    """The first iteration is not timed, since the other team used the GPUs before it."""
    training.iterate()
    base.synchronize()
    begin = time.perf_counter()
    for _ in range(command["count"]):
        training.iterate()
    base.synchronize()
    return training, {"ms": 1e3 * (time.perf_counter() - begin) / command["count"]}


def end(*_):
    leave()
    return None, {}


def job(path):
    """Until somebody ends it."""
    take_gpu()
    torch.distributed.init_process_group("nccl" if programs.DEVICE == "cuda" else "gloo")
    training = make({**JOB, **({"batch": 2, "size": 64} if programs.DEVICE == "cpu" else {})}, False)
    while True:
        training.iterate()
        base.synchronize()
        if not os.path.exists(f"{path}.{RANK}"):
            faulthandler.cancel_dump_traceback_later()
            with open(f"{path}.{RANK}.new", "w", encoding="utf-8") as file:
                file.write(str(os.getpid()))
            os.replace(f"{path}.{RANK}.new", f"{path}.{RANK}")


def explained_job(path):
    """What torchrun prints in the end hides what a rank printed before."""
    with open(f"{path}.{RANK}.error", "w", encoding="utf-8") as errors:
        faulthandler.enable(errors)
        faulthandler.dump_traceback_later(HANGS_S, file=errors)
        try:
            job(path)
        except Exception:
            traceback.print_exc(file=errors)
            raise


def main():
    if sys.argv[1:2] == ["--job"]:
        with contextlib.suppress(KeyboardInterrupt):
            explained_job(sys.argv[2])
        return 1
    base.COMMANDS.update({each.__name__: each for each in (join, bits, build, steps, end)})
    return base.main()


if __name__ == "__main__":
    sys.exit(main())
