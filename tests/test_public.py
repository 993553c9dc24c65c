"""What users see of toolkit: its names, what completion and help() show, and how its objects read."""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import rlcompleter
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle
from pictures import make_folder

import toolkit
from toolkit import slot
from toolkit.format.pin import SHARDS
from toolkit.loader.engine.front import Front
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

PUBLIC = [
    "Batch",
    "BatchMap",
    "BatchStep",
    "BytesColumn",
    "Chain",
    "Dataset",
    "HeldBatch",
    "Loader",
    "Mix",
    "PackResult",
    "Pipeline",
    "QueryResult",
    "Slot",
    "TokenBatch",
    "TokenMix",
    "TokenStream",
    "Writer",
    "__version__",
    "batch_map",
    "chain",
    "concat",
    "cutmix",
    "debug_batches",
    "doctor",
    "errors",
    "from_hf",
    "from_torchvision",
    "gc",
    "head",
    "index",
    "inspect",
    "inspect_labels",
    "label_smoothing",
    "merge_parts",
    "mix",
    "mix_tokens",
    "mixup",
    "mixup_or_cutmix",
    "normalize_batch",
    "open",
    "pack",
    "pack_tokens",
    "pad_to_longest",
    "pipeline",
    "pixels",
    "query",
    "resizemix",
    "set_memory_guard",
    "set_memory_limit",
    "slot",
    "verify",
    "writer",
]
OF_DATASET = [
    "class_names",
    "classes",
    "column",
    "columns",
    "dry_run",
    "files",
    "filter",
    "is_view",
    "keys",
    "loader",
    "manifest",
    "open_split",
    "pack",
    "pin",
    "pins",
    "rename",
    "repeat",
    "root",
    "roots",
    "schema",
    "select",
    "sort",
    "split",
    "split_by",
    "take",
    "to_arrow",
    "to_hf",
    "to_pandas",
    "to_polars",
    "to_torch",
    "tokens",
    "train_test_split",
    "verified",
    "view",
    "with_key",
]
OF_FRONTS = ["close", "dataset", "finished", "load_state_dict", "options", "report", "state_dict", "stats"]
OF_LOADER = sorted([*OF_FRONTS, "cut", "epoch", "pipeline", "set_epoch"])
OF_STREAM = sorted([*OF_FRONTS, "padding_share", "place", "steps_per_epoch"])
OF_MIX = sorted([*OF_FRONTS, "counts", "datasets", "exhausted", "place", "sources", "weights"])
OF_MIX.remove("dataset")
OF_BATCH = [
    "copy",
    "epoch",
    "get",
    "items",
    "keys",
    "mask",
    "positions",
    "present",
    "rows",
    "sample_keys",
    "source",
    "to",
    "values",
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("public")
    make_folder(root / "photos", {"train/cat": 6, "train/dog": 4, "val/cat": 2})
    pack(PackJob(source=str(root / "photos"), dataset=str(root / "flowers")))
    return root / "flowers"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("public") / "texts"
    token_oracle.write(root, token_oracle.documents(30, 60))
    return root


def public(value: object) -> list[str]:
    """What dir() shows, without Python's own names."""
    return [name for name in dir(value) if not re.fullmatch("__.*__", name)]


def test_names_are_these() -> None:
    assert toolkit.__all__ == PUBLIC == dir(toolkit)
    for name in PUBLIC:
        assert getattr(toolkit, name) is not None, name
    with pytest.raises(AttributeError, match="module 'toolkit' has no attribute 'opne'"):
        _ = toolkit.opne


def test_nothing_else_is_shown_whatever_was_imported() -> None:
    program = """
        import sys, toolkit
        assert "numpy" not in sys.modules
        assert dir(toolkit) == toolkit.__all__
        assert "numpy" not in sys.modules
        assert toolkit.errors.UsageError.__name__ == "UsageError"
        import toolkit.cli.main, toolkit.pack.run
        assert dir(toolkit) == toolkit.__all__
        assert toolkit.torch.Dataset.__module__ == "toolkit.torch"
    """
    subprocess.run([sys.executable, "-c", "\n".join(map(str.strip, program.splitlines()))], check=True, timeout=120)


def test_completion_in_a_terminal_shows_them() -> None:
    complete = rlcompleter.Completer({"toolkit": toolkit}).complete
    found = []
    while (text := complete("toolkit.", len(found))) is not None:
        found.append(text)
    assert [re.sub(r"\(\)?$", "", text) for text in found] == [f"toolkit.{n}" for n in PUBLIC if n[0] != "_"]


def test_help_tells_of_them() -> None:
    text = pydoc.plain(pydoc.render_doc(toolkit))
    said = text[text.index("PACKAGE CONTENTS") :]  # Python lists the folder's rooms by itself
    said = said[said.index("CLASSES") : said.index("\nFILE")]
    shown = set(re.findall(r"^    (?:class )?(\w+)(?:\(.*|$| = .*| -> .*)", said, re.M))
    classes = {name for name in PUBLIC if isinstance(getattr(toolkit, name), type)}
    functions = {name for name in PUBLIC if callable(getattr(toolkit, name))} - classes
    assert classes | functions <= shown
    assert not re.search(r"^    (?:class )?(_HOMES|importlib|TYPE_CHECKING)\b", said, re.M)


def test_objects_show_what_is_public(photos: Path, texts: Path) -> None:
    ds, text = toolkit.open(photos, split="train"), toolkit.open(texts)
    assert public(ds) == OF_DATASET
    loader = ds.loader(batch_size=4)
    assert public(loader) == OF_LOADER
    assert [name for name in dir(next(iter(loader))) if name[0] != "_"] == sorted(OF_BATCH)
    assert public(text.tokens(seq_len=8, batch_size=2)) == OF_STREAM
    mix = toolkit.mix_tokens({"a": text, "b": text}, {"a": 1, "b": 2}, seq_len=8, batch_size=2)
    assert public(mix) == OF_MIX
    shown: list[Any] = [ds, loader, mix, slot("x")]
    for value in shown:
        for name in dir(value):
            assert hasattr(value, name), name
        assert dir(value) == sorted(dir(value))
    assert issubclass(toolkit.Loader, Front)


def test_objects_read_as_what_they_are(photos: Path, texts: Path, tmp_path: Path) -> None:
    ds = toolkit.open(photos, split="train")
    pin = ds.pin[:12]
    assert repr(ds) == f"<toolkit.Dataset train: 10 samples, columns image, label, pin {pin}>"
    assert repr(ds[:4]).startswith(f"<toolkit.Dataset train: 4 samples, columns image, label, pin {pin}, view ")
    five = toolkit.concat([ds] * 5)
    assert f"50 samples, columns image, label, pin {pin}+{pin}+{pin} and 2 more, view " in repr(five)
    pipeline = toolkit.pipeline(slot("image").decode_image().resize((8, 6)))
    assert repr(pipeline) == 'pipeline(\n    slot("image").decode_image().resize((8, 6)),\n)'

    loader = ds.loader(pipeline, batch_size=4, shuffle="full")
    said = "<toolkit.Loader train: 3 batches of 4 an epoch, 10 samples, shuffle full"
    assert repr(loader) == f"{said}, epoch 0, pin {pin}>"
    batch = next(iter(loader))
    assert repr(batch) == "<toolkit.Batch epoch 0, 4 samples: image uint8 (4, 8, 6, 3), label int64 (4,)>"
    assert repr(toolkit.Batch(dict(batch))) == "<toolkit.Batch: image uint8 (4, 8, 6, 3), label int64 (4,)>"
    many = toolkit.Batch({f"c{i}": np.zeros(2) for i in range(14)})
    assert repr(many).endswith("c11 float64 (2,), 2 more>")
    rank = ds.loader(batch_size=2, weights=np.ones(10), rank=1, world_size=2, remainder="drop")
    assert ": 2 batches of 2 an epoch, 10 samples, shuffle weighted, rank 1 of 2, epoch 0, " in repr(rank)
    stored = next(iter(ds.loader(batch_size=4)))
    assert repr(stored) == "<toolkit.Batch epoch 0, 4 samples: image BytesColumn of 4, label int64 (4,)>"

    source = photos.parent / "photos"
    first = toolkit.pack(source / "val", tmp_path / "ds")
    said = f"<toolkit.PackResult {tmp_path / 'ds'}: 2 samples (train 2), 1 shard of "
    assert re.fullmatch(rf"{re.escape(said)}[\d.]+ \w+, pin {first.pin[:12]}>", repr(first))
    (source / "train/cat/x.jpg").write_bytes(b"no picture")
    options: Any = {"on_existing": "append", "extend_classes": True, "key_conflict": "suffix", "max_rejects": 1}
    more = toolkit.pack(source / "train", tmp_path / "ds", **options)
    assert ": 12 samples (train 12), 10 of them new, 1 rejected, 2 shards of " in repr(more)

    text = toolkit.open(texts)
    stream = text.tokens(seq_len=8, batch_size=2)
    steps = stream.steps_per_epoch()
    said = f"<toolkit.TokenStream train, pin {text.pin[:12]}: {steps} steps an epoch of 2 x 8 tokens"
    assert repr(stream) == f"{said}, step 0>"
    next(iter(stream))
    assert repr(stream) == f"{said}, step 1>"
    options = {"seq_len": 8, "batch_size": 2}
    mix = toolkit.mix_tokens({"a": text, "b": text}, {"a": 1, "b": 2.5}, **options)
    assert re.match(r"<toolkit.TokenMix of a \(1\), b \(2.5\): \d+ steps an epoch of 2 x 8 tokens, step 0>", repr(mix))
    endless = toolkit.mix_tokens({f"d{i}": text for i in range(7)}, {f"d{i}": 1 for i in range(7)}, **options)
    assert "d4 (1) and 2 more: " in repr(endless)
    repeated = toolkit.mix_tokens({"a": text}, {"a": 1}, exhausted="repeat", **options)
    assert repr(repeated) == "<toolkit.TokenMix of a (1): steps without end of 2 x 8 tokens, step 0>"


COMMANDS = {
    "verify": toolkit.verify,
    "inspect": toolkit.inspect,
    "gc": toolkit.gc,
    "head": toolkit.head,
    "doctor": toolkit.doctor,
}
# What only says how the command line prints.
OF_PRINTING = {"json", "progress", "quiet", "debug", "labels"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_function_takes_the_options_of_its_command(name: str) -> None:
    command = importlib.import_module(f"toolkit.cli.cmd_{name}")
    flags = inspect.signature(getattr(command, name)).parameters.keys() - OF_PRINTING
    parameters = inspect.signature(COMMANDS[name]).parameters
    assert flags <= parameters.keys()
    for one in parameters.values():
        assert one.name in ("dataset", "system") or one.kind is one.KEYWORD_ONLY
        assert one.annotation not in (one.empty, "Any")
    assert inspect.signature(COMMANDS[name]).return_annotation != inspect.Signature.empty


def test_functions_give_what_the_commands_print(photos: Path, tmp_path: Path) -> None:
    place = shutil.copytree(photos, tmp_path / "flowers")
    result = toolkit.verify(place, full=True, decode=True)
    assert (result.ok, result.samples, result.findings) == (True, 12, ())
    held = toolkit.inspect(place, split="val")
    assert (held.samples, held.labels["label"].top[0].name) == (12, "cat")
    assert toolkit.inspect_labels(place).pin == held.pin
    first = list(toolkit.head(place, split="train", samples=2))
    assert [one.row for one in first] == [0, 1]
    assert first[0].class_names["label"][first[0].values["label"]] == "cat"
    (place / SHARDS / "train-000009-0123456789abcdef.arrow").write_bytes(b"left behind")
    left = toolkit.gc(place)
    assert (left.deleted, left.bytes, len(left.files)) == (False, 11, 1)
    assert toolkit.gc(place, delete=True).deleted
    assert toolkit.gc(place).files == ()
    assert toolkit.doctor().ok
