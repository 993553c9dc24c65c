"""Packing tokens: texts, bytes and ids in, the same ids out, the same pin whatever --jobs, and clear refusals."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import toolkit
from toolkit import pack_tokens
from toolkit.checks.verify import verify
from toolkit.errors import ExistsError, NotFoundError, RejectsError, SourceError, UsageError
from toolkit.format.schema import TokenEncoding, token_column, token_type
from toolkit.loader.tokens.run import OpenRun
from toolkit.pack.job import KeyConflict, OnExisting, PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.pack.versions import versions
from toolkit.sources.base import Rows, Slice, Source, Survey
from toolkit.sources.tokenizer import parse_tokenizer

TEXTS = ["the cat sat on the mat", "", "héllo wörld 🐈", "a b c " * 50, "the end"]


def job(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), **{"tokenizer": "bytes", "eos": True, **options}))


def stored(dataset: Path) -> list[list[int]]:
    ds = toolkit.open(dataset)
    return [ds[i]["tokens"] for i in range(len(ds))]


def as_bytes(texts: list[str]) -> list[list[int]]:
    return [[*text.encode(), 256] if text else [] for text in texts]


def jsonl(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE tokenizer, trained on a few words, with an end-of-text token."""
    tokenizers = pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|endoftext|>", "<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(TEXTS * 20, trainer)
    made.enable_truncation(3)  # what a model's input needs, and a dataset must not have
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


# --- sources -----------------------------------------------------------------------------------------------------


def test_every_kind_of_text_becomes_the_same_tokens(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", TEXTS)
    pq.write_table(pa.table({"n": range(5), "text": TEXTS}), tmp_path / "a.parquet")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for number, text in enumerate(TEXTS):
            for name, data in ((f"{number}.txt", text.encode()), (f"{number}.json", b"{}")):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    for name, options in (("a.jsonl", {}), ("a.parquet", {}), ("a.tar", {"text_column": "txt"})):
        result = job(tmp_path / name, tmp_path / f"{name}.ds", **options)
        assert result.samples == 5
        assert stored(tmp_path / f"{name}.ds") == as_bytes(TEXTS)
        ds = toolkit.open(tmp_path / f"{name}.ds")
        assert [column.name for column in ds.columns] == ["tokens"]
        assert ds.index.tokens == sum(map(len, as_bytes(TEXTS)))
        assert not verify(str(tmp_path / f"{name}.ds"), full=True).findings


def test_texts_that_are_missing_are_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", None, "b"]}), tmp_path / "a.parquet")
    with pytest.raises(RejectsError, match="its text is missing"):
        job(tmp_path / "a.parquet", tmp_path / "ds")
    assert job(tmp_path / "a.parquet", tmp_path / "ds", max_rejects=1).rejects[0].key == "a.parquet#1"
    assert stored(tmp_path / "ds") == as_bytes(["a", "b"])


def test_sources_without_text(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(3)}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="'text', which the input hasn't"):
        job(tmp_path / "a.parquet", tmp_path / "ds")
    with pytest.raises(UsageError, match="--text-column n: its values are scalar, not text"):
        job(tmp_path / "a.parquet", tmp_path / "ds", text_column="n")
    assert not (tmp_path / "ds").exists()


def test_several_inputs_are_one_dataset_and_jobs_do_not_matter(tmp_path: Path) -> None:
    for number in range(6):
        jsonl(tmp_path / f"{number}.jsonl", [f"{number} {i} " * 2000 for i in range(10)])
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(6)]
    pins = {
        pack(
            PackJob(
                source=paths[0],
                more_sources=tuple(paths[1:]),
                dataset=str(tmp_path / f"ds{jobs}"),
                tokenizer="bytes",
                shard_size=70_000,
                jobs=jobs,
            )
        ).pin
        for jobs in (1, 3)
    }
    assert len(pins) == 1
    assert toolkit.open(tmp_path / "ds1").index.shards > 6


# --- tokenizers --------------------------------------------------------------------------------------------------


