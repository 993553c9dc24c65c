"""Class maps read from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import NotFoundError, UsageError
from toolkit.sources.classes import read_classes


def test_read_classes(tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes("\ufeffdog\r\ncat two\r\n\x85a\u2028b\r\n".encode())
    assert read_classes(path) == ("dog", "cat two", "\x85a\u2028b")
    path.write_bytes(b"b\na")
    assert read_classes(path) == ("b", "a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no class names"),
        (b"\n", "line 1: blank"),
        (b"a\n\nb\n", "line 2: blank"),
        (b"a\nb\n\n", "line 3: blank"),
        (b"a\n \t\r\nb", "line 2: blank"),
        (b"a\nb\nc\nb\n", "'b' is both line 2 and line 4"),
        (b"a\nb\ncaf\xe9\n", "line 3: not UTF-8"),
        (b"\xff\xfea\0", "line 1: not UTF-8"),
        (b"\xef\xbb\xbfa\nb\n\xff", "line 3: not UTF-8"),
    ],
)
def test_bad_classes_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "classes.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message):
        read_classes(path)


def test_classes_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").touch()
    with pytest.raises(NotFoundError, match=r"Did you mean 'classes\.txt'\?"):
        read_classes(tmp_path / "class.txt")
    with pytest.raises(UsageError, match="is a folder"):
        read_classes(tmp_path)
