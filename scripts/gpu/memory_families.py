"""More of what memory_worker.py trains: models beside convolutional networks for images, each as users of
its field write it. A plain PyTorch program: it knows nothing of microdnn.

    fno2d             a Fourier neural operator: rfft2, complex weights, irfft2
    small_systems     thousands of matrices of 4x4 to 64x64 in each iteration, gradients through them
    large_systems     the same with matrices of 200x200, by MAGMA where PyTorch has it
    per_sample        gradients of each image by vmap(grad), clipped and summed (DP-SGD)
    graph             message passing of torch_geometric: GCNConv, GATConv and one of our own
    conformer         torchaudio's, for frames of speech
    gpt2              Hugging Face's, from a configuration
    gpt2_50k          the same with a vocabulary of 50,257 tokens, as GPT-2 has it
    bert              Hugging Face's BERT-base, from a configuration
    deeplabv3_resnet50  torchvision's, with a class for each pixel
    lstm_lm           a language model of two LSTM layers
    random_shapes     ResNet-50 with another batch and resolution in every iteration
    registration      3-D convolutions without cuDNN, of the sizes of pytorch issue 166790
    video_frames      one such convolution of a video, of the sizes of pytorch issue 128947
"""
import importlib
import math
import os
import random

import torch
import torchvision

import memory_programs as programs
from memory_programs import Skipped, Training

# Before Hugging Face is imported: nothing is looked for on a network.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}


def package(name):
    """A module that a machine need not have."""
    for key, value in OFFLINE.items():
        os.environ.setdefault(key, value)
    try:
        return importlib.import_module(name)
    except ImportError as why:
        raise Skipped(f"{name} cannot be imported: {why}") from why


# --- A Fourier neural operator --------------------------------------------------------------------
class SpectralConv2d(torch.nn.Module):
    """A product in Fourier space, of the lowest modes only (Li et al., arXiv:2010.08895)."""

    def __init__(self, channels, modes):
        super().__init__()
        self.modes = modes
        scale = 1 / channels ** 2
        self.weights = torch.nn.ParameterList(
            scale * torch.rand(channels, channels, modes, modes, dtype=torch.cfloat) for _ in range(2))

    def forward(self, field):
        modes, spectrum = self.modes, torch.fft.rfft2(field)
        product = torch.zeros_like(spectrum)
        for weight, rows in zip(self.weights, (slice(None, modes), slice(-modes, None))):
            product[:, :, rows, :modes] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, rows, :modes], weight)
        return torch.fft.irfft2(product, s=field.shape[-2:])


class FourierOperator(torch.nn.Module):
    def __init__(self, width=64, modes=16, layers=4):
        super().__init__()
        self.lift = torch.nn.Conv2d(3, width, 1)
        self.spectral = torch.nn.ModuleList(SpectralConv2d(width, modes) for _ in range(layers))
        self.local = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 1) for _ in range(layers))
        self.project = torch.nn.Sequential(torch.nn.Conv2d(width, 128, 1), torch.nn.GELU(),
                                           torch.nn.Conv2d(128, 1, 1))

    def forward(self, field):
        rows, columns = (torch.linspace(0, 1, size, device=field.device) for size in field.shape[-2:])
        grid = torch.stack(torch.meshgrid(rows, columns, indexing="ij")).expand(len(field), -1, -1, -1)
        found = self.lift(torch.cat([field, grid], 1))
        for spectral, local in zip(self.spectral, self.local):
            found = torch.nn.functional.gelu(spectral(found) + local(found))
        return self.project(found)


class Fno2d(Training):
    def parts(self, net, size):
        shape = (self.batch, 1, size or 256, size or 256)
        return FourierOperator(), torch.rand(shape), torch.randn(shape)

    def loss(self, data, labels):
        """Relative error of each field, on average."""
        error = (self.model(data) - labels).flatten(1).norm(dim=1)
        return (error / labels.flatten(1).norm(dim=1)).mean()


