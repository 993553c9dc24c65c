"""Let JAX take a batch as a pytree: its columns are the leaves, their names part of the structure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax

__all__ = ["register"]


def register(kind: type[Mapping[str, Any]]) -> None:
    """Register a kind of batch, made by kind(columns).

    Epoch and positions are no part of the structure, or each batch would compile a jitted function anew; nor are they
    leaves, which jax.tree.map would change.
    """

    def flatten(batch: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        return tuple(batch.values()), tuple(batch)

    def flatten_with_keys(batch: Mapping[str, Any]) -> tuple[tuple[tuple[Any, Any], ...], tuple[str, ...]]:
        return tuple((jax.tree_util.DictKey(name), value) for name, value in batch.items()), tuple(batch)

    def unflatten(names: tuple[str, ...], leaves: Iterable[Any]) -> Mapping[str, Any]:
        return kind(dict(zip(names, leaves, strict=True)))  # type: ignore[call-arg]

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
