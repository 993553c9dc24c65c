"""Paths that somebody else wrote: whatever they are, they lead below the folder or are refused."""

from __future__ import annotations

import os

import pytest
from fuzz.functions import paths as fuzzed
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.tables.paths import UnsafePathError, relative


@pytest.mark.parametrize(
    ("text", "path"),
    {
        "a.jpg": "a.jpg",
        "./a//b/./c.jpg": "a/b/c.jpg",
        "a/../b.jpg": "b.jpg",
        "a/b/../../c.jpg": "c.jpg",
        "...": "...",
        "~/a": "~/a",
        "a:b": "a:b",
        "a/": "a",
        "ü/a b.jpg": "ü/a b.jpg",
        "a\\b": "a\\b",
        "http:/a": "http:/a",
    }.items(),
)
def test_they_are_written_in_one_way(text: str, path: str) -> None:
    assert relative(text.encode()) == path


@given(st.text(st.sampled_from("a./\\:\0é~")) | st.text())
def test_none_leaves_its_folder(text: str) -> None:
    fuzzed.fuzz(text.encode("utf-8", "surrogatepass"))
    try:
        path = relative(text.encode())
    except (UnsafePathError, UnicodeEncodeError):
        return
    assert path == os.path.normpath(text).removeprefix("/")
