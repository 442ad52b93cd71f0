"""What memory_worker.py trains: networks, optimizers, and programs that do with memory what people do.
A plain PyTorch program: it knows nothing of microdnn.

Everything is seeded, so that two runs of the same program compute the same, and nothing of the result
depends on where memory comes from.
"""
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile

import torch
import torchvision

# A GPU, but where a test looks at the programs on a machine without one.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLASSES = 1000
# Random data makes the first losses jump at usual rates; a loss that is no number compares as nothing.
LEARNING_RATES = {"sgd": 0.0005, "adamw": 0.0001}
EVALUATE_EVERY, REPLAY_EVERY = 4, 2
BUFFERS, BUFFER_WORDS, SUM_EVERY = 16, 8 << 20, 4  # of the program `pointers`


class Skipped(Exception):
    """Why a program cannot run on this machine."""


class UNet3d(torch.nn.Module):
    """Two levels down and up again, with 3-D convolutions, batch normalisation, transposed
    convolutions and concatenated skips; classes are of the whole volume."""

    def __init__(self, width=16):
        super().__init__()
        self.down1, self.down2 = self.block(1, width), self.block(width, 2 * width)
        self.bottom = self.block(2 * width, 4 * width)
        self.up2 = torch.nn.ConvTranspose3d(4 * width, 2 * width, 2, stride=2)
        self.join2 = self.block(4 * width, 2 * width)
        self.up1 = torch.nn.ConvTranspose3d(2 * width, width, 2, stride=2)
        self.join1 = self.block(2 * width, width)
        self.head = torch.nn.Linear(width, CLASSES)
        self.pool = torch.nn.MaxPool3d(2)

    @staticmethod
    def block(inputs, outputs):
        layers = []
        for channels in (inputs, outputs):
            layers += [torch.nn.Conv3d(channels, outputs, 3, padding=1, bias=False),
                       torch.nn.BatchNorm3d(outputs), torch.nn.ReLU(inplace=True)]
        return torch.nn.Sequential(*layers)

    def forward(self, volume):
        first = self.down1(volume)
        second = self.down2(self.pool(first))
        bottom = self.bottom(self.pool(second))
        second = self.join2(torch.cat([self.up2(bottom), second], 1))
        first = self.join1(torch.cat([self.up1(second), first], 1))
        return self.head(first.mean((2, 3, 4)))


SHAPES = {"unet3d": (1, 48, 48, 48), "inception_v3": (3, 299, 299)}


def model_of(net):
    if net == "unet3d":
        return UNet3d()
    more = {"init_weights": False} if net == "inception_v3" else {}
    return torchvision.models.get_model(net, weights=None, num_classes=CLASSES, **more)


def layout_of(net, mode):
    if mode != "bf16":
        return torch.contiguous_format
    return torch.channels_last_3d if net == "unet3d" else torch.channels_last


def optimizer_of(name, parameters):
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=LEARNING_RATES[name])
    return torch.optim.SGD(parameters, lr=LEARNING_RATES[name], momentum=0.9)


def settings(mode, deterministic, benchmark, warn_only=True):
    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = mode == "tf32"
    torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)


