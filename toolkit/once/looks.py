"""Tell a dataset's path from that of what is none yet, by names alone."""

from __future__ import annotations

import os
import re

from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, SHARDS, TABLES, holds_dataset
from toolkit.storage.local import LocalStore
from toolkit.storage.places import is_there, local_path

__all__ = ["is_folder", "names_dataset"]

_PARTS = (MANIFESTS, TABLES, SHARDS, JOURNAL)
_PATTERN = re.compile(r"[*?[{]")


def names_dataset(text: str) -> bool:
    """Tell whether a path is that of a dataset, finished or not, damaged or not, or of nothing at all."""
    if not text or "@sha256:" in text or "://" in text or "\0" in text:
        return True
    path = local_path(text, "")
    if not is_there(path):
        return not _PATTERN.search(path)
    if holds_dataset(path):
        return True
    folder, name = os.path.split(os.path.abspath(path))
    if is_folder(path):
        return _has(path, MANIFEST) and any(_has(path, part) for part in _PARTS)
    if name == MANIFEST:
        return any(_has(folder, part) for part in _PARTS)
    return os.path.basename(folder) == MANIFESTS and name.endswith(".json")


def is_folder(path: str) -> bool:
    """Tell whether a path is that of a folder."""
    info = LocalStore(path).info("")
    return info is not None and info.bytes is None


def _has(folder: str, name: str) -> bool:
    return is_there(os.path.join(folder, name))
