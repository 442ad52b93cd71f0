"""What people do with convolutions in PyTorch, one case after another on fixed random data; prints a
line of JSON for each. A plain PyTorch program: it knows nothing of microdnn.

    framework_features.py [--device cuda|cpu] [--seconds N] [--without "CASE;CASE"] [--batch N]
                          [--every-algorithm]

Errors are relative L2 distances from the same in fp64 by PyTorch's own kernels, without cuDNN. With
--every-algorithm fp32 layers in two dimensions also have the largest of all of cuDNN's algorithms. Status
3: a case left the device unusable; the cases after it can be had from another process.
"""
import os
# What PyTorch's page on reproducibility asks for; read when cuBLAS starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import argparse  # noqa: E402
import contextlib  # noqa: E402
import copy  # noqa: E402
import functools  # noqa: E402
import hashlib  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

import cudnn_algorithms  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--seconds", type=float, default=600, help="start no case later than this")
parser.add_argument("--without", default="", help="cases to leave out")
parser.add_argument("--batch", type=int, help="at most so many images, for a quick look")
parser.add_argument("--every-algorithm", action="store_true",
                    help="also the errors of what cuDNN has beside PyTorch's choice")
options = parser.parse_args()

BEGIN = time.monotonic()
LAST = torch.channels_last
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16,
         "bf16": torch.bfloat16}
OFF, BOTH = (False,), (False, True)
ITERATIONS = 3
CASES = {}


class Skip(Exception):
    """The case cannot run on this machine."""


@contextlib.contextmanager
def setting(place, **values):
    before = {name: getattr(place, name) for name in values}
    for name, value in values.items():
        setattr(place, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(place, name, value)


def cudnn(**values):
    return setting(torch.backends.cudnn, **values)


def images(batch, *shape):
    return torch.randn(min(batch, options.batch or batch), *shape, device=options.device)


def distance(a, exact):
    return ((a.double() - exact).norm() / exact.norm().clamp_min(1e-300)).item()


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()[:16]


def synchronize():
    if options.device == "cuda":
        torch.cuda.synchronize()


def case(name, precision):
    """Registers a function that gives {variant: {"errors": {...}, ...}}."""
    def add(function):
        CASES[name] = (precision, function)
        return function
    return add


def worst(rows):
    """The largest of each error; one that is not a number is the largest of all."""
    result = {}
    for row in rows:
        for name, error in row.items():
            old = result.get(name, 0.0)
            result[name] = error if error > old or error != error else old
    return result


# ---- layers ----

def gradients_of(layer, x, gradient):
    """Output, and the gradients of the input and of each parameter."""
    x = x.detach().requires_grad_()
    y = layer(x)
    names = [name for name, _ in layer.named_parameters()]
    found = torch.autograd.grad(y, [x, *layer.parameters()],
                                gradient(y) if callable(gradient) else gradient)
    return {"y": y.detach(), "dx": found[0],
            **{f"d{name}": each for name, each in zip(names, found[1:])}}


def exact_layer(layer, x, gradient):
    with cudnn(enabled=False):
        return gradients_of(copy.deepcopy(layer).double().to(memory_format=torch.contiguous_format),
                            x.double().contiguous(), gradient.double().contiguous())


def check_layer(make, batch, shape, precision, benchmark, memory_format):
    torch.manual_seed(1)
    dtype = TYPES[precision]
    layer = make().to(options.device, dtype)
    x = images(batch, *shape).to(dtype)
    if memory_format:
        layer, x = layer.to(memory_format=memory_format), x.to(memory_format=memory_format)
    with torch.no_grad(), cudnn(enabled=False):
        gradient = torch.randn_like(layer(x))
    exact = exact_layer(layer, x, gradient)
    result = {}
    for on in benchmark:
        with cudnn(benchmark=on):
            # More than one: what runs may change from one call to the next.
            runs = [gradients_of(layer, x, gradient) for _ in range(ITERATIONS)]
        result[f"benchmark {on}"] = {
            "errors": worst({name: distance(run[name], exact[name]) for name in exact}
                            for run in runs),
            "sums": {name: value.double().sum().item() for name, value in runs[-1].items()}}
    if options.every_algorithm and options.device == "cuda" and precision == "fp32":
        worst_of_all = cudnn_algorithms.worst_errors(layer, x, gradient, exact, distance,
                                                     memory_format)
        if worst_of_all:
            result["every algorithm"] = worst_of_all
    return result


def layer_case(name, make, batch, shape, precisions=("fp32",), benchmark=OFF, memory_format=None):
    for precision in precisions:
        run = functools.partial(check_layer, make, batch, shape, precision, benchmark,
                                memory_format)
        case(f"{name} {precision}", precision)(run)


ALL = tuple(TYPES)
layer_case("conv2d", lambda: nn.Conv2d(64, 64, 3, padding=1), 64, (64, 56, 56), ALL, BOTH)
layer_case("conv2d channels_last", lambda: nn.Conv2d(64, 96, 3, padding=1), 64, (64, 56, 56), ALL,
           BOTH, LAST)
layer_case("conv2d without bias, 1x1", lambda: nn.Conv2d(96, 128, 1, bias=False), 32, (96, 56, 56),
           ("fp32", "tf32"))
layer_case("conv2d stride 2, odd sizes", lambda: nn.Conv2d(48, 96, 5, stride=2, padding=2), 33,
           (48, 57, 55), ("fp32", "tf32", "bf16"), BOTH)
layer_case("conv2d batch 1", lambda: nn.Conv2d(64, 64, 3, padding=1), 1, (64, 112, 112),
           ("fp32", "tf32"))
layer_case("conv2d batch 37", lambda: nn.Conv2d(64, 128, 3, padding=1), 37, (64, 56, 56),
           ("fp32", "fp16"))
layer_case("conv2d dilated", lambda: nn.Conv2d(64, 64, 3, padding=4, dilation=4), 32, (64, 56, 56),
           ("fp32", "tf32"))
layer_case("conv2d grouped", lambda: nn.Conv2d(128, 128, 3, padding=1, groups=4), 32,
           (128, 56, 56), ("fp32", "bf16"), BOTH)
layer_case("conv2d depthwise channels_last", lambda: nn.Conv2d(96, 96, 3, padding=1, groups=96), 64,
           (96, 56, 56), ("fp32", "fp16", "bf16"), OFF, LAST)
layer_case("conv2d transposed", lambda: nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), 32,
           (64, 28, 28), ("fp32", "tf32", "fp16"), BOTH)
