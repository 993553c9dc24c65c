"""The files of a TFDS folder that describe it: features.json, dataset_info.json, names of classes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.errors import SourceError
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.regular import open_file
from toolkit.storage.files import storage_errors

__all__ = [
    "DESCRIPTIONS",
    "NotUnderstoodError",
    "Shard",
    "class_names",
    "labels_file",
    "read_json",
    "splits_of",
    "version_folders",
]

DESCRIPTIONS = ("features.json", "dataset_info.json")
"""The files by which a folder is known."""

_MOST_BYTES = 64 * 1024 * 1024
_MOST_SHARDS = 10_000_000
_MOST_RECORDS = (1 << 63) - 1
_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_VARIABLE = re.compile(r"\{(\w*)\}")
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}")
_DIGITS = 5
_FORMAT = "tfrecord"


class NotUnderstoodError(ValueError):
    """Why a description can't be understood."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of a split: its path below the folder, and how many records it has."""

    name: str
    records: int


def version_folders(path: str) -> list[str]:
    """Return the folder itself if it has the descriptions; else those in it that do and are called as versions are."""
    if _is_described(path):
        return [path]
    if not os.path.isdir(path):
        return []
    with storage_errors("read", path):
        names = [name for name in os.listdir(path) if _VERSION.fullmatch(name)]
    names.sort(key=lambda name: [int(part) for part in name.split(".")])
    return [folder for name in names if _is_described(folder := os.path.join(path, name))]


def _is_described(folder: str) -> bool:
    return all(os.path.isfile(os.path.join(folder, name)) for name in DESCRIPTIONS)


def read_json(path: str) -> object:
    """Return what a JSON file holds.

    Raises:
        SourceError: It is too large or no JSON.
        StorageError: It can't be read.
    """
    try:
        return json.loads(_content(path))
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{printable(path)!r} can't be understood ({error}): it is cut short or damaged; get it again"
        ) from error


def class_names(folder: str, feature: str) -> tuple[str, ...] | None:
    """Return the names in a feature's file of labels, as tensorflow-datasets reads them; None without such a file.

    Raises SourceError: it is no text.
    """
    path = os.path.join(folder, labels_file(feature))
    if not os.path.isfile(path):
        return None
    try:
        text = _content(path).decode()
    except UnicodeDecodeError as error:
        raise SourceError(f"{printable(path)!r} is not UTF-8 text at byte {error.start}: get it again") from error
    return tuple(name.strip() for name in text.split("\n") if name.strip())


def labels_file(feature: str) -> str:
    """Return what the file of a feature's class names is called."""
    return f"{feature.replace('/', '-')}.labels.txt"


def splits_of(document: object) -> dict[str, list[Shard]]:
    """Return the files of each split that dataset_info.json tells, in order.

    Raises NotUnderstoodError: it doesn't tell them, or they are no TFRecord files.
    """
    if not isinstance(document, dict) or not isinstance(document.get("splits"), list):
        raise NotUnderstoodError("no list of splits in it")
    file_format = document.get("fileFormat") or _FORMAT
    if file_format != _FORMAT:
        raise NotUnderstoodError(
            f"its files are of the format {file_format!r}, and {_FORMAT} is read: write them again with "
            f"tfds.builder(…, file_format={_FORMAT!r})"
        )
    splits: dict[str, list[Shard]] = {}
    for split in document["splits"]:
        name = split.get("name") if isinstance(split, dict) else None
        if not isinstance(name, str) or name in splits:
            raise NotUnderstoodError(f"a split called {name!a}, which is no name or comes twice")
        splits[name] = _shards(split, name, document.get("name"))
    return splits


def _shards(split: Mapping[str, object], name: str, dataset: object) -> list[Shard]:
    told = split.get("shardLengths", [])
    if "shardLengths" not in split and (split.get("numShards") or split.get("statistics")):
        raise NotUnderstoodError(
            f"split {name!r} doesn't say how many records its files have (shardLengths), as older versions of "
            "tensorflow-datasets didn't: pack the files with --source-kind tfrecord"
        )
    if not isinstance(told, list) or len(told) > _MOST_SHARDS:
        raise NotUnderstoodError(f"shardLengths of split {name!r} are no list")
    template = split.get("filepathTemplate") or _TEMPLATE
    if not isinstance(template, str):
        raise NotUnderstoodError(f"filepathTemplate of split {name!r} is no text")
    width = max(_DIGITS, len(str(len(told))))
    shards = []
    for number, length in enumerate(told):
        if not str(length).isascii() or not str(length).isdigit() or int(str(length)[:20]) > _MOST_RECORDS:
            raise NotUnderstoodError(f"{length!a} in shardLengths of split {name!r} is no number of records")
        index, count = f"{number:0{width}}", f"{len(told):0{width}}"
        values = {
            "DATASET": dataset if isinstance(dataset, str) else None,
            "SPLIT": name,
            "FILEFORMAT": _FORMAT,
            "SHARD_INDEX": index,
            "NUM_SHARDS": count,
            "SHARD_X_OF_Y": f"{index}-of-{count}",
        }
        shards.append(Shard(_path(template, values), int(length)))
    if len({shard.name for shard in shards}) < len(shards):
        raise NotUnderstoodError(f"the template {template!r} of split {name!r} gives several files one name")
    return shards


def _path(template: str, values: Mapping[str, str | None]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        if found is None:
            raise NotUnderstoodError(f"nothing is known of {match[0]} in the template {template!r}")
        return found

    path = _VARIABLE.sub(value, template)
    if "\0" in path or not is_utf8(path) or any(part in ("", ".", "..") for part in path.split("/")):
        raise NotUnderstoodError(f"{printable(path)!r} is no path below the folder, and nothing else is read")
    return path


def _content(path: str) -> bytes:
    with storage_errors("read", path), open_file(path) as file:
        parts, size = [], 0
        while size <= _MOST_BYTES and (part := file.read(_MOST_BYTES + 1 - size)):
            parts.append(part)
            size += len(part)
    if size > _MOST_BYTES:
        raise SourceError(f"{printable(path)!r} is larger than such a file is ({_MOST_BYTES >> 20} MiB): get it again")
    return b"".join(parts)
