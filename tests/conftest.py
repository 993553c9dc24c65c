"""Fixtures shared by all tests: a small image folder, a dataset packed from it, and ways to make others.

image_folder            folder of JPEG and PNG files, splits train and val, classes cat and dog
dataset                 a fresh copy of it packed: several shards in train, several record batches in each
pack_small(src, dst)    pack into small shards and record batches; returns the PackResult
commit_samples(...)     commit samples given as dicts, for what no image folder holds (null images, odd text)
commit_rows(...)        commit rows given as record batches, with columns of any Arrow type
"""

from __future__ import annotations

import functools
import gc
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from toolkit.format.commit import Transaction
from toolkit.format.manifest import LabelCounts, Manifest, Split
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import (
    FORMAT_VERSION,
    KEY,
    Column,
    Kind,
    arrow_schema,
    derived_of,
    image_column,
    label_column,
)
from toolkit.format.shard import ShardWriter
from toolkit.format.tables import encode_label_table, encode_schema_table, sha256
from toolkit.memory.holding import debug_batches
from toolkit.pack.derive import Deriver
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.storage.local import LocalStore
from toolkit.storage.store import WritableStore

# A shell that starts tests in the background lets them ignore Ctrl-C, and so would the programs that they interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are busy, and sanitizers slow: how long an example takes says nothing, nor how long it takes to draw one.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")

SHARD_BYTES = 64 * 1024
BATCH_BODY_BYTES = 24 * 1024

Samples = Sequence[Mapping[str, Any]]


def make_image_folder(root: Path) -> Path:
    """Write 14 images of noise, a few KB each, two splits and two classes; always the same pixels."""
    rng = np.random.default_rng(1)
    names = [f"train/{('cat', 'dog')[i % 2]}/{i:02d}.{('jpg', 'png')[i // 2 % 2]}" for i in range(12)]
    for name in [*names, "val/cat/a.png", "val/dog/b.jpg"]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        height, width = (int(side) for side in rng.integers(40, 72, 2))
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return root


def _pack_small(source: Path, dataset: Path, **options: Any) -> PackResult:
    options = {"shard_size": SHARD_BYTES, "on_existing": OnExisting.OVERWRITE, **options}
    small = functools.partial(ShardWriter, batch_body_bytes=BATCH_BODY_BYTES)
    with mock.patch("toolkit.pack.slices.ShardWriter", small):
        return pack(PackJob(source=str(source), dataset=str(dataset), **options))


def rows_of(schema: pa.Schema, samples: Samples) -> pa.RecordBatch:
    """Return samples given as dicts as rows for a ShardWriter with that schema."""
    return pa.RecordBatch.from_pylist(list(samples), schema.remove(1))


def _commit_samples(
    root: Path | WritableStore,
    splits: Mapping[str, Sequence[Samples]],
    *,
    classes: tuple[str, ...] = ("cat", "dog"),
    batch_body_bytes: int = BATCH_BODY_BYTES,
    derive: bool = False,
    **changes: Any,
) -> str:
    """Commit splits of shards of samples with the columns `image` and `label`; `changes` go to the Manifest.

    `derive`: with the columns that are derived of images.
    """
    columns = (image_column("image"), label_column("label", sha256(encode_label_table(classes))))
    types = {"image": IMAGE_TYPE, "label": pa.int64()}
    plain = arrow_schema(columns, types, {"label": classes})
    derived = derived_of(columns) if derive else ()
    deriver, schema = Deriver(columns, derived), arrow_schema(columns, types, {"label": classes}, derived)
    rows = {name: [[deriver.added(rows_of(plain, samples))] for samples in shards] for name, shards in splits.items()}
    changes = {"derived": derived, **changes}
    return commit_columns(
        root, rows, columns, schema, {"label": classes}, batch_body_bytes=batch_body_bytes, changes=changes
    )


def _commit_rows(
    root: Path | WritableStore,
    splits: Mapping[str, Sequence[Sequence[pa.RecordBatch]]],
    *,
    columns: tuple[Column, ...] | None = None,
    batch_body_bytes: int = BATCH_BODY_BYTES,
) -> str:
    """Commit splits of shards of pieces: record batches with __key__ and `columns`, or any of kind `value`."""
    first = next(piece for shards in splits.values() for pieces in shards for piece in pieces)
    fields = [field for field in first.schema if field.name != KEY]
    if columns is None:
        columns = tuple(Column(name=field.name, kind=Kind.VALUE, arrow_type=str(field.type)) for field in fields)
    schema = arrow_schema(columns, {field.name: field.type for field in fields}, {})
    return commit_columns(root, splits, columns, schema, {}, batch_body_bytes=batch_body_bytes, changes={})