class Training:
    """A network in one of the modes fp32 (strict), tf32, and bf16: autocast and channels-last."""

    WARN_ONLY = True  # operations without a deterministic algorithm are allowed
    PEAK_ITERATIONS = 1  # until the most memory has been in use

    def __init__(self, net, batch, mode="fp32", optimizer="sgd", deterministic=True, benchmark=False,
                 size=None, seed=0):
        settings(mode, deterministic, benchmark, self.WARN_ONLY)
        torch.manual_seed(seed)
        self.arguments = {"net": net, "batch": batch, "mode": mode, "optimizer": optimizer,
                          "deterministic": deterministic, "benchmark": benchmark, "size": size, "seed": seed}
        self.mode, self.batch = mode, batch
        with torch.device(DEVICE):
            self.model, self.data, self.labels = self.parts(net, size)
        self.optimizer = optimizer_of(optimizer, self.model.parameters())

    def parts(self, net, size):
        """Model, data and labels."""
        layout, shape = layout_of(net, self.mode), SHAPES.get(net, (3, 224, 224))
        if size:
            shape = (shape[0], *[size] * (len(shape) - 1))
        model = model_of(net).train().to(memory_format=layout)
        data = torch.randn(self.batch, *shape).to(memory_format=layout)
        return model, data, torch.randint(CLASSES, (self.batch,))

    def casts(self):
        return (torch.autocast(DEVICE, torch.bfloat16) if self.mode == "bf16"
                else contextlib.nullcontext())

    def loss(self, data, labels):
        with self.casts():
            outputs = self.model(data)
            if isinstance(outputs, tuple):  # Inception has a second classifier while it trains
                return sum(weight * torch.nn.functional.cross_entropy(each, labels)
                           for weight, each in zip((1.0, 0.4), outputs))
            return torch.nn.functional.cross_entropy(outputs, labels)

    def iterate(self):
        """Returns the loss, on the GPU and without waiting for it."""
        self.optimizer.zero_grad()
        loss = self.loss(self.data, self.labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


# --- Programs: each returns its losses, on the device ---------------------------------------------
def plain(training, count):
    return [training.iterate() for _ in range(count)]


def short_batch(training, count):
    """Every fourth batch, as the last of an epoch, has fewer images."""
    losses = []
    for index in range(count):
        images = max(2, training.batch // 3) if index % 4 == 3 else training.batch
        training.optimizer.zero_grad()
        loss = training.loss(training.data[:images], training.labels[:images])
        loss.backward()
        training.optimizer.step()
        losses.append(loss.detach())
    return losses


def evaluation(training, count):
    """An evaluation without gradients every few iterations; its losses count too."""
    losses = []
    for index in range(count):
        losses.append(training.iterate())
        if index % EVALUATE_EVERY == EVALUATE_EVERY - 1:
            training.model.eval()
            with torch.no_grad():
                losses.append(training.loss(training.data, training.labels))
            training.model.train()
    return losses


def accumulation(training, count):
    """Gradients of two halves of a batch before each step."""
    half = training.batch // 2
    losses = []
    for _ in range(count):
        training.optimizer.zero_grad()
        for part in (slice(0, half), slice(half, 2 * half)):
            loss = training.loss(training.data[part], training.labels[part]) / 2
            loss.backward()
            losses.append(loss.detach())
        training.optimizer.step()
    return losses


def two_streams(training, count):
    """The next batch is prepared in a second stream and handed over with record_stream; the prepared
    tensor is dropped while the second stream's successor may want its memory."""
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    source, losses = training.data, []
    for index in range(count):
        side.wait_stream(main)
        with torch.cuda.stream(side):
            prepared = (source * (1.0 + 0.01 * index)).relu_()
        main.wait_stream(side)
        prepared.record_stream(main)
        training.optimizer.zero_grad()
        loss = training.loss(prepared, training.labels)
        del prepared
        with torch.cuda.stream(side):
            # Scratch of the side stream, wanted while the main stream still reads what was dropped.
            torch.full_like(source, -1.0)
        loss.backward()
        training.optimizer.step()
        losses.append(loss.detach())
    return losses


def captured(images=64):
    """A graph of a small network's forward pass, with its inputs, which must outlive it."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(32, 16, 3, padding=1)
    ).to(DEVICE)
    inputs = torch.randn(images, 16, 64, 64, device=DEVICE)
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            layers(inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = layers(inputs)
    return graph, inputs, outputs, layers


def graph_replays(training, count):
    """Replays of a graph between iterations that allocate and move; their sums are losses too."""
    graph, inputs, outputs, _layers = captured()
    losses = []
    for index in range(count):
        losses.append(training.iterate())
        if index % REPLAY_EVERY == 0:
            inputs.mul_(0.5)
            others = [torch.full_like(inputs, 9.0) for _ in range(4)]
            graph.replay()
            losses.append(outputs.double().square().sum())
            losses.append(sum(other.double().sum() for other in others))
    return losses


def systems_of(count, side=64, systems=2048):
    """Batches of symmetric, well conditioned matrices, 32 MiB each."""
    batches = []
    for _ in range(count):
        factor = torch.randn(systems, side, side, device=DEVICE)
        batches.append(factor @ factor.mT + side * torch.eye(side, device=DEVICE))
    return batches


def solutions(matrices, right):
    """What cuBLAS and cuSOLVER are given as arrays of pointers: LU factors and their use, Cholesky
    factors and theirs, triangular systems, least squares."""
    yield torch.linalg.solve(matrices, right)
    yield torch.linalg.inv(matrices)
    factor = torch.linalg.cholesky(matrices)
    yield factor
    yield torch.cholesky_solve(right[..., :1], factor)
    yield torch.linalg.solve_triangular(factor, right, upper=False)
    yield torch.linalg.lstsq(matrices, right).solution


def linear_algebra(training, count):
    """Batched linear algebra between iterations, on matrices that were not wanted for some of them."""
    batches = systems_of(6)
    right = torch.randn(*batches[0].shape[:2], 8, device=DEVICE)
    losses = []
    for index in range(count):
        losses.append(training.iterate())
        matrices = batches[index % len(batches)]
        losses += [found.double().square().sum() for found in solutions(matrices, right)]
        matrices.mul_(1.01)  # so that what is written comes back, too
    return losses


@contextlib.contextmanager
def group(rank, ranks, meeting):
    """Processes that meet in a file."""
    torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo",
                                         init_method=f"file://{meeting}", rank=rank, world_size=ranks)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def in_parallel(training, count, rank, ranks, meeting):
    """One rank of a data-parallel training: gradients are summed over NCCL while others are computed."""
    own = training.model
    with group(rank, ranks, meeting):
        try:
            training.model = torch.nn.parallel.DistributedDataParallel(
                own, device_ids=[rank] if DEVICE == "cuda" else None)
            losses = [training.iterate() for _ in range(count)]
            sums = torch.stack(losses).double()
            torch.distributed.all_reduce(sums)
            return losses + list(sums)
        finally:
            training.model = own


def one_rank(training, count):
    """Data parallel with nobody else: NCCL's kernels, but nothing to exchange."""
    with tempfile.TemporaryDirectory() as place:
        return in_parallel(training, count, 0, 1, os.path.join(place, "meeting"))


def beside_another_rank(run, script, training, count):
    """run(training, count, rank, ranks, meeting) as the first of two ranks; `script` is told to be the
    other one, on a second GPU."""
    if DEVICE == "cuda" and torch.cuda.device_count() < 2:
        raise Skipped("two ranks need two GPUs, and there is one")
    with tempfile.TemporaryDirectory() as place:
        meeting = os.path.join(place, "meeting")
        # Its statistics are its own affair.
        kept = {name: value for name, value in os.environ.items() if "STATS_FILE" not in name}
        other = subprocess.Popen(
            [sys.executable, script, json.dumps([training.arguments, count, meeting])], env=kept,
            stdout=subprocess.DEVNULL)
        try:
            losses = run(training, count, 0, 2, meeting)
            if other.wait(timeout=60) != 0:
                raise RuntimeError(f"the other rank ended with {other.returncode}")
            return losses
        finally:
            other.kill()  # it may wait for this one
            other.wait()


def two_ranks(training, count):
    """Data parallel: this process and another one on a second GPU."""
    return beside_another_rank(in_parallel, __file__, training, count)


def other_rank(arguments, count, meeting):
    if DEVICE == "cuda":
        torch.cuda.set_device(1)
    in_parallel(Training(**arguments), count, 1, 2, meeting)


# h = table[block y]; h[i] = 3 h[i] + block y, in 32 bits
FOLLOW_PTX = b"""
.version 6.4
.target sm_75
.address_size 64
.visible .entry follow(.param .u64 table, .param .u32 words)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %d<6>;
    ld.param.u64 %d0, [table];
    ld.param.u32 %r0, [words];
    cvta.to.global.u64 %d0, %d0;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra done;
    mov.u32 %r5, %ctaid.y;
    mul.wide.u32 %d1, %r5, 8;
    add.u64 %d1, %d0, %d1;
    ld.global.u64 %d2, [%d1];
    cvta.to.global.u64 %d2, %d2;
    mul.wide.u32 %d3, %r4, 4;
    add.u64 %d4, %d2, %d3;
    ld.global.u32 %r6, [%d4];
    mad.lo.u32 %r7, %r6, 3, %r5;
    st.global.u32 [%d4], %r7;
done:
    ret;
}
"""


class Follower:
    """Launches that kernel, in PyTorch's context and stream."""

    THREADS = 256

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.driver.cuModuleLoadData(ctypes.byref(self.module), FOLLOW_PTX))
        self.check(self.driver.cuModuleGetFunction(ctypes.byref(self.function), self.module, b"follow"))

    @staticmethod
    def check(result):
        if result != 0:
            raise RuntimeError(f"CUDA error {result}")

    def __call__(self, table, words):
        values = ctypes.c_uint64(table.data_ptr()), ctypes.c_uint32(words)
        parameters = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        blocks = -(-words // self.THREADS)
        self.check(self.driver.cuLaunchKernel(self.function, blocks, len(table), 1, self.THREADS, 1, 1, 0,
                                              stream, parameters, None))


def pointers(training, count):
    """After each iteration a kernel changes buffers whose addresses it reads in device memory: its
    arguments name the table alone. Every few iterations one of them is summed, at the end all."""
    follow, losses = Follower(), []
    buffers = [torch.full((BUFFER_WORDS,), index, dtype=torch.int32, device=DEVICE) for index in range(BUFFERS)]
    table = torch.tensor([buffer.data_ptr() for buffer in buffers], dtype=torch.int64, device=DEVICE)
    for index in range(count):
        losses.append(training.iterate())
        follow(table, BUFFER_WORDS)
        if index % SUM_EVERY == SUM_EVERY - 1:
            losses.append(buffers[index // SUM_EVERY % BUFFERS].sum())
    return losses + [buffer.sum() for buffer in buffers]


def without_cudnn(training, count):
    """Convolutions whose workspaces are tensors, and sums in one order however much memory there is."""
    torch.backends.cudnn.enabled = False
    return plain(training, count)


PROGRAMS = {each.__name__: each for each in
            (plain, short_batch, evaluation, accumulation, two_streams, graph_replays, linear_algebra,
             one_rank, two_ranks, pointers, without_cudnn)}

if __name__ == "__main__":
    other_rank(*json.loads(sys.argv[1]))
