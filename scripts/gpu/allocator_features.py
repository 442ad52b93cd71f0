"""What PyTorch's cudaMallocAsync backend does not support: allocator_features.py FEATURE prints one line of JSON. A plain
PyTorch program: it knows nothing of microdnn. check-features starts it.
"""
import hashlib
import json
import sys

import torch
from torch import nn
import torch.multiprocessing as processes

STEPS, BATCH, WIDTH = 6, 2048, 4096


def network():
    torch.manual_seed(1)
    return nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU()))).cuda()


def train(model, called):
    """Losses of some steps, as the bits of floats."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    data = torch.randn(BATCH, WIDTH, device="cuda", generator=torch.Generator("cuda").manual_seed(2))
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        loss = called(data).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses


def compiled():
    model = network()
    return train(model, torch.compile(model, mode="reduce-overhead"))


def history():
    torch.cuda.memory._record_memory_history(max_entries=10000)  # pylint: disable=protected-access
    model = network()
    losses = train(model, model)
    snapshot = torch.cuda.memory._snapshot()  # pylint: disable=protected-access
    assert snapshot["segments"] and any(snapshot["device_traces"])
    return losses


def pool():
    model = network()
    own = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(own):
        kept = [torch.full((64 << 20,), float(i), device="cuda") for i in range(4)]
    losses = train(model, model)
    return losses + [each.sum().item().hex() for each in kept]


def change(shared, done):
    shared.mul_(3)
    torch.cuda.synchronize()
    done.put(shared.sum().item())


def shared():
    context = processes.get_context("spawn")
    done = context.Queue()
    tensor = torch.arange(8 << 20, device="cuda", dtype=torch.float32)
    child = context.Process(target=change, args=(tensor, done))
    child.start()
    there = done.get(timeout=60)
    child.join(60)
    return [there.hex(), tensor.sum().item().hex(), hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest()]


def main():
    torch.use_deterministic_algorithms(True)
    feature = {"compiled": compiled, "history": history, "pool": pool, "shared": shared}[sys.argv[1]]
    try:
        print(json.dumps({"result": feature(), "peak": torch.cuda.max_memory_allocated()}))
    except Exception as error:  # pylint: disable=broad-except
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:400]}))
        sys.exit(1)


if __name__ == "__main__":
    main()
