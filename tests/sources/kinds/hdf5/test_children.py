"""Files that crash the HDF5 library, or never let it go, are errors: it runs in a process of its own."""

from __future__ import annotations

import gc
import gzip
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from waiting import wait_until

import toolkit
from toolkit.errors import SourceError
from toolkit.sources.kinds.hdf5 import children as children_module
from toolkit.sources.kinds.hdf5.children import Children
from toolkit.sources.kinds.hdf5.messages import found_in, message_of
from toolkit.sources.kinds.hdf5.source import Hdf5Source
from toolkit.sources.kinds.hdf5.walk import arrays_in
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips

GOLDEN = Path(__file__).parents[3] / "golden/hdf5"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.random.default_rng(0).random((4000, 1000)))  # more than a pipe holds
    return tmp_path / "a.h5"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*args, **given)
            found.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    yield found
    for process in found:
        process.kill()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have something else answer."""

    def use(body: str) -> None:
        (tmp_path / "double_of_the_server.py").write_text(f"import os, signal, sys, time\ndef main():\n    {body}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setattr(children_module, "_SERVER", "double_of_the_server")

    return use


def options(path: Path) -> SourceOptions:
    return SourceOptions(paths=(str(path),), slice_bytes=1 << 20)


def table(path: Path) -> Any:
    ((made,),) = Hdf5Source(options(path)).tables(Skips()).values()
    return made


def is_over(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.returncode is not None and process.stdin.closed and process.stdout.closed


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # before, and while it is read
        return False


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "os.kill(os.getpid(), signal.SIGSEGV)",
            r"the HDF5 library crashed on it \(signal 11\): it is damaged.*h5dump",
        ),
        ("sys.stdin.buffer.read(20); os.kill(os.getpid(), signal.SIGABRT)", r"crashed on it \(signal 6\)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", r"was killed \(signal 9\). Is there memory enough"),
        ("os._exit(3)", r"ended \(exit code 3\)"),
        ("os.write(1, b'x' * 100)", "wrote where it mustn't"),
        ("os.write(1, b'f' + b'\\x01' + b'\\0' * 7 + b'\\xff.' + b'\\0' * 8)", "wrote where it mustn't"),
        ("os.write(1, b'b' + b'\\xff' * 8)", "wrote where it mustn't"),
        ("os.write(1, b'b' + b'\\x09' + b'\\0' * 7)", r"ended \(exit code 0\)"),
    ],
)
def test_a_process_that_ends_is_an_error_that_names_the_file(
    path: Path, server: Callable[[str], None], started: list[subprocess.Popen[bytes]], body: str, said: str
) -> None:
    server(body)
    with pytest.raises(SourceError, match=f"{path}.*{said}"):
        table(path)
    assert [is_over(process) for process in started] == [True]


def test_a_process_that_says_nothing_is_ended(
    path: Path,
    server: Callable[[str], None],
    started: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server("time.sleep(600)")
    monkeypatch.setattr(children_module, "_PATIENCE_S", 0.2)
    with pytest.raises(SourceError, match=f"{path}.*nothing came of it for 0 s, so reading it was given up"):
        table(path)
    assert [is_over(process) for process in started] == [True]


@pytest.mark.parametrize("name", ["crash", "hang"])
def test_files_that_crash_or_hang_the_library_are_errors(
    tmp_path: Path, name: str, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # How HDF5 2.0.0 takes them; another version may say that they are damaged.
    monkeypatch.setattr(children_module, "_PATIENCE_S", 2.0)
    damaged = tmp_path / "a.h5"
    damaged.write_bytes(gzip.decompress((GOLDEN / f"{name}.h5.gz").read_bytes()))
    with pytest.raises(SourceError, match=f"{damaged}.*(damaged|can't be read)"):
        list(table(damaged).read(["a", "t", "v"], 0, 1))
    gc.collect()
    assert all(map(is_over, started))


def test_a_crash_while_rows_are_read_is_told(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    batches = table(path).read(["x"], 0, 8)
    next(batches)
    started[0].send_signal(signal.SIGSEGV)
    with pytest.raises(SourceError, match=r"crashed on it \(signal 11\)"):
        list(batches)
    assert is_over(started[0])


def test_a_process_that_ended_unasked_is_replaced(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    made = table(path)
    started[0].kill()
    started[0].wait()
    assert sum(batch.num_rows for batch in made.read(["x"], 0, 1)) > 0
    assert len(started) == 2


def test_whoever_stops_early_leaves_no_process(path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    batches = table(path).read(["x"], 0, 8)
    next(batches)
    batches.close()
    assert [is_over(process) for process in started] == [True]


def test_a_process_reads_more_than_once_and_ends_with_the_tables(
    path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    made = table(path)
    for _ in range(3):
        assert sum(batch.num_rows for batch in made.read(["x"], 0, 1)) > 0
    assert len(started) == 1
    del made
    gc.collect()
    assert is_over(started[0])


def test_a_pack_leaves_no_process(path: Path, tmp_path: Path, started: list[subprocess.Popen[bytes]]) -> None:
    toolkit.pack(path, tmp_path / "ds")
    gc.collect()
    assert started
    assert all(map(is_over, started))


def test_a_process_ends_with_one_that_is_killed(path: Path, tmp_path: Path) -> None:
    # The library holds the interpreter: no thread of it could look.
    (tmp_path / "double_of_the_server.py").write_text(
        "import ctypes, os\n"
        "from toolkit.sources.kinds.hdf5 import serve\n"
        "def stuck(*_):\n"
        "    print(os.getpid(), flush=True)\n"
        "    ctypes.PyDLL(None).sleep(600)\n"
        "serve.arrays_in = stuck\n"
        "main = serve.main\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "from toolkit.sources.kinds.hdf5 import children\n"
        "from toolkit.sources.options import SourceOptions\n"
        "from toolkit.sources.skips import Skips\n"
        "children._SERVER = 'double_of_the_server'\n"
        f"children.Children().arrays_in({str(path)!r}, SourceOptions(paths=(), slice_bytes=1), Skips())\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stderr=subprocess.PIPE) as parent:
        assert parent.stderr is not None
        child = int(parent.stderr.readline())
        assert is_there(child)
        parent.kill()
    wait_until(lambda: not is_there(child))


def test_memory_is_limited(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = table(path)
    monkeypatch.setattr(children_module, "_MEMORY_BYTES", 1 << 20)
    with pytest.raises(SourceError, match=f"{path}.*(needs more than|can't be read .*memory)"):
        list(made.read(["x"], 0, len(made.pieces)))


def test_types_come_across_as_they_are(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.zeros(3)
        file.create_dataset("ref", data=[file["x"].ref] * 3, dtype=h5py.ref_dtype)
        record = np.dtype(
            {"names": ["a", "b"], "formats": ["i2", (h5py.string_dtype("ascii"), (2,))], "offsets": [4, 8]}
        )
        file.create_dataset("record", (3,), record)
        file.create_dataset("nested", (3,), h5py.vlen_dtype(h5py.enum_dtype({"é": -1, "b": 5}, "i1")))
    for file_path in (tmp_path / "a.h5", GOLDEN / "types.h5"):
        found = arrays_in(str(file_path), options(file_path))
        told = found_in(str(file_path), message_of(found))
        assert told.names == found.names
        for one, other in zip(told.arrays, found.arrays, strict=True):
            assert one.dtype == other.dtype
            for what in ("name", "path", "state", "place", "shape", "cache_bytes", "band_rows", "more_row_bytes"):
                assert getattr(one, what) == getattr(other, what)
            for check in (h5py.check_string_dtype, h5py.check_vlen_dtype, h5py.check_enum_dtype, h5py.check_ref_dtype):
                assert check(one.dtype) == check(other.dtype)


def test_errors_are_those_of_reading_here(path: Path) -> None:
    made = table(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="was changed during the pack"):
        list(made.read(["x"], 0, 1))


def test_what_starts_processes_can_be_pickled(path: Path) -> None:
    children = pickle.loads(pickle.dumps(Children()))
    arrays, _ = children.arrays_in(str(path), options(path), Skips())
    assert [array.name for array in arrays] == ["x"]


def test_a_script_without_a_guard_packs(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import toolkit\nprint(len(toolkit.pack({str(path)!r}, 'ds').pin))\n")
    (tmp_path / "numpy.py").write_text("raise SystemExit('from the current folder')")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-P", str(script)], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
