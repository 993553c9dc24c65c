"""Replay a trace on a disk of two sides: what programs see, and what is sure to be there after a power cut.

POSIX promises little: the data of a file are sure once it is synced, a name in a folder once that folder is. So a cut
may keep a name and lose the data, or the other way round.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_HEAD = struct.Struct("<iiqq16s")

Tree = dict[str, bytes | None]  # path below the folder -> content, None for a folder


class Call(NamedTuple):
    """A call that was done: what, on which paths, at which offset (or flags), with which bytes."""

    name: str
    path: str
    path2: str
    offset: int
    data: bytes

    @property
    def parent(self) -> str:
        return self.path.rpartition("/")[0]


@dataclass(eq=False)
class File:
    data: bytearray = field(default_factory=bytearray)
    sure: bytes = b""


@dataclass(eq=False)
class Folder:
    names: dict[str, File | Folder] = field(default_factory=dict)
    sure: dict[str, File | Folder] = field(default_factory=dict)


def read_trace(path: Path) -> list[Call]:
    """Return the calls that the shim wrote down."""
    content, at, calls = path.read_bytes(), 0, []
    while at < len(content):
        first, second, offset, length, name = _HEAD.unpack_from(content, at)
        ends = [at := at + _HEAD.size, at := at + first, at := at + second]
        what = name.rstrip(b"\0").decode()
        if what == "write":
            at += length
        calls.append(
            Call(
                what,
                content[ends[0] : ends[1]].decode(),
                content[ends[1] : ends[2]].decode(),
                offset,
                content[ends[2] : at],
            )
        )
    return calls


def read_tree(folder: Path) -> Tree:
    """Return what is below a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def write_tree(folder: Path, tree: Tree) -> None:
    """Make a new folder that holds the tree."""
    folder.mkdir(parents=True)
    for name, content in tree.items():
        if content is None:
            (folder / name).mkdir(exist_ok=True)
        else:
            (folder / name).write_bytes(content)


class Disk:
    """A folder on a disk. It begins with `tree`, all of it sure."""

    def __init__(self, folder: Path, tree: Tree) -> None:
        self._folder = str(folder)
        self._root = Folder()
        for name, content in tree.items():
            parent, base = self._place(f"{self._folder}/{name}")
            node: File | Folder = Folder() if content is None else File(bytearray(content), content)
            parent.names[base] = parent.sure[base] = node

    def do(self, call: Call) -> None:
        """Do what the call did."""
        if call.path.endswith(" (deleted)"):
            return
        match call.name:
            case "open":
                parent, base = self._place(call.path)
                file = parent.names.setdefault(base, File())
                if call.offset:
                    assert isinstance(file, File)
                    del file.data[:]
            case "write":
                file = self._file(call.path)
                file.data.extend(bytes(max(0, call.offset - len(file.data))))
                file.data[call.offset : call.offset + len(call.data)] = call.data
            case "truncate":
                file = self._file(call.path)
                file.data[:] = bytes(file.data[: call.offset]).ljust(call.offset, b"\0")
            case "fsync":
                node = self._node(call.path)
                if isinstance(node, File):
                    node.sure = bytes(node.data)
                else:
                    node.sure = dict(node.names)
            case "mkdir":
                parent, base = self._place(call.path)
                parent.names[base] = Folder()
            case "unlink" | "rmdir":
                parent, base = self._place(call.path)
                del parent.names[base]
            case "rename":
                parent, base = self._place(call.path)
                target, name = self._place(call.path2)
                target.names[name] = parent.names.pop(base)
            case "link":
                target, name = self._place(call.path2)
                target.names[name] = self._node(call.path)
            case _:
                raise AssertionError(call)

    def seen(self) -> Tree:
        """Return what programs see."""
        return dict(_walk(self._root, "", lambda: True))

    def after_cut(self, kept: str, seed: int = 0) -> Tree:
        """Return what a power cut may leave: "sure" only what is synced; "names" every name, but data only where
        they are synced; "data" every byte, under the names that are sure; "any" one or the other for each, by `seed`.
        """
        rng = random.Random(seed)
        names = {"sure": lambda: False, "names": lambda: True, "data": lambda: False, "any": lambda: rng.random() < 0.5}
        data = {"sure": lambda: False, "names": lambda: False, "data": lambda: True, "any": lambda: rng.random() < 0.5}
        return dict(_walk(self._root, "", names[kept], data[kept]))

    def _place(self, path: str) -> tuple[Folder, str]:
        assert path.startswith(f"{self._folder}/"), path
        *folders, base = path.removeprefix(f"{self._folder}/").split("/")
        node = self._root
        for name in folders:
            below = node.names[name]
            assert isinstance(below, Folder)
            node = below
        return node, base

    def _node(self, path: str) -> File | Folder:
        if path == self._folder:
            return self._root
        parent, base = self._place(path)
        return parent.names[base]

    def _file(self, path: str) -> File:
        node = self._node(path)
        assert isinstance(node, File)
        return node


def _walk(
    folder: Folder, prefix: str, newest_names: Callable[[], bool], newest_data: Callable[[], bool] = lambda: True
) -> Iterator[tuple[str, bytes | None]]:
    names = folder.names if newest_names() else folder.sure
    for name, node in sorted(names.items()):
        path = f"{prefix}{name}"
        if isinstance(node, Folder):
            yield path, None
            yield from _walk(node, f"{path}/", newest_names, newest_data)
        else:
            yield path, bytes(node.data) if newest_data() else node.sure
