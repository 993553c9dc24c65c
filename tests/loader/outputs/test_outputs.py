"""Outputs of a user's own, torch's devices, and memory that a driver has page-locked."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from waiting import PATIENCE

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, UsageError
from toolkit.loader.outputs.batch import Batch
from toolkit.loader.outputs.kinds.torch.page_locked import HeldCopies, PageLocked
from toolkit.memory.budget import Budget
from toolkit.memory.pool import BlockPool, NoRoomError

STEPS = toolkit.pipeline(slot("image").decode_image().resize((16, 16)))
IMAGES = 4 * 16 * 16 * 3
WORKER = 256 << 10  # at the most what a thread decodes these with


class Picture:
    """A tensor of somebody's own: any type over the same memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.memory = memoryview(values)

    def pixels(self) -> np.ndarray:
        return np.asarray(self.memory)


def test_an_adapter_makes_what_the_loop_gets(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    plain = list(ds.loader(STEPS, batch_size=4, shuffle="full", seed=1))

    def pairs(batch: Batch) -> tuple[Picture, list[int], np.ndarray]:
        return Picture(batch["image"]), batch["label"].tolist(), batch.positions

    loader = ds.loader(STEPS, batch_size=4, shuffle="full", seed=1, output=pairs)
    made = list(loader)
    assert len(made) == len(plain)
    for (picture, labels, positions), batch in zip(made, plain, strict=True):
        assert np.array_equal(picture.pixels(), batch["image"])
        assert labels == batch["label"].tolist()
        assert np.array_equal(positions, batch.positions)
    assert loader.stats()["samples"] == len(ds)


def images_held() -> list[toolkit.HeldBatch]:
    return [batch for batch in toolkit.debug_batches() if batch.delivered and "image" in batch.columns]


def test_memory_that_an_adapters_result_keeps_counts_and_is_named(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(
        STEPS,
        batch_size=4,
        threads=1,
        max_bytes=3 * IMAGES + WORKER,
        hold_timeout=0.3,
        output=lambda batch: Picture(batch["image"]),
    )
    gc.collect()  # other tests' batches, in cycles
    others = images_held()
    held: list[Any] = []
    with pytest.raises(LoaderError, match=r"Held are: epoch 0, positions 0\.\.3, .*delivered: image"):
        held.extend(loader)
    assert len(held) >= 1
    mine = [seen for seen in images_held() if seen not in others]
    assert len(mine) == len(held)
    assert {batch.columns["image"] for batch in mine} == {IMAGES}
    loader.close()
    gc.collect()
    assert loader.stats()["budget_bytes"] == len(mine) * IMAGES
    held.clear()
    gc.collect()
    assert loader.stats()["budget_bytes"] == 0


def test_an_adapter_that_fails_is_named_and_its_batch_is_not_counted_as_received(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])

    def fragile(batch: Batch) -> Batch:
        if batch.positions[0] == 8:
            raise StopIteration("enough")  # which alone would end the loop, a short epoch
        return batch

    loader = ds.loader(batch_size=4, output=fragile)
    batches = iter(loader)
    next(batches), next(batches)
    with pytest.raises(LoaderError, match=rf"{packed}, epoch 0, positions 8\.\.11, output adapter fragile: StopIter"):
        next(batches)
    assert loader.state_dict()["position"] == 8
    with pytest.raises(LoaderError, match="its epoch is not complete"):
        next(batches)
    again = ds.loader(batch_size=4)
    again.load_state_dict(loader.state_dict())
    assert next(iter(again)).positions.tolist() == [8, 9, 10, 11]


def test_an_object_may_be_an_adapter(packed: Path) -> None:
    class Keys:
        def __call__(self, batch: Batch) -> list[str | None]:
            if batch.epoch:
                raise ValueError("no more")
            return batch.sample_keys

    ds = toolkit.open(packed, split="train", columns=["label"])
    assert [key for keys in ds.loader(batch_size=40, output=Keys()) for key in keys] == ds.keys()
    loader = ds.loader(batch_size=40, output=Keys())
    loader.set_epoch(1)
    with pytest.raises(LoaderError, match=r"output adapter .*Keys: ValueError: no more"):
        next(iter(loader))


def test_outputs_that_can_not_be(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])
    with pytest.raises(UsageError, match="output must be one of numpy, torch, jax, got 'tensor'"):
        ds.loader(batch_size=4, output="tensor")
    with pytest.raises(UsageError, match="is of torch: say output='torch'"):
        ds.loader(batch_size=4, device="cuda")