def test_shuffled_tokens_are_the_same_documents(tmp_path: Path) -> None:
    texts = [f"document {i} " * (i % 40) for i in range(400)]
    source = jsonl(tmp_path / "a.jsonl", texts)
    done = [job(source, tmp_path / f"ds{jobs}", shuffle_seed=7, jobs=jobs, shard_size=64 * 1024).pin for jobs in (1, 3)]
    assert done[0] == done[1]
    assert stored(tmp_path / "ds1") != as_bytes(texts)
    assert sorted(stored(tmp_path / "ds1")) == sorted(as_bytes(texts))
    assert not verify(str(tmp_path / "ds1"), full=True).findings
    windows = [batch["tokens"] for batch in toolkit.open(tmp_path / "ds1").tokens(seq_len=100, batch_size=1)]
    run = [token for document in stored(tmp_path / "ds1") for token in document]
    assert np.concatenate(windows, axis=1)[0, : len(run)].tolist() == run


def test_equal_keys_of_several_inputs_are_renamed(tmp_path: Path) -> None:
    sources = []
    for folder in "ab":
        path = tmp_path / f"{folder}.jsonl"
        path.write_text(json.dumps({"id": "same", "text": folder}) + "\n")
        sources.append(str(path))
    done = job(Path(sources[0]), tmp_path / "ds", more_sources=(sources[1],), key="id", key_conflict=KeyConflict.SUFFIX)
    assert done.renamed == 1
    assert toolkit.open(tmp_path / "ds").keys() == ["same", "same#1"]
    assert stored(tmp_path / "ds") == as_bytes(["a", "b"])


def test_a_tokenizer_file(tmp_path: Path, tokenizer: Path) -> None:
    from tokenizers import Tokenizer

    jsonl(tmp_path / "a.jsonl", TEXTS)
    job(tmp_path / "a.jsonl", tmp_path / "ds", tokenizer=str(tokenizer))
    loaded = Tokenizer.from_file(str(tokenizer))
    loaded.no_truncation()
    end = loaded.token_to_id("<|endoftext|>")
    assert stored(tmp_path / "ds") == [[*loaded.encode(text).ids, end] if text else [] for text in TEXTS]
    ds = toolkit.open(tmp_path / "ds")
    encoding = ds.columns[0].tokens
    assert encoding is not None
    assert encoding.tokenizer == hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    assert (encoding.vocabulary, encoding.eos) == (loaded.get_vocab_size(), end)
    own = OpenRun(ds).tokenizer()
    assert own is not None
    assert own.decode(ds[2]["tokens"][:-1]) == TEXTS[2]
    ds.tokens(seq_len=4, batch_size=1, tokenizer=tokenizer).close()
    with pytest.raises(UsageError, match="its ids mean other things"):
        ds.tokens(seq_len=4, batch_size=1, tokenizer="bytes")
    again = job(tmp_path / "a.jsonl", tmp_path / "ds2", tokenizer=str(tokenizer))
    assert again.pin == ds.pin


def test_the_tokenizer_library_is_a_version_that_ids_depend_on(tokenizer: Path) -> None:
    plain = PackJob(source="s", dataset="d")
    assert "tokenizers" not in versions(plain)
    assert "tokenizers" not in versions(replace(plain, tokenizer="bytes"))
    assert versions(replace(plain, tokenizer=str(tokenizer)))["tokenizers"] == metadata.version("tokenizers")


def test_end_of_text_tokens(tmp_path: Path, tokenizer: Path) -> None:
    jsonl(tmp_path / "a.jsonl", ["the cat"])
    options: dict[str, Any] = {"tokenizer": str(tokenizer), "eos": False}
    with pytest.raises(
        UsageError, match=r"'<\|endoftxt\|>' is no token of the tokenizer, but \d+ of them.*Did you mean"
    ):
        job(tmp_path / "a.jsonl", tmp_path / "ds", eos_token="<|endoftxt|>", **options)
    job(tmp_path / "a.jsonl", tmp_path / "ds", eos_token="<pad>", **options)
    assert toolkit.open(tmp_path / "ds").columns[0].tokens.eos == 1  # type: ignore[union-attr]
    job(tmp_path / "a.jsonl", tmp_path / "none", **options)
    assert stored(tmp_path / "none") == [one[:-1] for one in stored(tmp_path / "ds")]


