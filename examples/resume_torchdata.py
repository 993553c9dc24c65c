"""Train through torchdata's StatefulDataLoader, stop in the middle of an epoch, and go on from the very next batch.

    toolkit pack photos flowers
    python examples/resume_torchdata.py flowers run.pt --stop-after 5
    python examples/resume_torchdata.py flowers run.pt                  # goes on

For code that has a DataLoader and keeps it. toolkit's own loader needs no worker processes, and its state serves any
number of ranks; this one's wants the same number of workers again.
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torchdata.stateful_dataloader import StatefulDataLoader

import toolkit
import toolkit.torch
from toolkit import slot


def main() -> int:
    """Train from the checkpoint on, if there is one; return 0 at the end of the last epoch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the split train: PATH or PATH@sha256:PIN")
    parser.add_argument("checkpoint", help="written after every step; read at the start when it is there")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stop-after", type=int, default=0, help="steps; then end as if killed")
    args = parser.parse_args()
    ds = toolkit.open(args.dataset, split="train")
    steps = slot("image").decode_image().resize_short(16).center_crop(16).normalize("half")
    batches = toolkit.torch.IterableDataset(ds, toolkit.pipeline(steps), batch_size=12, shuffle="full", seed=0)
    loader = StatefulDataLoader(batches, batch_size=None, num_workers=args.workers)  # batches are made already
    network = torch.nn.Linear(3 * 16 * 16, len(ds.classes or ()))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    first, step = 0, 0
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        network.load_state_dict(saved["network"])
        loader.load_state_dict(saved["loader"])
        first, step = saved["epoch"], saved["step"]

    for epoch in range(first, args.epochs):
        batches.set_epoch(epoch)
        for batch in loader:
            optimizer.zero_grad()
            F.cross_entropy(network(batch["image"].flatten(1)), batch["label"]).backward()
            optimizer.step()
            step += 1
            for position in batch["__positions__"].tolist():
                print(f"trained {epoch} {position}")
            saved = {"network": network.state_dict(), "loader": loader.state_dict(), "epoch": epoch, "step": step}
            torch.save(saved, f"{args.checkpoint}.new")
            os.replace(f"{args.checkpoint}.new", args.checkpoint)
            if step == args.stop_after:
                sys.stdout.flush()
                os._exit(9)
    print(f"done {step}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
