"""Train a small network in plain JAX on a packed dataset of labelled images, and see that it beats chance.

    toolkit pack photos flowers
    python examples/train_jax.py flowers

Exits with 1 when it does not.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import jax
import jax.numpy as jnp

import toolkit
from toolkit import slot

BATCH_SIZE = 32
WIDTHS = (3, 32, 64, 128)
LEARNING_RATE, MOMENTUM = 0.05, 0.9
Params = list[dict[str, jax.Array]]


def init(key: jax.Array, classes: int) -> Params:
    """Return the weights of three convolutions, each with a scale and a bias, and of a linear layer."""
    keys = jax.random.split(key, len(WIDTHS))
    params = []
    for key, inputs, outputs in zip(keys, WIDTHS, WIDTHS[1:], strict=False):
        kernel = jax.random.normal(key, (outputs, inputs, 3, 3)) * (2 / (9 * inputs)) ** 0.5
        params.append({"w": kernel, "scale": jnp.ones((outputs, 1, 1)), "bias": jnp.zeros((outputs, 1, 1))})
    return [*params, {"w": jnp.zeros((WIDTHS[-1], classes)), "bias": jnp.zeros(classes)}]


def logits(params: Params, x: jax.Array) -> jax.Array:
    """Return (n, classes) for images (n, 3, height, width)."""
    for layer in params[:-1]:
        x = jax.lax.conv(x, layer["w"], window_strides=(2, 2), padding="SAME")
        groups = x.reshape(len(x), 8, -1)  # group normalisation
        groups = (groups - groups.mean(-1, keepdims=True)) * jax.lax.rsqrt(groups.var(-1, keepdims=True) + 1e-5)
        x = jax.nn.relu(groups.reshape(x.shape) * layer["scale"] + layer["bias"])
    return x.mean((2, 3)) @ params[-1]["w"] + params[-1]["bias"]


def loss(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross-entropy."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits(params, images)), labels[:, None], 1).mean()


@jax.jit
def step(
    params: Params, speed: Params, rate: float, images: jax.Array, labels: jax.Array
) -> tuple[Params, Params, jax.Array]:
    """Take a step of gradient descent with momentum; return the new weights, their speed, and the loss."""
    value, gradient = jax.value_and_grad(loss)(params, images, labels)
    speed = jax.tree.map(lambda v, g: MOMENTUM * v - rate * g, speed, gradient)
    return jax.tree.map(jnp.add, params, speed), speed, value


@jax.jit
def count_right(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return how many labels the network names."""
    return (logits(params, images).argmax(1) == labels).sum()


def main() -> int:
    """Train, then measure; return 0 when the network learnt something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the splits train and val: PATH or PATH@sha256:PIN")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0, help="of the network and of the order of the samples")
    parser.add_argument("--threads", default="auto", help="of each loader")
    parser.add_argument("--image-size", type=int, default=64, help="pixels a side")
    args = parser.parse_args()
    started = time.perf_counter()

    train, val = (toolkit.open(args.dataset, split=split) for split in ("train", "val"))
    if train.classes is None:
        sys.exit(f"{args.dataset} has no labels to learn")
    print(f"pin {train.pin}\n{len(train)} train and {len(val)} val samples of {len(train.classes)} classes")
    size, threads = args.image_size, args.threads if args.threads == "auto" else int(args.threads)
    steps = slot("image").decode_image().resize_short(size).center_crop(size).normalize("imagenet")
    pipeline = toolkit.pipeline(steps)

    params = init(jax.random.key(args.seed), len(train.classes))
    speed = jax.tree.map(jnp.zeros_like, params)
    options: dict[str, Any] = {"threads": threads, "output": "jax"}
    # Each pass over a loader is its next epoch, in a new order that follows from the seed and the epoch alone.
    # A shorter last batch would be compiled for its own shape: in training it is left out.
    batch_size = min(BATCH_SIZE, len(train))
    shuffled: dict[str, Any] = {"shuffle": "full", "seed": args.seed, "remainder": "drop"}
    with train.loader(pipeline, batch_size=batch_size, **shuffled, **options) as batches:
        for epoch in range(args.epochs):
            rate = LEARNING_RATE * (1 - epoch / args.epochs)
            losses = []
            for batch in batches:
                params, speed, value = step(params, speed, rate, batch["image"], batch["label"])
                losses.append(value)
            print(f"epoch {epoch} loss={jnp.stack(losses).mean():.3f}", flush=True)
    with val.loader(pipeline, batch_size=BATCH_SIZE, **options) as batches:
        accuracy = sum(int(count_right(params, batch["image"], batch["label"])) for batch in batches) / len(val)

    chance = 1 / len(train.classes)
    needed = min(3 * chance, (1 + chance) / 2)  # of few classes, three times chance is out of reach
    if accuracy < needed:
        print(f"the network learnt too little: accuracy {accuracy:.2f}, expected {needed:.2f}", file=sys.stderr)
    seconds = time.perf_counter() - started
    print(f"accuracy={accuracy:.2f} chance={chance:.2f} seconds={seconds:.1f} pin={train.pin}")
    return 0 if accuracy >= needed else 1


if __name__ == "__main__":
    sys.exit(main())
