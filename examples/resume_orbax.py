"""Train with JAX, save parameters and loader together with Orbax, and go on from the very next sample.

toolkit pack photos flowers
python examples/resume_orbax.py flowers checkpoints --stop-after 5
python examples/resume_orbax.py flowers checkpoints                  # goes on
"""

from __future__ import annotations

import argparse
import os
import sys

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp

import toolkit
from toolkit import slot
from toolkit.jax import agreed_state, load_state


@jax.jit
def train(weights: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the weights after a step."""

    def loss(weights: jax.Array) -> jax.Array:
        logits = images.reshape(len(images), -1) @ weights
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    return weights - 0.01 * jax.grad(loss)(weights)


def main() -> int:
    """Train from the last checkpoint on, if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the split train: PATH or PATH@sha256:PIN")
    parser.add_argument("checkpoints", help="a folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--stop-after", type=int, default=0, help="steps; then end as if killed")
    args = parser.parse_args()
    ds = toolkit.open(args.dataset, split="train")
    steps = slot("image").decode_image().resize_short(16).center_crop(16).normalize("half")
    loader = ds.loader(
        toolkit.pipeline(steps), batch_size=12, shuffle="full", seed=0, epochs=None, until_epoch=args.epochs,
        remainder="drop", output="jax",
    )  # fmt: skip
    weights = jnp.zeros((3 * 16 * 16, len(ds.classes or ())))
    step = 0
    with ocp.CheckpointManager(os.path.abspath(args.checkpoints)) as manager, loader:
        if manager.latest_step() is not None:
            step = manager.latest_step()
            # Its shape is the same at every step, so that a restore can say what it expects.
            wanted = {"weights": weights, "loader": agreed_state(loader)}
            saved = manager.restore(step, args=ocp.args.StandardRestore(wanted))
            weights = saved["weights"]
            load_state(loader, saved["loader"])
        for batch in loader:
            weights = train(weights, batch["image"], batch["label"])
            step += 1
            for position in batch.positions.tolist():
                print(f"trained {batch.epoch} {position}")
            manager.save(step, args=ocp.args.StandardSave({"weights": weights, "loader": agreed_state(loader)}))
            if step == args.stop_after:
                manager.wait_until_finished()
                sys.stdout.flush()
                os._exit(9)
    print(f"done {step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