def test_tokenizers_that_are_none(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", ["the cat"])
    with pytest.raises(NotFoundError, match=r"Did you mean 'bytes'.*Nothing is downloaded"):
        job(tmp_path / "a.jsonl", tmp_path / "ds", tokenizer="byte")
    (tmp_path / "t.json").write_text("{}")
    pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    with pytest.raises(SourceError, match=r"is no tokenizer\.json"):
        job(tmp_path / "a.jsonl", tmp_path / "ds", tokenizer=str(tmp_path / "t.json"))


def test_a_panic_of_the_package_is_an_error(tmp_path: Path) -> None:
    """It is a BaseException, and ended commands as an unexpected one."""
    pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    jsonl(tmp_path / "a.jsonl", ["the cat"])
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"], "continuing_subword_prefix": "##"}
    (tmp_path / "t.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": model}))
    with pytest.raises(SourceError, match=r"t\.json' is no tokenizer\.json"):
        job(tmp_path / "a.jsonl", tmp_path / "ds", tokenizer=str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    "decoder",
    [
        {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "o"}, "content": "o" * 999}] * 4},
        {"type": "Replace", "pattern": {"Regex": "(x+x+)+y"}, "content": ""},
        {"type": "Sequence", "decoders": [{"type": "BPEDecoder", "suffix": ""}] * 60},
    ],
    ids=["growing", "regex", "doubling"],
)
def test_a_decoder_without_bounds_is_not_run(decoder: dict[str, object]) -> None:
    """Of the first, `toolkit inspect` made 10^12 bytes out of a token, until the system ended it."""
    pytest.importorskip("tokenizers", reason="pip install 'toolkit[tokens]'")
    model = {"type": "WordLevel", "vocab": {"o": 0, "x" * 40: 1}, "unk_token": "o"}
    file = json.dumps({"version": "1.0", "added_tokens": [], "decoder": decoder, "model": model}).encode()
    encoding = TokenEncoding(vocabulary=2, tokenizer=hashlib.sha256(file).hexdigest())
    assert parse_tokenizer(encoding, file) is None
    plain = json.dumps({"version": "1.0", "added_tokens": [], "model": model}).encode()
    known = parse_tokenizer(encoding, plain)
    assert known is not None
    assert known.decode([0, 0]) == "o o"


def test_append_needs_the_same_tokenizer(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", ["one"])
    jsonl(tmp_path / "b.jsonl", ["two"])
    job(tmp_path / "a.jsonl", tmp_path / "ds")
    with pytest.raises(UsageError, match="its ids would mean other things"):
        job(tmp_path / "b.jsonl", tmp_path / "ds", eos=False, on_existing=OnExisting.APPEND)
    job(tmp_path / "b.jsonl", tmp_path / "ds", on_existing=OnExisting.APPEND)
    assert stored(tmp_path / "ds") == as_bytes(["one", "two"])
    assert not verify(str(tmp_path / "ds"), full=True).findings


# --- documents of a program --------------------------------------------------------------------------------------


def test_documents_of_every_form(tmp_path: Path) -> None:
    documents = ["né", b"\xff\x00", [1, 2], np.array([3, 256], np.int64), [], ""]
    pack_tokens(documents, tmp_path / "ds", tokenizer="bytes", eos=True, key_prefix="doc-")  # type: ignore[arg-type]
    assert stored(tmp_path / "ds") == [[*"né".encode(), 256], [255, 0, 256], [1, 2, 256], [3, 256, 256], [], []]
    assert toolkit.open(tmp_path / "ds").keys() == [f"doc-{i}" for i in range(6)]


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_536, pa.uint16()), (65_537, pa.uint32())])
def test_the_smallest_type_that_holds_the_vocabulary(tmp_path: Path, vocabulary: int, dtype: pa.DataType) -> None:
    pack_tokens([[0, vocabulary - 1]], tmp_path / "ds", vocabulary=vocabulary)
    ds = toolkit.open(tmp_path / "ds")
    assert ds.schema.field("tokens").type.value_type == dtype
    assert ds[0]["tokens"] == [0, vocabulary - 1]
    batch = next(iter(ds.tokens(seq_len=2, batch_size=1, dtype="uint32")))
    assert batch["tokens"].tolist() == [[0, vocabulary - 1]]
    if vocabulary > 65_536:
        with pytest.raises(UsageError, match="ids up to 65536 don't fit uint16"):
            ds.tokens(seq_len=2, batch_size=1, dtype="uint16")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([5, 10], "document 1 has the id 10, and the vocabulary ends below 10"),
        ([-1], "document 1 has the id -1"),
        (np.zeros((2, 2), np.int64), "an array of int64 in 2 dimensions"),
        (np.zeros(2), "an array of float64"),
        ("text", "document 1 is str: texts need tokenizer="),
    ],
)
def test_documents_that_are_none(tmp_path: Path, document: Any, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        pack_tokens([[1], document], tmp_path / "ds", vocabulary=10)
    assert not (tmp_path / "ds").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "say what ids there are"),
        ({"vocabulary": 0}, "vocabulary must be 1 to"),
        ({"vocabulary": 10, "eos": 10}, "no id below the vocabulary"),
        ({"vocabulary": 10, "eos": True}, "there is no tokenizer"),
        ({"vocabulary": 10, "tokenizer": "bytes"}, "the tokenizer's own"),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pack_tokens([[1]], tmp_path / "ds", **options)


