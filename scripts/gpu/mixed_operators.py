"""Operations of PyTorch for mixed_worker.py, on tensors of many chunks: each gives what it computes, and
forward and backward where both have kernels of their own. Seeded; a plain PyTorch program."""
import functools

import torch
from torch.nn import functional

from memory_programs import DEVICE


def normal(*shape, dtype=torch.float32, scale=1.0, seed=0):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return (torch.randn(*shape, device=DEVICE, generator=generator) * scale).to(dtype)


def whole(low, high, *shape, dtype=torch.int64, seed=1):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(low, high, shape, device=DEVICE, dtype=dtype, generator=generator)


def backward(result, *operands):
    """The result and its gradients, for a fixed gradient of the result."""
    return [result.detach(), *torch.autograd.grad(result, operands, normal(*result.shape, seed=7).to(result.dtype))]


# --- Matrix products ------------------------------------------------------------------------------
def product(dtype, m=4096, n=4096, k=4096, tf32=False):
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return [normal(m, k, dtype=dtype) @ normal(k, n, dtype=dtype, seed=2)]


def product_fp8():
    left = normal(4096, 4096).to(torch.float8_e4m3fn)
    right = normal(4096, 4096, seed=2).to(torch.float8_e4m3fn).t()
    one = torch.ones((), device=DEVICE)
    return [torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)]


def product_int8():
    return [torch._int_mm(whole(-100, 100, 4096, 4096, dtype=torch.int8),
                          whole(-100, 100, 4096, 4096, dtype=torch.int8, seed=2).t())]


def batched_product():
    return [torch.bmm(normal(64, 512, 512, dtype=torch.bfloat16), normal(64, 512, 512, dtype=torch.bfloat16, seed=2))]


def matrix_and_vector():
    return [normal(8192, 8192) @ normal(8192, seed=2)]


# --- Convolutions, attention, recurrence ----------------------------------------------------------
def convolution(dtype, layout=torch.contiguous_format, tf32=False, groups=1, dimensions=2):
    torch.backends.cudnn.allow_tf32 = tf32
    shape, convolve = {2: ((32, 64, 64, 64), functional.conv2d),
                       3: ((4, 32, 32, 32, 32), functional.conv3d)}[dimensions]
    channels = shape[1]
    data = normal(*shape, dtype=dtype).to(memory_format=layout).requires_grad_()
    outputs = channels if groups > 1 else 512
    weights = normal(outputs, channels // groups, *[3] * dimensions, dtype=dtype, seed=3)
    weights = weights.to(memory_format=layout).requires_grad_()
    return backward(convolve(data, weights, padding=1, groups=groups), data, weights)


def wide_convolution():
    """Whose weights have borders, too."""
    data, weights = (normal(*shape, dtype=torch.bfloat16, seed=seed).to(memory_format=torch.channels_last).requires_grad_()
                     for shape, seed in (((8, 1024, 32, 32), 0), ((1024, 1024, 3, 3), 3)))
    return backward(functional.conv2d(data, weights, padding=1), data, weights)


def attention(backend):
    parts = [normal(8, 16, 1024, 64, dtype=torch.bfloat16, seed=seed).requires_grad_() for seed in range(3)]
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, backend)):
        return backward(functional.scaled_dot_product_attention(*parts, is_causal=True), *parts)


def lstm():
    torch.manual_seed(0)
    net = torch.nn.LSTM(512, 1024, device=DEVICE)
    data = normal(64, 64, 512).requires_grad_()
    return backward(net(data)[0], data, *net.parameters())


# --- What reduces, sorts, and scatters ------------------------------------------------------------
def losses_of_words():
    logits = normal(2048, 50257).requires_grad_()
    loss = functional.cross_entropy(logits, whole(0, 50257, 2048))
    return [loss.detach(), *torch.autograd.grad(loss, logits)]


def embedding():
    table = normal(50257, 256).requires_grad_()
    return backward(functional.embedding(whole(0, 50257, 16384), table), table)


def normalised(of):
    data = normal(64, 64, 64, 64).requires_grad_()
    weights = normal(64, seed=4).requires_grad_()
    done = {"batch": lambda: functional.batch_norm(data, None, None, weights, training=True),
            "group": lambda: functional.group_norm(data, 8, weights),
            "layer": lambda: functional.layer_norm(data.flatten(2), (4096,))}[of]()
    return backward(done, data)


