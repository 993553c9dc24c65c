"""What every output must do: a class of tests that each output's tests inherit."""

from __future__ import annotations

import gc
import pickle
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import token_oracle

import toolkit
from toolkit import slot
from toolkit.errors import UsageError
from toolkit.loader.direct import DirectReader
from toolkit.loader.outputs import registry
from toolkit.loader.outputs.spec import OutputSpec

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
PIXELS = toolkit.pipeline(slot("image").decode_image().resize((16, 16)))


class OutputContract:
    """A subclass names the output, says what its arrays are, and how they are read; the fixture `packed` is needed.

    Attributes:
        name: Of the output.
        narrows: The dtypes that it makes others of.
        shares: Whether arrays lie in the memory that the loader filled.
    """

    name: str
    narrows: ClassVar[dict[str, str]] = {}
    shares = True

    def kind(self) -> type:
        """The type of its arrays."""
        raise NotImplementedError

    def numbers(self, made: Any, dtype: str) -> np.ndarray:
        """An array as numpy's; bfloat16 as the uint16 that it is stored in."""
        return np.asarray(made)

    def part(self, made: Any) -> Any:
        """Part of an array, in the same memory."""
        return made[1:]

    @property
    def spec(self) -> OutputSpec:
        return registry.named(self.name)

    def loader(self, ds: toolkit.Dataset, *args: Any, **options: Any) -> toolkit.Loader:
        return ds.loader(*args, **{"batch_size": 4, "threads": 1, "output": self.name, **options})

    def same(self, made: Any, wanted: np.ndarray, dtype: str = "") -> None:
        dtype = dtype or wanted.dtype.str[1:]
        assert isinstance(made, self.kind()), dtype
        found = self.numbers(made, dtype)
        narrowed = np.dtype(self.narrows.get(dtype, wanted.dtype))
        assert (found.dtype, found.shape) == (narrowed, wanted.shape), dtype
        assert np.array_equal(found, wanted.astype(narrowed)), dtype

    def test_it_is_found_by_its_name(self) -> None:
        assert self.name in registry.known_names()
        assert self.spec is registry.named(self.name)
        assert self.spec.name == self.name
        assert not self.spec.package or self.spec.install.startswith("pip install ")
        assert self.spec.options.keys() <= {"device", "sharding"}

    def test_a_package_that_is_missing_is_said_with_its_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if not self.spec.package:
            pytest.skip("it needs none")
        spec = self.spec
        monkeypatch.setitem(sys.modules, spec.package, None)
        for module in [module for module in sys.modules if module.startswith(type(spec).__module__[: -len("spec")])]:
            if module != type(spec).__module__:
                monkeypatch.delitem(sys.modules, module)
        said = re.escape(f"output={self.name!r} needs {spec.package}, which is missing: {spec.install}")
        for make in (spec.converter, spec.arrays, spec.rows, spec.ready):
            with pytest.raises(UsageError, match=said):
                make()

    def test_numbers_of_every_dtype(self) -> None:
        convert = self.spec.converter()
        for dtype in NUMBERS:
            for shape in ((2, 3), (6,), (1, 1, 6), (0, 3), (1, 0)):
                wanted = np.arange(6)[: np.prod(shape)].reshape(shape).astype(dtype)
                self.same(convert(wanted.copy()), wanted)

    def test_bfloat16_is_what_it_means(self) -> None:
        stored = np.array([0x3F80, 0xC020, 0x7F80, 0x0000], np.uint16)  # 1, -2.5, infinity, 0
        self.same(self.spec.converter()(stored.copy(), "bfloat16"), stored, "bfloat16")

    def test_lists_stay_lists_of_arrays(self) -> None:
        arrays = [np.arange(3, dtype=np.float32), np.arange(4, dtype=np.uint8).reshape(2, 2)]
        made = self.spec.converter()([arrays[0], (arrays[1], "text"), {"a": [arrays[0]]}, None, b"bytes", 7])
        self.same(made[0], arrays[0])
        self.same(made[1][0], arrays[1])
        self.same(made[2]["a"][0], arrays[0])
        assert made[1][1:] == ("text",)
        assert made[3:] == [None, b"bytes", 7]

    def test_batches_are_numpys(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val")
        wide = toolkit.pipeline(slot("image").decode_image().resize((16, 16)).normalize("half"))
        half = toolkit.pipeline(slot("image").decode_image().resize((16, 16)).normalize("half").cast("bfloat16"))
        for steps, dtype in ((PIXELS, ""), (wide, ""), (half, "bfloat16")):
            options = {"shuffle": "full", "seed": 3, "batch_size": 8, "remainder": "pad"}
            wanted = list(ds.loader(steps, **options))
            made = list(self.loader(ds, steps, **options))
            assert len(made) == len(wanted)
            for batch, plain in zip(made, wanted, strict=True):
                assert list(batch) == list(plain)
                self.same(batch["image"], plain["image"], dtype)
                self.same(batch["label"], plain["label"])
                assert np.array_equal(batch.positions, plain.positions)
                assert np.asarray(batch.mask).tolist() == plain.mask.tolist()
                assert batch.sample_keys == plain.sample_keys
                assert repr(batch).startswith(f"<toolkit.Batch epoch 0, {len(plain.positions)} samples: image ")

    def test_columns_that_come_as_lists(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val")
        ragged = toolkit.pipeline(slot("image").decode_image())
        batch, plain = next(iter(self.loader(ds, ragged))), next(iter(ds.loader(ragged, batch_size=4)))
        assert isinstance(plain["image"], list)
        for made, wanted in zip(batch["image"], plain["image"], strict=True):
            self.same(made, wanted)
        encoded = next(iter(self.loader(ds)))["image"]
        assert [bytes(one) for one in encoded] == [bytes(one) for one in next(iter(ds.loader(batch_size=4)))["image"]]

    def test_a_view_keeps_its_memory_and_the_budget_gets_it_back(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="train")
        wanted = next(iter(ds.loader(PIXELS, batch_size=4)))["image"][1:]
        loader = self.loader(ds, PIXELS, epochs=2)
        batches = iter(loader)
        held = self.part(next(batches)["image"])
        for batch in batches:  # blocks that come back are filled again
            del batch
        loader.close()
        self.collect()
        found = self.numbers(held, "u1")
        assert np.array_equal(found if found.shape == wanted.shape else found[1:], wanted)
        assert (loader.stats()["budget_bytes"] > 0) == self.shares
        del held, found
        self.collect()
        assert loader.stats()["budget_bytes"] == 0

    def test_a_loader_is_closed_while_its_batches_are_in_use(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="train")
        wanted = [batch["image"] for batch in ds.loader(PIXELS, batch_size=4, epochs=2)]
        loader = self.loader(ds, PIXELS, prefetch=3, threads=2, epochs=2)
        batches = iter(loader)
        held = [next(batches)["image"] for _ in range(3)]
        loader.close()
        del batches
        list(self.loader(ds, PIXELS, shuffle="full"))
        for made, plain in zip(held, wanted, strict=False):
            self.same(made, plain)

    def test_a_loader_pickles_with_its_output(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val")
        again = pickle.loads(pickle.dumps(self.loader(ds, PIXELS)))
        self.same(next(iter(again))["image"], next(iter(ds.loader(PIXELS, batch_size=4)))["image"])

    def test_placement_that_it_does_not_take_is_refused(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val", columns=["label"])
        for option in {"device", "sharding"} - self.spec.options.keys():
            if option == "sharding" and self.name == registry.DEFAULT:
                continue  # which alone says what is wanted
            taker = next(one.name for one in registry.every() if option in one.options)
            with pytest.raises(UsageError, match=f"{option}=.*say output='{taker}'"):
                self.loader(ds, **{option: object()})
            if option == "sharding":
                with pytest.raises(UsageError, match=f"sharding=.*say output='{taker}'"):
                    ds.tokens(seq_len=8, batch_size=2, output=self.name, sharding=object())

    def test_rows_that_are_read_directly_are_numpys(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val")
        made, plain = (DirectReader(ds, PIXELS, 0, output).read([3, -1, 0], 0) for output in (self.name, "numpy"))
        assert list(made) == list(plain)
        for name in plain:
            self.same(made[name], plain[name])

    def test_rows_of_a_token_stream_are_numpys(self, tmp_path: Path) -> None:
        token_oracle.write(tmp_path / "ds", token_oracle.documents(30, 60))
        ds = toolkit.open(tmp_path / "ds")
        for dtype in ("int32", "int64", "uint16", "uint32"):
            options = {"seq_len": 32, "batch_size": 4, "documents": True, "dtype": dtype, "targets": dtype[0] == "i"}
            wanted = list(ds.tokens(**options, shuffle="block"))
            made = list(ds.tokens(**options, shuffle="block", output=self.name))
            assert len(made) == len(wanted) > 2
            for batch, plain in zip(made, wanted, strict=True):
                assert list(batch) == list(plain)
                for name in plain:
                    self.same(batch[name], plain[name])
                self.same(batch.mask, plain.mask)
                assert batch.place == plain.place
                assert repr(batch) == repr(plain)

    def test_rows_of_a_mix_are_numpys(self, tmp_path: Path) -> None:
        token_oracle.write(tmp_path / "ds", token_oracle.documents(30, 60))
        ds = toolkit.open(tmp_path / "ds")
        options = {"seq_len": 32, "batch_size": 4, "total_steps": 3}
        wanted = toolkit.mix_tokens({"a": ds, "b": ds}, {"a": 1, "b": 2}, **options)
        made = toolkit.mix_tokens({"a": ds, "b": ds}, {"a": 1, "b": 2}, **options, output=self.name)
        for batch, plain in zip(made, wanted, strict=True):
            self.same(batch["tokens"], plain["tokens"])
            assert made.sources(batch) == wanted.sources(plain)

    def test_an_adapter_that_makes_the_same(self, packed: Path) -> None:
        ds = toolkit.open(packed, split="val")
        convert = self.spec.converter()
        made = next(iter(self.loader(ds, PIXELS, output=lambda batch: convert(batch["image"]))))
        self.same(made, next(iter(ds.loader(PIXELS, batch_size=4)))["image"])

    def test_a_benchmark_waits_for_its_arrays(self) -> None:
        self.spec.ready()([self.spec.converter()(np.arange(3))])

    def collect(self) -> None:
        gc.collect()
        self.spec.collector()()


class ListsContract(OutputContract):
    """What an output `lists` must do, wherever it comes from: arrays as lists of lists of Python's own numbers."""

    name = "lists"
    shares = False

    def kind(self) -> type:
        return list

    def numbers(self, made: Any, dtype: str) -> np.ndarray:
        return np.array(made)

    def same(self, made: Any, wanted: np.ndarray, dtype: str = "") -> None:
        assert made == wanted.tolist()
