"""Filters by a user's function: what it is given, what it may return, and results that are stored."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import UserList
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import toolkit
from toolkit.errors import NotFoundError, SampleError, UsageError
from toolkit.loader.dataset import fingerprint, functions, tables

LIMIT = 2


# What was asked. No plain list: a function that changes one isn't the same the next time.
CALLS: UserList[Any] = UserList()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "_MOST_READ", 1)  # few rows are read by the batches that hold them
    monkeypatch.setattr(tables, "RUN_ROWS", 1)  # record batches are read in several runs, of eight rows each
    monkeypatch.setattr(functions, "RUN_ROWS", 1 << 16)  # and given together
    CALLS.clear()
    return tmp_path / "cache"


@pytest.fixture
def ds(tmp_path: Path, commit_rows: Callable[..., str]) -> toolkit.Dataset:
    def rows_of(first: int, rows: int) -> pa.RecordBatch:
        numbers = range(first, first + rows)
        return pa.record_batch(
            {
                "__key__": [f"k{i:02d}" for i in numbers],
                "number": pa.array([None if i % 7 == 3 else i % 5 for i in numbers], pa.int64()),
                "text": pa.array([f"t{i % 3}" for i in numbers]),
            }
        )

    commit_rows(tmp_path / "ds", {"train": [[rows_of(0, 30)], [rows_of(30, 20)]]}, batch_body_bytes=400)
    return toolkit.open(tmp_path / "ds")


def is_large(sample: dict[str, Any]) -> bool:
    CALLS.append(sample)
    return sample["number"] is not None and sample["number"] > LIMIT


def are_large(batch: pa.RecordBatch) -> pa.Array:
    CALLS.append(len(batch))
    return pc.greater(batch["number"], LIMIT)


@pytest.mark.parametrize(
    "view",
    [
        lambda ds: ds,
        lambda ds: ds[::-1],
        lambda ds: ds[40:3:-3],
        lambda ds: ds[[3, 4, 4, 49, 0]],
        lambda ds: ds.repeat(2),
        lambda ds: ds[:0],
        lambda ds: toolkit.concat([ds[45:], ds, ds.filter(pc.field("text") == "t1")]),
        lambda ds: ds.select(["text"]),
    ],
    ids=["whole", "back", "span", "list", "repeat", "empty", "concat", "select"],
)
def test_a_function_chooses_what_an_expression_does(
    ds: toolkit.Dataset, view: Callable[[toolkit.Dataset], toolkit.Dataset]
) -> None:
    one = view(ds)
    wanted = one.filter(pc.field("number") > 2)
    by_sample = one.filter(is_large, ["number"])
    by_batch = one.filter(are_large, columns=["number", "text"], batched=True)
    assert by_sample.keys() == by_batch.keys() == wanted.keys()
    assert by_sample.view == by_batch.view == wanted.view
    assert by_sample.selection.samples == len(wanted)


def test_it_is_asked_once_for_each_sample_in_the_order_of_rows(ds: toolkit.Dataset) -> None:
    view = ds[[30, 5, 5, 30, 2]]
    kept = view.filter(lambda sample: CALLS.append(sample) or sample["__key__"] != "k05", ["__key__", "text"])
    assert kept.keys() == ["k30", "k30", "k02"]
    assert [{"__key__": f"k{i:02d}", "text": f"t{i % 3}"} for i in (2, 5, 30)] == CALLS
    renamed = ds.with_key("id").rename({"text": "word"})
    assert len(renamed.filter(lambda s: s["id"] < "k10" and s["word"] == "t1", ["id", "word"])) == 3


def test_media_come_as_samples_have_them(packed: Path) -> None:
    photos = toolkit.open(packed, split="val")
    sizes = [len(photos[i]["image"]) for i in range(20)]
    limit = int(np.median(sizes))
    columns = ["image", "__image.width__", "label", "__key__"]
    found = photos.filter(lambda s: CALLS.append(list(s)) or (len(s["image"]) > limit and s["label"] == 2), columns)
    assert found.keys() == [photos.keys()[i] for i in range(20) if sizes[i] > limit and photos[i]["label"] == 2]
    assert [columns] * 20 == CALLS
    batched = photos.filter(
        lambda batch: pc.greater(pc.binary_length(pc.struct_field(batch["image"], "bytes")), limit),
        ["image"],
        batched=True,
    )
    assert batched.keys() == [photos.keys()[i] for i in range(20) if sizes[i] > limit]


@pytest.mark.parametrize(
    "answer",
    [
        lambda n: np.arange(n) % 2 == 0,
        lambda n: [i % 2 == 0 for i in range(n)],
        lambda n: pa.array([i % 2 == 0 or None for i in range(n)]),
        lambda n: pa.array([i % 2 == 0 or None for i in range(-11, n)])[11:],
        lambda n: pa.chunked_array([[i % 2 == 0 for i in range(n)]]),
        lambda n: pa.chunked_array([[i % 2 == 0 or None for i in range(n)][part] for part in (slice(5), slice(5, n))]),
        lambda n: pl.Series([i % 2 == 0 for i in range(n)]),
    ],
    ids=["numpy", "list", "arrow", "slice", "chunked", "chunks", "polars"],
)
def test_batched_answers_may_be_of_many_kinds(ds: toolkit.Dataset, answer: Callable[[int], Any]) -> None:
    assert ds.filter(lambda batch: answer(len(batch)), ["text"], batched=True).keys() == ds[::2].keys()


def fails(sample: dict[str, Any]) -> bool:
    return bool(1 / (0 if sample["number"] == 4 else 1))


def test_a_function_that_raises_is_an_error_with_the_sample(ds: toolkit.Dataset) -> None:
    said = r"filter: fails raised ZeroDivisionError \(dataset .*/ds, shard .*, row 4, key 'k04'\): division by zero"
    with pytest.raises(SampleError, match=said) as found:
        ds.filter(fails, ["number"])
    assert isinstance(found.value.__cause__, ZeroDivisionError)
    assert (found.value.row, found.value.key, found.value.step) == (4, "k04", "filter")
    with pytest.raises(SampleError, match=r"key 'k09'"):
        ds[::-1][:45].filter(fails, ["number"])
    with pytest.raises(SampleError, match=r"KeyError.*It is given the columns number"):
        ds.filter(lambda sample: sample["text"] == "t1", ["number"])
    with pytest.raises(SampleError, match=r"raised TypeError for 50 samples, the first is \(dataset"):
        ds.filter(lambda batch: batch["number"] > 2, ["number"], batched=True)

    def interrupted(sample: dict[str, Any]) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ds.filter(interrupted, ["number"])


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ((is_large,), UsageError, "say which columns the function is given"),
        ((is_large, "number"), UsageError, r"list of names of columns: \['number'\]"),
        ((is_large, []), UsageError, "names none"),
        ((is_large, ["numbre"]), NotFoundError, "Did you mean 'number'"),
        ((is_large, ["number", "number"]), UsageError, "2 times"),
        ((is_large, ["__digest__"]), UsageError, "the format's own"),
        ((pc.field("number") == 1, ["number"]), UsageError, "an expression needs none"),
        (
            (lambda sample: sample["number"], ["number"]),
            UsageError,
            "returned 0 for dataset .*must return True or False",
        ),
        ((lambda sample: None, ["number"]), UsageError, "returned None"),
    ],
)
def test_functions_that_can_not_choose(
    ds: toolkit.Dataset, arguments: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        ds.filter(*arguments)


@pytest.mark.parametrize(
    "answer",
    [
        True,
        None,
        np.ones(50),
        np.ones(49, bool),
        np.ones((50, 1), bool),
        ["yes"] * 50,
        pa.array([1] * 50),
        [[True], []],
    ],
    ids=["one", "none", "floats", "fewer", "matrix", "texts", "numbers", "ragged"],
)
def test_batched_answers_that_are_none(ds: toolkit.Dataset, answer: Any) -> None:
    with pytest.raises(UsageError, match="batched, it must return as many bools"):
        ds.filter(lambda batch: answer, ["number"], batched=True)


def files(home: Path) -> list[str]:
    folder = home / "toolkit/filters"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_a_result_is_stored_under_a_version_and_then_nothing_is_read(ds: toolkit.Dataset, home: Path) -> None:
    ds.filter(is_large, ["number"])
    assert files(home) == []
    first = ds.filter(is_large, ["number"], version=1)
    assert len(CALLS) == 100
    assert len(files(home)) == 1
    for shard in ds.files:
        Path(shard).unlink()
    again = toolkit.open(ds.root)
    assert again.filter(is_large, ["number"], version=1).view == first.view
    assert len(CALLS) == 100
    for other in (
        lambda: again.filter(is_large, ["number"], version=2),
        lambda: again.filter(is_large, ["number"], version="1"),
        lambda: again.filter(is_large, ["number", "text"], version=1),
        lambda: again[:30].filter(is_large, ["number"], version=1),
        lambda: again.filter(are_large, ["number"], version=1, batched=True),
    ):
        with pytest.raises(toolkit.errors.CorruptShardError, match="missing"):
            other()


def test_stored_results_serve_views_and_other_processes(ds: toolkit.Dataset, home: Path, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        """
import sys, toolkit
def is_even(sample):
    print("asked", file=sys.stderr)
    return sample["number"] is not None and sample["number"] % 2 == 0
