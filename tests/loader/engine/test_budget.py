"""One budget over what a loader owns: kept, never a lock-up, and whoever is in its way is named."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from PIL import Image
from waiting import PATIENCE, wait_until

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, SampleError, UsageError
from toolkit.memory.budget import process_budget
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

SIDE = 64
IMAGE = SIDE * SIDE * 3
STEPS = slot("image").decode_image().resize_short(SIDE).center_crop(SIDE)
PIPELINE = toolkit.pipeline(STEPS)
WORKER = 256 << 10  # what a thread takes for a part of these pictures is below: a quarter is the Huffman tables


def size(samples: int) -> int:
    """Bytes of a batch: images and labels."""
    return samples * (IMAGE + 8)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    batch_size=st.integers(1, 60),
    prefetch=st.integers(0, 6),
    threads=st.integers(1, 3),
    quarters=st.integers(0, 16),
    keeps=st.integers(0, 2),
    slow=st.booleans(),
    shuffle=st.sampled_from(["none", "full"]),
)
def test_everything_is_delivered_at_any_cap_and_the_cap_is_kept(
    packed: Path, batch_size: int, prefetch: int, threads: int, quarters: int, keeps: int, slow: bool, shuffle: str
) -> None:
    """`keeps` batches stay in the consumer's hand; the cap fits one more, one thread, and `quarters` of a batch."""
    cap = size(batch_size) * (keeps + 1) + WORKER + size(batch_size) * quarters // 4
    ds = toolkit.open(packed, split="train")
    held: list[Any] = []
    seen: list[int] = []
    options = {"batch_size": batch_size, "prefetch": prefetch, "threads": threads, "shuffle": shuffle}
    with ds.loader(PIPELINE, **options, max_bytes=cap, hold_timeout=PATIENCE) as loader:
        iterator = iter(loader)
        for _ in range(len(loader)):
            while len(held) > keeps:
                del held[0]
            batch = next(iterator)
            seen += batch.rows.tolist()
            held.append(batch)
            del batch
            if keeps == 0:
                held.clear()
            elif len(held) > keeps:
                del held[0]
            if slow:
                time.sleep(0.002)
        stats = loader.stats()
    assert sorted(seen) == list(range(len(ds)))
    assert stats["budget_peak_bytes"] <= cap
    assert stats["in_flight_peak"] <= min(prefetch + 1, cap // size(batch_size) + 1)


def test_the_cap_itself_is_kept_where_two_batches_and_the_threads_fit(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    cap = 4 * size(16) + 2 * WORKER
    with ds.loader(PIPELINE, batch_size=16, threads=2, prefetch=8, max_bytes=cap, epochs=20) as loader:
        for batch in loader:
            assert batch["image"].shape[1:] == (SIDE, SIDE, 3)
        assert 2 * size(16) < loader.stats()["budget_peak_bytes"] <= cap


@pytest.mark.parametrize("spelling", ["own", "process"])
def test_a_cap_below_one_batch_is_refused_with_the_number(packed: Path, spelling: str) -> None:
    ds = toolkit.open(packed, split="train")
    least = size(32)
    says = f"a batch of 32 samples needs {least} bytes.*allow at least {least} bytes"
    assert len(ds.loader(PIPELINE, batch_size=32, max_bytes=least)) == 5
    own = least - 1 if spelling == "own" else None
    try:
        toolkit.set_memory_limit(least - 1 if spelling == "process" else None)
        with pytest.raises(UsageError, match=says):
            ds.loader(PIPELINE, batch_size=32, max_bytes=own)
    finally:
        toolkit.set_memory_limit(None)


@pytest.mark.parametrize("wrong", [0, -1, "0", "12 apples", "12M", True, 1.5])
def test_a_cap_that_is_no_size_is_refused(packed: Path, wrong: Any) -> None:
    with pytest.raises(UsageError):
        toolkit.open(packed, split="train").loader(PIPELINE, batch_size=8, max_bytes=wrong)


@pytest.mark.parametrize("wrong", [0, -1, "60", True, float("nan")])
def test_a_hold_timeout_that_is_no_time_is_refused(packed: Path, wrong: Any) -> None:
    with pytest.raises(UsageError, match="hold_timeout"):
        toolkit.open(packed, split="train").loader(PIPELINE, batch_size=8, hold_timeout=wrong)


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_a_consumer_that_keeps_everything_is_told_what_he_holds(packed: Path, output: str) -> None:
    pytest.importorskip(output)
    ds = toolkit.open(packed, split="train")
    kept = []
    loader = ds.loader(
        PIPELINE, batch_size=30, threads=1, output=output, max_bytes=2 * size(30) + WORKER, hold_timeout=0.3
    )  # one thread: of two, one may wait for the other's memory
    with pytest.raises(LoaderError, match=r"hold_timeout=0\.3 s") as caught:
        kept.extend(batch["image"] for batch in loader)
    assert f"epoch 0, positions 0..29, {30 * IMAGE} bytes, delivered: image" in str(caught.value)
    assert "epoch 0, positions 30..59" in str(caught.value)
    mine = [held for held in toolkit.debug_batches() if held.columns.get("image") == 30 * IMAGE]
    assert [(held.first, held.last) for held in mine][-2:] == [(0, 29), (30, 59)]


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_a_for_loop_needs_two_batches_whatever_the_output(packed: Path, output: str) -> None:
    pytest.importorskip(output)
    ds = toolkit.open(packed, split="train")
    options = {"batch_size": 30, "threads": 2, "epochs": 4, "output": output}
    loader = ds.loader(PIPELINE, **options, max_bytes=2 * size(30) + WORKER, hold_timeout=PATIENCE)
    assert sum(int(np.asarray(batch["image"]).shape[0]) for batch in loader) == 4 * len(ds)


def test_bytes_are_counted_as_long_as_anybody_has_their_block(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(batch_size=50, threads=1, max_bytes="4MiB")
    batches = list(loader)
    stored = sum(len(image) for batch in batches for image in batch["image"])
    assert stored <= loader.stats()["budget_bytes"] <= stored * 9 // 8 + 150 * 24 + 3 * 4096
    first = batches[0]
    del batches
    loader.close()
    gc.collect()
    alive = sum(len(image) for image in first["image"])
    assert alive <= loader.stats()["budget_bytes"] <= alive * 9 // 8 + 50 * 24 + 4096
    view = first["image"].view(7)
    del first
    gc.collect()
    assert alive <= loader.stats()["budget_bytes"] <= alive * 9 // 8 + 4096
    (held,) = [held for held in toolkit.debug_batches() if held.columns.keys() == {"image"}]
    assert (held.first, held.last, held.delivered) == (0, 49, True)
    del view
    gc.collect()
    assert loader.stats()["budget_bytes"] == 0


def test_lists_larger_than_the_cap_are_an_error_with_the_number(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(batch_size=50, max_bytes=10_000)
    with pytest.raises(
        LoaderError, match=r"positions 0\.\.49, \d+ bytes.*this batch alone is larger than max_bytes 10000"
    ):
        next(iter(loader))


def test_what_the_next_batch_needs_is_said_where_it_lies_in_lists(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    steps = toolkit.pipeline(toolkit.slot("image").bytes().python(bytes, "object"))
    loader = ds.loader(steps, batch_size=16, max_bytes="150KiB", hold_timeout=0.3, threads=1)
    held: list[Any] = []
    with pytest.raises(LoaderError, match=r"needs (\d+) bytes.*or allow (\d+) bytes") as caught:
        held.extend(batch for _ in range(50) for batch in loader)
    need, allow = (int(text) for text in re.findall(r"(?:needs|allow) (\d+) bytes", str(caught.value)))
    assert need > 0
    assert allow > 150 * 1024


def test_what_a_batch_map_makes_is_counted_and_what_it_replaces_is_not(packed: Path) -> None:
    def widen(columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return columns | {"image": columns["image"].astype(np.float64)}

    ds = toolkit.open(packed, split="train")
    loader = ds.loader(toolkit.pipeline(STEPS, batch_maps=[widen]), batch_size=150, threads=1)
    (batch,) = list(loader)
    loader.close()
    assert batch["image"].dtype == np.float64
    assert loader.stats()["budget_bytes"] == 150 * (IMAGE * 8 + 8)


def test_the_process_limit_is_shared_by_its_loaders(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    gc.collect()
    try:
        loaders = [ds.loader(PIPELINE, batch_size=15, threads=1, hold_timeout=PATIENCE, epochs=3) for _ in range(2)]
        before = process_budget().used
        toolkit.set_memory_limit(before + 5 * size(15) + 4 * WORKER)
        seen = 0
        for first, second in zip(*loaders, strict=True):
            seen += len(first.rows) + len(second.rows)
        assert seen == 2 * 3 * len(ds)
    finally:
        toolkit.set_memory_limit(None)


def test_a_second_loader_gets_what_the_first_has_prefetched(packed: Path) -> None:
    """As a validation inside a training loop; the first loader then delivers what it planned all the same."""
    ds = toolkit.open(packed, split="train")
    gc.collect()
    try:
        train = ds.loader(PIPELINE, batch_size=15, threads=2, prefetch=8, hold_timeout=PATIENCE)
        before = process_budget().used
        toolkit.set_memory_limit(before + 4 * size(15) + 2 * WORKER)
        rows: list[int] = []
        for batch in train:
            rows += batch.rows.tolist()
            checked = ds[::3].loader(PIPELINE, batch_size=15, threads=1, hold_timeout=PATIENCE)
            assert sum(len(each.rows) for each in checked) == 50
        assert rows == list(range(150))
    finally:
        toolkit.set_memory_limit(None)


def test_a_loader_that_waits_for_memory_can_be_closed(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(
        PIPELINE, batch_size=30, max_bytes=size(30) + WORKER, hold_timeout=PATIENCE
    )
    iterator = iter(loader)
    kept = next(iterator)
    timer = threading.Timer(0.2, loader.close)
    timer.start()
    with pytest.raises(LoaderError, match="the loader was closed"):
        next(iterator)
    timer.join()
    assert len(kept.rows) == 30


def test_nothing_stays_charged_when_loaders_are_gone(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    for epochs in (1, 3):
        loader = ds.loader(PIPELINE, batch_size=20, threads=2, epochs=epochs, max_bytes="8MiB")
        iterator = iter(loader)
        next(iterator)
        if epochs == 1:
            for batch in iterator:
                del batch
        loader.close()
        del iterator
        gc.collect()
        stats = loader.stats()
        assert stats["budget_bytes"] == 0
        assert stats["in_flight"] == 0


def test_blocks_stay_for_the_next_iteration_up_to_a_bound(packed: Path) -> None:
    ds = toolkit.open(packed, split="train")
    loader = ds.loader(PIPELINE, batch_size=10, threads=1, prefetch=2)
    for batch in loader:
        del batch
    kept = loader.stats()["budget_bytes"]
    for batch in loader:
        del batch
    assert kept <= loader.stats()["budget_bytes"] <= 4 * size(10) + kept
    loader.close()
    gc.collect()
    assert loader.stats()["budget_bytes"] == 0


def test_report_says_what_stats_count(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(PIPELINE, batch_size=50, threads=1, max_bytes="8MiB")
    assert loader.stats()["bottleneck"] == "nothing delivered yet"
    for batch in loader:
        del batch
    stats = loader.stats()
    assert 0 < stats["consumer_wait_seconds"] <= stats["running_seconds"]
    assert stats["max_bytes"] == 8 << 20
    report = loader.report()
    assert "3 batches, 150 samples delivered, 0 skipped" in report
    assert "max_bytes 8388608 bytes (8.0 MiB)" in report
    assert report.endswith(f"bottleneck: {stats['bottleneck']}")


def test_a_slow_consumer_is_called_the_bottleneck(packed: Path) -> None:
    loader = toolkit.open(packed, split="train").loader(PIPELINE, batch_size=10, threads=2, epochs=10**6)
    batches = iter(loader)

    def is_said() -> bool:
        """Take a batch, slowly: the more slowly the longer it was waited for, which is for long where all pauses."""
        next(batches)
        time.sleep(0.02 + 2 * loader.stats()["consumer_wait_seconds"])
        return str(loader.stats()["bottleneck"]).startswith("the consumer")

    wait_until(is_said)
    loader.close()


_GROWTH = """
import sys, time
import numpy as np
import toolkit
from toolkit import slot

def owned():
    fields = dict(line.split(":") for line in open("/proc/self/smaps_rollup") if ":" in line and "-" not in line)
    return sum(int(fields[name].split()[0]) << 10 for name in ("Anonymous", "Pss_Shmem"))

path, cap, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
ds = toolkit.open(path, split="train")
steps = toolkit.pipeline(slot("image").decode_image().resize_short(256).center_crop(224).normalize("imagenet"))
for batch in ds.loader(steps, batch_size=2, threads=2, max_bytes=1 << 20 << 3):  # imports, thread stacks
    del batch
begun = most = owned()
for batch in ds.loader(steps, batch_size=16, threads=2, prefetch=64, max_bytes=cap, epochs=4):
    most = max(most, owned())
    time.sleep(pause)
assert most - begun <= cap + (32 << 20), (most - begun, cap)
print(most - begun)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="smaps_rollup is Linux's")
@pytest.mark.parametrize(("mebibytes", "pause"), [(20, 0.0), (64, 0.03), (256, 0.0)])
def test_the_process_grows_by_no_more_than_the_cap_and_32_mebibytes(packed: Path, mebibytes: int, pause: float) -> None:
    arguments = [str(packed), str(mebibytes << 20), str(pause)]
    done = subprocess.run([sys.executable, "-c", _GROWTH, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_many_small_batches_leave_nothing_behind(packed: Path) -> None:
    ds = toolkit.open(packed, split="train", columns=["label"])
    loader = ds.loader(batch_size=1, threads=1, epochs=40, max_bytes="1MiB")
    first = 0
    for number, batch in enumerate(loader):
        if number in (1000, 5900):
            gc.collect()
            held = len(toolkit.debug_batches())
            first = first or held
            assert held <= first + 6
        del batch
    assert loader.stats()["batches"] == 6000
    assert loader.stats()["budget_peak_bytes"] <= 8 * 8 + WORKER


def test_no_value_passes_the_cap_however_large_beside_others(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    sizes = np.where(draw.random(200) < 0.1, draw.integers(50_000, 90_000, 200), draw.integers(0, 900, 200)).tolist()
    table = pa.table({"data": [draw.bytes(size) for size in sizes], "label": list(range(200))})
    pq.write_table(table, tmp_path / "rows.parquet")
    pack(PackJob(source=str(tmp_path / "rows.parquet"), dataset=str(tmp_path / "ds")))
    ds = toolkit.open(tmp_path / "ds")
    largest = max(sizes)
    for batch_size, cap in ((1, 3 * largest), (4, 9 * largest)):
        seen: list[int] = []
        options = {"batch_size": batch_size, "max_bytes": cap, "threads": 2, "hold_timeout": PATIENCE}
        with ds.loader(**options, prefetch=20, shuffle="full", epochs=3) as loader:
            for batch in loader:
                seen += [len(value) for value in batch["data"]]
                time.sleep(0.0005)
            assert loader.stats()["budget_peak_bytes"] <= cap
        assert sorted(seen) == sorted(sizes * 3)
    tight = ds.loader(batch_size=1, max_bytes=largest, shuffle="full", hold_timeout=PATIENCE)
    with pytest.raises(LoaderError, match=r"this batch alone is larger than|beside the \d+ bytes"):
        sum(len(batch["data"]) for batch in tight)


@pytest.fixture(scope="module")
def pictures_of_pil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty PNGs and progressive JPEGs of 300 x 200, and as the eleventh a PNG of one bit, 3000 x 3000 in 2 kB."""
    root = tmp_path_factory.mktemp("pil")
    (root / "src").mkdir()
    for i in range(20):
        kind, options = ("PNG", {}) if i % 2 else ("JPEG", {"progressive": True})
        (root / "src" / f"{i:02d}.{kind.lower()}").write_bytes(encode(picture(i, 300, 200), kind, **options))
    Image.new("1", (3000, 3000)).save(root / "src" / "10-bomb.png")
    pack(PackJob(source=str(root / "src"), dataset=str(root / "ds")))
    return root / "ds"


def test_what_pil_and_libjpeg_take_is_counted_before(pictures_of_pil: Path) -> None:
    """Peaks were 1.2 to 1.8 times a small cap, and what PIL and libjpeg took was in no count."""
    ds = toolkit.open(pictures_of_pil)
    one = 300 * 200 * (4 + 3 + 16) + 400_000  # PIL's own pixels, the result and a band; a decoder's tables
    for threads in (1, 3):
        cap = size(4) + one
        options = {"batch_size": 4, "threads": threads, "prefetch": 4, "max_bytes": cap, "hold_timeout": PATIENCE}
        with ds.loader(PIPELINE, **options, epochs=3, on_error="skip") as loader:
            seen = 0
            for batch in loader:
                seen += len(batch.rows)
                del batch
            assert (seen, loader.stats()["skipped"]) == (63, 3)  # but for the bomb
            assert cap // 2 < loader.stats()["budget_peak_bytes"] <= cap


def test_a_picture_that_cannot_fit_is_refused_and_the_others_are_not(pictures_of_pil: Path) -> None:
    ds = toolkit.open(pictures_of_pil)
    options = {"batch_size": 4, "threads": 2, "max_bytes": 3 << 20, "hold_timeout": PATIENCE}
    says = (
        r"key '10-bomb.png', slot 'image', step decode_image\(\): to read and decode it takes 4\d{7} bytes .*allow at"
    )
    with pytest.raises(SampleError, match=says):
        list(ds.loader(PIPELINE, **options))
    with ds.loader(PIPELINE, **options, on_error="skip") as loader:
        masks = np.concatenate([batch.mask for batch in loader])
        assert (len(masks), masks.sum(), loader.stats()["skipped"]) == (21, 20, 1)
        assert loader.stats()["budget_peak_bytes"] <= 3 << 20
    assert sum(len(batch.rows) for batch in ds.loader(PIPELINE, **(options | {"max_bytes": "64MiB"}))) == 21


def test_a_loader_whose_worker_waits_for_memory_can_be_closed(pictures_of_pil: Path) -> None:
    ds = toolkit.open(pictures_of_pil)
    cap = 3 * size(4) + 1_720_000
    loader = ds.loader(PIPELINE, batch_size=4, threads=2, max_bytes=cap, on_error="skip", hold_timeout=PATIENCE)
    iterator = iter(loader)
    kept = [next(iterator)]
    timer = threading.Timer(0.3, loader.close)
    timer.start()
    with pytest.raises(LoaderError, match="loader was closed"):
        kept.extend(iterator)
    timer.join()
