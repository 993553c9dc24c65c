"""What the functions over datasets are called with is checked before anything is done, and each keyword named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import program

import toolkit
from toolkit.checks.bench.bench import BenchOptions
from toolkit.errors import NotFoundError, UsageError

HUGE = 10**5000


@pytest.mark.parametrize(
    ("name", "keywords", "says"),
    [
        ("gc", {"delete": "no"}, "delete: expected true or false, got 'no'"),
        ("gc", {"delete": 1}, "delete: expected true or false, got 1"),
        ("gc", {"delete": None}, "delete: expected true or false, got nothing"),
        ("gc", {"keep": 5}, "keep: expected a list of texts"),
        ("gc", {"keep": None}, "keep: expected a list of texts"),
        ("gc", {"keep": [b"0" * 12]}, r"keep\[0\]: expected text"),
        ("verify", {"full": 1}, "full: expected true or false, got 1"),
        ("verify", {"decode": "yes"}, "decode: expected true or false"),
        ("verify", {"max_pixels": 0}, "max_pixels: expected a whole number of at least 1, got 0"),
        ("verify", {"max_pixels": "12"}, "max_pixels: expected a whole number of at least 1"),
        ("verify", {"max_pixels": HUGE}, "max_pixels: expected a number of at most 18 digits"),
        ("verify", {"jobs": 0}, "jobs: expected a whole number of at least 1, or auto, got 0"),
        ("verify", {"jobs": True}, "jobs: expected a whole number"),
        ("verify", {"jobs": HUGE}, "jobs: expected a number of at most 18 digits"),
        ("verify", {"progress": 5}, "progress: expected a function, got 5"),
        ("inspect", {"samples": -1}, "samples: expected a whole number of at least 0, got -1"),
        ("inspect", {"samples": 1.5}, "samples: expected a whole number"),
        ("inspect", {"scan": None}, "scan: expected a whole number of at least 0, got nothing"),
        ("inspect", {"split": 5}, "split: expected text, got 5"),
        ("inspect_labels", {"split": 5}, "split: expected text, got 5"),
        ("head", {"samples": "5"}, "samples: expected a whole number of at least 0, got '5'"),
        ("head", {"split": ["train"]}, "split: expected text, got a list"),
    ],
)
def test_a_keyword_that_can_not_be_is_named(dataset: Path, name: str, keywords: dict[str, Any], says: str) -> None:
    function: Callable[..., object] = getattr(toolkit, name)
    with pytest.raises(UsageError, match=f"^{says}"):
        function(dataset, **keywords)


@pytest.mark.parametrize("name", ["gc", "head", "inspect", "inspect_labels", "open", "verify"])
def test_a_dataset_is_a_path(dataset: Path, name: str) -> None:
    function: Callable[..., object] = getattr(toolkit, name)
    for wrong in (None, 5, b"flowers", toolkit.open(dataset, split="val"), HUGE):
        with pytest.raises(UsageError, match=r"^a dataset is a path, or PATH@sha256:PIN; got "):
            function(wrong)


@pytest.mark.parametrize(
    ("keywords", "says"),
    [
        ({"repeats": 0}, "repeats: expected a whole number of at least 1, got 0"),
        ({"batch_size": "64"}, "batch_size: expected a whole number"),
        ({"decode": 1}, "decode: expected true or false"),
        ({"threads": ()}, "threads: expected a list of counts"),
        ({"threads": (0,)}, "threads: expected a whole number of at least 1, got 0"),
        ({"threads": 2}, "threads: expected a list of counts"),
        ({"split": 5}, "split: expected text"),
        ({"columns": "image"}, "columns: expected a list of texts"),
    ],
)
def test_what_a_benchmark_can_not_be_told(keywords: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=f"^{says}"):
        BenchOptions(**keywords)


def test_jobs_are_a_flag_too(dataset: Path) -> None:
    assert program("verify", dataset, "--jobs", "1").code == 0
    assert program("verify", dataset, "-j", "auto").code == 0
    assert program("verify", dataset, "--jobs", "0").code == 2
    assert toolkit.verify(dataset, jobs=1).ok


def test_gc_looks_at_a_whole_dataset(dataset: Path) -> None:
    pin = toolkit.open(dataset, split="val").pin
    before = sorted(dataset.parent.iterdir())
    for one in (f"{dataset}@sha256:{pin[:12]}", dataset / "manifest.json", dataset / "manifests" / f"{pin}.json"):
        with pytest.raises(UsageError, match=r"is one version, and gc looks at all: .* --keep takes pins"):
            toolkit.gc(one)
    assert program("gc", f"{dataset}@sha256:{pin[:12]}").code == 2
    assert sorted(dataset.parent.iterdir()) == before
    with pytest.raises(NotFoundError):
        toolkit.gc(dataset.parent / "nowhere")


def test_one_pin_may_be_a_text(dataset: Path) -> None:
    pin = toolkit.open(dataset, split="val").pin
    assert toolkit.gc(dataset, keep=pin).kept == (pin,)
    assert toolkit.gc(dataset, keep=pin[:12]).kept == (pin,)