def commit_columns(
    root: Path | WritableStore,
    splits: Mapping[str, Sequence[Sequence[pa.RecordBatch]]],
    columns: tuple[Column, ...],
    schema: pa.Schema,
    classes: Mapping[str, tuple[str, ...]],
    *,
    batch_body_bytes: int,
    changes: Mapping[str, Any],
) -> str:
    """Commit splits of shards of pieces with that schema and those class names; `changes` go to the Manifest."""
    store = LocalStore(str(root)) if isinstance(root, Path) else root
    with Transaction(store, replace=True) as transaction:
        made = {}
        for name, shards in splits.items():
            records = []
            labels: dict[str, list[int | None]] = {column: [] for column in classes}
            for number, pieces in enumerate(shards):
                shard = transaction.new_shard(f"{name}-{number}")
                writer = ShardWriter(shard, schema, batch_body_bytes=batch_body_bytes)
                try:
                    for piece in pieces:
                        writer.write(piece)
                        for column, seen in labels.items():
                            seen += piece.column(column).to_pylist()
                    record = writer.close()
                finally:
                    writer.abort()  # nothing behind close()
                name_on_disk = f"{name}-{number:06d}-{record.sha256.hex()[:16]}.arrow"
                records.append(replace(record, path=transaction.publish_shard(shard, name_on_disk)))
            made[name] = Split(
                rows=sum(record.rows for record in records),
                bytes=sum(record.file_bytes for record in records),
                labels={
                    column: LabelCounts(
                        counts=tuple(seen.count(i) for i in range(len(classes[column]))), missing=seen.count(None)
                    )
                    for column, seen in labels.items()
                },
                tables=transaction.add_shard_tables(records),
            )
        for names in classes.values():
            transaction.add_table(encode_label_table(names))
        fields: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "requires": (),
            "columns": columns,
            "derived": (),
            "schema": transaction.add_table(encode_schema_table(schema)),
            "splits": made,
            "options": {},
            "parent": None,
            "user": {},
        }
        return transaction.commit(Manifest(**{**fields, **changes}), {})


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A user's state of the tests' own: no test reads or makes the key of who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _loaders_before_are_through() -> None:
    """Begin when the loaders of earlier tests have ended: threads and memory are counted for the whole process."""
    if debug_batches():
        gc.collect()  # JAX keeps dead arrays until then
    until = time.monotonic() + 30
    while left := _of_loaders() - _given_up:
        if time.monotonic() > until:
            _given_up.update(left)
        gc.collect()
        time.sleep(0.01)


_given_up: set[object] = set()
"""What a test left that ended badly, and that no later one waits for."""


def _of_loaders() -> set[object]:
    """Return the threads of loaders, and the batches in flight."""
    threads = {thread for thread in threading.enumerate() if thread.name.startswith("toolkit-loader")}
    return threads | {str(batch) for batch in debug_batches() if not batch.delivered}


@pytest.fixture(scope="session")
def _image_folder_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("images") / "images")


@pytest.fixture(scope="session")
def _dataset_once(_image_folder_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packed") / "dataset"
    _pack_small(_image_folder_once, root)
    return root


@pytest.fixture
def image_folder(_image_folder_once: Path, tmp_path: Path) -> Path:
    """A copy of the image folder, to be changed at will."""
    return Path(shutil.copytree(_image_folder_once, tmp_path / "images"))


@pytest.fixture
def dataset(_dataset_once: Path, tmp_path: Path) -> Path:
    """A copy of the dataset packed from the image folder, to be damaged at will."""
    return Path(shutil.copytree(_dataset_once, tmp_path / "dataset"))


@pytest.fixture
def pack_small() -> Callable[..., PackResult]:
    """Return pack_small(source, dataset, **PackJob options)."""
    return _pack_small


@pytest.fixture(scope="session")
def commit_samples() -> Callable[..., str]:
    """Return commit_samples(root, {split: [[sample, ...], ...]}, classes=..., ...), which returns the pin."""
    return _commit_samples


@pytest.fixture
def commit_rows() -> Callable[..., str]:
    """Return commit_rows(root, {split: [[record batch, ...], ...]}, ...), which returns the pin."""
    return _commit_rows