layer_case("conv2d transposed, odd sizes",
           lambda: nn.ConvTranspose2d(64, 48, 3, stride=2, padding=1, output_padding=1), 33,
           (64, 27, 29))
layer_case("conv1d", lambda: nn.Conv1d(64, 128, 9, padding=4), 64, (64, 2048), ("fp32", "tf32"))
layer_case("conv3d", lambda: nn.Conv3d(16, 32, 3, padding=1), 32, (16, 16, 32, 32),
           ("fp32", "tf32", "bf16"))


# ---- networks ----

class Net(nn.Module):
    """Average pooling and no atomics: every layer but the convolutions is deterministic. All of it
    is smooth: where a rounding can flip a ReLU, gradients jump and errors say little."""
    def __init__(self, normalize=False):
        super().__init__()
        def block(inputs, outputs, kernel):
            convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
            return [convolution, *([nn.BatchNorm2d(outputs)] if normalize else []), nn.GELU()]
        self.features = nn.Sequential(*block(3, 64, 5), nn.AvgPool2d(2), *block(64, 128, 3),
                                      nn.AvgPool2d(2), *block(128, 128, 3))
        self.classifier = nn.Linear(128, 10)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def make_net(**arguments):
    torch.manual_seed(2)
    return Net(**arguments).to(options.device).train()


def make_batches(size=32, count=ITERATIONS, seed=3):
    torch.manual_seed(seed)
    return [(x, torch.randint(10, (len(x),), device=options.device))
            for x in (images(size, 3, 64, 64) for _ in range(count))]


def flat_gradients(model):
    return torch.cat([each.grad.detach().double().flatten() for each in model.parameters()])


def train(model, batches, compute=None, autocast=None, scaler=None):
    """SGD; the first output and gradient, all losses. `compute` stands in for the model's call."""
    compute = model if compute is None else compute  # a compiled module has no truth value
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    result = {"losses": []}
    for x, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(options.device, autocast) if autocast else contextlib.nullcontext():
            output = compute(x)
            loss = nn.functional.cross_entropy(output, labels)
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        result.setdefault("output", output.detach().double().clone())
        result.setdefault("gradients", flat_gradients(model))
        result["losses"].append(loss.item())
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    result["weights"] = [each.detach().clone() for each in model.parameters()]
    return result


