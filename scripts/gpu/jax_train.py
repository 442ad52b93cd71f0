"""Ten steps of SGD with a small network in JAX, on fixed random data; prints one line of JSON with the
losses in JAX's default precision (TF32 on GPUs that have it) and in strict fp32. A plain JAX program:
it knows nothing of microdnn.

    jax_train.py [--batch N] [--steps N]
"""
import argparse
import functools
import json

import jax
import jax.numpy as jnp

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--steps", type=int, default=10)
options = parser.parse_args()


def make_parameters(key):
    keys = jax.random.split(key, 3)
    def weights(key, shape, inputs):
        return jax.random.normal(key, shape, jnp.float32) * (2.0 / inputs) ** 0.5
    return {"conv1": weights(keys[0], (5, 5, 3, 64), 75), "bias1": jnp.zeros(64),
            "conv2": weights(keys[1], (3, 3, 64, 128), 576), "bias2": jnp.zeros(128),
            "dense": weights(keys[2], (128, 10), 128)}


def forward(parameters, x):
    def convolve(x, name):
        y = jax.lax.conv_general_dilated(x, parameters["conv" + name], (1, 1), "SAME",
                                         dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y + parameters["bias" + name])
    x = convolve(x, "1")
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return convolve(x, "2").mean((1, 2)) @ parameters["dense"]


def loss_of(parameters, x, labels):
    scores = jax.nn.log_softmax(forward(parameters, x))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


def train(precision):
    key = jax.random.key(0)
    parameters = make_parameters(key)
    x = jax.random.normal(jax.random.fold_in(key, 1), (options.batch, 64, 64, 3), jnp.float32)
    labels = jax.random.randint(jax.random.fold_in(key, 2), (options.batch,), 0, 10)
    with jax.default_matmul_precision(precision):
        step = jax.jit(jax.value_and_grad(loss_of))
        update = functools.partial(jax.tree.map, lambda weight, slope: weight - 0.01 * slope)
        losses = []
        for _ in range(options.steps):
            loss, gradients = step(parameters, x, labels)
            parameters = update(parameters, gradients)
            losses.append(float(loss))
    return losses


print(json.dumps({"jax": jax.__version__, "jax_device": jax.devices()[0].device_kind,
                  "platform": jax.devices()[0].platform,
                  "losses": {"default": train("default"), "highest": train("highest")}}))
