"""Uses that look harmless and must not go wrong in silence: found by review, each as a test."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pictures import encode, make_folder, picture
from waiting import PATIENCE, wait_until

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, SampleError, UsageError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

PIPELINE = toolkit.pipeline(slot("image").decode_image().resize_short(32).center_crop(24))


def test_a_view_keeps_its_rows_when_the_caller_shuffles_his_array(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    rows = np.arange(len(ds))
    view = ds.take(rows[:5])
    before = view.keys()
    np.random.default_rng(0).shuffle(rows)
    assert view.keys() == before


@pytest.mark.parametrize("rows", [np.ones(150, bool), [1.9], ["1"]])
def test_rows_that_are_no_numbers_are_refused(packed: Path, rows: list[int]) -> None:
    ds = toolkit.open(packed, split="train")
    for call in (ds.take, ds.keys):
        with pytest.raises(UsageError, match="rows must be whole numbers"):
            call(rows)
    with pytest.raises(UsageError, match=r"got 1\.5"):
        _ = ds[1.5]  # type: ignore[call-overload]
    for beyond in ([-1], [150]):
        with pytest.raises(IndexError, match=r"0\.\.149"):
            ds.keys(beyond)


def test_a_relative_path_survives_a_change_of_folder(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(packed.parent)
    ds = toolkit.open(packed.name, split="train")
    monkeypatch.chdir("/")
    assert ds[0]["__key__"] == "train/ant/0000.jpg"
    assert pickle.loads(pickle.dumps(ds))[0] == ds[0]


@pytest.mark.parametrize("how", ["close", "iterate"])
def test_a_consumer_that_waits_is_woken_when_the_loader_is_closed(packed: Path, how: str) -> None:
    ds = toolkit.open(packed, split="train")
    slow = toolkit.pipeline(slot("image").decode_image().resize_short(3000).center_crop(3000))
    loader = ds.loader(slow, batch_size=16, threads=1, prefetch=0, epochs=10**6)
    ended: list[BaseException] = []

    def consume() -> None:
        try:
            for batch in loader:
                del batch
        except LoaderError as error:
            ended.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    wait_until(lambda: loader.stats()["in_flight"])
    time.sleep(0.3)
    if how == "close":
        loader.close()
    else:
        iter(loader)
    consumer.join(PATIENCE)
    assert not consumer.is_alive()
    assert "the iteration ended after" in str(ended[0])
    loader.close()


def test_an_iteration_that_broke_never_ends_as_if_it_were_complete(tmp_path: Path) -> None:
    make_folder(tmp_path / "src", {"a": 30})
    whole = encode(picture(1))
    (tmp_path / "src/a/0011.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    pack(PackJob(source=str(tmp_path / "src"), dataset=str(tmp_path / "ds")))
    iterator = iter(toolkit.open(tmp_path / "ds").loader(PIPELINE, batch_size=4))
    next(iterator)
    next(iterator)
    with pytest.raises(SampleError):
        next(iterator)
    for _ in range(3):
        with pytest.raises(LoaderError, match=r"its epoch is not complete.*0011.jpg"):
            next(iterator)


def test_positions_and_rows_are_arrays_of_their_own(packed: Path) -> None:
    batch = next(iter(toolkit.open(packed, split="train").loader(batch_size=10)))
    keys = batch.sample_keys
    batch.positions[:] += 100
    assert batch.sample_keys == keys


def test_a_child_reads_its_own_copy_after_a_fork_under_load(packed: Path) -> None:
    code = f"""
        import os, sys, toolkit
        sys.setswitchinterval(1e-6)
        ds = toolkit.open({str(packed)!r}, split="train")
        loader = ds.loader(batch_size=4, threads=3, epochs=10000)
        batches = iter(loader)
        for _ in range(40):
            next(batches)
            pid = os.fork()
            if pid == 0:
                try:
                    iter(loader)
                except toolkit.errors.LoaderError:
                    os._exit(0 if ds[0]["__key__"] else 1)
                os._exit(2)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
                os._exit(3)
        os._exit(0)
    """
    source = "import toolkit.errors\n" + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source], timeout=120, env={**os.environ})
    assert done.returncode == 0


@pytest.mark.parametrize("epoch", [-1, 1.5, "1"])
def test_epochs_are_whole_numbers(packed: Path, epoch: int) -> None:
    with pytest.raises(UsageError, match="whole number"):
        toolkit.open(packed, split="val").loader(batch_size=4).set_epoch(epoch)


def test_columns_takes_a_list(packed: Path) -> None:
    with pytest.raises(UsageError, match=r"columns=\['image'\]"):
        toolkit.open(packed, split="val", columns="image")