def exact_training(model, batches):
    with cudnn(enabled=False):
        return train(copy.deepcopy(model).double().to(memory_format=torch.contiguous_format),
                     [(x.double().contiguous(), labels) for x, labels in batches])


def compare_training(found, exact):
    losses = [torch.tensor(each["losses"], dtype=torch.float64) for each in (found, exact)]
    return {"errors": {"output": distance(found["output"], exact["output"]),
                       "gradients": distance(found["gradients"], exact["gradients"]),
                       "losses": distance(*losses)},
            "losses": found["losses"], "digest": digest(found["weights"])}


def train_twice(benchmark):
    """Run to run the same bits, though what the first run learns may change what the second runs."""
    runs = []
    batches = make_batches(count=5)
    model = make_net()
    with cudnn(benchmark=benchmark):
        for _ in range(2):
            runs.append(train(copy.deepcopy(model), batches))
    first, second = runs
    result = compare_training(first, exact_training(model, batches))
    result["exact"] = {
        "losses": first["losses"] == second["losses"],
        "gradients": torch.equal(first["gradients"], second["gradients"]),
        "weights": all(map(torch.equal, first["weights"], second["weights"]))}
    result["losses again"] = second["losses"]
    return result


@case("use_deterministic_algorithms fp32", "fp32")
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        return {f"benchmark {on}": train_twice(on) for on in BOTH}
    finally:
        torch.use_deterministic_algorithms(False)


@case("use_deterministic_algorithms tf32", "tf32")
def deterministic_tf32():
    return deterministic()


@case("training channels_last with batch norm tf32", "tf32")
def channels_last():
    model = make_net(normalize=True).to(memory_format=LAST)
    batches = [(x.to(memory_format=LAST), labels) for x, labels in make_batches()]
    exact = exact_training(model, batches)
    result = {}
    for on in BOTH:
        with cudnn(benchmark=on):
            result[f"benchmark {on}"] = compare_training(train(copy.deepcopy(model), batches), exact)
    return result


def train_autocast(dtype, scaled):
    result = {}
    batches = make_batches()
    for layout in (torch.contiguous_format, LAST):
        model = make_net().to(memory_format=layout)
        inputs = [(x.to(memory_format=layout), labels) for x, labels in batches]
        scaler = torch.amp.GradScaler(options.device, init_scale=1024.0) if scaled else None
        row = compare_training(train(copy.deepcopy(model), inputs, None, dtype, scaler),
                               exact_training(model, batches))
        if scaled:
            row["exact"] = {"no step was skipped": scaler.get_scale() == 1024.0}
        result["contiguous" if layout is torch.contiguous_format else "channels_last"] = row
    return result


case("autocast bf16", "bf16")(lambda: train_autocast(torch.bfloat16, False))
case("autocast fp16 with GradScaler", "fp16")(lambda: train_autocast(torch.float16, True))


class Pictures(Dataset):
    def __len__(self):
        return 32 * ITERATIONS

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 64, 64, generator=generator), index % 10


@case("DataLoader, two forked workers, fp32", "fp32")
def data_loader():
    model = make_net()
    train(copy.deepcopy(model), make_batches(count=1))  # the GPU is in use when the workers fork
    loader = DataLoader(Pictures(), batch_size=min(32, options.batch or 32), num_workers=2,
                        multiprocessing_context="fork", pin_memory=options.device == "cuda")
    def batches():
        for x, labels in loader:
            yield (x.to(options.device, non_blocking=True),
                   labels.to(options.device, non_blocking=True))
    found = train(copy.deepcopy(model), batches())
    return {"": compare_training(found, exact_training(model, batches()))}


def gradients_once(model, x, labels):
    model.zero_grad(set_to_none=True)
    output = model(x)
    nn.functional.cross_entropy(output, labels).backward()
    return {"output": output.detach().double().clone(), "gradients": flat_gradients(model)}


