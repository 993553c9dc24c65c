"""Train with torch on any number of ranks, be killed at any step, and go on with another number of ranks.

    toolkit pack photos flowers
    torchrun --nproc-per-node 2 examples/resume_torch.py flowers run.pt
    torchrun --nproc-per-node 3 examples/resume_torch.py flowers run.pt    # after a kill: goes on from run.pt

Every step is the mean over the same global batch, so the network comes out the same whatever happened in between.
"""

from __future__ import annotations

import argparse
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - torch's own name for it

import toolkit
from toolkit import slot
from toolkit.torch import agreed_state


def main() -> int:
    """Train from the checkpoint on, if there is one; return 0 at the end of the last epoch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", help="a packed dataset with the split train: PATH or PATH@sha256:PIN")
    parser.add_argument("checkpoint", help="written every few steps; read at the start when it is there")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--global-batch-size", type=int, default=12, help="of all ranks together")
    parser.add_argument("--save-every", type=int, default=3, help="steps")
    parser.add_argument("--stop-after", type=int, default=0, help="steps; then end as if killed")
    args = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    ranks = dist.get_world_size() if dist.is_initialized() else 1

    ds = toolkit.open(args.dataset, split="train")
    steps = slot("image").decode_image().resize_short(16).center_crop(16).normalize("half")
    torch.manual_seed(0)
    network = torch.nn.Linear(3 * 16 * 16, len(ds.classes or ()))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    # Ranks come from torchrun. `pad` gives each the same number of batches, and masks what is left over.
    loader = ds.loader(
        toolkit.pipeline(steps), global_batch_size=args.global_batch_size, shuffle="full", seed=0, epochs=None,
        until_epoch=args.epochs, remainder="pad", output="torch",
    )  # fmt: skip
    if os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, weights_only=True)
        network.load_state_dict(saved["network"])
        loader.load_state_dict(saved["loader"])

    with loader:
        for step, batch in enumerate(loader, start=1):
            mask = torch.from_numpy(batch.mask)
            losses = F.cross_entropy(network(batch["image"].flatten(1)), batch["label"], reduction="none")
            count = mask.sum()
            optimizer.zero_grad()
            (losses * mask).sum().backward()
            if ranks > 1:
                for value in (count, *(parameter.grad for parameter in network.parameters())):
                    dist.all_reduce(value)
            for parameter in network.parameters():
                parameter.grad /= count
            optimizer.step()
            for position in batch.positions[batch.mask].tolist():
                print(f"trained {batch.epoch} {position}")
            if step % args.save_every == 0:
                state = agreed_state(loader)  # every rank takes part: they compare where they are
                if loader.cut.rank == 0:
                    torch.save({"network": network.state_dict(), "loader": state}, f"{args.checkpoint}.new")
                    os.replace(f"{args.checkpoint}.new", args.checkpoint)
                    print(f"saved {state['epoch']} {state['position']}")
            if step == args.stop_after:
                os._exit(9)
    weight = torch.cat([parameter.detach().flatten() for parameter in network.parameters()]).double().norm()
    print(f"done {weight:.6f}")
    if dist.is_initialized():
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
