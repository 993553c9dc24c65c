"""Token datasets on the command line: packed from what a shell expands, inspected, verified, benchmarked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import Cli

TEXTS = {"a": ["one", "", "two words"], "b": ["three"], "c": ["four and more"]}


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for name, texts in TEXTS.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    return folder


@pytest.fixture
def packed(cli: Cli, corpus: Path, tmp_path: Path) -> Path:
    dataset = tmp_path / "ds"
    done = cli("pack", *sorted(corpus.iterdir()), dataset, "--tokenizer", "bytes", "--text-column", "body", "--eos")
    assert done.code == 0, done.err
    assert "samples=5" in done.out
    return dataset


def test_many_sources_are_one_dataset(cli: Cli, packed: Path) -> None:
    assert cli("verify", packed, "--full").code == 0
    rows = [json.loads(line) for line in cli("head", packed).out.splitlines()]
    assert [row["tokens"] for row in rows] == [
        [*text.encode(), 256] if text else [] for texts in TEXTS.values() for text in texts
    ]


def test_more_sources_are_in_the_document(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    a, b, c = sorted(corpus.iterdir())
    options = ("--tokenizer", "bytes", "--text-column", "body", "--json")
    found = json.loads(cli("pack", a, b, c, tmp_path / "ds", "--dry-run", *options).out)
    assert (found["options"]["source"], found["options"]["more_sources"]) == (str(a), [str(b), str(c)])
    assert found["columns"] == {"tokens": "tokens"}
    assert not (tmp_path / "ds").exists()


def test_bad_lines_name_file_and_line(cli: Cli, corpus: Path, tmp_path: Path) -> None:
    (corpus / "d.jsonl").write_text('{"body": "good"}\nnot json\n')
    done = cli("pack", corpus, tmp_path / "ds", "--tokenizer", "bytes", "--text-column", "body")
    assert done.code == 3
    assert "d.jsonl#2: not valid JSON" in done.err
    assert cli("pack", corpus, tmp_path / "new", "--tokenizer", "bytes").code == 3  # not one line has "text"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--eos"], "--eos and --eos-token belong to tokens"),
        (["--tokenizer", "byte"], "Did you mean 'bytes'"),
        (["--tokenizer", "bytes", "--columns", "a"], "--columns means nothing with --tokenizer"),
    ],
)
def test_usage_errors(cli: Cli, corpus: Path, tmp_path: Path, options: list[str], said: str) -> None:
    done = cli("pack", corpus, tmp_path / "ds", *options)
    assert done.code == 2
    assert said in done.err


def test_inspect_shows_documents_and_lengths(cli: Cli, packed: Path) -> None:
    found = json.loads(cli("inspect", packed, "--json").out)["tokens"]["tokens"]
    lengths = np.array([len(text) + bool(text) for texts in TEXTS.values() for text in texts])
    assert (found["tokens"], found["documents"], found["longest"]) == (int(lengths.sum()), 5, int(lengths.max()))
    for one in found["histogram"]:
        inside = (lengths >= one["least"]) & (lengths <= one["most"])
        assert (one["documents"], one["tokens"]) == (int(inside.sum()), int(lengths[inside].sum()))
    assert sum(one["documents"] for one in found["histogram"]) == 5
    assert [one["text"] for one in found["first"]] == [text for texts in TEXTS.values() for text in texts]
    text = cli("inspect", packed).out
    assert "257 ids, end of text 256, bytes" in text
    assert "four and more" in text


def test_bench_streams_windows(cli: Cli, packed: Path) -> None:
    done = cli("bench", packed, "--repeats", "1", "--threads", "1", "--seq-len", "8", "--batch-size", "2", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["pipeline"] == "windows of 8 tokens"
    (case,) = document["cases"]
    assert case["runs"][0]["samples"] == 6
    assert case["figures"]["tokens_per_second"]["median"] > 0