ds = toolkit.open(sys.argv[1])
print(ds[::-1].filter(is_even, columns=["number"], version=1).view)
"""
    )
    done = [
        subprocess.run([sys.executable, script, ds.root], capture_output=True, text=True, check=True, timeout=60)
        for _ in range(2)
    ]
    assert done[0].stdout == done[1].stdout
    assert ["asked" in one.stderr for one in done] == [True, False]
    even = pc.equal(pc.bit_wise_and(pc.field("number"), 1), 0)
    assert done[0].stdout.strip() == ds[::-1].filter(even).view


def test_a_function_that_changed_is_refused(ds: toolkit.Dataset, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds.filter(is_large, ["number"], version=1)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 3)
    with pytest.raises(UsageError, match=r"is_large isn't what it was .* as version 1: .*Give it another version"):
        ds.filter(is_large, ["number"], version=1)
    assert len(ds.filter(is_large, ["number"], version=2)) < len(ds.filter(pc.field("number") > 2))
    monkeypatch.setattr("toolkit.loader.dataset.kept.python_name", lambda: "cpython-3.99")  # bytecode is another there
    assert ds.filter(is_large, ["number"], version=1).keys() == ds.filter(pc.field("number") > 2).keys()


@pytest.mark.parametrize(
    ("function", "version", "says"),
    [
        (lambda sample: True, 1, "a lambda, partial or object has none"),
        (functools.partial(is_large), 1, "a lambda, partial or object has none"),
        ({}.get, 1, "a lambda, partial or object has none"),
        (is_large, True, "version must be a number or a text"),
        (is_large, 1.5, "version must be a number or a text"),
    ],
)
def test_what_can_not_be_stored(ds: toolkit.Dataset, function: Any, version: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ds.filter(function, ["number"], version=version)


def test_a_cache_that_can_not_be_written_is_a_warning(ds: toolkit.Dataset, home: Path) -> None:
    home.write_bytes(b"in its place")
    with pytest.warns(RuntimeWarning, match="the result of .*is_large isn't stored"):
        view = ds.filter(is_large, ["number"], version=1)
    assert view.view == ds.filter(pc.field("number") > 2).view


@pytest.mark.parametrize("held", [b"", b"\n", b"[]\n", b"{}\n" + bytes(7), b"not json\n" + bytes(7)])
def test_a_stored_result_that_is_none_is_made_again(ds: toolkit.Dataset, home: Path, held: bytes) -> None:
    from toolkit.storage.user_cache import UserCache

    ds.filter(is_large, ["number"], version=1)
    (name,) = files(home)
    UserCache("filters", 10, 1 << 20).write(name, held)
    assert ds.filter(is_large, ["number"], version=1).view == ds.filter(pc.field("number") > 2).view
    assert len(CALLS) == 100


def made(source: str) -> Any:
    """A function of a module of its own."""
    module: dict[str, Any] = {"__name__": "made"}
    exec(source, module)
    return module["f"]


def test_code_is_told_apart_by_what_it_does() -> None:
    plain = "def f(x):\n    return x['a'] > 1\n"
    alike = [
        plain,
        "\n\n" + plain,
        "def f(x):\n    'What it does.'\n    return x['a'] > 1\n",
        "N = 5\n" + plain,
    ]
    different = [
        "def f(x):\n    return x['a'] > 2\n",
        "def f(x):\n    return x['b'] > 1\n",
        "def f(x, y=1):\n    return x['a'] > y\n",
        "def f(x, y=2):\n    return x['a'] > y\n",
        "N = 1\ndef f(x):\n    return x['a'] > N\n",
        "N = 2\ndef f(x):\n    return x['a'] > N\n",
        "def g(x): return x['a'] > 1\ndef f(x):\n    return g(x)\n",
        "def g(x): return x['a'] > 2\ndef f(x):\n    return g(x)\n",
        "def f(x):\n    return x['a'] in {'p', 'q'}\n",
        "def f(x):\n    return x['a'] in {'p', 'r'}\n",
        "def f(x):\n    return any(y > 1 for y in x['a'])\n",
        "def f(x):\n    return any(y > 2 for y in x['a'])\n",
        "def make(n):\n    def f(x): return x['a'] > n\n    return f\nf = make(1)\n",
        "def make(n):\n    def f(x): return x['a'] > n\n    return f\nf = make(2)\n",
        "N = {'a': [1, {2}]}\ndef f(x): return x['a'] in N\n",
        "N = {'a': [1, {3}]}\ndef f(x): return x['a'] in N\n",
        "def f(x): return f(x)\n",
    ]
    assert len({fingerprint.code_hash(made(source)) for source in alike}) == 1
    hashes = [fingerprint.code_hash(made(source)) for source in [alike[0], *different]]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nN = np.float32(LOOK)\ndef f(x): return x > N\n",
        "import numpy as np\nN = np.arange(LOOK)\ndef f(x): return x in N\n",
        "import re\nN = re.compile('LOOK')\ndef f(x): return N.match(x)\n",
        "import datetime\nN = datetime.date(2020, 1, LOOK)\ndef f(x): return x > N\n",
        "from decimal import Decimal\nN = Decimal('LOOK')\ndef f(x): return x > N\n",
        "from pathlib import Path\nN = Path('/LOOK')\ndef f(x): return N.exists()\n",
        "N = range(LOOK)\ndef f(x): return x in N\n",
        "from collections import Counter\nN = Counter(a=LOOK)\ndef f(x): return N[x]\n",
        "from collections import namedtuple\nT = namedtuple('T', 'a')\nN = T(LOOK)\ndef f(x): return x > N.a\n",
        "class N(str): pass\nM = N('LOOK')\ndef f(x): return x == M\n",
        "import enum\nclass E(enum.Enum):\n    A = LOOK\ndef f(x): return x > E.A.value\n",
        "class C:\n    n = LOOK\ndef f(x): return x > C.n\n",
        "class C:\n    def g(self, x): return x > LOOK\ndef f(x): return C().g(x)\n",
        "class C:\n    def __init__(self, n): self.n = n\nc = C(LOOK)\ndef f(x): return x > c.n\n",
        "class C(int):\n    def g(self, x): return x > self\ng = C(LOOK).g\ndef f(x): return g(x)\n",
        "import functools\n@functools.cache\ndef g(x): return x > LOOK\ndef f(x): return g(x)\n",
        "import functools\ndef h(n, x): return x > n\ng = functools.partial(h, LOOK)\ndef f(x): return g(x)\n",
        "N = [lambda x: x > LOOK]\ndef f(x): return all(g(x) for g in N)\n",
        "N = (min, max)[LOOK - 1]\ndef f(x): return N(x)\n",
    ],
)
def test_a_change_of_what_a_function_uses_is_seen(source: str) -> None:
    first, again, other = (fingerprint.code_hash(made(source.replace("LOOK", number))) for number in "112")
    assert first == again
    assert first != other


def test_what_other_programs_change_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from os import environ\ndef f(x): return x in environ\n"
    before = fingerprint.code_hash(made(source))
    monkeypatch.setenv("ANOTHER", "1")
    assert fingerprint.code_hash(made(source)) == before


def test_objects_that_know_each_other_are_seen_once() -> None:
    source = (
        "class N:\n    pass\n"
        "N.all = nodes = [N() for _ in range(30)]\n"
        "for node in nodes:\n    node.others = nodes\n"
        "def f(x): return nodes[0]\n"
    )
    assert fingerprint.code_hash(made(source)) == fingerprint.code_hash(made(source))


def test_code_hashes_are_the_same_in_every_process() -> None:
    program = (
        "from toolkit.loader.dataset.fingerprint import code_hash\n"
        "WORDS = {'a', 'b', 'c', 'd'}\n"
        "class C:\n    words = WORDS\n    def g(self): return self.words\n"
        "c = C()\n"
        "def f(x): return c.g() or x in WORDS or x in {'p', 'q', 'r', 's'} or any(y is None for y in x)\n"
        "print(code_hash(f))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(said) == 1
