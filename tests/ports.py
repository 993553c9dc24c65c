"""Places at which processes that a test starts find each other, and that nobody else gets meanwhile."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

__all__ = ["reserved_port", "torch_rendezvous"]


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Keep a port from everybody who doesn't name it; JAX may listen on it beside this, which doesn't."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@contextlib.contextmanager
def torch_rendezvous(world_size: int) -> Iterator[dict[str, str]]:
    """Do what torchrun does: keep the store through which ranks meet; yield the environment that leads them to it."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield {
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }
    del store
