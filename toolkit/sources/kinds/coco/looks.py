"""Tell COCO annotations by the first KiB of a file, and a folder of them by where such a file lies."""

from __future__ import annotations

import os
import re
from itertools import islice

from toolkit.errors import SourceError
from toolkit.sources.regular import open_file
from toolkit.storage.files import storage_errors

__all__ = ["ROBOFLOW", "is_annotation_name", "looks_like_coco", "takes_folder"]

ROBOFLOW = "_annotations.coco.json"
"""What Roboflow calls the file that lies beside the pictures of a split."""

_HEAD_BYTES = 16 * 1024
_MOST_LOOKED_AT = 20
_FIRST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(?:images|annotations|categories|info|licenses?|type)"\s*:')
_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*+")(\s*:\s*\[)?|[\[\]{}]', re.DOTALL)
_LISTS = (b'"images"', b'"annotations"', b'"categories"')


def looks_like_coco(path: str) -> bool:
    """Tell whether a file is called *.json and begins as COCO annotations do. Raises StorageError."""
    if not is_annotation_name(path):
        return False
    try:
        with storage_errors("read", path), open_file(path) as file:
            head = file.read(_HEAD_BYTES)
    except SourceError:
        return False
    return _FIRST.match(head) is not None and _has_list(head)


def _has_list(head: bytes) -> bool:
    """Tell whether the object that the head begins has a list by one of COCO's names."""
    depth = 0
    for token in _TOKEN.finditer(head):
        if depth == 1 and token[1] in _LISTS and token[2]:
            return True
        if token[0][-1:] in (b"[", b"{"):
            depth += 1
        elif token[0] in (b"]", b"}"):
            depth -= 1
    return False


def is_annotation_name(name: str) -> bool:
    """Tell whether a file is called as annotations are."""
    return name.lower().endswith(".json")


def takes_folder(path: str) -> bool:
    """Tell whether a folder has COCO annotations: beside its pictures, in annotations/, or in folders of splits."""
    return any(map(looks_like_coco, islice(_candidates(path), _MOST_LOOKED_AT)))


def _candidates(path: str) -> list[str]:
    found = []
    for folder in (os.path.join(path, "annotations"), path):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        found += [os.path.join(folder, name) for name in names if is_annotation_name(name)][:_MOST_LOOKED_AT]
    beside = [os.path.join(path, name, ROBOFLOW) for name in sorted(os.listdir(path))[:1000]]
    return [file for file in [*found, *beside] if os.path.isfile(file)]
