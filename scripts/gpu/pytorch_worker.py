"""Trains torchvision networks, or single layers, on fixed random data, as told line by line: each line of
the standard input is a JSON object {"do": COMMAND, ...}, each answered by one JSON object on one line. A
plain PyTorch program: it knows nothing of microdnn. bench-pytorch runs several of them side by side.

    net (net, batch, mode, benchmark)   builds the model, its data and its optimizer
    warm (count)      iterations with everything that first ones cost: seconds, losses
    settle (count)    gives cached memory back, iterates: milliseconds of an iteration
    step (count)      iterations: milliseconds of each on average, by events
    conv (count)      iterations under the profiler: milliseconds of convolutions in each, on the GPU
    each              one iteration under the profiler: its convolutions, each with input shapes, kernels,
                      microseconds on the GPU, in the order of the host's calls
    memory            one iteration: bytes at its peak, largest workspaces
    end               drops the model

The first line of the output, without a command, says what machine and versions these are.
"""
import contextlib
import gc
import json
import math
import os
import sys
import time
import traceback

import torch
import torchvision

DEVICE = "cuda"
# Random data makes the first losses of deep networks jump at usual rates, so that any two choices of
# algorithms part after three iterations and nothing can be compared.
LEARNING_RATE = 0.0005
# Operators that a convolution is, with all that happens below them, and those of cuDNN's work alone:
# without the addition of the bias and its gradient, which are operators of their own.
WHOLE = {"aten::convolution": "total", "aten::convolution_backward": "total"}
KERNELS = {"aten::cudnn_convolution": "total", "aten::convolution_backward": "self"}


# Those of ResNet-50 that probes of its convolutions sum: count, channels, size, filters, their size, stride,
# padding.
RESNET50_LAYERS = ((1, 3, 224, 64, 7, 2, 3), (3, 64, 56, 64, 3, 1, 1), (3, 64, 56, 256, 1, 1, 0),
                   (3, 128, 28, 128, 3, 1, 1), (5, 256, 14, 256, 3, 1, 1), (6, 256, 14, 1024, 1, 1, 0),
                   (2, 512, 7, 512, 3, 1, 1))


class SingleLayers(torch.nn.Module):
    """Convolutions beside each other instead of one behind the other. All but those of the images have
    an input of their own that wants a gradient, as it would inside a network; the loss is the sum of
    their outputs' mean squares."""

    def __init__(self, layers, batch):
        super().__init__()
        self.convolutions, self.inputs = torch.nn.ModuleList(), []
        for count, channels, size, filters, kernel, stride, padding in layers:
            for _ in range(count):
                self.convolutions.append(
                    torch.nn.Conv2d(channels, filters, kernel, stride, padding, bias=False))
                self.inputs.append(None if channels == 3 else
                                   torch.randn(batch, channels, size, size).requires_grad_())

    def forward(self, images):
        loss = 0.0
        for convolution, own in zip(self.convolutions, self.inputs):
            if own is not None:
                own.grad = None  # no parameter, so that no optimizer changes or forgets it
            loss = loss + convolution(images if own is None else own).square().mean()
        return loss


def model_of(net, batch):
    if net == "resnet50_layers":
        return SingleLayers(RESNET50_LAYERS, batch)
    return torchvision.models.get_model(net, weights=None)


class Training:
    """A network in one of the modes fp32 (strict), tf32, and bf16: autocast and channels-last."""

    def __init__(self, net, batch, mode, benchmark):
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = benchmark
        torch.backends.cudnn.allow_tf32 = mode != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = mode != "fp32"
        layout = torch.channels_last if mode == "bf16" else torch.contiguous_format
        with torch.device(DEVICE):
            model = model_of(net, batch)
            data = torch.randn(batch, 3, 224, 224)
            self.labels = torch.randint(1000, (batch,))
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # its masks depend on the launch order of other kernels
        self.model = model.train().to(memory_format=layout)
        self.data = data.to(memory_format=layout)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
        self.mode = mode

    def loss(self):
        outputs = self.model(self.data)
        return (torch.nn.functional.cross_entropy(outputs, self.labels) if outputs.dim() > 0
                else outputs)

    def iterate(self):
        """Returns the loss, on the GPU and without waiting for it."""
        self.optimizer.zero_grad()
        casts = (torch.autocast(DEVICE, torch.bfloat16) if self.mode == "bf16"
                 else contextlib.nullcontext())
        with casts:
            loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def net(_, command):
    torch.cuda.reset_peak_memory_stats()
    training = Training(command["net"], command["batch"], command["mode"], command["benchmark"])
    torch.cuda.synchronize()
    return training, {}


