"""Find the store that a path or URL names: a folder of this machine, or what the scheme of a URL stands for."""

from __future__ import annotations

import os
from collections.abc import Callable

from toolkit.errors import NotFoundError, did_you_mean
from toolkit.storage.local import find_local, siblings
from toolkit.storage.memory import open_memory
from toolkit.storage.places import local_path
from toolkit.storage.store import Store

__all__ = ["STORES", "open_store"]

STORES: dict[str, Callable[[str], tuple[Store, str]]] = {"memory": open_memory}
"""By the scheme of a URL: what returns the store that the URL lies in, and the object's name there, "" for the root."""


def open_store(given: str) -> tuple[Store, str]:
    """Return the store that a path or URL lies in, and the name of the object that it is; "" for the store's root.

    Raises:
        NotFoundError: There is nothing.
        UsageError: It is a URL of no known scheme.
    """
    scheme, colon, _ = given.partition("://")
    opened = STORES.get(scheme.lower()) if colon else None
    if opened is not None:
        return opened(given)
    path = local_path(given, "copy the dataset's folder here, and give that")
    found = find_local(path)
    if found is None:
        raise NotFoundError(f"no dataset at {path!r}.{did_you_mean(os.path.basename(path), siblings(path))}")
    return found
