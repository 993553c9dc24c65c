"""Kill a pack at a call of its own choosing, in a process of its own; and tell what a dataset's folder holds."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

from waiting import PATIENCE

from toolkit.format.tables import sha256
from toolkit.pack.job import PackJob

KILL_AT = textwrap.dedent(
    """
    import os, signal, sys

    step, at, *words = sys.argv[1:]
    real, calls = getattr(os, step), 0

    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == int(at):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(os, step, call)
    """
)
"""The beginning of a program that is killed at a call of os.<step>: its arguments are that, the call, and `words`."""

_PACK = """
import pickle
from toolkit.pack.run import pack
pack(pickle.loads(bytes.fromhex(words[0])))
"""


def killed(step: str, at: int, job: PackJob) -> bool:
    """Run `job` and kill it at the `at`-th call of os.`step`; False when there are fewer."""
    command = [sys.executable, "-c", KILL_AT + _PACK, step, str(at), pickle.dumps(job).hex()]
    code = subprocess.run(command, timeout=PATIENCE).returncode
    assert code in (0, -9)
    return code == -9


def contents(root: Path) -> dict[str, str]:
    """Every file of a dataset, with its hash: no reports, which are hashed nowhere, and no lock."""
    return {
        str(path.relative_to(root)): sha256(path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file() and "reports" not in path.parts and path.name != ".lock"
    }
