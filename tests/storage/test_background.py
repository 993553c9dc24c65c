"""A file written on a thread of its own: its bytes, its hash, and its failures, which the filling thread gets."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from toolkit.errors import StorageError
from toolkit.storage.background import BackgroundFile


def test_pieces_of_any_size_in_order(tmp_path: Path) -> None:
    pieces = [os.urandom(size) for size in (0, 1, 5_000_000, 20_000_000, 3, 0, 1_048_576, 17)]
    file = BackgroundFile(str(tmp_path / "file"))
    for piece in pieces:
        file.write(memoryview(piece))
    whole = b"".join(pieces)
    assert file.close() == hashlib.sha256(whole).digest()
    assert (tmp_path / "file").read_bytes() == whole
    file.abort()  # nothing after close
    assert (tmp_path / "file").exists()


def test_an_aborted_file_is_gone_and_so_is_its_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    file = BackgroundFile(str(tmp_path / "file"))
    assert len(set(threading.enumerate()) - before) == 1
    file.write(memoryview(bytes(1000)))
    file.abort()
    file.abort()
    assert file.closed
    assert not list(tmp_path.iterdir())
    assert not set(threading.enumerate()) - before


def test_an_existing_file_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"there")
    with pytest.raises(StorageError, match="can't create"):
        BackgroundFile(str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == b"there"


FULL = textwrap.dedent(
    """
    import os, resource, signal, sys
    from toolkit.errors import StorageError
    from toolkit.storage.background import BackgroundFile

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
    file = BackgroundFile(sys.argv[1])
    try:
        for _ in range(100):  # far more than may wait: the failure must come back, and nobody wait for ever
            file.write(memoryview(bytes(1_000_000)))
        raise SystemExit("all of it was taken")
    except StorageError as error:
        print(error)
    try:
        file.close()
        raise SystemExit("closed as if it were whole")
    except StorageError:
        file.abort()
    assert not os.path.exists(sys.argv[1])
    """
)


def test_a_failed_write_comes_back_to_whoever_writes(tmp_path: Path) -> None:
    # In a process of its own: the limit stays.
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "file")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "ulimit -f" in done.stdout