def capture(model, x, labels):
    """A graph of forward and backward, and its output."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(ITERATIONS):
            gradients_once(model, x, labels)
    torch.cuda.current_stream().wait_stream(side)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = model(x)
        nn.functional.cross_entropy(output, labels).backward()
    return graph, output


def check_capture(batch):
    model = make_net()
    eager, exact = copy.deepcopy(model), copy.deepcopy(model).double()
    batches = make_batches(batch, ITERATIONS + 1)
    x, labels = (each.clone() for each in batches[0])
    graph, output = capture(model, x, labels)
    rows = []
    for new_x, new_labels in batches[1:]:
        x.copy_(new_x)
        labels.copy_(new_labels)
        graph.replay()
        replay = {"output": output.detach().double().clone(), "gradients": flat_gradients(model)}
        direct = gradients_once(eager, x, labels)
        with cudnn(enabled=False):
            reference = gradients_once(exact, x.double(), labels)
        rows.append({name: distance(replay[name], reference[name]) for name in reference} |
                    {f"{name} of replay from eager": distance(replay[name], direct[name])
                     for name in reference})
    return {"": {"errors": worst(rows)}}


@case("torch.cuda.graph fp32", "fp32")
def cuda_graph():
    if options.device != "cuda":
        raise Skip("needs a GPU")
    return check_capture(32)


@case("torch.cuda.graph tf32", "tf32")
def cuda_graph_tf32():
    return cuda_graph()


@case("torch.cuda.make_graphed_callables fp32", "fp32")
def graphed_callables():
    if options.device != "cuda":
        raise Skip("needs a GPU")
    model, batches = make_net(), make_batches(40)
    exact = exact_training(model, batches)
    graphed = torch.cuda.make_graphed_callables(model, (batches[0][0].clone(),))
    return {"": compare_training(train(model, batches, graphed), exact)}


@case("two threads, two streams, fp32", "fp32")
def two_threads():
    """Both meet sizes that no case had before, so that both may start to plan them."""
    if options.device != "cuda":
        raise Skip("needs a GPU")
    work = [(make_net(), make_batches(48, 4, seed)) for seed in (4, 5)]
    exact = [exact_training(*each) for each in work]
    found, trouble = [None, None], []
    start = threading.Barrier(2)
    torch.cuda.synchronize()

    def run(index):
        try:
            start.wait()
            with torch.cuda.stream(torch.cuda.Stream()):
                found[index] = train(*work[index])
                torch.cuda.current_stream().synchronize()
        except Exception as error:  # pylint: disable=broad-except
            trouble.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if trouble:
        raise trouble[0]
    return {f"thread {index}": compare_training(found[index], exact[index]) for index in range(2)}


@case("torch.compile fp32", "fp32")
def compiled():
    model, batches = make_net(normalize=True), make_batches()
    exact = exact_training(model, batches)
    try:
        return {"": compare_training(train(model, batches, torch.compile(model)), exact)}
    except Exception as error:  # pylint: disable=broad-except
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise Skip(f"the compiler: {str(error).strip().splitlines()[0][:200]}") from error
        raise


# ---- one after another ----

def run_case(name):
    precision, function = CASES[name]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    begin = time.monotonic()
    row = {"case": name, "precision": precision}
    try:
        row["variants"] = function()
        synchronize()
    except Skip as reason:
        row["skip"] = str(reason)
    except Exception as error:  # pylint: disable=broad-except
        row["error"] = f"{type(error).__name__}: {str(error).strip()[:600]}"
    row["seconds"] = round(time.monotonic() - begin, 2)
    return row


def main():
    if options.device == "cuda" and not torch.cuda.is_available():
        print(json.dumps({"fatal": "PyTorch sees no GPU"}))
        return 2
    print(json.dumps({"cases": list(CASES), "torch": torch.__version__,
                      "cudnn": torch.backends.cudnn.version(), "device": options.device if
                      options.device == "cpu" else torch.cuda.get_device_name()}), flush=True)
    for name in CASES:
        if name in options.without.split(";"):
            continue
        if time.monotonic() - BEGIN > options.seconds:
            break
        print(json.dumps({"begin": name}), flush=True)
        row = run_case(name)
        print(json.dumps(row), flush=True)
        if "error" in row:
            try:
                synchronize()
            except Exception:  # pylint: disable=broad-except
                return 3
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