# --- Linear algebra that is differentiated --------------------------------------------------------
class ResidualBlock(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.LayerNorm(width), torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
            torch.nn.Linear(4 * width, width))

    def forward(self, rows):
        return rows + self.layers(rows)


class Covariances(torch.nn.Module):
    """A residual network that says of each group of rows a matrix of low rank and a right-hand side, for
    matrices of several sizes."""

    def __init__(self, sizes, group=1, width=512, blocks=8):
        super().__init__()
        self.group = group
        self.ranks = {size: max(2, size // 8) for size in sizes}
        self.trunk = torch.nn.Sequential(*(ResidualBlock(width) for _ in range(blocks)))
        self.heads = torch.nn.ModuleList(torch.nn.Linear(width, size * (rank + 1))
                                         for size, rank in self.ranks.items())

    def forward(self, rows):
        """Of each size: covariances, their factors of low rank, right-hand sides."""
        parts = self.trunk(rows).unflatten(0, (-1, self.group)).mean(1).chunk(len(self.heads))
        for part, head, (size, rank) in zip(parts, self.heads, self.ranks.items()):
            factor, right = head(part).unflatten(1, (size, rank + 1)).split((rank, 1), 2)
            noise = torch.diag(torch.linspace(1, 2, size, device=rows.device))
            yield factor @ factor.mT / rank + noise, factor, right


def mean_square(found):
    return found.square().mean()


class SmallSystems(Training):
    SIZES, SYSTEMS, GROUP = (4, 16, 32, 64), 1024, 1  # systems for each unit of the batch, rows of each
    SINGULAR_VALUES = True
    MANY_UP_TO, FEW = 32, 32  # what is no batch to the GPU's libraries is done for fewer matrices

    def parts(self, net, size):
        rows = self.batch * (size or self.SYSTEMS) * self.GROUP
        return Covariances(self.SIZES, self.GROUP), torch.randn(rows, 512), torch.empty(0)

    def batched(self, matrices, right):
        """Factors once and used twice, as in a likelihood, and what people call without a thought."""
        factor = torch.linalg.cholesky(matrices)
        yield torch.cholesky_solve(right, factor)
        yield factor.diagonal(dim1=-2, dim2=-1).log()
        yield torch.linalg.solve_triangular(factor, right, upper=False)
        yield torch.linalg.lu_solve(*torch.linalg.lu_factor(matrices), right)
        yield torch.linalg.solve(matrices, right)
        yield torch.linalg.inv(matrices)

    def one_by_one(self, matrices, factor, right):
        few = slice(self.FEW)
        orthogonal, upper = torch.linalg.qr(matrices[few])
        yield torch.linalg.solve_triangular(upper, orthogonal.mT @ right[few], upper=True)
        if self.SINGULAR_VALUES:
            yield torch.linalg.lstsq(factor[few], right[few]).solution
        some = slice(None) if matrices.shape[-1] <= self.MANY_UP_TO else few
        yield torch.linalg.eigvalsh(matrices[some])
        if self.SINGULAR_VALUES:
            yield torch.linalg.svdvals(matrices[some])

    def loss(self, data, labels):
        total = 0.0
        for matrices, factor, right in self.model(data):
            for found in (*self.batched(matrices, right), *self.one_by_one(matrices, factor, right)):
                total = total + mean_square(found)
        return total


class LargeSystems(SmallSystems):
    SIZES, SYSTEMS, GROUP, FEW = (200,), 4, 256, 8
    SINGULAR_VALUES = False  # beside MAGMA, PyTorch 2.11 gives cusolverDnSgesvdj what it refuses

    def iterate(self):
        if programs.DEVICE != "cuda" or not torch.cuda.has_magma:
            return super().iterate()
        before = torch.backends.cuda.preferred_linalg_library()
        torch.backends.cuda.preferred_linalg_library("magma")
        try:
            return super().iterate()
        finally:
            torch.backends.cuda.preferred_linalg_library(before)


# --- Gradients of each sample ---------------------------------------------------------------------
def normalised(inputs, outputs, stride):
    return [torch.nn.Conv2d(inputs, outputs, 3, stride, 1), torch.nn.GroupNorm(8, outputs), torch.nn.ReLU()]


class PerSample(Training):
    """DP-SGD: the gradient of each image is clipped, noise is added to their sum."""

    CLIP, NOISE, WIDTHS = 1.0, 0.5, (64, 128, 128, 256)

    def parts(self, net, size):
        layers = [layer for inputs, outputs, stride in
                  zip((3, *self.WIDTHS), self.WIDTHS, (1, 2, 1, 2)) for layer in normalised(inputs, outputs, stride)]
        model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(4), torch.nn.Flatten(),
                                    torch.nn.Linear(16 * self.WIDTHS[-1], 100))
        return model, torch.randn(self.batch, 3, size or 64, size or 64), torch.randint(100, (self.batch,))

    def loss_of_one(self, parameters, image, label):
        scores = torch.func.functional_call(self.model, parameters, (image.unsqueeze(0),))
        return torch.nn.functional.cross_entropy(scores, label.unsqueeze(0))

    def iterate(self):
        parameters = {name: each.detach() for name, each in self.model.named_parameters()}
        of_each = torch.func.vmap(torch.func.grad_and_value(self.loss_of_one), in_dims=(None, 0, 0))
        gradients, losses = of_each(parameters, self.data, self.labels)
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in gradients.values()]).norm(dim=0)
        factors = (self.CLIP / (norms + 1e-6)).clamp(max=1.0)
        for name, parameter in self.model.named_parameters():
            total = torch.einsum("b,b...->...", factors, gradients.pop(name))
            noise = self.NOISE * self.CLIP * torch.randn_like(total)
            parameter.grad = (total + noise) / self.batch
        self.optimizer.step()
        return losses.mean()


