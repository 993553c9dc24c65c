"""Nothing is said, and nothing lost, when the interpreter ends while iterations live."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import toolkit

COMMON = """
import atexit, sys, threading, time
{first}
import toolkit

def loader(kind):
    if kind == "loader":
        return toolkit.open(sys.argv[1], split="train").loader(batch_size=4, epochs=1000, threads=2)
    tokens = toolkit.open(sys.argv[2])
    return tokens.tokens(seq_len=16, batch_size=4, epochs=1000)

kind = sys.argv[3]
"""

ENDS = {
    "an iterator that lives": "it = iter(loader(kind)); next(it)",
    "in a cycle": "class A: pass\na = A(); a.me, a.it = a, iter(loader(kind)); next(a.it); del a",
    "in another module": "kept = sys.modules.get('torch') or threading\nkept.kept = it = iter(loader(kind)); next(it)",
    # All of them in their loops: what other libraries open a dataset with may abort where a daemon is stopped in it.
    "daemons in their loops": "ready = threading.Barrier(4)\n"
    "def go():\n for number, batch in enumerate(loader(kind)): number or ready.wait()\n"
    "for _ in range(3): threading.Thread(target=go, daemon=True).start()\nready.wait()\ntime.sleep(0.2)",
    "a thread that goes on": "made = loader(kind)\ndef go():\n it = iter(made)\n for _ in range(30): next(it)\n"
    " time.sleep(0.3)\n for _ in range(30): next(it)\n made.close()\nthreading.Thread(target=go).start()",
    "a handler that goes on": "it = iter(loader(kind)); next(it)\n"
    "atexit.register(lambda: [next(it) for _ in range(3)])",
}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "ds"
    toolkit.pack_tokens([f"text number {i} of some" for i in range(300)], path, tokenizer="bytes")
    return path


@pytest.mark.parametrize("kind", ["loader", "tokens"])
@pytest.mark.parametrize(
    ("first", "end"),
    [*(("", end) for end in ENDS), ("import torch", "an iterator that lives"), ("import torch", "in another module")],
)
def test_the_end_is_quiet(packed: Path, tokens: Path, kind: str, end: str, first: str) -> None:
    if first and find_spec("torch") is None:
        pytest.skip("torch changes in which order modules are taken apart: it has to be there")
    program = COMMON.format(first=first) + ENDS[end]
    done = subprocess.run(
        [sys.executable, "-c", program, packed, tokens, kind], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
