"""Read a class map from a file of names.

Checks the names against each other only; whether they fit a source is for the source to say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from toolkit.errors import StorageError, UsageError
from toolkit.sources.names import is_utf8
from toolkit.sources.places import not_found
from toolkit.storage.places import local_path

__all__ = ["check_class_names", "read_classes"]


def read_classes(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Read a class map: UTF-8, one name a line, the first line is id 0.

    A byte order mark, CRLF and a line end behind the last name are fine; other white space belongs to a name.

    Raises:
        NotFoundError: There is no such file.
        UsageError: It isn't UTF-8, is empty, or has a blank line or a name twice.
        StorageError: It can't be read.
    """
    name = local_path(os.fsdecode(path), "give a text file")
    try:
        with open(name, "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise not_found(name, "file of class names") from error
    except IsADirectoryError as error:
        raise UsageError(f"{name!r} is a folder; classes come from a file with one name a line.") from error
    except OSError as error:
        raise StorageError(f"Can't read {name!r}: {error.strerror or error}.") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{name!r}, line {line}: not UTF-8 text. Save the file as UTF-8.") from error
    # Not splitlines(): it also breaks at characters that a folder name may hold.
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    check_class_names(lines, where=repr(name), unit="line", first=1)
    return tuple(lines)


def check_class_names(names: Sequence[str], *, where: str, unit: str, first: int) -> None:
    """Refuse a class map that is empty, has a blank name, or has a name twice.

    Args:
        names: The names in id order.
        where: What they come from, for the message.
        unit: What a place in it is called.
        first: Number of the first place.

    Raises:
        UsageError: Names the place and what is wrong there.
    """
    if not names:
        raise UsageError(f"{where}: no class names. Give every class, in id order.")
    seen: dict[str, int] = {}
    for number, name in enumerate(names, first):
        if not name.strip():
            raise UsageError(f"{where}, {unit} {number}: blank. Every {unit} must name a class.")
        if name in seen:
            raise UsageError(
                f"{where}: {name!r} is both {unit} {seen[name]} and {unit} {number}. Take one of them out."
            )
        if not is_utf8(name):
            raise UsageError(f"{where}, {unit} {number}: {name!r} is not valid UTF-8. Rename the class.")
        seen[name] = number
