"""Paths of files in tables: none leaves its folder, and no refusal tells what a URL says besides scheme and host."""

from __future__ import annotations

import os
import re

from fuzz.inputs import refused

from toolkit.sources.tables.paths import UnsafePathError, relative

_SECRET = "s3cr3t"
_URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
_TOLD = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@]* is a URL; only|the path (is not valid UTF-8 at byte|holds the char)")


def fuzz(data: bytes) -> object:
    """Use one input."""
    try:
        path = relative(data)
    except UnsafePathError as error:
        reason = refused(error)
        if _URL.search(data):
            assert _TOLD.match(reason), (data, reason)
        return reason[:16]
    assert path == os.path.normpath(data.decode()), data
    assert not path.startswith("/"), data
    assert ".." not in path.split("/"), data
    assert "\0" not in path, data
    assert relative(path.encode()) == path, data
    return min(path.count("/"), 8)


def seeds() -> list[bytes]:
    """Return paths of every kind."""
    texts = [
        "a/b/c.jpg",
        "./a//b/../c.jpg",
        "../a",
        "/a",
        "C:\\a",
        "a\0b",
        f"https://me:{_SECRET}@host.example:80/a.jpg?token={_SECRET}#{_SECRET}",
        f"http://[::1]/{_SECRET}",
        f"http://[{_SECRET}/",
        f"//me:{_SECRET}@host/",
        f"data:image/png;base64,{_SECRET}",
        "ü/\u2028",
    ]
    return [text.encode() for text in texts]