def test_torch_devices(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    ds = toolkit.open(packed, split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize((8, 8)).normalize("half").cast("bfloat16"))
    plain = next(iter(ds.loader(steps, batch_size=4, output="torch")))
    there = next(iter(ds.loader(steps, batch_size=4, output="torch", device="cpu")))
    assert torch.equal(plain["image"], there["image"])
    for batch in ds.loader(steps, batch_size=4, output="torch", device=torch.device("meta"), max_bytes="4MiB"):
        assert {values.device.type for values in batch.values()} == {"meta"}
        assert batch["image"].shape[1:] == (3, 8, 8)
        assert batch["image"].dtype == torch.bfloat16
    listed = next(iter(ds.loader(batch_size=4, output="torch", device="meta")))
    assert isinstance(listed["image"][0], bytes)
    assert listed["label"].device.type == "meta"
    for device, said in (
        ("gpu", "is no device of torch"),
        (3.5, "is no device of torch"),
        ("xpu", "can't be used here"),
    ):
        with pytest.raises(UsageError, match=said):
            ds.loader(batch_size=4, output="torch", device=device)


def test_cuda_that_is_not_there(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("CUDA is there")
    ds = toolkit.open(packed, split="train")
    with pytest.raises(UsageError, match=r"device='cuda:1': torch .*(has no CUDA|finds no GPU).*leave device= out"):
        ds.loader(batch_size=4, output="torch", device="cuda:1")


def test_cuda_gives_the_same_batches(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA")
    ds = toolkit.open(packed, split="train")
    options = {"batch_size": 16, "shuffle": "full", "epochs": 3, "output": "torch"}
    plain = ds.loader(STEPS, **options)
    there = ds.loader(STEPS, **options, device="cuda", max_bytes="2MiB")
    for wanted, batch in zip(plain, there, strict=True):
        assert batch["image"].device.type == "cuda"
        for name in wanted:
            assert torch.equal(batch[name].cpu(), wanted[name])


class SlowDriver:
    """A device that reads what it copies late: when an event is asked a second time, or waited for."""

    def __init__(self, room: int = 10**9) -> None:
        self.locked: dict[int, int] = {}
        self.begun: dict[int, tuple[Any, int]] = {}
        self.copies = 0
        self.room = room

    def lock(self, address: int, nbytes: int) -> None:
        self.locked[address] = nbytes

    def unlock(self, address: int) -> None:
        end = address + self.locked.pop(address)
        assert not any(address <= source < end for _, source in self.begun.values()), "unlocked while it is copied"

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        yield

    def copy(self, tensor: Any) -> Any:
        self.room -= tensor.nbytes
        if self.room < 0:
            raise RuntimeError("out of memory on the device")
        there, source = tensor.new_empty(tensor.shape), tensor.data_ptr()
        assert any(first <= source < first + size for first, size in self.locked.items()), "not in locked memory"
        self.begun[self.copies] = there, source  # the address alone, which is all that a device knows
        self.copies += 1
        return there

    def mark(self) -> SlowEvent:
        return SlowEvent(self, list(self.begun))


class SlowEvent:
    def __init__(self, driver: SlowDriver, numbers: list[int]) -> None:
        self.driver, self.numbers, self.asked = driver, numbers, 0

    def query(self) -> bool:
        self.asked += 1
        if self.asked > 1:
            self.synchronize()
        return self.asked > 1

    def synchronize(self) -> None:
        for number in self.numbers:
            if number in self.driver.begun:
                there, source = self.driver.begun.pop(number)
                ctypes.memmove(there.data_ptr(), source, there.nbytes)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> SlowDriver:
    """In place of CUDA."""
    torch_device = pytest.importorskip("toolkit.loader.outputs.kinds.torch.device")
    driver = SlowDriver()
    monkeypatch.setattr(torch_device, "device_arrays", lambda device: torch_device.CopiedArrays(driver))
    return driver


@pytest.mark.parametrize("max_bytes", [None, 2 * IMAGES + 100 + WORKER, 5 * IMAGES + WORKER])
def test_batches_arrive_whole_however_late_they_are_copied(
    packed: Path, slow: SlowDriver, max_bytes: int | None
) -> None:
    ds = toolkit.open(packed, split="train")
    options = {"batch_size": 4, "shuffle": "full", "epochs": 2, "output": "torch"}
    loader = ds.loader(STEPS, **options, device="cuda", max_bytes=max_bytes, hold_timeout=PATIENCE)
    delivered = list(loader)  # all are held, and take nothing of the loader's memory
    wanted = list(ds.loader(STEPS, **options))
    assert slow.begun  # the last ones are on their way
    del loader
    gc.collect()
    assert not slow.begun  # which was waited for before their memory went
    assert not slow.locked
    for batch, plain in zip(delivered, wanted, strict=True):
        assert batch["image"].equal(plain["image"])
        assert batch["label"].equal(plain["label"])


def test_copies_before_a_failing_one_are_waited_for(packed: Path, slow: SlowDriver) -> None:
    slow.room = 3 * IMAGES + 2 * 32  # two batches, and the image of the third
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(STEPS, batch_size=4, output="torch", device="cuda")
    with pytest.raises(RuntimeError, match="out of memory on the device"):
        list(loader)
    assert slow.begun
    del loader
    gc.collect()
    assert (slow.begun, slow.locked) == ({}, {})


@pytest.fixture
def locked() -> tuple[PageLocked, dict[int, int]]:
    """Memory that a driver stood in for by a dict has locked: address -> bytes."""
    ranges: dict[int, int] = {}

    def lock(address: int, nbytes: int) -> None:
        if nbytes > 1 << 20:
            raise RuntimeError("out of memory")
        assert address % mmap.PAGESIZE == nbytes % mmap.PAGESIZE == 0
        assert all(address + nbytes <= other or other + size <= address for other, size in ranges.items())
        ranges[address] = nbytes

    return PageLocked(lock, lambda address: ranges.pop(address)), ranges


def test_blocks_are_locked_by_pages_and_unlocked_when_they_go(locked: tuple[PageLocked, dict[int, int]]) -> None:
    memory, ranges = locked
    blocks = [memory.allocate(nbytes) for nbytes in (1, 4096, 5000, 100_000, 0)]
    assert [block.nbytes for block in blocks] == [1, 4096, 5000, 100_000, 0]
    assert len(ranges) == 5
    for block in blocks:
        block[:] = 7
        assert block.ctypes.data in ranges or not block.nbytes
        assert ranges.get(block.ctypes.data, 1 << 20) >= block.nbytes
    view = blocks[3][10:20].view(np.uint16)
    del block, blocks
    assert len(ranges) == 1  # a view keeps its block
    assert view.tolist() == [0x0707] * 5
    del view
    assert not ranges


def test_a_pool_lends_locked_blocks_again_and_counts_them(locked: tuple[PageLocked, dict[int, int]]) -> None:
    memory, ranges = locked
    budget = Budget(10_000)
    pool = BlockPool(keep=1, budget=budget, allocate=memory.allocate)
    first = pool.lend(6000)
    address = first.ctypes.data
    with pytest.raises(NoRoomError):
        pool.lend(6000)
    del first
    assert pool.lend(6000).ctypes.data == address  # locked once
    assert (len(ranges), budget.used) == (1, 6000)
    pool.close()
    assert (ranges, budget.used) == ({}, 0)


def test_memory_that_can_not_be_locked_is_an_error_and_not_counted(locked: tuple[PageLocked, dict[int, int]]) -> None:
    budget = Budget()
    pool = BlockPool(keep=1, budget=budget, allocate=locked[0].allocate)
    with pytest.raises(LoaderError, match=r"can't page-lock 2097152 bytes .*out of memory.*ulimit -l"):
        pool.lend(2 << 20)
    assert budget.used == 0


class Event:
    """What a driver's event does."""

    def __init__(self) -> None:
        self.done = self.waited = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = self.waited = True


def test_what_is_copied_from_is_not_lent_again_before_the_copy_is_done() -> None:
    budget = Budget()
    pool = BlockPool(keep=1, budget=budget)
    copies, events = HeldCopies(), [Event() for _ in range(3)]
    for event in events:
        copies.hold(event, {"image": pool.lend(100)})
    copies.drop_done()
    assert budget.used == 300
    events[1].done = True  # not before the first one
    copies.drop_done()
    assert budget.used == 300
    events[0].done = True
    copies.drop_done()
    assert budget.used == 200  # one is kept free, one is being copied
    del copies
    assert [event.waited for event in events] == [False, False, True]
    assert budget.used == 100
