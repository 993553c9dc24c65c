"""A failure or kill at any instant leaves the old version or the new one; one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from waiting import PATIENCE

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, StorageError, ToolkitError, UsageError
from toolkit.format.commit import Transaction
from toolkit.format.names import COMMIT_NOTE
from toolkit.pack.job import OnExisting, PackJob
from toolkit.pack.run import pack
from toolkit.storage.local import LocalStore

SOURCE = Path(__file__).parents[1] / "golden" / "source"
STEPS = ("replace", "fsync", "mkdir", "unlink")


def job(dataset: Path, limit: int | None = None) -> PackJob:
    return PackJob(source=str(SOURCE), dataset=str(dataset), limit=limit, on_existing=OnExisting.OVERWRITE)


def files(root: Path) -> dict[str, bytes]:
    """Every file but reports, which are hashed nowhere, and the lock."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".lock" and "reports/" not in name}


def check_leftovers(root: Path, before: dict[str, bytes], where: object = "") -> None:
    """What was there is as it was; what a failed pack leaves beside it is its journal and whole shards."""
    now = files(root)
    assert {name: data for name, data in now.items() if name in before} == before, where
    for name in now.keys() - before.keys():
        folder, _, last = name.partition("/")
        if name == COMMIT_NOTE:  # what the next run says the pin by, should the commit have been done
            continue
        assert folder in ("shards", ".journal"), (where, name)
        assert not last.startswith(".tmp-") or folder == ".journal", (where, name)
        if folder == "shards":
            digest = hashlib.sha256(now[name]).hexdigest()
            assert last.endswith(f"-{digest[:16]}.arrow"), (where, name)


def failure_of(root: Path) -> StorageError | None:
    try:
        pack(job(root))
    except StorageError as error:
        return error
    return None


def check_sound(root: Path, pin: str) -> None:
    assert toolkit.open(root, split="val").pin == pin
    assert verify(f"{root}@sha256:{pin}", full=True).findings == ()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder that holds a version with one sample of each split."""
    pack(job(tmp_path / "data", limit=1))
    return tmp_path / "data"


# --- failures ---------------------------------------------------------------------------------------------------


class FailAt:
    """Makes the n-th of the calls that change the disk fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, n: int, error: BaseException) -> None:
        self.calls = 0
        for name in STEPS[:3]:
            monkeypatch.setattr(os, name, self.wrap(getattr(os, name), n, error))

    def wrap(self, function: Callable[..., object], n: int, error: BaseException) -> Callable[..., object]:
        def call(*args: object, **kwargs: object) -> object:
            self.calls += 1
            if self.calls == n:
                raise error
            return function(*args, **kwargs)

        return call


