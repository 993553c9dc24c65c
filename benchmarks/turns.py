"""What benchmarks share: sides that take turns in processes of their own, what one of them died of, command lines."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = [
    "BenchmarkError",
    "command_line",
    "environment",
    "in_turns",
    "reason",
    "run_worker",
    "show",
    "worker_command",
]

WORKER = "--worker"  # the first argument of a process that is measured

_Side = TypeVar("_Side")


class BenchmarkError(Exception):
    """The comparison cannot be made, or outputs differ or are not complete; the text says what and where."""


def in_turns(sides: Iterable[_Side], repeats: int) -> Iterator[list[_Side]]:
    """Yield the sides in the order of each repeat: every repeat begins with another one."""
    listed = list(sides)
    for repeat in range(repeats):
        first = repeat % len(listed)
        yield listed[first:] + listed[:first]


def worker_command(script: str, *arguments: object) -> list[str]:
    """Return the command of a process of `script` that is measured."""
    return [sys.executable, script, WORKER, *map(str, arguments)]


def run_worker(name: str, script: str, *arguments: object, env: Mapping[str, str] | None = None) -> str:
    """Run a process that is measured; return what it printed. Raises BenchmarkError, with the side's name."""
    done = subprocess.run(
        worker_command(script, *arguments), capture_output=True, text=True, check=False, env=env and dict(env)
    )
    if done.returncode != 0:
        raise BenchmarkError(f"{name}: {reason(done.stderr, done.returncode)}")
    return done.stdout


def reason(error: str, code: int | None) -> str:
    """Return the line that says why a process failed, of what it wrote to stderr."""
    lines = error.strip().splitlines() or [f"ended with {code}"]
    return next((line for line in reversed(lines) if "Error" in line), lines[-1])


def environment(*roots: str, **more: str) -> dict[str, str]:
    """Return this process's environment with `roots` in front of the places that Python imports from."""
    paths = [*roots, *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | more


def show(lines: Iterable[str], found: Any, as_json: bool) -> None:
    """Print a report: its lines, or all that was found as JSON."""
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        print(*lines, sep="\n")


def command_line(
    script: str,
    argv: Sequence[str] | None,
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], None],
    work: Callable[..., int],
) -> int:
    """Carry out a benchmark's command line; return 0, or 1 when it failed. `work` is what a measured process does."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == [WORKER]:
        return work(*arguments[1:])
    given = parser.parse_args(arguments)
    try:
        run(given)
    except (BenchmarkError, OSError) as error:
        print(f"{Path(script).stem}: {error}", file=sys.stderr)
        return 1
    return 0
