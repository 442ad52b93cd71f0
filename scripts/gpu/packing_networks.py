"""Networks for packing-look, what they keep for their backward pass, and data that a network can learn from:
without that, activations after training would be those of noise."""
import contextlib

import torch
import torchvision
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CLASSES, VOCABULARY, TOKENS, LONGEST_STEP = 100, 30522, 1000, 8


class Bert(torch.nn.Module):
    """BERT-base with a head for masked words."""

    def __init__(self, length, width=768, layers=12):
        super().__init__()
        self.words = torch.nn.Embedding(VOCABULARY, width)
        self.places = torch.nn.Parameter(torch.randn(length, width) * 0.02)
        layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.1, "gelu", batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, VOCABULARY)

    def forward(self, words):
        return self.head(self.layers(self.words(words) + self.places))


def images(batch, side):
    """Low frequencies that each class has, among those of the image, and noise of higher ones."""
    patterns = torch.randn(CLASSES, 3, 8, 8, device=DEVICE)
    while True:
        labels = torch.randint(CLASSES, (batch,), device=DEVICE)
        own = torch.randn(batch, 3, 8, 8, device=DEVICE)
        noise = torch.randn(batch, 3, side // 4, side // 4, device=DEVICE)
        grow = torch.nn.functional.interpolate
        yield grow(patterns[labels] + own, (side, side), mode="bilinear") + 0.5 * grow(noise, (side, side)), labels


def sentences(batch, length):
    """Words by constant steps, of which one in seven is hidden."""
    while True:
        first, step = (torch.randint(most, (batch, 1), device=DEVICE) for most in (TOKENS, LONGEST_STEP))
        words = 1 + (first + step * torch.arange(length, device=DEVICE)) % TOKENS
        hidden = torch.rand(batch, length, device=DEVICE) < 1 / 7
        yield words.masked_fill(hidden, 0), words


class Network:
    """One in training. Its arithmetic is TF32, or bf16 by autocast."""

    def __init__(self, name, batch, side):
        net, _, how = name.partition(" ")
        self.bf16 = "bf16" in how
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
        with torch.device(DEVICE):
            self.model = self.built(net, side)
        self.layout = torch.channels_last if "channels-last" in how else torch.contiguous_format
        self.model.train().to(memory_format=self.layout)
        self.data = sentences(batch, side) if net == "bert" else images(batch, side)
        adam = net in ("bert", "swin_t")
        self.optimizer = (torch.optim.AdamW(self.model.parameters(), lr=1e-4) if adam else
                          torch.optim.SGD(self.model.parameters(), lr=0.005 if net == "vgg16" else 0.02, momentum=0.9))

    @staticmethod
    def built(net, side):
        if net == "bert":
            return Bert(side)
        more = {"init_weights": False, "aux_logits": False} if net == "googlenet" else {}
        return torchvision.models.get_model(net, weights=None, num_classes=CLASSES, **more)

    def loss(self):
        data, labels = next(self.data)
        if data.dim() == 4:
            data = data.contiguous(memory_format=self.layout)
        casts = torch.autocast(DEVICE, torch.bfloat16) if self.bf16 else contextlib.nullcontext()
        with casts:
            found = self.model(data)
            return torch.nn.functional.cross_entropy(found.flatten(0, -2), labels.flatten())

    def train(self, steps):
        """The loss of the first and of the last step."""
        losses = []
        for step in range(steps):
            loss = self.loss()
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            if step in (0, steps - 1):
                losses.append(loss.item())
        return losses

    def kept(self):
        """What a forward pass keeps: each storage once, parameters and buffers left out, with the operation
        that wrote it last."""
        own = {tensor.untyped_storage().data_ptr() for tensor in (*self.model.parameters(), *self.model.buffers())}
        found, writers = {}, Writers()

        def keep(tensor):
            place = tensor.untyped_storage().data_ptr()
            if tensor.device.type == DEVICE and place not in own:
                found[place] = tensor.detach()
            return tensor

        with writers, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = self.loss()
        del loss
        return [(writers.names.get(place, "input"), tensor) for place, tensor in found.items()]


class Writers(TorchDispatchMode):
    """Which operation wrote each storage last."""

    def __init__(self):
        super().__init__()
        self.names = {}

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        results = function(*arguments, **(keywords or {}))
        given = {place_of(value) for value in torch.utils._pytree.tree_leaves((arguments, keywords))}
        for value in torch.utils._pytree.tree_leaves(results):
            place = place_of(value)
            # What returns the storage that it was given, and does not change it, is a view.
            if place is not None and (function._schema.is_mutable or place not in given):
                self.names[place] = function._schema.name.split("::")[-1]
        return results


def place_of(value):
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None
