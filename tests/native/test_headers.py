"""C files of toolkit/_native form layers: headers say what they need, compile alone, and nothing forms a circle."""

from __future__ import annotations

import graphlib
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from toolkit._native.image.program import op_table

NATIVE = Path(__file__).resolve().parents[2] / "toolkit" / "_native"
HEADERS = sorted(NATIVE.rglob("*.h"))
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.MULTILINE)


def included(path: Path) -> set[Path]:
    """Return the headers of ours that a file includes; each is beside it or named from toolkit/_native on."""
    found = set()
    for name in INCLUDE.findall(path.read_text(encoding="utf-8")):
        places = [place / name for place in (path.parent, NATIVE) if (place / name).exists()]
        assert places, f"{path}: there is no {name}"
        found.add(places[0].resolve())
    return found


def order(graph: dict[str, set[str]]) -> None:
    """Fail with the circle, if there is one."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"a circle: {' <- '.join(error.args[1])}")


def name(path: Path) -> str:
    """Return what a file is called here, a header and the C file beside it being one."""
    return str(path.relative_to(NATIVE).with_suffix(""))


def test_headers_form_no_circle() -> None:
    assert HEADERS
    order({str(path): {str(other) for other in included(path)} for path in HEADERS})


def test_files_form_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for path in [*HEADERS, *NATIVE.rglob("*.c")]:
        graph.setdefault(name(path), set()).update(name(other) for other in included(path) if name(other) != name(path))
    order(graph)


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: str(path.relative_to(NATIVE)))
def test_every_header_compiles_alone(path: Path) -> None:
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    command = [*compiler, "-x", "c", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{NATIVE}"]
    done = subprocess.run([*command, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_step_of_a_file_is_listed() -> None:
    found = [
        step
        for path in (NATIVE / "image/program/ops").glob("*.c")
        for step in re.findall(r"IMG_DEFINE_OP\((\w+),", path.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == sorted(op_table())