def steps_of_a_pack(root: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        counter = FailAt(patch, -1, OSError())
        pack(job(root))
    return counter.calls


def test_a_failure_at_every_step(old: Path, tmp_path: Path) -> None:
    old_pin, before = toolkit.open(old, split="val").pin, files(old)
    new_pin = pack(job(tmp_path / "elsewhere")).pin
    outcomes = []
    for n in range(1, steps_of_a_pack(tmp_path / "count") + 1):
        with pytest.MonkeyPatch.context() as patch:
            counter = FailAt(patch, n, OSError(errno.ENOSPC, "No space left on device"))
            error = failure_of(old)
        assert error is not None or counter.calls < n  # an existing folder needs no mkdir
        assert error is None or (error.exit_code == 5 and "disk is full" in str(error))
        pin = toolkit.open(old, split="val").pin
        outcomes.append(pin)
        if pin == new_pin:
            break
        assert pin == old_pin
        check_leftovers(old, before, f"step {n} of a pack")
        check_sound(old, old_pin)
    assert len(outcomes) > 15
    assert outcomes[-1] == new_pin, "the last step, syncing the folder, comes after the new version is in place"
    check_sound(old, new_pin)
    assert verify(f"{old}@sha256:{old_pin}", full=True).findings == ()


def test_a_failure_at_every_step_of_a_first_pack_leaves_no_version(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "er"
    for n in range(1, steps_of_a_pack(tmp_path / "count")):  # the last one is after the rename of manifest.json
        with pytest.MonkeyPatch.context() as patch:
            FailAt(patch, n, OSError(errno.EIO, "Input/output error"))
            with pytest.raises(StorageError):
                pack(job(root))
        if root.exists():
            check_leftovers(root, {}, n)
            shutil.rmtree(tmp_path / "deep")
    check_sound(root, pack(job(root)).pin)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupt_leaves_the_old_version(old: Path, stop: BaseException) -> None:
    before = files(old)
    for n in (1, 6, 12):
        with pytest.MonkeyPatch.context() as patch:
            FailAt(patch, n, stop)
            with pytest.raises(type(stop)):
                pack(job(old))
        check_leftovers(old, before, n)


def test_packing_the_same_again_keeps_the_pin(old: Path) -> None:
    before, pin = files(old), toolkit.open(old, split="val").pin
    assert pack(job(old, limit=1)).pin == pin
    assert files(old) == before


# --- kills ------------------------------------------------------------------------------------------------------

# One process imports everything, then forks a pack for every step and kills it there.
KILLER = textwrap.dedent(
    """
    import itertools, os, shutil, signal, sys
    import toolkit
    from toolkit.checks.verify import verify
    from toolkit.pack.job import OnExisting, PackJob
    from toolkit.pack.run import pack

    source, work, moment = sys.argv[1:]
    job = lambda root, limit=None: PackJob(
        source=source, dataset=root, limit=limit, on_existing=OnExisting.OVERWRITE)
    old = pack(job(work + "/old", 1)).pin
    new = pack(job(work + "/new")).pin

    def kill_at(n):
        calls = 0
        def wrap(function):
            def call(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == n and moment == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                result = function(*args, **kwargs)
                if calls == n:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result
            return call
        for name in ("replace", "fsync", "mkdir"):
            setattr(os, name, wrap(getattr(os, name)))

    seen, stale = [], 0
    for n in itertools.count(1):
        root = f"{work}/{n}"
        shutil.copytree(work + "/old", root)
        child = os.fork()
        if not child:
            kill_at(n)
            pack(job(root))
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        pin = toolkit.open(root, split="val").pin
        assert pin in (old, new), n
        assert not verify(root, full=True).findings, n
        assert not verify(f"{root}@sha256:{old}", full=True).findings, n
        stale += sum(name.startswith(".tmp-") for _, _, names in os.walk(root) for name in names)
        assert pack(job(root)).pin == new, n
        assert not [name for _, _, names in os.walk(root) for name in names if name.startswith(".tmp-")], n
        seen.append(pin)
        shutil.rmtree(root)
        if status == 0:
            break
        assert status == signal.SIGKILL, (n, status)
    assert seen == sorted(seen, key=[old, new].index), "a later kill never brings the old version back"
    print(len(seen), seen.count(new), stale)
    """
)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_every_step(tmp_path: Path, moment: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", KILLER, str(SOURCE), str(tmp_path), moment]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    kills, new, stale = map(int, done.stdout.split())
    assert kills > 15
    assert 1 < new < kills
    assert stale > 5


def test_a_kill_at_random_moments(tmp_path: Path) -> None:
    root = tmp_path / "data"
    pins = {pack(job(root, limit=1)).pin, pack(job(tmp_path / "new")).pin}
    code = textwrap.dedent(
        """
        import sys
        from toolkit.pack.job import OnExisting, PackJob
        from toolkit.pack.run import pack
        print(flush=True)
        for limit in [1, None] * 1000:
            pack(PackJob(source=sys.argv[1], dataset=sys.argv[2], limit=limit, on_existing=OnExisting.OVERWRITE))
        """
    )
    moments = random.Random(0)
    for _ in range(4):
        child = subprocess.Popen([sys.executable, "-c", code, str(SOURCE), str(root)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(moments.uniform(0, 0.1))
        child.kill()
        child.wait()
        child.stdout.close()
        pin = toolkit.open(root, split="val").pin
        assert pin in pins
        check_sound(root, pin)
    check_sound(root, pack(job(root)).pin)


# --- one writer -------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused(old: Path) -> None:
    with Transaction(LocalStore(str(old)), replace=True):
        with pytest.raises(ExistsError, match="another pack is writing"):
            Transaction(LocalStore(str(old)), replace=True)
        with pytest.raises(ExistsError, match="another pack is writing"):
            pack(job(old))
    pack(job(old))


def test_the_lock_of_a_dead_process_is_free(old: Path) -> None:
    code = (
        "import os, signal, sys; from toolkit.format.commit import Transaction\n"
        "from toolkit.storage.local import LocalStore\n"
        "Transaction(LocalStore(sys.argv[1]), replace=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(old)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    check_sound(old, pack(job(old)).pin)


def test_a_lock_file_that_vanishes_while_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, taken = fcntl.flock, []

    def flock(fd: int, operation: int) -> None:
        real(fd, operation)
        if not taken:  # the writer that failed just before removes the folder's lock file
            os.unlink(tmp_path / "d" / ".lock")
        taken.append(fd)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Transaction(LocalStore(str(tmp_path / "d"))), pytest.raises(ExistsError):
        Transaction(LocalStore(str(tmp_path / "d")))


def test_a_dataset_is_not_overwritten_unasked(old: Path) -> None:
    before = files(old)
    with pytest.raises(ExistsError, match="already holds a dataset"):
        pack(PackJob(source=str(SOURCE), dataset=str(old)))
    assert files(old) == before


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.tex").write_text("42")
    with pytest.raises(UsageError, match=r"thesis\.tex"):
        Transaction(LocalStore(str(tmp_path / "d")), replace=True)
    with pytest.raises(UsageError, match="is a file"):
        Transaction(LocalStore(str(tmp_path / "d" / "thesis.tex")))
    assert os.listdir(tmp_path / "d") == ["thesis.tex"]


def test_stale_temporary_files_are_removed(old: Path) -> None:
    for folder in ("", "shards", "tables", "manifests", "reports"):
        (old / folder / ".tmp-99-x").write_bytes(b"half")
    pack(job(old))
    assert list(old.rglob(".tmp-*")) == []


def test_leaving_without_commit_removes_all_but_finished_shards(tmp_path: Path) -> None:
    with Transaction(LocalStore(str(tmp_path / "a" / "b"))) as transaction:
        transaction.add_table(b"x")
        shard = transaction.new_shard("train-000000-0")
        shard.write(memoryview(b"y"))
        shard.close()
        assert transaction.publish_shard(shard, "train-0.arrow") == "shards/train-0.arrow"
        (tmp_path / "a/b/shards/.tmp-train-000001-0").write_bytes(b"z")
    assert files(tmp_path / "a" / "b") == {"shards/train-0.arrow": b"y"}
    with Transaction(LocalStore(str(tmp_path / "c" / "d"))) as transaction:
        transaction.add_table(b"x")
        (tmp_path / "c/d/shards/.tmp-train-000001-0").write_bytes(b"z")
    assert not (tmp_path / "c").exists()


# --- disk full --------------------------------------------------------------------------------------------------


def run_pack(root: Path, file_size_limit: int | None = None) -> subprocess.CompletedProcess[str]:
    code = (
        "import resource, sys\n"
        "if sys.argv[3] != 'None': resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "from toolkit.errors import StorageError\n"
        "from toolkit.pack.job import OnExisting, PackJob; from toolkit.pack.run import pack\n"
        "try: pack(PackJob(source=sys.argv[1], dataset=sys.argv[2], on_existing=OnExisting.OVERWRITE))\n"
        "except StorageError as e: print(e, file=sys.stderr); sys.exit(e.exit_code)"
    )
    command = [sys.executable, "-c", code, str(SOURCE), str(root), str(file_size_limit)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("limit", [0, 1000, 4000])
def test_the_file_size_limit(old: Path, limit: int) -> None:
    before, pin = files(old), toolkit.open(old, split="val").pin
    done = run_pack(old, limit)
    assert done.returncode == 5, done.stderr
    assert "file size limit" in done.stderr
    check_leftovers(old, before)
    check_sound(old, pin)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB, where this user may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if mounted.returncode:
        pytest.skip("mounting a tmpfs needs root")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    root = small_disk / "data"
    pin, before = pack(job(root, limit=1)).pin, files(root)
    for free in range(0, 80 * 1024, 4096):
        space = os.statvfs(small_disk)
        (small_disk / "filler").write_bytes(bytes(max(0, space.f_bavail * space.f_frsize - free)))
        error = failure_of(root)
        (small_disk / "filler").unlink()
        if error is None:
            break
        assert "disk is full" in str(error)
        assert error.exit_code == 5
        check_leftovers(root, before, free)
        check_sound(root, pin)
    assert error is None
    assert free > 4 * 4096


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ToolkitError, match="permission denied") as caught:
        pack(job(tmp_path / "d"))
    assert caught.value.exit_code == 5
