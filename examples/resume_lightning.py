"""Train with Lightning, stop in the middle of an epoch, and go on from the very next sample.

    toolkit pack photos flowers
    python examples/resume_lightning.py flowers checkpoints --max-steps 5
    python examples/resume_lightning.py flowers checkpoints                  # goes on

There is nothing to wire: a loader has state_dict() and load_state_dict(), which Lightning keeps in its checkpoints, and
a batch has to(device), by which Lightning moves it.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import pytorch_lightning as lightning
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

import toolkit
from toolkit import slot


class Network(lightning.LightningModule):
    """A linear layer, which says what it is trained on."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 16 * 16, classes)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        for position in batch.positions.tolist():
            print(f"trained {batch.epoch} {position}")
        return F.cross_entropy(self.layer(batch["image"].flatten(1)), batch["label"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> int:
    """Train from the last checkpoint on, if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the split train: PATH or PATH@sha256:PIN")
    parser.add_argument("checkpoints", help="a folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=-1)
    args = parser.parse_args()
    ds = toolkit.open(args.dataset, split="train")
    steps = slot("image").decode_image().resize_short(16).center_crop(16).normalize("half")
    # One epoch an iter(): Lightning has its own loop over epochs.
    loader = ds.loader(toolkit.pipeline(steps), batch_size=12, shuffle="full", seed=0, output="torch")
    saving = lightning.callbacks.ModelCheckpoint(args.checkpoints, every_n_train_steps=1, save_last=True)
    trainer = lightning.Trainer(
        max_epochs=args.epochs, max_steps=args.max_steps, callbacks=[saving], accelerator="cpu", logger=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    last = os.path.join(args.checkpoints, "last.ckpt")
    trainer.fit(Network(len(ds.classes or ())), loader, ckpt_path=last if os.path.exists(last) else None)
    print(f"done {trainer.global_step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