# --- Message passing ------------------------------------------------------------------------------
def edge_convolution(torch_geometric, width):
    """A MessagePassing of our own: of each edge a small network sees both ends."""

    class EdgeConvolution(torch_geometric.nn.MessagePassing):
        def __init__(self):
            super().__init__(aggr="mean")
            self.layers = torch.nn.Sequential(torch.nn.Linear(2 * width, width), torch.nn.ReLU(),
                                              torch.nn.Linear(width, width))

        def forward(self, nodes, edges):
            return self.propagate(edges, x=nodes)

        def message(self, x_i, x_j):
            return self.layers(torch.cat([x_i, x_j - x_i], dim=-1))

    return EdgeConvolution()


class GraphNet(torch.nn.Module):
    """Networks of each node before and after the convolutions, as in GraphGym."""

    def __init__(self, torch_geometric, width=256, narrow=32, classes=16):
        super().__init__()
        nn = torch_geometric.nn
        self.before = nn.MLP([width] * 4, act="relu", norm="batch_norm")
        self.narrow = torch.nn.Linear(width, narrow)
        self.convolutions = torch.nn.ModuleList([
            nn.GCNConv(narrow, narrow), nn.GATConv(narrow, narrow // 4, heads=4),
            edge_convolution(torch_geometric, narrow)])
        self.after = nn.MLP([width + narrow, width, width, classes], act="relu", norm="batch_norm")

    def forward(self, nodes, edges):
        wide = self.before(nodes)
        found = self.narrow(wide)
        for convolution in self.convolutions:
            found = found + torch.relu(convolution(found, edges))
        return self.after(torch.cat([wide, found], dim=-1))


class Graph(Training):
    """`batch` random graphs in one. Deterministic sums over edges sort an index of each of their numbers,
    so there are few edges and narrow features of them."""

    NODES, DEGREE = 16384, 4

    def parts(self, net, size):
        geometric = package("torch_geometric")
        importlib.import_module("torch_geometric.nn")
        nodes, edges = size or self.NODES, self.DEGREE * (size or self.NODES)
        graphs = [geometric.data.Data(x=torch.randn(nodes, 256), edge_index=torch.randint(nodes, (2, edges)))
                  for _ in range(self.batch)]
        labels = torch.randint(16, (self.batch * nodes,))
        return GraphNet(geometric), geometric.data.Batch.from_data_list(graphs), labels

    def loss(self, data, labels):
        return torch.nn.functional.cross_entropy(self.model(data.x, data.edge_index), labels)


# --- Speech and text ------------------------------------------------------------------------------
class SpeechFrames(torch.nn.Module):
    def __init__(self, conformer, width, classes=128):
        super().__init__()
        self.conformer, self.head = conformer, torch.nn.Linear(width, classes)

    def forward(self, frames, lengths):
        found, _ = self.conformer(frames, lengths)
        return self.head(found)


class Conformer(Training):
    """A class for each frame of utterances that differ in length."""

    WIDTH, WARN_ONLY = 256, False  # only then is attention deterministic

    def parts(self, net, size):
        models, frames = package("torchaudio.models"), size or 800
        conformer = models.Conformer(input_dim=self.WIDTH, num_heads=4, ffn_dim=4 * self.WIDTH, num_layers=8,
                                     depthwise_conv_kernel_size=31, dropout=0.1)
        lengths = torch.linspace(frames // 2, frames, self.batch).long()
        labels = torch.randint(128, (self.batch, frames))
        labels[torch.arange(frames) >= lengths.unsqueeze(1)] = -100  # padding counts as nothing
        data = torch.randn(self.batch, frames, self.WIDTH), lengths
        return SpeechFrames(conformer, self.WIDTH), data, labels

    def loss(self, data, labels):
        with self.casts():
            return torch.nn.functional.cross_entropy(self.model(*data).flatten(0, 1), labels.flatten())


class Gpt2(Training):
    """A small GPT-2 with a vocabulary of 8192 tokens, on random ones; the labels are the tokens."""

    VOCABULARY, WARN_ONLY = 8192, False

    def parts(self, net, size):
        transformers, tokens = package("transformers"), size or 512
        configuration = transformers.GPT2Config(vocab_size=self.VOCABULARY, n_positions=tokens, bos_token_id=0,
                                                eos_token_id=0, use_cache=False)
        data = torch.randint(self.VOCABULARY, (self.batch, tokens))
        return transformers.GPT2LMHeadModel(configuration).train(), data, data

    def loss(self, data, labels):
        with self.casts():
            return self.model(input_ids=data, labels=labels).loss


class LargeGpt2(Gpt2):
    """Its loss is one operation on three times the logits."""

    VOCABULARY = 50257


class Bert(Training):
    """Masked words; every token is one. The labels are the tokens."""

    VOCABULARY, WARN_ONLY = 30522, False  # only then is attention deterministic

    def parts(self, net, size):
        transformers, tokens = package("transformers"), size or 512
        data = torch.randint(self.VOCABULARY, (self.batch, tokens))
        return transformers.BertForMaskedLM(transformers.BertConfig()).train(), data, data

    def loss(self, data, labels):
        with self.casts():
            return self.model(input_ids=data, labels=labels).loss


class RecurrentModel(torch.nn.Module):
    def __init__(self, vocabulary, width=512, layers=2):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.lstm = torch.nn.LSTM(width, width, layers, batch_first=True)
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


class LstmModel(Training):
    """The next token of random text, in a vocabulary as small as that of Gpt2."""

    VOCABULARY = 8192

    def parts(self, net, size):
        tokens = torch.randint(self.VOCABULARY, (self.batch, (size or 256) + 1))
        return RecurrentModel(self.VOCABULARY), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss(self, data, labels):
        with self.casts():
            return torch.nn.functional.cross_entropy(self.model(data).flatten(0, 1), labels.flatten())


# --- Shapes without a period ----------------------------------------------------------------------
class RandomShapes(Training):
    """A stream of batches that differ in size and resolution."""

    PEAK_ITERATIONS = 40

    def __init__(self, net, batch, *arguments, benchmark=False, **more):
        """Whoever trains so does not search for algorithms of each shape."""
        self.shapes = random.Random(0)
        super().__init__(net, batch, *arguments, benchmark=False, **more)
        self.arguments["benchmark"] = benchmark

    def parts(self, net, size):
        self.largest = size or 256
        return programs.model_of("resnet50").train(), torch.empty(0), torch.empty(0)

    def iterate(self):
        images = self.shapes.randint(math.ceil(0.6 * self.batch), self.batch)
        side = self.shapes.randint(math.ceil(0.7 * self.largest), self.largest)
        self.data = torch.randn(images, 3, side, side, device=programs.DEVICE)
        self.labels = torch.randint(programs.CLASSES, (images,), device=programs.DEVICE)
        return super().iterate()


# --- Convolutions without cuDNN -------------------------------------------------------------------
class Registration(Training):
    """The last layers of a network that registers volumes. PyTorch copies each input voxel's neighbours into
    columns: 16 channels of 256x256x256 become 27 GiB, on a card of 24 GiB in the issue."""

    CHANNELS, SIDE = 16, 256

    def parts(self, net, size):
        torch.backends.cudnn.enabled = False
        side, channels = size or self.SIDE, self.CHANNELS
        model = torch.nn.Sequential(torch.nn.Conv3d(channels, channels, 3, padding=1), torch.nn.LeakyReLU(0.2),
                                    torch.nn.Conv3d(channels, 3, 3, padding=1))
        volume = torch.randn(self.batch, channels, side, side, side)
        return model.train(), volume, torch.randn(self.batch, 3, side, side, side)

    def loss(self, data, labels):
        with self.casts():
            return torch.nn.functional.mse_loss(self.model(data), labels)


class VideoFrames(Registration):
    """The issue's convolution of five frames has columns of 161.4 GiB; of three frames they have a third of
    that, and a card of 80 GiB and more holds them."""

    CHANNELS, FRAMES, HEIGHT, WIDTH = 256, 3, 1090, 1922

    def parts(self, net, size):
        torch.backends.cudnn.enabled = False
        height, width = (size, size) if size else (self.HEIGHT, self.WIDTH)
        model = torch.nn.Conv3d(self.CHANNELS, 64, 3)
        video = torch.rand(self.batch, self.CHANNELS, self.FRAMES, height, width)
        return model, video, torch.rand(self.batch, 64, self.FRAMES - 2, height - 2, width - 2)

    def iterate(self):
        with torch.no_grad():
            return self.loss(self.data, self.labels)


# --- Segmentation -----------------------------------------------------------------------------------
class Segmentation(Training):
    """torchvision's networks of this kind return a dictionary."""

    CLASSES = 21

    def parts(self, net, size):
        layout, side = programs.layout_of(net, self.mode), size or 224
        model = torchvision.models.get_model(net, weights=None, weights_backbone=None, num_classes=self.CLASSES, aux_loss=False)
        data = torch.randn(self.batch, 3, side, side).to(memory_format=layout)
        return model.train().to(memory_format=layout), data, torch.randint(self.CLASSES, (self.batch, side, side))

    def loss(self, data, labels):
        with self.casts():
            return torch.nn.functional.cross_entropy(self.model(data)["out"], labels)


FAMILIES = {"deeplabv3_resnet50": Segmentation, "fno2d": Fno2d, "small_systems": SmallSystems, "large_systems": LargeSystems, "per_sample": PerSample,
            "graph": Graph, "conformer": Conformer, "gpt2": Gpt2, "bert": Bert, "gpt2_50k": LargeGpt2, "lstm_lm": LstmModel,
            "random_shapes": RandomShapes, "registration": Registration, "video_frames": VideoFrames}


def training_of(net, batch, mode="fp32", optimizer="sgd", **more):
    """What trains that network."""
    return FAMILIES.get(net, Training)(net, batch, mode, optimizer, **more)
