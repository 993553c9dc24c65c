"""A loader's state as an array, which Orbax and other JAX checkpointers save beside the parameters."""

from __future__ import annotations

import json
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.loader.loader import Loader
from toolkit.loader.order.state import differing_states

__all__ = ["agreed_state", "load_state"]

_BYTES = 1024  # of JSON, padded with blanks: the shape is the same at every step, as restoring wants it


def agreed_state(loader: Loader) -> dict[str, NDArray[np.uint8]]:
    """Return loader.state_dict() as {"json": uint8 (1024,)}, after all processes compared theirs; all must call it.

    Raises:
        LoaderError: Processes stand at different steps, or were made of different data, seeds or orders.
    """
    text = json.dumps(loader.state_dict()).encode()
    array = np.frombuffer(text.ljust(_BYTES), np.uint8).copy()
    if jax.process_count() > 1:
        gathered = np.asarray(multihost_utils.process_allgather(array))
        differing = differing_states([json.loads(row.tobytes()) for row in gathered])
        if differing:
            raise LoaderError(differing)
    return {"json": array}


def load_state(loader: Loader, state: dict[str, Any]) -> None:
    """Let `loader` go on where agreed_state() was taken. Raises UsageError as load_state_dict() does."""
    loader.load_state_dict(json.loads(np.asarray(state["json"]).astype(np.uint8).tobytes()))
