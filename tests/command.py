"""Runs of the command line as a program, and image files to run it on."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from waiting import PATIENCE

NOBODY = 65534
PROGRAM = [sys.executable, "-m", "toolkit.cli.main"]


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def last_line(self) -> str:
        return self.out.splitlines()[-1]


Cli = Callable[..., Ended]


def program(*args: object, env: Mapping[str, str] | None = None) -> Ended:
    """Run the command line as a program of its own."""
    done = subprocess.run(
        [*PROGRAM, *map(str, args)], capture_output=True, text=True, env={**os.environ, **(env or {})}, timeout=PATIENCE
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def encoded(width: int, height: int, kind: str = "JPEG", seed: int = 0) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def put(root: Path, name: str, data: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@contextlib.contextmanager
def unprivileged() -> Iterator[Path]:
    """Yield a folder, empty and open to all; inside, permissions count even if the tests run as root."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o777)
    before = os.geteuid()
    try:
        if before == 0:
            os.seteuid(NOBODY)
        yield root
    finally:
        if before == 0:
            os.seteuid(0)
        for folder, _, _ in os.walk(root):
            os.chmod(folder, 0o777)
        shutil.rmtree(root)
