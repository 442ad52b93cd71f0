"""Trains a convolutional network in JAX, as people write it: one compiled step, and a data set that stays on the device.
Prints one line of JSON with the bits of the losses, the peak as JAX counts it, and the time of a step. A plain JAX
program: it knows nothing of microdnn. check-jax starts it.

    jax_memory.py [--batch N] [--width N] [--steps N] [--sets N]
"""
import argparse
import json
import time

import jax
import jax.numpy as jnp

SIDE = 64


def make_parameters(key, width):
    shapes = {"first": (3, 3, 3, width), "second": (3, 3, width, width), "third": (3, 3, width, 2 * width),
              "fourth": (3, 3, 2 * width, 2 * width), "dense": (2 * width, 1000)}
    keys = jax.random.split(key, len(shapes))
    return {name: jax.random.normal(each, shape, jnp.float32) * (2.0 / jnp.prod(jnp.array(shape[:-1]))) ** 0.5
            for each, (name, shape) in zip(keys, shapes.items())}


def forward(parameters, images):
    def convolve(images, name):
        return jax.nn.relu(jax.lax.conv_general_dilated(images, parameters[name], (1, 1), "SAME",
                                                        dimension_numbers=("NHWC", "HWIO", "NHWC")))

    def pool(images):
        count, height, width, channels = images.shape
        return images.reshape(count, height // 2, 2, width // 2, 2, channels).max((2, 4))

    found = pool(convolve(convolve(images, "first"), "second"))
    return convolve(convolve(found, "third"), "fourth").mean((1, 2)) @ parameters["dense"]


def loss_of(parameters, images, labels):
    scores = jax.nn.log_softmax(forward(parameters, images))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@jax.jit
def step(parameters, speeds, images, labels):
    loss, slopes = jax.value_and_grad(loss_of)(parameters, images, labels)
    speeds = jax.tree.map(lambda speed, slope: 0.9 * speed + slope, speeds, slopes)
    return loss, jax.tree.map(lambda weight, speed: weight - 0.01 * speed, parameters, speeds), speeds


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("--batch", 256), ("--width", 128), ("--steps", 12), ("--sets", 12)):
        parser.add_argument(name, type=int, default=value)
    options = parser.parse_args()
    key = jax.random.key(0)
    parameters = make_parameters(key, options.width)
    speeds = jax.tree.map(jnp.zeros_like, parameters)
    images = [jax.random.normal(jax.random.fold_in(key, i), (options.batch, SIDE, SIDE, 3)) for i in range(options.sets)]
    # What is needed once in a while only: results of the evaluation, another model, a moving average.
    kept = [jnp.full((64 << 20,), float(i)) for i in range(options.sets)]
    labels = jax.random.randint(jax.random.fold_in(key, 1000), (options.batch,), 0, 1000)
    losses, times = [], []
    for index in range(options.steps):
        begin = time.perf_counter()
        loss, parameters, speeds = step(parameters, speeds, images[index % len(images)], labels)
        losses.append(float(loss).hex())
        times.append(time.perf_counter() - begin)
    losses += [float(each.sum()).hex() for each in (*kept, *images, *jax.tree.leaves(parameters))]
    statistics = jax.devices()[0].memory_stats() or {}
    print(json.dumps({"jax": jax.__version__, "losses": losses, "ms": 1e3 * sorted(times)[len(times) // 2],
                      "peak": statistics.get("peak_bytes_in_use", 0)}))


if __name__ == "__main__":
    main()
