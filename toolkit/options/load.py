"""Read settings from a YAML file or from KEY=VALUE texts, each checked against the options that there are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import NotFoundError, UsageError, did_you_mean
from toolkit.options.option import Option, dotted
from toolkit.storage.files import storage_errors
from toolkit.storage.places import local_path

__all__ = ["Setting", "load_config", "read_settings", "text_of"]

_MOST_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """A value for an option, and where it was given, for messages: "pack.yaml:3" or "--set"."""

    key: str
    value: object
    where: str


def load_config(path: str, options: Mapping[str, Option]) -> dict[str, Setting]:
    """Return the settings of a YAML file. Relative paths in it are relative to the file.

    Raises:
        NotFoundError: No such file.
        UsageError: It isn't a YAML mapping, has an unknown key, or a value that an option doesn't take.
        StorageError: It can't be read.
    """
    from toolkit.options.tree import read_tree

    path = local_path(path, "give a YAML file")
    tree = read_tree(text_of(path, "config"), path)
    if not isinstance(tree.value, dict):
        held = "no options" if tree.value is None else "no mapping"
        raise UsageError(f"{path}:1: holds {held}: expected lines such as `shard_size: 256MiB`")
    settings = {}
    for name, value in tree.value.items():
        where = f"{path}:{tree.lines[(name,)]}"
        if name not in options:
            raise UsageError(f"{where}: unknown key {name!r}.{_nearest(name, options)}")
        takes = options[name].value
        fault = takes.fault(value)
        if fault is not None:
            at = (name, *fault.path)
            raise UsageError(f"{path}:{tree.lines[at]}: {dotted(at)}: {fault.message}{fault.in_yaml}")
        try:
            value = takes.placed(value, os.path.dirname(path))
        except UsageError as error:
            raise UsageError(f"{where}: {name}: {error}") from error
        settings[name] = Setting(name, value, where)
    return settings


def read_settings(texts: Sequence[str], options: Mapping[str, Option]) -> dict[str, Setting]:
    """Return the settings of texts such as "shard_size=128MiB"; of several for one key, the last one counts.

    Their values stay text, for whoever reads the flag of that name.

    Raises:
        UsageError: A text is no KEY=VALUE, or the key is unknown.
    """
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or not value:
            raise UsageError(f"--set {text!r} is not KEY=VALUE, as in shard_size=128MiB")
        if name not in options:
            raise UsageError(f"--set {text!r}: unknown key {name!r}.{_nearest(name, options)}")
        settings[name] = Setting(name, value, f"--set {name}={value}")
    return settings


def text_of(path: str, what: str) -> str:
    """Return the text of a YAML file; `what` it holds is said where it can't be.

    Raises:
        NotFoundError: No such file.
        UsageError: It is a folder, larger than 1 MiB, or not UTF-8.
        StorageError: It can't be read.
    """
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        siblings = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        raise NotFoundError(f"no {what} at {path!r}.{did_you_mean(name, siblings)}")
    if os.path.isdir(path):
        raise UsageError(f"{path!r} is a folder: a {what} is a YAML file")
    with storage_errors("read", path), open(path, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path!r} is larger than 1 MiB: that isn't a {what}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error


def _nearest(name: object, options: Mapping[str, Option]) -> str:
    return did_you_mean(str(name), options) or f" Known: {', '.join(options)}"
