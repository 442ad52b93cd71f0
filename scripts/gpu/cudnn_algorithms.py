"""Errors of every algorithm that cuDNN's legacy functions have for a 2-D convolution of PyTorch's in
strict fp32. PyTorch's own search shows one of them; the numerics gate is set by the worst."""
import contextlib
import ctypes
import math

import torch
from torch import nn

FLOAT, CROSS_CORRELATION, FMA_MATH = 0, 1, 3
FORMATS = {torch.contiguous_format: 0, torch.channels_last: 1}
# Direction: its name in cuDNN's functions, how many algorithms there are.
DIRECTIONS = {"forward": ("Forward", 8), "data": ("BackwardData", 6), "filter": ("BackwardFilter", 7)}


class Failed(Exception):
    """A call that must not fail did."""


class Library:
    """libcudnn, which PyTorch has loaded, and a handle on the default stream."""

    def __init__(self):
        self.functions = ctypes.CDLL("libcudnn.so.9")
        self.handle = ctypes.c_void_p()
        self.call("cudnnCreate", ctypes.byref(self.handle))

    def status(self, name, *arguments):
        return getattr(self.functions, name)(*arguments)

    def call(self, name, *arguments):
        status = self.status(name, *arguments)
        if status != 0:
            raise Failed(f"{name} returned {status}")

    def descriptor(self, kind, stack):
        made = ctypes.c_void_p()
        self.call(f"cudnnCreate{kind}Descriptor", ctypes.byref(made))
        stack.callback(self.status, f"cudnnDestroy{kind}Descriptor", made)
        return made


class Problem:
    """A convolution with its three tensors as cuDNN sees them: that of a transposed one has the
    module's output for x. Tensors are dense, in `memory_format`."""

    def __init__(self, library, layer, x, y, memory_format, stack):
        self.cudnn = library
        image = FORMATS[memory_format]
        weight = layer.weight.detach().contiguous(memory_format=memory_format)
        self.tensors = {"x": x, "y": y, "w": weight}
        self.descriptors = {name: library.descriptor("Filter" if name == "w" else "Tensor", stack)
                            for name in self.tensors}
        for name in ("x", "y"):
            library.call("cudnnSetTensor4dDescriptor", self.descriptors[name], image, FLOAT,
                         *self.tensors[name].shape)
        library.call("cudnnSetFilter4dDescriptor", self.descriptors["w"], FLOAT, image,
                     *self.tensors["w"].shape)
        self.convolution = library.descriptor("Convolution", stack)
        library.call("cudnnSetConvolution2dDescriptor", self.convolution, *layer.padding, *layer.stride,
                     *layer.dilation, CROSS_CORRELATION, FLOAT)
        library.call("cudnnSetConvolutionGroupCount", self.convolution, layer.groups)
        library.call("cudnnSetConvolutionMathType", self.convolution, FMA_MATH)

    def results(self, direction):
        """The result of each algorithm that runs; what has no room is left out."""
        name, algorithms = DIRECTIONS[direction]
        a, b, result = {"forward": "xwy", "data": "wyx", "filter": "xyw"}[direction]
        out = torch.empty_like(self.tensors[result])
        for algorithm in range(algorithms):
            workspace = self.workspace(name, (a, b, result), algorithm)
            if workspace is None:
                continue
            out.fill_(math.nan)
            one, zero = ctypes.c_float(1), ctypes.c_float(0)
            status = self.cudnn.status(
                f"cudnnConvolution{name}", self.cudnn.handle, ctypes.byref(one), self.descriptors[a],
                pointer(self.tensors[a]), self.descriptors[b], pointer(self.tensors[b]),
                self.convolution, algorithm, pointer(workspace), ctypes.c_size_t(len(workspace)),
                ctypes.byref(zero), self.descriptors[result], pointer(out))
            if status == 0:
                yield out

    def workspace(self, name, operands, algorithm):
        a, b, result = (self.descriptors[each] for each in operands)
        size = ctypes.c_size_t()
        status = self.cudnn.status(f"cudnnGetConvolution{name}WorkspaceSize", self.cudnn.handle, a, b,
                                     self.convolution, result, algorithm, ctypes.byref(size))
        if status != 0:
            return None
        try:
            return torch.empty(size.value, dtype=torch.uint8, device=self.tensors["x"].device)
        except torch.OutOfMemoryError:
            return None


def pointer(tensor):
    return ctypes.c_void_p(tensor.data_ptr() if len(tensor) else None)


def worst_errors(layer, x, gradient, exact, distance, memory_format):
    """The largest distance of y, dx and dweight from `exact` over the algorithms of each, and how
    many these are; None where the layer is not one of these convolutions."""
    if not isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)) or x.dtype != torch.float32:
        return None
    memory_format = memory_format or torch.contiguous_format
    x, gradient = (each.detach().contiguous(memory_format=memory_format) for each in (x, gradient))
    bias = 0 if layer.bias is None else layer.bias.detach().double().view(1, -1, 1, 1)
    library, result = Library(), {"errors": {}, "algorithms": {}}
    with contextlib.ExitStack() as stack:
        stack.callback(library.status, "cudnnDestroy", library.handle)
        # Each direction reads two of the tensors and writes the third.
        if isinstance(layer, nn.Conv2d):
            problem = Problem(library, layer, x, gradient, memory_format, stack)
            outputs = {"y": ("forward", bias), "dx": ("data", 0), "dweight": ("filter", 0)}
        else:
            problem = Problem(library, layer, gradient, x, memory_format, stack)
            outputs = {"y": ("data", bias), "dx": ("forward", 0), "dweight": ("filter", 0)}
        for name, (direction, plus) in outputs.items():
            errors = [distance(found.double() + plus, exact[name])
                      for found in problem.results(direction)]
            errors = list(filter(math.isfinite, errors))
            result["errors"][name] = max(errors, default=0.0)
            result["algorithms"][name] = len(errors)
    return result
