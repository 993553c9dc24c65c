"""Runs one Python target of tests/fuzz/functions on mutated inputs, in a process that is watched by its parent.

    python tests/fuzz/loop.py TARGET.py FOUND --seconds 60 --seed 1 --corpus FOLDER --learnt FOLDER
    python tests/fuzz/loop.py TARGET.py FOUND --replay FILE

The child writes each input into memory that both share before it uses it: whatever becomes of the child, its input is
there. An input for which fuzz() returns something new (no coverage is measured) is learnt, and mutated like a seed.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import importlib.util
import mmap
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INPUT_SECONDS = 10.0
START_SECONDS = 170.0
GROWTH_KIB = 1 << 20
LARGEST = 1 << 16
HEADER = 24  # how many inputs were begun, how many have ended, length of the one at hand
MOST_LEARNT = 500
NUMBERS = [
    sign * (1 << bits) + step for bits in (0, 7, 8, 15, 16, 31, 32, 62, 63) for sign in (1, -1) for step in (-1, 0, 1)
]


# ---- Inputs ----------------------------------------------------------------------------------------------------------


def mutated(data: bytes, other: bytes, draw: random.Random) -> bytes:
    """Return an input with a few changes, or a mixture of two."""
    out = bytearray(data)
    for _ in range(1 + draw.getrandbits(2)):
        at, length = draw.randrange(len(out) + 1), 1 << draw.randrange(7)
        match draw.randrange(7):
            case 0 if out:
                out[at % len(out)] ^= 1 << draw.randrange(8)
            case 1:
                out[at : at + 1] = bytes([draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))])
            case 2:
                width = draw.choice((2, 4, 8))
                number = draw.choice(NUMBERS) % (1 << 8 * width)
                out[at : at + width] = number.to_bytes(width, draw.choice(("little", "big")))
            case 3:
                del out[at : at + length]
            case 4:
                out[at:at] = out[at : at + length] if draw.random() < 0.5 else draw.randbytes(length)
            case 5:
                start = draw.randrange(len(other) + 1)
                out[at : at + length] = other[start : start + length]
            case 6:
                out = out[:at] + other[draw.randrange(len(other) + 1) :]
    return bytes(out[:LARGEST])


def files_in(folder: Path | None) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder and folder.is_dir() else []


# ---- The child -------------------------------------------------------------------------------------------------------


def loaded(path: Path) -> Any:
    sys.path[:0] = [str(HERE.parent)]
    if "TOOLKIT_SANITIZED" not in os.environ:
        sys.path.insert(1, str(HERE.parents[1]))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def child(given: argparse.Namespace, shared: mmap.mmap) -> None:
    module = loaded(given.target)
    fuzz: Callable[[bytes], object] = module.fuzz
    inputs = files_in(given.corpus) + (module.seeds() if hasattr(module, "seeds") else [b""])
    inputs += files_in(given.learnt)
    draw = random.Random(given.seed)
    known: set[object] = set()
    end, count = time.monotonic() + given.seconds, 0
    used = 0
    while time.monotonic() < end:
        data = inputs[count] if count < len(inputs) else mutated(draw.choice(inputs), draw.choice(inputs), draw)
        data = data[:LARGEST]
        count += 1
        shared[16:HEADER] = len(data).to_bytes(8, "little")
        shared[HEADER : HEADER + len(data)] = data
        shared[:8] = count.to_bytes(8, "little")
        outcome = fuzz(data)
        shared[8:16] = count.to_bytes(8, "little")
        if outcome is not None and outcome not in known:
            known.add(outcome)
            if len(inputs) < MOST_LEARNT:
                inputs.append(data)
                (given.learnt / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        used = used or peak
        if peak - used > GROWTH_KIB:
            raise MemoryError(f"grown by {(peak - used) >> 10} MiB")


# ---- The parent ------------------------------------------------------------------------------------------------------


def watch(process: int, shared: mmap.mmap) -> str:
    """Wait for the child; return what is wrong with how it ended, or nothing."""
    began, since = -1, time.monotonic()
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}" if code else ""
        count = int.from_bytes(shared[:8], "little")
        if count != began:
            began, since = count, time.monotonic()
        if time.monotonic() - since > (INPUT_SECONDS if began > 0 else START_SECONDS):
            os.kill(process, signal.SIGABRT)  # faulthandler says where
            time.sleep(1)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return f"more than {INPUT_SECONDS:.0f} s"
        time.sleep(0.05)


def main() -> int:
    """Run the command line; return 1 when something was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", type=Path)
    parser.add_argument("found", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--learnt", type=Path)
    parser.add_argument("--replay", type=Path)
    given = parser.parse_args()
    if given.replay:
        print(loaded(given.target).fuzz(given.replay.read_bytes()))
        return 0
    shared = mmap.mmap(-1, HEADER + LARGEST)
    process = os.fork()
    if process == 0:
        faulthandler.enable()
        try:
            child(given, shared)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    wrong = watch(process, shared)
    began, length = int.from_bytes(shared[:8], "little"), int.from_bytes(shared[16:HEADER], "little")
    print(f"executions: {began}")
    if not wrong:
        return 0
    given.found.mkdir(parents=True, exist_ok=True)
    data = shared[HEADER : HEADER + length]
    kept = given.found / f"input-{hashlib.sha256(data).hexdigest()[:16]}"
    kept.write_bytes(data)
    print(f"{given.target.stem}: {wrong} at execution {began}; kept {kept}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