def warm(training, command):
    begin = time.perf_counter()
    losses = [training.iterate() for _ in range(command["count"])]
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    values = [loss.item() for loss in losses]
    return training, {"seconds": seconds,
                      "losses": [value if math.isfinite(value) else None for value in values]}


def step(training, command):
    """One iteration goes before the others untimed: the other process had the GPU until now."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    training.iterate()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(command["count"]):
        training.iterate()
    end.record()
    torch.cuda.synchronize()
    return training, {"ms": begin.elapsed_time(end) / command["count"]}


def settle(training, command):
    """After a search: the workspaces of every plan it tried lie in the cache, and another process
    may need that memory."""
    torch.cuda.empty_cache()
    return step(training, command)


def own_us(event):
    """Of the kernels that an operator launched itself. Operators are named NAMESPACE::NAME. What else the
    profiler puts below one (calls of the run time, and CUPTI's overheads such as "Command Buffer Full")
    may bear an operator's number and then claims that operator's kernels once more."""
    return sum(kernel.duration for kernel in event.kernels) if "::" in event.name else 0


def total_us(event):
    return own_us(event) + sum(total_us(child) for child in event.cpu_children)


def chosen_us(event, kinds):
    """Of the chosen operators in a tree of events; one inside another that counts whole is part of that."""
    kind = kinds.get(event.name)
    if kind == "total":
        return total_us(event)
    return ((own_us(event) if kind == "self" else 0)
            + sum(chosen_us(child, kinds) for child in event.cpu_children))


def sum_us(events, kinds):
    """Not the profiler's own sums, which have overheads in them."""
    return sum(chosen_us(event, kinds) for event in events if event.cpu_parent is None)


def profiled(training, count, **options):
    """The profiler's events of `count` iterations."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, **options) as profile:
        for _ in range(count):
            training.iterate()
        torch.cuda.synchronize()
    return profile.events()


def conv(training, command):
    events = profiled(training, command["count"])
    return training, {"ms": sum_us(events, WHOLE) / 1000 / command["count"],
                      "kernels_ms": sum_us(events, KERNELS) / 1000 / command["count"]}


def kernels_of(event):
    """Names of what an operator and those below it launched."""
    own = [kernel.name for kernel in event.kernels] if "::" in event.name else []
    return own + [name for child in event.cpu_children for name in kernels_of(child)]


def outermost(events, kinds):
    """Those of the chosen operators that are in no other of them."""
    for event in events:
        if event.name in kinds:
            yield event
        else:
            yield from outermost(event.cpu_children, kinds)


def operators(events):
    chosen = sorted(outermost([event for event in events if event.cpu_parent is None], WHOLE),
                    key=lambda event: event.time_range.start)
    return [[event.name, [shape for shape in event.input_shapes if shape], kernels_of(event), total_us(event)]
            for event in chosen]


def each(training, _):
    return training, {"operators": operators(profiled(training, 1, record_shapes=True))}


def workspaces(events):
    """Bytes of the allocations that were freed before anything else was allocated or freed: scratch of
    one operation. Convolutions have the large ones."""
    events = [event for event in events if event["action"] in ("alloc", "free_requested")]
    return [a["size"] for a, b in zip(events, events[1:])
            if (a["action"], b["action"]) == ("alloc", "free_requested") and a["addr"] == b["addr"]]


def trace_iteration(training):
    record = torch.cuda.memory._record_memory_history  # pylint: disable=protected-access
    record(enabled="all", context=None, stacks="python", max_entries=1_000_000, clear_history=True)
    try:
        training.iterate()
        torch.cuda.synchronize()
        snapshot = torch.cuda.memory._snapshot()  # pylint: disable=protected-access
    finally:
        record(enabled=None)
    return snapshot["device_traces"][torch.cuda.current_device()]


def memory(training, _):
    """`peak` is of an iteration, `peak_ever` since `net`, so with the search."""
    ever = torch.cuda.max_memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    sizes = sorted(workspaces(trace_iteration(training)), reverse=True)
    return training, {"peak_ever": ever, "peak": torch.cuda.max_memory_allocated(),
                      "workspaces": sizes[:5], "workspace": sizes[0] if sizes else 0}


def end(*_):
    return None, {}


COMMANDS = {command.__name__: command for command in (net, warm, settle, step, conv, each, memory, end)}


def facts():
    torch.cuda.synchronize()
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
            "torchvision": torchvision.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version()}


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
            result = {"error": f"{type(error).__name__}: {error}"}
        if training is None:
            gc.collect()
            torch.cuda.empty_cache()
        answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
