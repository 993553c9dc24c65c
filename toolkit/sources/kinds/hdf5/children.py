"""Processes that read HDF5 files for this one: a file that crashes the library, or never lets it go, is an error here.

One that has answered is kept for the next question, since starting one takes a few tenths of a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

import msgspec
import pyarrow as pa

from toolkit.errors import NotFoundError, SourceError, StorageError, ToolkitError, UsageError
from toolkit.sources.arrays.naming import Names
from toolkit.sources.arrays.table import ArrayTable
from toolkit.sources.kinds.hdf5.dataset import Hdf5Array
from toolkit.sources.kinds.hdf5.messages import ALIVE, BATCH, END, ERROR, FOUND, HEAD, found_in
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips

__all__ = ["Children"]

_SERVER = "toolkit.sources.kinds.hdf5.serve"
_START = (
    "import sys, json, importlib; sys.path[:] = json.loads(sys.argv[1]); importlib.import_module(sys.argv[2]).main()"
)
_PATIENCE_S = 120.0  # without a byte of an answer: a piece is some MiB, and a chunk that is inflated for it 256 MiB
_MEMORY_BYTES = 4 << 30
_MOST_IDLE = 16
_PIPE_BYTES = 1 << 20
_END_S = 5.0  # a process that waits for a disk can't be ended before that answers
_ADVICE = "Look at it with h5dump, write it again with h5repack or by the program that made it, or leave it out"
_ERRORS = {error.__name__: error for error in (NotFoundError, SourceError, StorageError, UsageError)}


class Children:
    """Processes that read files, started when they are asked for; they end with this object. Any thread may ask."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._end = weakref.finalize(self, _end_all, self._idle)

    def __reduce__(self) -> tuple[type[Children], tuple[()]]:
        return Children, ()

    def arrays_in(self, path: str, options: SourceOptions, skips: Skips) -> tuple[list[Hdf5Array], Names]:
        """Return the datasets of a file that are wanted, sorted by name, and the names of all.

        Attributes and links to groups are counted and left out.

        Raises:
            SourceError: The file is damaged; a dataset, or a link, leads to other files.
            StorageError: It can't be read.
        """
        answers = self._ask(path, (_MEMORY_BYTES, "list", path, options))
        with _sound(repr(printable(path))):
            (message,) = [body.to_pybytes() for kind, body in answers if kind == FOUND]
            found = found_in(path, message)
        for name in found.links:
            skips.add("links", name)
        skips.count("attributes", found.attributes)
        return found.arrays, Names(found.names, options)

    def read(
        self, table: ArrayTable, fields: Sequence[str], first: int, count: int
    ) -> Generator[pa.RecordBatch, None, None]:
        """Yield what the table's read() does, which runs in another process.

        Raises:
            SourceError, StorageError: As that; or the library crashed, or doesn't come back.
        """
        schema = pa.schema([table.schema.field(name) for name in fields])
        request = (_MEMORY_BYTES + table.working_bytes, "read", table, list(fields), first, count)
        with closing(self._ask(table.file.path, request)) as answers:
            for _, body in answers:
                with _sound(table.shown):
                    batch = pa.ipc.read_record_batch(body, schema)
                    batch.validate()
                yield batch

    def _ask(self, path: str, request: tuple[Any, ...]) -> Generator[tuple[bytes, pa.Buffer], None, None]:
        """Yield the frames of an answer. A process whose answer wasn't heard to its end is ended."""
        child = self._taken()
        try:
            yield from child.ask(repr(printable(path)), request)
        except BaseException:
            child.end()
            raise
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(child)
        else:
            child.end()

    def _taken(self) -> _Child:
        """Return a process that isn't asked anything."""
        while True:
            try:
                child = self._idle.pop()
            except IndexError:
                return _Child()
            if child.is_there():
                return child
            child.end()


class _Child:
    """A process that reads files."""

    def __init__(self) -> None:
        # As this process finds modules, and nothing from the folder that happens to be the current one. A session of
        # its own, for Ctrl-C is for this process, which ends that one.
        command = [sys.executable, "-P", "-c", _START, json.dumps(sys.path), _SERVER]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        except OSError as error:
            raise SourceError(
                f"HDF5 files are read by a process of their own, and {sys.executable!r} can't be started ({error}): "
                "mend that, or allow more processes (ulimit -u)"
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests = self._process.stdin
        self._answers = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)
        with contextlib.suppress(AttributeError, OSError):  # not Linux, or more than the user may have
            fcntl.fcntl(self._answers, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def ask(self, where: str, request: tuple[Any, ...]) -> Generator[tuple[bytes, pa.Buffer], None, None]:
        """Yield the frames of an answer."""
        message = pickle.dumps(request)
        view = memoryview(HEAD.pack(END, len(message)) + message)
        try:
            while view:
                view = view[self._requests.write(view) :]
        except BrokenPipeError:
            raise self._ended(where) from None
        while True:
            kind, size = HEAD.unpack(self._read(HEAD.size, where))
            if kind not in (ALIVE, BATCH, END, ERROR, FOUND) or size > request[0]:
                raise _unsound(where)
            body = self._read(size, where)
            if kind == END:
                return
            if kind == ERROR:
                raise _error(where, body.to_pybytes())
            if kind != ALIVE:
                yield kind, body

    def is_there(self) -> bool:
        """Tell whether the process can be asked."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, whatever it does."""
        process = self._process
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)

    def _read(self, size: int, where: str) -> pa.Buffer:
        """Return the next bytes of an answer."""
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        until = time.monotonic() + _PATIENCE_S
        while view:
            if not self._poll.poll(max(0.0, until - time.monotonic()) * 1000):
                raise SourceError(
                    f"{where} can't be read: nothing came of it for {_PATIENCE_S:.0f} s, so reading it was given up. "
                    f"It is damaged, or its disk doesn't answer. {_ADVICE}"
                )
            count = os.readv(self._answers, [view])
            if not count:
                raise self._ended(where)
            view = view[count:]
            until = time.monotonic() + _PATIENCE_S
        return buffer

    def _ended(self, where: str) -> SourceError:
        """Return the error for a process that ended before its answer did."""
        try:
            code = self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            code = 0
        if code == -signal.SIGKILL:
            return SourceError(f"{where} can't be read: what read it was killed (signal 9). Is there memory enough?")
        if code < 0:
            return SourceError(
                f"{where} can't be read: the HDF5 library crashed on it (signal {-code}): it is damaged. {_ADVICE}"
            )
        return SourceError(f"{where} can't be read: what reads HDF5 files ended (exit code {code}) and says why above")


@contextlib.contextmanager
def _sound(where: str) -> Iterator[None]:
    """Turn what comes of an answer that makes no sense into an error that names the file."""
    try:
        yield
    except ToolkitError:
        raise
    except (OSError, TypeError, ValueError, pa.ArrowException, msgspec.MsgspecError) as error:
        raise _unsound(where) from error


def _unsound(where: str) -> SourceError:
    return SourceError(f"{where} can't be read: the HDF5 library wrote where it mustn't: it is damaged. {_ADVICE}")


def _error(where: str, message: bytes) -> Exception:
    name, text = msgspec.msgpack.decode(message, type=tuple[str, str])
    if name in _ERRORS:
        return _ERRORS[name](text)
    if name == "MemoryError":
        return SourceError(f"{where} {text}. {_ADVICE}")
    return RuntimeError(f"reading {where} failed:\n{text}")


def _end_all(idle: list[_Child]) -> None:
    while idle:
        idle.pop().end()
