"""The process in which the HDF5 library runs: what a file does to it, it does to nobody else.

Requests come in by standard input, pickled by the process that started this one; answers go out by standard output,
as toolkit.sources.kinds.hdf5.messages has them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pickle
import resource
import select
import signal
import time
import traceback
from typing import Any

import msgspec

from toolkit.errors import NotFoundError, SourceError, StorageError, UsageError
from toolkit.sources.kinds.hdf5.messages import ALIVE, BATCH, END, ERROR, FOUND, HEAD, message_of
from toolkit.sources.kinds.hdf5.walk import arrays_in

__all__ = ["main"]

_ERRORS = (NotFoundError, SourceError, StorageError, UsageError)
_ALIVE_S = 1.0


def main() -> None:
    """Answer requests until nobody asks any more."""
    out = os.dup(1)
    os.dup2(2, 1)  # what else is printed here is no answer
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    with open(0, "rb", buffering=0, closefd=False) as requests, open(out, "wb", buffering=0) as answers:
        while head := _read(requests, HEAD.size):
            request = pickle.loads(_read(requests, HEAD.unpack(head)[1]))
            _end_with_parent(is_on=True)
            with contextlib.suppress(BrokenPipeError):
                _answer(request, answers)
            _end_with_parent(is_on=False)
            try:
                _send(answers, END)
            except BrokenPipeError:
                return


def _answer(request: tuple[Any, ...], answers: Any) -> None:
    told = time.monotonic()

    def alive() -> None:
        nonlocal told
        if time.monotonic() - told > _ALIVE_S:
            told = time.monotonic()
            _send(answers, ALIVE)

    try:
        more_bytes, what, *rest = request
        _limit_memory(more_bytes)
        if what == "list":
            path, options = rest
            _send(answers, FOUND, message_of(arrays_in(path, options, alive)))
        else:
            table, fields, first, count = rest
            for batch in table.read(fields, first, count):
                _send(answers, BATCH, batch.serialize())
    except BrokenPipeError:
        raise
    except _ERRORS as error:
        _send(answers, ERROR, msgspec.msgpack.encode((type(error).__name__, str(error))))
    except MemoryError:
        said = f"needs more than {more_bytes >> 20:,} MiB of memory to be read: it is damaged, or has too large chunks"
        _send(answers, ERROR, msgspec.msgpack.encode(("MemoryError", said)))
    except Exception:
        _send(answers, ERROR, msgspec.msgpack.encode(("", traceback.format_exc())))


def _end_with_parent(*, is_on: bool) -> None:
    """Have the kernel end this process when standard input ends, whatever the library is busy with.

    SIGIO ends a process that doesn't handle it. It comes with new input, too, but there is none before an answer's end.
    PR_SET_PDEATHSIG won't do: it comes when the thread ends that started this process.
    """
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    if is_on:
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
        poll = select.poll()
        poll.register(0, select.POLLIN)
        if poll.poll(0):  # it ended before
            os._exit(0)
    else:
        fcntl.fcntl(0, fcntl.F_SETFL, flags & ~os.O_ASYNC)


def _limit_memory(more_bytes: int) -> None:
    """Let this process take so many bytes more than it has."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[5])
    except OSError:  # not Linux
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))


def _read(file: Any, size: int) -> bytes:
    """Return so many bytes, or b"" at the end."""
    read = bytearray()
    while len(read) < size:
        some = file.read(size - len(read))
        if not some:
            return b""
        read += some
    return bytes(read)


def _send(file: Any, kind: bytes, body: Any = b"") -> None:
    head = HEAD.pack(kind, len(body))
    for part in (head, body):
        view = memoryview(part)
        while len(view):
            view = view[file.write(view) :]
