"""Start the driver with the shim in front of libc, and run the command line with faults."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Ended:
    """How a run ended; `code` is minus the signal that killed it. `calls` is 0 after a kill."""

    code: int
    out: str
    err: str
    calls: int


def compile_shim(folder: Path) -> Path | None:
    """Return the compiled shim, or None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    made = folder / "shim.so"
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", made, HERE / "shim.c", "-ldl", "-lpthread"], check=True)
    return made


class Driver:
    """A process that forks runs of the command line.

    `folder` is where faults happen: datasets lie in it, sources don't. `warm` is a command line to run first.
    """

    def __init__(self, shim: Path, folder: Path, *warm: object) -> None:
        self.folder = folder
        self._out, self._err = shim.with_name("out.txt"), shim.with_name("err.txt")
        self._process = subprocess.Popen(
            [sys.executable, HERE / "driver.py", shim],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LD_PRELOAD": str(shim)},
        )
        try:
            self._ask({"args": [str(arg) for arg in warm], "out": str(self._out), "err": str(self._err)})
        except BaseException:
            self._process.communicate(timeout=60)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def run(
        self, *args: object, at: int = 0, fault: int = 0, trace: Path | None = None, kill_after: float = 0.0
    ) -> Ended:
        """Run the command line. The call number `at` is hit: `fault` is an errno, or minus a signal.

        `kill_after` so many seconds SIGALRM kills it, which nobody catches.
        """
        order = {
            "args": [str(arg) for arg in args],
            "folder": str(self.folder),
            "trace": "" if trace is None else str(trace),
            "at": at,
            "fault": fault,
            "kill_after": kill_after,
            "out": str(self._out),
            "err": str(self._err),
        }
        answer = self._ask(order)
        return Ended(answer["code"], self._out.read_text(), self._err.read_text(), answer["calls"])

    def _ask(self, order: dict[str, Any]) -> dict[str, int]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: dict[str, int] = json.loads(self._process.stdout.readline())
        return answer
