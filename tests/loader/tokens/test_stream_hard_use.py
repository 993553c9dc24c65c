"""A stream that is forked in the middle, or handed a state that no stream ever wrote."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from token_oracle import Packed

from toolkit.errors import UsageError


@pytest.mark.parametrize("threads", [0, 1])
def test_a_forked_child_does_not_wait_for_its_parent_s_threads(packed: Packed, threads: int) -> None:
    program = f"""
        import os, signal, toolkit
        from toolkit.errors import LoaderError
        stream = toolkit.open({str(packed.path)!r}).tokens(
            seq_len=64, batch_size=4, threads={threads}, epochs=50, prefetch=1
        )
        batches = iter(stream)
        next(batches)
        child = os.fork()
        if not child:
            signal.alarm(20)
            try:
                next(batches)  # not even what was filled before
            except LoaderError as error:
                os._exit(7 if "before a fork" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(list(batches)) == len(stream) - 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


@pytest.mark.parametrize("name", ["seed", "pin"])
def test_what_a_state_holds_is_shown_in_a_line(packed: Packed, name: str) -> None:
    stream = packed.open().tokens(seq_len=64, batch_size=4, shuffle="block")
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for strange in ("x" * 1_000_000, 10**5000, deep):
        with pytest.raises(UsageError, match=f"another run: {name} .* there") as said:
            stream.load_state_dict({**stream.state_dict(), name: strange})
        assert len(str(said.value)) < 1000