_KILLED = """
import os, signal, sys
from toolkit import pack_tokens

dataset, at = sys.argv[1:]
real, calls = os.replace, 0

def replace(*args, **kwargs):
    global calls
    calls += 1
    if calls == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)

os.replace = replace
pack_tokens([[1, 2]], dataset, vocabulary=10)
"""


def test_what_a_killed_pack_had_done_is_not_taken_for_other_documents(tmp_path: Path) -> None:
    killed = 0
    for at in range(1, 20):
        dataset = tmp_path / f"ds{at}"
        code = subprocess.run([sys.executable, "-c", _KILLED, str(dataset), str(at)], timeout=60).returncode
        assert code in (0, -signal.SIGKILL)
        if code == 0:
            break
        killed += 1
        if (dataset / "manifest.json").exists():
            with pytest.raises(ExistsError):
                pack_tokens([[3, 4, 5]], dataset, vocabulary=10)
            assert stored(dataset) == [[1, 2]]
        else:
            pack_tokens([[3, 4, 5]], dataset, vocabulary=10)
            assert stored(dataset) == [[3, 4, 5]]
    assert killed > 1


def test_a_generator_that_fails_leaves_the_dataset_as_it_was(tmp_path: Path) -> None:
    def failing() -> Iterator[list[int]]:
        yield [1, 2, 3]
        raise OSError("the connection is gone")

    pack_tokens([[7]], tmp_path / "ds", vocabulary=10)
    before = sorted(os.listdir(tmp_path / "ds/shards"))
    with pytest.raises(OSError, match="connection"):
        pack_tokens(failing(), tmp_path / "ds", vocabulary=10, on_existing="append", key_prefix="b")
    assert stored(tmp_path / "ds") == [[7]]
    assert sorted(os.listdir(tmp_path / "ds/shards")) == before
    pack_tokens([[8]], tmp_path / "ds", vocabulary=10, on_existing="append", key_prefix="b")
    assert stored(tmp_path / "ds") == [[7], [8]]
    with pytest.raises(ExistsError):
        pack_tokens([[8]], tmp_path / "ds", vocabulary=10)
    with pytest.raises(SourceError, match="holds no samples"):
        pack_tokens([], tmp_path / "new", vocabulary=10)
    pack_tokens([[]], tmp_path / "empty", vocabulary=10)
    with pytest.raises(UsageError, match="no tokens: column"):
        toolkit.open(tmp_path / "empty").tokens(seq_len=1, batch_size=1)


class TwoColumns(Source):
    """What somebody's own source may give: a text and its translation."""

    def survey(self) -> Survey:
        columns = tuple(token_column(name, TokenEncoding(vocabulary=9)) for name in ("text", "translation"))
        types = {column.name: token_type(9) for column in columns}
        return Survey(
            columns=columns, types=types, classes={}, splits=("train",), slices=(Slice("train", 0, None, 0, None),)
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        raise AssertionError("it was read")

    def place(self, part: Slice, key: str) -> str:
        return key


def test_two_columns_of_tokens_are_not_packed(tmp_path: Path) -> None:
    asked = PackJob(source=str(tmp_path / "given"), dataset=str(tmp_path / "ds"))
    with pytest.raises(
        UsageError, match="can't be packed: the columns 'text' and 'translation' are both of kind tokens"
    ):
        pack(asked, source=TwoColumns())
    assert not (tmp_path / "ds/manifest.json").exists()
