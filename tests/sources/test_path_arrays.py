"""Columns of paths are made as os.path makes one path."""

from __future__ import annotations

import os

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from toolkit.sources.path_arrays import base_names, below, repeated

TEXTS = st.lists(st.text(st.sampled_from("ab/é\n \U0001f600")), max_size=6)


@given(TEXTS, st.integers(0, 3))
def test_base_names_are_those_of_each_path(paths: list[str], cut: int) -> None:
    names = base_names(pa.array(paths, pa.string())[cut:])
    names.validate(full=True)
    assert names.to_pylist() == [os.path.basename(path) for path in paths[cut:]]


@given(st.sampled_from(["/", "/a", "/ä b/"]), TEXTS, st.integers(0, 3))
def test_a_folder_is_put_before_each_path(folder: str, paths: list[str], cut: int) -> None:
    paths = [path.lstrip("/") for path in paths]
    files = below(folder, pa.array(paths, pa.string())[cut:])
    files.validate(full=True)
    assert files.to_pylist() == [os.path.join(folder, path) for path in paths[cut:]]


def test_a_path_is_repeated() -> None:
    assert repeated("/ä", 3).to_pylist() == ["/ä"] * 3
    assert repeated("/ä", 0).to_pylist() == []
    assert repeated("", 2).to_pylist() == [""] * 2