def pooled():
    data = normal(64, 64, 64, 64).requires_grad_()
    return backward(functional.max_pool2d(data, 3, 2, 1), data)


def optimizer_step():
    torch.manual_seed(0)
    parameters = [normal(2048, 2048, seed=seed).requires_grad_() for seed in range(4)]
    for parameter in parameters:
        parameter.grad = normal(2048, 2048, seed=9)
    torch.optim.AdamW(parameters, fused=True).step()
    torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True).step()
    return parameters


def scattered_sums(dtype):
    words, places = normal(1 << 22).to(dtype), whole(0, 1 << 21, 1 << 22)
    return [torch.zeros(1 << 21, dtype=dtype, device=DEVICE).index_add_(0, places, words),
            torch.zeros(1 << 21, dtype=dtype, device=DEVICE).scatter_add_(0, places, words)]


def copies():
    there = normal(4096, 4096)
    pinned = torch.empty(4096, 4096, pin_memory=True)
    pinned.copy_(there, non_blocking=True)
    torch.cuda.synchronize()
    back = torch.empty_like(there)
    back[:, :4000].copy_(pinned.to(DEVICE)[:, :4000])  # rows
    back[:, 4000:] = there.cpu().to(DEVICE)[:, 4000:]
    return [pinned, back, there.t().contiguous(), torch.cat([there, back]), torch.zeros_like(there)]


def factor():
    product_of_same = normal(2048, 2048) @ normal(2048, 2048).t()
    return [torch.linalg.cholesky(4096 * torch.eye(2048, device=DEVICE) + product_of_same)]


def dropped():
    torch.manual_seed(5)
    return [functional.dropout(normal(1 << 23))]


OPERATORS = {
    "product fp32": functools.partial(product, torch.float32),
    "product tf32": functools.partial(product, torch.float32, tf32=True),
    "product bf16": functools.partial(product, torch.bfloat16),
    "product fp16": functools.partial(product, torch.float16),
    "product fp64": functools.partial(product, torch.float64, 2048, 2048, 2048),
    "product fp8": product_fp8,
    "product int8": product_int8,
    "product bf16, long": functools.partial(product, torch.bfloat16, 512, 512, 65536),
    "product bf16, batched": batched_product,
    "matrix and vector": matrix_and_vector,
    "convolution fp32": functools.partial(convolution, torch.float32),
    "convolution tf32": functools.partial(convolution, torch.float32, tf32=True),
    "convolution bf16 nhwc": functools.partial(convolution, torch.bfloat16, torch.channels_last),
    "convolution bf16 nhwc, wide": wide_convolution,
    "convolution fp32, depthwise": functools.partial(convolution, torch.float32, groups=64),
    "convolution bf16, 3-D": functools.partial(convolution, torch.bfloat16, dimensions=3),
    "attention, flash": functools.partial(attention, "FLASH_ATTENTION"),
    "attention, cuDNN": functools.partial(attention, "CUDNN_ATTENTION"),
    "attention, efficient": functools.partial(attention, "EFFICIENT_ATTENTION"),
    "lstm": lstm,
    "cross entropy": losses_of_words,
    "embedding": embedding,
    "batch norm": functools.partial(normalised, "batch"),
    "group norm": functools.partial(normalised, "group"),
    "layer norm": functools.partial(normalised, "layer"),
    "max pool": pooled,
    "optimizers": optimizer_step,
    "index_add fp32": functools.partial(scattered_sums, torch.float32),
    "index_add bf16": functools.partial(scattered_sums, torch.bfloat16),
    "index_add fp64": functools.partial(scattered_sums, torch.float64),
    "cumsum": lambda: [normal(1 << 24).double().cumsum(0)],
    "sort": lambda: list(normal(1 << 22).sort()),
    "topk": lambda: list(normal(64, 1 << 17).topk(100)),
    "unique": lambda: list(whole(0, 1 << 20, 1 << 22).unique(return_counts=True)),
    "histogram": lambda: [whole(0, 1000, 1 << 23).bincount()],
    "nonzero": lambda: [normal(1 << 22).gt(1).nonzero()],
    "random gather": lambda: [normal(1 << 23)[whole(0, 1 << 23, 1 << 22)]],
    "fft": lambda: [torch.view_as_real(torch.fft.rfft2(normal(64, 512, 512)))],
    "cholesky": factor,
    "dropout": dropped,
    "copies": copies,
}
