"""Train a small torch network on a packed dataset of labelled images, and see that it beats chance.

    toolkit pack photos flowers
    python examples/train_torch.py flowers

Exits with 1 when it does not.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

# torch's threads share the CPU with the loader's: those that wait must sleep, not spin. Read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import nn

import toolkit
from toolkit import slot

BATCH_SIZE = 32
LEARNING_RATE = 2e-3


def make_network(classes: int) -> nn.Module:
    """Return three convolutions, a mean over the picture, and a linear layer."""
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, classes))


def train_epoch(network: nn.Module, optimizer: torch.optim.Optimizer, batches: toolkit.Loader) -> float:
    """Take one step a batch; return the mean loss of a sample."""
    total, samples = 0.0, 0
    for batch in batches:
        loss = F.cross_entropy(network(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(batch["label"])
        samples += len(batch["label"])
    return total / samples


@torch.no_grad()
def measure_accuracy(network: nn.Module, batches: toolkit.Loader) -> float:
    """Return the share of samples whose label the network names."""
    right, samples = 0, 0
    for batch in batches:
        right += int((network(batch["image"]).argmax(1) == batch["label"]).sum())
        samples += len(batch["label"])
    return right / samples


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
    torch.manual_seed(args.seed)
    torch.use_deterministic_algorithms(True)

    train, val = (toolkit.open(args.dataset, split=split) for split in ("train", "val"))
    if train.classes is None:
        sys.exit(f"{args.dataset} has no labels to learn")
    print(f"pin {train.pin}\n{len(train)} train and {len(val)} val samples of {len(train.classes)} classes")
    size, threads = args.image_size, args.threads if args.threads == "auto" else int(args.threads)
    steps = slot("image").decode_image().resize_short(size).center_crop(size).normalize("imagenet")
    pipeline = toolkit.pipeline(steps)

    network = make_network(len(train.classes))
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, total_iters=args.epochs)
    options = {"batch_size": BATCH_SIZE, "threads": threads, "output": "torch"}
    # Each pass over a loader is its next epoch, in a new order that follows from the seed and the epoch alone.
    with train.loader(pipeline, shuffle="full", seed=args.seed, **options) as batches:
        for epoch in range(args.epochs):
            print(f"epoch {epoch} loss={train_epoch(network, optimizer, batches):.3f}", flush=True)
            schedule.step()
    with val.loader(pipeline, **options) as batches:
        accuracy = measure_accuracy(network, batches)

    chance = 1 / len(train.classes)
    needed = min(3 * chance, (1 + chance) / 2)  # of few classes, three times chance is out of reach
    if accuracy < needed:
        print(f"the network learnt too little: accuracy {accuracy:.2f}, expected {needed:.2f}", file=sys.stderr)
    seconds = time.perf_counter() - started
    print(f"accuracy={accuracy:.2f} chance={chance:.2f} seconds={seconds:.1f} pin={train.pin}")
    return 0 if accuracy >= needed else 1


if __name__ == "__main__":
    sys.exit(main())
